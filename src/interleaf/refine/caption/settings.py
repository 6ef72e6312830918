"""How a log is diagnosed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interleaf.buckets import BUCKETS
from interleaf.errors import DataError, listed
from interleaf.methods.arrays import Array
from interleaf.refine.caption.features import FEATURES, Feature
from interleaf.refine.caption.model import ODDS, PROBABILITY
from interleaf.refine.caption.tuning import BEST
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
