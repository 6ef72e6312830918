"""What the first use of each verb costs after an installation, when no kernel is compiled; and what the second costs.

`python -m benchmarks.first_use [VERB...]`. Processor seconds, which other work on the machine changes little.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import interleaf

README = """
import interleaf
shown = interleaf.interleave({"production": ["d4", "d1", "d7"], "candidate": ["d1", "d9", "d4"]}, key="user-0")
interleaf.credit(shown, clicks=[1, 3])
"""
LOG = ("--out", "world.parquet")
VERBS: dict[str, Sequence[str]] = {
    "simulate": ("--rankers", "1", "5", "--impressions", "20000", *LOG),
    "analyze": ("world.parquet", "--out", "report.html"),
    "audit": ("team_draft",),
    "plan": ("--effect", "0.02", "--impressions-per-unit", "3", "--correlation", "0.1"),
    "reproduce": ("hofmann2011",),
    "demo": ("--until-decided",),
}


def tables(verbs: Sequence[str] = ("readme", *VERBS)) -> Iterator[str]:
    """Processor seconds of the first and of the second run."""
    yield "\nfirst use: processor seconds of a command with nothing compiled, and of the same command again"
    yield f"{'':12}{'first':>10}{'second':>10}{'difference':>12}"
    with tempfile.TemporaryDirectory() as folder:
        if "analyze" in verbs:
            _seconds("simulate", Path(folder), "log")
        for verb in verbs:
            first, second = (_seconds(verb, Path(folder), verb) for _ in range(2))
            yield f"{verb:12}{first:>10.1f}{second:>10.1f}{first - second:>12.1f}"


def _seconds(verb: str, folder: Path, cache: str) -> float:
    """Processor seconds of a process and its children."""
    code = README if verb == "readme" else f"from interleaf.cli import main; main({[verb, *VERBS[verb]]!r})"
    source = str(Path(interleaf.__file__).parents[1])  # the command runs in another folder
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / cache), "PYTHONPATH": source}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    for line in tables(sys.argv[1:] or ("readme", *VERBS)):
        print(line, flush=True)
