"""C12 on simulated traffic of known truth: do interleaving, absolute metrics and judges agree, and what does each take?

Two kinds of rankers whose order is known (`chapelle2012_rankers`), and for every pair of them people in three buckets:
each ranker's own lists, and interleaved ones (`chapelle2012_traffic`). Then C12's questions: does interleaving agree
with judges (`chapelle2012_signals`), do absolute metrics (`chapelle2012_metrics`), how much data does each take and
what is a click worth (`chapelle2012_sensitivity`), and which scheme is the most sensitive (`chapelle2012_schemes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from interleaf.clicks import Cascade
from interleaf.simulate.data import Judged
from interleaf.simulate.people import People
from interleaf.simulate.rankers import generator_of
from interleaf.studies import chapelle2012_sensitivity as sensitivity
from interleaf.studies import chapelle2012_tables as metrics
from interleaf.studies import chapelle2012_tables as schemes
from interleaf.studies import chapelle2012_tables as signals
from interleaf.studies.chapelle2012_buckets import (
    CHANGED,
    KINDS,
    METHODS,
    K,
    Kind,
    Traffic,
    judge,
    rankers_of,
    traffic_of,
)
from interleaf.studies.datasets import find
from interleaf.studies.findings import (
    Finding,
    above_one,
    data_ratios,
    judged_worth,
    no_metric_is_as_good,
    same_signs,
    transitive,
    verdicts,
)
from interleaf.studies.hofmann2011_pairs import in_threads
from interleaf.studies.study import NO_CELLS, Cells, Progress, Study, Table

NAME, TITLE = "chapelle2012", "Chapelle, Joachims, Radlinski and Yue (2012): interleaving, absolute metrics and judges"
QUERIES = 2000  # judged ones, as many as at Yahoo
CLICK, STOP = (0.05, 0.4), (0.15, 0.4)  # from the lowest grade to the best, at every result

Made = tuple[list[Table], dict[str, Any]]


@dataclass(frozen=True)
class Scale:
    """How much is run: people in front of each pair by kind, resamples, and subsamples of Algorithm 4."""

    units: dict[str, int]
    repeats: int
    subsamples: int = 100


SCALES = {
    "quick": Scale({"arXiv": 6_000, "Yahoo": 20_000}, 1_000),
    "paper": Scale({"arXiv": 60_000, "Yahoo": 300_000}, 10_000),
}

_BALANCED = "Table XI: z-score over that of binary, balanced interleaving, pairs like {}'s"
_DRAFT = "Table XII: z-score over that of binary, team draft, pairs like {}'s"
_LITTLE = "the forms differ by little, here and in C12"
FINDINGS = (
    Finding("balanced interleaving is right on all pairs like arXiv's", "6 / 0, 6 / 0 sure", verdicts("Table VII:")),
    Finding("and on all pairs like Yahoo's", "6 / 0, 6 / 0 sure", verdicts("Table IX:")),
    Finding("no absolute metric is right on all six, significantly", "none is", no_metric_is_as_good),
    Finding("interleaving and judges agree in sign", "all pairs", same_signs),
    Finding("preferences are strongly transitive", "all triples", transitive),
    Finding("the data ratio of Clicks@1 to interleaving", "five of six above 1: .69 to 379", data_ratios),
    Finding("a judged query is worth about ten clicked ones", "about 10", judged_worth),
    Finding(
        "balanced, arXiv: normalized beats binary", "median 1.10",
        above_one(_BALANCED.format("arXiv"), "normalized"), _LITTLE,
    ),
    Finding(
        "balanced, Yahoo: normalized beats binary", "median 1.02",
        above_one(_BALANCED.format("Yahoo"), "normalized"), _LITTLE,
    ),
    Finding(
        "team draft, arXiv: deduped beats plain", "median 1.21", above_one(_DRAFT.format("arXiv"), "binary_deduped")
    ),
    Finding(
        "team draft, Yahoo: deduped beats plain", "median 1.55 (Bing)",
        above_one(_DRAFT.format("Yahoo"), "binary_deduped"),
    ),
    Finding("the logs of arXiv, Bing and Yahoo themselves", "all tables", None, "the logs are not public"),
)  # fmt: skip


def study(
    folder: Path | None, scale: str, seed: int = 1, progress: Progress | None = None, kept: Cells = NO_CELLS
) -> Study:
    """Run the study on people in front of a set, or of synthetic queries."""
    size, folds = SCALES[scale], find(folder, seed, QUERIES)
    data, generator = replace(folds.whole, name=folds.name), generator_of((NAME, seed))
    rankers = rankers_of(data, seed)
    judged = judge(data, rankers)
    kinds = _traffic(data, rankers, size, seed, progress, kept)
    parts = [_of_a_kind(kind, traffics, judged, generator, size) for kind, traffics in kinds]
    parts.append(_of_all(kinds, judged, generator, size))
    tables = [table for part, _ in parts for table in part]
    charts = {name: chart for _, part in parts for name, chart in part.items()}
    described = f"{folds.described}: {data!r}" if folder else folds.described
    return Study(NAME, TITLE, described, scale, tuple(tables), charts, _notes(data, kinds, size))


def people(data: Judged, units: int) -> People:
    """Users with lasting tastes and heavy-tailed visits, who may stop after any result, and often leave unclicked."""
    shares = np.linspace(0, 1, data.max_grade + 1)
    click, stop = ((low + (high - low) * shares).round(6).tolist() for low, high in (CLICK, STOP))
    return People(units=units, clicks=Cascade(click, stop, stop_needs_click=False))


def _traffic(
    data: Judged, rankers: Any, size: Scale, seed: int, progress: Progress | None, kept: Cells
) -> signals.Kinds:
    todo = [(kind, pair) for kind in KINDS for pair in kind.pairs]
    found = in_threads(
        lambda one: kept.keep(
            one[1], lambda: traffic_of(data, rankers, one[1], people(data, size.units[one[0].engine]), seed)
        ),
        todo,
        lambda done: progress(done, len(todo)) if progress else None,
    )
    return [(kind, [one for (own, _), one in zip(todo, found, strict=True) if own is kind]) for kind in KINDS]


def _of_a_kind(
    kind: Kind, traffics: Sequence[Traffic], judged: signals.ByMetric, generator: np.random.Generator, size: Scale
) -> Made:
    """The questions that are asked of each kind of rankers."""
    compared = metrics.compared(kind, traffics)
    curves = {str(traffic): sensitivity.curves(traffic, generator, size.repeats) for traffic in traffics}
    tables = [
        signals.signal_table(kind, traffics, judged),
        metrics.difference_table(kind, traffics, compared, judged["DCG@5"]),
        metrics.verdict_table(kind, traffics, compared),
        sensitivity.consistency_table(kind, curves),
        sensitivity.ratio_table(kind, traffics, generator, size.repeats),
        *[schemes.scheme_table(kind, method, traffics) for method in METHODS],
    ]
    return tables, {f"{kind.engine}-consistency".lower(): sensitivity.consistency_chart(kind, curves)}


def _of_all(kinds: signals.Kinds, judged: signals.ByMetric, generator: np.random.Generator, size: Scale) -> Made:
    """The questions that are asked of all pairs, or of one."""
    every = {traffic.pair: traffic for _, traffics in kinds for traffic in traffics}
    windows = sensitivity.window_shares(every[sensitivity.FOLLOWED], generator, size.subsamples)
    values = sensitivity.click_values(list(every.values()), judged, generator, size.repeats)
    tables = [
        signals.agreement_table(kinds, judged, generator, size.repeats),
        signals.transitivity_table(kinds),
        sensitivity.window_table(windows),
        sensitivity.value_table(values),
        schemes.session_table(kinds[1][1]),
    ]
    return tables, {
        "windows": sensitivity.window_chart(windows),
        "clicks": sensitivity.value_chart(kinds[1][0], values),
    }


def _notes(data: Judged, kinds: signals.Kinds, size: Scale) -> list[str]:
    buckets = [len(pages) for _, some in kinds for one in some for pages in (one.better, one.worse)]
    clicked = np.mean([one.better.any_click.mean() for _, some in kinds for one in some])
    model = people(data, 1).cascade(data.max_grade + 1)
    shares = ", ".join(f"{name} {share:.0%}" for name, share in CHANGED.items())
    return [
        f"{len(data):,} judged queries, k = {K}; {min(buckets):,} to {max(buckets):,} queries a bucket, of which "
        f"{clicked:.0%} get a click; {size.repeats:,} resamples. People click by grade with {model.click} and stop, at "
        f"every result, with {model.stop}. Queries in which rankers like Yahoo's have two documents swapped: {shares}.",
        "Marks of significance are clustered by user: differences of metrics by the jackknife over users, Delta too. "
        "Judged metrics through ir-measures: gain 2^grade - 1; MAP of ranks 1 to 10, the upper two grades relevant.",
        "Relative differences divide by the worse ranker's value, as C12's Table VI does. n' and n'' count queries "
        f"with and without a click, n' in each of two buckets; where Clicks@1 is surer than {sensitivity.SURE}, n' is "
        "halved. For the value of a click, only queries with one are counted.",
    ]
