"""Reproductions of published studies, with our numbers next to the published ones.

Each study is a module with `study(run: StudyRun) -> Study` and `FINDINGS`, the claims of the paper. `STUDIES` lists
them all. `study.py` has their arguments and results, and the table of claims that were reproduced; `datasets.py` has
their data.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

from interleaf.errors import DataError, join_names, suggest
from interleaf.studies.study import FinishedCells, Progress, Study, StudyRun, findings_table

STUDIES = {
    "hofmann2011": "accuracy and convergence of interleaving methods (H11)",
    "chapelle2012": "interleaving, absolute metrics and judges: agreement, and the data each takes (C12)",
    "chapelle2012-learning": "what a click is worth, learned from experiments with a known winner (C12, section 10)",
    "historical2012": "old clicks for new rankers (H12h)",
    "caption2012": "clicks that results owe to their captions, and what is left of a preference without (H12c)",
    "oosterhuis2017": "binary error of multileaving methods (O17)",
    "sensitivity": "the traffic that each method and scheme needs to find the better ranker",
    "bandits": "how much regret dueling bandits save, and at which ranker they end",
    "fidelity": "what every method gets wrong with unlimited clicks, and what people saw meanwhile",
}
SCALES = ("quick", "paper")


def reproduce(
    name: str,
    folder: Path | None = None,
    scale: str = "quick",
    seed: int = 1,
    progress: Progress | None = None,
    cells: FinishedCells | None = None,
) -> Study:
    """Run a study on a learning-to-rank set in a folder, or on synthetic data; `cells` stores finished parts."""
    check_study(name, scale)
    module = import_module(f"interleaf.studies.{name.replace('-', '_')}")
    study: Study = module.study(StudyRun(folder, scale, seed, progress, cells or FinishedCells()))
    return replace(study, tables=(*study.tables, findings_table(module.FINDINGS, study.tables)))


def check_study(name: str, scale: str) -> None:
    """Raise an error for a study or a scale that does not exist."""
    if name not in STUDIES:
        raise DataError(f"unknown study {name!r}; known are {suggest(name, STUDIES)}")
    if scale not in SCALES:
        raise DataError(f"unknown scale {scale!r}; give {join_names(SCALES)}")
