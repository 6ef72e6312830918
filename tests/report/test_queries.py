"""Queries repeat, too: sums by query, errors clustered by unit and query, and the result without one query."""

from __future__ import annotations

import json
from collections import defaultdict
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from benchmarks.queries import World, both, wrong
from interleaf import DataError, analyze, tally_log
from interleaf.cli import main
from interleaf.report.model import OK, SKIPPED, WARNING, Check
from interleaf.report.report import Report
from interleaf.report.weights import FEW_QUERIES, QueryCells, max_weight, with_queries
from interleaf.stats.compare import estimate
from interleaf.tally import Tally
from interleaf.tally.bucket_sums import ONE
from tests.oracles import logs as log_oracle
from tests.report.test_weights_of_people import visit
from tests.support.log_rows import Row, table_of

Asked = tuple[int, int, int]  # a unit, a query, and whom the impression favours


def rows_of(asked: list[Asked]) -> list[Row]:
    return [visit(number, unit, side) | {"query": f"q {query}"} for number, (unit, query, side) in enumerate(asked)]


def check_of(report: Report) -> Check:
    return next(check for check in report.health if check.code == "holds_without_query")


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(-1, 1)), min_size=3, max_size=60),
)
def test_errors_by_unit_and_query_are_those_of_pairs_of_rows(asked: list[Asked]) -> None:
    """The oracle adds the products of residuals over all pairs of rows of different units with the same query."""
    visits: dict[int, int] = defaultdict(int)
    for unit, _, _ in asked:
        visits[unit] += 1
    limit = log_oracle.max_weight(len(visits))
    factor = {unit: Fraction(min(number, limit), number) for unit, number in visits.items()}
    total = sum(factor[unit] for unit, _, _ in asked)
    mean = sum(factor[unit] * side for unit, _, side in asked) / total
    share: dict[int, Fraction] = defaultdict(Fraction)
    for unit, query, _ in asked:
        share[query] += factor[unit]
    added = sum(
        factor[one[0]] * (one[2] - mean) * factor[other[0]] * (other[2] - mean) / (total - share[one[1]]) ** 2
        for one, other in product(asked, asked)
        if one[0] != other[0] and one[1] == other[1] and total != share[one[1]]
    )
    cells: dict[tuple[int, int], list[int]] = defaultdict(list)
    for unit, query, side in asked:
        cells[unit, query].append(side)
    units, unit_of = np.unique([unit for unit, _ in cells], return_inverse=True)
    numbers, query_of = np.unique([query for _, query in cells], return_inverse=True)
    sides = np.array([sum(each) for each in cells.values()])
    counts = np.array([len(each) for each in cells.values()])
    hashes = units.astype(np.uint64) << np.uint64(34)
    found = QueryCells(hashes, numbers, unit_of, query_of, counts, sides[:, None] * ONE, max_weight(len(units)))
    sums, weights, count = found.weighted_sums()
    assert count == len(units)
    by_unit = estimate(sums[:, 0] / ONE, weights)
    by_both = with_queries([by_unit], found, sides[:, None].astype(float), 0.95)[0]
    if by_unit.error is None:
        assert by_both == by_unit
        return
    effective = min(by_unit.effective_units or 0, float(total**2 / sum(one**2 for one in share.values())))
    if effective < 2:
        assert by_both.interval is None
    else:
        assert by_both.error == pytest.approx((by_unit.error**2 + max(0.0, float(added))) ** 0.5, abs=1e-7)
        assert (by_both.error or 0.0) >= by_unit.error


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(-1, 1)), min_size=2, max_size=40),
    st.integers(1, 39),
)
def test_sums_by_query_add_up(asked: list[Asked], cut: int) -> None:
    rows = rows_of(asked)
    whole = tally_log(table_of(rows), threads=1)
    parts = [tally_log(table_of(part), threads=1) for part in (rows[cut:], rows[:cut]) if part]
    added = parts[0] + parts[1] if len(parts) == 2 else parts[0]
    assert added.queries.hashes.tolist() == whole.queries.hashes.tolist()
    assert added.queries.values.tolist() == whole.queries.values.tolist()
    assert whole.queries.size == len({(unit, query) for unit, query, _ in asked})


def test_sums_by_query_are_kept_in_the_file(tmp_path: Path) -> None:
    tally = tally_log(table_of(rows_of([(unit, unit % 3, 1) for unit in range(30)])))
    tally.save(tmp_path / "a.tally")
    kept = Tally.load(tmp_path / "a.tally")
    assert kept.queries.hashes.tolist() == tally.queries.hashes.tolist()
    assert kept.queries.size == 30


def one_query_decides() -> list[Asked]:
    """400 people favour candidate for query 0 and nobody for the others."""
    return [(unit, 0, -1 if unit % 4 else 1) for unit in range(400)] + [
        (unit, 1 + unit % 7, 1 if unit % 2 else -1) for unit in range(400, 800)
    ]


def test_a_verdict_that_one_query_makes_is_marked() -> None:
    asked = one_query_decides()
    found = analyze(table_of(rows_of(asked)))
    check = check_of(found)
    assert found.verdict.winner == "candidate"
    assert check.status == WARNING
    assert "'q 0' (50.0 % of impressions" in check.figure
    (rest,) = analyze(table_of(rows_of([one for one in asked if one[1] != 0]))).comparisons
    assert rest.winner is None


def test_a_verdict_that_all_queries_make_holds_without_one() -> None:
    asked = [(unit, unit % 40, 1 if unit % 4 else -1) for unit in range(800)]
    found = analyze(table_of(rows_of(asked)))
    assert found.verdict.winner == "production"
    assert check_of(found).status == OK


@pytest.fixture(scope="module")
def of_twelve_queries() -> pa.Table:
    """Units have several queries, so that their weights change, too, if a query is left out."""
    chance = np.random.default_rng(4)
    asked = [
        (unit, int(chance.integers(0, 12)), 1 if chance.random() < 0.75 else -1)
        for unit in range(300)
        for _ in range(int(chance.integers(1, 25)))
    ]
    return table_of(rows_of(asked))


@pytest.mark.parametrize("look", [None, (1, 1), (1, 2)])
def test_the_result_without_a_query_is_that_of_the_log_without_it(
    of_twelve_queries: pa.Table, look: tuple[int, int] | None
) -> None:
    def without(query: int) -> Report:
        return analyze(of_twelve_queries.filter(pc.field("query") != f"q {query}"), look=look)

    check = check_of(analyze(of_twelve_queries, look=look))
    query = int(check.figure.split("'q ")[1].split("'")[0])
    (rest,) = without(query).comparisons
    assert rest.estimate is not None
    assert rest.interval is not None
    assert f"is {rest.estimate:+.3f} ({rest.interval[0]:+.3f} to {rest.interval[1]:+.3f})" in check.figure
    others = [without(other).comparisons[0].estimate for other in range(12)]
    assert min(one for one in others if one is not None) == pytest.approx(rest.estimate)


def test_without_queries_nothing_is_said_of_them() -> None:
    rows = [visit(number, number, 1 if number % 4 else -1) | {"query": None} for number in range(400)]
    found = analyze(table_of(rows))
    assert (check_of(found).status, found.population) == (SKIPPED, "")
    with pytest.raises(DataError, match="errors cannot be clustered by query: the log has no queries"):
        analyze(table_of(rows), cluster="unit_and_query")


def test_errors_clustered_by_query_make_the_interval_wider() -> None:
    table = table_of(rows_of(one_query_decides()))
    one, both_ways = analyze(table), analyze(table, cluster="unit_and_query")
    assert abs(one.comparisons[0].estimate or 0) == abs(both_ways.comparisons[0].estimate or 1)
    assert (both_ways.comparisons[0].error or 0) > 1.5 * (one.comparisons[0].error or 1)
    assert one.population == "valid for the queries in this log"
    assert both_ways.population == "valid for queries like these"
    assert "valid for queries like these" in str(both_ways)
    assert both_ways.comparisons[0].reasons["per_person_interval"]
    assert Report.from_dict(both_ways.to_dict()) == both_ways


def test_an_unknown_cluster_is_refused() -> None:
    with pytest.raises(DataError, match="unknown cluster 'query'"):
        analyze(table_of(rows_of([(1, 1, 1), (2, 1, 1)])), cluster="query")


def test_the_command_clusters_by_query_and_names_the_query(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(table_of(rows_of(one_query_decides())), path)
    assert main(["analyze", str(path), "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert any("'q 0'" in check["figure"] for check in said["health"])
    assert main(["analyze", str(path), "--format", "json", "--cluster", "unit_and_query"]) == 0
    assert json.loads(capsys.readouterr().out)["cluster"] == "unit_and_query"


def test_the_level_is_kept_about_queries_like_these() -> None:
    """Clustered by unit alone, a third of experiments and more are wrong about queries like these."""
    runs = 400
    these, by_unit, by_query = wrong(World(300, 100, 1.0, 0.5), runs, seed=3).tolist()
    assert these <= 0.08 * runs
    assert by_unit >= 0.3 * runs
    assert by_query <= 0.09 * runs


def test_one_query_alone_has_no_error_by_query() -> None:
    world = World(50, 1, 1.0, 0.0)
    by_unit, by_query = both(world.cells(world.visits(np.random.default_rng(1))[0]))
    assert by_unit.interval is not None
    assert by_query.interval is None
    assert by_query.reason == FEW_QUERIES
