"""The kernels of reports, compiled beside the service: by a process of low priority, so that no request waits for them.

They are kept on disk, where every process finds them; else the first report after an installation compiles for many
seconds. `python -m interleaf.serve.warming` does it in the foreground.
"""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Thread
from typing import Any

LOWEST = 19  # of all priorities
UNFINISHED = 1  # the status of one that ended with its service
_BESIDE = "beside"
_TIME = "2026-01-01T00:00:00Z"


def begin() -> subprocess.Popen[bytes]:
    """Have it done by a process that ends with this one, however this one ends."""
    command, silent = [sys.executable, "-m", __name__, _BESIDE], subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=silent, stderr=silent)
    Thread(target=process.wait, name="interleaf-warming", daemon=True).start()
    return process


def compile_reports() -> None:
    """Make a report of few lists by each method and scheme, as the store does; the usual method first."""
    from interleaf.engines.work import Task
    from interleaf.experiment.settings import SETTINGS
    from interleaf.log import rows_to_batch
    from interleaf.methods.table import METHODS
    from interleaf.report.build import report
    from interleaf.report.compare import Settings
    from interleaf.score import Scoring
    from interleaf.store.sums import Sums

    usual = SETTINGS["method"].default
    for method in sorted(METHODS.values(), key=lambda method: method.name != usual):
        for scheme in method.schemes:
            task = Task(Scoring(scheme), by=("device",))
            sums = Sums(task)
            sums.add(rows_to_batch(_rows(method.name)))
            tally = Sums.of_bytes(sums.to_bytes(), task).close()
            if tally is not None:
                report(tally, Settings()).to_json()


def _rows(method: str) -> list[dict[str, Any]]:
    """A list that was interleaved and one of a holdout, both clicked, on some device."""
    from interleaf.interleaving import interleave
    from interleaf.methods.table import unchanged
    from interleaf.schema import HOLDOUT, INTERLEAVED

    rankings = {"one": ["a", "b", "c"], "other": ["c", "b", "a"]}
    click = {"event": "e", "kind": "click", "rank": 1, "time": _TIME}
    rows = []
    for arm, composed in ((INTERLEAVED, method), (HOLDOUT, str(unchanged("one")))):
        about = {"experiment": "warming", "version": 1, "impression": arm, "unit": arm, "arm": arm}
        shown = interleave(rankings, composed, key=arm).to_dict()
        rows.append(shown | about | {"time": _TIME, "events": [click], "attributes": {"device": "phone"}})
    return rows


def _end_with_the_service() -> None:
    """Its end of the pipe is closed when it is gone."""
    sys.stdin.buffer.read()
    os._exit(UNFINISHED)


if __name__ == "__main__":
    if _BESIDE in sys.argv:
        os.nice(LOWEST)
        Thread(target=_end_with_the_service, daemon=True).start()
    compile_reports()
