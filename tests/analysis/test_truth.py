"""A log of a world whose truth is known: the report tells it, for every method, and is as sure as it may be."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interleaf import methods
from interleaf.analysis.analyze import analyze
from interleaf.methods.registry import METHODS
from interleaf.report.report import Report
from interleaf.simulate.data import synthetic
from interleaf.simulate.people import People
from interleaf.simulate.world import World

DATA = synthetic(queries=30, seed=6)
COMPARING = [row.name for row in methods() if row.schemes]


def world(method: str = "team_draft", rankers: int = 2, units: int = 300, **more: Any) -> World:
    people = People(**({"units": units, "visits_tail": 4.0, "taste_spread": 0.3} | more.pop("people", {})))
    return World(DATA, [2, 3, 15][:rankers], people, method, seed=11, **more)


def reported(made: World, **options: Any) -> Report:
    return analyze(pa.Table.from_batches(list(made.batches())), **options)


@pytest.mark.parametrize("method", COMPARING)
@pytest.mark.parametrize("taste", [2.5, -2.5])
def test_the_verdict_is_the_truth_for_every_method(method: str, taste: float) -> None:
    made = world(method, people={"taste": taste})
    report = reported(made)
    assert made.truth.preferred == ("A" if taste > 0 else "B")
    assert report.verdict.winner == made.truth.preferred
    assert report.verdict.trusted
    assert f"People prefer {made.truth.preferred} to " in report.verdict.sentence


@pytest.mark.parametrize("method", [row.name for row in methods() if row.schemes and row.rankers[1] is None])
def test_the_best_of_three_is_found_by_every_method_that_compares_three(method: str) -> None:
    made = World(DATA, [15, 1, 14], People(units=500, visits_tail=4.0), method, seed=12)
    report = reported(made)
    assert made.truth.preferred == "B"
    assert report.verdict.winner == "B"
    assert report.standing is not None
    assert report.standing.condorcet == "B"
    assert {one.ranker: one.copeland for one in report.standing.strengths}["B"] == 2


@pytest.mark.parametrize("method", COMPARING)
def test_nobody_wins_where_nobody_is_preferred(method: str) -> None:
    """Names are exchanged for half of the units, by a coin each; every unit has its taste all the same."""
    made = world(method, relabel=True, people={"taste_spread": 2.0})
    assert made.truth.preferred is None
    report = reported(made, aa=True)
    assert report.verdict.winner is None
    (check,) = [check for check in report.health if check.code == "aa"]
    assert check.status == "ok"


def test_an_aa_that_shows_something_fails() -> None:
    report = reported(world(people={"taste": 3.0}), aa=True)
    (check,) = [check for check in report.health if check.code == "aa"]
    assert check.status == "failed"
    assert not report.verdict.trusted
    assert report.verdict.sentence.startswith("Do not trust this yet: 1 health check failed. ")


def test_rankers_that_rank_alike_tie() -> None:
    made = World(DATA, [2, 2], People(units=200, visits_tail=4.0), "team_draft", seed=3, ties="shared")
    (found,) = reported(made).comparisons
    assert (found.wins, found.losses, found.estimate) == (0, 0, 0)
    assert found.p_value is None
    assert found.reasons["p_value"]
    report = reported(made, scheme="binary")  # plain ownership, which an A/A looks at
    assert report.comparisons[0].wins
    assert report.verdict.winner is None
    (differ,) = [check for check in report.health if check.code == "rankings_differ"]
    assert (differ.status, differ.figure) == ("warning", "in 0.0 % of lists")


@pytest.mark.parametrize("method", ["team_draft", "probabilistic", "pairwise_preference"])
def test_intervals_shrink_with_the_root_of_the_units(method: str) -> None:
    """Four times the units, half the width; buckets hold several units then, which changes nothing."""
    widths = []
    for units in (500, 2000):
        (found,) = reported(world(method, units=units)).comparisons
        assert found.units is not None
        assert found.units <= units
        assert found.interval is not None
        widths.append(found.interval[1] - found.interval[0])
    assert widths[0] / widths[1] == pytest.approx(2, rel=0.12)


def test_the_truth_that_a_file_carries_is_the_truth_that_is_found(tmp_path: Path) -> None:
    made = world(people={"taste": 2.0})
    made.write(tmp_path / "world.parquet")
    truth = json.loads(pq.read_schema(tmp_path / "world.parquet").metadata[b"interleaf.truth"])
    report = analyze(tmp_path / "world.parquet")
    assert report.verdict.winner == truth["preferred"]
    page = report.to_html(tmp_path / "report.html")
    assert report.verdict.sentence.split(":")[0] in page


def test_a_biased_method_is_called_so_even_where_it_is_right() -> None:
    for method in COMPARING:
        report = reported(world(method, units=60))
        (check,) = [check for check in report.health if check.code == "fair_scoring"]
        fair = bool(METHODS[method].claims.fair)
        if method == "optimized":  # fair where no list was relaxed
            fair = not [one for one in report.health if one.code == "constraints_met"]
        assert check.status == ("ok" if fair else "warning"), method


@pytest.mark.parametrize("method", ["team_draft", "pairwise_preference"])
def test_every_point_in_time_is_what_a_report_would_have_said_then(method: str) -> None:
    source = pa.Table.from_batches(list(world(method, rankers=3, units=80).batches()))
    report = analyze(source)
    times = sorted({point.time for point in report.over_time})
    assert 3 < len(times) <= 64
    for time in (times[0], times[len(times) // 2], times[-2]):
        then = analyze(source.filter(pa.compute.less(source["time"], pa.scalar(time)))).comparisons
        for one in then:
            (point,) = [
                point
                for point in report.over_time
                if (point.time, point.first, point.second) == (time, one.first, one.second)
            ]
            assert point.impressions == one.clicked
            assert point.estimate == pytest.approx(one.estimate, abs=1e-12)
    for one in report.comparisons:
        (last,) = [point for point in report.over_time if (point.first, point.second) == (one.first, one.second)][-1:]
        assert (last.time, last.estimate, last.impressions) == (report.totals.until, one.estimate, one.clicked)
        assert last.interval == one.interval
