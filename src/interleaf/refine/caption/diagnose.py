"""A log to a diagnosis of caption bias: thresholds, models, how well they foretell, scores with and without, verdict.

The log is read four times: for thresholds and kinds of queries, for patterns, to see what holds between queries, and
for all that needs the models. What is held in memory are sums, patterns, and the queries with their clicked documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from interleaf.decode import Counting
from interleaf.decode.attributes import Exclusion
from interleaf.engines.passes import Passes, S
from interleaf.engines.work import Task
from interleaf.errors import DataError
from interleaf.log import Progress
from interleaf.methods.arrays import Array
from interleaf.refine.caption.features import Feature
from interleaf.refine.caption.findings import Findings
from interleaf.refine.caption.model import Model
from interleaf.refine.caption.report import CaptionReport
from interleaf.refine.caption.results import CaptionTask, Results, results_of
from interleaf.refine.caption.segments import Kinds
from interleaf.refine.caption.settings import Settings
from interleaf.refine.caption.survey import Alike, Between, Survey
from interleaf.refine.caption.training import COMBINED, confirmed, train
from interleaf.score import Scoring


def diagnose(
    log: Any,
    model: Model | None = None,
    *,
    method: str | None = None,
    events: str | Mapping[str, float] = "click",
    dwell: float | None = None,
    first: bool = False,
    window: float | None = None,
    experiment: str | None = None,
    version: int | None = None,
    exclude: Exclusion | None = None,
    engine: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> CaptionReport:
    """Whether caption bias explains what a log prefers; `log` and its options as `analyze` takes them.

    Without a `model` of earlier clicks, the log's own are learned from. More settings are those of `Settings`.

    >>> from interleaf.simulate import People, World, synthetic
    >>> people = People(clicks="realistic", captions=1.5, captions_lean=1)
    >>> world = World(synthetic(queries=200, features=2, strengths=[0.5, 0.5], seed=1), [1, 2], people)
    >>> diagnose(world.batches(3000, captions=True)).verdicts[0].kind
    'explained'
    """
    chosen, counting = Settings(**settings), Counting(events, dwell, first, window)
    scoring = Scoring(method=method, counting=counting)
    task = CaptionTask(scoring, (), exclude or Exclusion(), experiment, version)
    passes = Passes(log, task, engine, progress)
    features, kinds = _surveyed(passes, chosen)
    models = {model.name: model} if model else _trained(passes, features, chosen)
    findings = Findings(models, model or models[COMBINED], scoring, chosen, model is None)
    return _over(passes, findings, partial(Findings.add, kinds=kinds)).report()


def _over(passes: Passes[CaptionTask], empty: S, add: Callable[[S, Results], None]) -> S:
    """Sums over all results of the log."""
    return passes.summed(empty, partial(_add_batch, add))


def _add_batch(add: Callable[[S, Results], None], sums: S, batch: pa.RecordBatch, task: Task, repeated: Array) -> None:
    for results in results_of(batch, task, repeated, sums.dropped):
        add(sums, results)


def _surveyed(passes: Passes[CaptionTask], settings: Settings) -> tuple[tuple[Feature, ...], Kinds]:
    """Thresholds from the training units, and the kinds of all queries."""
    survey = _over(passes, Survey(settings), Survey.add)
    if not survey.pages:
        why = "; ".join(f"{reason}: {number:,}" for reason, number in survey.dropped.most_common(3))
        raise DataError(f"the log has no impression with captions that can be used{why and ' (' + why + ')'}")
    return survey.features(), survey.queries.kinds()


def _trained(passes: Passes[CaptionTask], features: Sequence[Feature], settings: Settings) -> dict[str, Model]:
    """The five models, with features that hold between queries."""
    patterns = _over(passes, Alike(features, settings), Alike.add).patterns.ordered()
    models = train(patterns, features)
    gradients = _over(passes, Between(models, features, settings), Between.add).gradients
    between = {name: found for name, one in gradients.items() if (found := one.covariance()) is not None}
    return confirmed(models, patterns, between)
