"""C12 on simulated traffic with a known truth: do interleaving, absolute metrics and judges agree, with how much data?

For every pair of rankers of known order, people are split into three buckets: each ranker's own lists, and interleaved
lists (`chapelle2012_buckets`). The tables answer C12's questions (`chapelle2012_tables`): do interleaving and absolute
metrics agree with judges, which scheme is the most sensitive, how much data does each preference need, and how many
clicks is a judgment worth?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from interleaf.clicks import Cascade
from interleaf.simulate.data import Judged
from interleaf.simulate.people import People
from interleaf.simulate.rankers import generator_of
from interleaf.studies import chapelle2012_tables as c12
from interleaf.studies.chapelle2012_buckets import CHANGED, ENGINES, K, PairTraffic, judge, rankers_of, traffic_of
from interleaf.studies.datasets import find
from interleaf.studies.study import (
    Answer,
    Finding,
    MissingNumberError,
    PrintedTables,
    Study,
    StudyRun,
    Table,
    number_in,
)

NAME, TITLE = "chapelle2012", "Chapelle, Joachims, Radlinski and Yue (2012): interleaving, absolute metrics and judges"
QUERIES = 2000  # judged queries, as many as at Yahoo
CLICK, STOP = (0.05, 0.4), (0.15, 0.4)  # from the lowest grade to the best, at every result

TablesAndCharts = tuple[list[Table], dict[str, Any]]
_LITTLE = "the forms differ by little, here and in C12"
_BALANCED = ("Table XI", "balanced interleaving", "normalized")
_DRAFT = ("Table XII", "team draft", "binary_deduped")


@dataclass(frozen=True)
class ChapelleScale:
    """Number of people for each pair by engine, of resamples, and of subsamples of Algorithm 4."""

    units: dict[str, int]
    repeats: int
    subsamples: int = 100


SCALES = {
    "quick": ChapelleScale({"arXiv": 6_000, "Yahoo": 20_000}, 1_000),
    "paper": ChapelleScale({"arXiv": 60_000, "Yahoo": 300_000}, 10_000),
}


def beats_binary(tables: PrintedTables, table: str, method: str, scheme: str, engine: str) -> Answer:
    """Tables XI and XII: whether a scheme's median z-score is above that of binary."""
    title = f"{table}: z-score over that of binary, {method}, pairs like {engine}'s"
    middle = tables.number(title, "median", scheme=scheme, whose="ours")
    return f"median {middle:.2f}", middle > 1


def all_right(tables: PrintedTables, title: str) -> Answer:
    """Whether balanced interleaving is right, and significant, on all six pairs."""
    weak = tables.cell(title, "ours: weak", metric="Balanced interleaving")
    sure = tables.cell(title, "ours: significant", metric="Balanced interleaving")
    return f"{weak}, {sure} sure", weak == sure == "6 / 0"


def no_metric_is_as_good(tables: PrintedTables) -> Answer:
    """Table IX: whether no absolute metric is right on all pairs, significantly."""
    rows = [row for row in tables.rows("Table IX:") if row["metric"] not in c12.TITLES.values()]
    good = [row["metric"] for row in rows if row["ours: significant"] == "6 / 0"]
    return ", ".join(good) or "none is", not good


def same_signs(tables: PrintedTables) -> Answer:
    """Figures 2 and 3: pairs on which interleaving and judges agree."""
    signs = [row["same sign"] for row in tables.rows("Table III:") if row["judged by"] == "NDCG@5"]
    return ", ".join(signs), all(text == "6 of 6" for text in signs)


def transitive(tables: PrintedTables) -> Answer:
    """Table IV."""
    rows = tables.rows("Table IV:")
    holds = sum(row["AC at least AB and BC"] == "yes" for row in rows)
    return f"in {holds} of {len(rows)} triples", holds == len(rows)


def data_ratios(tables: PrintedTables) -> Answer:
    """Table X: whether each ratio that could be computed is on the published side of 1."""
    rows = tables.rows("Table X: data ratio of Clicks@1 to interleaving, pairs like Yahoo's")
    ratios = [row for row in rows if row["balanced n'/n''"] != "-"]
    if not ratios:
        raise MissingNumberError("Clicks@1 is no better than a coin on every pair")
    sides = [(number_in(row["balanced n'/n''"]) > 1) == (number_in(row["published n'/n''"]) > 1) for row in ratios]
    text = f"{sum(sides)} on the same side of 1, {len(sides) - sum(sides)} not"
    return f"{text}, {len(rows) - len(ratios)} without a ratio", all(sides)


def judgment_value(tables: PrintedTables) -> Answer:
    """Figure 7: clicked queries that are worth a judged one, in the median over pairs."""
    rows = [row for row in tables.rows("Figure 7:") if row["judged by"] == "NDCG@5" and row["balanced, binary"] != "-"]
    middle = median(number_in(row["balanced, binary"]) for row in rows)
    return f"median {middle:.1f} over {len(rows)} pairs", 5 <= middle <= 20


FINDINGS = (
    Finding(
        "balanced interleaving is right on all pairs like arXiv's", "6 / 0, 6 / 0 sure", all_right, ("Table VII:",)
    ),
    Finding("and on all pairs like Yahoo's", "6 / 0, 6 / 0 sure", all_right, ("Table IX:",)),
    Finding("no absolute metric is right on all six, significantly", "none is", no_metric_is_as_good),
    Finding("interleaving and judges agree in sign", "all pairs", same_signs),
    Finding("preferences are strongly transitive", "all triples", transitive),
    Finding("the data ratio of Clicks@1 to interleaving", "five of six above 1: .69 to 379", data_ratios),
    Finding("a judged query is worth about ten clicked ones", "about 10", judgment_value),
    Finding("balanced, arXiv: normalized beats binary", "median 1.10", beats_binary, (*_BALANCED, "arXiv"), _LITTLE),
    Finding("balanced, Yahoo: normalized beats binary", "median 1.02", beats_binary, (*_BALANCED, "Yahoo"), _LITTLE),
    Finding("team draft, arXiv: deduped beats plain", "median 1.21", beats_binary, (*_DRAFT, "arXiv")),
    Finding("team draft, Yahoo: deduped beats plain", "median 1.55 (Bing)", beats_binary, (*_DRAFT, "Yahoo")),
    Finding("the logs of arXiv, Bing and Yahoo themselves", "all tables", None, why="the logs are not public"),
)


def study(task: StudyRun) -> Study:
    """Run the study with simulated people, on a learning-to-rank set or on synthetic queries."""
    size, seed, folds = SCALES[task.scale], task.seed, find(task.folder, task.seed, QUERIES)
    data, generator = replace(folds.whole, name=folds.name), generator_of((NAME, seed))
    rankers = rankers_of(data, seed)
    judged = judge(data, rankers)

    def simulate(engine: str, pair: tuple[str, str]) -> PairTraffic:
        return traffic_of(data, rankers, pair, people(data, size.units[engine]), seed)

    cells = [(engine, pair) for engine, pairs in ENGINES.items() for pair in pairs]
    task.total = len(cells)
    results = dict(zip(cells, task.compute(cells, simulate, parallel=True), strict=True))
    traffics = {engine: [results[engine, pair] for pair in pairs] for engine, pairs in ENGINES.items()}
    parts = [_of_engine(engine, some, judged, generator, size) for engine, some in traffics.items()]
    parts.append(_of_all(traffics, judged, generator, size))
    tables = [table for part, _ in parts for table in part]
    charts = {name: chart for _, part in parts for name, chart in part.items()}
    return Study(NAME, TITLE, folds.describe(data), task.scale, tuple(tables), charts, _notes(data, traffics, size))


def people(data: Judged, units: int) -> People:
    """Users with constant tastes and heavy-tailed visits, who may stop after any result, and often do not click."""
    shares = np.linspace(0, 1, data.max_grade + 1)
    click, stop = ((low + (high - low) * shares).round(6).tolist() for low, high in (CLICK, STOP))
    return People(units=units, clicks=Cascade(click, stop, stop_needs_click=False))


def _of_engine(
    engine: str,
    traffics: Sequence[PairTraffic],
    judged: c12.ByMetric,
    generator: np.random.Generator,
    size: ChapelleScale,
) -> TablesAndCharts:
    """The tables for the pairs of one engine."""
    signals = c12.signals_of(engine, traffics)
    curves = {str(traffic): c12.curves(traffic, generator, size.repeats) for traffic in traffics}
    tables = [
        c12.signal_table(engine, traffics, signals, judged),
        c12.difference_table(engine, traffics, signals, judged["DCG@5"]),
        c12.verdict_table(engine, signals),
        c12.consistency_table(engine, curves),
        c12.ratio_table(engine, traffics, generator, size.repeats),
        *[c12.scheme_table(engine, method, traffics) for method in c12.TITLES],
    ]
    return tables, {f"{engine}-consistency".lower(): c12.consistency_chart(engine, curves)}


def _of_all(
    traffics: c12.ByEngine, judged: c12.ByMetric, generator: np.random.Generator, size: ChapelleScale
) -> TablesAndCharts:
    """The tables for all pairs, or for a single pair."""
    every = {traffic.pair: traffic for some in traffics.values() for traffic in some}
    windows = c12.window_shares(every[c12.FOLLOWED], generator, size.subsamples)
    values = c12.click_values(list(every.values()), judged, generator, size.repeats)
    tables = [
        c12.agreement_table(traffics, judged, generator, size.repeats),
        c12.transitivity_table(traffics),
        c12.window_table(windows),
        c12.value_table(values),
        c12.session_table(traffics["Yahoo"]),
    ]
    return tables, {"windows": c12.window_chart(windows), "clicks": c12.value_chart("Yahoo", values)}


def _notes(data: Judged, traffics: c12.ByEngine, size: ChapelleScale) -> list[str]:
    every = [traffic for some in traffics.values() for traffic in some]
    buckets = [len(pages) for one in every for pages in (one.better, one.worse)]
    clicked = np.mean([one.better.any_click.mean() for one in every])
    model = people(data, 1).cascade(data.max_grade + 1)
    shares = ", ".join(f"{name} {share:.0%}" for name, share in CHANGED.items())
    return [
        f"{len(data):,} judged queries, k = {K}; {min(buckets):,} to {max(buckets):,} queries a bucket, of which "
        f"{clicked:.0%} get a click; {size.repeats:,} resamples. People click by grade with {model.click} and stop, at "
        f"every result, with {model.stop}. Queries in which rankers like Yahoo's have two documents swapped: {shares}.",
        "Marks of significance are clustered by user: differences of metrics by the jackknife over users, Delta too. "
        "Judged metrics through ir-measures: gain 2^grade - 1; MAP of ranks 1 to 10, the upper two grades relevant.",
        "Relative differences divide by the worse ranker's value, as C12's Table VI does. n' and n'' count queries "
        f"with and without a click, n' in each of two buckets; where Clicks@1 is surer than {c12.SURE}, n' is "
        "halved. For the value of a click, only queries with one are counted.",
    ]
