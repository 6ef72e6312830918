"""Outcomes of each pair of rankers: lists and people that favour each, and the clicks if one were live; see `lifts`.

The sign of credit that is averaged over owners is not fair. Such lists are counted by their drawn owners instead, as
the scheme `binary_deduped` counts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from interleaf.methods.registry import resolve
from interleaf.methods.schemes import scheme_of
from interleaf.report.model import DRAWN_OWNERS, SCORE, Comparison, Examination, Figure, Lift
from interleaf.report.rule import ONE_LOOK, ONE_LOOK_ONLY, ReportSettings
from interleaf.stats import compare, signs
from interleaf.stats.lift import ExposureData, ExposureEstimates, NoLift
from interleaf.tally import About, Tally
from interleaf.tally.bucket_sums import ONE
from interleaf.tally.exposure_sums import IMPOSSIBLE, LEFT_OUT, MAX_RANKS, NO_RANKS, POWERS, TOO_LONG, curves_of
from interleaf.tally.units import CLICKED, SUMS

if TYPE_CHECKING:
    from interleaf.report.comparisons import RankerPairs
MIN_LISTS = 0.5  # share of the lists that a lift must use


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
    reason = "" if by else _explain_unfair(tally.about, "wins")
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
        reason = _explain_unfair(tally.about, "people who prefer a ranker")
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


def _explain_unfair(about: About, what: str) -> str:
    credit = f"{resolve(about.method).method.name} by {about.scheme}"
    return f"the sign of one impression's credit is not fair under {credit}, so {what} are not counted"


def _sign_test(wins: int, losses: int, settings: ReportSettings) -> compare.Figure:
    return signs.sign_test(wins, losses) if settings.look == ONE_LOOK else compare.Figure(None, ONE_LOOK_ONLY)


class LiftResult(NamedTuple):
    """The lift of each pair, and the examination of each rank."""

    lifts: tuple[Lift, ...] = ()
    examination: tuple[Examination, ...] = ()


def lifts(tally: Tally, confidence: float, comparisons: Sequence[Comparison]) -> LiftResult:
    """The lift of each pair that is compared; nothing if the log has no clicks on interleaved lists."""
    if not any(pair.clicked for pair in comparisons):
        return LiftResult()
    sums, rankers = tally.exposure, tally.about.rankers
    estimates, problem = None, ""
    if resolve(tally.about.composed).method.kernels.place is None:
        problem = NoLift.METHOD.of(tally.about.composed)
    elif sums.lists.sum() < MIN_LISTS * (sums.lists.sum() + sums.left_out.sum()):
        code = NoLift(LEFT_OUT[int(np.argmax(sums.left_out))])
        problem = code.of(_longest(tally)) if code == NoLift.TOO_LONG else code
    else:
        data = ExposureData(
            curves_of(tally.about.examination),
            POWERS,
            sums.lists,
            sums.values / ONE,
            sums.slopes / ONE,
            sums.moves / ONE,
            sums.clicks,
            sums.tops,
            sums.ranked / ONE,
        )
        estimates = ExposureEstimates(data, confidence)
        problem = estimates.reason
    if estimates is None or problem:
        unknown = (None,) * 6
        return LiftResult(tuple(Lift(one.first, one.second, *unknown, None, *_say(problem)) for one in comparisons))
    every = []
    for pair in comparisons:
        names = pair.first, pair.second
        one = estimates.lift(rankers.index(pair.first), rankers.index(pair.second), names)
        every.append(Lift(*names, one.lift, one.interval, *one.clicks, *one.unseen, one.bounds, *_say(one.reason)))
    return LiftResult(tuple(every), estimates.examination())


def _longest(tally: Tally) -> str:
    """The length of the longest list that is used, in words."""
    ranks = len(tally.about.examination)
    return f"the given examination of {ranks:,} ranks" if ranks else f"{MAX_RANKS} documents"


def say_left_out(tally: Tally) -> str:
    """Why some lists are left out of the lift, with their numbers; empty if none is."""
    sums = tally.exposure
    words = {
        NO_RANKS: "without ranks of unshown documents",
        TOO_LONG: f"longer than {_longest(tally)}",
        IMPOSSIBLE: "whose probabilities are not known",
    }
    causes = [
        f"{number:,} {words[why]}" for why, number in zip(LEFT_OUT, sums.left_out.tolist(), strict=True) if number
    ]
    every = int(sums.lists.sum() + sums.left_out.sum())
    used = int(sums.lists.sum())
    return f"The lift uses {used:,} of {every:,} lists. Left out: {', '.join(causes)}." if causes and used else ""


def _say(problem: str) -> tuple[str, str]:
    """The reason in words, and its code."""
    code, _, detail = problem.partition(":")
    return (NoLift(code).text.format(detail), code) if code else ("", "")
