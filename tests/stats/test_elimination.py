"""Who leads, who leaves and what traffic costs, against plain definitions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf.kernels.arrays import Array
from interleaf.stats import compare, sequence
from interleaf.stats.elimination import (
    NEAR,
    NO_GAIN,
    WORSE,
    Against,
    Comparisons,
    LeaderSums,
    PairMeans,
    compare_jointly,
    estimate_regret,
    find_leader,
    find_leaving,
    find_nearly_leaving,
)
from interleaf.stats.multiplicity import holm

BUCKETS = 200


def leader_sums(means: list[float], size: int = BUCKETS, seed: int = 1) -> LeaderSums:
    """Each bucket has one unit, with one score of every ranker against the first one, which leads."""
    noise = np.random.default_rng(seed).normal(0, 1, (size, len(means)))
    sums = np.array(means) + noise - noise.mean(axis=0)
    counts = np.ones((size, len(means)))
    sums[:, 0] = counts[:, 0] = 0
    return LeaderSums(sums, counts, counts.sum(axis=0).astype(np.int64))


def compare_all(sums: LeaderSums, rankers: int, worse: int = 0) -> list[Against]:
    """All others against the first ranker, which leads."""
    others, comparisons = range(1, sums.sums.shape[1]), Comparisons(rankers, 0.95)
    comparisons.update(sums, others)
    return comparisons.correct(others, worse)


@given(st.integers(2, 6), st.randoms(use_true_random=False))
def test_the_leader_beats_most_others(rankers: int, chance: object) -> None:
    means = np.random.default_rng(chance.randrange(2**32)).integers(-2, 3, (rankers, rankers))  # type: ignore[attr-defined]
    means = np.triu(means, 1) - np.triu(means, 1).T
    counts = np.random.default_rng(chance.randrange(2**32)).integers(0, 30, (rankers, rankers))  # type: ignore[attr-defined]
    counts = np.triu(counts, 1) + np.triu(counts, 1).T
    means *= counts > 0
    left = sorted(chance.sample(range(rankers), chance.randint(1, rankers)))  # type: ignore[attr-defined]

    def copeland(one: int) -> Fraction:
        parts = [Fraction(int(min(counts[one, other], 10)), 10) * int(np.sign(means[one, other])) for other in left]
        return sum(parts, Fraction(0))

    leader = find_leader(PairMeans.of(means * counts, counts), left)
    best = [one for one in left if copeland(one) == max(map(copeland, left))]
    sums = {one: int(means[one, left].sum()) for one in best}
    assert leader == min(one for one in best if sums[one] == max(sums.values()))


@given(st.lists(st.floats(-0.6, 0.3), min_size=1, max_size=6), st.integers(0, 5))
def test_levels_are_those_of_holm_over_all_pairs_of_the_start(means: list[float], gone: int) -> None:
    sums, rankers = leader_sums([0.0, *means]), len(means) + 1
    against = compare_all(sums, rankers + gone, gone)
    every = (rankers + gone) * (rankers + gone - 1) // 2
    estimates = compare.estimates(sums.sums[:, 1:], sums.counts[:, 1:])
    p_values = [one.p_value for one in sequence.anytimes(estimates, BUCKETS, None)]
    # Those that left are rejected for sure, and all other pairs are not rejected.
    whole = holm([0.0] * gone + p_values + [1.0] * (every - gone - len(p_values)))[gone : gone + len(p_values)]
    for one, adjusted in zip(against, whole, strict=True):
        assert one.interval is not None
        assert adjusted is not None
        if abs(adjusted - 0.05) > 1e-6:
            assert (one.interval[1] < 0 or one.interval[0] > 0) == (adjusted <= 0.05)


def test_a_joint_interval_holds_for_all_pairs() -> None:
    sums = leader_sums([0.0, -0.3, -0.31, 0.0])
    for one in compare_all(sums, 4):
        alone = sequence.anytime(
            compare.estimate(sums.sums[:, one.ranker], sums.counts[:, one.ranker]), BUCKETS, None, 1 - 0.05 / 6
        )
        assert one.joint == pytest.approx(alone.interval)
        assert one.estimate == pytest.approx(float(sums.sums[:, one.ranker].mean()))


def against(interval: tuple[float, float] | None, joint: tuple[float, float] | None) -> Against:
    return Against(4, -0.1, interval, joint, 50)


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (against((-0.3, -0.01), (-0.4, 0.02)), WORSE),
        (against((-0.3, 0.005), (-0.4, 0.009)), NO_GAIN),
        (against((-0.3, 0.005), (-0.4, 0.02)), None),  # Holm's interval proves no statement on the margin
        (against((0.1, 0.3), (0.05, 0.4)), None),  # it beats the leader
        (against(None, None), None),
    ],
)
def test_who_leaves(one: Against, code: str | None) -> None:
    assert [leaving.code for leaving in find_leaving([one], 0.01)] == ([code] if code else [])


@pytest.mark.parametrize("upper", [0.05, 0.24, 0.26, 0.6])
def test_a_ranker_has_nearly_left_if_some_more_units_would_do(upper: float) -> None:
    one = Against(4, -0.2, (-0.4 - upper, upper), None, 50)
    with_more_units = -0.2 + (upper + 0.2) * (50 / (50 + NEAR)) ** 0.5
    assert find_nearly_leaving([one]) == ([4] if with_more_units < 0 else [])
    nearer = Against(5, -0.2, (-0.41, 0.01), None, 50)
    assert find_nearly_leaving([one, nearer, against((-0.3, -0.01), None), against(None, None)])[0] == 5


def test_nobody_leaves_without_results() -> None:
    empty = LeaderSums(np.zeros((BUCKETS, 3)), np.zeros((BUCKETS, 3)), np.zeros(3, np.int64))
    found = compare_jointly(empty, [1, 2], 3, 0.95)
    assert [(one.joint.interval, bool(one.joint.reason), one.units) for one in found] == [(None, True, 0)] * 2
    assert find_leaving(compare_all(empty, 3), 0.01) == []


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 100), st.booleans()), min_size=2, max_size=8))
def test_regret_is_the_mean_gap_of_what_was_shown(rows: list[tuple[float, float, bool]]) -> None:
    gaps = np.array([gap if known else np.nan for gap, _, known in rows])
    shown: Array = np.array([lists for _, lists, _ in rows])
    known = [(gap, lists) for gap, lists, is_known in rows if is_known]
    regret = estimate_regret(gaps, shown)
    if len(known) < 2 or not any(lists for _, lists in known):
        assert regret is None
        return
    total = sum(lists for _, lists in known)
    even = sum(gap * total / len(known) for gap, _ in known)
    assert regret == pytest.approx((sum(gap * lists for gap, lists in known), even))


def alike(score: float, units: int) -> Against:
    """A ranker with the same score of every unit, each in its own bucket, against the leader of 40 rankers."""
    sums = np.zeros((1024, 2))
    sums[:units, 1] = score
    counts = np.zeros((1024, 2))
    counts[:units, 1] = 1
    (one,) = compare_all(LeaderSums(sums, counts, np.array([0, units])), 40)
    return one


@pytest.mark.parametrize("size", [0.02, 0.1, 0.3, 1.0])
def test_a_ranker_that_loses_every_list_leaves_only_if_chance_cannot_explain_it(size: float) -> None:
    codes: dict[int, str] = {}
    for units in np.geomspace(2, 1024, 50).astype(int).tolist():
        codes.update((units, leaving.code) for leaving in find_leaving([alike(-size, units)], 0.01))
    # If it wins by 1 with probability p, and loses by `size` otherwise, nobody sees a win with probability (1 - p)^n.
    # The statements are false from the p on with which the mean is 0, and 0.01.
    for units, code in codes.items():
        mean = 0.0 if code == WORSE else 0.01
        assert ((1 - mean) / (1 + size)) ** units <= 0.05 / 780
    assert codes[1024] == WORSE
    assert find_leaving([alike(size, 1024)], 0.01) == []


def test_rankers_that_are_always_even_have_an_interval_around_zero() -> None:
    one = alike(0.0, 100)
    assert one.joint is not None
    assert one.joint[0] < -0.01 < 0.01 < one.joint[1]
    assert alike(-1.0, 1).interval is None
