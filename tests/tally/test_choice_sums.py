"""Sums of a choice by epoch: the same in any order and in any parts, and a sample of whole units if there are many."""

import random
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from interleaf.kernels.arrays import Array
from interleaf.tally.bucket_sums import ONE
from interleaf.tally.choice_sums import ChoiceSums, find_sides, pair_scores

NAMES = ("ash", "birch", "cedar", "elm")
# An impression: the unit, the epoch, the rankers in any order, and their credit.
RANKERS = st.permutations(NAMES).map(lambda names: tuple(names[:3]))
IMPRESSION = st.tuples(st.integers(0, 5), st.integers(0, 3), RANKERS, st.tuples(*[st.integers(0, 2)] * 3))
HASHES = np.random.default_rng(1).integers(2**64, size=2000, dtype=np.uint64)


def add(sums: ChoiceSums, impressions: list[Any]) -> ChoiceSums:
    for unit, epoch, rankers, credit in impressions:
        columns = np.array([credit], np.float64)
        epochs = np.array([epoch])
        sums.add_shown(rankers, epochs)
        sums.add_scores(
            rankers, HASHES[[unit]], epochs, pair_scores(columns, linear=True), find_sides(columns, by_ranker=True)
        )
    return sums


def plain(sums: ChoiceSums) -> dict[str, Any]:
    """The tables with names."""
    name = sums.names
    return {
        "cells": {(unit, epoch, name[i], name[j]): (s, n) for unit, epoch, i, j, s, n in sums.cells.rows.tolist()},
        "wins": {(epoch, name[i], name[j]): (won, lost) for epoch, i, j, won, lost in sums.wins.rows.tolist()},
        "shown": {(epoch, name[i], size): lists for epoch, i, size, lists in sums.shown.rows.tolist()},
    }


def count(impressions: list[Any]) -> dict[str, Any]:
    """The same, by plain definitions."""
    scores: Counter[Any] = Counter()
    numbers: Counter[Any] = Counter()
    won: Counter[Any] = Counter()
    shown: Counter[Any] = Counter()
    for unit, epoch, rankers, credit in impressions:
        of = dict(zip(rankers, credit, strict=True))
        for ranker in rankers:
            shown[epoch, ranker, len(rankers)] += 1
        for one, other in combinations(sorted(rankers), 2):
            cell = int(HASHES[unit].astype(np.int64)), epoch, one, other
            scores[cell] += (of[one] - of[other]) * ONE
            numbers[cell] += 1
            won[epoch, one, other] += of[one] > of[other]
            won[epoch, other, one] += of[one] < of[other]
    return {
        "cells": {cell: (scores[cell], number) for cell, number in numbers.items()},
        "wins": {key: (won[key], won[key[0], key[2], key[1]]) for key in won if key[1] < key[2]},
        "shown": dict(shown),
    }


@given(st.lists(IMPRESSION, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_sums_are_the_same_in_any_order_and_in_any_parts(impressions: list[Any], chance: random.Random) -> None:
    expected = count(impressions)
    assert plain(add(ChoiceSums(), impressions)) == expected
    shuffled = chance.sample(impressions, len(impressions))
    middle = chance.randint(0, len(shuffled))
    one, other = add(ChoiceSums(), shuffled[:middle]), add(ChoiceSums(), shuffled[middle:])
    one.merge(other)
    assert plain(one) == expected


def test_with_many_cells_it_holds_whole_units_only() -> None:
    every = [(unit, epoch, NAMES[:3], (1, 0, 0)) for unit in range(300) for epoch in range(4)]
    whole = plain(add(ChoiceSums(), every))
    for parts in (1, 3):
        sums = ChoiceSums(room=1000)
        for part in range(parts):
            sums.merge(add(ChoiceSums(room=1000), every[part::parts]))
        assert sums.level > 0
        assert len(sums.cells.rows) <= 1000
        kept = {unit for unit in HASHES[:300].view(np.int64).tolist() if unit & ((1 << sums.level) - 1) == 0}
        assert kept
        sampled = plain(sums)
        assert sampled["cells"] == {cell: row for cell, row in whole["cells"].items() if cell[0] in kept}
        assert (sampled["wins"], sampled["shown"]) == (whole["wins"], whole["shown"])


def test_tables_can_be_stored() -> None:
    sums = add(ChoiceSums(), [(1, 2, NAMES[:3], (2, 1, 0)), (2, 3, NAMES[1:], (0, 0, 1))])
    again = ChoiceSums()
    again.fill(sums.names, sums.level, sums.arrays())
    assert plain(again) == plain(sums)


def test_a_side_is_unknown_without_owners_and_even_within_rounding() -> None:
    columns: Array = np.array([[np.nan, np.nan], [0.3, 0.1 + 0.2], [0.0, 0.5]])
    assert find_sides(columns, by_ranker=True).tolist() == [[0], [0], [-1]]
    assert find_sides(np.array([[1e-12, -0.5]]), by_ranker=False).tolist() == [[0, -1]]
