"""Settings of a process in which nothing runs but one server: open files, garbage collector, switches of threads."""

from __future__ import annotations

import gc
import sys

OTHER_FILES = 200  # files besides connections: store, logs, threads; a generous guess
COLLECTED_AFTER = 50_000  # allocated objects between two runs of the garbage collector
SWITCHED_AFTER = 1e-4  # thread switch interval in seconds; Python's default is 5 ms


def allow_files(connections: int) -> None:
    """Raise the limit of open files to the number of connections, as far as the system permits."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + OTHER_FILES
    if resource.RLIM_INFINITY not in (soft, hard):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(needed, hard)), hard))


def tune_interpreter() -> None:
    """Call it when everything is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER, 20, 20)  # requests leave no cycles; collecting took 1/6 of all time
    sys.setswitchinterval(SWITCHED_AFTER)
