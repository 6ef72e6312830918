"""A study without a paper: the traffic that each method and scheme needs until it finds the better ranker.

Pairs of rankers are grouped by the share of places in the top 10 where both have the same document. The traffic of a
score is var / mean^2 of its mean per unit, so a ratio of two scores does not depend on the level of the test. All
schemes of team draft credit the same clicks on the same lists. The right decision is the one for the ranker with the
greater NDCG@10 on the queries of the impressions; people who stop when they are satisfied click less on better lists,
so clicks alone cannot be the truth for them.
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
from interleaf.studies.findings import Answer, Finding, PrintedTables, number_in
from interleaf.studies.sensitivity_clicks import USERS, GroupOutcome, Score, simulate
from interleaf.studies.sensitivity_rankers import GROUPS, K, RankedGroup, RankerPool
from interleaf.studies.study import Cell, Study, StudyRun, Table

NAME, TITLE = "sensitivity", "The traffic that each method and scheme needs to find the better of two rankers"
TODAY: Score = ("team_draft", "binary_deduped")
FOR_TWO = {
    **{name: METHODS[name].schemes for name in ("team_draft", "competitive_pairs")},
    **{name: METHODS[name].schemes[:1] for name in ("balanced", "probabilistic", "pairwise_preference")},
}
FOR_MANY = {
    "team_draft": tuple(scheme for scheme in METHODS["team_draft"].schemes if scheme not in ("binary", "click", "normalized")),
    "competitive_pairs": METHODS["competitive_pairs"].schemes,
    "probabilistic": ("click",),
    "pairwise_preference": METHODS["pairwise_preference"].schemes,
}  # fmt: skip
MANY, KINDS = 5, ("features", "trained", "moves")
PEOPLE_FOR_MANY = ("perfect", "navigational", "informational", "position-based")
MIDDLE = "10 to 85 %"
SIMILAR = "85 % and more"
MIN_GAP = 0.003  # of NDCG: below, neither ranker is better
MAX_QUERIES = 1000
RESAMPLES = 500
AB = "A/B on clicks"


@dataclass(frozen=True)
class SensitivityScale:
    """Pairs for each group of similarity, sets of five rankers of each kind, and how often each query is shown."""

    pairs: int
    sets: int
    repeats: int
    repeats_many: int


SCALES = {"quick": SensitivityScale(12, 4, 100, 20), "paper": SensitivityScale(40, 15, 400, 100)}


def study(task: StudyRun) -> Study:
    """Run the study on a set, or on synthetic queries."""
    size, folds = SCALES[task.scale], find(task.folder, task.seed)
    training, data = folds.draw_queries(MAX_QUERIES, task.seed).split((0.5, 0.5), ("sensitivity", task.seed))
    pool = RankerPool(training, data, task.seed)
    pairs = _choose(data, pool.groups(2, size.pairs), list(GROUPS), lambda pair: pair.similarity, size.pairs)
    sets = _choose(data, pool.groups(MANY, size.sets), KINDS, lambda group: group.kind, size.sets)
    if not pairs:
        raise DataError(f"{data.name} has no two rankers that differ in NDCG; give queries with grades and features")
    groups = {(kind, one.name): one for kind, some in (("pair", pairs), ("set", sets)) for one in some}

    def compare(kind: str, name: str) -> list[GroupOutcome]:
        group = groups[kind, name]
        if kind == "pair":
            return simulate(data, group, FOR_TWO, tuple(USERS), size.repeats, (task.seed, name))
        return simulate(data, group, FOR_MANY, PEOPLE_FOR_MANY, size.repeats_many, (task.seed, name))

    task.total = len(groups)
    outcomes = task.compute(list(groups), compare, parallel=True)
    two, many = outcomes[: len(pairs)], outcomes[len(pairs) :]
    tables = (
        *(_traffic_table(two, users) for users in (None, *USERS)),
        _sign_table(two), _many_table(many), _many_sign_table(many), _pair_table(two),
    )  # fmt: skip
    charts = {"traffic": _chart(two)}
    return Study(NAME, TITLE, folds.describe(data), task.scale, tables, charts, _notes(data, two, many, size))


def _choose(
    data: Judged, groups: Iterable[RankedGroup], names: Sequence[str], name_of: Callable[[RankedGroup], str], count: int
) -> list[RankedGroup]:
    """The first groups of rankers under each name, in the order of the names, whose NDCG differs enough."""
    chosen: dict[str, list[RankedGroup]] = {name: [] for name in names}
    for group in groups:
        some = chosen[name_of(group)]
        if len(some) < count and np.ptp(ndcg(data, group.rankings, K)) >= MIN_GAP:
            some.append(group)
    return [group for some in chosen.values() for group in some]


def ratios(outcome: GroupOutcome, score: Score | None) -> Array:
    """The traffic of a score, None for A/B, relative to today's default, by pair; nan if there is no right decision.

    It is infinite if the score decides wrongly and the default rightly, and 0 the other way round.
    """
    today, theirs = outcome.traffic(TODAY), outcome.ab_traffic if score is None else outcome.traffic(score)
    unknown = (np.isinf(today) & np.isinf(theirs)) | (np.abs(outcome.truth) < MIN_GAP)
    with np.errstate(invalid="ignore"):
        return np.where(unknown, np.nan, theirs / today)


def median_with_interval(values: Sequence[Array], key: Any) -> tuple[float, float, float] | None:
    """The median of all values, and its 95 % interval by a bootstrap over the arrays; None without a value."""
    table = np.stack([np.ravel(one) for one in values]) if values else np.full((1, 1), np.nan)
    if np.isnan(table).all():
        return None
    chosen = generator_of((key, "bootstrap")).integers(0, len(table), (RESAMPLES, len(table)))
    medians = [_median(table[rows]) for rows in chosen]
    low, high = np.quantile([median for median in medians if not np.isnan(median)], (0.025, 0.975), method="nearest")
    return _median(table), float(low), float(high)


def _median(values: Array) -> float:
    """The median of the numbers, of which some may be infinite."""
    numbers = np.sort(values[~np.isnan(values)])
    return float(np.quantile(numbers, 0.5, method="higher")) if len(numbers) else np.nan


def _describe(ratio: tuple[float, float, float] | None) -> str | None:
    if ratio is None:
        return None
    median, low, high = (f"{100 * value:,.0f}" if np.isfinite(value) else "never" for value in ratio)
    return f"{median} % [{low}, {high}]"


def _label(score: Score | None) -> str:
    return AB if score is None else " ".join(score)


def _of(outcomes: Sequence[list[GroupOutcome]], column: str, users: str | None) -> list[list[GroupOutcome]]:
    """The outcomes of the pairs of a group of similarity, under one kind of people or all of them."""
    middle = [name for name in GROUPS if name not in (SIMILAR, next(iter(GROUPS)))]
    names = middle if column == MIDDLE else [column]
    return [
        [one for one in some if users in (None, one.users)] for some in outcomes if some[0].group.similarity in names
    ]


COLUMNS = (*GROUPS, MIDDLE)


def _traffic_title(users: str | None) -> str:
    return (
        f"Traffic to a right decision, relative to {_label(TODAY)}, median over pairs [95 %]: {users or 'all people'}"
    )


def _traffic_table(outcomes: Sequence[list[GroupOutcome]], users: str | None) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for score in (None, *outcomes[0][0].scores):
        cells = []
        for column in COLUMNS:
            some = [np.concatenate([ratios(one, score) for one in pair]) for pair in _of(outcomes, column, users)]
            cells.append(_describe(median_with_interval(some, (column, _label(score)))))
        rows.append((_label(score), *cells))
    return Table(f"traffic-{users or 'all'}".replace(" ", "-"), _traffic_title(users), ("score", *COLUMNS), tuple(rows))


def _signs(outcomes: Iterable[GroupOutcome], score: Score | None) -> str:
    """The shares of pairs that a score decides as NDCG does, and as clicks on each list alone do."""
    right = []
    for one in outcomes:
        differ = np.abs(one.truth) >= MIN_GAP
        means = np.sign(one.clicks if score is None else one.scores[score].mean)[differ]
        right += list(zip(means == np.sign(one.truth[differ]), means == np.sign(one.clicks[differ]), strict=True))
    by_ndcg, by_clicks = np.mean(right, axis=0) if right else (np.nan, np.nan)
    return f"{by_ndcg:.0%} / {by_clicks:.0%}"


def _sign_table(outcomes: Sequence[list[GroupOutcome]]) -> Table:
    scores = (None, *outcomes[0][0].scores)
    rows = tuple(
        (_label(score), *[_signs([one for pair in outcomes for one in pair if one.users == users], score) for users in USERS])
        for score in scores
    )  # fmt: skip
    return Table("signs", "Pairs decided as NDCG@10 / as clicks on each ranker alone, with all impressions", ("score", *USERS), rows)  # fmt: skip


def _many_table(outcomes: Sequence[list[GroupOutcome]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for score in (None, *outcomes[0][0].scores):
        cells = []
        for kind, users in ((kind, users) for kind in (None, *KINDS) for users in (None, *PEOPLE_FOR_MANY)):
            if kind is not None and users is not None:
                continue
            some = [
                np.concatenate([ratios(one, score) for one in group if users in (None, one.users)])
                for group in outcomes
                if kind in (None, group[0].group.kind)
            ]
            cells.append(_describe(median_with_interval(some, (kind or "", users or "", _label(score)))))
        rows.append((_label(score), *cells))
    columns = ("score", "all", *PEOPLE_FOR_MANY, *KINDS)
    title = f"{MANY} rankers: traffic relative to {_label(TODAY)}, median over pairs and sets [95 %]"
    return Table("many", title, columns, tuple(rows))


def _many_sign_table(outcomes: Sequence[list[GroupOutcome]]) -> Table:
    rows = tuple(
        (_label(score), *[_signs([one for group in outcomes for one in group if one.users == users], score) for users in PEOPLE_FOR_MANY])
        for score in (None, *outcomes[0][0].scores)
    )  # fmt: skip
    title = f"{MANY} rankers: pairs decided as NDCG@10 / as clicks on each ranker alone, with all impressions"
    return Table("many-signs", title, ("score", *PEOPLE_FOR_MANY), rows)


def _pair_table(outcomes: Sequence[list[GroupOutcome]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in GROUPS:
        some = [pair[0] for pair in outcomes if pair[0].group.similarity == name]
        kinds = [sum(one.group.kind == kind for one in some) for kind in KINDS]
        agreement = f"{np.median([one.group.agreement for one in some]):.0%}" if some else None
        gap = f"{np.median([abs(one.truth[0]) for one in some]):.3f}" if some else None
        rows.append((name, len(some), *kinds, agreement, gap))
    columns = ("same places", "pairs", *KINDS, "median agreement", "median NDCG gap")
    return Table("pairs", "The pairs of rankers", columns, tuple(rows))


def _chart(outcomes: Sequence[list[GroupOutcome]]) -> dict[str, Any]:
    shown = [(TODAY[0], f"{form}_{variant}") for variant in ("deduped", "list", "place") for form in ("click", "normalized")]  # fmt: skip
    rows: list[dict[str, Any]] = []
    for score in (*shown, ("competitive_pairs", "click")):
        for users in USERS:
            for column in GROUPS:
                some = [np.concatenate([ratios(one, score) for one in pair]) for pair in _of(outcomes, column, users)]
                ratio = median_with_interval(some, (column, _label(score)))
                if ratio is not None and np.isfinite(ratio[0]):
                    rows.append({"same places": column, "traffic": ratio[0], "score": _label(score), "people": users})
    return plots.bars(rows, "same places", "traffic", "score", f"Traffic relative to {_label(TODAY)}", facet="people")


def at_most(tables: PrintedTables, score: str, column: str, limit: float) -> Answer:
    """Whether the median ratio of all people is at most the limit, in per cent."""
    cell = tables.cell(_traffic_title(None), column, score=score)
    return cell, number_in(cell) <= limit


def never_more(tables: PrintedTables, score: str) -> Answer:
    """Whether no interval of any group and any people lies above 100 %."""
    cells = [
        (users, column, tables.cell(_traffic_title(users), column, score=score)) for users in USERS for column in GROUPS
    ]
    tried = [cell for cell in cells if cell[2] != "-"]
    above = [f"{users}, {column}: {cell}" for users, column, cell in tried if number_in(cell.partition("[")[2]) > 100]
    return "; ".join(above) or f"0 of {len(tried)} intervals lie above 100 %", not above


CANDIDATES = tuple(
    _label((method, scheme))
    for method, schemes in {
        "team_draft": ("click_list", "normalized_list", "click_place", "normalized_place"),
        "competitive_pairs": ("binary", "click", "normalized"),
    }.items()
    for scheme in schemes
)
FINDINGS = tuple(
    finding
    for score in CANDIDATES
    for finding in (
        Finding(f"{score}: same document at 85 % and more of the places", "goal: at most 65 %", at_most, (score, SIMILAR, 65)),
        Finding(f"{score}: at 10 to 85 % of the places", "goal: at most 90 %", at_most, (score, MIDDLE, 90)),
        Finding(f"{score}: any pairs, any people", "goal: never more than 100 %", never_more, (score,)),
    )
)  # fmt: skip


def _notes(
    data: Judged, two: Sequence[list[GroupOutcome]], many: Sequence[list[GroupOutcome]], size: SensitivityScale
) -> list[str]:
    return [
        f"{len(two)} pairs and {len(many)} sets of {MANY} rankers, {len(data):,} queries, each shown {size.repeats:,} "
        f"times ({size.repeats_many:,} with {MANY} rankers) by every method, k = {K}; the same clicks for all schemes of "
        f"a method; rankers differ by at least {MIN_GAP} in NDCG@{K}; trained rankers were fitted on other queries.",
        "Traffic: var / mean^2 of a score per unit; without limit if the score has the wrong sign. A/B: two equal "
        "groups, clicks per impression, exact; whoever wins it. Intervals: bootstrap over pairs, or sets, of rankers.",
        "People: perfect, navigational and informational cascades that stop only after a click; position-based people "
        "look at rank r with probability 1/r and click as navigational ones; people with lasting tastes are "
        "navigational, come 6 times, and each leans to one ranker (deviation 1 in the logit of a click).",
    ]
