"""`check`: each property of a method on the whole finite world, proved or refuted by the smallest counterexample.

Unbiased is shown for every pattern of clicks on its own, and so for every way to click that depends on the rank only,
since each of them is a mixture of patterns. Pareto-faithful is looked at where all rankers rank the same documents, as
in O17, for several ways to prefer relevant ones, with no click on the last shown rank unless every document is shown:
pairwise preferences need the document below a click. `pareto_at_cut` shows what happens otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import combinations, permutations, product
from typing import NamedTuple

from interleaf.audit.enumerate import Enumeration, Ranks, Shown
from interleaf.clicks import Cascade, ClickModel, Independent
from interleaf.interleaving.rankings import CheckedRankings, Document, letter
from interleaf.methods.registry import Claims, Scheme, resolve, scheme_of
from interleaf.methods.schemes import BINARY

DOCUMENTS = "abcd"


class World(NamedTuple):
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


def worlds(fewest: int, most: int | None) -> list[World]:
    """The worlds for a method that takes so many rankers, smallest first."""
    found = [world for rankers in (2, 3) if fewest <= rankers <= (most or 3) for world in _of(rankers)]
    return sorted(dict.fromkeys(found), key=_size)


def _size(world: World) -> tuple[object, ...]:
    lengths = [len(ranking) for ranking in world.rankings]
    return world.is_ragged, min(lengths) == 0, len(world.documents), len(lengths), world.k, sum(lengths), world.rankings


def _of(rankers: int) -> Iterator[World]:
    ragged, full = (3, 4) if rankers == 2 else (2, 3)
    small = [order for length in range(ragged + 1) for order in permutations(DOCUMENTS[:ragged], length)]
    large = list(permutations(DOCUMENTS[:full]))
    for rankings in [*product(small, repeat=rankers), *product(large, repeat=rankers)]:
        appearing = list(dict.fromkeys(document for ranking in rankings for document in ranking))
        if appearing and appearing == sorted(appearing) and appearing[-1] == DOCUMENTS[len(appearing) - 1]:
            for k in range(1, len(appearing) + 1):
                yield World(rankings, k)


def dominated(world: World, last: int) -> Iterator[tuple[frozenset[str], int]]:
    """Relevant documents, and the ranker that Pareto-dominates all others on them.

    Relevant are only documents that some ranker has at rank `last` or above: people look no further.
    """
    seen = [document for document in world.documents if world.best_rank(document) <= last]
    for size in range(1, len(seen) + 1):
        for relevant in combinations(seen, size):
            for ranker, ranking in enumerate(world.rankings):
                others = [other for number, other in enumerate(world.rankings) if number != ranker]
                if all(_dominates(ranking, other, relevant) for other in others):
                    yield frozenset(relevant), ranker


def _dominates(ranking: tuple[str, ...], other: tuple[str, ...], relevant: tuple[str, ...]) -> bool:
    ranks = [(_rank(document, ranking), _rank(document, other)) for document in relevant]
    return all(ours <= theirs for ours, theirs in ranks) and any(ours < theirs for ours, theirs in ranks)


def _rank(document: str, ranking: tuple[str, ...]) -> float:
    return ranking.index(document) + 1 if document in ranking else float("inf")


@dataclass(frozen=True)
class Line:
    """One list that can be shown, how likely, and what the clicks on it say of the pair in question."""

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
    """Rankings for which a property fails, with every list, and the sum that should have come out otherwise."""

    world: World
    what: str
    lines: tuple[Line, ...]
    conclusion: str

    def __str__(self) -> str:
        rankings = "   ".join(f"{letter(i)} = {' '.join(r) or '(empty)'}" for i, r in enumerate(self.world.rankings))
        return "\n".join([f"{rankings}   k = {self.world.k}", self.what, *map(str, self.lines), self.conclusion])


@dataclass(frozen=True)
class Verdict:
    """Whether a property holds in all of the world; None: it has no meaning for the method.

    `worlds` were looked at, it fails in `refuted`, and `counterexample` is the smallest; `note` says what the verdict
    alone would hide.
    """

    holds: bool | None
    worlds: int
    refuted: tuple[World, ...] = ()
    counterexample: Counterexample | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.holds is None:
            return f"no meaning here: {self.note}"
        answer = f"proved in all {self.worlds} worlds"
        if not self.holds:
            answer = f"no, it fails in {len(self.refuted)} of {self.worlds} worlds; the smallest:"
        details = "" if self.counterexample is None else "\n" + _indented(str(self.counterexample))
        return answer + details + (f"\n    ({self.note})" if self.note else "")


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.split("\n"))


Walk = list[tuple[World, Enumeration]]
Progress = Callable[[int, int], None]
NO_SCHEME = Verdict(None, 0, note="the method compares nothing")

# How people may click who prefer relevant documents (True) to others at every rank.
CORRELATED: Mapping[str, ClickModel] = {
    "perfect: every relevant document and nothing else": Independent(lambda rank, relevant: relevant),
    "noisy: 9/10 of the relevant documents, 2/5 of the others": Independent(
        lambda rank, relevant: Fraction(9, 10) if relevant else Fraction(2, 5)
    ),
    "fading: 9/10 of the relevant documents, 1/10 of the others, both divided by the rank": Independent(
        lambda rank, relevant: Fraction(9 if relevant else 1, 10 * rank)
    ),
    "navigational: 19/20 or 1/20 from the top, after a click stopping with 9/10 or 1/5": Cascade(
        click=(Fraction(1, 20), Fraction(19, 20)), stop=(Fraction(1, 5), Fraction(9, 10)), grades={True: 1, False: 0}
    ),
}


@dataclass(frozen=True)
class Check:
    """What the audit found for one method; `unbiased` and `pareto` by scheme.

    `sign` is the bias of the sign of the scores, where the method for that reason offers no binary scheme;
    `pareto_at_cut` allows clicks on the last shown rank, too.
    """

    method: str
    considerate: Verdict
    unbiased: Mapping[str, Verdict]
    pareto: Mapping[str, Verdict]
    reusable: Verdict
    pareto_at_cut: Verdict
    sign: Verdict

    @property
    def claims(self) -> Claims:
        """What may be claimed: a property of schemes must hold for all of them."""
        return Claims(self.considerate.holds, _all_hold(self.unbiased), _all_hold(self.pareto), self.reusable.holds)

    def __str__(self) -> str:
        parts = [("considerate", self.considerate), *_by_scheme("unbiased under rank-only clicks", self.unbiased)]
        parts += _by_scheme("Pareto-faithful", self.pareto)
        parts += [("Pareto-faithful with clicks on the last shown rank", self.pareto_at_cut)]
        parts += [("unbiased sign (which is why there is no binary scheme)", self.sign)]
        parts += [("reusable: every list can be shown", self.reusable)]
        return "\n".join(
            [self.method, *(f"  {name}: {verdict}" for name, verdict in parts if verdict is not NO_SCHEME)]
        )


def check(method: str, progress: Progress | None = None, most: int | None = None) -> Check:
    """Prove or refute what a method may claim, walking the whole world with the kernels that serve.

    With `most`, only so many of its worlds, the smallest: quick to refute, and no proof.

    >>> check("balanced").unbiased["binary"].holds
    False
    """
    chosen = resolve(method)
    every_world = worlds(*chosen.rankers)[:most]
    found: list[Enumeration] = []
    for number, world in enumerate(every_world):
        found.append(Enumeration(chosen, CheckedRankings.of(world.rankings, chosen), world.k))
        if progress is not None:
            progress(number + 1, len(every_world))
    walk = list(zip(every_world, found, strict=True))
    same = [(world, enumeration) for world, enumeration in walk if not world.is_ragged]
    cut = [(world, enumeration) for world, enumeration in same if world.k < len(world.documents)]
    named = {name: scheme_of(name) for rankers in (2, 3) for name in chosen.method.schemes_for(rankers)}
    sign = {Scheme("binary", BINARY, 0)} - set(named.values()) if named else set()
    default = next(iter(named.values()), None)
    return Check(
        method=chosen.text,
        considerate=_settle(walk, _inconsiderate),
        unbiased={name: _unbiased(walk, scheme) for name, scheme in named.items()},
        pareto={name: _pareto(same, scheme, at_cut=False) for name, scheme in named.items()},
        reusable=_settle(walk, _unreachable),
        pareto_at_cut=_pareto(cut, default, at_cut=True) if default else NO_SCHEME,
        sign=_unbiased(walk, sign.pop()) if sign else NO_SCHEME,
    )


def _settle(walk: Walk, cases: Callable[[World, Enumeration], Iterable[Counterexample | None]]) -> Verdict:
    """Look at every world, smallest first; the first case that speaks against the property refutes it there."""
    if not walk:
        return Verdict(None, 0, note="the audit has no world of so many rankers")
    refuted: dict[World, Counterexample] = {}
    looked_at = 0
    for world, enumeration in walk:
        found = list(_up_to_the_first(cases(world, enumeration)))
        looked_at += bool(found)
        if found and found[-1] is not None:
            refuted[world] = found[-1]
    return Verdict(not refuted, looked_at, tuple(refuted), next(iter(refuted.values()), None))


def _up_to_the_first(cases: Iterable[Counterexample | None]) -> Iterator[Counterexample | None]:
    for case in cases:
        yield case
        if case is not None:
            return


def _unbiased(walk: Walk, scheme: Scheme) -> Verdict:
    verdict = _settle(walk, partial(_biased, scheme=scheme))
    relaxed = {world for world, enumeration in walk if enumeration.relaxed}
    if verdict.holds or not relaxed.issuperset(verdict.refuted):
        return verdict
    note = f"unbiased in all of the {len(walk) - len(relaxed)} worlds where fairness was not relaxed"
    return replace(verdict, note=note)


def _pareto(walk: Walk, scheme: Scheme, at_cut: bool) -> Verdict:
    return _settle(walk, partial(_unfaithful, scheme=scheme, at_cut=at_cut))


def _inconsiderate(world: World, enumeration: Enumeration) -> Iterator[Counterexample | None]:
    for shown, probability in enumeration.shown.items():
        yield _too_high(world, shown, probability)


def _too_high(world: World, shown: Shown, probability: Fraction) -> Counterexample | None:
    for rank, document in enumerate(shown[0], 1):
        best = world.best_rank(str(document))
        if best > rank:
            conclusion = f"shows {document} at rank {rank}, where no ranker has it above rank {best}"
            return Counterexample(world, "one of the lists:", (Line(shown, probability),), conclusion)
    return None


def _unreachable(world: World, enumeration: Enumeration) -> Iterator[Counterexample | None]:
    can_be = {documents for documents, _ in enumeration.shown}
    lines = tuple(Line(shown, probability) for shown, probability in enumeration.shown.items())
    for documents in permutations(world.documents, min(world.k, len(world.documents))):
        missing = f"the list {' '.join(documents)} is never shown, so nothing can be learned about it"
        yield None if documents in can_be else Counterexample(world, "all lists:", lines, missing)


def _biased(world: World, enumeration: Enumeration, scheme: Scheme) -> Iterator[Counterexample | None]:
    """For each length of list and each pattern of clicks, whether the expected preference is zero for every pair."""
    for length in sorted({len(documents) for documents, _ in enumeration.credited}):
        lists = {s: p for s, p in enumeration.credited.items() if len(s[0]) == length}
        for size in range(1, length + 1):
            for clicks in combinations(range(1, length + 1), size):
                yield _prefers(world, enumeration, lists, clicks, scheme)


def _prefers(
    world: World, enumeration: Enumeration, lists: Mapping[Shown, Fraction], clicks: Ranks, scheme: Scheme
) -> Counterexample | None:
    said = [(p, enumeration.preference(shown, clicks, scheme)) for shown, p in lists.items()]
    for one, other in combinations(range(len(world.rankings)), 2):
        expected = sum(p * preference[one, other] for p, preference in said if preference[one, other])
        if expected != 0:
            pair = f"{letter(one)} over {letter(other)}"
            where = (
                f"clicks at rank{'s' if len(clicks) > 1 else ''} {', '.join(map(str, clicks))}, whatever is shown there"
            )
            lines = tuple(Line(s, p, enumeration.preference(s, clicks, scheme)[one, other]) for s, p in lists.items())
            relaxed = " (fairness was relaxed)" if enumeration.relaxed else ""
            if len(lists) < len(enumeration.credited):
                where += f", on lists of {len(lines[0].shown[0])}"
            return Counterexample(
                world, f"{where}\neach list, and what {scheme.name} says of {pair}:", lines,
                f"expected preference of {pair}: {expected}, should be 0{relaxed}",
            )  # fmt: skip
    return None


def _unfaithful(
    world: World, enumeration: Enumeration, scheme: Scheme, at_cut: bool
) -> Iterator[Counterexample | None]:
    """For each dominating ranker and each way to click, whether it is preferred to every other ranker."""
    last = world.k if at_cut or world.k >= len(world.documents) else world.k - 1
    for relevant, winner in dominated(world, last):
        for name in CORRELATED:
            yield _not_preferred(world, enumeration, last, relevant, winner, name, scheme)


def _not_preferred(
    world: World, enumeration: Enumeration, last: int, relevant: frozenset[str], winner: int, name: str, scheme: Scheme
) -> Counterexample | None:
    def patterns(documents: tuple[Document, ...]) -> Mapping[Ranks, Fraction]:
        return _patterns(name, tuple(document in relevant for document in documents[:last]))

    for loser in range(len(world.rankings)):
        if loser == winner:
            continue
        lines = tuple(
            Line(shown, probability, enumeration.on_list(shown, patterns(shown[0]), scheme, winner, loser))
            for shown, probability in enumeration.credited.items()
        )
        expected = sum(line.probability * line.preference for line in lines if line.preference)
        if not expected > 0:
            pair = f"{letter(winner)} over {letter(loser)}"
            seen = "" if last == world.k else f", no click below rank {last}"
            return Counterexample(
                world,
                f"relevant: {' '.join(sorted(relevant))}; clicks {name}{seen}\n"
                f"each list, and what {scheme.name} says of {pair}:",
                lines,
                f"expected preference of {pair}: {expected}, should be above 0",
            )
    return None


@lru_cache(maxsize=4096)
def _patterns(name: str, relevant: tuple[bool, ...]) -> Mapping[Ranks, Fraction]:
    return CORRELATED[name].distribution(relevant)


def _all_hold(verdicts: Mapping[str, Verdict]) -> bool | None:
    answers = {verdict.holds for verdict in verdicts.values()}
    return None if not answers or None in answers else answers == {True}


def _by_scheme(what: str, verdicts: Mapping[str, Verdict]) -> list[tuple[str, Verdict]]:
    """One line for all schemes where they agree, else one for each."""
    if len({verdict.holds for verdict in verdicts.values()}) == 1:
        names = ", ".join(verdicts)
        return [(f"{what} ({names})", next(iter(verdicts.values())))]
    return [(f"{what} ({name})", verdict) for name, verdict in verdicts.items()]
