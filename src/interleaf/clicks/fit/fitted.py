"""What every fitted model can say about result pages: click probabilities, likelihood, perplexity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from interleaf.clicks.result_pages import Pages
from interleaf.errors import ClickError
from interleaf.kernels.arrays import Array


class Perplexity(NamedTuple):
    """How many sides a die has that is as hard to foretell as the clicks: 1 is certainty, 2 a fair coin.

    2 ** -mean(log2 q), with q the probability that the model gave, whatever was clicked above, to what happened at a
    place; `overall` over all places of all pages.
    """

    overall: float
    by_rank: tuple[float, ...]

    @property
    def mean_of_ranks(self) -> float:
        """The mean of the ranks' perplexities, which many papers report."""
        return float(np.mean(self.by_rank))


class Fitted(ABC):
    """A model that gives each page the probability of each pattern of clicks on it."""

    @abstractmethod
    def click_probabilities(self, pages: Pages) -> Array:
        """The marginal probability of a click, `[page, rank]`; 0 where nothing is shown."""

    def log_likelihoods(self, pages: Pages) -> Array:
        """The natural logarithm of the probability of each page's whole pattern of clicks; here they are independent.

        Minus infinity for a click that the model holds impossible.
        """
        return np.asarray(_logs(self.click_probabilities(pages), pages).sum(axis=1))

    def log_likelihood(self, pages: Pages) -> float:
        """The sum over the pages; divide by `len(pages)` to compare sets of different size."""
        return float(self.log_likelihoods(pages).sum())

    def perplexity(self, pages: Pages) -> Perplexity:
        """How surprising the clicks are, place by place."""
        if not pages.shown.any():
            raise ClickError("there is no document on these pages, so that nothing is foretold; give other pages")
        logs = _logs(self.click_probabilities(pages), pages)
        shown = pages.shown.sum(axis=0)
        ranks = shown > 0
        by_rank = np.exp(-logs.sum(axis=0)[ranks] / shown[ranks])
        return Perplexity(float(np.exp(-logs.sum() / shown.sum())), tuple(by_rank.tolist()))


def _logs(probabilities: Array, pages: Pages) -> Array:
    """The log-probability of what happened at each place; 0 where nothing is shown, and so nothing can happen."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.where(pages.clicks, probabilities, 1 - probabilities)))


def check_fittable(pages: Pages) -> None:
    """There must be something to learn from."""
    if not pages.clicks.any():
        raise ClickError(f"the {len(pages)} pages to fit on hold no click; give pages that people clicked on")


def widened(values: Array, width: int) -> Array:
    """A value a rank; the last one holds for all ranks below it, as everywhere in `clicks`."""
    return np.asarray(values[np.minimum(np.arange(width), len(values) - 1)])


@dataclass(frozen=True)
class Pairs:
    """Sorted keys `query * document_count + document`; a pair's number is its place among them."""

    keys: Array
    query_count: int
    document_count: int

    @classmethod
    def of(cls, pages: Pages) -> Pairs:
        """All pairs on these pages."""
        keys = _keys(pages.queries[:, None], pages.documents, pages.document_count)[pages.shown]
        return cls(np.unique(keys), pages.query_count, pages.document_count)

    def __len__(self) -> int:
        return len(self.keys)

    def on(self, pages: Pages) -> Array:
        """The number of the pair at each place, `[page, rank]`; -1 for one never seen, and where nothing is shown."""
        if (pages.query_count, pages.document_count) != (self.query_count, self.document_count):
            raise ClickError(
                f"the model was fitted on {self.query_count} queries and {self.document_count} documents, these pages "
                f"number {pages.query_count} and {pages.document_count}; split one log so that numbers mean the same"
            )
        return np.where(pages.shown, self.find(pages.queries[:, None], pages.documents), -1)

    def find(self, queries: Array, documents: Array) -> Array:
        """The number of each pair, -1 for one never seen."""
        keys = _keys(queries, documents, self.document_count)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, at, -1)


def _keys(queries: Array, documents: Array, document_count: int) -> Array:
    return np.asarray(queries.astype(np.int64) * document_count + documents)


STRENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
HELD_SHARE, HELD_SEED = 0.2, 0
Tried = tuple[tuple[float, float], ...]
State = TypeVar("State")
Model = TypeVar("Model", bound=Fitted)


@dataclass(frozen=True)
class Report:
    """How a fit went: the prior's strength, and the log-likelihood with the log prior after each round of EM.

    `tried` holds strengths and the log-likelihood a page each reached on sessions held out of the training pages;
    empty where the strength was given. EM never lowers its objective; `converged` says that it ended before the limit.
    """

    strength: float
    tried: Tried
    objectives: tuple[float, ...]
    converged: bool

    @property
    def rounds(self) -> int:
        """Rounds of EM after the start."""
        return len(self.objectives) - 1


def climb(
    step: Callable[[State], tuple[State, float]], start: State, rounds: int, tolerance: float
) -> tuple[State, tuple[float, ...], bool]:
    """Repeat `step`, which gives the next state and the objective of the one it was given, until it gains no more."""
    state = start
    following, objective = step(state)
    reached = [objective]
    for _ in range(rounds):
        state = following
        following, objective = step(state)
        reached.append(objective)
        if objective - reached[-2] <= tolerance:
            return state, tuple(reached), True
    return state, tuple(reached), False


def smoothed(
    pages: Pages, prepare: Callable[[Pages], Callable[[float, Tried], Model]], strength: float | None
) -> Model:
    """The model fitted with this strength, or with the one that foretells held-out sessions of the pages best.

    `prepare(pages)` does once what all strengths share, and gives the function that fits with one.
    """
    if strength is not None:
        return prepare(pages)(_checked(strength), ())
    training, held = pages.split(HELD_SHARE, HELD_SEED)
    fit = prepare(training)
    tried = tuple((strength, fit(strength, ()).log_likelihood(held) / len(held)) for strength in STRENGTHS)
    return prepare(pages)(max(tried, key=lambda pair: pair[1])[0], tried)


def _checked(strength: float) -> float:
    """A prior must weigh something: without one, a pair never clicked would be held impossible to click."""
    if not 0 < strength < float("inf"):
        raise ClickError(f"the strength of the prior cannot be {strength!r}; give a finite number above 0")
    return float(strength)


def log_prior(values: Array, mean: Array | float, strength: float) -> float:
    """The log density of the prior at these values, without its constant."""
    return strength * float(np.sum(mean * np.log(values) + (1 - mean) * np.log1p(-values)))
