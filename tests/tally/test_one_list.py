"""The lift from lists of one ranker each, against the oracles, in all small worlds: faithful, and not fair."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, permutations, product

import numpy as np
import pytest

from interleaf import Interleaving
from interleaf.kernels.arrays import exactly
from interleaf.kernels.jit import plain
from interleaf.methods.registry import resolve
from tests.oracles import exposure, one_list
from tests.oracles.forms import Ranking, Rankings

CURVES = {
    "1 / rank": [Fraction(1, rank) for rank in range(1, 5)],
    "uneven": [Fraction(1), Fraction(9, 10), Fraction(1, 5), Fraction(1, 7)],
}


def small_worlds() -> Iterator[tuple[Rankings, int]]:
    """All pairs of orders of 2 to 4 documents, pairs that lack some of each other's, and three rankers."""
    for size in (2, 3, 4):
        for other in permutations(range(size)):
            for k in range(1, size + 1):
                yield (tuple(range(size)), other), k
    for other in permutations(range(4), 3):
        for k in (1, 2, 3):
            yield ((0, 1, 2), other), k
    for others in product(permutations(range(3)), repeat=2):
        for k in (1, 2, 3):
            yield ((0, 1, 2), *others), k


def values(rankings: Rankings, shown: Ranking, clicked: int, theta: list[Fraction]) -> list[Fraction]:
    """What a click is worth for each ranker, from the probabilities that the kernel of the method gives."""
    teams = (0,) * len(shown)  # whose list it is does not matter
    impression = exactly(Interleaving.of([list(one) for one in rankings], list(shown), "one_list", teams).impression())
    chances = np.full((len(shown) + impression.unshown_ranks.shape[1], len(shown)), Fraction(0))
    kernels = resolve("one_list").method.kernels
    assert kernels.place is not None
    assert plain(kernels.place)(impression, chances, kernels.settings((1,), {}, True))
    share = sum(chance * look for chance, look in zip(chances[clicked], theta, strict=False))
    ranks = impression.ranks[:, clicked].tolist()
    return [theta[rank - 1] / share if 0 < rank <= len(shown) else Fraction(0) for rank in ranks]


@pytest.mark.parametrize("curve", CURVES)
def test_expected_values_are_the_clicks_of_each_ranker_s_own_list_in_all_small_worlds(curve: str) -> None:
    """A click on one document at a time: clicks that depend on rank and document are mixtures of these."""
    theta = CURVES[curve]
    for rankings, k in small_worlds():
        placement = exposure.placement(one_list.distribution(rankings, k))
        expected = {document: [Fraction(0)] * len(rankings) for document in chain(*rankings)}
        for (shown, _), chance in one_list.distribution(rankings, k).items():
            for place, document in enumerate(shown):
                worth = values(rankings, shown, place, theta)
                assert tuple(worth) == exposure.value(rankings, shown, {place}, theta, placement, k)
                expected[document] = [
                    sum_ + chance * theta[place] * one for sum_, one in zip(expected[document], worth, strict=True)
                ]
        for document, sums in expected.items():
            appeal = dict.fromkeys(expected, Fraction(0)) | {document: Fraction(1)}
            assert tuple(sums) == exposure.clicks_alone(rankings, theta, appeal, k), (rankings, k, document)


def test_clicks_on_the_top_rank_whatever_is_there_prefer_a_ranker() -> None:
    """A = 0 1 2, B = 1 2 0, people look at rank r with probability 1 / r: a click always at rank 1 gives A 1/6 more."""
    rankings = ((0, 1, 2), (1, 2, 0))
    gap = Fraction(0)
    for (shown, _), chance in one_list.distribution(rankings, 3).items():
        first, second = values(rankings, shown, 0, CURVES["1 / rank"])
        gap += chance * (first - second)
    assert gap == Fraction(1, 6)


@pytest.mark.parametrize(
    ("lengths", "count", "is_known"),
    [((3, 3), 3, True), ((5, 3), 2, True), ((5, 3), 3, False), ((5, 3), 5, False), ((2, 2), 2, True)],
)
def test_lists_that_may_end_elsewhere_for_the_other_ranker_have_no_probabilities(
    lengths: tuple[int, int], count: int, is_known: bool
) -> None:
    """The answer must not depend on whose list was shown: of rankings of 5 and 3, a list of 3 may be a whole page."""
    first, second = [f"d{number}" for number in range(lengths[0])], [f"d{number}" for number in range(lengths[1])]
    shown = Interleaving.of([first, second], first[:count], "one_list", (0,) * count)
    chances = np.zeros((2 * count, count))
    kernels = resolve("one_list").method.kernels
    assert kernels.place is not None
    assert kernels.place(shown.impression(), chances, kernels.settings((1,), {}, False)) == is_known
