"""A log to a diagnosis of caption bias: thresholds, models, how well they foretell, scores with and without, verdict.

The log is read four times: for thresholds and kinds of queries, for patterns, to see what holds between queries, and
for all that needs the models. What is held in memory are sums, patterns, and the queries with their clicked documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from interleaf.buckets import BUCKETS
from interleaf.decode import Counting
from interleaf.decode.attributes import Exclusion
from interleaf.errors import DataError, listed
from interleaf.log import Progress
from interleaf.methods.arrays import Array
from interleaf.refine.caption.features import FEATURES, FIRST, GRADE, Encoder, Feature
from interleaf.refine.caption.gradients import Gradients
from interleaf.refine.caption.model import ODDS, PROBABILITY, Model
from interleaf.refine.caption.page import Page, explained
from interleaf.refine.caption.patterns import Patterns
from interleaf.refine.caption.perplexity import Losses
from interleaf.refine.caption.preferences import Preferences
from interleaf.refine.caption.report import CaptionReport
from interleaf.refine.caption.results import CaptionTask, Pages, Results
from interleaf.refine.caption.scores import Scores
from interleaf.refine.caption.segments import Kinds, Queries
from interleaf.refine.caption.training import COMBINED, confirmed, train
from interleaf.refine.caption.tuning import BEST, Table, tuned
from interleaf.refine.caption.verdict import verdict
from interleaf.score import Scoring
from interleaf.stats.sums import significance


@dataclass(frozen=True)
class Settings:
    """How a log is diagnosed.

    `tune`: thresholds by `quartiles`, the `best` fit, or `none`, as `features` says. `held_out`: the share of units
    whose clicks the models must foretell. `weights`: which kind the verdict rests on. `flag`: the attribute and value
    of enhanced navigational pages. `page`: an impression to explain.
    """

    features: Sequence[Feature] = FEATURES
    tune: str = BEST
    held_out: float = 0.3
    weights: str = PROBABILITY
    confidence: float = 0.95
    flag: tuple[str, str] | None = None
    page: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise DataError(f"held_out is {self.held_out!r}; give a share of the units from 0 to below 1")
        if self.weights not in (ODDS, PROBABILITY):
            raise DataError(f"clicks cannot be weighted by {self.weights!r}; give {listed((ODDS, PROBABILITY))}")
        significance(self.confidence)  # refuses what is none

    def training(self, bucket: Array) -> Array:
        """Which buckets teach; the others are held out."""
        return bucket < round(BUCKETS * (1 - self.held_out))


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
    pages = Pages(log, CaptionTask(scoring, (), exclude or Exclusion(), experiment, version), progress)
    features, kinds = _survey(pages, chosen)
    models = {model.name: model} if model else _trained(pages, features, chosen)
    findings = _Findings(models, model or models[COMBINED], scoring, chosen, model is None)
    for results in pages:
        findings.add(results, kinds.of(results, chosen.flag))
    return findings.report(pages.dropped)


def _survey(pages: Pages, settings: Settings) -> tuple[tuple[Feature, ...], Kinds]:
    """Thresholds from the training units, and the kinds of all queries."""
    table, queries, encoder, seen = Table(), Queries(), Encoder(()), False
    for results in pages:
        seen = True
        queries.add(results)
        rows = settings.training(results.bucket)
        codes = encoder.encode(results.measures, results.counts, results.grades)
        table.add(results.measures[rows], codes[rows], results.clicked[rows])
    if not seen:
        why = "; ".join(f"{reason}: {number:,}" for reason, number in pages.dropped.most_common(3))
        raise DataError(f"the log has no impression with captions that can be used{why and ' (' + why + ')'}")
    return tuned(settings.features, table, settings.tune), queries.kinds()


def _patterns(pages: Pages, features: Sequence[Feature], settings: Settings) -> Patterns:
    """The patterns of the training units."""
    encoder = Encoder(features)
    total = Patterns.of(np.zeros((0, FIRST + len(features)), np.int8), np.zeros(0, np.bool_))
    for results in pages:
        rows = settings.training(results.bucket)
        codes = encoder.encode(results.measures, results.counts, results.grades)
        total += Patterns.of(codes[rows], results.clicked[rows])
    return total


def _trained(pages: Pages, features: Sequence[Feature], settings: Settings) -> dict[str, Model]:
    """The five models, with features that hold between queries."""
    patterns = _patterns(pages, features, settings)
    models = train(patterns, features)
    gradients = {name: Gradients(model) for name, model in models.items()}
    encoder = Encoder(features)
    for results in pages:
        codes = encoder.encode(results.measures, results.counts, results.grades)
        for one in gradients.values():
            one.add(results, codes, settings.training(results.bucket))
    between = {name: found for name, one in gradients.items() if (found := one.covariance()) is not None}
    return confirmed(models, patterns, between)


class _Findings:
    """What is found with the models, while the log is read for the last time."""

    def __init__(
        self, models: Mapping[str, Model], main: Model, scoring: Scoring, settings: Settings, trained_here: bool
    ) -> None:
        self._models, self._main, self._settings, self._trained_here = models, main, settings, trained_here
        self._losses = {relevance: Losses(models, relevance) for relevance in {main.is_judged, False}}
        self._preferences = Preferences(models)
        self._scores, self._method = Scores(main, scoring, trained_here), scoring.method
        self._pages: list[Page] = []
        self._counts: Counter[str] = Counter(impressions=0, results=0, clicks=0, judged=0)

    def add(self, results: Results, segments: Mapping[str, Array]) -> None:
        """Count results in, whose pages belong to these segments."""
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

    def report(self, dropped: Mapping[str, int]) -> CaptionReport:
        """All of it."""
        settings, judged = self._settings, self._main.is_judged
        if settings.page is not None and not self._pages:
            raise DataError(f"the log has no impression {settings.page!r} that can be used; give the id of one")
        rescored = self._scores.rescored(settings.confidence)
        return CaptionReport(
            **self._counts,
            dropped=dict(dropped),
            others=self._scores.others,
            models=self._models,
            main=self._main.name,
            weights=settings.weights,
            confidence=settings.confidence,
            perplexities=self._losses[judged].perplexities(),
            unjudged_perplexities=self._losses[False].perplexities() if judged else (),
            preferences=self._preferences.found(),
            rescored=rescored,
            verdicts=tuple(verdict(one, settings.weights, settings.confidence) for one in rescored),
            page=self._pages[0] if self._pages else None,
        )
