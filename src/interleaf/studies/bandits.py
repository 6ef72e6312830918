"""A study without a paper: how much regret dueling bandits save, and at which ranker they end.

The rankers are single features of judged queries. Their world is the probability that one comparison by the default
method prefers a ranker to another one, measured by simulation. An algorithm sees wins only; its regret is computed from
the world. It chooses anew for each impression, as in the papers, or for an epoch, as a live service does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from interleaf import plots
from interleaf.dueling_bandits import ALGORITHMS
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.simulate.data import Judged
from interleaf.simulate.rankers import generator_of, rank, scores_of
from interleaf.studies.bandits_runs import (
    COIN,
    NOT_COUNTED,
    TIE_RULES,
    BanditRun,
    PreferenceWorld,
    Schedule,
    compare_with_later,
    judged_world,
    matrix_of,
    simulate,
    synthetic_world,
)
from interleaf.studies.datasets import find
from interleaf.studies.study import Answer, Cell, Finding, PrintedTables, Study, StudyRun, Table, number_in

NAME, TITLE = "bandits", "How much regret dueling bandits save, and at which ranker they end"
PEOPLE = ("navigational", "informational")
REFERENCE, *ADAPTIVE = ALGORITHMS
MAX_QUERIES = 1000
RANKERS = 20
GOAL_IMPRESSIONS, EPOCH, DRAWS = 20_000, 200, 20
ALL_DRAWS = (1, 5, DRAWS, 40)
POINTS_OF_CHART = 16
OPPOSED, CYCLE = "the Borda winner is not the Condorcet winner", "three winners in a cycle"
EACH, EPOCHS = "each impression", f"epochs of {EPOCH}"
_FEW, _OPPOSED, _CYCLE = (
    f"{RANKERS} rankers{rest}:" for rest in ("", f", synthetic, {OPPOSED}", f", synthetic, {CYCLE}")
)
_GOAL = "goal: at most 35 % of uniform pairs"


@dataclass(frozen=True)
class BanditScale:
    """How often each query is shown to compare two rankers, the repeats of a run, and its impressions.

    `fewer_repeats` are those of runs that cost more: with all features, in synthetic worlds, for each impression.
    """

    comparisons: int
    repeats: int
    fewer_repeats: int
    impressions: tuple[int, ...]


SCALES = {
    "quick": BanditScale(10, 64, 16, (GOAL_IMPRESSIONS,)),
    "paper": BanditScale(40, 200, 50, (GOAL_IMPRESSIONS, 100_000)),
}


class BanditCell(NamedTuple):
    """One algorithm in one world: the impressions of an epoch, the pairs drawn for it, and how ties count."""

    world: str
    algorithm: str
    epoch: int = EPOCH
    draws: int = DRAWS
    tie_rule: str = COIN


# The columns that say which run a row of a table has.
COLUMNS: dict[str, Callable[[BanditCell], Cell]] = {
    "people": lambda cell: cell.world.partition(",")[0],
    "algorithm": lambda cell: cell.algorithm,
    "choice": lambda cell: EACH if cell.epoch == 1 else EPOCHS,
    "ties": lambda cell: cell.tie_rule,
    "pairs": lambda cell: cell.draws,
}
Runs = Mapping[BanditCell, BanditRun]


@dataclass(frozen=True)
class RegretTable:
    """A table to print: its name and title, the columns before the results, and its runs."""

    name: str
    title: str
    columns: tuple[str, ...]
    cells: Sequence[BanditCell]


def study(task: StudyRun) -> Study:
    """Run the study on a set, or on synthetic queries."""
    size, folds = SCALES[task.scale], find(task.folder, task.seed)
    data = folds.draw_queries(MAX_QUERIES, task.seed)
    features = data.varying_features().tolist()
    if len(features) < 2:
        raise DataError(f"{data.name} has fewer than two features that vary; the rankers of the study are features")
    plans = _plan_tables(min(RANKERS, len(features)), len(features))
    cells = list(dict.fromkeys(cell for plan in plans for cell in plan.cells))
    task.total = len(features) - 1 + len(cells)
    worlds, points = _worlds(task, data, features), _points(size)

    def run(*cell: Any) -> BanditRun:
        one = BanditCell(*cell)
        schedule = Schedule(size.impressions[-1], one.epoch, one.draws)
        generator = generator_of((task.seed, NAME, *cell))
        is_costly = one.epoch == 1 and one.algorithm != REFERENCE
        world = worlds[one.world].first(size.fewer_repeats) if is_costly else worlds[one.world]
        return simulate(world, one.algorithm, schedule, one.tie_rule, points, generator)

    runs = dict(zip(cells, task.compute(cells, run), strict=True))
    tables = (_world_table(worlds), *(_regret_table(plan, worlds, runs, size.impressions) for plan in plans))
    charts = {"regret": _chart(plans[0].cells, runs)}
    return Study(NAME, TITLE, folds.describe(data), task.scale, tables, charts, _notes(size, len(data)))


def _name(people: str, rankers: int) -> str:
    return f"{people}, {rankers} rankers"


def _plan_tables(few: int, every: int) -> list[RegretTable]:
    """All tables of regret, those of judged data with a part of the features and with all of them."""
    judged = [_name(people, few) for people in PEOPLE]
    plans = [RegretTable("few", f"{few} rankers", ("people", "choice", "algorithm"), _both_choices(judged))]
    if every > few:
        worlds = [_name(people, every) for people in PEOPLE]
        cells = [cell for cell in _both_choices(worlds) if cell.algorithm == REFERENCE or cell.epoch == EPOCH]
        plans.append(RegretTable("all", f"{every} rankers", ("people", "choice", "algorithm"), cells))
    for name, world in (("opposed", OPPOSED), ("cycle", CYCLE)):
        title = f"{RANKERS} rankers, synthetic, {world}"
        plans.append(RegretTable(name, title, ("choice", "algorithm"), _both_choices([world])))
    several = list(product(judged, ADAPTIVE[:2]))
    by_rule = [BanditCell(*one, tie_rule=rule) for one in several for rule in TIE_RULES]
    by_draws = [BanditCell(*one, draws=draws) for one in several for draws in ALL_DRAWS]
    title = f"How ties count, {few} rankers, {EPOCHS}"
    plans.append(RegretTable("ties", title, ("people", "algorithm", "ties"), by_rule))
    title = f"Pairs drawn for an epoch, {few} rankers, {EPOCHS}"
    plans.append(RegretTable("pairs", title, ("people", "algorithm", "pairs"), by_draws))
    return plans


def _both_choices(worlds: Iterable[str]) -> list[BanditCell]:
    """All algorithms that choose for each impression, and for epochs; uniform pairs are the same in both."""
    cells = []
    for world in worlds:
        cells += [BanditCell(world, algorithm, 1, 1) for algorithm in ALGORITHMS]
        cells += [BanditCell(world, algorithm) for algorithm in ADAPTIVE]
    return cells


def _worlds(task: StudyRun, data: Judged, features: Sequence[int]) -> dict[str, PreferenceWorld]:
    """The worlds by name; those of judged data from comparisons of all pairs of features."""
    size, every = SCALES[task.scale], len(features)
    rankings = rank(data, [scores_of(data, feature) for feature in features], (task.seed, NAME))

    def compare(_: str, first: int) -> Array:
        return compare_with_later(data, rankings, first, PEOPLE, size.comparisons, task.seed)

    shares = task.compute([("comparisons", first) for first in range(every - 1)], compare, parallel=True)
    worlds = {}
    for number, people in enumerate(PEOPLE):
        matrix = matrix_of([of_first[number] for of_first in shares])
        for rankers, repeats in ((every, size.fewer_repeats), (min(RANKERS, every), size.repeats)):
            generator = generator_of((task.seed, NAME, "rankers", rankers))
            worlds[_name(people, rankers)] = judged_world(matrix, rankers, repeats, generator)
    for name, winners in ((OPPOSED, 1), (CYCLE, 3)):
        worlds[name] = synthetic_world(winners, RANKERS, size.fewer_repeats)
    return worlds


def _points(size: BanditScale) -> Array:
    """Impressions for the chart and the tables, all at the end of an epoch."""
    evenly = np.linspace(EPOCH, size.impressions[-1], POINTS_OF_CHART) // EPOCH * EPOCH
    return np.unique(np.concatenate([evenly.astype(np.int64), np.array(size.impressions)]))


def _regret_table(
    plan: RegretTable, worlds: Mapping[str, PreferenceWorld], runs: Runs, impressions: Sequence[int]
) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for cell in plan.cells:
        run, uniform = runs[cell], runs[BanditCell(cell.world, REFERENCE, 1, 1)]
        regret = [text for point in impressions for text in _describe_regret(run, uniform, point)]
        ends = _ends(worlds[cell.world], run, cell.algorithm != REFERENCE)
        rows.append((*(COLUMNS[column](cell) for column in plan.columns), *regret, *ends))
    after = [name for point in impressions for name in (f"regret after {point:,}", f"of uniform after {point:,}")]
    ends_at = ("ends at the winner", "at another Borda winner", "elsewhere", "winner's places")
    title = f"{plan.title}: regret (standard error over repeats), relative to uniform pairs, and where runs end"
    return Table(plan.name, title, (*plan.columns, *after, *ends_at), tuple(rows))


def _describe_regret(run: BanditRun, uniform: BanditRun, point: int) -> tuple[str, str]:
    """The mean regret, and its ratio to that of uniform pairs in the same repeats, with standard errors."""
    ours, theirs = (one.regret[one.points.tolist().index(point), : len(run.ends)] for one in (run, uniform))
    ratio, root = ours.mean() / theirs.mean(), np.sqrt(len(ours))
    error = (ours - ratio * theirs).std(ddof=1) / root / theirs.mean()
    return f"{ours.mean():,.0f} ({ours.std(ddof=1) / root:,.0f})", f"{ratio:.1%} ({error:.1%})"


def _ends(world: PreferenceWorld, run: BanditRun, is_adaptive: bool) -> tuple[Cell, ...]:
    """Repeats that end at a Copeland winner, at a Borda winner that is none, and elsewhere; the places of winners.

    Runs of uniform pairs end nowhere.
    """
    world = world.first(len(run.ends))
    places = f"{(run.shown * world.winners).sum(axis=1).mean():.0%}"
    if not is_adaptive:
        return None, None, None, places
    at_winner = world.winners[np.arange(len(run.ends)), run.ends]
    at_borda = ~at_winner & (run.ends == world.borda_winners)
    counts = (at_winner.sum(), at_borda.sum(), (~at_winner & ~at_borda).sum())
    return *(f"{count} of {len(run.ends)}" for count in counts), places


def _world_table(worlds: Mapping[str, PreferenceWorld]) -> Table:
    """What makes a world hard: how close rankers are to the winner, and how many comparisons are tied."""
    rows: list[tuple[Cell, ...]] = []
    for name, world in worlds.items():
        itself = np.eye(world.wins.shape[1], dtype=bool)
        gaps = np.sort(np.where(world.winners, np.inf, world.gaps), axis=1)
        closest, mean = (f"{value:.3f}" for value in (np.median(gaps[:, 0]), world.gaps.mean()))
        borda = world.winners[np.arange(len(gaps)), world.borda_winners].sum()
        winner = "Condorcet" if world.has_condorcet_winner else "Copeland"
        counts = (f"{borda} of {len(gaps)}", f"{world.ties[:, ~itself].mean():.0%}")
        rows.append((name, len(gaps), winner, closest, mean, *counts))
    columns = ("world", "repeats", "winner", "closest gap", "mean gap", "winner is the Borda winner", "ties")
    return Table("worlds", "The worlds: gaps to the winner (the median of the closest), and ties", columns, tuple(rows))


def _chart(cells: Iterable[BanditCell], runs: Runs) -> dict[str, Any]:
    """Regret over impressions; uniform pairs, which are the same in epochs, are in all panels."""
    rows: list[dict[str, Any]] = []
    for cell in cells:
        for choice in (EACH, EPOCHS) if cell.algorithm == REFERENCE else (COLUMNS["choice"](cell),):
            panel = f"{COLUMNS['people'](cell)}, {choice}"
            for point, regret in zip(runs[cell].points.tolist(), runs[cell].regret.mean(axis=1).tolist(), strict=True):
                rows.append({"impressions": point, "regret": regret, "algorithm": cell.algorithm, "panel": panel})
    title = "Cumulative regret"
    return plots.lines(rows, "impressions", "regret", "algorithm", title, facet="panel", logarithmic=False)


def at_most(tables: PrintedTables, title: str, limit: float, row: Mapping[str, str]) -> Answer:
    """Whether the regret relative to uniform pairs is at most the limit, in per cent."""
    cell = tables.cell(title, f"of uniform after {GOAL_IMPRESSIONS:,}", **row)
    return cell, number_in(cell) <= limit


def ends_at(tables: PrintedTables, title: str, column: str, algorithm: str, min_share: float) -> Answer:
    """Whether at least this share of repeats ends at this ranker, with choices for each impression and for epochs."""
    cells = [tables.cell(title, column, algorithm=algorithm, choice=choice) for choice in (EACH, EPOCHS)]
    shares = [number_in(cell) / number_in(cell.partition(" of ")[2]) for cell in cells]
    text = "; ".join(f"{cell} ({choice})" for cell, choice in zip(cells, (EACH, EPOCHS), strict=True))
    return text, min(shares) >= min_share


FINDINGS = (
    *(
        Finding(f"{algorithm}, {people}: {EPOCHS}", _GOAL, at_most, (_FEW, 35, row))
        for algorithm, people in product(ADAPTIVE[:3], PEOPLE)
        for row in ({"people": people, "choice": EPOCHS, "algorithm": algorithm},)
    ),
    *(
        Finding(f"{algorithm}, {people}: {EPOCHS}, ties {NOT_COUNTED}", _GOAL, at_most, ("How ties count", 35, row))
        for algorithm, people in product(ADAPTIVE[:2], PEOPLE)
        for row in ({"people": people, "algorithm": algorithm, "ties": NOT_COUNTED},)
    ),
    Finding(
        f"double_thompson, {OPPOSED}",
        "W16: ends at the Condorcet winner (9 of 10 repeats)",
        ends_at,
        (_OPPOSED, "ends at the winner", "double_thompson", 0.9),
    ),
    Finding(
        f"self_sparring, {OPPOSED}",
        "expected: mostly ends at the Borda winner (half of the repeats)",
        ends_at,
        (_OPPOSED, "at another Borda winner", "self_sparring", 0.5),
    ),
    Finding(
        f"double_thompson, {CYCLE}",
        "W16: ends at a Copeland winner (9 of 10 repeats)",
        ends_at,
        (_CYCLE, "ends at the winner", "double_thompson", 0.9),
    ),
)


def _notes(size: BanditScale, queries: int) -> list[str]:
    return [
        f"Rankers are single features that vary; each repeat with {RANKERS} rankers draws its own, of which one beats "
        f"all others. A comparison shows a query by the default method with two rankers; each of {queries:,} queries "
        f"was shown {size.comparisons:,} times for each pair, and the shares are the world. {EPOCHS}: the wins of an "
        f"epoch count after its end, and {DRAWS} pairs drawn from the wins at its start share it equally.",
        "Regret of an impression: the mean gap of its two rankers. The gap of a ranker is the probability that the "
        "Condorcet winner is preferred to it (a tie counts half) minus 1/2; without a Condorcet winner, how many of "
        "the others it beats less than a Copeland winner, as a share.",
        "A run ends at the ranker that has the most places in the last tenth of its impressions. The winner is the "
        "Condorcet winner, or one of the Copeland winners; winner's places: the share that winners have of these "
        f"places. A tie counts as {COIN} if nothing else is said. merge_dts has the settings of the experiments of "
        "L20, merge_dts_proven those for which L20 proves its regret.",
    ]
