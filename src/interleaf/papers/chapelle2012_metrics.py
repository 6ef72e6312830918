"""C12, Tables VI to IX: what absolute metrics of A/B buckets say of pairs, per query or averaged by user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from interleaf.methods.arrays import Array
from interleaf.metrics.absolute import METRICS
from interleaf.metrics.comparison import Comparison, compare
from interleaf.papers import chapelle2012_published as published
from interleaf.papers.chapelle2012_rankers import Kind
from interleaf.papers.chapelle2012_signals import TITLES, delta, is_significant, marked, preference
from interleaf.papers.chapelle2012_traffic import METHODS, Traffic
from interleaf.papers.study import Cell, Table
from interleaf.stats.agreement import Verdicts, correlation, verdicts

PER_USER = {"arXiv": True, "Yahoo": False}  # as C12 did
PRINTED = {"arXiv": published.ARXIV_METRICS, "Yahoo": published.YAHOO_METRICS}

Compared = Mapping[str, Sequence[Comparison]]


def compared(kind: Kind, traffics: Sequence[Traffic]) -> Compared:
    """Every metric of every pair."""
    per_user = PER_USER[kind.engine]
    return {
        name: [compare(metric, traffic.better, traffic.worse, per_user) for traffic in traffics]
        for name, metric in METRICS.items()
    }


def difference_table(kind: Kind, traffics: Sequence[Traffic], found: Compared, judged: Mapping[str, Array]) -> Table:
    """Tables VI and VIII: relative differences, and their correlation with those of the judged DCG@5."""
    dcg = [_relative(*(float(judged[ranker].mean()) for ranker in traffic.pair)) for traffic in traffics]
    rows: list[tuple[Cell, ...]] = []
    if kind.engine == "Yahoo":
        rows.append(("DCG@5", "published", *[f"{value:.2f}" for value in published.YAHOO_DCG], "1"))
    rows.append(("DCG@5", "ours", *[f"{value:.2f}" for value in dcg], "1"))
    for name, comparisons in found.items():
        printed, correlated = PRINTED[kind.engine].get(name), None
        if printed:
            correlated = published.YAHOO_CORRELATIONS[name] if kind.engine == "Yahoo" else None
            rows.append((METRICS[name].title, "published", *[f"{value:.2f}" for value in printed], correlated))
        relative = [_percent(one.relative) for one in comparisons]
        ours = [marked(value, one.is_significant) for value, one in zip(relative, comparisons, strict=True)]
        rows.append((METRICS[name].title, "ours", *ours, _correlated(relative, dcg)))
    for method in METHODS:
        signals = [preference(traffic.interleaved[method]) for traffic in traffics]
        deltas = [delta(signal) for signal in signals]
        ours = [marked(value, is_significant(signal)) for value, signal in zip(deltas, signals, strict=True)]
        rows.append((f"{TITLES[method]}, Delta", "ours", *ours, _correlated(deltas, dcg)))
    way = "averaged by user first" if PER_USER[kind.engine] else "over queries"
    number = "VI" if kind.engine == "arXiv" else "VIII"
    title = (
        f"Table {number}: relative differences in per cent, positive as C12 expects, {way}, pairs like {kind.engine}'s"
    )
    columns = ("metric", "whose", *map(str, traffics), "correlation with DCG@5")
    return Table(f"{kind.engine}-metrics".lower(), title, columns, tuple(rows))


def _relative(better: float, worse: float) -> float:
    return 100 * (better - worse) / worse


def _percent(relative: float | None) -> float | None:
    return None if relative is None else 100 * relative


def _correlated(values: Sequence[float | None], dcg: Sequence[float]) -> Cell:
    known = [(value, other) for value, other in zip(values, dcg, strict=True) if value is not None]
    found = correlation(*map(np.array, zip(*known, strict=True))) if len(known) > 1 else None
    return None if found is None else f"{found:.2f}"


def verdict_table(kind: Kind, traffics: Sequence[Traffic], found: Compared) -> Table:
    """Tables VII and IX: how many pairs each metric gets right and wrong, weakly and significantly."""
    counted = {
        METRICS[name].title: (name, verdicts([one.relative for one in ones], [one.is_significant for one in ones]))
        for name, ones in found.items()
    }
    for method in METHODS:
        signals = [preference(traffic.interleaved[method]) for traffic in traffics]
        counts = verdicts([signal.value for signal in signals], [is_significant(signal) for signal in signals])
        counted[TITLES[method]] = (method, counts)
    theirs = published.VERDICTS[kind.engine]
    rows: list[tuple[Cell, ...]] = [
        (title, *_counts(theirs.get(name)), *_counts(counts)) for title, (name, counts) in counted.items()
    ]
    number = "VII" if kind.engine == "arXiv" else "IX"
    columns = ("metric", "published: weak", "published: significant", "ours: weak", "ours: significant")
    title = f"Table {number}: of {len(traffics)} pairs like {kind.engine}'s, right and wrong preferences"
    return Table(f"{kind.engine}-verdicts".lower(), title, columns, tuple(rows))


def _counts(counts: Verdicts | tuple[int, ...] | None) -> tuple[Cell, Cell]:
    return (None, None) if counts is None else (f"{counts[0]} / {counts[1]}", f"{counts[2]} / {counts[3]}")
