"""`caption`: diagnoses caption bias in a log.

The log is read four times: for thresholds and kinds of queries; for patterns; to test which features are significant
between queries; and to apply the models. Memory holds sums, patterns, and the queries with their clicked documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from interleaf.caption_bias.diagnosis_report import MIN_JUDGED, CaptionReport, ExplainedPage, explain_pages, verdict
from interleaf.caption_bias.features import FEATURES, FIRST, GRADE, CaptionFeature, encode
from interleaf.caption_bias.logistic_model import PROBABILITY, CaptionModel
from interleaf.caption_bias.shown_results import (
    CaptionTask,
    Patterns,
    QueryCounts,
    QueryKinds,
    ShownResults,
    results_of,
)
from interleaf.caption_bias.training import (
    BEST,
    COMBINED,
    DiagnosisSettings,
    Losses,
    MeasureCounts,
    Preferences,
    confirm_features,
    train,
    tune_thresholds,
)
from interleaf.caption_bias.weighted_scores import Gradients, WeightedScores
from interleaf.decode.columns import Exclusion
from interleaf.decode.scoring import Scoring
from interleaf.errors import DataError
from interleaf.execution.options import LogOptions
from interleaf.execution.passes import MergeableSums, Passes
from interleaf.execution.task import Task
from interleaf.kernels.arrays import Array
from interleaf.log import Progress
from interleaf.log.drop_reasons import text_of


class CaptionSurvey(MergeableSums):
    """Counts for the thresholds of features, and the queries of the log."""

    merged = ("pages", "queries", "counts", "dropped")

    def __init__(self, settings: DiagnosisSettings) -> None:
        self._settings = settings
        self.counts, self.queries, self.pages = MeasureCounts(), QueryCounts(), 0
        self.dropped: Counter[str] = Counter()

    def add(self, results: ShownResults) -> None:
        self.pages += len(results.counts)
        self.queries.add(results)
        rows, codes = self._settings.training(results.bucket), _codes((), results)
        self.counts.add(results.measures[rows], codes[rows], results.clicked[rows])


class TrainingPatterns(MergeableSums):
    """The patterns of the training units' results."""

    merged = ("patterns", "dropped")

    def __init__(self, features: Sequence[CaptionFeature], settings: DiagnosisSettings) -> None:
        self._features, self._settings = features, settings
        self.patterns = Patterns.of(np.zeros((0, FIRST + len(features)), np.int8), np.zeros(0, np.bool_))
        self.dropped: Counter[str] = Counter()

    def add(self, results: ShownResults) -> None:
        rows = self._settings.training(results.bucket)
        self.patterns += Patterns.of(_codes(self._features, results)[rows], results.clicked[rows])


class ModelGradients(MergeableSums):
    """The gradients of models, by name, on the results that they were fitted to."""

    merged = ("gradients", "dropped")

    def __init__(
        self, models: Mapping[str, CaptionModel], features: Sequence[CaptionFeature], settings: DiagnosisSettings
    ) -> None:
        self._features, self._settings = features, settings
        self.gradients = {name: Gradients(model) for name, model in models.items()}
        self.dropped: Counter[str] = Counter()

    def add(self, results: ShownResults) -> None:
        codes, training = _codes(self._features, results), self._settings.training(results.bucket)
        for one in self.gradients.values():
            one.add(results, codes, training)


def _codes(features: Sequence[CaptionFeature], results: ShownResults) -> Array:
    return encode(features, results.measures, results.counts, results.grades)


class DiagnosisSums(MergeableSums):
    """The sums over a log that the report needs."""

    merged = ("_losses", "_preferences", "_scores", "_pages", "_counts", "dropped")

    def __init__(
        self,
        models: Mapping[str, CaptionModel],
        main: CaptionModel,
        scoring: Scoring,
        settings: DiagnosisSettings,
        trained_here: bool,
    ) -> None:
        self._models, self._main, self._settings, self._trained_here = models, main, settings, trained_here
        self._losses = {relevance: Losses(models, relevance) for relevance in {main.is_judged, False}}
        self._preferences = Preferences(models)
        self._scores, self._method = WeightedScores(main, scoring, trained_here), scoring.method
        self._pages: list[ExplainedPage] = []
        self._counts: Counter[str] = Counter(impressions=0, results=0, clicks=0, judged=0)
        self.dropped: Counter[str] = Counter()

    def add(self, results: ShownResults, kinds: QueryKinds) -> None:
        """Add results; `kinds` are the kinds of their queries."""
        segments = kinds.of(results, self._settings.flag)
        codes = _codes(self._main.features, results)
        training = self._settings.training(results.bucket) & self._trained_here
        for losses in self._losses.values():
            losses.add(results, codes, ~training, segments)
        self._preferences.add(results, codes)
        self._scores.add(results, codes, training)
        if self._settings.page is not None:
            page, kind = self._settings.page, self._settings.weights
            self._pages += explain_pages(results, codes, self._main, page, kind, self._method)
        self._counts["impressions"] += len(results.counts)
        self._counts["results"] += len(codes)
        self._counts["clicks"] += int(results.clicked.sum())
        self._counts["judged"] += int((codes[:, GRADE] > 0).sum())

    def report(self) -> CaptionReport:
        settings, judged = self._settings, self._main.is_judged
        if settings.page is not None and not self._pages:
            raise DataError(f"the log has no impression {settings.page!r} that can be used; give the id of one")
        rescored = self._scores.rescore(settings.confidence)
        enough = self._counts["judged"] >= MIN_JUDGED * self._counts["results"] or not self._trained_here
        decide = partial(verdict, weights=settings.weights, confidence=settings.confidence, is_judged=judged and enough)
        return CaptionReport(
            **self._counts,
            dropped=dict(+self.dropped),
            others=self._scores.others,
            models=self._models,
            main=self._main.name,
            weights=settings.weights,
            confidence=settings.confidence,
            perplexities=self._losses[judged].perplexities(),
            unjudged_perplexities=self._losses[False].perplexities() if judged else (),
            preferences=self._preferences.compare(),
            rescored=rescored,
            verdicts=tuple(map(decide, rescored)),
            page=self._pages[0] if self._pages else None,
        )


def caption(
    log: Any,
    model: CaptionModel | None = None,
    *,
    features: Sequence[CaptionFeature] = FEATURES,
    tune: str = BEST,
    held_out: float = 0.3,
    weights: str = PROBABILITY,
    navigational: tuple[str, str] | None = None,
    impression: str | None = None,
    confidence: float = 0.95,
    method: str | None = None,
    events: str | Mapping[str, float] = "click",
    dwell: float | None = None,
    first: bool = False,
    window: float | None = None,
    experiment: str | None = None,
    version: int | None = None,
    exclude: Exclusion | Mapping[str, Collection[str]] | None = None,
    engine: str | None = None,
    progress: Progress | None = None,
) -> CaptionReport:
    """Test whether captions explain the preference in a log.

    Without a `model`, click models are learned from the log: `features` are the caption features, `tune` says
    how thresholds of features are chosen ("best", "quartiles" or "none"), and `held_out` is the share of units that
    the models are tested on. Clicks are weighted by "probability" or by "odds" (`weights`). `navigational` is the
    attribute and value of enhanced navigational pages. `impression` is the id of an impression to explain. All other
    options are those of `analyze`.

    >>> from interleaf.simulate import People, World, synthetic
    >>> people = People(clicks="realistic", caption_strength=1.5, caption_lean=1)
    >>> world = World(synthetic(queries=200, features=2, strengths=[0.5, 0.5], seed=1), [1, 2], people)
    >>> caption(world.batches(3000, captions=True)).verdicts[0].kind
    'explained'
    """
    options = LogOptions.of_arguments(locals())
    settings = DiagnosisSettings(features, tune, held_out, weights, confidence, navigational, impression)
    task = options.task(CaptionTask)
    passes = Passes(log, task, options)
    tuned_features, kinds = _survey(passes, settings)
    models = {model.name: model} if model else _train(passes, tuned_features, settings)
    findings = DiagnosisSums(models, model or models[COMBINED], task.scoring, settings, model is None)
    return passes.add_up(findings, partial(_add_batch, kinds=kinds)).report()


def _add_batch(sums: Any, batch: pa.RecordBatch, task: Task, repeated: Array, **arguments: Any) -> None:
    for results in results_of(batch, task, repeated, sums.dropped):
        sums.add(results, **arguments)


def _survey(passes: Passes[CaptionTask], settings: DiagnosisSettings) -> tuple[tuple[CaptionFeature, ...], QueryKinds]:
    """Thresholds from the training units, and the kinds of all queries."""
    survey = passes.add_up(CaptionSurvey(settings), _add_batch)
    if not survey.pages:
        why = "; ".join(f"{text_of(reason)}: {number:,}" for reason, number in survey.dropped.most_common(3))
        raise DataError(f"the log has no impression with captions that can be used{why and ' (' + why + ')'}")
    return tune_thresholds(settings.features, survey.counts, settings.tune), survey.queries.kinds()


def _train(
    passes: Passes[CaptionTask], features: Sequence[CaptionFeature], settings: DiagnosisSettings
) -> dict[str, CaptionModel]:
    """The five models, with features that are significant between queries."""
    patterns = passes.add_up(TrainingPatterns(features, settings), _add_batch).patterns.sort()
    models = train(patterns, features)
    gradients = passes.add_up(ModelGradients(models, features, settings), _add_batch).gradients
    return confirm_features(models, patterns, {name: one.covariance() for name, one in gradients.items()})
