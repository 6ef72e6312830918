"""Checks of lists and the clicks on them: lists that no draw gives, clicks that a ranker or a rank has lost."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.methods.registry import ResolvedMethod, resolve
from interleaf.report.model import FAILED, OK, SKIPPED, WARNING, Check, graded, tested
from interleaf.stats.compare import difference
from interleaf.stats.multiplicity import holm
from interleaf.stats.shares import share_tests
from interleaf.tally import ALONE, Tally, page_sums
from interleaf.tally.draws import ANY, CLICKED, CLICKS, COIN_CLICKS, COIN_SLOTS, SHOWN, SLOTS, rule_of

MIN_EXPECTED_CLICKS = 30  # a ranker must get hardly any where so many are expected
NEARLY_NONE = 0.02  # of what is expected
MIN_COIN_CLICKS = 20
MATERIAL_RATIO = 0.8  # of click-through rates: a smaller difference is no failure, however sure
MIN_CLICKS = 100  # that tell which ranks are clicked
MIN_BUCKETS = 20  # with a click: fewer people may have odd habits


def list_checks(tally: Tally) -> Iterator[Check]:
    """All checks of this file."""
    yield possible_lists(tally)
    yield from fair_segments(tally)
    yield clicks_by_ranker(tally)


def possible_lists(tally: Tally) -> Check:
    """Whether the method can draw these lists, with these owners, from rankings with these ranks: exact, row by row."""
    name, (decided, impossible) = "Possible lists", tally.evidence.draws.lists.tolist()
    chosen = resolve(tally.about.composed)
    if rule_of(chosen) == ANY:
        return Check(name, SKIPPED, f"{chosen.method.name} can draw documents in any order")
    if not decided:
        return Check(name, SKIPPED, "no list has ranks")
    return Check(
        name,
        graded(impossible / decided, 0.0, 0.01),
        f"{impossible:,} of {decided:,} lists cannot be drawn by {chosen.text} from these rankings",
        "documents, ranks or teams are logged in another order than they were drawn: log the list as it was composed"
        if impossible
        else "",
    )


def clicks_by_ranker(tally: Tally) -> Check:
    """Whether the clicks of one ranker are lost.

    A ranker without clicks shows if all are lost. If some are, a worse ranker would look the same; but where a document
    is the next one of every ranker, a coin says whose it is, and people cannot know.
    """
    name, rankers, owners = "Clicks by ranker", tally.about.rankers, tally.evidence.draws.owners
    slots, clicks = owners[:, :, SLOTS], owners[:, :, CLICKS]
    remedy = "clicks on the documents of one ranker are lost: follow such a click from the page to the log"
    for place, ranker in enumerate(rankers):
        mine, others = int(slots[:, place].sum()), int(slots.sum() - slots[:, place].sum())
        by_others = np.delete(clicks, place, axis=1).sum(axis=1)
        expected = mine * int(by_others.sum()) / max(others, 1)
        if expected < MIN_EXPECTED_CLICKS or (by_others > 0).sum() < MIN_BUCKETS:
            continue
        own = int(clicks[:, place].sum())
        if own < NEARLY_NONE * expected:
            figure = (
                f"{own:,} clicks on {mine:,} documents of {ranker}; at the rate of the others it were {expected:,.0f}"
            )
            return Check(name, FAILED, figure, remedy)
    tests = [_coin_test(owners, place) for place in range(len(rankers))]
    known = [(p_value, place) for place, p_value in enumerate(holm([test[2] for test in tests])) if p_value is not None]
    if not known:
        reason = "the rankers rarely have the same next document, or the log lacks ranks, teams or lengths"
        return Check(name, SKIPPED, f"{reason}: lost clicks of one ranker may go unnoticed")
    p_value, place = min(known)
    own_rate, rate, _ = tests[place]
    low, high = sorted((own_rate, rate))
    status = tested(p_value)
    if status == FAILED and low > MATERIAL_RATIO * high:
        status = WARNING
    figure = (
        f"of documents that fell to {rankers[place]} by a coin, {own_rate:.1%} were clicked, of those that fell to "
        f"others {rate:.1%}, adjusted p = {p_value:.2g}"
    )
    return Check(name, status, figure, remedy if status in (WARNING, FAILED) else "")


def _coin_test(owners: Array, place: int) -> tuple[float, float, float | None]:
    """Click-through rates of one ranker and of the others where a coin says whose a document is, and the p-value."""
    slots, clicks = owners[:, :, COIN_SLOTS], owners[:, :, COIN_CLICKS]
    mine = clicks[:, place], slots[:, place]
    others = clicks.sum(axis=1) - mine[0], slots.sum(axis=1) - mine[1]
    rates = [float(hits.sum() / max(totals.sum(), 1)) for hits, totals in (mine, others)]
    found = difference(*mine, *others) if clicks.sum() >= MIN_COIN_CLICKS else None
    return rates[0], rates[1], found.p_value if found else None


def clicks_by_rank(tally: Tally) -> Check:
    """Whether the top rank is clicked at all, where others are: it is not if ranks are logged one too deep."""
    name, ranks = "Clicks by rank", tally.evidence.draws.ranks
    shown, clicked = ranks[:, SHOWN], ranks[:, CLICKED]
    buckets = sum((arm.measures[:, page_sums.CLICKED] > 0 for arm in tally.arms.values()), np.zeros(1, np.bool_)).sum()
    if clicked.sum() < MIN_CLICKS or buckets < MIN_BUCKETS:
        return Check(name, SKIPPED, f"{clicked.sum():,} clicks are too few, or of too few people, to tell")
    if not shown[1:].any():
        return Check(name, SKIPPED, "all lists show one document")
    rates = clicked / np.maximum(shown, 1)
    most = 1 + int(np.argmax(np.where(2 * clicked[1:] >= clicked[1:].max(), rates[1:], 0)))
    status = graded(1 - rates[0] / rates[most] if rates[most] else 0.0, 0.5, 1 - NEARLY_NONE)
    return Check(
        name,
        status,
        f"rank 1 was clicked in {rates[0]:.1%} of lists, rank {most + 1} in {rates[most]:.1%}",
        "people click the top most: ranks of events may be one too deep, or counted from another list (1 is the top)"
        if status != OK
        else "",
    )


def fair_segments(tally: Tally) -> Iterator[Check]:
    """Whether every ranker picks first as often in each segment of the report."""
    name, firsts, rankers = "Fair lists by segment", tally.evidence.firsts, len(tally.about.rankers)
    segments = [segment for segment, counted in sorted(firsts.items()) if counted.any()]
    if not segments or not resolve(tally.about.composed).method.has_teams:
        return
    if 2 * tally.facts.get(ALONE, 0) > tally.impressions:
        yield Check(name, SKIPPED, "most impressions have no unit, so repeated lists of a person cannot be told")
        return
    cells = [(segment, ranker) for segment in segments for ranker in range(1 if rankers == 2 else rankers)]
    hits = np.stack([firsts[segment][:, ranker] for segment, ranker in cells], axis=1)
    totals = np.stack([firsts[segment].sum(axis=1) for segment, _ in cells], axis=1)
    shares = share_tests(hits, totals, 1 / rankers)
    known = [
        (p_value, place) for place, p_value in enumerate(holm([one.p_value for one in shares])) if p_value is not None
    ]
    if not known:
        yield Check(name, SKIPPED, shares[0].reason)
        return
    p_value, place = min(known)
    (attribute, value), ranker = cells[place]
    status = tested(p_value)
    yield Check(
        name,
        status,
        f"where {attribute} is {value}, {tally.about.rankers[ranker]} owns {shares[place].share:.1%} of first "
        f"positions ({1 / rankers:.1%} expected), adjusted p = {p_value:.2g}: the most unusual "
        f"of {len(segments)} segments",
        "lists of this segment are drawn otherwise: look for a cache, another client, or lost impressions there"
        if status in (WARNING, FAILED)
        else "",
    )


def bias(composed: str, scored: str, scheme: str, relaxed: bool = False) -> str:
    """Why lists of one method, scored by another (or the same), prefer somebody under rank-only clicks; '' if not.

    A method's credit is fair to the lists that it makes itself. Besides, plain credit for owners is fair wherever
    owners are drawn evenly. The tests enumerate all pairs of methods, and find a counterexample for each refused one.

    >>> bias("team_draft", "team_draft", "binary_deduped")
    ''
    >>> bias("team_draft", "probabilistic", "click").partition(":")[0]
    'lists of team_draft scored as probabilistic are biased'
    """
    made, given = resolve(composed), resolve(scored)
    fair = not set(made.parameters.values()) & set(made.method.unfair)
    if _lists_of(made) == _lists_of(given):
        constrained = given.method.kernels.prepare is not None  # unbiased by its constraints, where they could be met
        if fair and (given.method.claims.unbiased or (constrained and not relaxed)):
            return ""
        return (
            f"{given} is biased: it prefers somebody even if clicks depend on the rank only "
            f"({given.method.paper}; interleaf audit '{given}' shows the smallest case)"
        )
    if fair and made.method.even_owners and scheme in given.method.rankless_schemes:
        return ""
    return (
        f"lists of {made} scored as {given} are biased: that credit ({given.method.paper}) is fair to the lists of "
        f"{given} alone, and on others prefers somebody even if clicks depend on the rank only"
    )


def _lists_of(chosen: ResolvedMethod) -> tuple[str, ...]:
    """What decides which lists are shown, and how often; parameters that another method has not are at its default."""
    owner = resolve(chosen.method.composes_as) if chosen.method.composes_as else chosen
    return owner.method.name, *(repr(owner.parameters[name]) for name in owner.method.composing)
