"""Why a ranker left an experiment that chooses the best of many, in words."""

from __future__ import annotations

from interleaf.experiment.epochs import RankerExit
from interleaf.report.format import format_signed
from interleaf.stats.elimination import WORSE


def say_why_left(one: RankerExit, margin: float) -> str:
    """A sentence about a ranker that left.

    >>> say_why_left(RankerExit("bm25", "worse", "new", 7, -0.02), 0.01)
    'bm25 left: it is worse than new (its interval against new ends at -0.02, below 0)'
    """
    end = f"its interval against {one.leader} ends at {format_signed(one.bound)}"
    if one.code == WORSE:
        return f"{one.ranker} left: it is worse than {one.leader} ({end}, below 0)"
    return f"{one.ranker} left: it is not better than {one.leader} by the margin ({end}, below {margin:g})"
