"""All lists that a method can show for some rankings, and the exact preferences after all clicks on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np

from interleaf.clicks import ClickModel, Independent
from interleaf.errors import ClickError, ListError
from interleaf.interleaving import kernel_calls
from interleaf.interleaving.api import DrawnList
from interleaf.interleaving.rankings import CheckedRankings, Document, Rankings, check_k
from interleaf.kernels.arrays import Array, Impression, exactly
from interleaf.kernels.jit import plain
from interleaf.kernels.randomness import Tree
from interleaf.methods.loops import prefer
from interleaf.methods.registry import ResolvedMethod, resolve
from interleaf.methods.schemes import Scheme, SchemeForm

Shown = tuple[tuple[Document, ...], tuple[int, ...] | None]
Ranks = tuple[int, ...]


def distribution(rankings: Rankings, method: str, k: int) -> dict[Shown, Fraction]:
    """Every (documents, teams) that can be shown, with its exact probability; it runs the kernel that serves traffic.

    >>> distribution([["a", "b"], ["b", "a"]], "team_draft", k=1)
    {(('a',), (0,)): Fraction(1, 2), (('b',), (1,)): Fraction(1, 2)}
    """
    chosen = resolve(method)
    return dict(Enumeration(chosen, CheckedRankings.of(rankings, chosen), check_k(k)).shown)


def expectation(
    rankings: Rankings,
    method: str,
    k: int,
    clicks: ClickModel | Callable[[int, Document], Any],
    scheme: str | None = None,
) -> Array:
    """The exact expected preference matrix, in fractions; a function (rank, document) means independent clicks.

    >>> expectation([["a", "b"], ["b", "a"]], "team_draft", 2, lambda rank, document: document == "a")[0, 1]
    Fraction(1, 1)
    """
    chosen = resolve(method)
    problem = CheckedRankings.of(rankings, chosen)
    named = chosen.scheme(scheme, len(problem.rankers))
    if not isinstance(clicks, ClickModel) and not callable(clicks):
        raise ClickError(f"clicks are a click model or a function (rank, document) -> probability, not {clicks!r}")
    model = clicks if isinstance(clicks, ClickModel) else Independent(clicks)
    return Enumeration(chosen, problem, check_k(k)).expectation(model.distribution, named)


class Enumeration:
    """All lists of one method for some rankings, with probabilities, and the preferences after each click pattern."""

    def __init__(self, chosen: ResolvedMethod, problem: CheckedRankings, k: int) -> None:
        self.chosen, self.problem, self.k = chosen, problem, k
        self._work = kernel_calls.Composing(chosen, problem, k, exact=True)
        self.relaxed = bool(getattr(self._work.settings, "relaxed", False))
        self.settings = chosen.method.kernels.settings(problem.lengths, chosen.parameters, True)
        self.impression = cache(self._make_impression)
        self._credit = cache(self._compute_credit)
        self.preference = cache(self._compute_preference)

    @cached_property
    def shown(self) -> Mapping[Shown, Fraction]:
        """Each list with its teams and its probability."""
        kernel = plain(self.chosen.method.kernels.compose)
        lists: defaultdict[Shown, Fraction] = defaultdict(Fraction)
        for probability, (documents, teams, _) in Tree().branches(
            lambda randomness: self._work.run(kernel, randomness)
        ):
            lists[documents, teams] += probability
        return lists

    @cached_property
    def credited(self) -> Mapping[Shown, Fraction]:
        """The same lists, without their teams if credit does not depend on them."""
        if "teams" in self.chosen.method.needs:
            return self.shown
        lists: defaultdict[Shown, Fraction] = defaultdict(Fraction)
        for (documents, _), probability in self.shown.items():
            lists[documents, None] += probability
        return lists

    def _compute_preference(self, shown: Shown, clicks: Ranks, scheme: Scheme) -> Array:
        """The preferences after these clicks on this list under a scheme, in fractions."""
        kernels = self.chosen.method.kernels
        if scheme.form.takes_expected_sign and kernels.expected_sign is not None:
            preference = np.full((len(self.problem.rankers),) * 2, Fraction(0))
            plain(kernels.expected_sign)(self.impression(shown), _mark_clicks(clicks, shown), preference, self.settings)
            return preference
        credit, credited = self._credit(shown, clicks, scheme.variant)
        return _preference(tuple(credit), credited, scheme.form)

    def _compute_credit(self, shown: Shown, clicks: Ranks, variant: int) -> tuple[Array, int]:
        credit = np.full(len(self.problem.rankers), Fraction(0))
        kernel = plain(self.chosen.method.kernels.credit_of(variant))
        credited = kernel(self.impression(shown), _mark_clicks(clicks, shown), variant, credit, self.settings)
        if credited < 0:
            raise ListError(f"{self.chosen} cannot average the owners of a list of {len(shown[0])} documents exactly")
        return credit, credited

    def _make_impression(self, shown: Shown) -> Impression:
        interleaving = DrawnList(self.chosen, self.problem, None, *shown).interleaving()
        return exactly(interleaving.impression())

    def expectation(
        self, patterns: Callable[[tuple[Document, ...]], Mapping[Ranks, Fraction]], scheme: Scheme
    ) -> Array:
        """The expected preference matrix when `patterns(documents)` is the distribution of clicks on a list."""
        total = np.full((len(self.problem.rankers),) * 2, Fraction(0))
        for shown, probability in self.credited.items():
            for clicks, weight in patterns(shown[0]).items():
                if clicks:
                    total += probability * weight * self.preference(shown, clicks, scheme)
        return total

    def on_list(
        self, shown: Shown, patterns: Mapping[Ranks, Fraction], scheme: Scheme, one: int, other: int
    ) -> Fraction:
        """The expected preference of one ranker over another on one list, whose clicks have this distribution."""
        total = Fraction(0)
        for clicks, weight in patterns.items():
            if clicks and (preference := self.preference(shown, clicks, scheme)[one, other]):
                total += weight * preference
        return total


@cache
def _preference(credit: tuple[Fraction, ...], credited: int, form: SchemeForm) -> Array:
    """The preferences of all pairs of rankers with this credit."""
    preference = np.full((len(credit),) * 2, Fraction(0))
    plain(prefer(form))(np.array(credit, object), credited, 0, preference)
    return preference


def _mark_clicks(clicks: Ranks, shown: Shown) -> Array:
    clicked = np.zeros(len(shown[0]), np.bool_)
    clicked[[rank - 1 for rank in clicks]] = True
    return clicked
