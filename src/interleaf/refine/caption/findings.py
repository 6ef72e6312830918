"""What is found with the models, while the log is read for the last time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

from interleaf.errors import DataError
from interleaf.refine.caption.features import GRADE
from interleaf.refine.caption.model import Model
from interleaf.refine.caption.page import Page, explained
from interleaf.refine.caption.perplexity import Losses
from interleaf.refine.caption.preferences import Preferences
from interleaf.refine.caption.report import FEWEST_JUDGED, CaptionReport
from interleaf.refine.caption.results import Results
from interleaf.refine.caption.scores import Scores
from interleaf.refine.caption.segments import Kinds
from interleaf.refine.caption.settings import Settings
from interleaf.refine.caption.verdict import verdict
from interleaf.score import Scoring


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
