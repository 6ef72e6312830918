"""Click models fitted to the result pages of a log, and how well each predicts other pages.

    pages ──fit──▶ fitted model ──▶ click_probabilities · log_likelihood · perplexity (of any pages)

`rank_only` is the baseline that any model must beat; `fit_position_based` and `fit_cascade` also know documents.

They need all pages in memory. Two other models are fitted by EM elsewhere: `counterfactual/click_model.py` needs only
counts, which Spark can add up, and `analysis/planned_traffic.py` knows ranks and no documents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from interleaf.clicks.click_models import PositionBased
from interleaf.clicks.result_pages import ResultPages
from interleaf.errors import ClickError
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import kernel

STRENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # of the prior, chosen by held-out likelihood
HELD_OUT_SHARE, HELD_OUT_SEED, MAX_START = 0.2, 0, 0.95  # a start below 1: EM cannot leave an examination of 1
Trials = tuple[tuple[float, float], ...]
Rates = tuple[Array, Array]  # examination or continuation by rank, and attraction by pair of query and document


class ClickPerplexity(NamedTuple):
    """2 ** -mean(log2 q), where q is the probability that the model gave to what happened at a place of a page.

    It is 1 for a perfect prediction, and 2 for a fair coin. `overall` is over all places of all pages.
    """

    overall: float
    by_rank: tuple[float, ...]

    @property
    def mean_of_ranks(self) -> float:
        """The mean of the ranks' perplexities, which many papers report."""
        return float(np.mean(self.by_rank))


class Fitted(ABC):
    """A fitted click model: it gives the probability of each pattern of clicks on a page."""

    @abstractmethod
    def click_probabilities(self, pages: ResultPages) -> Array:
        """The marginal probability of a click, `[page, rank]`; 0 where nothing is shown."""

    def log_likelihoods(self, pages: ResultPages) -> Array:
        """The natural logarithm of the probability of each page's whole pattern of clicks.

        Minus infinity if the model says that a click is impossible. Here, clicks are independent.
        """
        return np.asarray(_logs(self.click_probabilities(pages), pages).sum(axis=1))

    def log_likelihood(self, pages: ResultPages) -> float:
        """The sum over the pages; divide by `len(pages)` to compare sets of different size."""
        return float(self.log_likelihoods(pages).sum())

    def perplexity(self, pages: ResultPages) -> ClickPerplexity:
        """The perplexity of the clicks, by rank and overall."""
        if not pages.shown.any():
            raise ClickError("there is no document on these pages, so there is nothing to predict; give other pages")
        logs = _logs(self.click_probabilities(pages), pages)
        shown = pages.shown.sum(axis=0)
        ranks = shown > 0
        by_rank = np.exp(-logs.sum(axis=0)[ranks] / shown[ranks])
        return ClickPerplexity(float(np.exp(-logs.sum() / shown.sum())), tuple(by_rank.tolist()))


def _logs(probabilities: Array, pages: ResultPages) -> Array:
    """The log-probability of what happened at each place; 0 where nothing is shown."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.where(pages.clicks, probabilities, 1 - probabilities)))


def _check_fittable(pages: ResultPages) -> None:
    if not pages.clicks.any():
        raise ClickError(f"the {len(pages)} pages to fit on hold no click; give pages that people clicked on")


def _extend(values: Array, width: int) -> Array:
    """A value for each rank; the last one holds for all ranks below it."""
    return np.asarray(values[np.minimum(np.arange(width), len(values) - 1)])


@dataclass(frozen=True)
class QueryDocuments:
    """Pairs of query and document: sorted keys `query * document_count + document`. A pair's number is its place."""

    keys: Array
    query_count: int
    document_count: int

    @classmethod
    def of(cls, pages: ResultPages) -> QueryDocuments:
        """All pairs on these pages."""
        keys = pages.queries[:, None].astype(np.int64) * pages.document_count + pages.documents
        return cls(np.unique(keys[pages.shown]), pages.query_count, pages.document_count)

    def on(self, pages: ResultPages) -> Array:
        """The number of the pair at each place, `[page, rank]`; -1 for a new pair, and where nothing is shown."""
        if (pages.query_count, pages.document_count) != (self.query_count, self.document_count):
            raise ClickError(
                f"the model was fitted on {self.query_count} queries and {self.document_count} documents, these pages "
                f"number {pages.query_count} and {pages.document_count}; split one log so that numbers mean the same"
            )
        return np.where(pages.shown, self.find(pages.queries[:, None], pages.documents), -1)

    def find(self, queries: Array, documents: Array) -> Array:
        """The number of each pair, -1 for a new one."""
        keys = queries.astype(np.int64) * self.document_count + documents
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, at, -1)


@dataclass(frozen=True)
class FitReport:
    """How a fit went: the prior's strength, and the log-likelihood with the log prior after each round of EM.

    `trials` are the strengths that were tried, each with its log-likelihood per page on held-out sessions; empty if the
    strength was an argument. EM never lowers its objective; `converged` says that it ended before the limit.
    """

    strength: float
    trials: Trials
    objectives: tuple[float, ...]
    converged: bool

    @property
    def rounds(self) -> int:
        """Rounds of EM after the start."""
        return len(self.objectives) - 1


Model = TypeVar("Model", bound=Fitted)


def _climb(
    step: Callable[[Rates], tuple[Rates, float]], rates: Rates, rounds: int, tolerance: float
) -> tuple[Rates, tuple[float, ...], bool]:
    """Repeat `step`, which returns the next rates and the objective of its argument, until it gains no more."""
    next_rates, objective = step(rates)
    objectives, converged = [objective], False
    while len(objectives) <= rounds and not converged:
        rates = next_rates
        next_rates, objective = step(rates)
        objectives.append(objective)
        converged = objective - objectives[-2] <= tolerance
    return rates, tuple(objectives), converged


def _fit_with_prior(
    pages: ResultPages, prepare: Callable[[ResultPages], Callable[[float, Trials], Model]], strength: float | None
) -> Model:
    """The model fitted with this strength, or with the one that predicts held-out sessions of the pages best.

    `prepare(pages)` does the work that all strengths share, and returns a function that fits with one strength.
    """
    _check_fittable(pages)
    if strength is not None:
        if not 0 < strength < float("inf"):  # without a prior, a pair without clicks would have probability 0
            raise ClickError(f"the strength of the prior cannot be {strength!r}; give a finite number above 0")
        return prepare(pages)(float(strength), ())
    training, held_out = pages.split(HELD_OUT_SHARE, HELD_OUT_SEED)
    fit = prepare(training)
    trials = tuple((strength, fit(strength, ()).log_likelihood(held_out) / len(held_out)) for strength in STRENGTHS)
    return prepare(pages)(max(trials, key=lambda pair: pair[1])[0], trials)


def _log_prior(values: Array, mean: Array | float, strength: float) -> float:
    """The log density of the prior at these values, without its constant."""
    return strength * float(np.sum(mean * np.log(values) + (1 - mean) * np.log1p(-values)))


@kernel
def _read_pages(
    attraction: Array, clicks: Array, counts: Array, after_click: Array, after_skip: Array, looks: Array
) -> Array:
    """How likely each page's clicks are; and how likely each place was read, given the clicks, in `looks`."""
    likelihoods = np.zeros(len(counts))
    ends = np.zeros(clicks.shape[1])
    for page in range(len(counts)):
        count, reached, total, last = counts[page], 1.0, 0.0, 0
        for rank in range(count):
            if clicks[page, rank]:
                reached, total, last = reached * attraction[page, rank], 0.0, rank  # nobody stopped before a click
                onward = after_click[rank]
            else:
                reached *= 1 - attraction[page, rank]
                onward = after_skip[rank]
            ends[rank] = reached * (1 - onward) if rank + 1 < count else reached
            total += ends[rank]
            reached *= onward
        likelihoods[page] = total if count else 1.0
        below = 0.0
        for rank in range(count - 1, -1, -1):
            if rank > last:
                below += ends[rank]
                looks[page, rank] = below / total
            else:
                looks[page, rank] = 1.0
    return likelihoods


@dataclass(frozen=True)
class FittedCascade(Fitted):
    """Continuation by rank, attraction by pair, and attraction by rank, which is used for new pairs."""

    continuation: Array
    attraction: Array
    fallback: Array
    stop_needs_click: bool
    pairs: QueryDocuments
    report: FitReport

    def attractions(self, pages: ResultPages) -> Array:
        """The attraction of the document at each place, `[page, rank]`; 0 where nothing is shown."""
        pair = self.pairs.on(pages)
        values = np.where(pair >= 0, self.attraction[pair], _extend(self.fallback, pages.documents.shape[1]))
        return np.where(pages.shown, values, 0.0)

    def click_probabilities(self, pages: ResultPages) -> Array:
        attraction = self.attractions(pages)
        after_click, after_skip = _onward(self.continuation, attraction.shape[1], self.stop_needs_click)
        onward = (attraction * after_click + (1 - attraction) * after_skip)[:, :-1]
        reached = np.concatenate([np.ones((len(pages), 1)), np.cumprod(onward, axis=1)], axis=1)
        return np.asarray(reached * attraction)

    def log_likelihoods(self, pages: ResultPages) -> Array:
        onward = _onward(self.continuation, pages.documents.shape[1], self.stop_needs_click)
        counts, looks = pages.shown.sum(axis=1), np.zeros(pages.documents.shape)
        return np.asarray(np.log(_read_pages(self.attractions(pages), pages.clicks, counts, *onward, looks)))


def fit_cascade(
    pages: ResultPages,
    stop_needs_click: bool = True,
    strength: float | None = None,
    rounds: int = 1000,
    tolerance: float = 1e-7,
) -> FittedCascade:
    """Fit by EM, starting from Guo's closed form; `rounds=0` returns the closed form.

    The prior of a pair's attraction weighs as much as `strength` reads; None chooses it by the likelihood of held-out
    sessions. The mean of the prior is that of the ranks where the pair was shown: if people stop only after clicks,
    nothing else in the model distinguishes lower ranks from higher ones. If people can stop anywhere, it is the click
    rate at the top, which everybody reads. EM ends when a round gains at most `tolerance` per page.
    """
    return _fit_with_prior(pages, lambda part: _prepare_cascade(part, stop_needs_click, rounds, tolerance), strength)


def _prepare_cascade(
    pages: ResultPages, stop_needs_click: bool, rounds: int, tolerance: float
) -> Callable[[float, Trials], FittedCascade]:
    """Start from a cascade that treats all documents at a rank as one.

    If people can stop anywhere, such a cascade cannot distinguish a rank that few people reach from one with
    unattractive documents.
    """
    shown, limit = pages.shown, tolerance * len(pages)
    ranks = np.where(shown, np.arange(shown.shape[1]), -1)
    problem = _CascadeProblem(pages, ranks, np.full(int(shown.any(axis=0).sum()), 0.5), 1.0, stop_needs_click)
    continuation, fallback = problem.closed_form()
    if stop_needs_click:
        (continuation, fallback), *_ = _climb(problem.round, (continuation, fallback), rounds, limit)
    else:
        fallback = fallback[:1]
    pairs = QueryDocuments.of(pages)
    units = pairs.on(pages)
    at_rank = np.broadcast_to(_extend(fallback, units.shape[1]), units.shape)
    means = np.bincount(units[shown], at_rank[shown]) / np.bincount(units[shown])

    def fit(strength: float, trials: Trials) -> FittedCascade:
        problem = _CascadeProblem(pages, units, means, strength, stop_needs_click)
        start = continuation, problem.closed_form()[1]
        (by_rank, by_pair), objectives, converged = _climb(problem.round, start, rounds, limit)
        report = FitReport(strength, trials, objectives, converged)
        return FittedCascade(by_rank, by_pair, fallback, stop_needs_click, pairs, report)

    return fit


class _CascadeProblem:
    """Units (pairs, or ranks) at each place, the mean of the prior of each unit's attraction, and its strength."""

    def __init__(self, pages: ResultPages, units: Array, means: Array, strength: float, stop_needs_click: bool) -> None:
        self.pages, self.units, self.means = pages, units, means
        self.strength, self.stop_needs_click = strength, stop_needs_click
        self._counts, self._clicked = pages.shown.sum(axis=1), self._by_unit(pages.clicks)
        # Whether there is a document below each place; only there it matters whether people stop.
        self._next_shown = pages.shown[:, 1 : int(pages.shown.any(axis=0).sum())]

    def _by_unit(self, values: Array) -> Array:
        """Sums over the places of each unit; `values` must be 0 where nothing is shown."""
        places = np.where(self.units >= 0, self.units, len(self.means))
        return np.bincount(places.ravel(), values.ravel(), len(self.means) + 1)[:-1]

    def closed_form(self) -> Rates:
        """Guo's estimate: people read everything down to the last click, and nothing below."""
        below = np.cumsum(self.pages.clicks[:, ::-1], axis=1)[:, ::-1]
        looks = (below > 0) | ~self.pages.clicks.any(axis=1, keepdims=True)
        return self._maximise((looks & self.pages.shown).astype(float))

    def round(self, rates: Rates) -> tuple[Rates, float]:
        """One round of EM: the expected reads, then the rates of clicking and of reading on."""
        continuation, attraction = rates
        looks: Array = np.zeros(self.units.shape)
        onward = _onward(continuation, looks.shape[1], self.stop_needs_click)
        likelihoods = _read_pages(attraction[self.units], self.pages.clicks, self._counts, *onward, looks)
        prior = _log_prior(attraction, self.means, self.strength) + _log_prior(continuation, 0.5, 1)
        return self._maximise(looks), float(np.log(likelihoods).sum()) + prior

    def _maximise(self, looks: Array) -> Rates:
        """The rate of reading on is smoothed by half a yes and half a no, so that it is never 0 or 1."""
        attraction = (self._clicked + self.strength * self.means) / (self._by_unit(looks) + self.strength)
        coins, width = self._next_shown, self._next_shown.shape[1]
        tossed = coins * (self.pages.clicks if self.stop_needs_click else looks)[:, :width]
        went_on = tossed * looks[:, 1 : width + 1] if self.stop_needs_click else looks[:, 1 : width + 1]
        rates = (went_on.sum(axis=0) + 0.5) / (tossed.sum(axis=0) + 1)
        return rates if width else np.array([0.5]), attraction


def _onward(continuation: Array, width: int, stop_needs_click: bool) -> tuple[Array, Array]:
    """The probability of reading on at each rank, after a click and after none."""
    after_click = _extend(continuation, width)
    return after_click, np.ones(width) if stop_needs_click else after_click


@dataclass(frozen=True)
class FittedPositionBased(Fitted):
    """Examination by rank, attraction by pair, and the mean attraction, which is used for new pairs."""

    examination: Array
    attraction: Array
    mean: float
    shown: Array
    pairs: QueryDocuments
    report: FitReport

    def click_probabilities(self, pages: ResultPages) -> Array:
        attraction = np.append(self.attraction, self.mean)[self.pairs.on(pages)]
        return np.where(pages.shown, _extend(self.examination, pages.documents.shape[1]) * attraction, 0.0)

    def to_click_model(self, levels: int) -> tuple[PositionBased, GradeOf]:
        """A click model for simulation, and the grade of any (query, document) under it.

        Grades are quantiles of the attraction of shown documents. There are at most `levels` of them, fewer if
        attractions are equal, and each has the mean attraction of its documents.
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
    """The grade of a (query, document), by their numbers in the log; a new pair gets that of the mean attraction."""

    pairs: QueryDocuments
    grades: Array

    def __call__(self, query: int, document: int) -> int:
        return int(self.grades[self.pairs.find(np.array(query), np.array(document))])

    def on(self, pages: ResultPages) -> Array:
        """The grade at each place, `[page, rank]`; it is meaningless where nothing is shown."""
        return np.asarray(self.grades[self.pairs.on(pages)])


class _Cells(NamedTuple):
    """The sufficient counts of the model: how often each pair was shown, and clicked, at each rank."""

    pair: Array
    rank: Array
    shown: Array
    clicked: Array


def fit_position_based(
    pages: ResultPages, strength: float | None = None, rounds: int = 1000, tolerance: float = 1e-7
) -> FittedPositionBased:
    """Fit by EM; the mean of the prior of attraction is the click rate at the rank that is clicked most.

    People examine this rank most, so its click rate is closest to attraction. The prior weighs as much as `strength`
    impressions; None chooses it by the likelihood of held-out sessions. EM ends when a round gains at most `tolerance`
    per page.
    """
    return _fit_with_prior(pages, lambda part: _prepare_positions(part, rounds, tolerance), strength)


def _prepare_positions(
    pages: ResultPages, rounds: int, tolerance: float
) -> Callable[[float, Trials], FittedPositionBased]:
    pairs, width = QueryDocuments.of(pages), pages.documents.shape[1]
    places = (pairs.on(pages) * width + np.arange(width))[pages.shown]
    numbers, cell_of = np.unique(places, return_inverse=True)
    clicked = np.bincount(cell_of, pages.clicks[pages.shown])
    cells = _Cells(numbers // width, numbers % width, np.bincount(cell_of).astype(float), clicked)
    rates = (np.bincount(cells.rank, cells.clicked) + 0.5) / (np.bincount(cells.rank, cells.shown) + 1)
    top, mean = int(np.argmax(rates)), float(rates.max())
    start = np.minimum(rates / mean, MAX_START), np.full(len(pairs.keys), mean)
    start[0][top] = 1
    times = np.bincount(cells.pair, cells.shown)

    def fit(strength: float, trials: Trials) -> FittedPositionBased:
        (examination, attraction), objectives, converged = _climb(
            lambda rates: _round(cells, rates, mean, strength, top), start, rounds, tolerance * len(pages)
        )
        report = FitReport(strength, trials, objectives, converged)
        return FittedPositionBased(examination, attraction, mean, times, pairs, report)

    return fit


def _round(cells: _Cells, rates: Rates, mean: float, strength: float, top: int) -> tuple[Rates, float]:
    """One round of EM: the expected examinations and attractions, then the rates of both, with priors.

    Examination is smoothed by half a yes and half a no, so that a rank without clicks has no probability of 0.
    """
    examination, attraction = rates[0][cells.rank], rates[1][cells.pair]
    missed = cells.shown - cells.clicked
    unclicked = 1 - examination * attraction
    likelihood = np.sum(cells.clicked * np.log(examination * attraction) + missed * np.log(unclicked))
    others = np.delete(rates[0], top)
    objective = float(likelihood) + _log_prior(rates[1], mean, strength) + _log_prior(others, 0.5, 1)
    attracted = cells.clicked + missed * attraction * (1 - examination) / unclicked
    looked = cells.clicked + missed * examination * (1 - attraction) / unclicked
    by_rank = (np.bincount(cells.rank, looked) + 0.5) / (np.bincount(cells.rank, cells.shown) + 1)
    by_rank[top] = 1
    by_pair = np.bincount(cells.pair, attracted) + strength * mean
    return (by_rank, by_pair / (np.bincount(cells.pair, cells.shown) + strength)), objective


@dataclass(frozen=True)
class RankOnly(Fitted):
    """Independent clicks with one probability per rank."""

    rates: Array

    def click_probabilities(self, pages: ResultPages) -> Array:
        return np.where(pages.shown, _extend(self.rates, pages.documents.shape[1]), 0.0)


def rank_only(pages: ResultPages) -> RankOnly:
    """The share of pages with a click at each rank, among pages with a document there."""
    _check_fittable(pages)
    shown = pages.shown.sum(axis=0)
    return RankOnly(pages.clicks.sum(axis=0)[shown > 0] / shown[shown > 0])
