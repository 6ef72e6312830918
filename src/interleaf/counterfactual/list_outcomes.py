"""Old impressions for new rankers (H12h): lists shown for source rankers say how target rankers would compare.

Clicks depend on the list alone, so the outcome of target rankers T is E_T[o] = E_S[w o], with importance weights w over
the whole shown list. From impressions of probabilistic interleaving, o the sign of the clicks' difference:

    PI+IS      w = P_T(L, a) / P_S(L, a),  o by the observed assignment a            unbiased, the noisiest
    PI+MA      w = 1,                      o = sum_a P_T(a | L) o(a)                 biased, the steadiest
    PI+IS+MA   w = P_T(L) / P_S(L),        o = sum_a P_T(a | L) o(a)                 unbiased

Clipped forms take min(w, clip): less variance, and a bias towards lists that S shows often. From team draft, `TD` can
only use lists that T could have drafted (w = 1, else 0), with the exact distribution of owners given the list (fair
filling), and stays biased. Positive: the ranker named first is better (H12h writes the opposite sign).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from interleaf.decode.scoring import formed
from interleaf.errors import ListError, MethodError, SchemeError, listed
from interleaf.interleaving import batch, call
from interleaf.kernels.arrays import Array, Impression, pairs
from interleaf.kernels.jit import impression_at, inline_kernel, kernel
from interleaf.methods import schemes
from interleaf.methods.probabilistic import Settings, settings, write_shares
from interleaf.methods.registry import DRAFTED, INDEPENDENT, METHODS, ResolvedMethod, Scheme, resolve

CLIP = 10.0  # weights average 1 over the source's lists
ROUNDING = 1e-12  # outcomes and sums that are zero on paper come out as a few last digits
MOST_DRAFTING = 12  # rankers: the state of a draft is a subset of them
MEMBERS = np.array([subset.bit_count() for subset in range(2**MOST_DRAFTING)])
MOST_LOG_WEIGHT = 300.0  # P_S(w > x) < 1/x, so that a log of the source's own lists never holds a weight of e^300


@dataclass(frozen=True, eq=False)
class Sums:
    """All that an estimate needs to know of some impressions; sums of parts add up to those of the whole.

    `weight` is sum w, `square` sum w^2, `outcome[i, j]` sum w o, `size[i, j]` sum w |o|; `usable` counts weights above
    0, `clipped` those that were cut, `lost` what was cut from them; `largest` is the largest weight that is left.
    """

    impressions: int
    usable: int
    weight: float
    square: float
    outcome: Array
    size: Array
    clipped: int
    lost: float
    largest: float

    def __add__(self, other: Sums) -> Sums:
        added = {field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        return Sums(**added | {"largest": max(self.largest, other.largest)})

    @property
    def estimate(self) -> Array | None:
        """The expected outcome of each pair of target rankers, the mean of w o; None without an impression."""
        return self.outcome / self.impressions if self.impressions else None

    @property
    def normalized(self) -> Array | None:
        """Self-normalised, sum w o / sum w: between -1 and 1, biased by O(1/n); None where nothing could be used."""
        return self.outcome / self.weight if self.weight > 0 else None

    @property
    def decision(self) -> Array:
        """1 where the first ranker of a pair is better, -1 worse, 0 undecided; self-normalising changes no sign."""
        decided = np.abs(self.outcome) > ROUNDING * self.size
        return np.where(decided, np.sign(self.outcome), 0).astype(np.int64)

    @property
    def effective(self) -> float:
        """The effective sample size, (sum w)^2 / sum w^2: how many equal weights would vary as much."""
        return self.weight**2 / self.square if self.square > 0 else 0.0

    @property
    def mean_weight(self) -> float | None:
        """Near 1 for unclipped weights if the impressions cover what the target would show; None without any."""
        return self.weight / self.impressions if self.impressions else None

    @property
    def clipped_mass(self) -> float:
        """The share of all weight that clipping took away."""
        return self.lost / (self.weight + self.lost) if self.lost > 0 else 0.0


def summed(weights: Array, outcomes: Array, clip: float | None = None) -> Sums:
    """Sums of impressions with these weights `[row]` and outcomes `[row, ranker, ranker]`."""
    if clip is not None and not clip > 0:
        raise MethodError(f"weights cannot be clipped at {clip!r}; give a number above 0, such as {CLIP:g}")
    kept = weights if clip is None else np.minimum(weights, clip)
    outcomes = np.where(np.abs(outcomes) <= ROUNDING, 0.0, outcomes)
    return Sums(
        impressions=len(kept),
        usable=int(np.count_nonzero(kept > 0)),
        weight=float(kept.sum()),
        square=float((kept**2).sum()),
        outcome=np.tensordot(kept, outcomes, 1),
        size=np.tensordot(kept, np.abs(outcomes), 1),
        clipped=int(np.count_nonzero(kept < weights)),
        lost=float((weights - kept).sum()),
        largest=float(kept.max(initial=0.0)),
    )


def reweighted(
    source: Impression, target: Impression, counts: Array, clicks: Array, tau: float = 3, clip: float = CLIP
) -> dict[str, Sums]:
    """PI+MA, PI+IS and PI+IS+MA, and the clipped forms of the weighted ones, by name.

    Both records hold the same rows: `ranks` and `lengths` by the source's and by the target's rankers, and the `union`
    of each; `source.teams` are the observed assignments. PI+IS is left out where it has no meaning: without
    assignments, or when source and target differ in the number of rankers.
    """
    chosen = resolve(f"probabilistic(tau={tau})")
    of_list, of_owned = log_weights(source, target, counts, chosen)
    marginal = batch.preferences(chosen, chosen.scheme("binary", target.ranks.shape[1]), target, counts, clicks, 1)
    found = {"PI+MA": summed(np.ones(len(counts)), marginal)}
    shown = np.arange(source.teams.shape[1]) < counts[:, None]
    if (source.teams[shown] >= 0).all() and source.ranks.shape[1] == target.ranks.shape[1]:
        found |= _weighted("PI+IS", of_owned, _observed(source, clicks), clip)
    return found | _weighted("PI+IS+MA", of_list, marginal, clip)


def _weighted(name: str, logs: Array, outcomes: Array, clip: float) -> dict[str, Sums]:
    weights = np.exp(logs)
    return {name: summed(weights, outcomes), f"{name} clipped": summed(weights, outcomes, clip)}


def _observed(source: Impression, clicks: Array) -> Array:
    """The sign of the difference of owned clicks, `[row, ranker, ranker]`."""
    rankers = range(source.ranks.shape[1])
    owned = np.stack([(clicks & (source.teams == ranker)).sum(axis=1) for ranker in rankers], axis=1)
    return np.array(np.sign(owned[:, :, None] - owned[:, None, :]), np.float64)


def log_weights(source: Impression, target: Impression, counts: Array, chosen: ResolvedMethod) -> tuple[Array, Array]:
    """The logs of P_T(L) / P_S(L) and of P_T(L, a) / P_S(L, a), `[row]`.

    Over all that was shown: where the last click falls depends on the documents below it, so a cut there is biased.
    """
    longest = int(max(source.lengths.max(initial=1), target.lengths.max(initial=1)))
    of_list, of_owned = np.zeros(len(counts)), np.zeros(len(counts))
    weigh_batch(source, target, counts, of_list, of_owned, settings((longest,), chosen.parameters, False))
    larger = np.maximum(of_list, of_owned)
    if larger.max(initial=0.0) > MOST_LOG_WEIGHT:
        raise ListError(
            f"impression {larger.argmax()} has weight e^{larger.max():.0f}: the source rankers would never show its "
            "list; give the ranks, the assignment and the tau that it was composed with"
        )
    return of_list, of_owned


@kernel
def weigh(source: Impression, target: Impression, of_list: Array, of_owned: Array, settings: Settings) -> None:
    """At each rank P_T(d) / P_S(d), and the same of the ranker that was drawn; the weights are their products."""
    rankers, count = source.ranks.shape
    targets = target.ranks.shape[0]
    before, after = np.zeros((rankers, count), of_list.dtype), np.zeros((targets, count), of_list.dtype)
    write_shares(source, count - 1, settings, before)
    write_shares(target, count - 1, settings, after)
    for position in range(count):
        of_list[position] = after[:, position].sum() * rankers / (before[:, position].sum() * targets)
        owner = source.teams[position]
        if 0 <= owner < targets:
            of_owned[position] = after[owner, position] / before[owner, position]


@kernel
def weigh_batch(
    source: Impression, target: Impression, counts: Array, of_list: Array, of_owned: Array, settings: Settings
) -> None:
    """The logs of each row's weights."""
    by_list, by_owned = np.ones(source.ranks.shape[2]), np.ones(source.ranks.shape[2])
    for row in range(len(counts)):
        count, by_owned[:] = counts[row], 1.0
        weigh(impression_at(source, row, count), impression_at(target, row, count), by_list, by_owned, settings)
        of_list[row] = np.log(by_list[:count]).sum()
        of_owned[row] = np.log(by_owned[:count]).sum()


def drafted(target: Impression, counts: Array, clicks: Array) -> Sums:
    """TD: the impressions that the target rankers could have drafted; all others are counted and contribute nothing."""
    rankers = target.ranks.shape[1]
    if rankers > MOST_DRAFTING:
        raise MethodError(f"a draft by {rankers} rankers has too many ways to go; give at most {MOST_DRAFTING}")
    outcomes, usable = np.zeros((len(counts), rankers, rankers)), np.zeros(len(counts))
    draft_sign_batch(target, counts, clicks, outcomes, usable)
    return summed(usable, outcomes)


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
                chances = _drafted(chances, able[position], best[position], ours, theirs, credited)
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
def _drafted(chances: Array, able: int, best: int, ours: int, theirs: int, credited: bool) -> Array:
    """Move `chances[who has picked in this round, our lead from the middle]` on by a position."""
    after = np.zeros_like(chances)
    for picked in range(chances.shape[0]):
        waiting, opened = able & ~picked, picked
        if waiting == 0:
            waiting, opened = able, 0
        ways = int(MEMBERS[waiting])
        for ranker in range(MOST_DRAFTING):
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
    """log P(L), and log P(L, a) of the assignment a, `[row]`; nan where the method or the log cannot tell.

    >>> from interleaf.methods.registry import resolve
    >>> one = Impression(*(np.array([value]) for value in ([[1, 2], [2, 1]], [0, 0], [2, 2], 2, [2, 2])))
    >>> np.exp(log_chances(resolve("probabilistic"), one, np.array([2]))[0])
    array([0.5])
    """
    of_list, of_owned = np.full((2, len(counts)), np.nan)
    if not len(counts):
        return of_list, of_owned
    if chosen.method.owners_given_list == INDEPENDENT:
        longest = int(impressions.lengths.max(initial=1))
        _log_shares(impressions, counts, of_list, of_owned, settings((longest,), chosen.parameters, False))
    elif chosen.method.kernels.probability is not None:
        of_list = _one_by_one(chosen, impressions, counts)
    return of_list, of_owned


@kernel
def _log_shares(impressions: Impression, counts: Array, of_list: Array, of_owned: Array, settings: Settings) -> None:
    """Products of mean shares, and of the drawn rankers' shares; positions owned by nobody leave the latter unknown."""
    rankers = impressions.ranks.shape[1]
    teams = impressions.teams
    shares = np.zeros((rankers, impressions.ranks.shape[2]))
    for row in range(len(counts)):
        count = counts[row]
        write_shares(impression_at(impressions, row, count), count - 1, settings, shares)
        listed = owned = 0.0
        for position in range(count):
            total = 0.0
            for ranker in range(rankers):
                total += shares[ranker, position]
            listed += np.log(total / rankers)
            owner = teams[row, position]
            owned += np.log(shares[owner, position] / rankers) if 0 <= owner < rankers else np.nan
        of_list[row], of_owned[row] = listed, owned


def _one_by_one(chosen: ResolvedMethod, impressions: Impression, counts: Array) -> Array:
    """Each different impression once; -inf for a list that the method never shows."""
    parts = (impressions.ranks, impressions.lengths, impressions.union, impressions.choices, counts)
    flat = np.concatenate(
        [np.asarray(inline_kernel, np.int64).reshape(len(counts), -1) for inline_kernel in parts], axis=1
    )
    _, rows, kind_of = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    found = np.array([_log_chance(chosen, impressions, int(row), int(counts[row])) for row in rows])
    return np.asarray(found[kind_of.reshape(-1)])


def _log_chance(chosen: ResolvedMethod, impressions: Impression, row: int, count: int) -> float:
    ranks, teams, lengths, union, choices = impressions
    one = Impression(
        np.ascontiguousarray(ranks[row, :, :count], np.int32),
        np.ascontiguousarray(teams[row, :count], np.int32),
        lengths[row],
        int(union[row]),
        np.ascontiguousarray(choices[row, :count], np.int32),
    )
    factors = call.probability(chosen, one)
    if factors is None:
        return np.nan
    with np.errstate(divide="ignore"):
        return float(np.log(factors).sum())


@dataclass(frozen=True)
class Scorer:
    """A method that new rankers are compared by, and its scheme; `linear`: a column a ranker, else a column a pair.

    >>> scorer_of("probabilistic", None, 2).scheme.name
    'binary'
    """

    chosen: ResolvedMethod
    scheme: Scheme
    rankers: int

    @property
    def independent(self) -> bool:
        """Whether owners are independent by position, and so summed over in closed form."""
        return self.chosen.method.owners_given_list == INDEPENDENT

    @property
    def foreseeable(self) -> bool:
        """Whether what a click model expects of a list is known: not where clicks are divided by their number."""
        return self.independent and self.scheme.form != schemes.NORMALIZED

    @property
    def linear(self) -> bool:
        return self.scheme.form != schemes.BINARY

    @property
    def columns(self) -> int:
        return self.rankers if self.linear else self.rankers * (self.rankers - 1) // 2

    def bound(self, longest: int) -> float | None:
        """The largest score of a list of so many documents; None for inverse propensities, which have no useful one."""
        if not self.chosen.method.owners_given_list:
            return None
        return float(longest) if self.scheme.form == schemes.CLICK else 1.0

    def __call__(self, impressions: Impression, counts: Array, clicks: Array) -> Array:
        """Scores `[row, column]`."""
        if not len(counts):
            return np.zeros((0, self.columns))
        if self.chosen.method.owners_given_list == DRAFTED:
            outcomes = np.zeros((len(counts), self.rankers, self.rankers))
            draft_sign_batch(impressions, counts, clicks, outcomes, np.zeros(len(counts)))
            return outcomes[:, *pairs(self.rankers)]
        if not self.linear:
            found = batch.preferences(self.chosen, self.scheme, impressions, counts, clicks)
            return found[:, *pairs(self.rankers)]
        return formed(*batch.credit(self.chosen, self.scheme, impressions, counts, clicks), self.scheme.name)

    def observed(self, impressions: Impression, clicks: Array) -> Array:
        """Scores by the owners that were drawn."""
        rankers = range(self.rankers)
        owned = np.stack([(clicks & (impressions.teams == ranker)).sum(axis=1) for ranker in rankers], axis=1)
        return formed(owned.astype(np.float64), clicks.sum(axis=1), self.scheme.name)

    def by_pair(self, values: Array) -> Array:
        """`[..., pair]` from `[..., column]`."""
        first, second = pairs(self.rankers)
        return np.asarray(values[..., first] - values[..., second] if self.linear else values)


def scorer_of(method: str, scheme: str | None, rankers: int) -> Scorer:
    """The scorer of a method that says how likely its lists are, and needs no owners to score them."""
    chosen = resolve(method)
    if not chosen.method.short:
        known = [name for name, method in METHODS.items() if method.short]
        raise MethodError(f"new rankers cannot be compared by {chosen} on old lists; by {listed(known)} they can")
    if chosen.method.owners_given_list != DRAFTED:
        return Scorer(chosen, chosen.scheme(scheme, rankers), rankers)
    if scheme not in (None, "binary") or str(chosen) != chosen.method.name or rankers > MOST_DRAFTING:
        raise SchemeError(
            f"whom clicks on a drafted list favour is known for {chosen.method.name} as it is, scheme 'binary' and up "
            f"to {MOST_DRAFTING} rankers, not for {chosen}, scheme {scheme!r} and {rankers}; give another method"
        )
    return Scorer(chosen, chosen.scheme("binary", rankers), rankers)
