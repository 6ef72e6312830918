"""Absolute metrics: each against plain loops over queries and sessions, and comparisons of two buckets."""

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from interleaf.errors import DataError
from interleaf.metrics.absolute import (
    MEAN,
    MEDIAN,
    METRICS,
    QueryPages,
    by_user,
    compare,
    relative_difference,
    sessions,
    totals,
    value,
)

Query = tuple[int, int, list[bool], int, int]  # unit, time, clicked, seconds to the first click and on to the last

QUERY = st.tuples(
    st.integers(0, 3),
    st.integers(0, 9000),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.integers(0, 900),
    st.integers(0, 3000),
)


def pages_of(queries: list[Query]) -> QueryPages:
    clicked = np.array([query[2] for query in queries])
    first = np.array([query[3] if any(query[2]) else np.nan for query in queries], float)
    last = np.array([query[3] + query[4] if any(query[2]) else np.nan for query in queries], float)
    units, times = (np.array([query[part] for query in queries]) for part in (0, 1))
    return QueryPages(clicked, first, last, units, times.astype(float))


def plain_sessions(queries: Sequence[tuple[int, float, float]], gap: float) -> list[list[int]]:
    """Query by query, in the order of time: into the open session of its unit, or into a new one."""
    found: list[list[int]] = []
    is_open: dict[int, tuple[list[int], float]] = {}
    for number in sorted(range(len(queries)), key=lambda number: queries[number][1]):
        unit, time, end = queries[number]
        session, until = is_open.get(unit, ([], -math.inf))
        if time - until >= gap:
            session = []
            found.append(session)
        session.append(number)
        is_open[unit] = (session, max(until, end))
    return found


def plain_values(queries: list[Query]) -> dict[str, dict[int, float]]:
    """Every metric of every query that counts."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for number, (_, _, clicked, first, more) in enumerate(queries):
        ranks = [rank for rank, is_clicked in enumerate(clicked, 1) if is_clicked]
        found["abandonment"][number] = float(not ranks)
        found["clicks"][number] = len(ranks)
        found["clicks_at_1"][number] = float(1 in ranks)
        if ranks:
            found["skipped"][number] = 1 - len(ranks) / max(ranks)
            found["max_reciprocal_rank"][number] = 1 / min(ranks)
            found["mean_reciprocal_rank"][number] = statistics.fmean(1 / rank for rank in ranks)
            found["first_click"][number] = first
            found["last_click"][number] = first + more
    spans = [(unit, time, time + (first + more if any(c) else 0)) for unit, time, c, first, more in queries]
    for session in plain_sessions(spans, 1800):
        found["session_queries"][session[0]] = len(session)
        for number in session:
            found["reformulation"][number] = float(number != session[-1])
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(QUERY, min_size=1, max_size=25, unique_by=lambda query: query[:2]))
def test_every_metric_is_what_plain_loops_say_by_query_and_by_user(queries: list[Query]) -> None:
    pages, wanted = pages_of(queries), plain_values(queries)
    assert list(METRICS) == [metric.name for metric in METRICS.values()]
    assert len(METRICS) == 10
    for name, metric in METRICS.items():
        plain, summary = wanted[name], statistics.fmean if metric.statistic == MEAN else statistics.median
        values = metric.values(pages)
        assert {row: values[row] for row in np.flatnonzero(~np.isnan(values))} == pytest.approx(plain)
        if not plain:
            assert value(metric, pages) is value(metric, pages, per_user=True) is None
            continue
        users: dict[int, list[float]] = defaultdict(list)
        for row, one in plain.items():
            users[queries[row][0]].append(one)
        assert value(metric, pages) == pytest.approx(summary(plain.values()))
        each = statistics.fmean(summary(own) for own in users.values())
        assert value(metric, pages, per_user=True) == pytest.approx(each)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 30)), min_size=1, max_size=30),
    st.integers(0, 20),
)
def test_sessions_are_those_of_a_loop_in_the_order_of_time(rows: list[tuple[int, int, int]], gap: int) -> None:
    spans = [(unit, time, time + stay) for unit, time, stay in rows]
    units, times, ends = (np.array(column) for column in zip(*spans, strict=True))
    found = sessions(units, times, ends, gap)
    groups = defaultdict(set)
    for row, number in enumerate(found.number.tolist()):
        groups[number].add(row)
    wanted = plain_sessions([(unit, float(time), float(end)) for unit, time, end in spans], gap)
    assert sorted(map(sorted, groups.values())) == sorted(map(sorted, wanted))
    for group in groups.values():
        some = sorted(group)
        assert (found.queries[some] == len(some)).all()
        assert found.is_first[some].sum() == found.is_last[some].sum() == 1
        assert times[some][found.is_first[some]] == times[some].min()
        assert times[some][found.is_last[some]] == times[some].max()


def test_a_gap_of_thirty_minutes_ends_a_session_and_a_moment_less_does_not() -> None:
    units = np.array(["u", "u"])
    for pause, together in ((1799, True), (1800, False)):
        number = sessions(units, np.array([0, 60 + pause]), np.array([60, 60 + pause])).number
        assert (number[0] == number[1]) is np.bool_(together)


def test_a_timeout_of_zero_makes_every_query_a_session_even_at_the_same_time() -> None:
    assert sessions(np.zeros(3), np.array([5, 5, 9]), gap=0).number.tolist() == [0, 1, 2]


def test_no_queries_have_no_sessions_and_no_metric() -> None:
    assert len(sessions(np.zeros(0), np.zeros(0)).number) == 0
    nothing = QueryPages(np.zeros((0, 2), bool), *np.zeros((4, 0)))
    assert len(nothing) == 0
    assert value(METRICS["abandonment"], nothing) is None


def test_totals_over_sessions_are_sums() -> None:
    number, counts = np.array([1, 0, 1, 2]), np.array([[1, 0], [2, 2], [3, 1], [0, 0]])
    assert totals(number, counts).tolist() == [[2, 2], [4, 1], [0, 0]]


def test_the_median_of_a_user_with_an_even_number_of_values_lies_between_the_middle_two() -> None:
    found = by_user(np.array([9.0, 1.0, 4.0, 2.0, 7.0]), np.array([3, 3, 3, 3, 5]), MEDIAN)
    assert [column.tolist() for column in found] == [[3, 5], [3.0, 7.0]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"units": np.zeros(3)}, "'units': 3"),
        ({"first": np.array([1.0, 2.0])}, "query 1 has no click, but 'first' is 2.0"),
        ({"last": np.array([np.nan, np.nan])}, "query 0 has a click, but 'last' is nan"),
        ({"clicked": np.zeros(2, bool)}, "one row per query"),
    ],
)
def test_pages_that_contradict_themselves_are_refused(change: dict[str, Any], said: str) -> None:
    delays = np.array([1.0, np.nan])
    right = {"clicked": np.array([[True], [False]]), "first": delays, "last": delays}
    with pytest.raises(DataError, match=said):
        QueryPages(**(right | {"units": np.zeros(2), "times": np.zeros(2)} | change))


def test_impossible_times_are_named() -> None:
    with pytest.raises(DataError, match="query 1 ends at 1, before"):
        sessions(np.zeros(2), np.array([0, 2]), np.array([0, 1]))


def bucket(users: int, chance: float, generator: np.random.Generator, first: int = 0) -> QueryPages:
    """Users with one to six queries each, all clicked first or all not: clustered as far as can be."""
    units = np.repeat(np.arange(users), generator.integers(1, 7, users))
    clicked = np.stack([generator.random(users) < chance, np.ones(users, bool)], axis=1)[units]
    delays = generator.lognormal(1, 0.5, users)[units] * np.where(clicked[:, 0], 1, 2)
    return QueryPages(clicked, delays, delays, units + first, generator.random(len(units)) * 1e6)


@pytest.mark.parametrize("per_user", [False, True])
@pytest.mark.parametrize("name", ["clicks_at_1", "mean_reciprocal_rank", "first_click"])
def test_errors_are_those_of_repeated_experiments_where_a_user_s_queries_are_alike(name: str, per_user: bool) -> None:
    """The mean of 300 squared errors against the variance of 300 differences: a ratio within .7 to 1.4."""
    generator, metric = np.random.default_rng(3), METRICS[name]
    found = [
        compare(metric, bucket(150, 0.4, generator), bucket(150, 0.6, generator, first=150), per_user).difference
        for _ in range(300)
    ]
    errors = [one.error for one in found if one.error is not None]
    values = [one.value for one in found if one.value is not None]
    assert len(values) == len(errors) == 300
    assert 0.7 < np.mean(np.square(errors)) / np.var(values) < 1.4


def test_without_a_difference_five_per_cent_are_significant_and_a_large_one_is_found() -> None:
    """400 comparisons: at level .05 chance alone gives 4 to 43 but once in a million."""
    generator, metric = np.random.default_rng(5), METRICS["clicks_at_1"]
    alike = [compare(metric, bucket(80, 0.5, generator), bucket(80, 0.5, generator, first=80)) for _ in range(400)]
    assert 4 <= sum(found.is_significant for found in alike) <= 43
    apart = compare(metric, bucket(400, 0.7, generator), bucket(400, 0.3, generator, first=400))
    assert apart.is_significant
    assert apart.difference.value == pytest.approx(apart.better - apart.worse)  # type: ignore[operator]
    assert apart.relative == pytest.approx(apart.better / apart.worse - 1)  # type: ignore[operator]


@pytest.mark.parametrize("per_user", [False, True])
def test_differences_are_positive_where_the_metric_moves_as_expected_when_quality_drops(per_user: bool) -> None:
    """The better bucket is clicked at the top and at once, the worse one seldom, lower, later, and asked again."""
    good = pages_of([(unit, 0, [True, unit == 0, False], 1, 30) for unit in range(3)])
    bad = pages_of(
        [(unit, time, [False, unit == time == 3, unit == 4], 9, 2) for unit in (3, 4, 5) for time in (3, 50)]
    )
    for name, metric in METRICS.items():
        found = compare(metric, good, bad, per_user)
        assert (found.difference.value or 0) > 0, name
        assert found.relative is None or found.relative > 0, name
        expected = -1 if metric.rises else 1
        assert found.difference.value == pytest.approx(expected * (found.better - found.worse)), name  # type: ignore[operator]


def test_what_cannot_be_tested_says_why() -> None:
    nobody = pages_of([(unit, 0, [False, False, False], 0, 0) for unit in range(4)])
    one = pages_of([(7, 0, [True, False, False], 1, 0)])
    unclicked = compare(METRICS["skipped"], nobody, one)
    assert (unclicked.better, unclicked.relative, unclicked.difference.value) == (None, None, None)
    assert "no queries with a click" in unclicked.difference.reason
    assert "fewer than two" in compare(METRICS["clicks"], nobody, one).difference.reason
    same = compare(METRICS["clicks"], nobody, nobody)
    assert (same.difference.value, same.relative, same.difference.p_value) == (0.0, None, None)
    assert same.difference.reason
    assert not same.is_significant


def test_relative_differences_divide_by_the_inferior_ranker() -> None:
    assert relative_difference(3, 2) == 0.5
    assert relative_difference(2, 3) == pytest.approx(-1 / 3)
    assert relative_difference(1, 0) is None
