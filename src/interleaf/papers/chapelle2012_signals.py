"""C12, Tables II to IV: what interleaving says of pairs of rankers, and whether judges agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from interleaf.methods.arrays import Array
from interleaf.papers import chapelle2012_published as published
from interleaf.papers.chapelle2012_rankers import METRICS, Kind
from interleaf.papers.chapelle2012_traffic import METHODS, Interleaved, Traffic
from interleaf.papers.study import Cell, Table
from interleaf.stats.agreement import bootstrap_correlation, correlation, triples, verdicts
from interleaf.stats.bootstrap import percentiles
from interleaf.stats.compare import Estimate, estimate

TITLES = {"balanced": "Balanced interleaving", "team_draft": "Team draft"}
LEVEL = 0.05

Kinds = Sequence[tuple[Kind, Sequence[Traffic]]]
ByMetric = Mapping[str, Mapping[str, Array]]


def preference(found: Interleaved) -> Estimate:
    """Twice Delta_AB: the mean binary score of impressions with a click, its error clustered by user."""
    pages = found.pages
    _, users = np.unique(pages.units[pages.any_click], return_inverse=True)
    return estimate(np.bincount(users, found.scores("binary")), np.bincount(users))


def is_significant(found: Estimate) -> bool:
    """Whether it differs from 0."""
    return found.p_value is not None and found.p_value < LEVEL


def delta(found: Estimate) -> float | None:
    """Delta_AB in per cent."""
    return None if found.value is None else 50 * found.value


def marked(value: float | None, significant: bool) -> Cell:
    """A figure in per cent, with a mark where it is significant."""
    return None if value is None else f"{value:.2f}" + "*" * significant


def signal_table(kind: Kind, traffics: Sequence[Traffic], judged: ByMetric) -> Table:
    """Table II, and the last row of Table VIII: Delta_AB in per cent, and what judges say."""
    ndcg = [f"{difference.mean():.4f}" for difference in _differences(judged["NDCG@5"], traffics)]
    rows: list[tuple[Cell, ...]] = [("NDCG@5, better less worse", "truth", *ndcg)]
    for method in METHODS:
        theirs = published.SIGNALS.get((kind.engine, method))
        if theirs:
            rows.append((TITLES[method], "published", *[f"{value:.2f}" for value in theirs]))
        ours = [preference(traffic.interleaved[method]) for traffic in traffics]
        rows.append((TITLES[method], "ours", *[marked(delta(found), is_significant(found)) for found in ours]))
    number = "Table II" if kind.engine == "arXiv" else "Table VIII, last row"
    title = f"{number}: Delta in per cent, pairs like {kind.engine}'s (* significant at {LEVEL}, clustered by user)"
    return Table(f"{kind.engine}-signals".lower(), title, ("signal", "whose", *map(str, traffics)), tuple(rows))


def _differences(by_ranker: Mapping[str, Array], traffics: Iterable[Traffic]) -> list[Array]:
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
                found = correlation([one.mean() for one in differences], [some.mean() for some in scores])
                resampled = bootstrap_correlation(np.stack(differences, axis=1), scores, generator, repeats)
                figures = _printed(kind, method, metric), _correlation(found, resampled)
                rows.append((kind.engine, TITLES[method], metric, *_agreement(differences, signals), *figures))
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
    found = verdicts(signs, sure)
    return f"{found.right} of {len(signs)}", f"{found.significantly_right} of {sum(sure)}"


def _printed(kind: Kind, method: str, metric: str) -> Cell:
    """What C12 prints: for pairs like Yahoo's, Bing's figure where Yahoo has none."""
    engines = (kind.engine, "Bing") if kind.engine == "Yahoo" else (kind.engine,)
    for engine in engines:
        found = published.CORRELATIONS.get((engine, method, metric))
        if found is not None:
            return f"{_correlation(found[0], found[1:])} ({engine})"
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
            theirs = published.SIGNALS.get((kind.engine, method))
            printed = dict(zip(kind.pairs, theirs, strict=True)) if theirs else {}
            ours = {traffic.pair: delta(preference(traffic.interleaved[method])) or 0.0 for traffic in traffics}
            for triple in triples(ours):
                a, b, c = triple.rankers
                said = [printed[step] for step in ((a, c), (a, b), (b, c)) if step in printed]
                holds = "yes" if triple.is_strong else "no"
                rows.append((TITLES[method], " > ".join(triple.rankers), _steps(said), _steps(triple[1:]), holds))
    columns = ("interleaving", "A > B > C", "published", "ours", "AC at least AB and BC")
    return Table("transitivity", "Table IV: Delta of AC, AB and BC in per cent", columns, tuple(rows))


def _steps(values: Sequence[float]) -> Cell:
    return ", ".join(f"{value:.2f}" for value in values) or None
