"""C12, Figures 4 to 7 and Table X: how much data a preference takes, by absolute metrics, interleaving and judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from interleaf import plots
from interleaf.kernels.arrays import Array
from interleaf.metrics.absolute import METRICS, Metric, Pages
from interleaf.stats.consistency import (
    Curve,
    Equivalent,
    Timed,
    Window,
    bucket_consistency,
    bucket_windows,
    consistency,
    equivalents,
    windows,
)
from interleaf.studies import chapelle2012_buckets as published
from interleaf.studies.chapelle2012_buckets import METHODS, EnginePairs, PairTraffic
from interleaf.studies.chapelle2012_tables import TITLES
from interleaf.studies.study import Cell, Table

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of the data
OF_SESSIONS = ("reformulation", "session_queries")
RATIO_METRIC = "clicks_at_1"
SURE = 0.99  # above, a thousand resamples hardly tell how sure
FOLLOWED = ("D_Y", "B_Y")  # the pair of Algorithm 4
HOURS = (1, 2, 4, 8, 16, 32, 64, 128)
SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000)  # of samples of judged queries
JUDGED_BY = ("NDCG@5", "MAP")
DRAWN = ("team_draft", "binary_deduped")
SCORED_BY = (("team_draft", "binary"), DRAWN, ("balanced", "binary"))


class JudgmentValue(NamedTuple):
    """What judged queries of a pair are worth in clicked ones."""

    metric: str
    pair: str
    scored_by: str
    points: Sequence[Equivalent]

    @property
    def median(self) -> float | None:
        """Clicked queries a judged one."""
        ratios = [point.needed / point.size for point in self.points if point.needed is not None]
        return median(ratios) if ratios else None


def larger_is_better(metric: Metric, pages: Pages) -> Array:
    """The values of a metric, negated where smaller ones are better."""
    values = metric.values(pages)
    return -values if metric.rises else values


def curves(traffic: PairTraffic, generator: np.random.Generator, repeats: int) -> dict[str, Curve]:
    """Algorithm 3 for every metric and both interleaving methods, by queries of a bucket, clicked or not."""
    by_name = {}
    for metric in METRICS.values():
        better, worse = (larger_is_better(metric, pages) for pages in (traffic.better, traffic.worse))
        sizes = _sizes(min(len(better), len(worse)))
        by_name[metric.title] = bucket_consistency(better, worse, sizes, generator, repeats, metric.statistic)
    for method in METHODS:
        scores = traffic.interleaved[method].binary
        by_name[TITLES[method]] = consistency(scores, _sizes(len(scores)), generator, repeats)
    return by_name


def _sizes(queries: int) -> list[int]:
    return [max(1, round(share * queries)) for share in SHARES]


def consistency_table(kind: EnginePairs, results: Mapping[str, Mapping[str, Curve]]) -> Table:
    """Figures 4 and 5 in one number a line: P(wrong) with a tenth of the data."""
    at = SHARES.index(0.1)
    rows = [
        (name, *[f"{1 - by_name[name].probability[at]:.3f}" for by_name in results.values()])
        for name in next(iter(results.values()))
    ]
    title = f"Probability that a tenth of the data prefers the worse ranker (Algorithm 3), pairs like {kind.engine}'s"
    return Table(f"{kind.engine}-consistency".lower(), title, ("preference by", *results), tuple(rows))


def consistency_chart(kind: EnginePairs, results: Mapping[str, Mapping[str, Curve]]) -> dict[str, Any]:
    """Figures 4 and 5: a panel a pair, without the metrics over sessions, as in Figure 5: ten colours are enough."""
    names = [*TITLES.values(), *[row.title for row in METRICS.values() if row.name not in OF_SESSIONS]]
    rows = [
        {"queries of a bucket": size, "P(wrong)": 1 - right, "preference by": name, "pair": pair}
        for pair, by_name in results.items()
        for name in names
        for size, right in zip(by_name[name].sizes, by_name[name].probability, strict=True)
    ]
    title = f"How often so many queries prefer the worse ranker, pairs like {kind.engine}'s"
    return plots.lines(rows, "queries of a bucket", "P(wrong)", "preference by", title, facet="pair")


def ratio_table(
    kind: EnginePairs, traffics: Sequence[PairTraffic], generator: np.random.Generator, repeats: int
) -> Table:
    """Table X: queries of each bucket that Clicks@1 needs, to those that interleaving needs to be as sure."""
    theirs = published.DATA_RATIOS if kind.engine == "Yahoo" else (None,) * len(traffics)
    rows: list[tuple[Cell, ...]] = []
    for traffic, printed in zip(traffics, theirs, strict=True):
        size, sure = usable(traffic, generator, repeats)
        cells, reasons = list[Cell](), []
        for method in METHODS:
            (one,) = equivalents([size], [sure], traffic.interleaved[method].binary, generator, repeats)
            cells += [one.needed, None if one.ratio is None else f"{one.ratio:.1f}"]
            reasons.append(one.reason)
        rows.append((str(traffic), size, f"{sure:.3f}", printed, *cells, next(filter(None, reasons), None)))
    columns = ("pair", "n' of each bucket", "P(right)", "published n'/n''")
    ours = [part for method in METHODS for part in (f"n'' of {method}", f"{method} n'/n''")]
    title = f"Table X: data ratio of {METRICS[RATIO_METRIC].title} to interleaving, pairs like {kind.engine}'s"
    return Table(f"{kind.engine}-ratios".lower(), title, (*columns, *ours, "why not"), tuple(rows))


def usable(traffic: PairTraffic, generator: np.random.Generator, repeats: int) -> tuple[int, float]:
    """C12's n', the smaller bucket, and how sure the metric is there; halved while that is nearly certain."""
    metric = METRICS[RATIO_METRIC]
    better, worse = (larger_is_better(metric, pages) for pages in (traffic.better, traffic.worse))
    size = min(len(better), len(worse))
    while True:
        (sure,) = bucket_consistency(better, worse, [size], generator, repeats, metric.statistic).probability
        if sure <= SURE or size == 1:
            return size, sure
        size //= 2


def window_shares(traffic: PairTraffic, generator: np.random.Generator, repeats: int) -> dict[str, list[Window]]:
    """Figure 6, by Algorithm 4: windows of so many hours, by interleaving and by Clicks@1."""
    metric, interleaved = METRICS[RATIO_METRIC], traffic.interleaved[METHODS[0]]
    timed = [Timed(pages.times, larger_is_better(metric, pages)) for pages in (traffic.better, traffic.worse)]
    times = np.concatenate([interleaved.pages.times, *[bucket.times for bucket in timed]])
    span, hour = (float(times.min()), float(times.max()) + 1), 3600.0
    hours = [length for length in HOURS if length <= (span[1] - span[0]) / hour]
    # To the rate of the interleaved bucket, or to that of a bucket that has fewer.
    thinned = min(len(interleaved.binary), *[len(bucket.times) for bucket in timed])
    return {
        TITLES[METHODS[0]]: windows(Timed(interleaved.pages.times, interleaved.binary), span, hour, hours),
        metric.title: bucket_windows(timed[0], timed[1], thinned, span, hour, hours, generator, repeats),
    }


def window_table(results: Mapping[str, Sequence[Window]]) -> Table:
    """Figure 6 as a table."""
    rows = [(name, *[_wrong(window) for window in some]) for name, some in results.items()]
    hours = [f"{window.steps} h" for window in next(iter(results.values()))]
    pair = " > ".join(FOLLOWED)
    title = f"Figure 6: share of windows of so many hours that prefer the worse ranker (Algorithm 4), {pair}"
    return Table("windows", title, ("preference by", *hours), tuple(rows))


def window_chart(results: Mapping[str, Sequence[Window]]) -> dict[str, Any]:
    """Figure 6."""
    rows = [
        {"hours": window.steps, "P(wrong)": window.wrong, "preference by": name}
        for name, some in results.items()
        for window in some
    ]
    title = f"Share of windows that prefer the worse ranker, {' > '.join(FOLLOWED)}"
    return plots.lines(rows, "hours", "P(wrong)", "preference by", title)


def _wrong(window: Window) -> str:
    return f"{window.wrong:.3f}" + (f" ({window.undecided:.2f} undecided)" if window.undecided >= 0.005 else "")


def click_values(
    traffics: Sequence[PairTraffic],
    judged: Mapping[str, Mapping[str, Array]],
    generator: np.random.Generator,
    repeats: int,
) -> list[JudgmentValue]:
    """Figure 7: how many clicked queries are as sure as so many judged ones, by metric, pair and scheme."""
    values = []
    for metric, traffic in ((metric, traffic) for metric in JUDGED_BY for traffic in traffics):
        better, worse = (judged[metric][ranker] for ranker in traffic.pair)
        curve = consistency(better - worse, [size for size in SIZES if size <= len(better)], generator, repeats)
        points = [(size, sure) for size, sure in zip(curve.sizes, curve.untied, strict=True) if (sure or 0) <= SURE]
        sizes, probabilities = [size for size, _ in points], [sure for _, sure in points]
        for method, scheme in SCORED_BY:
            scores = traffic.interleaved[method].scores(scheme)
            needed = equivalents(sizes, probabilities, scores, generator, repeats)
            values.append(JudgmentValue(metric, str(traffic), f"{method}, {scheme}", needed))
    return values


def value_table(values: Sequence[JudgmentValue]) -> Table:
    """Figure 7 in one number a line: clicked queries a judged one, in the median over the sizes."""
    rows: list[tuple[Cell, ...]] = []
    for metric, pair in dict.fromkeys((value.metric, value.pair) for value in values):
        medians = [value.median for value in values if (value.metric, value.pair) == (metric, pair)]
        printed = published.CLICKS_A_JUDGEMENT if metric == JUDGED_BY[0] else None
        rows.append((metric, pair, printed, *[None if middle is None else f"{middle:.1f}" for middle in medians]))
    columns = ("judged by", "pair", "published, about", *[f"{method}, {scheme}" for method, scheme in SCORED_BY])
    title = "Figure 7: clicked queries that are as sure as a judged one (median over numbers of judged queries)"
    return Table("clicks", title, columns, tuple(rows))


def value_chart(kind: EnginePairs, values: Sequence[JudgmentValue]) -> dict[str, Any]:
    """Figure 7: a panel a judged metric."""
    pairs = [" > ".join(pair) for pair in kind.pairs]
    rows = [
        {"judged queries": point.size, "clicked queries": point.needed, "pair": value.pair, "judged by": value.metric}
        for value in values
        if value.scored_by == ", ".join(DRAWN) and value.pair in pairs
        for point in value.points
        if point.needed is not None
    ]
    title = f"Judged queries, and clicked queries that are as sure ({', '.join(DRAWN)})"
    return plots.lines(rows, "judged queries", "clicked queries", "pair", title, facet="judged by", logarithmic=False)
