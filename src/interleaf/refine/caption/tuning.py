"""Thresholds from data: quartiles, or those with which the clicks fit best (H12c, section 3.2, which did it by hand).

Features of one measure are tuned together: their indicators join a model of position and relevance, and thresholds
move, one after the other, to where its likelihood is highest. All that takes is a table of counts by value, position,
grade and click; tables of parts add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from interleaf.compiled import kernel
from interleaf.errors import DataError, listed
from interleaf.methods.arrays import Array
from interleaf.refine.caption.design import Design
from interleaf.refine.caption.features import GRADE, GRADES, POSITION, POSITIONS, Feature
from interleaf.refine.caption.measures import MEASURES
from interleaf.refine.caption.patterns import Patterns

QUARTILES, BEST, NONE = RULES = ("quartiles", "best", "none")
VALUES = 1024  # larger values count as the last
CANDIDATES = 32
FEWEST = 0.1  # a share of the results that have a tuned feature
SWEEPS = 5
GAIN = 1e-6  # in log-likelihood: less is rounding


class Table:
    """`counts[measure, value, position, grade, clicked]` of results."""

    def __init__(self) -> None:
        self.counts = np.zeros((len(MEASURES), VALUES, len(POSITIONS), len(GRADES), 2), np.int64)

    def add(self, measures: Array, codes: Array, clicked: Array) -> None:
        """Count results in."""
        _add(measures, codes, clicked, self.counts)

    def merge(self, other: Table) -> None:
        """Count other results in."""
        self.counts += other.counts

    @cached_property
    def _down_to(self) -> Array:
        """Counts of results with a value below each."""
        return np.concatenate([np.zeros_like(self.counts[:, :1]), np.cumsum(self.counts, axis=1)], axis=1)

    def quantile(self, feature: Feature, share: float) -> int:
        """The value at a share of the results; for a tuned `most`, of those that have at least `least`."""
        least = feature.least if feature.tuned == "most" else 0
        below = self._down_to[MEASURES.index(feature.measure), least:].sum(axis=(1, 2, 3))
        return least + int(np.searchsorted(below[1:] - below[0], share * (below[-1] - below[0])))

    def patterns(self, features: Sequence[Feature]) -> Patterns:
        """The results by position, grade, and which of these features of one measure they have."""
        ends = {bound for one in features for bound in (min(one.least, VALUES), min(one.most + 1, VALUES))}
        bounds = np.array(sorted({0, *ends, VALUES}))
        counts = np.diff(self._down_to[MEASURES.index(features[0].measure), bounds], axis=0)
        has = np.stack([(bounds[:-1] >= one.least) & (bounds[:-1] <= one.most) for one in features], axis=1)
        part, position, grade = np.nonzero(counts.sum(axis=-1))
        codes = np.concatenate([np.stack([position, grade], axis=1), has[part]], axis=1).astype(np.int8)
        return Patterns(codes, counts.sum(axis=-1)[part, position, grade], counts[part, position, grade, 1])


@kernel
def _add(measures: Array, codes: Array, clicked: Array, counts: Array) -> None:
    for row in range(len(measures)):
        position, grade, click = codes[row, POSITION], codes[row, GRADE], int(clicked[row])
        for measure in range(measures.shape[1]):
            value = min(max(measures[row, measure], 0), VALUES - 1)
            counts[measure, value, position, grade, click] += 1


def tuned(features: Sequence[Feature], table: Table, rule: str) -> tuple[Feature, ...]:
    """The features with thresholds by a rule: `quartiles`, `best`, or `none`, which leaves them as they are."""
    if rule not in RULES:
        raise DataError(f"thresholds cannot be tuned by {rule!r}; give {listed(RULES)}")
    if rule == NONE:
        return tuple(features)
    if rule == QUARTILES:
        return tuple(_at_quartile(feature, table) if feature.tuned else feature for feature in features)
    found = list(features)
    for measure in dict.fromkeys(feature.measure for feature in features if feature.tuned):
        places = [place for place, one in enumerate(found) if one.measure == measure and one.tuned]
        for place, feature in zip(places, _best([found[place] for place in places], table), strict=True):
            found[place] = feature
    return tuple(found)


def _at_quartile(feature: Feature, table: Table) -> Feature:
    share = 0.25 if feature.tuned == "most" else 0.75
    return feature.at(table.quantile(feature, share))


def _best(features: list[Feature], table: Table) -> list[Feature]:
    """Thresholds on one measure, each in turn moved to where the likelihood of all is highest, until none moves."""
    best = [_at_quartile(feature, table) for feature in features]
    height = _likelihood(best, table)
    for _ in range(SWEEPS):
        before = list(best)
        for place, feature in enumerate(best):
            for value in _candidates(feature, table):
                tried = [*best[:place], feature.at(value), *best[place + 1 :]]
                reached = _likelihood(tried, table)
                if reached > height + GAIN:
                    best, height = tried, reached
        if best == before:
            break
    return best if height > -np.inf else features


def _candidates(feature: Feature, table: Table) -> list[int]:
    """Low thresholds are looked for below the median, high ones above it; few results would follow chance."""
    low, high = (FEWEST, 0.5) if feature.tuned == "most" else (0.5, 1 - FEWEST)
    return sorted({table.quantile(feature, share) for share in np.linspace(low, high, CANDIDATES)})


def _likelihood(features: list[Feature], table: Table) -> float:
    """Of position, relevance and those of the features that can have a weight; none where there is none such."""
    patterns = table.patterns(features)
    if not 0 < patterns.clicks.sum() < patterns.rows.sum():
        return -np.inf
    design = Design(patterns, tuple(feature.name for feature in features))
    useless = design.useless()
    useful = [name for name in design.names if name not in useless]
    return design.only(useful).fit().log_likelihood if useful else -np.inf
