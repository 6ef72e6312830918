"""The lift of each pair of rankers: clicks if one were live in place of the other; and the examination of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from interleaf.methods.registry import resolve
from interleaf.report.model import Comparison, Examination, Lift
from interleaf.stats.lift import ExposureData, ExposureEstimates, NoLift
from interleaf.tally import Tally
from interleaf.tally.exposure_sums import POWERS, curves_of
from interleaf.tally.score_sums import ONE


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
    elif not sums.lists.any():
        problem = NoLift.NO_RANKS
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


def _say(problem: str) -> tuple[str, str]:
    """The reason in words, and its code."""
    code, _, detail = problem.partition(":")
    return (NoLift(code).text.format(detail), code) if code else ("", "")
