"""How likely old lists were, and what an old impression would have said had the new rankers shown its list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interleaf import batch
from interleaf.compiled import impression_at, kernel
from interleaf.counterfactual.history import MOST_DRAFTING, draft_sign_batch
from interleaf.errors import MethodError, SchemeError, listed
from interleaf.methods import call, forms
from interleaf.methods.arrays import Array, Impression, pairs
from interleaf.methods.probabilistic import Settings, settings, write_shares
from interleaf.methods.table import DRAFTED, INDEPENDENT, METHODS, Chosen, Scheme, resolve
from interleaf.score import formed


def log_chances(chosen: Chosen, impressions: Impression, counts: Array) -> tuple[Array, Array]:
    """log P(L), and log P(L, a) of the assignment a, `[row]`; nan where the method or the log cannot tell.

    >>> from interleaf.methods.table import resolve
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


def _one_by_one(chosen: Chosen, impressions: Impression, counts: Array) -> Array:
    """Each different impression once; -inf for a list that the method never shows."""
    parts = (impressions.ranks, impressions.lengths, impressions.union, impressions.choices, counts)
    flat = np.concatenate([np.asarray(part, np.int64).reshape(len(counts), -1) for part in parts], axis=1)
    _, rows, kind_of = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    found = np.array([_log_chance(chosen, impressions, int(row), int(counts[row])) for row in rows])
    return np.asarray(found[kind_of.reshape(-1)])


def _log_chance(chosen: Chosen, impressions: Impression, row: int, count: int) -> float:
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

    chosen: Chosen
    scheme: Scheme
    rankers: int

    @property
    def independent(self) -> bool:
        """Whether owners are independent by position, and so summed over in closed form."""
        return self.chosen.method.owners_given_list == INDEPENDENT

    @property
    def foreseeable(self) -> bool:
        """Whether what a click model expects of a list is known: not where clicks are divided by their number."""
        return self.independent and self.scheme.form != forms.NORMALIZED

    @property
    def linear(self) -> bool:
        return self.scheme.form != forms.BINARY

    @property
    def columns(self) -> int:
        return self.rankers if self.linear else self.rankers * (self.rankers - 1) // 2

    def bound(self, longest: int) -> float | None:
        """The largest score of a list of so many documents; None for inverse propensities, which have no useful one."""
        if not self.chosen.method.owners_given_list:
            return None
        return float(longest) if self.scheme.form == forms.CLICK else 1.0

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
