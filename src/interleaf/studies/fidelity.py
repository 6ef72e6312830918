"""A study without a paper: the error of each method with unlimited clicks, how fast it falls, and what people saw.

All methods compare the same rankers, drawn anew for each run, on the same queries: two rankers, and five. The truth is
NDCG@10 on the queries of the impressions, so an error that remains is caused by the method and not by the sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from interleaf import plots
from interleaf.clicks import find_cascade, scale_of
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import METHODS, methods
from interleaf.methods.schemes import TOLERANCE
from interleaf.simulate.data import Judged
from interleaf.simulate.run import Result, run
from interleaf.studies.datasets import draw_features, find
from interleaf.studies.study import Answer, Cell, Finding, PrintedTables, Study, StudyRun, Table

NAME, TITLE = "fidelity", "What every method gets wrong with unlimited clicks, and what people saw meanwhile"
CLICKS = ("perfect", "informational")
LEVELS = (0.3, 0.2, 0.1)
MAX_QUERIES = 1000
_REMAINS = "Binary error that remains"
_ONE_SET = "one set of rankers need not show it; the audit has the counterexample"


@dataclass(frozen=True)
class FidelityScale:
    """Impressions per run, and runs by the number of rankers; fewer for methods that are costly to prepare."""

    impressions: int
    runs: dict[int, int]
    costly_runs: dict[int, int]


SCALES = {
    "quick": FidelityScale(50_000, {2: 40, 5: 16}, {2: 40, 5: 4}),
    "paper": FidelityScale(500_000, {2: 200, 5: 50}, {2: 200, 5: 10}),
}


def error_falls(tables: PrintedTables, method: str, expected: bool) -> Answer:
    """Whether the error of five rankers under noisy clicks falls to 0.1, or does not."""
    row = {"rankers": "5", "clicks": "informational", "method": method}
    point = tables.cell(_REMAINS, "impressions to 0.1", **row)
    end = next(name for name in tables.rows(_REMAINS)[0] if name.startswith("at "))
    text = "never" if point == "-" else f"after {point} impressions"
    return f"{tables.cell(_REMAINS, end, **row)} at the end; below .1 {text}", (point != "-") == expected


FINDINGS = (
    Finding("PPM has fidelity (O17)", "proved", error_falls, ("pairwise_preference", True)),
    Finding("probabilistic multileaving has fidelity (O17)", "proved", error_falls, ("probabilistic", True)),
    Finding("SOSM has none (O17)", "counterexample", error_falls, ("sample_scored_only", False)),
    Finding("optimized multileaving has none (O17)", "argued", error_falls, ("optimized", False)),
    Finding("team draft has none (O17)", "counterexample", error_falls, ("team_draft", False), _ONE_SET),
)


@dataclass(frozen=True)
class MethodResult:
    """The result of `simulate.run` for one method, one number of rankers and one kind of people."""

    rankers: int
    method: str
    clicks: str
    result: Result

    @property
    def error(self) -> Array:
        """The binary error by run, at the last impression."""
        return np.asarray(self.result.errors[:, -1])

    @property
    def earlier(self) -> tuple[int, Array]:
        """A tenth of the impressions, and the errors there."""
        points = np.array(self.result.checkpoints)
        at = max(0, int(np.searchsorted(points, points[-1] / 10, side="right")) - 1)
        return int(points[at]), np.asarray(self.result.errors[:, at])

    def impressions_to(self, level: float) -> int | None:
        """The first checkpoint from which on the mean error stays at the level or below; None if there is none."""
        above = np.flatnonzero(self.result.errors.mean(axis=0) > level + TOLERANCE)
        after = int(above[-1]) + 1 if len(above) else 0
        return self.result.checkpoints[after] if after < len(self.result.checkpoints) else None

    def largest_wrong(self) -> float | None:
        """The largest difference of NDCG of two rankers that are compared wrongly at the end; None without any."""
        preferences, truths = self.result.preferences, self.result.truths
        gaps = truths[:, :, None] - truths[:, None, :]
        judged = np.sign(np.where(np.abs(preferences) <= TOLERANCE, 0.0, preferences))
        wrong = np.abs(gaps[judged != np.sign(gaps)])
        return float(wrong.max()) if len(wrong) else None

    def mean_ndcg(self, runs: int) -> dict[str, float]:
        """Over the first runs: the NDCG of the lists shown, of the first ranker's own, and of the best ranker's own."""
        truths = self.result.truths[:runs]
        values = {"shown": self.result.shown_ndcg[:runs], "control": truths[:, 0], "best": truths.max(axis=1)}
        return {name: float(value.mean()) for name, value in values.items()}


def study(task: StudyRun) -> Study:
    """Run every method of the table on a set, or on synthetic queries."""
    size, folds = SCALES[task.scale], find(task.folder, task.seed)
    data = folds.draw_queries(MAX_QUERIES, task.seed)
    counts = [count for count in size.runs if count <= len(data.varying_features())]
    if not counts:
        raise DataError(f"{data.name} has fewer than two features that vary; a study compares rankers made of features")
    cells = [(count, method, clicks) for count in counts for method in comparing(count) for clicks in CLICKS]
    task.total = len(cells)
    results = task.compute(cells, partial(_compare, data, size, task.seed))
    shared = {count: min(size.runs[count], size.costly_runs[count]) for count in size.runs}
    charts = {"error": _error_chart(results), "seen": _ndcg_chart(results, shared)}
    tables = (_table(results, shared),)
    return Study(NAME, TITLE, folds.describe(data), task.scale, tables, charts, _notes(size))


def comparing(rankers: int) -> list[str]:
    """The methods of the table that can compare this number of rankers."""
    return [row.name for row in methods() if row.schemes and rankers <= (row.rankers[1] or rankers)]


def _compare(data: Judged, size: FidelityScale, seed: int, count: int, method: str, clicks: str) -> MethodResult:
    """All runs of one cell."""
    costly, model = (
        METHODS[method].kernels.prepare_batch is not None,
        find_cascade(clicks, grades=scale_of(data.max_grade)),
    )
    rankers = draw_features(data.varying_features().tolist(), count, seed, "features")
    runs = (size.costly_runs if costly else size.runs)[count]
    result = run(data, rankers, method, model, size.impressions, runs, seed)
    if result.interrupted:
        raise KeyboardInterrupt
    return MethodResult(count, method, clicks, result)


def _table(results: Sequence[MethodResult], shared: Mapping[int, int]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in sorted(results, key=lambda one: (one.rankers, CLICKS.index(one.clicks))):
        ndcg = [f"{value:.3f}" for value in one.mean_ndcg(shared[one.rankers]).values()]
        points = [None if (point := one.impressions_to(level)) is None else f"{point:,}" for level in LEVELS]
        gap = None if (wrong := one.largest_wrong()) is None else f"{wrong:.3f}"
        cell = (one.rankers, one.clicks, one.method, one.result.scheme, len(one.error))
        rows.append((*cell, *_errors(one), gap, *points, *ndcg))
    tenth, end = results[0].earlier[0], results[0].result.checkpoints[-1]
    columns = (
        *("rankers", "clicks", "method", "scheme", "runs", f"error at {tenth:,}", f"at {end:,}", "falls"),
        "largest gap wrong",
        *[f"impressions to {level}" for level in LEVELS],
        *("NDCG@10 shown", "control's", "best ranker's"),
    )
    title = "Binary error that remains (standard error over runs), impressions to lesser errors, and what people saw"
    return Table("methods", title, columns, tuple(rows))


def _errors(one: MethodResult) -> tuple[str, str, str]:
    """The error at a tenth of the impressions and at the end, and whether it fell significantly in between."""
    _, before = one.earlier
    fallen = before - one.error
    falls = fallen.mean() > 2 * _standard_error(fallen)
    return _with_error(before), _with_error(one.error), "yes" if falls else "no"


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")


def _with_error(values: Array) -> str:
    """The mean, and its standard error unless all runs agree."""
    error = f" ({_standard_error(values):.3f})" if np.ptp(values) > 0 else ""
    return f"{values.mean():.3f}{error}"


def _error_chart(results: Sequence[MethodResult]) -> dict[str, Any]:
    rows = []
    for one in results:
        panel = f"{one.rankers} rankers, {one.clicks} clicks"
        for point, error in zip(one.result.checkpoints, one.result.errors.mean(axis=0).tolist(), strict=True):
            rows.append({"impressions": point, "binary error": error, "method": one.method, "panel": panel})
    return plots.lines(rows, "impressions", "binary error", "method", "Binary error, truth on the same queries",
                       facet="panel")  # fmt: skip


def _ndcg_chart(results: Sequence[MethodResult], shared: Mapping[int, int]) -> dict[str, Any]:
    """For one kind of people only, because lists do not depend on clicks."""
    rows: list[dict[str, Any]] = []
    y = "NDCG@10 above the control"
    for one in results:
        if one.clicks == CLICKS[0]:
            ndcg = one.mean_ndcg(shared[one.rankers])
            panel = f"{one.rankers} rankers"
            for name, list_of in (("shown", "lists shown"), ("best", "best ranker")):
                rows.append({"method": one.method, "list": list_of, y: ndcg[name] - ndcg["control"], "panel": panel})
    return plots.bars(rows, "method", y, "list", "What people saw, beside the first ranker's own lists", facet="panel")


def _notes(size: FidelityScale) -> list[str]:
    shared = ", ".join(f"{runs} with {count} rankers" for count, runs in size.costly_runs.items())
    return [
        f"{size.impressions:,} impressions a run, k = 10, each method with its default scheme; rankers are single "
        "features drawn anew for each run, the same for every method; ties: an order of its own for each ranker; "
        "truth: NDCG@10 on the queries of the impressions.",
        "Where each query has to be prepared, a method has fewer runs; what people saw is taken over the runs that all "
        f"methods share ({shared}), because those have the same rankers.",
        "falls: the mean error fell between the two columns by more than twice its standard error. Largest gap wrong: "
        "of all pairs of rankers judged wrongly at the end, the largest difference of NDCG. Impressions to an error: "
        "the first checkpoint from which on the mean over runs stays there. The control is the first ranker.",
    ]
