"""The position-based model (Richardson, Dominowska and Ragno, WWW 2007; Craswell et al., WSDM 2008), fitted by EM.

P(click) = examination(rank) * attraction(query, document). Only the product shows, so that examination is relative:
1 at the rank that is clicked most. Where a log shows documents always at the same ranks, little but the prior tells a
rank that nobody looks at from one that holds dull documents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from interleaf.clicks.fit.fitted import Fitted, check_fittable, widened
from interleaf.clicks.fit.pairs import Pairs
from interleaf.clicks.fit.smoothing import Report, Tried, climb, log_prior, smoothed
from interleaf.clicks.independent import PositionBased
from interleaf.clicks.pages import Pages
from interleaf.errors import ClickError
from interleaf.methods.arrays import Array

_MOST_AT_START = 0.95  # an examination of 1 cannot be left again by EM


@dataclass(frozen=True)
class FittedPositionBased(Fitted):
    """Examination by rank, attraction by pair, and the mean that a pair never seen falls back to."""

    examination: Array
    attraction: Array
    mean: float
    shown: Array
    pairs: Pairs
    report: Report

    def click_probabilities(self, pages: Pages) -> Array:
        attraction = np.append(self.attraction, self.mean)[self.pairs.on(pages)]
        return np.where(pages.shown, widened(self.examination, pages.documents.shape[1]) * attraction, 0.0)

    def to_click_model(self, levels: int) -> tuple[PositionBased, GradeOf]:
        """A click model for simulation, and the grade of any (query, document) under it.

        Grades are quantiles of attraction over all that was shown, at most `levels` of them (fewer where attractions
        are equal), each with the mean attraction of what it holds.
        """
        if levels < 1:
            raise ClickError(f"attraction cannot have {levels!r} levels; give a whole number from 1 up")
        order = np.argsort(self.attraction, kind="stable")
        below = np.cumsum(self.shown[order])
        edges = np.searchsorted(below, below[-1] * np.arange(1, levels) / levels)
        cuts = np.unique(self.attraction[order][edges])
        cuts = cuts[cuts > self.attraction.min()]
        grades = np.searchsorted(cuts, self.attraction, side="right")
        means = np.bincount(grades, self.shown * self.attraction) / np.bincount(grades, self.shown)
        grade_of = GradeOf(self.pairs, np.append(grades, np.searchsorted(cuts, self.mean, side="right")))
        return PositionBased(tuple(self.examination.tolist()), tuple(means.tolist())), grade_of


@dataclass(frozen=True)
class GradeOf:
    """The grade of a (query, document), by their numbers in the log; of a pair never seen, that of the mean."""

    pairs: Pairs
    grades: Array

    def __call__(self, query: int, document: int) -> int:
        return int(self.grades[self.pairs.find(np.array(query), np.array(document))])

    def on(self, pages: Pages) -> Array:
        """The grade at each place, `[page, rank]`; it says nothing where nothing is shown."""
        return np.asarray(self.grades[self.pairs.on(pages)])


class _Cells(NamedTuple):
    """All that the model asks of a log: how often each pair was shown, and clicked, at each rank."""

    pair: Array
    rank: Array
    shown: Array
    clicked: Array


class _State(NamedTuple):
    examination: Array
    attraction: Array


def fit_position_based(
    pages: Pages, strength: float | None = None, rounds: int = 1000, tolerance: float = 1e-7
) -> FittedPositionBased:
    """Fit by EM; attraction has a prior with the mean click rate at the rank that is clicked most.

    That is the one rank where attraction shows undimmed. The prior counts as `strength` times shown; None chooses it
    by the likelihood of held-out sessions. EM ends when a round gains at most `tolerance` a page.
    """
    check_fittable(pages)
    return smoothed(pages, lambda part: _prepared(part, rounds, tolerance), strength)


def _prepared(pages: Pages, rounds: int, tolerance: float) -> Callable[[float, Tried], FittedPositionBased]:
    pairs = Pairs.of(pages)
    cells = _cells(pages, pairs)
    clicked, shown = np.bincount(cells.rank, cells.clicked), np.bincount(cells.rank, cells.shown)
    rates = (clicked + 0.5) / (shown + 1)
    top, mean = int(np.argmax(rates)), float(rates.max())
    start = _State(np.minimum(rates / mean, _MOST_AT_START), np.full(len(pairs), mean))
    start.examination[top] = 1
    times = np.bincount(cells.pair, cells.shown)

    def fit(strength: float, tried: Tried) -> FittedPositionBased:
        (examination, attraction), reached, converged = climb(
            lambda state: _round(cells, state, mean, strength, top), start, rounds, tolerance * len(pages)
        )
        report = Report(strength, tried, reached, converged)
        return FittedPositionBased(examination, attraction, mean, times, pairs, report)

    return fit


def _cells(pages: Pages, pairs: Pairs) -> _Cells:
    width = pages.documents.shape[1]
    ranks = np.broadcast_to(np.arange(width), pages.documents.shape)
    places = (pairs.on(pages) * width + ranks)[pages.shown]
    cells, cell_of = np.unique(places, return_inverse=True)
    clicked = np.bincount(cell_of, pages.clicks[pages.shown])
    return _Cells(cells // width, cells % width, np.bincount(cell_of).astype(float), clicked)


def _round(cells: _Cells, state: _State, mean: float, strength: float, top: int) -> tuple[_State, float]:
    """Who looked and who was attracted, in expectation; then the rates of both, with priors.

    Examination is smoothed by half a look and half a miss, so that a rank without clicks stays possible.
    """
    examination, attraction = state.examination[cells.rank], state.attraction[cells.pair]
    missed = cells.shown - cells.clicked
    unclicked = 1 - examination * attraction
    likelihood = np.sum(cells.clicked * np.log(examination * attraction) + missed * np.log(unclicked))
    others = np.delete(state.examination, top)
    objective = float(likelihood) + log_prior(state.attraction, mean, strength) + log_prior(others, 0.5, 1)
    attracted = cells.clicked + missed * attraction * (1 - examination) / unclicked
    looked = cells.clicked + missed * examination * (1 - attraction) / unclicked
    by_rank = (np.bincount(cells.rank, looked) + 0.5) / (np.bincount(cells.rank, cells.shown) + 1)
    by_rank[top] = 1
    by_pair = np.bincount(cells.pair, attracted) + strength * mean
    return _State(by_rank, by_pair / (np.bincount(cells.pair, cells.shown) + strength)), objective
