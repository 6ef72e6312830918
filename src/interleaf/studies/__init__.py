"""Published studies, run again: one file each, its published numbers beside ours.

A study's module has `study(folder, scale, seed, progress, cells) -> Study`, and `FINDINGS`, what the paper found; the
table below is all that names them. `study.py` is the result of a study, and keeps the finished parts of one that is
interrupted; `findings.py` says which published findings came back.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

from interleaf.errors import DataError, listed, suggest
from interleaf.studies.findings import findings_table
from interleaf.studies.study import NO_CELLS, Cells, Progress, Study

STUDIES = {
    "hofmann2011": "accuracy and convergence of interleaving methods (H11)",
    "chapelle2012": "interleaving, absolute metrics and judges: agreement, and the data each takes (C12)",
    "chapelle2012-learning": "what a click is worth, learned from experiments with a known winner (C12, section 10)",
    "historical2012": "old clicks for new rankers (H12h)",
    "caption2012": "clicks that results owe to their captions, and what is left of a preference without (H12c)",
    "oosterhuis2017": "binary error of multileaving methods (O17)",
    "fidelity": "what every method gets wrong with unlimited clicks, and what people saw meanwhile",
}
SCALES = ("quick", "paper")


def reproduce(
    name: str,
    folder: Path | None = None,
    scale: str = "quick",
    seed: int = 1,
    progress: Progress | None = None,
    cells: Cells = NO_CELLS,
) -> Study:
    """Run a study on a learning-to-rank set in a folder, or on synthetic data; `cells` keeps what is finished."""
    check_study(name, scale)
    module = import_module(f"interleaf.studies.{name.replace('-', '_')}")
    made: Study = module.study(folder, scale, seed, progress, cells)
    return replace(made, tables=(*made.tables, findings_table(module.FINDINGS, made.tables)))


def check_study(name: str, scale: str) -> None:
    """Refuse a study or a scale that does not exist."""
    if name not in STUDIES:
        raise DataError(f"unknown study {name!r}; known are {suggest(name, STUDIES)}")
    if scale not in SCALES:
        raise DataError(f"unknown scale {scale!r}; give {listed(SCALES)}")
