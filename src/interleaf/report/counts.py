"""Counts of lists and of people that favour each ranker of a pair, where the sign of credit is fair.

The sign of credit that is averaged over owners is not fair. Such lists are counted by their drawn owners instead, as
the scheme `binary_deduped` counts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from interleaf.methods.registry import resolve
from interleaf.methods.schemes import scheme_of
from interleaf.report.model import DRAWN_OWNERS, SCORE, Figure
from interleaf.report.rule import ONE_LOOK, ONE_LOOK_ONLY, ReportSettings
from interleaf.stats import compare, signs
from interleaf.tally import About, Tally
from interleaf.tally.score_sums import ONE
from interleaf.tally.units import CLICKED, SUMS

if TYPE_CHECKING:
    from interleaf.report.comparisons import RankerPairs


def counted_by(about: About) -> str:
    """What lists that favour a ranker are counted by: `SCORE` or `DRAWN_OWNERS`; empty if no sign is fair."""
    scheme = scheme_of(about.scheme.partition(",")[0].split()[-1])
    sign_scheme = resolve(about.method).method.sign_scheme(scheme)
    if sign_scheme is None:
        return ""
    return SCORE if sign_scheme.variant == scheme.variant else DRAWN_OWNERS


def list_sides(tally: Tally, pairs: RankerPairs, settings: ReportSettings) -> Iterator[list[Figure]]:
    """Wins, losses and ties of impressions, if a sign is fair and known."""
    by, clicked = counted_by(tally.about), int(tally.scores.clicked.sum())
    names = ("wins", "losses", "ties", "delta", "sign_test_p_value")
    reason = "" if by else _unfair(tally.about, "wins")
    if unknown := clicked - int(tally.scores.counted[0]):
        reason = reason or f"they are counted by the drawn owners, which {unknown:,} lists with an event do not have"
    sides = np.stack([tally.scores.wins, tally.scores.losses], axis=1)[pairs.order]
    for wins, losses in np.where(pairs.turn[:, None] > 0, sides, sides[:, ::-1]).tolist():
        if reason:
            yield [(name, None, reason) for name in names]
            continue
        ties = clicked - wins - losses
        delta, test = signs.delta(wins, losses, ties), _sign_test(wins, losses, settings)
        values = (wins, losses, ties, delta.value, test.value)
        figures = zip(names, values, ("", "", "", delta.reason, test.reason), strict=True)
        yield [("counted_by", by, ""), *figures]


def unit_sides(tally: Tally, pairs: RankerPairs, settings: ReportSettings) -> Iterator[list[Figure]]:
    """How many units prefer each ranker; buckets instead of units, if not all units are stored.

    They are not counted if the sign of one impression's credit is not fair, because many units have one impression.
    """
    if counted_by(tally.about) != SCORE:
        names = ("unit_wins", "unit_losses", "unit_sign_test_p_value")
        reason = _unfair(tally.about, "people who prefer a ranker")
        yield from [[(name, None, reason) for name in names]] * len(pairs.first)
        return
    exact = tally.units.is_exact
    sums = tally.units.rows[:, SUMS:] if exact else tally.scores.sums
    counts = tally.units.rows[:, CLICKED] if exact else tally.scores.clicked
    scores = pairs.scores(sums, tally.about.linear)
    # The rounding error is at most half of 2^-24 for each impression and ranker.
    preferred = np.where(np.abs(scores) * ONE <= counts[:, None], 0.0, np.sign(scores))
    for column in preferred.T:
        wins, losses = int((column > 0).sum()), int((column < 0).sum())
        test = _sign_test(wins, losses, settings)
        yield [
            ("unit_wins", wins, ""),
            ("unit_losses", losses, ""),
            ("unit_sign_test_p_value", test.value, test.reason),
            ("unit_sign_test_of", "units" if exact else "buckets", ""),
        ]


def _unfair(about: About, what: str) -> str:
    credit = f"{resolve(about.method).method.name} by {about.scheme}"
    return f"the sign of one impression's credit is not fair under {credit}, so {what} are not counted"


def _sign_test(wins: int, losses: int, settings: ReportSettings) -> compare.Figure:
    return signs.sign_test(wins, losses) if settings.look == ONE_LOOK else compare.Figure(None, ONE_LOOK_ONLY)
