"""Compiles kernels in other processes; the service loads them from disk.

If the service compiled them itself, it would keep the memory of the compiler. Kernels of reports are compiled in a
background process of low priority, and reports wait for it. When it has ended, a file beside the kernels says so, and
further starts of the same code need no such process. Kernels that compose lists are compiled when an experiment is
started; the start waits for them. `python -m interleaf.server.warming` compiles the report kernels and exits.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interleaf.experiment import Experiment

LISTS = "--lists"  # command line argument: compile the kernels that compose lists
LOWEST = 19  # priority
UNFINISHED = 1  # exit status of a process that ended with its service
MAX_WAIT = 600.0  # seconds; after that, the service compiles by itself
POLL_SECONDS = 0.1
_TIME = "2026-01-01T00:00:00Z"


class Progress:
    """The progress of the process with this folder. The folder is removed when the process ends for any reason."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._until = folder, time.monotonic() + MAX_WAIT

    def is_ready(self, method: str | None = None) -> bool:
        """Whether nobody needs to wait for the kernels of a method, or of all methods."""
        if self._folder is not None and (not self._folder.is_dir() or time.monotonic() >= self._until):
            self._folder = None
        return self._folder is None or (method is not None and (self._folder / method).exists())

    async def wait(self, method: str | None = None) -> None:
        """Wait until `is_ready`, without blocking a thread."""
        while not self.is_ready(method):
            await asyncio.sleep(POLL_SECONDS)


def begin() -> tuple[subprocess.Popen[bytes], Path]:
    """Start the process that compiles report kernels; it ends when this process ends for any reason.

    Returns it, and the folder where it creates a file for each method that is ready.
    """
    folder = Path(tempfile.mkdtemp(prefix="interleaf-warming-"))
    command, silent = [sys.executable, "-m", __name__, str(folder)], subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=silent, stderr=silent)

    def remove_at_end() -> None:
        with process:  # closes the pipe
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)

    Thread(target=remove_at_end, name="interleaf-warming", daemon=True).start()
    return process, folder


def is_done() -> bool:
    """Whether the report kernels of this code are on disk, compiled for this processor."""
    file = _completion_file()
    return file is not None and file.exists()


def compile_all(mark_ready: Callable[[str], None] = lambda method: None) -> None:
    """Compile all report kernels, and note on disk that this was done."""
    compile_reports(mark_ready)
    if (file := _completion_file()) is not None:
        file.touch()


def _completion_file() -> Path | None:
    """Beside the compiled kernels, named by all that they depend on; None if they cannot be stored."""
    import numba
    from llvmlite import binding  # type: ignore[import-untyped]

    from interleaf.kernels.jit import folder_of
    from interleaf.methods.registry import DEFAULT, METHODS

    folder = folder_of(METHODS[DEFAULT].kernels.compose)
    if folder is None:
        return None
    features = sorted(binding.get_host_cpu_features().items())
    digest = blake2b(f"{numba.__version__} {sys.version} {binding.get_host_cpu_name()} {features}".encode())
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return folder / f"interleaf-reports-{digest.hexdigest()[:32]}"


def needs_compiling(settings: Experiment) -> bool:
    """Whether the kernels that compose lists of an experiment can be cached on disk, and are not yet."""
    from interleaf.kernels.jit import is_compiled, is_on_disk

    kernels = settings.resolved_method.method.kernels
    return is_compiled(kernels.compose) and not (is_on_disk(kernels.compose) and is_on_disk(kernels.compose_batch))


def compile_lists(settings: Experiment) -> None:
    """Compile the kernels that compose lists of an experiment, in a process of its own."""
    command = [sys.executable, "-m", __name__, LISTS]
    data, silent = json.dumps(settings.to_dict()).encode(), subprocess.DEVNULL
    subprocess.run(command, input=data, stdout=silent, stderr=silent, timeout=MAX_WAIT, check=False)


def compile_reports(mark_ready: Callable[[str], None] = lambda method: None) -> None:
    """Compute a small report with each method and scheme, as the store does; the default method first."""
    from interleaf.decode.scoring import Scoring
    from interleaf.execution.task import Task
    from interleaf.log import rows_to_batch
    from interleaf.methods.registry import DEFAULT, METHODS
    from interleaf.report.build import report
    from interleaf.report.rule import ReportSettings
    from interleaf.store.fold import FoldedSums

    for method in sorted(METHODS.values(), key=lambda method: method.name != DEFAULT):
        for scheme in method.schemes or (None,):
            task = Task(Scoring(scheme), by=("device",))
            sums = FoldedSums(task)
            sums.add(rows_to_batch(_rows(method.name)))
            tally = FoldedSums.of_bytes(sums.to_bytes(), task).close()
            if tally is not None:
                report(tally, ReportSettings()).to_json()
        mark_ready(method.name)


def _rows(method: str) -> list[dict[str, Any]]:
    """Two rows with clicks: an interleaved list and one of the holdout."""
    from interleaf.interleaving.api import interleave
    from interleaf.log.schema import HOLDOUT, arm_of
    from interleaf.methods.registry import show_unchanged

    rankings = {"one": ["a", "b", "c"], "other": ["c", "b", "a"]}
    click = {"event": "e", "kind": "click", "rank": 1, "time": _TIME}
    rows = []
    for name, composed in (("compared", method), (HOLDOUT, str(show_unchanged("one")))):
        shown = interleave(rankings, composed, key=name)
        arm = HOLDOUT if name == HOLDOUT else arm_of(shown.method, shown.rankers, shown.teams, shown.key)
        about = {"experiment": "warming", "version": 1, "impression": name, "unit": name, "arm": arm}
        more = {"time": _TIME, "events": [click], "attributes": {"device": "phone"}}
        rows.append(shown.to_dict() | about | more)
    return rows


def _run_beside(folder: Path) -> None:
    os.nice(LOWEST)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the service, and that ends this process

    def end_with_the_service() -> None:  # it closes its end of the pipe; a buffered read would abort the interpreter
        os.read(sys.stdin.fileno(), 1)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(UNFINISHED)

    Thread(target=end_with_the_service, daemon=True).start()
    from interleaf.kernels.jit import is_compiled
    from interleaf.methods.registry import DEFAULT, METHODS

    if is_compiled(METHODS[DEFAULT].kernels.compose):  # otherwise nothing is cached on disk, and this is useless
        compile_all(lambda method: (folder / method).touch())


if __name__ == "__main__":
    if sys.argv[1:] == [LISTS]:
        from interleaf.experiment import Experiment
        from interleaf.interleaving.api import warm_composing

        settings = Experiment.of(json.load(sys.stdin))
        warm_composing(settings.method, settings.rankers_per_list)
    elif len(sys.argv) > 1:
        _run_beside(Path(sys.argv[1]))
    else:
        compile_all()
