"""`check` proves each property of a method in all small worlds, or refutes it by the smallest counterexample.

`fair` is proved for every pattern of clicks, and so for all clicks that depend on the rank only: they are mixtures of
patterns. `pareto` is checked if all rankers rank the same documents, as in O17, for several ways to click that prefer
relevant documents. Nobody clicks on the last shown rank unless every document is shown, because pairwise preferences
need the document below a click. `pareto_at_cut` is the result without this restriction.

The lift is checked with examination 1 / rank: is it fair to clicks by rank only, and is it faithful? A click on
document d is worth theta(rank of d in the ranker's list) / sum over r of P(d at r) theta(r) for each ranker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import combinations, permutations
from typing import Any

import numpy as np

from interleaf.audit.worlds import (
    DOCUMENTS,
    Counterexample,
    Enumeration,
    ListLine,
    PropertyVerdict,
    Ranks,
    Shown,
    SmallWorld,
    worlds,
)
from interleaf.clicks import Cascade, ClickModel, Independent
from interleaf.interleaving.rankings import CheckedRankings, Document, letter
from interleaf.kernels.jit import plain
from interleaf.methods.registry import Claims, resolve
from interleaf.methods.schemes import VARIANTS, Scheme, scheme_of

FAIR_LIFT = "fair to clicks by rank only"
FAITHFUL_LIFT = "faithful: the clicks of each ranker's own list, if people click by rank and document"
NO_SCHEME = PropertyVerdict(None, 0, note="the method compares nothing")


def find_unfair_lift(world: SmallWorld, enumeration: Enumeration) -> Iterator[Counterexample | None]:
    """For a click at each rank, whether the expected value is the same for all rankers: values of clicks add up."""
    values = {shown: _click_values(enumeration, shown) for shown in enumeration.lists_for_credit}
    for place in range(max(len(documents) for documents, _ in values)):
        case = None
        for one, other in combinations(range(len(world.rankings)), 2):
            gaps = {shown: clicks[place][one] - clicks[place][other] for shown, clicks in values.items()}
            lines = tuple(ListLine(shown, enumeration.lists_for_credit[shown], gap) for shown, gap in gaps.items())
            expected = sum((enumeration.lists_for_credit[shown] * gap for shown, gap in gaps.items()), Fraction(0))
            if case is None and expected != 0:
                pair = f"{letter(one)} over {letter(other)}"
                case = Counterexample(
                    world,
                    f"a click at rank {place + 1}, whatever is shown there\neach list, and its value for {pair}:",
                    lines,
                    f"expected value for {pair}: {expected}, should be 0",
                )
        yield case


def find_unfaithful_lift(world: SmallWorld, enumeration: Enumeration) -> Iterator[Counterexample | None]:
    """For each document that is clicked whenever people look at it, whether the expected value for each ranker is the
    clicks on its own list. Other ways to click by rank and document are mixtures of these.
    """
    values = {shown: _click_values(enumeration, shown) for shown in enumeration.lists_for_credit}
    for document in world.documents:
        case = None
        for ranker, ranking in enumerate(world.rankings):
            lines, own = [], Fraction(0)
            for (documents, teams), probability in enumeration.lists_for_credit.items():
                place = documents.index(document) if document in documents else None
                worth = Fraction(0)
                if place is not None:
                    worth = values[documents, teams][place][ranker] / (place + 1)
                lines.append(ListLine((documents, teams), probability, worth))
            if document in ranking[: world.k]:
                own = Fraction(1, ranking.index(document) + 1)
            expected = sum((line.probability * (line.preference or 0) for line in lines), Fraction(0))
            if case is None and expected != own:
                who = letter(ranker)
                what = f"people click on {document} if they look at it\neach list, and the value for {who}:"
                conclusion = f"expected value for {who}: {expected}, should be the clicks on its own list, {own}"
                case = Counterexample(world, what, tuple(lines), conclusion)
        yield case


def _click_values(enumeration: Enumeration, shown: Shown) -> list[list[Fraction]]:
    """What a click at each position of a list is worth for each ranker; 0 where the probabilities are not known."""
    impression, count = enumeration.impression(shown), len(shown[0])
    rankers, place = len(impression.lengths), enumeration.chosen.method.kernels.place
    chances = np.full((count + impression.unshown_ranks.shape[1], count), Fraction(0))
    if place is None or not plain(place)(impression, chances, enumeration.settings):
        return [[Fraction(0)] * rankers] * count
    worth = []
    for position in range(count):
        exposure = sum((chance / rank for rank, chance in enumerate(chances[position], 1)), Fraction(0))
        ranks = impression.ranks[:, position].tolist()
        worth.append([Fraction(1, rank) / exposure if 0 < rank <= count else Fraction(0) for rank in ranks])
    return worth


def dominating_rankers(world: SmallWorld, last: int) -> Iterator[tuple[frozenset[str], int]]:
    """Sets of relevant documents, each with the ranker that Pareto-dominates all others.

    Only documents that some ranker has at rank `last` or above are relevant, because nobody clicks below.
    """
    visible = [document for document in world.documents if world.best_rank(document) <= last]
    for size in range(1, len(visible) + 1):
        for relevant in combinations(visible, size):
            for ranker, ranking in enumerate(world.rankings):
                others = [other for number, other in enumerate(world.rankings) if number != ranker]
                if all(_dominates(ranking, other, relevant) for other in others):
                    yield frozenset(relevant), ranker


def _dominates(ranking: tuple[str, ...], other: tuple[str, ...], relevant: tuple[str, ...]) -> bool:
    ours, theirs = ([one.index(d) if d in one else len(DOCUMENTS) for d in relevant] for one in (ranking, other))
    return ours != theirs and all(our <= their for our, their in zip(ours, theirs, strict=True))


Walk = list[tuple[SmallWorld, Enumeration]]
Progress = Callable[[int, int], None]

# Ways to click that prefer relevant documents (True) to others at every rank.
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
class MethodAudit:
    """The properties of one method; `fair` and `pareto` by scheme.

    `sign` says whether the sign of the scores is fair, by the binary scheme that is not offered. `averages`: whether a
    scheme that averages over owners has the mean of the drawn owners, with no more variance: `list` for any clicks on
    any list, `place` for any document at any rank. `pareto_at_cut` is `pareto` if people click on the last shown rank,
    too. `lift`: whether the lift, with examination 1 / rank, is fair, and whether it is faithful: the expected value of
    clicks by examination and appeal is the clicks on each ranker's own list.
    """

    method: str
    considerate: PropertyVerdict
    fair: Mapping[str, PropertyVerdict]
    pareto: Mapping[str, PropertyVerdict]
    reusable: PropertyVerdict
    pareto_at_cut: PropertyVerdict
    sign: Mapping[str, PropertyVerdict]
    averages: Mapping[str, PropertyVerdict]
    lift: Mapping[str, PropertyVerdict]

    @property
    def claims(self) -> Claims:
        """What the method may claim: `fair` and `pareto` must hold for all of its schemes."""
        return Claims(self.considerate.holds, _all_hold(self.fair), _all_hold(self.pareto), self.reusable.holds)

    def __str__(self) -> str:
        parts = [
            ("considerate", self.considerate),
            *_by_scheme("fair to clicks by rank only", self.fair),
            *_by_scheme("Pareto-faithful", self.pareto),
            ("Pareto-faithful with clicks on the last shown rank", self.pareto_at_cut),
            *_by_scheme("fair sign (if not, there is no binary scheme)", self.sign),
            *_by_scheme("the mean over the drawn owners, with no more variance", self.averages),
            *((f"lift, {name}", verdict) for name, verdict in self.lift.items()),
            ("reusable: every list can be shown", self.reusable),
        ]
        lines = [f"  {name}: {verdict}" for name, verdict in parts if verdict is not NO_SCHEME]
        return "\n".join([self.method, *lines])


def check(method: str, progress: Progress | None = None, max_worlds: int | None = None) -> MethodAudit:
    """Prove or refute each property of a method, by running its kernels in all small worlds.

    With `max_worlds`, only in the smallest ones: that is quick, and can refute, but not prove.

    >>> check("balanced").fair["binary"].holds
    False
    """
    resolved = resolve(method)
    walk: Walk = []
    every_world = worlds(*resolved.rankers)[:max_worlds]
    for number, world in enumerate(every_world, 1):
        walk.append((world, Enumeration(resolved, CheckedRankings.of(world.rankings, resolved), world.k)))
        if progress is not None:
            progress(number, len(every_world))
    same = [(world, enumeration) for world, enumeration in walk if not world.is_ragged]
    cut = [(world, enumeration) for world, enumeration in same if world.k < len(world.documents)]
    schemes = {name: scheme_of(name) for rankers in (2, 3) for name in resolved.method.schemes_for(rankers)}
    default = next(iter(schemes.values()), None)
    return MethodAudit(
        method=resolved.text,
        considerate=_settle(walk, _find_inconsiderate),
        fair={name: _check_fair(walk, scheme) for name, scheme in schemes.items()},
        pareto={name: _settle(same, partial(_find_unfaithful, scheme=s, at_cut=False)) for name, s in schemes.items()},
        reusable=_settle(walk, _find_unreachable),
        pareto_at_cut=_settle(cut, partial(_find_unfaithful, scheme=default, at_cut=True)) if default else NO_SCHEME,
        sign={name: _check_fair(walk, scheme_of(name)) for name in _find_unsigned(schemes)},
        averages={
            name: _settle(walk, partial(_find_other_mean, scheme=scheme))
            for name, scheme in schemes.items()
            if VARIANTS[scheme.variant] in ("list", "place")
        },
        lift=_check_lift(same) if resolved.method.kernels.place is not None else {},
    )


def _check_lift(same: Walk) -> dict[str, PropertyVerdict]:
    return {FAIR_LIFT: _settle(same, find_unfair_lift), FAITHFUL_LIFT: _settle(same, find_unfaithful_lift)}


def _settle(walk: Walk, cases: Callable[[SmallWorld, Enumeration], Iterable[Counterexample | None]]) -> PropertyVerdict:
    """Check every world, smallest first. The first case of a world that is a counterexample refutes it there."""
    if not walk:
        return PropertyVerdict(None, 0, note="the audit has no case with so many rankers")
    checked, refuted = set[SmallWorld](), dict[SmallWorld, Counterexample]()
    for world, enumeration in walk:
        for case in cases(world, enumeration):
            checked.add(world)
            if case is not None:
                refuted[world] = case
                break
    return PropertyVerdict(not refuted, len(checked), tuple(refuted), next(iter(refuted.values()), None))


def _check_fair(walk: Walk, scheme: Scheme) -> PropertyVerdict:
    verdict = _settle(walk, partial(_find_unfair, scheme=scheme))
    relaxed = {world for world, enumeration in walk if enumeration.relaxed}
    if verdict.holds or not relaxed.issuperset(verdict.refuted):
        return verdict
    return replace(verdict, note=f"fair in all of the {len(walk) - len(relaxed)} cases where fairness was not relaxed")


def _find_unsigned(schemes: Collection[str]) -> list[str]:
    """The binary schemes that a method with these schemes could offer, and does not."""
    variants = dict.fromkeys(name.partition("_")[1:] for name in schemes)
    return [name for name in ("binary" + "".join(variant) for variant in variants) if name not in schemes]


def _find_other_mean(world: SmallWorld, enumeration: Enumeration, scheme: Scheme) -> Iterator[Counterexample | None]:
    """For each list and all clicks on it, or each document at a rank, the mean and variance over the drawn owners."""
    plain_scheme = scheme_of(scheme.form.name)
    by_place = VARIANTS[scheme.variant] == "place"
    cases: defaultdict[tuple[Any, Ranks], list[tuple[Shown, Fraction]]] = defaultdict(list)
    for shown, probability in enumeration.shown.items():
        ranks = range(1, len(shown[0]) + 1)
        for size in (1,) if by_place else ranks:
            for clicks in combinations(ranks, size):
                cases[shown[0][clicks[0] - 1] if by_place else shown[0], clicks].append((shown, probability))
    for (what, clicks), lists in cases.items():
        case = None
        for one, other in combinations(range(len(world.rankings)), 2):
            by_owners = [enumeration.preference(shown, clicks, plain_scheme)[one, other] for shown, _ in lists]
            averaged = [enumeration.preference(shown, clicks, scheme)[one, other] for shown, _ in lists]
            mean, its_mean = (
                sum(p * v for (_, p), v in zip(lists, some, strict=True)) for some in (by_owners, averaged)
            )
            more = sum(p * (a * a - d * d) for (_, p), a, d in zip(lists, averaged, by_owners, strict=True))
            if case is None and (mean != its_mean or more > 0):
                lines = tuple(ListLine(shown, p, value) for (shown, p), value in zip(lists, averaged, strict=True))
                conclusion = f"mean {its_mean}, that of the drawn owners {mean}; mean square larger by {more}"
                case = Counterexample(world, f"clicks at ranks {clicks} with {what} shown:", lines, conclusion)
        yield case


def _find_inconsiderate(world: SmallWorld, enumeration: Enumeration) -> Iterator[Counterexample | None]:
    for shown, probability in enumeration.shown.items():
        case = None
        for rank, document in enumerate(shown[0], 1):
            best = world.best_rank(str(document))
            if best > rank and case is None:
                conclusion = f"shows {document} at rank {rank}, where no ranker has it above rank {best}"
                case = Counterexample(world, "one of the lists:", (ListLine(shown, probability),), conclusion)
        yield case


def _find_unreachable(world: SmallWorld, enumeration: Enumeration) -> Iterator[Counterexample | None]:
    possible = {documents for documents, _ in enumeration.shown}
    lines = tuple(ListLine(shown, probability) for shown, probability in enumeration.shown.items())
    for documents in permutations(world.documents, min(world.k, len(world.documents))):
        conclusion = f"the list {' '.join(documents)} is never shown, so nothing can be learned about it"
        yield None if documents in possible else Counterexample(world, "all lists:", lines, conclusion)


def _find_unfair(world: SmallWorld, enumeration: Enumeration, scheme: Scheme) -> Iterator[Counterexample | None]:
    """For each length of list and each pattern of clicks, whether the expected preference is zero for every pair."""
    for length in sorted({len(documents) for documents, _ in enumeration.lists_for_credit}):
        lists = {s: p for s, p in enumeration.lists_for_credit.items() if len(s[0]) == length}
        for size in range(1, length + 1):
            for clicks in combinations(range(1, length + 1), size):
                yield _check_pattern(world, enumeration, lists, clicks, scheme)


def _check_pattern(
    world: SmallWorld, enumeration: Enumeration, lists: Mapping[Shown, Fraction], clicks: Ranks, scheme: Scheme
) -> Counterexample | None:
    preferences = [(p, enumeration.preference(shown, clicks, scheme)) for shown, p in lists.items()]
    for one, other in combinations(range(len(world.rankings)), 2):
        expected = sum(p * preference[one, other] for p, preference in preferences if preference[one, other])
        if expected != 0:
            pair = f"{letter(one)} over {letter(other)}"
            where = (
                f"clicks at rank{'s' if len(clicks) > 1 else ''} {', '.join(map(str, clicks))}, whatever is shown there"
            )
            lines = tuple(
                ListLine(s, p, enumeration.preference(s, clicks, scheme)[one, other]) for s, p in lists.items()
            )
            relaxed = " (fairness was relaxed)" if enumeration.relaxed else ""
            if len(lists) < len(enumeration.lists_for_credit):
                where += f", on lists of {len(lines[0].shown[0])}"
            return Counterexample(
                world, f"{where}\neach list, and what {scheme.name} says of {pair}:", lines,
                f"expected preference of {pair}: {expected}, should be 0{relaxed}",
            )  # fmt: skip
    return None


def _find_unfaithful(
    world: SmallWorld, enumeration: Enumeration, scheme: Scheme, at_cut: bool
) -> Iterator[Counterexample | None]:
    """For each dominating ranker and each way to click, whether it is preferred to every other ranker."""
    last = world.k if at_cut or world.k >= len(world.documents) else world.k - 1
    for relevant, winner in dominating_rankers(world, last):
        for name in CORRELATED:
            yield _check_winner(world, enumeration, last, relevant, winner, name, scheme)


def _check_winner(
    world: SmallWorld,
    enumeration: Enumeration,
    last: int,
    relevant: frozenset[str],
    winner: int,
    name: str,
    scheme: Scheme,
) -> Counterexample | None:
    def patterns(documents: tuple[Document, ...]) -> Mapping[Ranks, Fraction]:
        return _patterns(name, tuple(document in relevant for document in documents[:last]))

    for loser in range(len(world.rankings)):
        if loser == winner:
            continue
        lines = tuple(
            ListLine(shown, probability, enumeration.on_list(shown, patterns(shown[0]), scheme, winner, loser))
            for shown, probability in enumeration.lists_for_credit.items()
        )
        expected = sum(line.probability * line.preference for line in lines if line.preference)
        if not expected > 0:
            pair = f"{letter(winner)} over {letter(loser)}"
            limit = "" if last == world.k else f", no click below rank {last}"
            return Counterexample(
                world,
                f"relevant: {' '.join(sorted(relevant))}; clicks {name}{limit}\n"
                f"each list, and what {scheme.name} says of {pair}:",
                lines,
                f"expected preference of {pair}: {expected}, should be above 0",
            )
    return None


@lru_cache(maxsize=4096)
def _patterns(name: str, relevant: tuple[bool, ...]) -> Mapping[Ranks, Fraction]:
    return CORRELATED[name].distribution(relevant)


def _all_hold(verdicts: Mapping[str, PropertyVerdict]) -> bool | None:
    answers = {verdict.holds for verdict in verdicts.values()}
    return None if not answers or None in answers else answers == {True}


def _by_scheme(what: str, verdicts: Mapping[str, PropertyVerdict]) -> list[tuple[str, PropertyVerdict]]:
    """One line for all schemes if they agree, else one for each."""
    if len({verdict.holds for verdict in verdicts.values()}) == 1:
        names = ", ".join(verdicts)
        return [(f"{what} ({names})", next(iter(verdicts.values())))]
    return [(f"{what} ({name})", verdict) for name, verdict in verdicts.items()]
