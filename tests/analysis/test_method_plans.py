"""Plans of methods: clicks, tilts and tastes against exact sums, power against simulation, and what is refused."""

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import interleaf
from benchmarks import method_plans as benchmark
from benchmarks.exposure import log_of
from interleaf import audit, cli
from interleaf.analysis import planned_traffic
from interleaf.analysis.method_plans import BLIND, DEEP, UNFAIR, MethodPlan, MethodPlans, plan_methods
from interleaf.analysis.planned_traffic import (
    LoggedPages,
    RankedClicks,
    leans_of,
    rankings_of_ranks,
    taste_spread_of,
    traffic_of_rankings,
)
from interleaf.analysis.tilted_world import TiltedWorld
from interleaf.errors import DataError
from interleaf.execution.options import LogOptions
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import METHODS, resolve
from tests.support.log_rows import made_rows, table_of

RARELY = 1e-6
PAIRS = "competitive_pairs", "click"
ALIKE = list("abcdefgh")
MOVED = list("acbdefgh"), list("bcdaefgh"), list("abchdefg")


def runs(moved: int = 150, alike: int = 50) -> dict[str, dict[str, list[str]]]:
    """Rankings of queries: some with a moved document, and some that both rank alike."""
    changed = {f"m{number}": MOVED[number % len(MOVED)] for number in range(moved)}
    same = {f"s{number}": ALIKE for number in range(alike)}
    return {"old": dict.fromkeys([*changed, *same], ALIKE), "new": changed | same}


@pytest.fixture(scope="module")
def plans() -> MethodPlans:
    return plan_methods(rankings=runs(), lift=0.05, k=5)


@pytest.fixture(scope="module")
def pilot() -> Any:
    """A log of people who come once."""
    world = benchmark.PlannedWorld("pilot", 0.1, 6, pilot=3_000)
    return world.log(np.random.default_rng(3))


def plans_of(method: str, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> MethodPlans:
    """The plans of one method alone, which do not depend on those of others."""
    monkeypatch.setattr("interleaf.analysis.method_plans.METHODS", {method: METHODS[method]})
    return plan_methods(method=method, **settings)


def of(plans: MethodPlans, method: str, scheme: str) -> MethodPlan:
    (one,) = (one for one in plans.plans if (one.method, one.scheme) == (method, scheme))
    return one


def units(plans: MethodPlans, method: str, scheme: str) -> int:
    plan = of(plans, method, scheme).plan
    assert plan is not None
    return plan.fixed.units


def patterns(people: RankedClicks, leans: Array, tilt: float) -> Mapping[tuple[bool, ...], float]:
    """The probability of every pattern of clicks on a list, by going through all ways to stop."""
    found: dict[tuple[bool, ...], float] = {}
    for clicks in product((False, True), repeat=len(leans)):
        reading, total = 1.0, 0.0
        for rank, clicked in enumerate(clicks):
            chance = float(people.chances[rank] * np.exp(tilt * leans[rank]))
            if clicked and not any(clicks[rank + 1 :]):
                total += reading * chance * people.stops[rank]
            reading *= chance * (1 - people.stops[rank]) if clicked else 1 - chance
        found[clicks] = total + reading
    return found


LEANS = np.array([0.5, -0.25, 0.0, 0.3])
PEOPLE = RankedClicks(np.array([0.5, 0.3, 0.2, 0.1]), np.array([0.6, 0.3, 0.0, 0.5]))


def test_expected_clicks_are_those_of_all_patterns() -> None:
    exact = patterns(PEOPLE, LEANS, 0.7)
    assert sum(exact.values()) == pytest.approx(1)
    mean = sum(sum(clicks) * share for clicks, share in exact.items())
    assert PEOPLE.compute_mean_clicks(LEANS[None], np.array([4]), np.array([0.7]))[0] == pytest.approx(mean)
    shorter = sum(sum(clicks[:2]) * share for clicks, share in exact.items())
    assert PEOPLE.compute_mean_clicks(LEANS[None], np.array([2]), np.array([0.7]))[0] == pytest.approx(shorter)


def test_drawn_clicks_follow_the_tilt_and_their_ratios_undo_it() -> None:
    rows = 200_000
    drawn = np.tile(LEANS, (rows, 1)), np.full(rows, 4), np.full(rows, 0.7)
    clicks, ratios = PEOPLE.draw(*drawn, np.random.default_rng(1))
    for tilt, weights in ((0.7, np.ones(rows)), (0.0, ratios)):
        for pattern, share in patterns(PEOPLE, LEANS, tilt).items():
            values = (clicks == pattern).all(axis=1) * weights
            assert abs(values.mean() - share) <= 5 * values.std() / rows**0.5 + 1e-9


def test_a_surplus_is_zero_on_average_and_grows_with_the_tilt() -> None:
    rows = np.array([list(clicks) for clicks in patterns(PEOPLE, LEANS, 0.2)])
    arguments = np.tile(LEANS, (len(rows), 1)), np.full(len(rows), 4), np.full(len(rows), 0.2)
    above, changes = PEOPLE.surplus(rows, *arguments)
    assert above @ np.array(list(patterns(PEOPLE, LEANS, 0.2).values())) == pytest.approx(0)
    shifted = [above @ np.array(list(patterns(PEOPLE, LEANS, 0.2 + step).values())) for step in (-1e-5, 1e-5)]
    mean = changes @ np.array(list(patterns(PEOPLE, LEANS, 0.2).values()))
    assert (shifted[1] - shifted[0]) / 2e-5 == pytest.approx(mean, rel=0.01)


def test_chances_and_stops_are_found_in_pages() -> None:
    clicks, _ = PEOPLE.draw(np.zeros((60_000, 4)), np.full(60_000, 4), np.zeros(60_000), np.random.default_rng(2))
    found = RankedClicks.of_pages(clicks, np.full(60_000, 4))
    assert found.chances == pytest.approx(PEOPLE.chances, rel=0.06)
    assert found.stops[:2] == pytest.approx(PEOPLE.stops[:2], abs=0.03)


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_the_spread_of_tastes_is_found_in_visits(spread: float) -> None:
    chance = np.random.default_rng(4)
    people = np.repeat(np.arange(6_000), 4)
    ranks = np.argsort(chance.random((len(people), 2, 6)), axis=2) + 1
    counts = np.full(len(people), 6)
    leans = leans_of(ranks, counts)
    model = RankedClicks(np.full(6, 0.2), np.full(6, 0.3))
    tastes = 0.4 + chance.normal(0, spread, 6_000)
    clicks, _ = model.draw(leans, counts, tastes[people], chance)
    found = taste_spread_of(RankedClicks.of_pages(clicks, counts), clicks, leans, counts, people)
    assert found == pytest.approx(spread, abs=0.15)


def places(rankings: tuple[list[str], list[str]], document: str, k: int) -> list[int]:
    """The ranks of a document in both rankings; below the k-th, the next one."""
    return [min(ranking.index(document) + 1, k + 1) for ranking in rankings]


def lean(rankings: tuple[list[str], list[str]], document: str, k: int) -> float:
    first, second = places(rankings, document, k)
    return (first - second) / (first + second)


def test_the_tilt_gives_the_lift_exactly() -> None:
    world = TiltedWorld(traffic_of_rankings(runs(), 5, [0.4, 0.2], 0.5, 2.0, True), 0.03)
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    means = []
    for ranker in range(2):
        total = 0.0
        for pair, share in (*(((ALIKE, moved), 0.25) for moved in MOVED), ((ALIKE, ALIKE), 0.25)):
            leans = np.array([lean(pair, document, 5) for document in pair[ranker][:5]])
            for node, weight in zip(nodes, weights / weights.sum(), strict=True):
                exact = patterns(world.traffic.clicks, leans, world.tilt + 0.5 * node)
                total += share * weight * sum(sum(clicks) * chance for clicks, chance in exact.items())
        means.append(total)
    assert means[1] / means[0] - 1 == pytest.approx(0.03, abs=1e-4)
    assert world.identical == 0.25


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.claims.fair])
def test_mean_scores_are_those_of_the_audit(method: str) -> None:
    """Two rankings of four documents: the audit goes through all lists and all clicks."""
    pair = list("0123"), list("1302")
    same = {name: {str(query): ranking for query in range(100)} for name, ranking in zip("AB", pair, strict=True)}
    world = TiltedWorld(traffic_of_rankings(same, 3, [0.4, 0.3, 0.2], 0.0, 1.0, True), 0.05)

    def chance(rank: int, document: Any) -> float:
        return float(world.traffic.clicks.chances[rank - 1] * np.exp(world.tilt * lean(pair, document, 3)))

    for scheme, scores in world.scores(resolve(method), 1).items():
        exact = audit.expectation(dict(zip("AB", pair, strict=True)), method, 3, chance, scheme)
        assert abs(scores.mean - float(exact[1, 0])) <= 5 * scores.error


def test_rankings_come_back_from_the_ranks_of_a_log(pilot: Any) -> None:
    world = benchmark.PlannedWorld("pilot", 0.1, 6)
    columns = {name: np.array(pilot.column(name).to_pylist()) for name in ("ranks", "unshown_ranks", "documents")}
    counts = np.full(len(pilot), 10)
    rankings, are_complete = rankings_of_ranks(columns["ranks"], columns["unshown_ranks"], counts)
    assert are_complete.all()
    queries = [int(query[1:]) for query in pilot.column("query").to_pylist()]
    own = world.rankings[queries, :, :10]
    for row in range(0, len(pilot), 97):
        names: dict[int, int] = {}  # of the numbers of documents
        for number, document in zip(rankings[row].ravel().tolist(), own[row].ravel().tolist(), strict=True):
            assert names.setdefault(number, document) == document
        assert len(set(names.values())) == len(names)


def test_alike_pages_are_traffic_without_evidence(plans: MethodPlans, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many clicks on pages that both rank alike, half of the lift is the same difference elsewhere."""
    some = plans_of("team_draft", monkeypatch, rankings=runs(alike=0), lift=0.06, k=5)
    more = plans_of("team_draft", monkeypatch, rankings=runs(alike=150), lift=0.03, k=5)
    assert (some.identical, more.identical, plans.identical) == (0, 0.5, 0.25)
    for scheme in ("click_place", "click_deduped"):
        assert units(more, "team_draft", scheme) == pytest.approx(2 * units(some, "team_draft", scheme), rel=0.08)
        evidence = [of(one, "team_draft", scheme).evidence for one in (some, more)]
        assert evidence[0] == pytest.approx(2 * (evidence[1] or 0), rel=0.08)


def test_the_fewest_people_come_first_and_all_need_fewer_than_clicks(plans: MethodPlans) -> None:
    needed = [one.plan.fixed.units for one in plans.plans if one.plan]
    assert needed == sorted(needed)
    assert max(needed) < plans.ab_units
    assert units(plans, "competitive_pairs", "click") < units(plans, "team_draft", "binary_deduped")
    assert {one.method for one in plans.plans} == {name for name, row in METHODS.items() if row.claims.fair}
    assert plans.current == (str(resolve("team_draft")), "binary_deduped") or plans.current[0] == "competitive_pairs"
    assert f"{plans.current[0]} {plans.current[1]} *" in str(plans)


def test_half_the_lift_takes_four_times_the_people(plans: MethodPlans, monkeypatch: pytest.MonkeyPatch) -> None:
    half = plans_of("competitive_pairs", monkeypatch, rankings=runs(), lift=0.025, k=5)
    for scheme in ("click", "normalized", "binary"):
        ratio = units(half, "competitive_pairs", scheme) / units(plans, "competitive_pairs", scheme)
        assert 3.5 < ratio < 4.5


def test_lasting_tastes_cost_people_who_come_often(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {
        "rankings": runs(),
        "lift": 0.05,
        "k": 5,
        "impressions_per_unit": 4.0,
        "even_activity": True,
    }
    same, differing = (plans_of(PAIRS[0], monkeypatch, taste_spread=spread, **settings) for spread in (0.0, 1.0))
    variances = [one.plan.fixed.variance for plans in (same, differing) if (one := of(plans, *PAIRS)).plan]
    assert variances[1] > 1.05 * variances[0]
    assert "personal preferences have a standard deviation of 1." in str(differing)
    assert "personal preferences" not in str(same)


def test_experiments_of_the_planned_size_have_the_planned_power(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated by the benchmark, with people, clicks and tests of its own; it fails once in a million."""
    simulated = {name: METHODS[name] for name in benchmark.SETTINGS}
    monkeypatch.setattr("interleaf.analysis.method_plans.METHODS", simulated)
    world = benchmark.PlannedWorld("two rankings", 0.12, 6)
    count = 300
    for one in benchmark.achieved(world, count, seed=5):
        low, high = one.plan.power - 0.03, one.plan.power + 0.03
        assert binom.ppf(RARELY, count, low) <= one.shown <= binom.isf(RARELY, count, high)


def test_a_log_marks_its_own_method_and_scheme(pilot: Any) -> None:
    plans = plan_methods(pilot, 0.1, scheme="click_place")
    assert plans.current == ("team_draft", "click_place")
    assert "team_draft click_place *" in str(plans)
    assert of(plans, "probabilistic", "click").reason == DEEP
    assert "20 of" not in plans.source
    assert plans.to_dict()["plans"][0]["plan"]["units"] == plans.plans[0].plan.fixed.units  # type: ignore[union-attr]
    json.dumps(plans.to_dict())


def test_the_log_of_a_method_that_is_not_fair_has_no_plan_for_it() -> None:
    world = benchmark.PlannedWorld("balanced", 0.1, 6, pilot=1_500)
    chance = np.random.default_rng(1)
    queries = chance.integers(0, benchmark.QUERIES, 1_500)
    shown = interleaf.interleave_batch(world.rankings, "balanced", 10, list(range(1_500)), queries=queries)
    people = np.arange(1_500)
    clicks = world.click(chance, shown.documents, queries, people)
    plans = plan_methods(log_of(shown, clicks, people), 0.1)
    assert {one.reason for one in plans.plans if one.method == "balanced"} == {UNFAIR}
    assert UNFAIR in str(plans)


def test_no_plan_rests_on_a_score_that_expects_nothing() -> None:
    assert BLIND
    vague = MethodPlan("team_draft", "click", None, reason=BLIND)
    assert vague.to_dict() == {
        "method": "team_draft",
        "scheme": "click",
        "evidence": None,
        "reason": BLIND,
        "plan": None,
    }


def test_a_long_log_is_read_by_a_part_of_its_people(pilot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_traffic, "MAX_PAGES", 700)
    traffic = planned_traffic.traffic_of_log(pilot, LogOptions(), None)
    assert 350 < len(traffic.rankings) <= 1_400
    halves = [LoggedPages("world", 1, ("A", "B")) for _ in range(2)]
    task = planned_traffic.TrafficTask()
    for pages, part in zip(halves, (pilot.slice(0, 1_500), pilot.slice(1_500)), strict=True):
        for batch in part.combine_chunks().to_batches():
            planned_traffic.count_batch(pages, batch, task, np.zeros(batch.num_rows, np.bool_))
    halves[0].merge(halves[1])
    assert sorted(halves[0].columns()[0]) == sorted(set(halves[0].columns()[0]))  # everybody came once
    assert halves[0].usable == len(pilot)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either a log or the rankings"),
        ({"log": "x.parquet", "rankings": runs()}, "give either a log or the rankings"),
        ({"rankings": runs(), "lift": 0}, "lift is 0"),
        ({"rankings": runs(), "lift": 9.0}, "a lift of +900.0 % cannot be planned for"),
        ({"rankings": runs(moved=0, alike=200)}, "no method can tell them apart"),
        ({"rankings": runs(moved=40, alike=0)}, "40 queries are ranked by both old and new, too few"),
        ({"rankings": {"old": {}}}, "a plan compares two rankers; rankings of 1"),
        ({"rankings": runs(), "click_rates": [1.5]}, "click rates are [1.5]"),
        ({"rankings": runs(), "taste_spread": -1.0}, "taste_spread is -1.0"),
        ({"rankings": runs(), "impressions_per_unit": 0.5}, "impressions_per_unit is 0.5"),
        ({"rankings": runs(), "events": "purchase"}, "leave out 'events'"),
        ({"rankings": runs(), "credit": "credit.json"}, "leave credit out"),
        ({"log": iter([])}, "the log is read twice"),
    ],
)
def test_a_plan_that_cannot_be_made_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as refused:
        plan_methods(**arguments)
    assert message in str(refused.value)


def test_logs_without_rankings_are_refused(pilot: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="give the two rankings of each query as files"):
        plan_methods(pilot.drop_columns(["unshown_ranks"]))
    with pytest.raises(DataError, match="needs rankings, which a tally does not have"):
        plan_methods(interleaf.tally_log(pilot))
    with pytest.raises(DataError, match="60 impressions of 7 people"):
        plan_methods(table_of(made_rows(60)))
    with pytest.raises(DataError, match="made for two rankers; the log compares 3"):
        plan_methods(table_of(made_rows(60, of=3)))


def asked(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(arguments) == 0
    return capsys.readouterr().out


def test_the_command_plans_by_two_runs(
    plans: MethodPlans, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = []
    for name, by_query in runs().items():
        lines = [f"{q} Q0 {d} {n} {9 - n} x" for q, one in by_query.items() for n, d in enumerate(one, 1)]
        (tmp_path / f"{name}.run").write_text("\n".join(lines), encoding="utf-8")
        files.append(f"{name}={tmp_path / name}.run")
    command = ["plan", "--rankings", *files, "-k", "5"]
    assert json.loads(asked([*command, "--format", "json"], capsys)) == json.loads(json.dumps(plans.to_dict()))
    some = plans_of("competitive_pairs", monkeypatch, rankings=runs(), k=5)
    assert asked(command, capsys) == f"{some}\n"
    for more, message in (
        (["--effect", "0.1", "--sessions", "60"], "leave out --effect and --sessions"),
        (["--lift", "9"], "cannot be planned for"),
    ):
        assert cli.main([*command, *more]) == 2
        assert message in capsys.readouterr().err
