"""A choice of the best of many rankers: its settings, the epochs, the plan of an epoch, and the group of a user."""

import itertools
import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings as limits, strategies as st

from interleaf import Experiment
from interleaf.errors import ExperimentError
from interleaf.experiment.choose import epoch_at, epoch_start, last_known, overlap
from interleaf.experiment.epochs import EpochPlan, RankerExit, RankerGroup, find_group, plan_epoch
from interleaf.kernels.arrays import Array
from tests.oracles import dueling_bandits as oracle
from tests.support.epoch_plans import shares_of
from tests.support.frequencies import check_frequencies

WINS = np.array([[0, 6, 5], [2, 0, 3], [1, 2, 0]])


def experiment(rankers: int = 3, **settings: Any) -> Experiment:
    names = [f"r{place}" for place in range(rankers)]
    return Experiment.of({"name": "best", "rankers": names, "mode": "choose"} | settings)


def plan(settings: Experiment, epoch: int, wins: Array = WINS, exits: tuple[RankerExit, ...] = ()) -> EpochPlan:
    return plan_epoch(settings, 1, epoch, wins, exits, epoch - 2, "")


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"rankers": 2}, "rankers"),
        ({"planned_units": 3}, "planned_units"),
        ({"max_units": 3, "stop_when": ["budget"]}, "max_units"),
        ({"epoch_minutes": 1440, "planned_days": 1}, "epoch_minutes"),
        ({"epoch_minutes": 1440, "planned_days": 2}, "epoch_minutes"),
        ({"epoch_minutes": 60, "planned_days": 2, "window_minutes": 2880}, "epoch_minutes"),
        ({"epoch_minutes": 0}, "epoch_minutes"),
        ({"algorithm": "merge_dts"}, "algorithm"),
        ({"max_mixed": 1}, "max_mixed"),
        ({"max_mixed": 3, "method": "balanced"}, "max_mixed"),
        ({"values": ["click"]}, "values"),
        ({"value_margin": 3.0}, "value_margin"),
        ({"by": ["device"]}, "by"),
        ({"stop_when": ["decided", "alike"]}, "stop_when"),
        ({"margin": 0}, "margin"),
        ({"max_mixed": 3, "method": "probabilistic"}, "scheme"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_the_field(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ExperimentError) as problem:
        experiment(**settings)
    assert problem.value.field == field
    assert len(problem.value.remedy) > 20


@pytest.mark.parametrize(
    "settings",
    [{"epoch_minutes": 30}, {"algorithm": "self_sparring"}, {"max_mixed": 3}, {"planned_days": 9}],
)
@pytest.mark.parametrize("mode", ["compare", "one_list", "aa"])
def test_other_modes_refuse_the_settings_of_a_choice(settings: dict[str, Any], mode: str) -> None:
    (field,) = settings
    about: dict[str, Any] = {"name": "shoes", "rankers": ["old", "new"], "mode": mode}
    usual = getattr(Experiment.of(about), field)
    assert getattr(Experiment.of({**about, field: usual}), field) == usual
    with pytest.raises(ExperimentError, match="choose") as problem:
        Experiment.of(about | settings)
    assert problem.value.field == field


@given(st.floats(5, 10_080), st.floats(0.01, 43_200), st.floats(0.001, 100))
@limits(max_examples=50)
def test_planned_days_have_an_epoch_that_can_use_results(minutes: float, window: float, days: float) -> None:
    given: Any = {"epoch_minutes": minutes, "window_minutes": window}
    unplanned = experiment(**given)
    first = next(epoch for epoch in itertools.count() if last_known(unplanned, epoch) >= 0)
    if epoch_start(unplanned, first) < days * 86_400_000_000:
        assert experiment(**given, planned_days=days).planned_days == days
    else:
        with pytest.raises(ExperimentError, match=re.escape(f"window of {window:g} minutes")):
            experiment(**given, planned_days=days)


def test_a_thousand_rankers_can_be_chosen_from_and_a_hundred_compared() -> None:
    assert experiment(1000).rankers_per_list == 2
    with pytest.raises(ExperimentError):
        Experiment.of({"name": "many", "rankers": [f"r{place}" for place in range(128)]})


def test_the_number_of_an_epoch_follows_from_the_time() -> None:
    hourly = experiment(epoch_minutes=60)
    assert [epoch_at(hourly, time * 60_000_000) for time in (0, 59, 60, 125)] == [0, 0, 1, 2]
    assert epoch_start(hourly, 2) == 120 * 60_000_000


@given(st.floats(0.01, 10_080), st.floats(0.01, 43_200), st.integers(0, 10**6))
def test_every_list_of_a_known_epoch_is_closed_when_the_plan_is_made(minutes: float, window: float, epoch: int) -> None:
    settings = experiment(epoch_minutes=minutes, window_minutes=window)
    known = last_known(settings, epoch)
    latest = epoch_start(settings, known + 1) + overlap(settings)  # of a list of this epoch
    assert latest + settings.window <= epoch_start(settings, epoch)
    assert latest + settings.window > epoch_start(settings, epoch - 1)  # one epoch later would be too late


def test_groups_have_the_exact_distribution_of_the_algorithm() -> None:
    drawn: Counter[tuple[str, ...]] = Counter()
    for epoch in range(1000):
        for group in plan(experiment(), epoch).groups:
            drawn[group.rankers] += group.draws
    expected: defaultdict[tuple[str, ...], Fraction] = defaultdict(Fraction)
    for pair, chance in oracle.double_thompson(WINS.tolist()).items():
        expected[tuple(f"r{place}" for place in sorted(set(pair)))] += chance
    check_frequencies(drawn.elements(), expected)


def test_a_plan_is_the_same_in_every_process_and_as_data() -> None:
    settings = experiment(40)
    wins = np.random.default_rng(1).integers(0, 9, (40, 40))
    once = plan(settings, 7, wins)
    assert plan(settings, 7, wins.copy()) == once
    assert EpochPlan.of(json.loads(json.dumps(once.to_dict()))) == once
    others = [plan(settings, 8, wins), plan(replace(settings, name="other"), 7, wins), plan(settings, 7, wins.T)]
    assert all(other.groups != once.groups for other in others)


@pytest.mark.parametrize("algorithm", ["double_thompson", "self_sparring", "uniform_pairs"])
@pytest.mark.parametrize("mixed", [2, 3, 5])
def test_groups_are_of_rankers_that_are_left_and_not_too_large(algorithm: str, mixed: int) -> None:
    exits = (RankerExit("r3", "worse", "r0", 4, -0.1),)
    settings = experiment(7, algorithm=algorithm, max_mixed=mixed)
    made = plan(settings, 9, np.zeros((7, 7)), exits)
    assert made.draws == 20
    assert made.exits == exits
    for group in made.groups:
        assert 1 <= len(group.rankers) == len(set(group.rankers)) <= mixed
        assert "r3" not in group.rankers
    assert sum(shares_of(made).values()) == pytest.approx(1)


def test_a_tenth_of_the_draws_compares_rankers_even_if_one_leads_by_far() -> None:
    wins = np.array([[500, 900, 900, 900], [10, 0, 0, 0], [10, 0, 0, 0], [10, 0, 0, 0]])
    others: Counter[str] = Counter()
    for epoch in range(300):
        made = plan(experiment(4), epoch, wins)
        alone = sum(group.draws for group in made.groups if len(group.rankers) == 1)
        assert (alone, made.draws) == (18, 20)
        for group in made.groups:
            assert group.rankers[0] == "r0"
            others.update(dict.fromkeys(group.rankers[1:], group.draws))
    check_frequencies(others.elements(), dict.fromkeys(("r1", "r2", "r3"), Fraction(1, 3)))


def test_some_draws_compare_the_leader_with_rankers_that_have_nearly_left() -> None:
    settings, exits = experiment(5), (RankerExit("r1", "worse", "r0", 4, -0.1),)
    nearly = [(0, 3), (0, 4), (0, 2)]
    wins = np.zeros((5, 5))
    wins[0], wins[0, 0] = 900, 500
    made = plan_epoch(settings, 1, 9, wins, exits, 7, "", nearly)
    expected = {("r0",): 17, ("r0", "r3"): 1, ("r0", "r4"): 1, ("r0", "r2"): 1}
    assert {group.rankers: group.draws for group in made.groups} == expected
    unknown = plan_epoch(settings, 1, 9, np.zeros((5, 5)), exits, 7, "", nearly)
    assert set(expected) - {("r0",)} <= {group.rankers for group in unknown.groups}
    assert unknown.draws == 20


def test_uniform_pairs_are_uniform_even_if_a_ranker_has_nearly_left() -> None:
    settings = experiment(4, algorithm="uniform_pairs")
    assert plan_epoch(settings, 1, 9, np.zeros((4, 4)), (), 7, "", [(0, 3)]) == plan(settings, 9, np.zeros((4, 4)))


def test_at_most_a_quarter_of_the_draws_are_of_rankers_that_have_nearly_left() -> None:
    wins = np.zeros((12, 12))
    wins[0], wins[0, 0] = 900, 500
    made = plan_epoch(experiment(12), 1, 9, wins, (), 7, "", [(0, other) for other in range(11, 0, -1)])
    expected = {("r0",): 15} | {("r0", f"r{other}"): 1 for other in range(7, 12)}  # the nearest
    assert {group.rankers: group.draws for group in made.groups} == expected


def test_the_last_ranker_is_shown_alone() -> None:
    exits = tuple(RankerExit(name, "worse", "r0", 4, -0.1) for name in ("r1", "r2"))
    assert plan(experiment(), 9, WINS, exits).groups == (RankerGroup(("r0",), 20),)


def test_users_are_divided_by_the_shares_anew_in_each_epoch() -> None:
    settings = experiment(holdout=0.1)
    groups = (RankerGroup(("r0", "r1"), 12), RankerGroup(("r1", "r2"), 5), RankerGroup(("r2",), 3))
    one, other = (EpochPlan("best", 1, epoch, 0, "", "", groups) for epoch in (1, 2))
    seen: Counter[Any] = Counter()
    for number in range(20_000):
        arm, first = find_group(settings, one, f"user-{number}")
        assert find_group(settings, one, f"user-{number}") == (arm, first)
        again = find_group(settings, other, f"user-{number}")
        if arm == "holdout":
            assert first == ("r0",)
            assert again == (arm, first)
        else:
            seen[first, again[1]] += 1
    shares = {group.rankers: Fraction(group.draws, 20) for group in groups}
    check_frequencies(seen.elements(), {(a, b): shares[a] * shares[b] for a in shares for b in shares})
