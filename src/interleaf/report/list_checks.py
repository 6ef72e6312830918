"""Health checks of lists and their clicks, and which methods may score which lists."""

from __future__ import annotations

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.log.schema import INTERLEAVED
from interleaf.methods.registry import ResolvedMethod, resolve
from interleaf.report import codes
from interleaf.report.codes import CheckCode, CheckInput, CheckResult, health_check
from interleaf.report.model import FAILED, OK, SKIPPED, WARNING, Neutrality, Slot
from interleaf.stats.compare import difference, jackknife, share_tests
from interleaf.stats.multiplicity import holm
from interleaf.tables import percent
from interleaf.tally import Fact, Tally, bucket_sums
from interleaf.tally.bucket_sums import ONE
from interleaf.tally.evidence import ANY, CLICKED, CLICKS, COIN_CLICKS, COIN_SLOTS, DRAFT, SHOWN, SLOTS, rule_of

MIN_EXPECTED_CLICKS = 30  # clicks of a ranker are lost if at least this many are expected and hardly any came
NEARLY_NONE = 0.02  # as a share of the expected clicks
MIN_COIN_CLICKS = 20
MATERIAL_RATIO = 0.8  # of click-through rates: a smaller difference does not fail, even if it is significant
MIN_CLICKS = 100  # needed to compare ranks
MIN_BUCKETS = 20  # buckets with a click: fewer people may have unusual habits
MATERIAL_LENGTH = 1.1  # ratio of mean lengths of texts: a smaller difference does not warn
MIN_DIFFERENT = 0.05  # share of lists in which the rankings differ
_NOT_DRAWN_SO = (
    "some lists are too frequent or too rare for this method: check the code that makes lists, and whether lists are "
    "cached or lost"
)


def _has_several_owners(tally: Tally) -> bool:
    """Whether several rankers may own a document of these lists: then owners say nothing about fair shares."""
    return len(tally.about.rankers) > 2 and resolve(tally.about.composed).method.several_owners


def slots(tally: Tally) -> tuple[Slot, ...]:
    """Each ranker's share of the owned slots, by position; p-values are adjusted for all of them."""
    if _has_several_owners(tally):
        return ()
    owned, rankers = tally.lists.owned, tally.about.rankers
    positions = np.flatnonzero(owned.any(axis=(0, 2)))
    if not len(positions):
        return ()
    tested = 1 if len(rankers) == 2 else len(rankers)  # the shares of two rankers are one test
    hits = owned[:, positions, :tested].reshape(len(owned), -1)
    tests = share_tests(hits, np.repeat(owned[:, positions].sum(axis=2), tested, axis=1), 1 / len(rankers))
    adjusted = holm([share.p_value for share in tests])
    rows = []
    for number, place in enumerate(positions.tolist()):
        owners = owned[:, place].sum(axis=0).tolist()
        for ranker, name in enumerate(rankers):
            test, share = number * tested + min(ranker, tested - 1), owners[ranker] / sum(owners)
            rows.append(Slot(place + 1, name, share, 1 / len(rankers), adjusted[test], tests[test].reason))
    return tuple(rows)


def neutrality(tally: Tally) -> tuple[Neutrality, ...]:
    """How much of each ranker the lists show, per list on average."""
    sums = tally.lists.seen.sum(axis=0)
    lists = int(tally.arms[INTERLEAVED].measures[:, bucket_sums.QUERIES].sum()) if INTERLEAVED in tally.arms else 0
    if not lists or not sums.any():
        return ()
    means = mean_characters(tally)
    return tuple(
        Neutrality(name, int(shown) / lists, int(first) / lists, int(total) / ONE / int(shown) if shown else None, mean)
        for name, (shown, first, total), mean in zip(tally.about.rankers, sums, means, strict=True)
    )


def mean_characters(tally: Tally) -> list[float | None]:
    """The mean length of the texts that each ranker owns, None if no length is known."""
    sums = tally.evidence.draws.characters.sum(axis=0).tolist()
    return [characters / texts if texts else None for texts, characters in sums]


@health_check(CheckCode.FAIR_LISTS, "List probabilities", interleaved=True)
def fair_lists(data: CheckInput) -> CheckResult:
    """Do lists have the probabilities of the method? Each ranker should own its share of each position, even if one
    is better. If not, look for caches, for lost impressions, and at the code that makes lists.
    """
    tally = data.tally
    if 2 * tally.facts.get(Fact.OWN_UNIT, 0) > max(int(tally.scores.impressions.sum()), 1):
        return CheckResult(SKIPPED, "most impressions have no unit, and repeat visits would bias this test")
    if not resolve(tally.about.composed).method.has_teams:
        return _fair_tops(tally)
    if _has_several_owners(tally):
        return CheckResult(SKIPPED, "several rankers may own a document, so positions have no equal shares")
    if tally.scores.impressions.any() and not (tally.lists.owned.any() or tally.lists.seen.any()):
        figure = "no list has the owners of all its documents, so it is unknown whether lists are mixed, and fairly"
        remedy = "log the owner of every shown document, not of clicked ones only, or log the ranks"
        return CheckResult(WARNING, figure, remedy)
    worst = codes.smallest([slot.p_value for slot in data.slots])
    if worst is None:
        return CheckResult(SKIPPED, next((slot.reason for slot in data.slots), "no position has an owner"))
    p_value, slot = worst[0], data.slots[worst[1]]
    if p_value == 1:
        return CheckResult(OK, "every ranker owns its share of every position, as far as chance allows")
    return CheckResult(
        codes.grade_p_value(p_value),
        f"at position {slot.position}, {slot.ranker} owns {percent(slot.share, 1)} "
        f"({percent(slot.expected, 1)} expected), adjusted p = {p_value:.2g}; no other share is less likely by chance",
        _NOT_DRAWN_SO,
    )


def _fair_tops(tally: Tally) -> CheckResult:
    """For methods without teams: if top documents differ, that of each ranker should be first equally often."""
    method, rankers = resolve(tally.about.composed).method, len(tally.about.rankers)
    tops = tally.lists.tops[:, 1:]
    shown_first = tops.sum(axis=1)
    if not method.even_tops:
        return CheckResult(SKIPPED, f"{method.name} does not promise equal shares of positions")
    if not shown_first.any():
        return CheckResult(SKIPPED, "no list has ranks and top documents that differ")
    tests = share_tests(tops, shown_first, 1 / rankers)
    worst = codes.smallest(holm([test.p_value for test in tests]))
    if worst is None:
        return CheckResult(SKIPPED, tests[0].reason)
    p_value, place = worst
    return CheckResult(
        codes.grade_p_value(p_value),
        f"if top documents differ, that of {tally.about.rankers[place]} is first in "
        f"{percent(tests[place].share or 0, 1)} ({percent(1 / rankers, 1)} expected), adjusted p = {p_value:.2g}",
        _NOT_DRAWN_SO,
    )


@health_check(CheckCode.RANKINGS_DIFFER, "Rankings differ", interleaved=True)
def rankings_differ(data: CheckInput) -> CheckResult | None:
    """Do the rankings differ at all? If they differ in less than 5 % of lists, most of the traffic gives no
    information.
    """
    tally = data.tally
    if not tally.lists.seen[:, 0, 0].any() or tally.about.sessions is not None:
        return None
    differ = int(tally.lists.differ[0])
    if data.settings.aa and not differ:
        return CheckResult(SKIPPED, "a ranking is compared with itself, so nothing can differ")
    share = differ / max(int(tally.scores.impressions.sum()), 1)
    figure = f"in {percent(share, 1)} of lists"
    remedy = "the rankers show nearly the same lists: most impressions give no information"
    return CheckResult(WARNING if share < MIN_DIFFERENT else OK, figure, remedy)


@health_check(CheckCode.PASSAGE_LENGTHS, "Passage lengths", interleaved=True)
def passage_lengths(data: CheckInput) -> CheckResult | None:
    """Are the texts of all rankers about equally long? Shown only if the log has lengths of texts. Models cite longer
    passages more often, so the preference may be one for length. It warns if means differ by more than 10 % and chance
    does not explain it. Cut the passages of all rankers in the same way, and compare again.
    """
    rankers, sums = data.tally.about.rankers, data.tally.evidence.draws.characters
    means = [(mean, name) for mean, name in zip(mean_characters(data.tally), rankers, strict=True) if mean is not None]
    if len(means) < 2:
        return None
    (least, shortest), (most, longest) = min(means), max(means)
    figure = f"texts of {longest} have {most:,.0f} characters on average, those of {shortest} {least:,.0f}"
    if most <= MATERIAL_LENGTH * least:
        return CheckResult(OK, figure)
    p_value = _length_p_value(*(sums[:, rankers.index(name)].T for name in (longest, shortest)))
    if p_value is None:
        return CheckResult(SKIPPED, f"{figure}; too few people to tell whether that is chance")
    adjusted = min(1.0, p_value * len(means) * (len(means) - 1) / 2)  # the furthest apart of all pairs
    remedy = "longer passages are cited more: cut the passages of all rankers in the same way, and compare again"
    figure += f", p = {adjusted:.2g}" if adjusted else ""
    return CheckResult(WARNING if adjusted < codes.WARN_BELOW else OK, figure, remedy)


def _length_p_value(first: Array, second: Array) -> float | None:
    """The p-value that two rankers have texts of the same length, from `[texts or characters, bucket]` of each."""
    gap = difference(first[1], first[0], second[1], second[0])
    parts = [jackknife(characters, texts) for texts, characters in (first, second)]
    if min(float(part.effective[0]) for part in parts) < MIN_BUCKETS:
        return None
    return gap.p_value if gap.p_value is not None else float(not gap.value)  # all texts of a ranker have one length


@health_check(CheckCode.CONSTRAINTS_MET, "Constraints met", interleaved=True)
def constraints_met(data: CheckInput) -> CheckResult | None:
    """`optimized` could not satisfy its constraints in some lists. Use another method for such rankings. Shown only if
    there are such lists.
    """
    relaxed, lists = data.tally.facts.get(Fact.RELAXED, 0), max(int(data.tally.scores.impressions.sum()), 1)
    return CheckResult(
        codes.grade_share(relaxed / lists, 0.01, 0.5),
        f"{relaxed:,} of {lists:,} lists could not satisfy all constraints of {data.tally.about.composed}",
        "credit on these lists may not be fair: use team_draft or pairwise_preference for such rankings",
    ) if relaxed else None  # fmt: skip


@health_check(CheckCode.POSSIBLE_LISTS, "Possible lists", interleaved=True)
def possible_lists(data: CheckInput) -> CheckResult:
    """Can the method make these lists, with these owners, from these rankings? If not, documents, ranks or teams are
    logged in another order than they were drawn.
    """
    decided, impossible = data.tally.evidence.draws.lists.tolist()
    composed = resolve(data.tally.about.composed)
    if rule_of(composed) == ANY:
        return CheckResult(SKIPPED, f"{composed.method.name} can draw documents in any order")
    if not decided:
        return CheckResult(SKIPPED, "no list has ranks")
    figure = f"{impossible:,} of {decided:,} lists cannot be drawn by {composed.text} from these rankings"
    remedy = "documents, ranks or teams are logged in another order than they were drawn: log the list as it was made"
    return CheckResult(codes.grade_share(impossible / decided, 0.0, 0.01), figure, remedy)


@health_check(CheckCode.FAIR_SEGMENTS, "List probabilities by segment", interleaved=True)
def fair_segments(data: CheckInput) -> CheckResult | None:
    """With `--by`: does each ranker pick first equally often in every segment? If not, look for a cache, or a client
    with its own code, in that segment.
    """
    tally, firsts, rankers = data.tally, data.tally.evidence.firsts, len(data.tally.about.rankers)
    segments = [segment for segment, counted in sorted(firsts.items()) if counted.any()]
    if not segments or not resolve(tally.about.composed).method.has_teams or _has_several_owners(tally):
        return None
    if 2 * tally.facts.get(Fact.OWN_UNIT, 0) > tally.impressions:
        return CheckResult(SKIPPED, "most impressions have no unit, and repeat visits would bias this test")
    cells = [(segment, ranker) for segment in segments for ranker in range(1 if rankers == 2 else rankers)]
    hits = np.stack([firsts[segment][:, ranker] for segment, ranker in cells], axis=1)
    totals = np.stack([firsts[segment].sum(axis=1) for segment, _ in cells], axis=1)
    shares = share_tests(hits, totals, 1 / rankers)
    worst = codes.smallest(holm([one.p_value for one in shares]))
    if worst is None:
        return CheckResult(SKIPPED, shares[0].reason)
    p_value, place = worst
    (attribute, value), ranker = cells[place]
    return CheckResult(
        codes.grade_p_value(p_value),
        f"where {attribute} is {value}, {tally.about.rankers[ranker]} owns {percent(shares[place].share or 0, 1)} of "
        f"first positions ({percent(1 / rankers, 1)} expected), adjusted p = {p_value:.2g}; no share in the "
        f"{len(segments)} segments is less likely by chance",
        "lists of this segment are drawn differently: look for a cache, another client, or lost impressions there",
    )


@health_check(CheckCode.CLICKS_BY_RANKER, "Clicks by ranker", interleaved=True)
def clicks_by_ranker(data: CheckInput) -> CheckResult:
    """Are clicks on the documents of one ranker lost? If it warns or fails, follow such a click from the page to the
    log. If all rankers would show the same document next, team draft draws its owner at random. All owners should then
    get equally many clicks. With other methods the check only warns, if a ranker gets hardly any clicks.
    """
    rankers, owners = data.tally.about.rankers, data.tally.evidence.draws.owners
    owned, clicks = owners[:, :, SLOTS], owners[:, :, CLICKS]
    composed = resolve(data.tally.about.composed)
    has_coins = rule_of(composed) == DRAFT  # if not, a ranker may own only documents that people do not want
    remedy = "clicks on the documents of one ranker are lost: follow such a click from the page to the log"
    for place, ranker in enumerate(rankers):
        mine, others = int(owned[:, place].sum()), int(owned.sum() - owned[:, place].sum())
        by_others = np.delete(clicks, place, axis=1).sum(axis=1)
        expected = mine * int(by_others.sum()) / max(others, 1)
        own = int(clicks[:, place].sum())
        is_enough = expected >= MIN_EXPECTED_CLICKS and (by_others > 0).sum() >= MIN_BUCKETS
        if is_enough and own < NEARLY_NONE * expected:
            figure = f"{own:,} clicks on {mine:,} documents of {ranker}; the others' rate would give {expected:,.0f}"
            return CheckResult(FAILED if has_coins else WARNING, figure, remedy)
    tests = [_test_coins(owners, place) for place in range(len(rankers))]
    worst = codes.smallest(holm([test[2] for test in tests]))
    if worst is None:
        reason = "the rankers rarely have the same next document, or the log lacks ranks, teams or lengths"
        if not has_coins:
            reason = f"{composed.method.name} does not draw at random which ranker owns a document"
        lost = "the report may not notice that clicks on one ranker's documents are lost"
        return CheckResult(SKIPPED, f"{reason}, so {lost}; an A/A test can show it")
    p_value, place = worst
    own_rate, rate, _ = tests[place]
    low, high = sorted((own_rate, rate))
    status = codes.grade_p_value(p_value)
    return CheckResult(
        WARNING if status == FAILED and low > MATERIAL_RATIO * high else status,
        f"of the documents that chance gave to {rankers[place]}, {percent(own_rate, 1)} were clicked, of those "
        f"that it gave to others {percent(rate, 1)}, adjusted p = {p_value:.2g}",
        remedy,
    )


def _test_coins(owners: Array, place: int) -> tuple[float, float, float | None]:
    """Click-through rates of one ranker and of the others where chance decides the owner, and the p-value."""
    owned, clicks = owners[:, :, COIN_SLOTS], owners[:, :, COIN_CLICKS]
    mine = clicks[:, place], owned[:, place]
    others = clicks.sum(axis=1) - mine[0], owned.sum(axis=1) - mine[1]
    own_rate, rate = (float(hits.sum() / max(totals.sum(), 1)) for hits, totals in (mine, others))
    return own_rate, rate, difference(*mine, *others).p_value if clicks.sum() >= MIN_COIN_CLICKS else None


@health_check(CheckCode.CLICKS_BY_RANK, "Clicks by rank")
def clicks_by_rank(data: CheckInput) -> CheckResult:
    """Is the top rank clicked, if others are? If not, ranks of events may start at 0 or be one too deep."""
    ranks = data.tally.evidence.draws.ranks
    shown, clicked = ranks[:, SHOWN], ranks[:, CLICKED]
    arms = data.tally.arms.values()
    buckets = sum((arm.measures[:, bucket_sums.CLICKED] > 0 for arm in arms), np.zeros(1, np.bool_)).sum()
    if clicked.sum() < MIN_CLICKS or buckets < MIN_BUCKETS:
        return CheckResult(SKIPPED, f"{clicked.sum():,} clicks are too few, or come from too few people, for this test")
    if not shown[1:].any():
        return CheckResult(SKIPPED, "all lists show one document")
    rates = clicked / np.maximum(shown, 1)
    highest = 1 + int(np.argmax(np.where(2 * clicked[1:] >= clicked[1:].max(), rates[1:], 0)))
    return CheckResult(
        codes.grade_share(1 - rates[0] / rates[highest] if rates[highest] else 0.0, 0.5, 1 - NEARLY_NONE),
        f"rank 1 was clicked in {percent(rates[0], 1)} of lists, rank {highest + 1} in {percent(rates[highest], 1)}",
        "people usually click the top most: ranks of events may be one too deep, or belong to another list (1 is the "
        "top)",
    )


@health_check(CheckCode.FAIR_SCORING, "Fair scoring", interleaved=True)
def fair_scoring(data: CheckInput) -> CheckResult:
    """Is the credit fair for these lists? If not, score lists with the method that made them."""
    about = data.tally.about
    problem = bias(about.composed, about.method, about.scheme, data.tally.facts.get(Fact.RELAXED, 0) > 0)
    figure = problem or f"the credit of {about.method} by the scheme {about.scheme} is fair for these lists"
    remedy = "make and score lists with the same method, and with one that is proved fair (interleaf audit)"
    return CheckResult(WARNING if problem else OK, figure, remedy)


def bias(composed: str, scored: str, scheme: str, relaxed: bool = False) -> str:
    """Why lists of one method, scored by another (or the same), prefer a ranker under rank-only clicks; '' if not.

    A method's credit is fair for the lists that it makes itself. Plain credit for owners is also fair for all lists
    whose owners are drawn evenly. The tests enumerate all pairs of methods, and find a counterexample for each unfair
    pair.

    >>> bias("team_draft", "team_draft", "binary_deduped")
    ''
    >>> bias("team_draft", "probabilistic", "click").partition(":")[0]
    'lists of team_draft scored as probabilistic are not scored fairly'
    """
    maker, scorer = resolve(composed), resolve(scored)
    fair = not set(maker.parameters.values()) & set(maker.method.unfair_values)
    depends_on_draft = scheme.rpartition("_")[2] in scorer.method.needs_by_variant
    if _lists_of(maker, depends_on_draft) == _lists_of(scorer, depends_on_draft):
        constrained = scorer.method.kernels.prepare is not None  # fair only if its constraints were satisfied
        if fair and (scorer.method.claims.fair or (constrained and not relaxed)):
            return ""
        return (
            f"{scorer} is not fair: it prefers one ranker even if clicks depend on the rank only "
            f"({scorer.method.paper}; interleaf audit '{scorer}' shows the smallest case)"
        )
    if fair and maker.method.even_owners and scheme in scorer.method.rankless_schemes:
        return ""
    return (
        f"lists of {maker} scored as {scorer} are not scored fairly: this credit ({scorer.method.paper}) is fair only "
        f"to lists of {scorer}, and on others prefers one ranker even if clicks depend on the rank only"
    )


def _lists_of(resolved: ResolvedMethod, all_parameters: bool) -> tuple[str, ...]:
    """The method that makes such lists, and its parameters; methods for which they are equal draw the same lists.

    The credit of most schemes depends on `list_parameters` only, whatever the other parameters do to the lists.
    """
    owner = resolve(resolved.method.same_lists_as) if resolved.method.same_lists_as else resolved
    names = list(owner.parameters) if all_parameters else owner.method.list_parameters
    return owner.method.name, *(repr(owner.parameters[name]) for name in names)
