"""The small worlds that the audit goes through: all lists that a method can show, and the preferences after all clicks.

A finding is a verdict, with the smallest counterexample.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import permutations, product
from typing import Any, NamedTuple

import numpy as np

from interleaf.clicks import ClickModel, Independent
from interleaf.errors import ClickError, ListError
from interleaf.interleaving import kernel_calls
from interleaf.interleaving.api import DrawnList
from interleaf.interleaving.rankings import CheckedRankings, Document, Rankings, check_k, letter
from interleaf.kernels.arrays import Array, Impression, exactly
from interleaf.kernels.jit import plain
from interleaf.kernels.randomness import Tree
from interleaf.methods.loops import prefer
from interleaf.methods.registry import ResolvedMethod, resolve
from interleaf.methods.schemes import Scheme, SchemeForm

Shown = tuple[tuple[Document, ...], tuple[int, ...] | None]
Ranks = tuple[int, ...]
DOCUMENTS = "abcd"


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
    def lists_for_credit(self) -> Mapping[Shown, Fraction]:
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
        for shown, probability in self.lists_for_credit.items():
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


class SmallWorld(NamedTuple):
    """Rankings and how many documents are shown."""

    rankings: tuple[tuple[str, ...], ...]
    k: int

    @property
    def is_ragged(self) -> bool:
        """Whether some ranking lacks a document of another."""
        return any(len(ranking) < len(self.documents) for ranking in self.rankings)

    @property
    def documents(self) -> list[str]:
        return sorted({document for ranking in self.rankings for document in ranking})

    def best_rank(self, document: str) -> int:
        """The best rank that any ranker gives the document."""
        return min(ranking.index(document) + 1 for ranking in self.rankings if document in ranking)


def worlds(min_rankers: int, max_rankers: int | None) -> list[SmallWorld]:
    """The worlds for a method with these limits on the number of rankers, smallest first."""
    numbers = [rankers for rankers in (2, 3) if min_rankers <= rankers <= (max_rankers or 3)]
    return sorted(dict.fromkeys(world for rankers in numbers for world in _worlds_of(rankers)), key=_size)


def _size(world: SmallWorld) -> tuple[object, ...]:
    lengths = [len(ranking) for ranking in world.rankings]
    return world.is_ragged, min(lengths) == 0, len(world.documents), len(lengths), world.k, sum(lengths), world.rankings


def _worlds_of(rankers: int) -> Iterator[SmallWorld]:
    ragged, full = (3, 4) if rankers == 2 else (2, 3)
    small = [order for length in range(ragged + 1) for order in permutations(DOCUMENTS[:ragged], length)]
    large = list(permutations(DOCUMENTS[:full]))
    for rankings in [*product(small, repeat=rankers), *product(large, repeat=rankers)]:
        appearing = list(dict.fromkeys(document for ranking in rankings for document in ranking))
        if appearing and appearing == sorted(appearing) and appearing[-1] == DOCUMENTS[len(appearing) - 1]:
            for k in range(1, len(appearing) + 1):
                yield SmallWorld(rankings, k)


@dataclass(frozen=True)
class ListLine:
    """A list that can be shown, its probability, and the preference between two rankers after the clicks on it."""

    shown: Shown
    probability: Fraction
    preference: Fraction | None = None

    def __str__(self) -> str:
        documents, teams = self.shown
        owners = [""] * len(documents) if teams is None else [f"({letter(t) if t >= 0 else '-'})" for t in teams]
        text = f"  {self.probability!s:>7}  {' '.join(d + o for d, o in zip(map(str, documents), owners, strict=True))}"
        return text if self.preference is None else f"{text}   {self.preference}"


@dataclass(frozen=True)
class Counterexample:
    """Rankings for which a property fails: the clicks, every list that can be shown, and the wrong sum."""

    world: SmallWorld
    what: str
    lines: tuple[ListLine, ...]
    conclusion: str

    def __str__(self) -> str:
        rankings = "   ".join(f"{letter(i)} = {' '.join(r) or '(empty)'}" for i, r in enumerate(self.world.rankings))
        return "\n".join([f"{rankings}   k = {self.world.k}", self.what, *map(str, self.lines), self.conclusion])


@dataclass(frozen=True)
class PropertyVerdict:
    """Whether a property holds in all small worlds; None: it does not apply to the method.

    `worlds` is the number of checked worlds, `refuted` are those where it fails, and `counterexample` is the smallest.
    """

    holds: bool | None
    worlds: int
    refuted: tuple[SmallWorld, ...] = ()
    counterexample: Counterexample | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.holds is None:
            return f"no meaning here: {self.note}"
        answer = f"proved in all {self.worlds} cases"
        if not self.holds:
            answer = f"no, it fails in {len(self.refuted)} of {self.worlds} cases; the smallest:"
        details = str(self.counterexample).split("\n") if self.counterexample else []
        return "\n    ".join([answer, *details, *([f"({self.note})"] if self.note else [])])
