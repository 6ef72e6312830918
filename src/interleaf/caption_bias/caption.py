"""A log to a diagnosis of caption bias: thresholds, models, how well they foretell, scores with and without, verdict.

The log is read four times: for thresholds and kinds of queries, for patterns, to see what holds between queries, and
for all that needs the models. What is held in memory are sums, patterns, and the queries with their clicked documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from interleaf.caption_bias.click_patterns import Patterns
from interleaf.caption_bias.diagnosis_report import FEWEST_JUDGED, CaptionReport, Page, explained, verdict
from interleaf.caption_bias.features import FEATURES, FIRST, GRADE, Encoder, Feature
from interleaf.caption_bias.logistic_model import PROBABILITY, Model
from interleaf.caption_bias.shown_results import CaptionTask, Kinds, Queries, Results, results_of
from interleaf.caption_bias.training import (
    BEST,
    COMBINED,
    Losses,
    Preferences,
    Settings,
    Table,
    confirmed,
    train,
    tuned,
)
from interleaf.caption_bias.weighted_scores import Gradients, Scores
from interleaf.decode.attributes import Exclusion
from interleaf.decode.scoring import Scoring
from interleaf.errors import DataError
from interleaf.execution.options import LogOptions
from interleaf.execution.passes import Passes, S
from interleaf.execution.task import Task
from interleaf.kernels.arrays import Array
from interleaf.log import Progress


class Survey:
    """Measures of the training units' results, from which thresholds follow, and the queries of all."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._table, self.queries, self.pages = Table(), Queries(), 0
        self.dropped: Counter[str] = Counter()

    def add(self, results: Results) -> None:
        """Count results in."""
        self.pages += len(results.counts)
        self.queries.add(results)
        rows, codes = self._settings.training(results.bucket), _codes((), results)
        self._table.add(results.measures[rows], codes[rows], results.clicked[rows])

    def merge(self, other: Survey) -> None:
        """Count other results in."""
        self.pages += other.pages
        self.queries.merge(other.queries)
        self._table.merge(other._table)
        self.dropped += other.dropped

    def features(self) -> tuple[Feature, ...]:
        """Features with their thresholds."""
        return tuned(self._settings.features, self._table, self._settings.tune)


class Alike:
    """The patterns of the training units' results."""

    def __init__(self, features: Sequence[Feature], settings: Settings) -> None:
        self._features, self._settings = features, settings
        self.patterns = Patterns.of(np.zeros((0, FIRST + len(features)), np.int8), np.zeros(0, np.bool_))
        self.dropped: Counter[str] = Counter()

    def add(self, results: Results) -> None:
        """Count results in."""
        rows = self._settings.training(results.bucket)
        self.patterns += Patterns.of(_codes(self._features, results)[rows], results.clicked[rows])

    def merge(self, other: Alike) -> None:
        """Count other results in."""
        self.patterns += other.patterns
        self.dropped += other.dropped


class Between:
    """The gradients of models, by name, in the results that taught them."""

    def __init__(self, models: Mapping[str, Model], features: Sequence[Feature], settings: Settings) -> None:
        self._features, self._settings = features, settings
        self.gradients = {name: Gradients(model) for name, model in models.items()}
        self.dropped: Counter[str] = Counter()

    def add(self, results: Results) -> None:
        """Count results in."""
        codes, training = _codes(self._features, results), self._settings.training(results.bucket)
        for one in self.gradients.values():
            one.add(results, codes, training)

    def merge(self, other: Between) -> None:
        """Count other results in."""
        for name, one in self.gradients.items():
            one.merge(other.gradients[name])
        self.dropped += other.dropped


def _codes(features: Sequence[Feature], results: Results) -> Array:
    return Encoder(features).encode(results.measures, results.counts, results.grades)


class Findings:
    """Sums over the results of a log; two of them make one."""

    def __init__(
        self, models: Mapping[str, Model], main: Model, scoring: Scoring, settings: Settings, trained_here: bool
    ) -> None:
        self._models, self._main, self._settings, self._trained_here = models, main, settings, trained_here
        self._losses = {relevance: Losses(models, relevance) for relevance in {main.is_judged, False}}
        self._preferences = Preferences(models)
        self._scores, self._method = Scores(main, scoring, trained_here), scoring.method
        self._pages: list[Page] = []
        self._counts: Counter[str] = Counter(impressions=0, results=0, clicks=0, judged=0)
        self.dropped: Counter[str] = Counter()

    def add(self, results: Results, kinds: Kinds) -> None:
        """Count results in; `kinds` tells of their queries."""
        segments = kinds.of(results, self._settings.flag)
        codes = self._main.encoder.encode(results.measures, results.counts, results.grades)
        training = self._settings.training(results.bucket) & self._trained_here
        for losses in self._losses.values():
            losses.add(results, codes, ~training, segments)
        self._preferences.add(results, codes)
        self._scores.add(results, codes, training)
        if self._settings.page is not None:
            page, kind = self._settings.page, self._settings.weights
            self._pages += explained(results, codes, self._main, page, kind, self._method)
        self._counts["impressions"] += len(results.counts)
        self._counts["results"] += len(codes)
        self._counts["clicks"] += int(results.clicked.sum())
        self._counts["judged"] += int((codes[:, GRADE] > 0).sum())

    def merge(self, other: Findings) -> None:
        """Count what was found in other results in."""
        for relevance, losses in self._losses.items():
            losses.merge(other._losses[relevance])
        self._preferences.merge(other._preferences)
        self._scores.merge(other._scores)
        self._pages += other._pages
        self._counts.update(other._counts)
        self.dropped += other.dropped

    def report(self) -> CaptionReport:
        """All of it."""
        settings, judged = self._settings, self._main.is_judged
        if settings.page is not None and not self._pages:
            raise DataError(f"the log has no impression {settings.page!r} that can be used; give the id of one")
        rescored = self._scores.rescored(settings.confidence)
        enough = self._counts["judged"] >= FEWEST_JUDGED * self._counts["results"] or not self._trained_here
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
            preferences=self._preferences.found(),
            rescored=rescored,
            verdicts=tuple(map(decide, rescored)),
            page=self._pages[0] if self._pages else None,
        )


def caption(
    log: Any,
    model: Model | None = None,
    *,
    features: Sequence[Feature] = FEATURES,
    tune: str = BEST,
    held_out: float = 0.3,
    weights: str = PROBABILITY,
    flag: tuple[str, str] | None = None,
    page: str | None = None,
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
    """Whether captions explain the preference in a log.

    Without a `model`, click models are learned from the log: `features` are what they know of a caption, `tune` says
    how thresholds of features are chosen ("best", "quartiles" or "none"), and `held_out` is the share of units that
    the models are tested on. Clicks are weighted by "probability" or by "odds" (`weights`). `flag` is the attribute and
    value of enhanced navigational pages. `page` is the id of an impression to explain. All other options are those of
    `analyze`.

    >>> from interleaf.simulate import People, World, synthetic
    >>> people = People(clicks="realistic", captions=1.5, captions_lean=1)
    >>> world = World(synthetic(queries=200, features=2, strengths=[0.5, 0.5], seed=1), [1, 2], people)
    >>> caption(world.batches(3000, captions=True)).verdicts[0].kind
    'explained'
    """
    options = LogOptions.of_arguments(locals())
    settings = Settings(features, tune, held_out, weights, confidence, flag, page)
    task = options.task(CaptionTask)
    passes = Passes(log, task, options)
    tuned_features, kinds = _surveyed(passes, settings)
    models = {model.name: model} if model else _trained(passes, tuned_features, settings)
    findings = Findings(models, model or models[COMBINED], task.scoring, settings, model is None)
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
