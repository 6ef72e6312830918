"""Probabilities of old lists, and their scores for new rankers (H12h).

Clicks depend on the list alone, so the outcome of target rankers T is E_T[o] = E_S[w o] over lists of source rankers S,
with importance weights w of the whole list. On lists of probabilistic interleaving, o is the sign of the difference of
clicks:

    PI+IS      w = P_T(L, a) / P_S(L, a),  o by the observed assignment a            unbiased, the noisiest
    PI+MA      w = 1,                      o = sum_a P_T(a | L) o(a)                 biased, the steadiest
    PI+IS+MA   w = P_T(L) / P_S(L),        o = sum_a P_T(a | L) o(a)                 unbiased

Clipped forms take min(w, clip): less variance, and a bias towards lists that S shows often. On lists of team draft,
`TD` uses only lists that T could have drafted (w = 1, else 0), with the exact distribution of owners given the list
(`fill=fair`); it is biased. A positive value means that the first ranker is better (H12h has the opposite sign).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from interleaf.errors import MethodError, SchemeError, join_names
from interleaf.interleaving import batch, kernel_calls
from interleaf.kernels.arrays import Array, Impression, pairs
from interleaf.kernels.jit import impression_at, inline_kernel, kernel
from interleaf.methods.loops import score_columns
from interleaf.methods.probabilistic import ProbabilisticSettings, settings, write_shares
from interleaf.methods.registry import DRAFTED, INDEPENDENT, METHODS, ResolvedMethod, resolve
from interleaf.methods.schemes import Scheme

CLIP = 10.0  # weights average 1 over the source's lists
MAX_DRAFTING = 12  # rankers; the state of a draft is a subset of them, so the cost is exponential
MEMBERS = np.array([subset.bit_count() for subset in range(2**MAX_DRAFTING)])
MAX_LOG_WEIGHT = 300.0  # P_S(w > x) < 1/x, so that a log of the source's own lists never holds a weight of e^300


def draft_outcomes(impressions: Impression, counts: Array, clicks: Array) -> tuple[Array, Array]:
    """The expected sign of each pair of rankers `[row, pair]`, and whether they could have drafted the list `[row]`."""
    rankers = impressions.ranks.shape[1]
    outcomes, usable = np.zeros((len(counts), rankers, rankers)), np.zeros(len(counts), np.bool_)
    draft_sign_batch(impressions, counts, clicks, outcomes, usable)
    return outcomes[:, *pairs(rankers)], usable


@kernel
def draft_sign(impression: Impression, clicks: Array, preference: Array, one: Any) -> bool:
    """The expected sign of the difference of owned clicks given the list; False where it could not be drafted."""
    rankers, count = impression.ranks.shape
    able, best = np.zeros(count, np.int64), np.zeros(count, np.int64)
    if not _drafters(impression.ranks, impression.lengths, able, best):
        return False
    for ours in range(rankers):
        for theirs in range(ours):
            chances = np.zeros((2**rankers, 2 * count + 1), preference.dtype)
            chances[0, count] = one
            for position in range(count):
                credited = clicks[position] and position < impression.lengths.min()
                chances = _advance_draft(chances, able[position], best[position], ours, theirs, credited)
            total = chances.sum()
            if total == 0:
                return False
            value = (chances[:, count + 1 :].sum() - chances[:, :count].sum()) / total
            preference[ours, theirs], preference[theirs, ours] = value, 0 - value
    return True


@inline_kernel
def _drafters(ranks: Array, lengths: Array, able: Array, best: Array) -> bool:
    """As bits: who still can pick at each position, and whose best unshown document it holds; False if nobody's."""
    rankers, count = ranks.shape
    shown = np.zeros((rankers, count + 2), np.bool_)
    following = np.ones(rankers, np.int64)
    for position in range(count):
        for ranker in range(rankers):
            able[position] |= (following[ranker] <= lengths[ranker]) << ranker
            best[position] |= (following[ranker] == ranks[ranker, position]) << ranker
            shown[ranker, min(ranks[ranker, position], count + 1)] = True
            while following[ranker] <= count and shown[ranker, following[ranker]]:
                following[ranker] += 1
        if best[position] == 0:
            return False
    return True


@inline_kernel
def _advance_draft(chances: Array, able: int, best: int, ours: int, theirs: int, credited: bool) -> Array:
    """Move `chances[who has picked in this round, our lead from the middle]` on by a position."""
    after = np.zeros_like(chances)
    for picked in range(chances.shape[0]):
        waiting, opened = able & ~picked, picked
        if waiting == 0:
            waiting, opened = able, 0
        ways = int(MEMBERS[waiting])
        for ranker in range(MAX_DRAFTING):
            if waiting & best & (1 << ranker):
                step = (ranker == ours) - (ranker == theirs) if credited else 0
                for lead in range(1, chances.shape[1] - 1):
                    after[opened | (1 << ranker), lead + step] += chances[picked, lead] / ways
    return after


@kernel
def draft_sign_batch(impressions: Impression, counts: Array, clicks: Array, preferences: Array, usable: Array) -> None:
    """Rows that could not be drafted stay at zero."""
    for row in range(len(counts)):
        usable[row] = draft_sign(impression_at(impressions, row, counts[row]), clicks[row], preferences[row], 1.0)


def log_chances(chosen: ResolvedMethod, impressions: Impression, counts: Array) -> tuple[Array, Array]:
    """log P(L), and log P(L, a) with the owners a, `[row]`; nan where unknown.

    >>> from interleaf.methods.registry import resolve
    >>> one = Impression.of(*(np.array([value]) for value in ([[1, 2], [2, 1]], [0, 0], [2, 2], 2, [2, 2])))
    >>> np.exp(log_chances(resolve("probabilistic"), one, np.array([2]))[0])
    array([0.5])
    """
    of_list, of_owned = np.full((2, len(counts)), np.nan)
    if not len(counts):
        return of_list, of_owned
    if chosen.method.owners_given_list == INDEPENDENT:
        longest = int(impressions.lengths.max(initial=1))
        _log_chances_batch(impressions, counts, of_list, of_owned, settings((longest,), chosen.parameters, False))
    elif chosen.method.kernels.probability is not None:
        of_list = _one_by_one(chosen, impressions, counts)
    return of_list, of_owned


@kernel
def write_chances(
    impression: Impression, of_list: Array, of_owned: Array, shares: Array, settings: ProbabilisticSettings
) -> None:
    """The probability of the document at each rank, and of document and owner; nan where nobody owns it."""
    rankers, count = impression.ranks.shape
    write_shares(impression, count - 1, settings, shares)
    for position in range(count):
        total = shares[0, position]
        for ranker in range(1, rankers):
            total += shares[ranker, position]
        of_list[position] = total / rankers
        owner = impression.teams[position]
        of_owned[position] = shares[owner, position] / rankers if 0 <= owner < rankers else np.nan


@kernel
def _log_chances_batch(
    impressions: Impression, counts: Array, of_list: Array, of_owned: Array, settings: ProbabilisticSettings
) -> None:
    rankers, width = impressions.ranks.shape[1:]
    by_list, by_owned, shares = np.zeros(width), np.zeros(width), np.zeros((rankers, width))
    for row in range(len(counts)):
        write_chances(impression_at(impressions, row, counts[row]), by_list, by_owned, shares, settings)
        of_list[row] = of_owned[row] = 0.0
        for position in range(counts[row]):
            of_list[row] += np.log(by_list[position])
            of_owned[row] += np.log(by_owned[position])


def _one_by_one(chosen: ResolvedMethod, impressions: Impression, counts: Array) -> Array:
    """Compute each different impression once; -inf for a list that the method never shows."""
    ranks, teams, lengths, union, choices, *_ = impressions
    parts = (ranks, lengths, union, choices, counts)
    flat = np.concatenate([np.asarray(part, np.int64).reshape(len(counts), -1) for part in parts], axis=1)
    _, rows, kind_of = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    logs = np.full(len(rows), np.nan)
    for place, row in enumerate(rows.tolist()):
        shown = slice(int(counts[row]))
        columns = [np.ascontiguousarray(part[row][..., shown], np.int32) for part in (ranks, teams, choices)]
        factors = kernel_calls.probability(
            chosen, Impression.of(columns[0], columns[1], lengths[row], int(union[row]), columns[2])
        )
        if factors is not None:
            with np.errstate(divide="ignore"):
                logs[place] = np.log(factors).sum()
    return np.asarray(logs[kind_of.reshape(-1)])


@dataclass(frozen=True)
class Scorer:
    """Scores old lists by a method and its scheme; a column for each ranker if `linear`, else for each pair.

    >>> scorer_of("probabilistic", None, 2).scheme.name
    'binary'
    """

    chosen: ResolvedMethod
    scheme: Scheme
    rankers: int

    @property
    def independent(self) -> bool:
        """Whether owners are independent by position, so that there is a closed form over all owners."""
        return self.chosen.method.owners_given_list == INDEPENDENT

    @property
    def foreseeable(self) -> bool:
        """Whether the score that a click model expects can be computed: not if credit is divided by the clicks."""
        return self.independent and not self.scheme.form.divides

    @property
    def linear(self) -> bool:
        return self.scheme.form.linear

    @property
    def columns(self) -> int:
        return self.rankers if self.linear else self.rankers * (self.rankers - 1) // 2

    def bound(self, longest: int) -> float | None:
        """The largest score of a list of `longest` documents; None for inverse propensities, which have no bound."""
        if not self.chosen.method.owners_given_list:
            return None
        return float(longest) if self.linear and not self.scheme.form.divides else 1.0

    def __call__(self, impressions: Impression, counts: Array, clicks: Array) -> Array:
        """Scores `[row, column]`."""
        if not len(counts):
            return np.zeros((0, self.columns))
        if self.chosen.method.owners_given_list == DRAFTED:
            return draft_outcomes(impressions, counts, clicks)[0]
        if not self.linear:
            preferences = batch.preferences(self.chosen, self.scheme, impressions, counts, clicks)
            return preferences[:, *pairs(self.rankers)]
        return score_columns(
            self.scheme.form, *batch.credit_known(self.chosen, self.scheme, impressions, counts, clicks)
        )

    def score_by_owners(self, impressions: Impression, clicks: Array) -> Array:
        """Scores by the owners that were drawn."""
        rankers = range(self.rankers)
        owned = np.stack([(clicks & (impressions.teams == ranker)).sum(axis=1) for ranker in rankers], axis=1)
        return score_columns(self.scheme.form, owned.astype(np.float64), clicks.sum(axis=1))

    def by_pair(self, values: Array) -> Array:
        """`[..., pair]` from `[..., column]`."""
        first, second = pairs(self.rankers)
        return np.asarray(values[..., first] - values[..., second] if self.linear else values)


def scorer_of(method: str, scheme: str | None, rankers: int) -> Scorer:
    """The scorer of a method; the method must know the probability of its lists, and score them without owners."""
    chosen = resolve(method)
    if not chosen.method.abbreviation:
        names = [name for name, method in METHODS.items() if method.abbreviation]
        raise MethodError(f"new rankers cannot be compared by {chosen} on old lists; by {join_names(names)} they can")
    if chosen.method.owners_given_list == DRAFTED:
        if scheme not in (None, "binary") or str(chosen) != chosen.method.name or rankers > MAX_DRAFTING:
            raise SchemeError(
                f"drafted lists can be scored by {chosen.method.name} without parameters, scheme 'binary', for up to "
                f"{MAX_DRAFTING} rankers, not by {chosen}, scheme {scheme!r}, for {rankers}; give another method"
            )
        scheme = "binary"
    return Scorer(chosen, chosen.scheme(scheme, rankers), rankers)
