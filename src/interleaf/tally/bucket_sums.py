"""What a tally is about, and sums of scores, wins and losses by bucket, from which all estimates are computed.

All sums are integers in units of 2^-24: a score is rounded once, and addition is exact in any order. Signs and whole
clicks are not rounded. If a scheme is linear in credit, there is a column per ranker, and pairs are differences of two
columns; if it is a sign, there is a column per pair.

Other sums need no credit: clicks by arm, who owned which slot, how visible each ranker was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from interleaf.decode import Decoded
from interleaf.decode.events import ONE as ONE
from interleaf.kernels.arrays import Array, Impression, pairs
from interleaf.kernels.buckets import BUCKETS
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.log.schema import INTERLEAVED, MAX_SHOWN
from interleaf.methods.schemes import TOLERANCE

_TOLERANCE = TOLERANCE
MEASURES = ("queries", "clicked", "clicks", "clicks_at_1", "skipped", "max_reciprocal_rank", "mean_reciprocal_rank")
QUERIES, CLICKED, CLICKS, AT_1, SKIPPED, MAX_RR, MEAN_RR = range(len(MEASURES))
SESSIONS, FOLLOWED = range(2)
EMPTY, TIMED, LATENCY, KINDS = range(4)  # columns of `guards`; those of the guarded kinds begin at the last one
MAX_LATENCY = 60_000.0  # milliseconds; a longer latency counts as this one
BINS = 128  # bins of a histogram of times: eight per doubling of 1 + time
RECIPROCALS = np.rint(ONE / np.arange(1, MAX_SHOWN + 1)).astype(np.int64)
POSITIONS = 20  # slots further down are not tested


@dataclass(frozen=True)
class About:
    """What a tally is about. Two tallies can be added if these fields are equal, except for the order of rankers.

    `composed` is the method of the interleaved lists, or `one_list` ('' if there are none). `method` is the method that
    scored them, '' if nothing was scored. `events` is empty if there is no comparison.
    `examination` is the given examination of the ranks from the top, empty if it is estimated. `values`: events count
    by their values. `guarded` are the kinds of events that guardrails can watch. `joined`: impressions less than this
    many seconds apart are joined to sessions of arms, but not scored together.
    """

    experiment: str
    version: int
    rankers: tuple[str, ...]
    composed: str
    method: str
    scheme: str
    events: str
    sessions: float | None
    linear: bool
    examination: tuple[float, ...] = ()
    values: bool = False
    guarded: tuple[str, ...] = ()
    joined: float | None = None

    @property
    def is_comparison(self) -> bool:
        """Whether rankers are compared, in interleaved lists or with the list of one ranker for each unit."""
        return bool(self.events)


class ScoreSums(NamedTuple):
    """`impressions[bucket]`, and with an event `clicked[bucket]`; `sums[bucket, column]`; by pair: `squares`, `wins`,
    `losses`. `counted[0]`: impressions with an event of which it is known whom they favour.
    """

    impressions: Array
    clicked: Array
    sums: Array
    squares: Array
    wins: Array
    losses: Array
    counted: Array

    @classmethod
    def empty(cls, rankers: int, linear: bool) -> ScoreSums:
        pairs = rankers * (rankers - 1) // 2
        one, by_pair = np.zeros((2, BUCKETS), np.int64), np.zeros((3, pairs), np.int64)
        sums = np.zeros((BUCKETS, rankers if linear else pairs), np.int64)
        return cls(one[0], one[1], sums, by_pair[0], by_pair[1], by_pair[2], np.zeros(1, np.int64))

    def add(self, buckets: Array, clicked: Array, columns: Array, about: About, owners: Array | None = None) -> None:
        """Add rows: columns are credit by ranker, or scores by pair. Squares of values are too large to be added.

        Wins and losses are counted by the credit `owners[row, ranker]` if it is given; NaN: not known.
        """
        linear = about.linear
        _add(buckets, clicked, columns, linear, not about.values, self)
        _count_sides(clicked, *((columns, linear) if owners is None else (owners, True)), self)

    def reorder(self, order: Sequence[int], linear: bool) -> ScoreSums:
        """The same with ranker order[i] at index i; a pair whose order is reversed changes its sign."""
        places, signs = pair_order(order)
        wins, losses = self.wins[places], self.losses[places]
        return self._replace(
            sums=reordered_columns(self.sums, order, linear),
            squares=self.squares[places],
            wins=np.where(signs < 0, losses, wins),
            losses=np.where(signs < 0, wins, losses),
        )


def pair_order(order: Sequence[int]) -> tuple[Array, Array]:
    """The old index of each pair of reordered rankers, and its sign: -1 if the pair is reversed."""
    first, second = pairs(len(order))
    number = np.zeros((len(order), len(order)), np.int64)
    number[first, second] = number[second, first] = np.arange(len(first))
    one, other = np.asarray(order)[first], np.asarray(order)[second]
    return number[one, other], np.where(one > other, -1, 1)


def reordered_columns(sums: Array, order: Sequence[int], linear: bool) -> Array:
    """Columns by ranker or by pair, on the last axis, with ranker order[i] at index i."""
    if linear:
        return sums[..., list(order)]
    places, signs = pair_order(order)
    return sums[..., places] * signs


@kernel
def _add(buckets: Array, clicked: Array, columns: Array, linear: bool, with_squares: bool, into: ScoreSums) -> None:
    for row in range(len(buckets)):
        bucket = buckets[row]
        into.impressions[bucket] += 1
        if not clicked[row]:
            continue
        into.clicked[bucket] += 1
        for column in range(columns.shape[1]):
            into.sums[bucket, column] += to_fixed_point(columns[row, column])
        if not with_squares:
            continue
        if not linear:
            for pair in range(columns.shape[1]):
                into.squares[pair] += to_fixed_point(columns[row, pair] ** 2)
            continue
        pair = 0
        for one in range(columns.shape[1]):
            for other in range(one + 1, columns.shape[1]):
                into.squares[pair] += to_fixed_point((columns[row, one] - columns[row, other]) ** 2)
                pair += 1


@kernel
def _count_sides(clicked: Array, columns: Array, by_ranker: bool, into: ScoreSums) -> None:
    """Count wins and losses from credit by ranker or scores by pair; rows of NaN are left out."""
    for row in range(len(clicked)):
        if not clicked[row] or np.isnan(columns[row, 0]):
            continue
        into.counted[0] += 1
        if not by_ranker:
            for pair in range(columns.shape[1]):
                _count_side(pair, columns[row, pair], _TOLERANCE, into)
            continue
        pair = 0
        for one in range(columns.shape[1]):
            for other in range(one + 1, columns.shape[1]):
                least = _TOLERANCE * max(abs(columns[row, one]), abs(columns[row, other]))
                _count_side(pair, columns[row, one] - columns[row, other], least, into)
                pair += 1


@inline_kernel
def _count_side(pair: int, score: float, tolerance: float, into: ScoreSums) -> None:
    into.wins[pair] += score > tolerance
    into.losses[pair] += score < -tolerance


@inline_kernel
def to_fixed_point(number: float) -> int:
    """A number in units of 2^-24."""
    return int(np.rint(number * ONE))


class ArmSums(NamedTuple):
    """`measures[bucket, measure]`, with fractions in units of 2^-24; `delays[first or last, bin]`: seconds to clicks;
    `sessions[bucket]`: sessions, and queries followed by another query of the session; 0 if none are joined.
    `guards[bucket]`: queries with an empty list, those with a known latency, and the sum of these latencies in units of
    2^-24 ms; then the queries with an event of each guarded kind.
    """

    measures: Array
    delays: Array
    sessions: Array
    guards: Array

    @classmethod
    def empty(cls, kinds: int = 0) -> ArmSums:
        return cls(
            np.zeros((BUCKETS, len(MEASURES)), np.int64),
            np.zeros((2, BINS), np.int64),
            np.zeros((BUCKETS, 2), np.int64),
            np.zeros((BUCKETS, KINDS + kinds), np.int64),
        )

    def add(self, buckets: Array, decoded: Decoded, latency: Array) -> None:
        """Add rows with the `latency[row, ranker]` of all rankers, nan where it is not known."""
        delays = np.stack([decoded.clicks.first, decoded.clicks.last])
        _add_clicks(buckets, decoded.counts, decoded.is_clicked, delays, self)
        _add_guards(buckets, decoded.counts, list_latency(decoded, latency), decoded.clicks.guarded, self.guards)


def list_latency(decoded: Decoded, latency: Array) -> Array:
    """How many milliseconds each list took; nan where it is not known.

    A mixed list is ready when the slowest ranker has answered. The list of one ranker is ready when this one has; it is
    the owner of the first document, or the ranker that the arm is named after, or the only ranker.
    """
    arm, rankers = decoded.design.arm, decoded.design.rankers
    if arm == INTERLEAVED:
        return np.asarray(latency.max(axis=1))
    named = rankers.index(arm) if arm in rankers else 0 if len(rankers) == 1 else -1
    owners = np.full(len(decoded.rows), named)
    if decoded.impressions.teams.shape[1]:
        owned = decoded.has["teams"] & (decoded.counts > 0)
        owners = np.where(owned, decoded.impressions.teams[:, 0], owners)
    by_list = latency[np.arange(len(owners)), np.maximum(owners, 0)]
    return np.asarray(np.where(owners >= 0, by_list, np.nan))


class ListSums(NamedTuple):
    """`owned[bucket, position, ranker]`: slots that the ranker owns. `seen[bucket, ranker]`: shown documents from its
    top k (k is the length of the list), lists that show its top document first, and the sum of 1 / shown position of
    these documents. `differ[0]`: lists whose rankings differ. `tops[bucket]`: lists whose first document is the top of
    some but not all rankers, then these lists by ranker whose top document it is. `latency[ranker, bin]`, in ms.
    """

    owned: Array
    seen: Array
    differ: Array
    tops: Array
    latency: Array

    @classmethod
    def empty(cls, rankers: int) -> ListSums:
        return cls(
            np.zeros((BUCKETS, POSITIONS, rankers), np.int64),
            np.zeros((BUCKETS, rankers, 3), np.int64),
            np.zeros(1, np.int64),
            np.zeros((BUCKETS, 1 + rankers), np.int64),
            np.zeros((rankers, BINS), np.int64),
        )

    def add(self, buckets: Array, decoded: Decoded, latency: Array) -> None:
        _add_latency(latency, self.latency)
        _add_lists(buckets, decoded.impressions, decoded.counts, decoded.has["ranks"], self)

    def reorder(self, order: list[int]) -> ListSums:
        tops = self.tops[:, [0, *(1 + ranker for ranker in order)]]
        return ListSums(self.owned[:, :, order], self.seen[:, order], self.differ, tops, self.latency[order])


@kernel
def _add_clicks(buckets: Array, counts: Array, clicked: Array, delays: Array, into: ArmSums) -> None:
    measures = into.measures
    for row in range(len(buckets)):
        bucket = buckets[row]
        measures[bucket, QUERIES] += 1
        lowest = clicks = 0
        highest, reciprocal = 0, 0.0
        for position in range(counts[row]):
            if clicked[row, position]:
                clicks += 1
                lowest = position + 1
                highest = highest if highest else position + 1
                reciprocal += 1 / (position + 1)
        if not clicks:
            continue
        measures[bucket, CLICKED] += 1
        measures[bucket, CLICKS] += clicks
        measures[bucket, AT_1] += highest == 1
        measures[bucket, SKIPPED] += to_fixed_point(1 - clicks / lowest)
        measures[bucket, MAX_RR] += to_fixed_point(1 / highest)
        measures[bucket, MEAN_RR] += to_fixed_point(reciprocal / clicks)
        for which in range(2):
            into.delays[which, _bin(delays[which, row])] += 1


@kernel
def _add_guards(buckets: Array, counts: Array, latency: Array, guarded: Array, guards: Array) -> None:
    for row in range(len(buckets)):
        bucket = buckets[row]
        guards[bucket, EMPTY] += counts[row] == 0
        if 0 <= latency[row] < np.inf:
            guards[bucket, TIMED] += 1
            guards[bucket, LATENCY] += to_fixed_point(min(np.float64(latency[row]), MAX_LATENCY))
        for kind in range(guarded.shape[1]):
            guards[bucket, KINDS + kind] += guarded[row, kind]


@inline_kernel
def _bin(time: float) -> int:
    """The bin of a time: eight bins per doubling of 1 + time; the last bin takes the rest."""
    return int(min(8 * np.log2(1 + time), BINS - 1))


def quantile(bins: Array, share: float) -> float:
    """A quantile of a histogram of times, interpolated within its bin."""
    below, wanted = np.cumsum(bins), bins.sum() * share
    place = int(np.searchsorted(below, wanted))
    within = (wanted - (below[place] - bins[place])) / bins[place]
    return float(2 ** ((place + within) / 8) - 1)


@kernel
def _add_latency(latency: Array, bins: Array) -> None:
    for row in range(len(latency)):
        for ranker in range(latency.shape[1]):
            if 0 <= latency[row, ranker] < np.inf:
                bins[ranker, _bin(latency[row, ranker])] += 1


@kernel
def _add_lists(buckets: Array, impressions: Impression, counts: Array, has_ranks: Array, into: ListSums) -> None:
    """Add lists. Elements are indexed in full, because slicing a row costs as much as all the work on it.

    Without ranks, the owners may be known for clicked documents only, which would favour the preferred ranker. So such
    a list counts for slots only if all owners are known.
    """
    ranks, teams = impressions.ranks, impressions.teams
    owned, visible, tops_of = into.owned, into.seen, into.tops
    for row in range(len(buckets)):
        bucket, count = buckets[row], counts[row]
        is_told = True
        if not has_ranks[row]:
            for position in range(count):
                is_told &= teams[row, position] >= 0
        for position in range(min(count, POSITIONS)):
            if is_told and teams[row, position] >= 0:
                owned[bucket, position, teams[row, position]] += 1
        if not has_ranks[row] or count == 0:
            continue
        differ, tops = False, 0
        for ranker in range(ranks.shape[1]):
            shown = reciprocal = 0
            for position in range(count):
                rank = ranks[row, ranker, position]
                differ |= rank != ranks[row, 0, position]
                inside = (rank > 0) & (rank <= count)
                shown += inside
                reciprocal += RECIPROCALS[position] * inside
            is_top = ranks[row, ranker, 0] == 1
            tops += is_top
            visible[bucket, ranker, 0] += shown
            visible[bucket, ranker, 1] += is_top
            visible[bucket, ranker, 2] += reciprocal
        into.differ[0] += differ
        if 0 < tops < ranks.shape[1]:  # the first document is the top of some rankers, but not of all
            tops_of[bucket, 0] += 1
            for ranker in range(ranks.shape[1]):
                tops_of[bucket, 1 + ranker] += ranks[row, ranker, 0] == 1
