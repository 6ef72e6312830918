"""The numbers of kept rows: ranks, teams and lengths of lists as bytes, of one row, or of many in a compiled loop.

They are 32-bit integers: the union, whether the list was relaxed, of how many rankers there are ranks, the sizes of
five lists (-1: null), and the lists one after the other; the last one, latencies, as 32-bit floats.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from math import nan

import numpy as np

from interleaf.batch import Lists
from interleaf.compiled import kernel, part
from interleaf.methods.arrays import Array

LISTS = ("ranks", "teams", "lengths", "choices", "latency")
HEADER = 3 + len(LISTS)
_UNION, _RANKERS = 0, 2  # places in the header, and those of the sizes of lists:
_RANKS, _TEAMS, _LENGTHS, _CHOICES, _LATENCY = range(3, HEADER)


def spread(flat: Array, lengths: Array) -> tuple[Array, Array]:
    """Rankings of many requests that stand one after the other, `[request, ranker, rank]`; and whose have repeats."""
    rankings = np.full((*lengths.shape, max(1, int(lengths.max()))), -1, np.int32)
    repeats = np.zeros(len(lengths), np.bool_)
    _spread(flat, lengths, rankings, repeats, np.full(flat.max(initial=-1) + 1, -1, np.int64))
    return rankings, repeats


@kernel
def _spread(flat: Array, lengths: Array, rankings: Array, repeats: Array, seen: Array) -> None:
    """`seen` is room for the last ranking that had each document."""
    start = 0
    for request in range(lengths.shape[0]):
        for ranker in range(lengths.shape[1]):
            for rank in range(lengths[request, ranker]):
                rankings[request, ranker, rank] = flat[start + rank]
            start += lengths[request, ranker]
    for request in range(lengths.shape[0]):
        for ranker in range(lengths.shape[1]):
            mark = request * lengths.shape[1] + ranker
            for rank in range(lengths[request, ranker]):
                document = rankings[request, ranker, rank]
                if seen[document] == mark:
                    repeats[request] = True
                seen[document] = mark


def numbers_of(
    rankings: Array, lengths: Array, unions: Array, lists: Lists, has_teams: bool, has_choices: bool
) -> list[bytes]:
    """The numbers of each of many lists that were drawn from rankings as `spread` gives them."""
    rows, rankers, _ = rankings.shape
    most = lists.shown.shape[1]
    found, sizes = np.empty((rows, HEADER + (rankers + 2) * most + rankers), np.int32), np.empty(rows, np.int64)
    places = np.empty(unions.max(), np.int32)
    _note(rankings, lengths, unions, *lists, has_teams, has_choices, found, sizes, places)
    width, data = found.strides[0], found.tobytes()
    return [data[row * width : row * width + 4 * size] for row, size in enumerate(sizes.tolist())]


@kernel
def _note(
    rankings: Array,
    lengths: Array,
    unions: Array,
    shown: Array,
    teams: Array,
    counts: Array,
    has_teams: bool,
    has_choices: bool,
    found: Array,
    sizes: Array,
    places: Array,
) -> None:
    """`places` is room for the rank of each document."""
    rankers = lengths.shape[1]
    for row in range(len(unions)):
        numbers, count = found[row], counts[row]
        numbers[:HEADER] = -1
        numbers[_UNION], numbers[_RANKERS] = unions[row], rankers
        numbers[_RANKS], numbers[_LENGTHS] = rankers * count, rankers
        if has_teams:
            numbers[_TEAMS] = count
        end = HEADER
        for ranker in range(rankers):
            places[: unions[row]] = 0
            for rank in range(lengths[row, ranker]):
                places[rankings[row, ranker, rank]] = rank + 1
            for position in range(count):
                numbers[end + position] = places[shown[row, position]]
            end += count
        if has_teams:
            for position in range(count):
                numbers[end + position] = teams[row, position]
            end += count
        for ranker in range(rankers):
            numbers[end + ranker] = lengths[row, ranker]
        end += rankers
        if has_choices:
            numbers[_CHOICES] = count
            _choices(rankings[row], lengths[row], places[: unions[row]], numbers[end : end + count])
            end += count
        sizes[row] = end


@part
def _choices(rankings: Array, lengths: Array, seen: Array, choices: Array) -> None:
    """How many documents some ranker has at each rank or above."""
    seen[:] = 0
    together = 0
    for rank in range(len(choices)):
        for ranker in range(len(lengths)):
            if rank < lengths[ranker] and not seen[rankings[ranker, rank]]:
                seen[rankings[ranker, rank]] = 1
                together += 1
        choices[rank] = together


def numbers_alone(
    ranks: Sequence[Sequence[int]] | None,
    teams: Sequence[int] | None,
    lengths: Sequence[int] | None,
    choices: Sequence[int] | None,
    union: int | None,
    relaxed: bool | None,
) -> bytes:
    """The numbers of one list."""
    flat = None if ranks is None else list(chain.from_iterable(ranks))
    lists = flat, teams, lengths, choices
    numbers = [-1 if union is None else union, -1 if relaxed is None else int(relaxed), len(ranks or ())]
    numbers += [-1 if found is None else len(found) for found in lists]
    numbers.append(-1)
    for found in lists:
        if found:
            numbers += found
    return array("i", numbers).tobytes()


def with_latency(numbers: bytes, latency: Sequence[float | None]) -> bytes:
    """The numbers with the seconds that each ranking took, which stand last."""
    floats = array("f", [nan if number is None else number for number in latency])
    start = 4 * _LATENCY
    return numbers[:start] + array("i", [len(floats)]).tobytes() + numbers[start + 4 :] + floats.tobytes()
