"""The doubly robust estimate: what a click model foresees for the new rankers, mended by what the old lists show.

    DR = mean over impressions of  f(L') + min(w, sqrt n) (o - f(L))

L is the old list, o its score and w its weight; L' is a list that the new rankers would have shown in its place, drawn
by chance; f is what the model expects of a list. If the model is right, the second term is 0 on average; if weights
are small, it is small, and the model stands alone; if weights are enough, it takes the model's error away. Weights are
truncated at the square root of n (Ionides 2008), which keeps the variance at bay and lets the bound go as n grows.

Errors are a jackknife over groups of units, model, drawn lists and all: the model is as uncertain as its clicks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from interleaf import batch
from interleaf.methods.arrays import Array, Impression
from interleaf.methods.table import Chosen
from interleaf.refine.reuse.foresee import Lists, add_foreseen
from interleaf.refine.reuse.model import cells, fit
from interleaf.refine.reuse.outcomes import Scorer
from interleaf.refine.reuse.prior import features
from interleaf.refine.reuse.rankings import Ranked
from interleaf.simulate.draws import streams, words_of
from interleaf.stats.compare import Estimate

GROUPS = 20
FEWEST_DRAWN = 100_000  # lists of the new rankers, at least one for each old list: their chance adds to the error
CHUNK = 65_536


class Robust:
    """The doubly robust estimate of old impressions, given chunk by chunk; the model is fitted to all of them first.

    `entries[row, position]` are the documents of the old lists, -1 what no new ranker ranks, `queries` those of the new
    rankings, `groups` keep units together, numbered from 0.
    """

    def __init__(self, scorer: Scorer, ranked: Ranked, entries: Array, clicks: Array, groups: Array) -> None:
        self._scorer, self._ranked = scorer, ranked
        self._groups = int(groups.max(initial=0)) + 1
        shown = cells(entries, clicks, groups, self._groups)
        self.models = fit(shown, features(ranked, entries), entries.shape[1], self._groups)
        self.clip = math.sqrt(len(entries))
        self._counts = np.bincount(groups, minlength=self._groups).astype(np.float64)
        self._foreseen, self._mended = np.zeros((2, self.models.attention.shape[1], self._groups, scorer.columns))
        self._shown = np.zeros(len(ranked.ranks), np.bool_)
        self._shown[entries[entries >= 0]] = True
        self._places = self._known = 0

    def mend(self, lists: Lists, weights: Array, outcomes: Array) -> None:
        """Old lists that the new rankers could have shown, and their scores."""
        kept = np.minimum(weights, self.clip)
        add_foreseen(self._scorer.chosen, self._scorer.linear, lists, kept, outcomes, self.models, self._mended)

    def foresee(self, queries: Array, counts: Array, groups: Array, key: Any) -> None:
        """Lists of the new rankers in the place of all old ones, each drawn by the key and its number."""
        repeats = max(1, math.ceil(FEWEST_DRAWN / len(queries)))
        words, size = words_of(key), max(1, CHUNK // repeats)
        for start in range(0, len(queries), size):
            rows = np.arange(start, min(start + size, len(queries))).repeat(repeats)
            keys = streams(words, np.arange(len(rows)) + start * repeats)
            lists = drawn(self._scorer.chosen, self._ranked, queries[rows], counts[rows], keys)
            self.foresee_lists(lists._replace(groups=groups[rows]), 1 / repeats)

    def foresee_lists(self, lists: Lists, each: float) -> None:
        """Lists of the new rankers, each in the place of so many old ones."""
        inside = np.arange(lists.entries.shape[1]) < lists.counts[:, None]
        self._places += int(inside.sum())
        self._known += int(self._shown[lists.entries][inside].sum())
        ones, nothing = np.full(len(inside), -each), np.zeros((len(inside), self._scorer.columns))
        add_foreseen(self._scorer.chosen, self._scorer.linear, lists, ones, nothing, self.models, self._foreseen)

    @property
    def known(self) -> float | None:
        """The share of places in new lists that hold a document which the log shows for the query."""
        return self._known / self._places if self._places else None

    def estimates(self, mended: bool, confidence: float) -> tuple[Estimate, ...]:
        """One for each pair: of the model alone, or doubly robust."""
        sums = self._foreseen + self._mended if mended else self._foreseen
        return jackknifed(self._scorer.by_pair(sums), self._counts, confidence)


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
