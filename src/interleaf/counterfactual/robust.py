"""The doubly robust estimate: what a click model foresees for the new rankers, mended by what the old lists show.

    DR = mean over impressions of  f(L') + min(w, sqrt n) (o - f(L))

L is the old list, o its score and w its weight; L' is a list that the new rankers would have shown in its place, drawn
by chance; f is what the model expects of a list. If the model is right, the second term is 0 on average; if weights
are small, it is small, and the model stands alone; if weights are enough, it takes the model's error away. Weights are
truncated at the square root of n (Ionides 2008), which keeps the variance at bay and lets the bound go as n grows.

Errors are a jackknife over groups of units, model, drawn lists and all: the model is as uncertain as its clicks. Of
documents that the log never shows there are no clicks, so intervals are widened by all that those could change.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from interleaf import batch
from interleaf.counterfactual.click_model import Cells, Lists, add_foreseen, add_slack, features, fit
from interleaf.counterfactual.old_log import Rows
from interleaf.counterfactual.outcomes import Scorer
from interleaf.counterfactual.rankings import Ranked
from interleaf.methods.arrays import Array, Impression
from interleaf.methods.table import Chosen
from interleaf.simulate.people import streams, words_of
from interleaf.stats.compare import Estimate

FEWEST_DRAWN = 100_000  # lists of the new rankers, at least one for each old list: their chance adds to the error
CHUNK = 65_536


class Foreseen:
    """Sums by model, group of units and column: of what is foreseen, and of what mends it; and of `places` in new
    lists, those that hold a document which the log shows; `slack[pair]` is by how much the others may raise the
    preference, and lower it."""

    def __init__(self, models: int, groups: int, columns: int, pairs: int) -> None:
        self.foreseen, self.mended = np.zeros((2, models, groups, columns))
        self.slack = np.zeros((pairs, 2))
        self.places = self.known = 0

    def merge(self, other: Foreseen) -> None:
        """Add those of other lists."""
        self.foreseen += other.foreseen
        self.mended += other.mended
        self.slack += other.slack
        self.places += other.places
        self.known += other.known

    @property
    def known_share(self) -> float | None:
        """The share of places in new lists that hold a document which the log shows for the query."""
        return self.known / self.places if self.places else None


class Robust:
    """The doubly robust estimate of old impressions, given chunk by chunk; its model is fitted to all of them first.

    `cells` are what people looked at in the old lists, which have so many `positions` at most, and `counts[group]` the
    impressions of each group of units.
    """

    def __init__(self, scorer: Scorer, ranked: Ranked, cells: Cells, counts: Array, positions: int) -> None:
        self._scorer, self._ranked = scorer, ranked
        shown = np.bincount(cells.entry, cells.shown, len(ranked.ranks))
        self.models = fit(cells, features(ranked, shown), positions, len(counts))
        self.clip, self._shown = math.sqrt(counts.sum()), shown > 0
        self._counts = counts.astype(np.float64)
        self._repeats = max(1, math.ceil(FEWEST_DRAWN / counts.sum()))

    def empty(self) -> Foreseen:
        """Sums of nothing yet."""
        pairs = self._scorer.rankers * (self._scorer.rankers - 1) // 2
        return Foreseen(self.models.attention.shape[1], len(self._counts), self._scorer.columns, pairs)

    def mend(self, sums: Foreseen, lists: Lists, weights: Array, outcomes: Array) -> None:
        """Add old lists that the new rankers could have shown, and their scores."""
        kept = np.minimum(weights, self.clip)
        add_foreseen(self._scorer.chosen, self._scorer.linear, lists, kept, outcomes, self.models, sums.mended)

    def foresee(self, sums: Foreseen, rows: Rows, pages: Array, groups: Array, key: Any) -> None:
        """Add lists of the new rankers in the place of old ones, each drawn by the key and the old impression."""
        repeats, words = self._repeats, words_of(key)
        size = max(1, CHUNK // repeats)
        for start in range(0, len(pages), size):
            some = np.arange(start, min(start + size, len(pages))).repeat(repeats)
            keys = streams(words, rows.identity[some] + np.arange(len(some), dtype=np.uint64) % np.uint64(repeats))
            lists = drawn(self._scorer.chosen, self._ranked, rows.query[some], pages[some], keys)
            self.foresee_lists(sums, lists._replace(groups=groups[some]), 1 / repeats)

    def foresee_lists(self, sums: Foreseen, lists: Lists, each: float) -> None:
        """Add lists of the new rankers, each in the place of so many old ones."""
        inside = np.arange(lists.entries.shape[1]) < lists.counts[:, None]
        sums.places += int(inside.sum())
        sums.known += int(self._shown[lists.entries][inside].sum())
        add_slack(self._scorer.chosen, self._scorer.linear, lists, ~self._shown, each, self.models, sums.slack)
        ones, nothing = np.full(len(inside), -each), np.zeros((len(inside), self._scorer.columns))
        add_foreseen(self._scorer.chosen, self._scorer.linear, lists, ones, nothing, self.models, sums.foreseen)

    def estimates(self, sums: Foreseen, mended: bool, confidence: float) -> tuple[Estimate, ...]:
        """One for each pair: of the model alone, or doubly robust."""
        whole = sums.foreseen + sums.mended if mended else sums.foreseen
        made = jackknifed(self._scorer.by_pair(whole), self._counts, confidence)
        slack = sums.slack / self._counts.sum()
        return tuple(widened(one, *between) for one, between in zip(made, slack.tolist(), strict=True))


def drawn(chosen: Chosen, ranked: Ranked, queries: Array, lengths: Array, keys: Array) -> Lists:
    """A list of the new rankers for each row, as long as asked for, if they have so many documents; all of group 0."""
    k, longest = int(lengths.max(initial=1)), int(ranked.lengths.max(initial=1))
    made = chosen.method.kernels.settings((longest,), chosen.parameters, False)
    shown, teams, counts = batch.compose(chosen, ranked.given, made, queries, keys, k)
    counts = np.minimum(counts, lengths)
    entries = np.where(np.arange(k) < counts[:, None], ranked.starts[queries][:, None] + shown, 0)
    return Lists(impressions_of(ranked, queries, entries, teams), entries, counts, np.zeros_like(counts))


def impressions_of(ranked: Ranked, queries: Array, entries: Array, teams: Array) -> Impression:
    """Lists as the new rankers rank them."""
    width = entries.shape[1]
    ranks = np.ascontiguousarray(ranked.ranks[entries].swapaxes(1, 2))
    return Impression(ranks, teams, ranked.lengths[queries], ranked.union[queries], ranked.choices[queries, :width])


def jackknifed(sums: Array, counts: Array, confidence: float) -> tuple[Estimate, ...]:
    """Means of `sums[model, group, column]` over `counts[group]`; model m > 0 is that without group m - 1.

    se^2 = (G - 1) / G * sum over groups g of (theta_(g) - mean theta_(g))^2,   t interval with G - 1 degrees
    """
    from scipy.special import stdtr, stdtrit

    total, groups = counts.sum(), int((counts > 0).sum())
    values = sums[0].sum(axis=0) / total
    if groups < 2:
        reason = "all units are in one group: there is nothing to tell chance by"
        return tuple(Estimate(float(value), None, None, None, float(groups), groups, reason) for value in values)
    left = np.array([np.delete(sums[g + 1], g, 0).sum(axis=0) / (total - counts[g]) for g in np.flatnonzero(counts)])
    errors = np.sqrt((groups - 1) / groups * ((left - left.mean(axis=0)) ** 2).sum(axis=0))
    made = []
    for value, error in zip(values.tolist(), errors.tolist(), strict=True):
        if error <= 1e-12:
            reason = "leaving out units changes nothing: there is no variance to tell chance by"
            made.append(Estimate(value, None, None, None, float(groups), groups, reason))
            continue
        radius = float(stdtrit(groups - 1, (1 + confidence) / 2)) * error
        p_value = min(1.0, 2 * float(stdtr(groups - 1, -abs(value) / error)))
        made.append(Estimate(value, error, (value - radius, value + radius), p_value, float(groups), groups))
    return tuple(made)


def widened(found: Estimate, raised: float, lowered: float) -> Estimate:
    """The same, if its value may be so much higher or lower; the p-value is that of the value nearest to 0."""
    from scipy.special import stdtr

    if found.value is None or found.error is None or found.interval is None or found.effective_units is None:
        return found
    interval = found.interval[0] - lowered, found.interval[1] + raised
    nearest = max(found.value - lowered, 0.0) - min(found.value + raised, 0.0)
    p_value = min(1.0, 2 * float(stdtr(found.effective_units - 1, -nearest / found.error)))
    return replace(found, interval=interval, p_value=p_value)
