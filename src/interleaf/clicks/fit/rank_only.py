"""The baseline: how often each rank is clicked, whatever it holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interleaf.clicks.fit.fitted import Fitted, check_fittable, widened
from interleaf.clicks.pages import Pages
from interleaf.methods.arrays import Array


@dataclass(frozen=True)
class RankOnly(Fitted):
    """Independent clicks with one probability a rank."""

    rates: Array

    def click_probabilities(self, pages: Pages) -> Array:
        return np.where(pages.shown, widened(self.rates, pages.documents.shape[1]), 0.0)


def rank_only(pages: Pages) -> RankOnly:
    """The share of pages with a click at each rank, of those that are so long."""
    check_fittable(pages)
    shown = pages.shown.sum(axis=0)
    return RankOnly(pages.clicks.sum(axis=0)[shown > 0] / shown[shown > 0])
