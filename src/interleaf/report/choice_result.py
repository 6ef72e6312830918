"""The result of an experiment that chooses the best of many rankers, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from interleaf.stable_codes import Code
from interleaf.stats.compare import Interval


class ChoiceState(Code):
    """What became of a ranker."""

    LEADS = "leads", "leads"
    IN = "in", "still in"
    WORSE = "worse", "left: it is worse than {}"
    NO_GAIN = "no_gain", "left: it is not better than {} by the margin"


@dataclass(frozen=True)
class RankerState:
    """A ranker: what became of it, its share of the lists of the last epoch, and how it compares with the leader.

    An estimate above 0 says that people prefer it to the leader. The interval holds for all pairs of the rankers at the
    start together. `left_after` is the epoch after whose results it left, `left_against` the ranker that led then, and
    `bound` the upper end of the interval against that, by the correction of that time. `shown` is what is shown of it
    against the current leader: `worse`, `no_gain` (not better by the margin), or None. If a number is None, `reason`
    says why.
    """

    ranker: str
    state: str
    share: float
    lists: float
    estimate: float | None = None
    interval: Interval | None = None
    units: int | None = None
    left_after: int | None = None
    left_against: str | None = None
    bound: float | None = None
    shown: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class EpochShare:
    """The share of a ranker in the lists of an epoch. A list of two rankers counts as half a list of each."""

    epoch: int
    ranker: str
    share: float


@dataclass(frozen=True)
class ChoiceResult:
    """The rankers, the leader first; the shares of each epoch; and the regret so far.

    `decided` says that all other rankers left, and that none of them is better than the leader by the margin. `epochs`
    is the number of epochs with lists, and `first_epoch` the number of the first of them. `regret` is the sum over
    lists of the mean gap of their rankers, where the gap of a ranker is the estimate of the leader over it, at least 0.
    `regret_equal_shares` is the same if all rankers had had equal shares of these lists, and `regret_saved` the part of
    it that was saved. They are computed over the `regret_rankers` rankers that were compared with the leader.
    """

    leader: str
    decided: bool
    epochs: int
    first_epoch: int
    rankers: tuple[RankerState, ...]
    shares: tuple[EpochShare, ...] = ()
    regret: float | None = None
    regret_equal_shares: float | None = None
    regret_saved: float | None = None
    regret_rankers: int = 0
    reason: str = ""
