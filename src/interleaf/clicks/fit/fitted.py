"""What every fitted model can say about result pages: click probabilities, likelihood, perplexity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from interleaf.clicks.pages import Pages
from interleaf.errors import ClickError
from interleaf.methods.arrays import Array


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
