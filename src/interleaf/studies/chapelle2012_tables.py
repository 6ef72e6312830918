"""C12's tables and charts: signals, absolute metrics, schemes, and how much data each preference needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from interleaf import plots
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import resolve
from interleaf.methods.schemes import FORMS
from interleaf.metrics.absolute import (
    METRICS as ABSOLUTE_METRICS,
    AbsoluteMetric,
    QueryPages,
    compare,
    sessions,
    totals,
)
from interleaf.stats import consistency as resampling
from interleaf.stats.bootstrap import percentiles
from interleaf.stats.compare import Estimate, estimate
from interleaf.stats.consistency import VerdictCounts, bootstrap_correlation, correlation, triples, verdicts, z_ratios
from interleaf.studies import chapelle2012_buckets as published
from interleaf.studies.chapelle2012_buckets import METHODS, METRICS, Impressions, PairTraffic
from interleaf.studies.study import Cell, Table

TITLES = {"balanced": "Balanced interleaving", "team_draft": "Team draft"}
LEVEL = 0.05
PER_USER = {"arXiv": True, "Yahoo": False}  # as C12 did

ByEngine = Mapping[str, Sequence[PairTraffic]]
ByMetric = Mapping[str, Mapping[str, Array]]
# By metric or interleaving method: of each pair a difference in per cent, and whether it is significant.
Signals = Mapping[str, Sequence[tuple[float | None, bool]]]
BASELINE, OVER_SESSIONS = "binary", "normalized_direct"
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of the data
OF_SESSIONS = ("reformulation", "session_queries")
RATIO_METRIC = "clicks_at_1"
SURE = 0.99  # a thousand resamples cannot measure a higher confidence
FOLLOWED = ("D_Y", "B_Y")  # the pair of Algorithm 4
HOURS = (1, 2, 4, 8, 16, 32, 64, 128)
SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000)  # of samples of judged queries
JUDGED_BY = ("NDCG@5", "MAP")
DRAWN = ("team_draft", "binary_deduped")
SCORED_BY = (("team_draft", "binary"), DRAWN, ("balanced", "binary"))


def preference(interleaved: Impressions) -> Estimate:
    """Twice Delta_AB: the mean binary score of impressions with a click, its error clustered by user."""
    pages = interleaved.pages
    _, users = np.unique(pages.units[pages.any_click], return_inverse=True)
    return estimate(np.bincount(users, interleaved.scores("binary")), np.bincount(users))


def is_significant(signal: Estimate) -> bool:
    """Whether the estimate differs significantly from 0."""
    return signal.p_value is not None and signal.p_value < LEVEL


def delta(signal: Estimate) -> float | None:
    """Delta_AB in per cent."""
    return None if signal.value is None else 50 * signal.value


def signals_of(engine: str, traffics: Sequence[PairTraffic]) -> Signals:
    """Relative differences of all absolute metrics, and Delta of both interleaving methods."""
    signals: dict[str, list[tuple[float | None, bool]]] = {}
    for name, metric in ABSOLUTE_METRICS.items():
        ones = [compare(metric, traffic.better, traffic.worse, PER_USER[engine]) for traffic in traffics]
        signals[name] = [(None if one.relative is None else 100 * one.relative, one.is_significant) for one in ones]
    for method in METHODS:
        preferences = [preference(traffic.interleaved[method]) for traffic in traffics]
        signals[method] = [(delta(one), is_significant(one)) for one in preferences]
    return signals


def with_mark(value: float | None, significant: bool) -> Cell:
    """A number in per cent, with a mark if it is significant."""
    return None if value is None else f"{value:.2f}" + "*" * significant


def two_digits(values: Iterable[float | None]) -> list[Cell]:
    """Numbers as cells."""
    return [None if value is None else f"{value:.2f}" for value in values]


def signal_table(engine: str, traffics: Sequence[PairTraffic], signals: Signals, judged: ByMetric) -> Table:
    """Table II, and the last row of Table VIII: Delta_AB in per cent, and the preference of judges."""
    ndcg = [f"{difference.mean():.4f}" for difference in _differences(judged["NDCG@5"], traffics)]
    rows: list[tuple[Cell, ...]] = [("NDCG@5, better less worse", "truth", *ndcg)]
    for method in METHODS:
        theirs = published.METRICS_OF[engine].get(method)
        if theirs:
            rows.append((TITLES[method], "published", *two_digits(theirs.differences)))
        rows.append((TITLES[method], "ours", *[with_mark(*signal) for signal in signals[method]]))
    number = "Table II" if engine == "arXiv" else "Table VIII, last row"
    title = f"{number}: Delta in per cent, pairs like {engine}'s (* significant at {LEVEL}, clustered by user)"
    return Table(f"{engine}-signals".lower(), title, ("signal", "whose", *map(str, traffics)), tuple(rows))


def _differences(by_ranker: Mapping[str, Array], traffics: Iterable[PairTraffic]) -> list[Array]:
    """The differences of each pair, by query."""
    return [by_ranker[better] - by_ranker[worse] for better, worse in (traffic.pair for traffic in traffics)]


def agreement_table(traffics_of: ByEngine, judged: ByMetric, generator: np.random.Generator, repeats: int) -> Table:
    """Table III, and the agreement of signs that Figures 2 and 3 show."""
    rows: list[tuple[Cell, ...]] = []
    for engine, traffics in traffics_of.items():
        for method in METHODS:
            scores = [traffic.interleaved[method].scores("binary") for traffic in traffics]
            signals = [preference(traffic.interleaved[method]) for traffic in traffics]
            for metric in METRICS:
                differences = _differences(judged[metric], traffics)
                ours = correlation([one.mean() for one in differences], [some.mean() for some in scores])
                resampled = bootstrap_correlation(np.stack(differences, axis=1), scores, generator, repeats)
                correlations = _find_published(engine, method, metric), _correlation(ours, resampled)
                rows.append((engine, TITLES[method], metric, *_agreement(differences, signals), *correlations))
    columns = ("pairs like", "interleaving", "judged by", "same sign", "where both are sure", "published", "ours")
    title = "Table III: agreement with judges over pairs; correlation, and mean and deviation of the bootstrapped one"
    return Table("agreement", title, columns, tuple(rows))


def _agreement(differences: Sequence[Array], signals: Sequence[Estimate]) -> tuple[str, str]:
    """Agreement of signs; judges are sure by C12's bootstrap, interleaving by an error clustered by user."""
    intervals = [percentiles(one, np.ones(len(one)), resamples=1000).interval or (0.0, 0.0) for one in differences]
    sure = [(low > 0 or high < 0) and is_significant(one) for (low, high), one in zip(intervals, signals, strict=True)]
    signs = [one.mean() * (signal.value or 0) for one, signal in zip(differences, signals, strict=True)]
    counts = verdicts(signs, sure)
    return f"{counts.right} of {len(signs)}", f"{counts.significantly_right} of {sum(sure)}"


def _find_published(engine: str, method: str, metric: str) -> Cell:
    """The published number; for pairs like Yahoo's, that of Bing if Yahoo has none."""
    for source in (engine, "Bing") if engine == "Yahoo" else (engine,):
        value, *resampled = published.CORRELATIONS.get((source, method, metric), (None,))
        if value is not None:
            return f"{_correlation(value, resampled)} ({source})"
    return None


def _correlation(value: float | None, resampled: Sequence[float] | None) -> Cell:
    if value is None:
        return None
    return f"{value:.3f}" + (f", {resampled[0]:.3f} +- {resampled[1]:.3f}" if resampled else "")


def transitivity_table(traffics_of: ByEngine) -> Table:
    """Table IV: strong stochastic transitivity."""
    rows: list[tuple[Cell, ...]] = []
    for engine, traffics in traffics_of.items():
        for method in METHODS:
            theirs = published.METRICS_OF[engine].get(method)
            printed = dict(zip(published.ENGINES[engine], theirs.differences, strict=True)) if theirs else {}
            ours = {traffic.pair: delta(preference(traffic.interleaved[method])) or 0.0 for traffic in traffics}
            for triple in triples(ours):
                a, b, c = triple.rankers
                theirs_of = [printed[step] for step in ((a, c), (a, b), (b, c)) if step in printed]
                steps = [", ".join(map(str, two_digits(values))) or None for values in (theirs_of, triple[1:])]
                holds = "yes" if triple.is_strong else "no"
                rows.append((TITLES[method], " > ".join(triple.rankers), *steps, holds))
    columns = ("interleaving", "A > B > C", "published", "ours", "AC at least AB and BC")
    return Table("transitivity", "Table IV: Delta of AC, AB and BC in per cent", columns, tuple(rows))


def difference_table(
    engine: str, traffics: Sequence[PairTraffic], signals: Signals, judged: Mapping[str, Array]
) -> Table:
    """Tables VI and VIII: relative differences, and their correlation with those of the judged DCG@5."""
    means = [[float(judged[ranker].mean()) for ranker in traffic.pair] for traffic in traffics]
    dcg = [100 * (better - worse) / worse for better, worse in means]
    rows: list[tuple[Cell, ...]] = []
    if engine == "Yahoo":
        rows.append(("DCG@5", "published", *two_digits(published.YAHOO_DCG), "1"))
    rows.append(("DCG@5", "ours", *two_digits(dcg), "1"))
    for name, by_pair in signals.items():
        title = f"{TITLES[name]}, Delta" if name in METHODS else ABSOLUTE_METRICS[name].title
        theirs = published.METRICS_OF[engine].get(name)
        if theirs and name not in METHODS:
            rows.append((title, "published", *two_digits(theirs.differences), theirs.correlation))
        ours = [with_mark(*signal) for signal in by_pair]
        pairs = [(value, other) for (value, _), other in zip(by_pair, dcg, strict=True) if value is not None]
        related = correlation(*map(np.array, zip(*pairs, strict=True))) if len(pairs) > 1 else None
        rows.append((title, "ours", *ours, *two_digits([related])))
    way = "averaged by user first" if PER_USER[engine] else "over queries"
    number = "VI" if engine == "arXiv" else "VIII"
    title = f"Table {number}: relative differences in per cent, positive as C12 expects, {way}, pairs like {engine}'s"
    columns = ("metric", "whose", *map(str, traffics), "correlation with DCG@5")
    return Table(f"{engine}-metrics".lower(), title, columns, tuple(rows))


def verdict_table(engine: str, signals: Signals) -> Table:
    """Tables VII and IX: how many pairs each metric gets right and wrong, weakly and significantly."""
    rows: list[tuple[Cell, ...]] = []
    for name, by_pair in signals.items():
        title = TITLES[name] if name in METHODS else ABSOLUTE_METRICS[name].title
        theirs = published.METRICS_OF[engine].get(name)
        counts = verdicts([value for value, _ in by_pair], [is_sure for _, is_sure in by_pair])
        rows.append((title, *_counts(theirs and theirs.verdicts), *_counts(counts)))
    number, pairs = "VII" if engine == "arXiv" else "IX", len(published.ENGINES[engine])
    columns = ("metric", "published: weak", "published: significant", "ours: weak", "ours: significant")
    title = f"Table {number}: of {pairs} pairs like {engine}'s, right and wrong preferences"
    return Table(f"{engine}-verdicts".lower(), title, columns, tuple(rows))


def _counts(counts: VerdictCounts | tuple[int, ...] | None) -> tuple[Cell, Cell]:
    return (None, None) if counts is None else (f"{counts[0]} / {counts[1]}", f"{counts[2]} / {counts[3]}")


def scheme_table(engine: str, method: str, traffics: Sequence[PairTraffic]) -> Table:
    """Tables XI and XII: z-scores over those of the binary scheme."""
    offered = [name for name in resolve(method).method.schemes if not name.endswith(("_list", "_place"))]  # not in C12
    schemes = sorted(offered, key=lambda scheme: scheme not in FORMS)
    by_pair = [
        z_ratios({scheme: traffic.interleaved[method].scores(scheme) for scheme in schemes}, BASELINE)
        for traffic in traffics
    ]
    theirs, of_bing = published.SCHEMES.get((engine, method)), published.SCHEMES.get(("Bing", method), {})
    rows: list[tuple[Cell, ...]] = []
    for scheme in schemes:
        if theirs is not None:
            row, middle = theirs[scheme]
            rows.append((scheme, "published", *two_digits([*row, middle])))
        else:  # Bing has other pairs, so only its median is printed
            rows.append((scheme, "Bing", *[None] * len(traffics), f"{of_bing[scheme][1]:.2f}"))
        rows.append((scheme, "ours", *_with_median([ratios[scheme] for ratios in by_pair])))
    number = "XI" if method == METHODS[0] else "XII"
    title = f"Table {number}: z-score over that of binary, {TITLES[method].lower()}, pairs like {engine}'s"
    columns = ("scheme", "whose", *map(str, traffics), "median")
    return Table(f"{engine}-{method.replace('_', '-')}-schemes".lower(), title, columns, tuple(rows))


def session_table(traffics: Sequence[PairTraffic]) -> Table:
    """Table XIII: clicks summed over sessions, by the largest time between two queries of a session."""
    rows: list[tuple[Cell, ...]] = []
    for timeout, (theirs, middle) in published.TIMEOUTS.items():
        ratios = []
        for interleaved in (traffic.interleaved[METHODS[0]] for traffic in traffics):
            scores = {BASELINE: interleaved.scores(BASELINE), OVER_SESSIONS: session_scores(interleaved, timeout)}
            ratios.append(z_ratios(scores, BASELINE)[OVER_SESSIONS])
        rows.append((timeout, "published", *two_digits([*theirs, middle])))
        rows.append((timeout, "ours", *_with_median(ratios)))
    columns = ("timeout, s", "whose", *map(str, traffics), "median")
    title = f"Table XIII: z-score of {OVER_SESSIONS} over sessions, over that of binary a query, balanced interleaving"
    return Table("sessions", title, columns, tuple(rows))


def session_scores(interleaved: Impressions, timeout: float) -> Array:
    """Normalised differences of clicks, summed over sessions with a click."""
    number = sessions(interleaved.pages.units, interleaved.pages.times, gap=timeout).number
    better, worse, either = totals(number, interleaved.credit(OVER_SESSIONS)).T
    clicked = either > 0
    return np.asarray((better[clicked] - worse[clicked]) / either[clicked])


def _with_median(ratios: Sequence[float | None]) -> list[Cell]:
    numbers = [ratio for ratio in ratios if ratio is not None]
    return two_digits([*ratios, median(numbers) if numbers else None])


class JudgmentValue(NamedTuple):
    """How many clicked queries the judged queries of a pair are worth."""

    metric: str
    pair: str
    scored_by: str
    points: Sequence[resampling.Equivalent]

    @property
    def median(self) -> float | None:
        """Clicked queries per judged query."""
        ratios = [point.needed / point.size for point in self.points if point.needed is not None]
        return median(ratios) if ratios else None


def larger_is_better(metric: AbsoluteMetric, pages: QueryPages) -> Array:
    """The values of a metric, negated if smaller values are better."""
    values = metric.values(pages)
    return -values if metric.rises else values


def curves(traffic: PairTraffic, generator: np.random.Generator, repeats: int) -> dict[str, resampling.Curve]:
    """Algorithm 3 for every metric and both interleaving methods, by number of queries, with or without clicks."""
    by_name = {}
    for metric in ABSOLUTE_METRICS.values():
        better, worse = (larger_is_better(metric, pages) for pages in (traffic.better, traffic.worse))
        sizes, statistic = _sizes(min(len(better), len(worse))), metric.statistic
        by_name[metric.title] = resampling.bucket_consistency(better, worse, sizes, generator, repeats, statistic)
    for method in METHODS:
        scores = traffic.interleaved[method].binary
        by_name[TITLES[method]] = resampling.consistency(scores, _sizes(len(scores)), generator, repeats)
    return by_name


def _sizes(queries: int) -> list[int]:
    return [max(1, round(share * queries)) for share in SHARES]


def consistency_table(engine: str, results: Mapping[str, Mapping[str, resampling.Curve]]) -> Table:
    """Figures 4 and 5 with one number per line: P(wrong) with a tenth of the data."""
    at = SHARES.index(0.1)
    rows = [
        (name, *[f"{1 - by_name[name].probability[at]:.3f}" for by_name in results.values()])
        for name in next(iter(results.values()))
    ]
    title = f"Probability that a tenth of the data prefers the worse ranker (Algorithm 3), pairs like {engine}'s"
    return Table(f"{engine}-consistency".lower(), title, ("preference by", *results), tuple(rows))


def consistency_chart(engine: str, results: Mapping[str, Mapping[str, resampling.Curve]]) -> dict[str, Any]:
    """Figures 4 and 5: one panel per pair; metrics over sessions are left out, as in Figure 5."""
    names = [*TITLES.values(), *[row.title for row in ABSOLUTE_METRICS.values() if row.name not in OF_SESSIONS]]
    rows = [
        {"queries of a bucket": size, "P(wrong)": 1 - right, "preference by": name, "pair": pair}
        for pair, by_name in results.items()
        for name in names
        for size, right in zip(by_name[name].sizes, by_name[name].probability, strict=True)
    ]
    title = f"How often so many queries prefer the worse ranker, pairs like {engine}'s"
    return plots.lines(rows, "queries of a bucket", "P(wrong)", "preference by", title, facet="pair")


def ratio_table(engine: str, traffics: Sequence[PairTraffic], generator: np.random.Generator, repeats: int) -> Table:
    """Table X: queries of each bucket that Clicks@1 needs, divided by those that interleaving needs to be as sure."""
    theirs = published.DATA_RATIOS if engine == "Yahoo" else (None,) * len(traffics)
    rows: list[tuple[Cell, ...]] = []
    for traffic, printed in zip(traffics, theirs, strict=True):
        size, sure = usable(traffic, generator, repeats)
        cells, reasons = list[Cell](), []
        for method in METHODS:
            (one,) = resampling.equivalents([size], [sure], traffic.interleaved[method].binary, generator, repeats)
            cells += [one.needed, None if one.ratio is None else f"{one.ratio:.1f}"]
            reasons.append(one.reason)
        rows.append((str(traffic), size, f"{sure:.3f}", printed, *cells, next(filter(None, reasons), None)))
    columns = ("pair", "n' of each bucket", "P(right)", "published n'/n''")
    ours = [part for method in METHODS for part in (f"n'' of {method}", f"{method} n'/n''")]
    title = f"Table X: data ratio of {ABSOLUTE_METRICS[RATIO_METRIC].title} to interleaving, pairs like {engine}'s"
    return Table(f"{engine}-ratios".lower(), title, (*columns, *ours, "why not"), tuple(rows))


def usable(traffic: PairTraffic, generator: np.random.Generator, repeats: int) -> tuple[int, float]:
    """C12's n', the smaller bucket, and how sure the metric is there; halved while that is nearly certain."""
    metric = ABSOLUTE_METRICS[RATIO_METRIC]
    better, worse = (larger_is_better(metric, pages) for pages in (traffic.better, traffic.worse))
    size = min(len(better), len(worse))
    while True:
        (sure,) = resampling.bucket_consistency(better, worse, [size], generator, repeats, metric.statistic).probability
        if sure <= SURE or size == 1:
            return size, sure
        size //= 2


def window_shares(
    traffic: PairTraffic, generator: np.random.Generator, repeats: int
) -> dict[str, list[resampling.Window]]:
    """Figure 6, by Algorithm 4: windows of several lengths, by interleaving and by Clicks@1."""
    metric, interleaved = ABSOLUTE_METRICS[RATIO_METRIC], traffic.interleaved[METHODS[0]]
    timed = [resampling.Timed(one.times, larger_is_better(metric, one)) for one in (traffic.better, traffic.worse)]
    times = np.concatenate([interleaved.pages.times, *[bucket.times for bucket in timed]])
    span, hour = (float(times.min()), float(times.max()) + 1), 3600.0
    hours = [length for length in HOURS if length <= (span[1] - span[0]) / hour]
    # Subsample to the rate of the interleaved bucket, or of a bucket with fewer queries.
    thinned = min(len(interleaved.binary), *[len(bucket.times) for bucket in timed])
    mixed = resampling.Timed(interleaved.pages.times, interleaved.binary)
    return {
        TITLES[METHODS[0]]: resampling.windows(mixed, span, hour, hours),
        metric.title: resampling.bucket_windows(timed[0], timed[1], thinned, span, hour, hours, generator, repeats),
    }


def window_table(results: Mapping[str, Sequence[resampling.Window]]) -> Table:
    """Figure 6 as a table."""
    rows = [(name, *[_wrong(window) for window in some]) for name, some in results.items()]
    hours = [f"{window.steps} h" for window in next(iter(results.values()))]
    pair = " > ".join(FOLLOWED)
    title = f"Figure 6: share of windows of so many hours that prefer the worse ranker (Algorithm 4), {pair}"
    return Table("windows", title, ("preference by", *hours), tuple(rows))


def window_chart(results: Mapping[str, Sequence[resampling.Window]]) -> dict[str, Any]:
    """Figure 6."""
    rows = [
        {"hours": window.steps, "P(wrong)": window.wrong, "preference by": name}
        for name, some in results.items()
        for window in some
    ]
    title = f"Share of windows that prefer the worse ranker, {' > '.join(FOLLOWED)}"
    return plots.lines(rows, "hours", "P(wrong)", "preference by", title)


def _wrong(window: resampling.Window) -> str:
    return f"{window.wrong:.3f}" + (f" ({window.undecided:.2f} undecided)" if window.undecided >= 0.005 else "")


def click_values(
    traffics: Sequence[PairTraffic],
    judged: Mapping[str, Mapping[str, Array]],
    generator: np.random.Generator,
    repeats: int,
) -> list[JudgmentValue]:
    """Figure 7: how many clicked queries are as sure as a number of judged ones, by metric, pair and scheme."""
    values = []
    for metric, traffic in ((metric, traffic) for metric in JUDGED_BY for traffic in traffics):
        better, worse = (judged[metric][ranker] for ranker in traffic.pair)
        tried = [size for size in SIZES if size <= len(better)]
        curve = resampling.consistency(better - worse, tried, generator, repeats)
        points = [
            (size, sure) for size, sure in zip(curve.sizes, curve.without_ties, strict=True) if (sure or 0) <= SURE
        ]
        sizes, probabilities = [size for size, _ in points], [sure for _, sure in points]
        for method, scheme in SCORED_BY:
            scores = traffic.interleaved[method].scores(scheme)
            needed = resampling.equivalents(sizes, probabilities, scores, generator, repeats)
            values.append(JudgmentValue(metric, str(traffic), f"{method}, {scheme}", needed))
    return values


def value_table(values: Sequence[JudgmentValue]) -> Table:
    """Figure 7 with one number per line: clicked queries per judged query, the median over the sizes."""
    rows: list[tuple[Cell, ...]] = []
    for metric, pair in dict.fromkeys((value.metric, value.pair) for value in values):
        medians = [value.median for value in values if (value.metric, value.pair) == (metric, pair)]
        printed = published.CLICKS_A_JUDGEMENT if metric == JUDGED_BY[0] else None
        rows.append((metric, pair, printed, *[None if middle is None else f"{middle:.1f}" for middle in medians]))
    columns = ("judged by", "pair", "published, about", *[f"{method}, {scheme}" for method, scheme in SCORED_BY])
    title = "Figure 7: clicked queries that are as sure as a judged one (median over numbers of judged queries)"
    return Table("clicks", title, columns, tuple(rows))


def value_chart(engine: str, values: Sequence[JudgmentValue]) -> dict[str, Any]:
    """Figure 7: one panel per judged metric."""
    pairs = [" > ".join(pair) for pair in published.ENGINES[engine]]
    rows = [
        {"judged queries": point.size, "clicked queries": point.needed, "pair": value.pair, "judged by": value.metric}
        for value in values
        if value.scored_by == ", ".join(DRAWN) and value.pair in pairs
        for point in value.points
        if point.needed is not None
    ]
    title = f"Judged queries, and clicked queries that are as sure ({', '.join(DRAWN)})"
    return plots.lines(rows, "judged queries", "clicked queries", "pair", title, facet="judged by", logarithmic=False)
