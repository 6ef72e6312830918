"""What an old impression would have said, had the new rankers shown its list: the score, given list and clicks alone.

Owners are not known, so they are summed over: for probabilistic lists by their posterior, for drafts by all ways to
draft the list. Pairwise preference needs no owners.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interleaf import batch
from interleaf.errors import MethodError, SchemeError, listed
from interleaf.methods import forms
from interleaf.methods.arrays import Array, Impression, pairs
from interleaf.methods.table import DRAFTED, INDEPENDENT, METHODS, Chosen, Scheme, resolve
from interleaf.refine.history import MOST_DRAFTING, draft_sign_batch
from interleaf.score import formed


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
