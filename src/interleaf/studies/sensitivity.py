"""A study without a paper: the traffic that each method and scheme needs until it finds the better ranker.

Pairs of rankers are grouped by the share of places in the top 10 where both have the same document. The traffic of a
score is var / mean^2 of its mean per unit, so a ratio of two scores does not depend on the level of the test. All
schemes of team draft credit the same clicks on the same lists. The right decision is the one for the ranker with the
greater NDCG@10 on the queries of the impressions: people who stop when they are satisfied click less on better lists,
so clicks cannot be the truth for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from interleaf import plots
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import METHODS
from interleaf.simulate.data import Judged
from interleaf.simulate.rankers import generator_of
from interleaf.simulate.run import ndcg
from interleaf.studies.datasets import find
from interleaf.studies.sensitivity_worlds import (
    GROUPS,
    USERS,
    GroupOutcome,
    K,
    RankedGroup,
    RankerPool,
    Score,
    simulate,
)
from interleaf.studies.study import Answer, Cell, Finding, PrintedTables, Study, StudyRun, Table, number_in

NAME, TITLE = "sensitivity", "The traffic that each method and scheme needs to find the better ranker"
TODAY: Score = ("team_draft", "binary_deduped")
DRAFTED, PAIRED = METHODS["team_draft"].schemes, METHODS["competitive_pairs"].schemes
FOR_TWO = {
    "team_draft": DRAFTED,
    "competitive_pairs": PAIRED,
    **{name: METHODS[name].schemes[:1] for name in ("balanced", "probabilistic", "pairwise_preference")},
}
FOR_MANY = {
    "team_draft": tuple(scheme for scheme in DRAFTED if "_" in scheme),  # none of those that credit shared documents
    "competitive_pairs": PAIRED,
    "probabilistic": ("click",),
    "pairwise_preference": METHODS["pairwise_preference"].schemes,
}
MANY, KINDS = 5, ("features", "trained", "moves")
PEOPLE_FOR_MANY = ("perfect", "navigational", "informational", "position-based")
UNLIKE, *MIDDLE_GROUPS, ALIKE = GROUPS
MIDDLE = "10 to 85 %"
MIN_GAP = 0.003  # of NDCG: below, neither ranker is better
MAX_QUERIES = 1000
RESAMPLES = 500


@dataclass(frozen=True)
class SensitivityScale:
    """Pairs for each group of similarity, sets of five rankers of each kind, and how often each query is shown."""

    pairs: int
    sets: int
    repeats: int
    repeats_many: int


SCALES = {"quick": SensitivityScale(12, 4, 100, 20), "paper": SensitivityScale(40, 15, 400, 100)}
Outcomes = Sequence[Sequence[GroupOutcome]]  # of each group of rankers, under some people
Ratio = tuple[float, float, float]  # the median, and its interval


def study(task: StudyRun) -> Study:
    """Run the study on a set, or on synthetic queries."""
    size, folds = SCALES[task.scale], find(task.folder, task.seed)
    training, data = folds.draw_queries(MAX_QUERIES, task.seed).split((0.5, 0.5), ("sensitivity", task.seed))
    pool = RankerPool(training, data, task.seed)
    pairs = _choose(data, pool.groups(2, size.pairs), lambda pair: pair.similarity, size.pairs)
    sets = _choose(data, pool.groups(MANY, size.sets), lambda group: group.kind, size.sets)
    if not pairs:
        raise DataError(f"{data.name} has no two rankers that differ in NDCG; give queries with grades and features")
    groups = {("pair", one.name): one for one in pairs} | {("set", one.name): one for one in sets}

    def compare(kind: str, name: str) -> list[GroupOutcome]:
        methods, people, repeats = FOR_TWO, tuple(USERS), size.repeats
        if kind == "set":
            methods, people, repeats = FOR_MANY, PEOPLE_FOR_MANY, size.repeats_many
        return simulate(data, groups[kind, name], methods, people, repeats, (task.seed, name))

    task.total = len(groups)
    outcomes = task.compute(list(groups), compare, parallel=True)
    two, many = outcomes[: len(pairs)], outcomes[len(pairs) :]
    of_many = {
        "all": many,
        **{users: _limit_to(many, users) for users in PEOPLE_FOR_MANY},
        **{kind: [some for some in many if some[0].group.kind == kind] for kind in KINDS},
    }
    many_title = f"{MANY} rankers: traffic relative to {_label(TODAY)}, median over pairs and sets [95 %]"
    signs_title = "decided as NDCG@10 / as clicks on each ranker alone decide, with all impressions"
    tables = (
        *(_traffic_table(_name(users), _title(users), _by_similarity(two, users), FOR_TWO) for users in (None, *USERS)),
        _ab_table(two),
        _sign_table("signs", f"Pairs {signs_title}", two, FOR_TWO, tuple(USERS)),
        _traffic_table("many", many_title, of_many, FOR_MANY),
        _sign_table("many-signs", f"{MANY} rankers: pairs {signs_title}", many, FOR_MANY, PEOPLE_FOR_MANY),
        _pair_table(two),
    )
    notes = _notes(data, len(pairs), len(sets), size)
    return Study(NAME, TITLE, folds.describe(data), task.scale, tables, {"traffic": _chart(two)}, notes)


def _choose(
    data: Judged, groups: Iterable[RankedGroup], name_of: Callable[[RankedGroup], str], count: int
) -> list[RankedGroup]:
    """As many groups of rankers as are asked for of each name, of all kinds alike if there are enough.

    The NDCG of their rankers differs.
    """
    chosen: dict[str, list[RankedGroup]] = {name: [] for name in (*GROUPS, *KINDS)}
    others: dict[str, list[RankedGroup]] = {name: [] for name in (*GROUPS, *KINDS)}
    for group in groups:
        name = name_of(group)
        if len(chosen[name]) < count and np.ptp(ndcg(data, group.rankings, K)) >= MIN_GAP:
            of_kind = sum(one.kind == group.kind for one in chosen[name])
            (chosen if of_kind * len(KINDS) < count or name in KINDS else others)[name].append(group)
    return [group for name in chosen for group in (chosen[name] + others[name])[:count]]


def ratios(outcome: GroupOutcome, score: Score) -> Array:
    """The traffic of a score relative to the reference, by pair; nan if neither decides rightly.

    It is infinite if only the reference decides rightly, and 0 if only the score does.
    """
    today, other = outcome.traffic(TODAY), outcome.traffic(score)
    unknown = (np.isinf(today) & np.isinf(other)) | (np.abs(outcome.truth) < MIN_GAP)
    with np.errstate(invalid="ignore"):
        return np.where(unknown, np.nan, other / today)


def ab_ratios(outcome: GroupOutcome, score: Score) -> Array:
    """The traffic of A/B on clicks, whoever wins it, relative to that of a score that decides rightly, by pair."""
    other = outcome.traffic(score)
    unknown = np.isinf(other) | (np.abs(outcome.truth) < MIN_GAP)
    return np.where(unknown, np.nan, outcome.ab_traffic / np.where(unknown, 1, other))


def median_of(
    measure: Callable[[GroupOutcome, Score], Array], outcomes: Outcomes, score: Score, key: Any
) -> Ratio | None:
    """The median of all ratios, and its 95 % interval by a bootstrap over groups of rankers; None without a number."""
    table = np.array([np.concatenate([measure(one, score) for one in some]) for some in outcomes])
    if np.isnan(table).all():
        return None
    chosen = generator_of((NAME, key, *score)).integers(0, len(table), (RESAMPLES, len(table)))
    medians = _medians(table[chosen].reshape(RESAMPLES, -1))
    low, high = np.quantile(medians[~np.isnan(medians)], (0.025, 0.975), method="nearest")
    return float(_medians(table.reshape(1, -1))[0]), float(low), float(high)


def _medians(rows: Array) -> Array:
    """The median of the numbers of each row, the upper one of two, of which some may be infinite; nan without any."""
    ordered, counts = np.sort(rows, axis=1), (~np.isnan(rows)).sum(axis=1)  # nan comes last
    return np.take_along_axis(ordered, counts[:, None] // 2, axis=1)[:, 0]


def _label(score: Score) -> str:
    return " ".join(score)


def _name(users: str | None) -> str:
    return f"traffic-{users or 'all'}".replace(" ", "-")


def _title(users: str | None) -> str:
    people = users or "all people"
    return f"Traffic to a right decision relative to {_label(TODAY)}, median over pairs [95 %]: {people}"


def _limit_to(outcomes: Outcomes, users: str | None) -> Outcomes:
    return [[one for one in some if users in (None, one.users)] for some in outcomes]


def _by_similarity(outcomes: Outcomes, users: str | None) -> Mapping[str, Outcomes]:
    """The outcomes of the pairs of each group of similarity, and of those between the first and the last."""
    columns = {name: (name,) for name in GROUPS} | {MIDDLE: tuple(MIDDLE_GROUPS)}
    return {
        column: _limit_to([some for some in outcomes if some[0].group.similarity in names], users)
        for column, names in columns.items()
    }


def _scores(methods: Mapping[str, Sequence[str]]) -> list[Score]:
    return [(method, scheme) for method, schemes in methods.items() for scheme in schemes]


def _describe(ratio: Ratio | None, factor: int = 1, unit: str = "") -> str | None:
    if ratio is None:
        return None
    median, low, high = (f"{factor * value:,.0f}" if np.isfinite(value) else "never" for value in ratio)
    return f"{median}{unit} [{low}, {high}]"


def _traffic_table(
    name: str, title: str, columns: Mapping[str, Outcomes], methods: Mapping[str, Sequence[str]]
) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for score in _scores(methods):
        cells = [_describe(median_of(ratios, some, score, column), 100, " %") for column, some in columns.items()]
        rows.append((_label(score), *cells))
    return Table(name, title, ("score", *columns), tuple(rows))


def _ab_table(outcomes: Outcomes) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for score in _scores(FOR_TWO):
        cells = [_describe(median_of(ab_ratios, _limit_to(outcomes, users), score, users)) for users in USERS]
        rows.append((_label(score), *cells))
    title = "A/B on clicks needs this multiple of the traffic, whoever wins it, median over pairs [95 %]"
    return Table("ab", title, ("score", *USERS), tuple(rows))


def _sign_table(
    name: str, title: str, outcomes: Outcomes, methods: Mapping[str, Sequence[str]], people: Sequence[str]
) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for score in (None, *_scores(methods)):
        cells = [_signs([one for some in _limit_to(outcomes, users) for one in some], score) for users in people]
        rows.append(("A/B on clicks" if score is None else _label(score), *cells))
    return Table(name, title, ("score", *people), tuple(rows))


def _signs(outcomes: Sequence[GroupOutcome], score: Score | None) -> str | None:
    """The shares of pairs that a score decides as NDCG does, and as clicks on each list alone do."""
    right = []
    for one in outcomes:
        differ = np.abs(one.truth) >= MIN_GAP
        signs = np.sign(one.clicks if score is None else one.scores[score].mean)[differ]
        right.append([signs == np.sign(one.truth[differ]), signs == np.sign(one.clicks[differ])])
    if not right:
        return None
    by_ndcg, by_clicks = np.concatenate(right, axis=1).mean(axis=1)
    return f"{by_ndcg:.0%} / {by_clicks:.0%}"


def _pair_table(outcomes: Outcomes) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in GROUPS:
        some = [pair[0] for pair in outcomes if pair[0].group.similarity == name]
        kinds = [sum(one.group.kind == kind for one in some) for kind in KINDS]
        agreement = f"{np.median([one.group.agreement for one in some]):.0%}" if some else None
        gap = f"{np.median([abs(one.truth[0]) for one in some]):.3f}" if some else None
        rows.append((name, len(some), *kinds, agreement, gap))
    columns = ("same places", "pairs", *KINDS, "median agreement", "median NDCG gap")
    return Table("pairs", "The pairs of rankers", columns, tuple(rows))


def _chart(outcomes: Outcomes) -> dict[str, Any]:
    drafted = [scheme for scheme in DRAFTED if scheme.startswith("click_")]
    rows: list[dict[str, Any]] = []
    for score in (*(("team_draft", scheme) for scheme in drafted), ("competitive_pairs", "click")):
        for users in USERS:
            for column, some in _by_similarity(outcomes, users).items():
                ratio = median_of(ratios, some, score, column)
                if column in GROUPS and ratio is not None and np.isfinite(ratio[0]):
                    row = {"same places": column, "relative traffic": ratio[0], "score": _label(score)}
                    rows.append({**row, "people": users})
    title = f"Traffic to a right decision, relative to {_label(TODAY)}"
    return plots.bars(rows, "same places", "relative traffic", "score", title, facet="people")


def at_most(tables: PrintedTables, score: str, column: str, limit: float) -> Answer:
    """Whether the median ratio of all people is at most the limit, in per cent."""
    cell = tables.cell(_title(None), column, score=score)
    return cell, number_in(cell) <= limit


def never_more(tables: PrintedTables, score: str) -> Answer:
    """Whether no interval, of any group of pairs and any people, lies above 100 %."""
    cells = {
        f"{users}, {column}": tables.cell(_title(users), column, score=score) for users in USERS for column in GROUPS
    }
    cells = {where: cell for where, cell in cells.items() if cell != "-"}
    worst = max(cells, key=lambda where: number_in(cells[where]))
    above = sum(number_in(cell.partition("[")[2]) > 100 for cell in cells.values())
    return f"{above} of {len(cells)} intervals are above; the largest median: {cells[worst]} ({worst})", above == 0


CANDIDATES = (
    *(_label(("team_draft", scheme)) for scheme in DRAFTED if scheme.endswith(("_list", "_place"))),
    *(_label(("competitive_pairs", scheme)) for scheme in PAIRED),
)
GOALS: tuple[tuple[str, str, Callable[..., Answer], tuple[Any, ...]], ...] = (
    ("85 % and more of the places alike", "goal: at most 65 %", at_most, (ALIKE, 65)),
    ("10 to 85 % of the places alike", "goal: at most 90 %", at_most, (MIDDLE, 90)),
    ("any pairs, any people", "goal: never above 100 %", never_more, ()),
)
FINDINGS = tuple(
    Finding(f"{score}: {pairs}", goal, answer, (score, *arguments))
    for pairs, goal, answer, arguments in GOALS
    for score in CANDIDATES
)


def _notes(data: Judged, pairs: int, sets: int, size: SensitivityScale) -> list[str]:
    return [
        f"{pairs} pairs and {sets} sets of {MANY} rankers, {len(data):,} queries, each shown {size.repeats:,} times "
        f"({size.repeats_many:,} with {MANY} rankers) by every method, k = {K}; all schemes of a method credit the "
        f"same clicks; the rankers of a pair differ by at least {MIN_GAP} in NDCG@{K}; trained rankers were fitted on "
        "other queries.",
        "Traffic: var / mean^2 of a score per unit, without limit if the score has the wrong sign; pairs that neither "
        "score decides rightly are left out. A/B: two equal groups, clicks per impression, computed exactly. "
        "Intervals: bootstrap over pairs, or sets, of rankers.",
        "People: perfect, navigational and informational cascades that may stop after a click; position-based people "
        "look at rank r with probability 1/r and click as navigational ones do; people with lasting tastes are "
        "navigational, come 6 times, and each leans to one ranker (deviation 1 in the logit of a click).",
    ]
