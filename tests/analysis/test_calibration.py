"""Levels through the whole pipeline, from simulated people to verdicts; a correct test fails once in a million."""

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, binomtest

from benchmarks import (
    calibration,
    checks,
    counting_clicks,
    exposure,
    guardrails,
    margins,
    method_plans,
    people,
    plans,
    queries,
    schemes,
    watching,
)
from benchmarks.claims import CLAIMS, Effort, Row
from benchmarks.counting_clicks import History, experiments, history
from interleaf.analysis.analyze import analyze, tally_log
from interleaf.clicks import Cascade
from interleaf.kernels.buckets import BUCKETS, UNIT, hash_of
from interleaf.methods.registry import methods, resolve
from interleaf.report.comparisons import RankerPairs
from interleaf.report.list_checks import bias
from interleaf.report.weights import max_weight, weigh
from interleaf.simulate import People, World, synthetic
from interleaf.stats import looks, sequence
from interleaf.stats.compare import Estimate, estimates
from interleaf.tally import Tally
from interleaf.tally.units import CLICKED, SUMS

RARELY = 1e-6
MOST = 0.065  # a nominal 5 %, and one and a half points
LOOKS = 20


def at_most(level: float, runs: int) -> int:
    """A count that a test of this level exceeds once in a million."""
    return int(binom.isf(RARELY, runs, level))


@cache
def histories(spread: float, units: int, runs: int, number: int) -> list[History]:
    made = counting_clicks.world(0, spread, seed=1)
    return [history(log, number, "click") for log in experiments(made, units, runs)]


def test_a_look_has_the_figures_of_the_report() -> None:
    log = next(experiments(counting_clicks.world(0.2, 0.5, seed=2), units=120, runs=1))
    seen = history(log, LOOKS)
    found = analyze(log, threads=1).comparisons[0]
    last = seen[-1]
    assert last == history(log, 1)[0]
    assert (last.clicked, last.units, last.estimate.value) == (found.clicked, found.units, found.estimate)
    assert last.total / last.clicked == found.per_search_estimate
    assert sequence.anytime(last.estimate, last.units, None).p_value == found.p_value
    (once,) = analyze(log, threads=1, look=(1, 1)).comparisons
    assert last.estimate.interval == pytest.approx(once.interval, rel=1e-3)  # Student's t, and its deviate
    assert found.z_score is not None
    assert counting_clicks.impression_test(last) == (abs(found.z_score) > counting_clicks.EDGE)
    assert counting_clicks.clustered_test(last) == (once.p_value is not None and once.p_value < 0.05)
    boundaries = looks.obrien_fleming(looks.space_evenly(LOOKS))
    reached = [abs(one.estimate.deviate or 0.0) >= boundary for one, boundary in zip(seen, boundaries, strict=True)]
    assert counting_clicks.planned_test(seen) == any(reached)


def test_raw_clicks_are_the_clicks_on_the_documents_of_each_team() -> None:
    log = next(experiments(counting_clicks.world(0.2, 0.5, seed=2), units=60, runs=1))
    owners = [row["teams"][rank - 1] for row in log.to_pylist() for rank in {event["rank"] for event in row["events"]}]
    (seen,) = history(log, 1, "click")
    assert (seen.total, seen.clicks) == (owners.count(0) - owners.count(1), len(owners))


def test_experiments_are_the_people_of_the_world_one_after_the_other() -> None:
    made = counting_clicks.world(0, 0.5, seed=1)
    logs = list(experiments(made, units=10, runs=3))
    people = [set(log.column("unit").to_pylist()) for log in logs]
    assert people == [{f"u{number}" for number in range(start, start + 10)} for start in (0, 10, 20)]
    assert sum(log.num_rows for log in logs) == sum(batch.num_rows for batch in made.batches(units=30))
    assert all(log.column("time").to_pylist() == sorted(log.column("time").to_pylist()) for log in logs)


def test_where_nobody_prefers_anything_one_look_keeps_its_level_in_every_way() -> None:
    runs = 300
    found = [seen[-1] for seen in histories(0.0, 200, runs, 1)]
    for test in (counting_clicks.click_test, counting_clicks.impression_test, counting_clicks.clustered_test):
        assert sum(map(test, found)) <= at_most(MOST, runs)


def test_where_people_have_tastes_only_clustered_tests_keep_their_level() -> None:
    runs, units = 150, 300
    found = histories(2.0, units, runs, 10)
    assert sum(counting_clicks.clustered_test(seen[-1]) for seen in found) <= at_most(MOST, runs)
    assert sum(map(counting_clicks.planned_test, found)) <= at_most(MOST, runs)
    assert sum(counting_clicks.watched(seen, units) for seen in found) <= at_most(0.05, runs)
    assert sum(counting_clicks.impression_test(seen[-1]) for seen in found) > 0.25 * runs
    assert sum(counting_clicks.click_test(seen[-1]) for seen in found) > 0.25 * runs
    assert sum(any(map(counting_clicks.click_test, seen)) for seen in found) > 0.35 * runs
    assert sum(any(map(counting_clicks.clustered_test, seen)) for seen in found) > 0.1 * runs


def comparing() -> list[str]:
    return [row.name for row in methods() if row.schemes]


def people_alike(method: str, tastes: bool) -> World:
    """Clicks do not depend on grades; where people have tastes, the rankers exchange their names by a coin for each."""
    data = synthetic(queries=50, documents=8, features=2, grades=2, seed=3)
    people = People(taste_spread=0.5 * tastes, clicks=Cascade(click=(0.3, 0.3), stop=(0.3, 0.3)))
    return World(data, [1, 2], people, method, k=5, seed=4, relabel=tastes)


@cache
def experiments_of(units: int, runs: int) -> dict[int, int]:
    """The number of the experiment of each person, by the hash of the name."""
    return {hash_of(UNIT, f"u{number}"): number // units for number in range(units * runs)}


def estimates_by_experiment(tally: Tally, units: int, runs: int) -> tuple[Estimate, ...]:
    """What a report of each experiment estimates, from the tally of all of them."""
    pairs, linear = RankerPairs.of(tally.about.rankers, None), tally.about.linear
    scores, weights = np.zeros((BUCKETS, runs)), np.zeros((BUCKETS, runs), np.int64)
    hashes, rows = tally.units.entries
    owners = np.array(list(map(experiments_of(units, runs).__getitem__, hashes.tolist())))
    for number in range(runs):
        own = owners == number
        clicked, sums = rows[own, CLICKED], rows[own, SUMS:]
        voices, weights[:, number] = weigh(hashes[own], clicked, sums, max_weight(int((clicked > 0).sum())))
        scores[:, number] = pairs.weighted_scores(voices, weights[:, number], linear)[:, 0]
    return estimates(scores, weights, 0.95)


def false_positives(method: str, tastes: bool, units: int, runs: int) -> dict[str, int]:
    """By scheme, how many of so many experiments show a difference that is not there."""
    found = {}
    logs = list(experiments(people_alike(method, tastes), units, runs))
    whole = pa.concat_tables(logs).combine_chunks()
    for scheme in resolve(method).method.schemes:
        tally = tally_log(whole, scheme, threads=1)
        seen = estimates_by_experiment(tally, units, runs)
        assert seen[-1].interval == pytest.approx(history(logs[-1], 1, scheme)[0].estimate.interval)
        found[scheme] = sum(one.interval is not None and not one.interval[0] <= 0 <= one.interval[1] for one in seen)
    return found


@pytest.mark.parametrize("method", comparing())
def test_every_method_and_scheme_keeps_its_level_in_a_relabelled_comparison(method: str) -> None:
    units, runs = 60, 100
    found = false_positives(method, True, units, runs)
    assert {scheme: wrong for scheme, wrong in found.items() if wrong > at_most(MOST, runs)} == {}


@pytest.mark.parametrize("method", comparing())
def test_what_the_report_calls_unbiased_keeps_its_level_where_clicks_depend_on_the_rank_only(method: str) -> None:
    units, runs = 60, 100
    found = false_positives(method, False, units, runs)
    fair = {scheme: wrong for scheme, wrong in found.items() if not bias(method, method, scheme)}
    assert {scheme: wrong for scheme, wrong in fair.items() if wrong > at_most(MOST, runs)} == {}


@pytest.mark.parametrize("method", schemes.SCHEMES)
def test_people_of_lists_with_tastes_have_lasting_preferences_whose_mean_is_zero(method: str) -> None:
    units = 1_500
    person, scores = schemes.score_visits(np.random.default_rng(5), method, np.full(units, 30))
    visits = np.bincount(person, minlength=units)
    for values in scores.values():
        means = np.bincount(person, values, units) / visits
        error = means.std() / units**0.5
        assert abs(means.mean()) < 5 * error
        drawn_again = np.bincount(person, np.random.default_rng(6).permutation(values), units) / visits
        assert means.var() > 3 * drawn_again.var()  # people differ far more than their visits


def test_experiments_are_scored_in_parts_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemes, "AT_ONCE", 500)
    visits = np.random.default_rng(1).integers(1, 9, (40, 20))
    parts = list(schemes.experiments(np.random.default_rng(2), "competitive_pairs", visits))
    assert sum(part.number for part in parts) == 40
    assert len(parts) > 5
    for part in parts:
        assert part.person.max() < 20 * part.number
        assert {len(values) for values in part.scores.values()} == {len(part.person)}


TINY = Effort(20, 4, 1, (30,), (30,))


def test_the_table_has_rows_of_every_claim(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """From small worlds, so that nobody waits."""
    monkeypatch.setattr(calibration, "QUICK", TINY)
    monkeypatch.setattr(people, "WORLDS", [people.WORLDS[1], people.WORLDS[-1]])  # lasting tastes; heavy users
    for module in (people, schemes, guardrails, margins):
        monkeypatch.setattr(module, "LOOKS", 3)
    monkeypatch.setattr(people, "EFFECTS", people.EFFECTS[:1])  # a smaller one takes more users to show
    monkeypatch.setattr(people, "CALIBRATION_UNITS", 10_000)
    monkeypatch.setattr("benchmarks.values.EVERYBODY", 20_000)
    monkeypatch.setattr(plans, "WORLDS", plans.WORLDS[-3:])
    monkeypatch.setattr(method_plans, "WORLDS", method_plans.WORLDS[-1:])
    monkeypatch.setattr(method_plans, "SETTINGS", {"competitive_pairs": ("click",)})
    monkeypatch.setattr("interleaf.analysis.method_plans.METHODS", {})  # that one is planned as the current one
    monkeypatch.setattr(queries, "WORLDS", queries.WORLDS[:2])
    monkeypatch.setattr(watching, "WORLDS", {"one visit": watching.WORLDS["one visit"]})
    monkeypatch.setattr(exposure, "KINDS", exposure.KINDS[:1])
    monkeypatch.setattr(checks, "SOUND", dict(list(checks.SOUND.items())[:1]))
    monkeypatch.setattr(checks, "FAULTS", dict(list(checks.FAULTS.items())[:1]))
    for claim in CLAIMS:
        monkeypatch.setattr("sys.argv", ["calibration", "--only", claim.__name__])
        calibration.main()
        printed = capsys.readouterr().out.splitlines()
        assert len(printed) > 4, claim.__name__
        assert " rows, " in printed[-1]


@pytest.mark.parametrize(
    ("happened", "limits", "answer"),
    [
        (50, (0.04, 0.06), "holds"),
        (64, (0.04, 0.06), "holds"),  # 6.4 %, and 6 % is in its interval
        (90, (0.04, 0.06), "misses"),
        (10, (0.04, 0.06), "misses, to the safe side"),
        (0, (0.0, 0.05), "holds"),
        (1_000, (0.8, 1.0), "holds"),
        (700, (0.0, 1.0), ""),
    ],
)
def test_a_claim_misses_only_where_its_exact_interval_does(
    happened: int, limits: tuple[float, float], answer: str
) -> None:
    row = Row("claim", "world", "100", *limits, happened, 1_000)
    assert row.answer == answer
    exact = binomtest(happened, 1_000).proportion_ci(method="exact")
    assert row.exact == pytest.approx((exact.low, exact.high))


def test_a_power_below_its_limit_misses() -> None:
    assert Row("claim", "world", "100", 0.8, 1.0, 700, 1_000, safe_below=False).answer == "misses"


@pytest.mark.slow
@pytest.mark.parametrize("units", [30, 100, 200])
@pytest.mark.parametrize("method", comparing())
def test_levels_of_every_method_at_several_sizes(method: str, units: int) -> None:
    runs = 500
    for tastes in (True, False):
        found = false_positives(method, tastes, units, runs)
        fair = {scheme: wrong for scheme, wrong in found.items() if tastes or not bias(method, method, scheme)}
        assert {scheme: wrong for scheme, wrong in fair.items() if wrong > at_most(MOST, runs)} == {}


@pytest.mark.slow
def test_the_tables_of_the_page_keep_their_levels() -> None:
    runs = 400
    found = histories(counting_clicks.SPREAD, counting_clicks.UNITS, runs, LOOKS)
    assert sum(counting_clicks.clustered_test(seen[-1]) for seen in found) <= at_most(MOST, runs)
    assert sum(map(counting_clicks.planned_test, found)) <= at_most(MOST, runs)
    for planned in (counting_clicks.UNITS, None):
        assert sum(counting_clicks.watched(seen, planned) for seen in found) <= at_most(0.05, runs)
