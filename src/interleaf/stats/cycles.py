"""A beats B beats C beats A: preferences that go round in a circle, by name and never hidden."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from interleaf.methods.arrays import Array

Cycle = tuple[str, ...]


def cycles(rankers: Sequence[str], beats: Array) -> tuple[Cycle, ...]:
    """All cycles of three rankers; without any of these, one for each group of rankers that beat each other around.

    `beats[i, j]`: the ranker i beats j. A cycle starts with its ranker that is named first.

    >>> beats = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], bool)
    >>> cycles(["A", "B", "C"], beats)
    (('A', 'B', 'C'),)
    """
    count = len(rankers)
    triples: list[tuple[int, ...]] = [
        (a, b, c)
        for a in range(count)
        for b, c in permutations(range(a + 1, count), 2)
        if beats[a, b] and beats[b, c] and beats[c, a]
    ]
    found = triples or [_shortest(group[0], beats) for group in groups(beats) if len(group) > 1]
    return tuple(tuple(rankers[place] for place in cycle) for cycle in found)


def sentence(cycle: Cycle) -> str:
    """The cycle in words.

    >>> sentence(("A", "B", "C"))
    'A beats B beats C beats A'
    """
    return " beats ".join([*cycle, cycle[0]])


def groups(beats: Array) -> list[list[int]]:
    """Strongly connected groups: within one, everybody beats everybody else by some way."""
    reach = beats.astype(bool) | np.eye(len(beats), dtype=bool)
    for _ in range(len(beats).bit_length()):
        reach = (reach.astype(np.int64) @ reach.astype(np.int64)) > 0
    mutual = reach & reach.T
    return [
        [int(other) for other in np.flatnonzero(mutual[place])]
        for place in range(len(beats))
        if not mutual[place, :place].any()
    ]


def _shortest(start: int, beats: Array) -> tuple[int, ...]:
    """A shortest way from a ranker back to itself, level by level."""
    ways: list[tuple[int, ...]] = [(start,)]
    seen = {start}
    while True:
        longer: list[tuple[int, ...]] = []
        for way in ways:
            if beats[way[-1], start]:
                return way
            for place in np.flatnonzero(beats[way[-1]]):
                if int(place) not in seen:
                    seen.add(int(place))
                    longer.append((*way, int(place)))
        ways = longer
