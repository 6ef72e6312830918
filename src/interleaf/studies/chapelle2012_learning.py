"""C12, section 10: is credit that was learned in other markets more sensitive than equal credit, and valid?

Markets are parts of a set of judged queries, each with its own people: how often they click at random, how long they
stay and how often they go back differ between markets. In every market some pairs of rankers of known order are
compared. Every market is scored by credit from the others (C12's Figures 8 and 9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf import plots
from interleaf.click_value import LearningResult, TrainingSums, credit_fitting, gather, learn
from interleaf.click_value.click_features import default_features
from interleaf.click_value.credit_fitting import EACH, GROUPS, POOLED, Fitting, Moments
from interleaf.click_value.learn import RESAMPLES, FeatureDifferences
from interleaf.clicks import Cascade
from interleaf.decode.scoring import Scoring
from interleaf.execution.options import LogOptions
from interleaf.execution.task import Task, process_batch
from interleaf.kernels.arrays import Array
from interleaf.kernels.buckets import buckets
from interleaf.simulate.data import Judged
from interleaf.simulate.people import People
from interleaf.simulate.rankers import generator_of
from interleaf.simulate.world import World
from interleaf.stats.compare import estimate
from interleaf.studies.chapelle2012_buckets import rankers_of
from interleaf.studies.datasets import find
from interleaf.studies.study import Answer, Cell, Finding, PrintedTables, Study, StudyRun, Table, number_in

NAME, TITLE = "chapelle2012-learning", "Chapelle, Joachims, Radlinski and Yue (2012), section 10: learned click credit"
PAIRS = (("E_A", "D_A"), ("D_Y", "A_Y"), ("E_A", "B_A"), ("C_Y", "A_Y"), ("D_A", "C_A"))
K, QUERIES, FOLDS, RIDGE = 10, 300, 16, 0.01
CLICK = "click"
# Lists, credit, C12's data: number of experiments, those with a larger z-score, with another sign; median ratio.
SETTINGS = (
    ("team_draft", "normalized_deduped", "arXiv", (12, 10, 0, 1.37)),
    ("balanced", "normalized", "Yahoo", (71, 48, 4, 1.09)),
    ("balanced", "normalized_direct", "Yahoo", (71, 47, 7, 1.25)),
)
WAYS = (("as published", POOLED, 0.0), ("ridge", POOLED, None), ("ridge, each an example", EACH, None))
_NEW_WORLDS = "simulated people are more alike than real ones"
_CLEARER = "learned credit decides most experiments more clearly"
_SUMMARY, _GAINS = "Figures 8 and 9", (1.37, 1.09, 1.25)


@dataclass(frozen=True)
class LearningScale:
    """Number of markets, of experiments in all of them, of people in each experiment, and of relabelled experiments."""

    markets: int
    experiments: int
    units: int
    relabelled: int


SCALES = {"quick": LearningScale(4, 12, 3_000, 1_000), "paper": LearningScale(16, 71, 30_000, 4_000)}


def clearer(tables: PrintedTables, credit: str) -> Answer:
    """Whether most experiments have a larger z-score by credit that was learned in other markets."""
    cell = tables.cell(_SUMMARY, "more clearly", credit=credit, whose=WAYS[0][0])
    better, _, number = cell.partition(" of ")
    return cell, int(better) > int(number) / 2


def median_gains(tables: PrintedTables) -> Answer:
    """Whether the median gains differ from the published ones by at most 0.1."""
    gains = [number_in(row["median relative z"]) for row in tables.rows(_SUMMARY) if row["whose"] == WAYS[0][0]]
    holds = all(abs(ours - theirs) <= 0.1 for ours, theirs in zip(gains, _GAINS, strict=True))
    return ", ".join(f"{gain:.2f}" for gain in gains), holds


FINDINGS = (
    Finding(f"team draft: {_CLEARER}", "10 of 12 (arXiv)", clearer, ("normalized_deduped",)),
    Finding(f"balanced: {_CLEARER}", "48 of 71 (Yahoo)", clearer, ("normalized",)),
    Finding(f"balanced, direct: {_CLEARER}", "47 of 71 (Yahoo)", clearer, ("normalized_direct",)),
    Finding("the gains: median relative z", "1.37, 1.09, 1.25", median_gains, why=_NEW_WORLDS),
    Finding("the logs of arXiv and Yahoo", "figures 8 and 9", None, why="the logs are not public"),
)


def study(task: StudyRun) -> Study:
    """Run the study with simulated people, on a learning-to-rank set or on synthetic queries."""
    size, seed = SCALES[task.scale], task.seed
    folds = find(task.folder, seed, QUERIES * size.markets)
    every = experiments(folds.whole, size, seed)
    better, markets = {one.name: one.pair[0] for one in every}, {one.name: one.name.split("/")[0] for one in every}
    task.total = len(SETTINGS) * len(every)
    rows: list[tuple[Cell, ...]] = []
    lessons = {}
    for number, (method, scheme, engine, published) in enumerate(SETTINGS):
        training = gather_all(task, every, method, scheme, size.units)
        rows.append((method, scheme, engine, *_count(*published)))
        for way, examples, ridge in WAYS:
            samples = RESAMPLES if (number, way) == (0, WAYS[1][0]) else 1
            lesson = learn(training, better, ridge=ridge, examples=examples, groups=markets, folds=0, resamples=samples)
            lessons[scheme, way] = lesson
            turned = sum(value < 0 for value in lesson.relative)
            counts = _count(len(lesson.relative), lesson.better, turned, lesson.median_relative)
            rows.append((method, scheme, way, *counts))
    shown = lessons[SETTINGS[0][1], WAYS[1][0]]
    users = users_of(every[0].world(SETTINGS[0][0], size.units, 1000 * seed), SETTINGS[0][1])
    honest = honesty(users, size.relabelled, seed)
    columns = ("lists", "credit", "whose", "more clearly", "the other way", "median relative z", "data it takes")
    title = f"{_SUMMARY}: experiments of one market by credit learned in the others, against equal credit"
    summary = Table("summary", title, columns, tuple(rows))
    tables = (summary, shown.held_out_table(), shown.worth_table(), honest)
    charts = {"relative": _chart(lessons), "worth": shown.charts()["worth"]}
    return Study(NAME, TITLE, folds.described, task.scale, tables, charts, _notes(size, shown))


@dataclass(frozen=True, eq=False)
class MarketExperiment:
    """A pair of rankers in a market, the better one first."""

    market: int
    pair: tuple[str, str]
    data: Judged
    rankers: Mapping[str, Array]

    @property
    def name(self) -> str:
        """The market, and the pair."""
        return f"market {self.market + 1}/{' > '.join(self.pair)}"

    def world(self, method: str, units: int, seed: int) -> World:
        """The simulated world of the experiment; every experiment has other people."""
        both = {name: self.rankers[name] for name in self.pair}
        some = people(self.data, self.market, units)
        return World(self.data, both, some, method, K, seed, experiment=self.name)


def experiments(data: Judged, size: LearningScale, seed: int) -> list[MarketExperiment]:
    """The pairs of all markets: the first pair in each, then the second, until there are as many as wanted."""
    markets = [market for _, market in data.folds(size.markets, seed)]
    rankers = [rankers_of(market, seed + number) for number, market in enumerate(markets)]
    places = [(number % size.markets, PAIRS[number // size.markets]) for number in range(size.experiments)]
    return [MarketExperiment(market, pair, markets[market], rankers[market]) for market, pair in places]


def gather_all(task: StudyRun, every: Sequence[MarketExperiment], method: str, scheme: str, units: int) -> TrainingSums:
    """The sums of all experiments."""

    def gather_one(method: str, scheme: str, number: int) -> TrainingSums:
        world = every[number].world(method, units, 1000 * task.seed + number)
        return gather(pa.Table.from_batches(list(world.batches(threads=1))), options=LogOptions(scheme=scheme))

    cells = [(method, scheme, number) for number in range(len(every))]
    return reduce(TrainingSums.__add__, task.compute(cells, gather_one, parallel=True))


def people(data: Judged, market: int, units: int) -> People:
    """Users who often click a bad result first and stay longer at good ones; both effects differ by market."""
    generator = generator_of((NAME, market))
    lowest, shortest, longest = generator.uniform((0.15, 8, 60), (0.45, 20, 120))
    shares = np.linspace(0, 1, data.max_grade + 1)
    click, stop = lowest + (0.9 - lowest) * shares, 0.1 + 0.4 * shares
    model = Cascade(click.round(6).tolist(), stop.round(6).tolist())
    regressions = float(generator.uniform(0, 0.2))
    return People(units=units, clicks=model, dwell=(float(shortest), float(longest)), regressions=regressions)


def _count(number: int, better: int, turned: int, middle: float | None) -> tuple[Cell, ...]:
    gain = (None, None) if middle is None else (f"{middle:.2f}", f"{middle**-2:.2f}")
    return f"{better} of {number}", f"{turned} of {number}", *gain


def _chart(lessons: dict[tuple[str, str], LearningResult]) -> dict[str, Any]:
    """Figures 8 and 9, right: relative z-scores against the z-scores of equal credit."""
    x, y = "z-score a page by equal credit", "relative z-score of learned credit"
    rows = [
        {x: one.equal, y: one.relative, "credit": scheme}
        for (scheme, way), lesson in lessons.items()
        if way == WAYS[1][0]
        for one in lesson.held_out
        if one.relative is not None
    ]
    return plots.points(rows, x, y, "credit", level=1.0)


class Users(NamedTuple):
    """Users of one experiment: the sums of their pages, `[user, feature]`, their buckets, and the moments of all."""

    sums: Array
    buckets: Array
    moments: Moments


def users_of(world: World, scheme: str) -> Users:
    """The users of a world, with the sums that learning needs."""
    features = default_features([CLICK])
    task = Task(Scoring(scheme, credit=FeatureDifferences(features, (CLICK,))))
    units, pages = [], []
    for batch in world.batches(threads=1):
        for part in (outcome.part for outcome in process_batch(batch, task) if outcome.part is not None):
            assert part.scored is not None  # all lists are interleaved
            clicked = part.decoded.has_event
            units.append(part.decoded.unit[clicked])
            pages.append(part.scored.columns[clicked])
    names, places = np.unique(np.concatenate(units), return_inverse=True)
    values, moments = np.concatenate(pages), Moments.empty(len(features))
    moments.add(buckets(names[places]), values)
    sums = np.zeros((len(names), len(features)))
    np.add.at(sums, places, values)
    return Users(sums, buckets(names), moments)


def honesty(users: Users, repeats: int, seed: int) -> Table:
    """The rate of false positives at 5 %: a coin for each user exchanges the names of the rankers."""
    names = ("equal credit", "learned from the same users", "from all other users", "from users before")
    counts, generator = dict.fromkeys(names, 0), generator_of((NAME, "coins", seed))
    fitting = Fitting(np.arange(users.sums.shape[1]) > 0)
    groups = credit_fitting.group_of(users.buckets)
    for _ in range(repeats):
        sums = users.sums * generator.choice([-1.0, 1.0], len(users.sums))[:, None]
        moments = replace(users.moments, sums=np.zeros_like(users.moments.sums))
        np.add.at(moments.sums, groups, sums)
        for name, weights in zip(names, each_way(moments, fitting), strict=True):
            scores = np.bincount(groups, np.einsum("uf,uf->u", sums, weights[groups]), GROUPS)
            p_value = estimate(scores, moments.count).p_value
            counts[name] += p_value is not None and p_value < 0.05
    rows = tuple((name, f"{counts[name] / repeats:.1%}") for name in names)
    title = (
        f"Differences found at 5 % where there is none, of {repeats:,} experiments scored by credit learned from them"
    )
    return Table("honesty", title, ("credit", "found"), rows, right=("found",))


def each_way(moments: Moments, fitting: Fitting) -> Iterator[Array]:
    """Weights `[group, feature]`: equal; from all users; from all other folds; from earlier folds, as `learn` does."""
    folds = credit_fitting.fold_of(np.arange(GROUPS), FOLDS)
    equal = np.eye(len(fitting.penalized))[0]
    pair = credit_fitting.RankerPair(NAME, 1, "A", "B")
    examples = [credit_fitting.TrainingExample(pair, NAME, "A", "B", moments, True)]

    def of(times: Array | None) -> Array:
        weights, _, _ = credit_fitting.learn_weights(examples, fitting, RIDGE, times)
        return equal if weights is None else weights

    yield np.tile(equal, (GROUPS, 1))
    yield np.tile(of(None), (GROUPS, 1))
    yield np.array([of(folds != fold) for fold in range(FOLDS)])[folds]
    yield np.array(credit_fitting.fold_weights(examples, fitting, RIDGE, FOLDS))[folds]


def _notes(size: LearningScale, lesson: LearningResult) -> list[str]:
    pages = [one.pages for one in lesson.held_out]
    return [
        f"{size.markets} markets with {size.units:,} users each, {size.experiments} experiments of {min(pages):,} to "
        f"{max(pages):,} pages with a click, k = {K}. The better ranker is known by construction. Normalized scores; "
        "team draft leaves out the shared prefix. `the other way` counts all experiments, as C12 does.",
        "Relative z-scores are learned over equal credit, a page; data it takes is their inverse square. Ridges are "
        "cross-validated over the other markets, each feature in units of its own size, none on equal credit.",
        "For the last table, a coin for each user of the first experiment changes the rankers' names, and credit is "
        f"learned anew each time: ridge {RIDGE}, {FOLDS} folds.",
    ]
