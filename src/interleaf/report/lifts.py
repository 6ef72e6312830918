"""The lift of each pair of rankers: clicks if one were live in place of the other; and the examination of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from interleaf.methods.registry import resolve
from interleaf.report.model import Comparison, Examination, Lift
from interleaf.stats.lift import ExposureData, ExposureEstimates, NoLift
from interleaf.tally import Tally
from interleaf.tally.exposure_sums import IMPOSSIBLE, LEFT_OUT, MAX_RANKS, NO_RANKS, POWERS, TOO_LONG, curves_of
from interleaf.tally.score_sums import ONE

MIN_LISTS = 0.5  # share of the lists that a lift must use


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
    given = len(tally.about.examination)
    return f"the given examination of {given:,} ranks" if given else f"{MAX_RANKS} documents"


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
