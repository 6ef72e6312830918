"""Chance: picks that are uniform and the same in every form, and trees that are exact."""

import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy.stats import chisquare

from interleaf.errors import RandomnessError
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import kernel, plain, start
from interleaf.kernels.randomness import MAX_CHOICES, Key, Keyed, Randomness, Tree, key_of, pick, pick_weighted, toss
from tests.support.paths import VECTORS

ROWS = json.loads((VECTORS / "randomness.json").read_text(encoding="utf-8"))
FALSE_ALARM = 1e-6


def frozen(part: Any) -> Any:
    """JSON has no tuples."""
    return tuple(map(frozen, part)) if isinstance(part, list) else part


@kernel
def draw_mixed(chance: Randomness, kinds: Array, sizes: Array, weights: Array, drawn: Array) -> None:
    """Picks, weighted picks and tosses in turn, from one stream."""
    for at in range(len(kinds)):
        if kinds[at] == 0:
            drawn[at] = pick(chance, sizes[at])
        elif kinds[at] == 1:
            drawn[at] = pick_weighted(chance, weights[at], weights.shape[1])
        else:
            drawn[at] = toss(chance, weights[at, 0])


@kernel
def draw_picks(chance: Randomness, n: int, drawn: Array) -> None:
    for at in range(len(drawn)):
        drawn[at] = pick(chance, n)


@pytest.mark.parametrize("row", ROWS, ids=[str(row["key"]) for row in ROWS])
def test_keys_and_picks_are_what_they_have_always_been(row: dict[str, Any]) -> None:
    """These vectors never change: a list must come out again from its logged key, in every later version."""
    name = key_of(frozen(row["key"]))
    assert name == row["name"]
    chance = Keyed(name)
    assert [str(chance.bits()) for _ in row["bits"]] == row["bits"]
    for n, picks in row["picks"].items():
        chance = Keyed(name)
        assert [chance.pick(int(n)) for _ in picks] == picks
    for weighted in row["weighted"]:
        weights, chance = weighted["weights"], Keyed(name)
        assert [pick_weighted(chance, weights, len(weights)) for _ in weighted["picks"]] == weighted["picks"]
    for probability, tosses in row["tosses"].items():
        chance = Keyed(name)
        assert [chance.toss(float(probability)) for _ in tosses] == tosses


@pytest.mark.parametrize("n", [0, -1, MAX_CHOICES + 1])
def test_a_number_of_choices_that_cannot_be_is_refused(n: int) -> None:
    with pytest.raises(RandomnessError, match=f"cannot pick one of {n} things"):
        Keyed(key_of("any")).pick(n)


@pytest.mark.parametrize("key", ["a", ("b", 2), "k1:" + "0" * 32, "k1:" + "f" * 32])
def test_compiled_and_plain_chance_agree_over_long_mixed_sequences(key: Key) -> None:
    """Choices up to 2^31, among which a draw is often rejected, and weights of every size with zeros among them."""
    length, chance = 5000, np.random.default_rng(7)
    kinds = chance.integers(0, 3, length)
    sizes = np.where(chance.random(length) < 0.5, chance.integers(1, 12, length), chance.integers(2**30, 2**31, length))
    weights = chance.random((length, 5)) ** 9 * (chance.random((length, 5)) < 0.7)
    weights[:, 4] += 1e-12
    compiled, interpreted = np.zeros((2, length), np.int64)
    draw_mixed(start(key_of(key), draw_mixed), kinds, sizes, weights, compiled)
    plain(draw_mixed)(Keyed(key_of(key)), kinds, sizes, weights, interpreted)
    assert compiled.tolist() == interpreted.tolist()


@pytest.mark.parametrize("n", [2, 3, 5, 6, 7, 10, 13, 100, 1000])
def test_picks_are_uniform(n: int) -> None:
    drawn = np.zeros(300_000, np.int64)
    draw_picks(start(key_of(("uniform", n)), draw_picks), n, drawn)
    assert chisquare(np.bincount(drawn, minlength=n)).pvalue > FALSE_ALARM


class Fed(Keyed):
    """The plain generator, fed with words."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(key_of("fed"))
        self.words: Iterator[int] = iter(words)

    def bits(self) -> int:
        return next(self.words)


def elsewhere(value: int, n: int) -> int:
    """A 32-bit word that is accepted, for another pick than this one."""
    return -(-((value + 1) % n * 2**32) // n) + 1


@pytest.mark.parametrize("n", [2, 3, 5, 6, 7, 10, 641, 2**16 + 1, 3 * 2**29, 2**31 - 1, 2**31])
def test_equally_many_words_lead_to_each_pick(n: int) -> None:
    """Of the 2^32 words, those that multiply into one pick are an interval, of which only the first may be redrawn.

    From one word to the next the low half of the product grows by n, and less than n of it is rejected.
    """
    accepted = Counter[int]()
    chosen = range(n) if n < 1000 else [0, 1, 2, n // 3, n // 2, n - 2, n - 1]
    for value in chosen:
        first, after = (-(-(end * 2**32) // n) for end in (value, value + 1))
        chance = Fed([first << 32, elsewhere(value, n) << 32])
        is_redrawn = chance.pick(n) != value
        assert len(list(chance.words)) == (0 if is_redrawn else 1)
        for word in (first + 1, after - 1):
            assert Fed([word << 32 | 0xFFFFFFFF]).pick(n) == value
        accepted[value] = after - first - is_redrawn
    assert set(accepted.values()) == {2**32 // n}


def test_one_choice_costs_no_draw() -> None:
    assert Fed([]).pick(1) == 0


@pytest.mark.parametrize(("word", "picked"), [(0, 1), (2**64 - 1, 3), (2**63 - 2**11, 1), (2**63, 3)])
def test_a_weight_of_zero_is_never_picked(word: int, picked: int) -> None:
    assert pick_weighted(Fed([word]), [0.0, 0.5, 0.0, 0.5, 0.0], 5) == picked


@pytest.mark.parametrize("word", [0, 1, 2**63, 2**64 - 1])
def test_a_toss_that_is_certain_is_certain(word: int) -> None:
    assert Fed([word]).toss(1.0) is True
    assert Fed([word]).toss(0.0) is False


def test_weighted_picks_and_tosses_come_as_often_as_their_weights_say() -> None:
    weights, draws, chance = [0.4, 0.0, 0.35, 0.25], 40_000, Keyed(key_of("weighted"))
    picked = Counter(pick_weighted(chance, weights, 4) for _ in range(draws))
    heads = sum(chance.toss(0.3) for _ in range(draws))
    assert picked[1] == 0
    assert chisquare([picked[i] for i in (0, 2, 3)], [draws * weights[i] for i in (0, 2, 3)]).pvalue > FALSE_ALARM
    assert chisquare([heads, draws - heads], [draws * 0.3, draws * 0.7]).pvalue > FALSE_ALARM


def test_a_tree_gives_every_branch_its_exact_probability() -> None:
    def walk(chance: Randomness) -> tuple[int, ...]:
        first = pick(chance, 3)
        if first == 0:
            return (first,)
        second = pick_weighted(chance, [Fraction(1, 7), 0, 2], 3)
        return first, second, int(toss(chance, Fraction(2, 5)))

    branches = [(result, probability) for probability, result in Tree().branches(walk)]
    third = Fraction(1, 3)
    assert dict(branches) == {(0,): third} | {
        (first, second, heads): third * of_second * of_heads
        for first in (1, 2)
        for second, of_second in ((0, Fraction(1, 15)), (2, Fraction(14, 15)))
        for heads, of_heads in ((1, Fraction(2, 5)), (0, Fraction(3, 5)))
    }
    assert len(branches) == 9


@given(st.lists(st.tuples(st.sampled_from(["pick", "weighted", "toss"]), st.integers(1, 4)), max_size=4))
def test_a_tree_s_probabilities_sum_to_one_and_nothing_impossible_is_visited(steps: list[tuple[str, int]]) -> None:
    def walk(chance: Randomness) -> None:
        for kind, n in steps:
            if kind == "pick":
                assert 0 <= chance.pick(n) < n
            elif kind == "weighted":
                assert pick_weighted(chance, [0, *[0.1 * n] * n, 0.0, Fraction(0)], n + 3) in range(1, n + 1)
            else:
                assert chance.toss(0) is False
                assert chance.toss(1) is True
                chance.toss(1 / n)

    probabilities = [probability for probability, _ in Tree().branches(walk)]
    assume(steps)
    assert sum(probabilities) == 1
    assert all(isinstance(probability, Fraction) and probability > 0 for probability in probabilities)


def test_a_tree_can_be_walked_again() -> None:
    tree = Tree()
    first = list(tree.branches(lambda chance: chance.pick(3)))
    assert list(tree.branches(lambda chance: chance.pick(2))) == [(Fraction(1, 2), 0), (Fraction(1, 2), 1)]
    assert list(tree.branches(lambda chance: chance.pick(3))) == first


def test_a_tree_counts_in_whole_numbers_without_end() -> None:
    """A kernel's integers are numpy's, and a fraction made of those overflows."""

    def walk(chance: Randomness) -> None:
        for _ in range(30):
            pick(chance, np.int64(10))  # type: ignore[arg-type]

    probability, _ = next(Tree().branches(walk))
    assert probability == Fraction(1, 10**30)
