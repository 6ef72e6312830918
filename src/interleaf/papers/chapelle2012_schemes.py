"""C12, Tables XI to XIII: how sensitive interleaving is by each credit scheme, and over sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import numpy as np

from interleaf.methods.arrays import Array
from interleaf.methods.table import FORMS, resolve
from interleaf.metrics.sessions import sessions, totals
from interleaf.papers import chapelle2012_published as published
from interleaf.papers.chapelle2012_rankers import Kind
from interleaf.papers.chapelle2012_signals import TITLES
from interleaf.papers.chapelle2012_traffic import METHODS, Interleaved, Traffic
from interleaf.papers.study import Cell, Table
from interleaf.stats.agreement import z_ratios

BASELINE, OVER_SESSIONS = "binary", "normalized_direct"


def scheme_table(kind: Kind, method: str, traffics: Sequence[Traffic]) -> Table:
    """Tables XI and XII: z-scores over those of the binary scheme."""
    schemes = sorted(resolve(method).method.schemes, key=lambda scheme: scheme not in FORMS)
    found = [
        z_ratios({scheme: traffic.interleaved[method].scores(scheme) for scheme in schemes}, BASELINE)
        for traffic in traffics
    ]
    rows: list[tuple[Cell, ...]] = []
    for scheme in schemes:
        rows += _printed(kind, method, scheme)
        rows.append((scheme, "ours", *_with_median([ratios[scheme] for ratios in found])))
    number = "XI" if method == METHODS[0] else "XII"
    title = f"Table {number}: z-score over that of binary, {TITLES[method].lower()}, pairs like {kind.engine}'s"
    columns = ("scheme", "whose", *map(str, traffics), "median")
    return Table(f"{kind.engine}-{method.replace('_', '-')}-schemes".lower(), title, columns, tuple(rows))


def _printed(kind: Kind, method: str, scheme: str) -> list[tuple[Cell, ...]]:
    """C12's row; of Bing, whose pairs are others, the median."""
    theirs = published.SCHEMES.get((kind.engine, method))
    if theirs is not None:
        row, middle = theirs[scheme]
        return [(scheme, "published", *_figures([*row, middle]))]
    _, middle = published.SCHEMES["Bing", method][scheme]
    return [(scheme, "Bing", *[None] * len(kind.pairs), f"{middle:.2f}")]


def session_table(traffics: Sequence[Traffic]) -> Table:
    """Table XIII: clicks summed over sessions, by the seconds that may pass between queries."""
    rows: list[tuple[Cell, ...]] = []
    for timeout, (theirs, middle) in published.TIMEOUTS.items():
        ratios = [_over_sessions(traffic.interleaved[METHODS[0]], timeout) for traffic in traffics]
        rows.append((timeout, "published", *_figures([*theirs, middle])))
        rows.append((timeout, "ours", *_with_median(ratios)))
    columns = ("timeout, s", "whose", *map(str, traffics), "median")
    title = f"Table XIII: z-score of {OVER_SESSIONS} over sessions, over that of binary a query, balanced interleaving"
    return Table("sessions", title, columns, tuple(rows))


def _over_sessions(found: Interleaved, timeout: float) -> float | None:
    scores = {BASELINE: found.scores(BASELINE), OVER_SESSIONS: session_scores(found, timeout)}
    return z_ratios(scores, BASELINE)[OVER_SESSIONS]


def session_scores(found: Interleaved, timeout: float) -> Array:
    """Normalised differences of the clicks of whole sessions, of those that have any."""
    number = sessions(found.pages.units, found.pages.times, gap=timeout).number
    better, worse, either = totals(number, found.credit(OVER_SESSIONS)).T
    clicked = either > 0
    return np.asarray((better[clicked] - worse[clicked]) / either[clicked])


def _figures(values: Iterable[float | None]) -> list[Cell]:
    return [None if value is None else f"{value:.2f}" for value in values]


def _with_median(ratios: Sequence[float | None]) -> list[Cell]:
    known = [ratio for ratio in ratios if ratio is not None]
    return _figures([*ratios, median(known) if known else None])
