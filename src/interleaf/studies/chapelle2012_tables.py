"""C12's tables of signals, absolute metrics and schemes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.methods.registry import resolve
from interleaf.methods.schemes import FORMS
from interleaf.metrics.absolute import METRICS as ABSOLUTE_METRICS
from interleaf.metrics.absolute import Comparison, compare
from interleaf.metrics.sessions import sessions, totals
from interleaf.stats.agreement import Verdicts, bootstrap_correlation, correlation, triples, verdicts, z_ratios
from interleaf.stats.bootstrap import percentiles
from interleaf.stats.compare import Estimate, estimate
from interleaf.studies import chapelle2012_buckets as published
from interleaf.studies.chapelle2012_buckets import METHODS, METRICS, EnginePairs, Interleaved, PairTraffic
from interleaf.studies.study import Cell, Table

TITLES = {"balanced": "Balanced interleaving", "team_draft": "Team draft"}
LEVEL = 0.05

Kinds = Sequence[tuple[EnginePairs, Sequence[PairTraffic]]]
ByMetric = Mapping[str, Mapping[str, Array]]


def preference(interleaved: Interleaved) -> Estimate:
    """Twice Delta_AB: the mean binary score of impressions with a click, its error clustered by user."""
    pages = interleaved.pages
    _, users = np.unique(pages.units[pages.any_click], return_inverse=True)
    return estimate(np.bincount(users, interleaved.scores("binary")), np.bincount(users))


def is_significant(signal: Estimate) -> bool:
    """Whether it differs from 0."""
    return signal.p_value is not None and signal.p_value < LEVEL


def delta(signal: Estimate) -> float | None:
    """Delta_AB in per cent."""
    return None if signal.value is None else 50 * signal.value


def with_mark(value: float | None, significant: bool) -> Cell:
    """A number in per cent, with a mark where it is significant."""
    return None if value is None else f"{value:.2f}" + "*" * significant


def two_digits(values: Iterable[float | None]) -> list[Cell]:
    """Numbers as cells."""
    return [None if value is None else f"{value:.2f}" for value in values]


def signal_table(kind: EnginePairs, traffics: Sequence[PairTraffic], judged: ByMetric) -> Table:
    """Table II, and the last row of Table VIII: Delta_AB in per cent, and what judges say."""
    ndcg = [f"{difference.mean():.4f}" for difference in _differences(judged["NDCG@5"], traffics)]
    rows: list[tuple[Cell, ...]] = [("NDCG@5, better less worse", "truth", *ndcg)]
    for method in METHODS:
        theirs = published.METRICS_OF[kind.engine].get(method)
        if theirs:
            rows.append((TITLES[method], "published", *two_digits(theirs.differences)))
        ours = [preference(traffic.interleaved[method]) for traffic in traffics]
        rows.append((TITLES[method], "ours", *[with_mark(delta(signal), is_significant(signal)) for signal in ours]))
    number = "Table II" if kind.engine == "arXiv" else "Table VIII, last row"
    title = f"{number}: Delta in per cent, pairs like {kind.engine}'s (* significant at {LEVEL}, clustered by user)"
    return Table(f"{kind.engine}-signals".lower(), title, ("signal", "whose", *map(str, traffics)), tuple(rows))


def _differences(by_ranker: Mapping[str, Array], traffics: Iterable[PairTraffic]) -> list[Array]:
    """By query, of each pair."""
    return [by_ranker[better] - by_ranker[worse] for better, worse in (traffic.pair for traffic in traffics)]


def agreement_table(kinds: Kinds, judged: ByMetric, generator: np.random.Generator, repeats: int) -> Table:
    """Table III, and the agreement of signs that Figures 2 and 3 show."""
    rows: list[tuple[Cell, ...]] = []
    for kind, traffics in kinds:
        for method in METHODS:
            scores = [traffic.interleaved[method].scores("binary") for traffic in traffics]
            signals = [preference(traffic.interleaved[method]) for traffic in traffics]
            for metric in METRICS:
                differences = _differences(judged[metric], traffics)
                ours = correlation([one.mean() for one in differences], [some.mean() for some in scores])
                resampled = bootstrap_correlation(np.stack(differences, axis=1), scores, generator, repeats)
                correlations = _printed(kind, method, metric), _correlation(ours, resampled)
                rows.append((kind.engine, TITLES[method], metric, *_agreement(differences, signals), *correlations))
    columns = ("pairs like", "interleaving", "judged by", "same sign", "where both are sure", "published", "ours")
    title = "Table III: agreement with judges over pairs; correlation, and mean and deviation of the bootstrapped one"
    return Table("agreement", title, columns, tuple(rows))


def _agreement(differences: Sequence[Array], signals: Sequence[Estimate]) -> tuple[str, str]:
    """Signs: of judged queries sure by C12's bootstrap, of interleaving clustered by user."""
    intervals = [percentiles(one, np.ones(len(one)), resamples=1000).interval or (0.0, 0.0) for one in differences]
    sure = [
        (low > 0 or high < 0) and is_significant(signal) for (low, high), signal in zip(intervals, signals, strict=True)
    ]
    signs = [one.mean() * (signal.value or 0) for one, signal in zip(differences, signals, strict=True)]
    counts = verdicts(signs, sure)
    return f"{counts.right} of {len(signs)}", f"{counts.significantly_right} of {sum(sure)}"


def _printed(kind: EnginePairs, method: str, metric: str) -> Cell:
    """What C12 prints: for pairs like Yahoo's, Bing's number where Yahoo has none."""
    for engine in (kind.engine, "Bing") if kind.engine == "Yahoo" else (kind.engine,):
        value, *resampled = published.CORRELATIONS.get((engine, method, metric), (None,))
        if value is not None:
            return f"{_correlation(value, resampled)} ({engine})"
    return None


def _correlation(value: float | None, resampled: Sequence[float] | None) -> Cell:
    if value is None:
        return None
    return f"{value:.3f}" + (f", {resampled[0]:.3f} +- {resampled[1]:.3f}" if resampled else "")


def transitivity_table(kinds: Kinds) -> Table:
    """Table IV: strong stochastic transitivity."""
    rows: list[tuple[Cell, ...]] = []
    for kind, traffics in kinds:
        for method in METHODS:
            theirs = published.METRICS_OF[kind.engine].get(method)
            printed = dict(zip(kind.pairs, theirs.differences, strict=True)) if theirs else {}
            ours = {traffic.pair: delta(preference(traffic.interleaved[method])) or 0.0 for traffic in traffics}
            for triple in triples(ours):
                a, b, c = triple.rankers
                theirs_of = [printed[step] for step in ((a, c), (a, b), (b, c)) if step in printed]
                steps = [", ".join(map(str, two_digits(values))) or None for values in (theirs_of, triple[1:])]
                holds = "yes" if triple.is_strong else "no"
                rows.append((TITLES[method], " > ".join(triple.rankers), *steps, holds))
    columns = ("interleaving", "A > B > C", "published", "ours", "AC at least AB and BC")
    return Table("transitivity", "Table IV: Delta of AC, AB and BC in per cent", columns, tuple(rows))


PER_USER = {"arXiv": True, "Yahoo": False}  # as C12 did

Comparisons = Mapping[str, Sequence[Comparison]]


def compare_metrics(kind: EnginePairs, traffics: Sequence[PairTraffic]) -> Comparisons:
    """Every metric of every pair."""
    per_user = PER_USER[kind.engine]
    return {
        name: [compare(metric, traffic.better, traffic.worse, per_user) for traffic in traffics]
        for name, metric in ABSOLUTE_METRICS.items()
    }


def difference_table(
    kind: EnginePairs, traffics: Sequence[PairTraffic], comparisons: Comparisons, judged: Mapping[str, Array]
) -> Table:
    """Tables VI and VIII: relative differences, and their correlation with those of the judged DCG@5."""
    means = [[float(judged[ranker].mean()) for ranker in traffic.pair] for traffic in traffics]
    dcg = [100 * (better - worse) / worse for better, worse in means]
    rows: list[tuple[Cell, ...]] = []
    if kind.engine == "Yahoo":
        rows.append(("DCG@5", "published", *two_digits(published.YAHOO_DCG), "1"))
    rows.append(("DCG@5", "ours", *two_digits(dcg), "1"))
    for name, by_pair in comparisons.items():
        title, theirs = ABSOLUTE_METRICS[name].title, published.METRICS_OF[kind.engine].get(name)
        if theirs:
            rows.append((title, "published", *two_digits(theirs.differences), theirs.correlation))
        relative = [None if one.relative is None else 100 * one.relative for one in by_pair]
        ours = [with_mark(value, one.is_significant) for value, one in zip(relative, by_pair, strict=True)]
        rows.append((title, "ours", *ours, _correlated(relative, dcg)))
    for method in METHODS:
        signals = [preference(traffic.interleaved[method]) for traffic in traffics]
        deltas = [delta(signal) for signal in signals]
        ours = [with_mark(value, is_significant(signal)) for value, signal in zip(deltas, signals, strict=True)]
        rows.append((f"{TITLES[method]}, Delta", "ours", *ours, _correlated(deltas, dcg)))
    way = "averaged by user first" if PER_USER[kind.engine] else "over queries"
    number = "VI" if kind.engine == "arXiv" else "VIII"
    title = (
        f"Table {number}: relative differences in per cent, positive as C12 expects, {way}, pairs like {kind.engine}'s"
    )
    columns = ("metric", "whose", *map(str, traffics), "correlation with DCG@5")
    return Table(f"{kind.engine}-metrics".lower(), title, columns, tuple(rows))


def _correlated(values: Sequence[float | None], dcg: Sequence[float]) -> Cell:
    pairs = [(value, other) for value, other in zip(values, dcg, strict=True) if value is not None]
    return two_digits([correlation(*map(np.array, zip(*pairs, strict=True))) if len(pairs) > 1 else None])[0]


def verdict_table(kind: EnginePairs, traffics: Sequence[PairTraffic], comparisons: Comparisons) -> Table:
    """Tables VII and IX: how many pairs each metric gets right and wrong, weakly and significantly."""
    theirs = {name: metric.verdicts for name, metric in published.METRICS_OF[kind.engine].items()}
    rows: list[tuple[Cell, ...]] = []
    for name, ones in comparisons.items():
        counts = verdicts([one.relative for one in ones], [one.is_significant for one in ones])
        rows.append((ABSOLUTE_METRICS[name].title, *_counts(theirs.get(name)), *_counts(counts)))
    for method in METHODS:
        signals = [preference(traffic.interleaved[method]) for traffic in traffics]
        counts = verdicts([signal.value for signal in signals], [is_significant(signal) for signal in signals])
        rows.append((TITLES[method], *_counts(theirs.get(method)), *_counts(counts)))
    number = "VII" if kind.engine == "arXiv" else "IX"
    columns = ("metric", "published: weak", "published: significant", "ours: weak", "ours: significant")
    title = f"Table {number}: of {len(traffics)} pairs like {kind.engine}'s, right and wrong preferences"
    return Table(f"{kind.engine}-verdicts".lower(), title, columns, tuple(rows))


def _counts(counts: Verdicts | tuple[int, ...] | None) -> tuple[Cell, Cell]:
    return (None, None) if counts is None else (f"{counts[0]} / {counts[1]}", f"{counts[2]} / {counts[3]}")


BASELINE, OVER_SESSIONS = "binary", "normalized_direct"


def scheme_table(kind: EnginePairs, method: str, traffics: Sequence[PairTraffic]) -> Table:
    """Tables XI and XII: z-scores over those of the binary scheme."""
    schemes = sorted(resolve(method).method.schemes, key=lambda scheme: scheme not in FORMS)
    by_pair = [
        z_ratios({scheme: traffic.interleaved[method].scores(scheme) for scheme in schemes}, BASELINE)
        for traffic in traffics
    ]
    rows: list[tuple[Cell, ...]] = []
    for scheme in schemes:
        rows += _published_row(kind, method, scheme)
        rows.append((scheme, "ours", *_with_median([ratios[scheme] for ratios in by_pair])))
    number = "XI" if method == METHODS[0] else "XII"
    title = f"Table {number}: z-score over that of binary, {TITLES[method].lower()}, pairs like {kind.engine}'s"
    columns = ("scheme", "whose", *map(str, traffics), "median")
    return Table(f"{kind.engine}-{method.replace('_', '-')}-schemes".lower(), title, columns, tuple(rows))


def _published_row(kind: EnginePairs, method: str, scheme: str) -> list[tuple[Cell, ...]]:
    """C12's row; of Bing, whose pairs are others, the median."""
    theirs = published.SCHEMES.get((kind.engine, method))
    if theirs is not None:
        row, middle = theirs[scheme]
        return [(scheme, "published", *two_digits([*row, middle]))]
    _, middle = published.SCHEMES["Bing", method][scheme]
    return [(scheme, "Bing", *[None] * len(kind.pairs), f"{middle:.2f}")]


def session_table(traffics: Sequence[PairTraffic]) -> Table:
    """Table XIII: clicks summed over sessions, by the seconds that may pass between queries."""
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


def session_scores(interleaved: Interleaved, timeout: float) -> Array:
    """Normalised differences of the clicks of whole sessions, of those that have any."""
    number = sessions(interleaved.pages.units, interleaved.pages.times, gap=timeout).number
    better, worse, either = totals(number, interleaved.credit(OVER_SESSIONS)).T
    clicked = either > 0
    return np.asarray((better[clicked] - worse[clicked]) / either[clicked])


def _with_median(ratios: Sequence[float | None]) -> list[Cell]:
    numbers = [ratio for ratio in ratios if ratio is not None]
    return two_digits([*ratios, median(numbers) if numbers else None])
