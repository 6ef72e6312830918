"""What people prefer, not visits: weights of units, one voice per person and per search, and when they disagree."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import analyze, tally_log
from interleaf.report.model import VerdictCode
from interleaf.report.weights import max_weight, weigh
from tests.oracles import logs as log_oracle
from tests.oracles.logs import Sums
from tests.support.log_rows import Row, made_row, table_of


def visit(number: int, unit: int, side: int, **more: Any) -> Row:
    """An impression whose clicks favour production (1), candidate (-1) or neither (0)."""
    row = made_row(number, (), unit=f"u-{unit}", **more) | {"rankers": ["production", "candidate"]}
    teams = row["teams"]
    ranks = {1: [0], -1: [1], 0: [0, 1]}[side]
    clicked = [teams.index(team) + 1 for team in ranks]
    return row | {"events": made_row(number, clicked)["events"]}


def visits(units: list[list[int]]) -> list[Row]:
    """The impressions of units, given by whom each impression favours."""
    every = [(unit, side) for unit, sides in enumerate(units) for side in sides]
    return [visit(number, unit, side) for number, (unit, side) in enumerate(every)]


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(-40, 40)), min_size=1), st.integers(1, 12))
def test_weights_are_impressions_up_to_a_limit(units: list[tuple[int, int]], limit: int) -> None:
    clicked, scores = (np.array(column, np.int64) for column in zip(*units, strict=True))
    names = np.arange(len(units), dtype=np.uint64) << np.uint64(34)
    sums, weights = weigh(names, clicked, scores[:, None] * 2**24, limit)
    limited = [min(number, limit) for number, _ in units]
    truth = [
        round(Fraction(score * 2**24 * weight, number)) for (number, score), weight in zip(units, limited, strict=True)
    ]
    assert weights[: len(units)].tolist() == limited
    assert sums[: len(units), 0].tolist() == truth


@given(st.integers(0, 3_000) | st.integers(0, 10**12))
def test_the_limit_of_weights_is_the_root_of_the_number_of_units(units: int) -> None:
    assert max_weight(units) == log_oracle.max_weight(units)
    assert 5 <= max_weight(units) <= max_weight(units + 1) <= 40


def test_no_heavy_user_of_31_outweighs_five_visits() -> None:
    """One user with 200 visits for candidate, against 30 with two visits for production."""
    (found,) = analyze(table_of(visits([[-1] * 200] + [[1, 1]] * 20 + [[1, 0]] * 10))).comparisons
    assert found.estimate == pytest.approx((20 * 2 + 10 - 5) / (30 * 2 + 5))
    assert found.per_person_estimate == pytest.approx((20 + 10 / 2 - 1) / 31)
    assert found.per_search_estimate == pytest.approx((20 * 2 + 10 - 200) / (30 * 2 + 200))


def growing(units: int = 400) -> list[Row]:
    """One user who comes 50 times for candidate on the first day; then the others, most of them for production."""
    rows = visits([[-1] * 50] + [[1] if unit % 3 else [0] for unit in range(units - 1)])
    first = rows[0]["time"]
    times = [first + timedelta(minutes=number) for number in range(50)]
    times += [first + timedelta(days=1 + number * 9 // units) for number in range(units - 1)]
    events = [[event | {"time": time} for event in row["events"]] for row, time in zip(rows, times, strict=True)]
    return [row | {"time": time, "events": own} for row, time, own in zip(rows, times, events, strict=True)]


def test_the_more_people_the_more_a_heavy_user_may_weigh_at_the_end_and_at_each_point_before() -> None:
    rows = growing()
    report = analyze(table_of(rows), by=["device"], planned_units=400)
    (found,) = report.comparisons
    assert found.estimate == pytest.approx(float(Sums(rows).estimate((0, 1))))
    assert found.estimate == pytest.approx((266 - 20) / (399 + 20))  # the root of 400
    assert [row.searches for row in report.activity] == ["1", "more than 20"]
    for point in report.over_time[:-1]:
        before = [row for row in rows if row["time"] < point.time]
        assert point.estimate == pytest.approx(float(Sums(before).estimate((0, 1)))), point.time
    limits = {Sums([row for row in rows if row["time"] < point.time]).max_weight for point in report.over_time}
    assert len(limits) > 5


def test_a_segment_has_the_limit_of_its_own_people() -> None:
    """Of 400 people 40 are in a small segment, among them one who comes 50 times."""
    rows = growing()
    rows = [row | {"attributes": {"country": "nl" if number < 89 else "de"}} for number, row in enumerate(rows)]
    report = analyze(table_of(rows), by=["country"])
    for segment in report.segments:
        own = [row for row in rows if row["attributes"]["country"] == segment.value]
        assert segment.comparisons[0].estimate == pytest.approx(float(Sums(own).estimate((0, 1))))
    assert Sums(rows[:89]).max_weight == 6  # the root of 40


def test_a_sample_of_units_has_the_limit_of_all_of_them() -> None:
    tally = tally_log(table_of(growing()))
    tally.units.raise_to(1)
    tally.units.merge(1, *(part[:0] for part in tally.units.entries))
    limit = max_weight(tally.units.count(tally.units.rows[:, 2] > 0))
    assert 18 <= limit <= 22
    sums = weigh(tally.units.hashes, tally.units.values[:, 2], tally.units.values[:, 3:], limit)
    (found,) = analyze(tally).comparisons
    assert found.estimate == pytest.approx(abs(float(sums[0].sum())) / 2**24 / float(sums[1].sum()))


def test_a_preference_that_only_heavy_users_have_is_marked() -> None:
    light = [[1]] * 110 + [[-1]] * 100
    found = analyze(table_of(visits(light + [[-1] * 9 + [1]] * 60)), look=(1, 1))
    (one,) = found.comparisons
    assert found.verdict.winner == "candidate"
    assert (one.per_person_estimate or 0) * (one.estimate or 0) > 0
    tied = analyze(table_of(visits([[1]] * 170 + [[-1]] * 100 + [[-1] * 9 + [1]] * 60)), look=(1, 1))
    codes = {check.code: check.status for check in tied.health}
    assert tied.verdict.winner == "candidate"
    assert codes["light_users_agree"] == "warning"
    assert "light_users_agree" not in {check.code for check in found.health}


def heavy_against_light() -> list[list[int]]:
    """Most people prefer production, and a few heavy users, who make most of the visits, candidate."""
    light = [[1]] * 180 + [[-1]] * 90 + [[0]] * 100
    return light + [[-1] * 22 + [1] * 8] * 25 + [[-1] * 20 + [1] * 10] * 25


def test_people_never_win_against_most_people() -> None:
    report = analyze(table_of(visits(heavy_against_light())), planned_units=400, control="candidate")
    (found,) = report.comparisons
    assert found.per_search_estimate is not None
    assert found.per_search_estimate < 0
    assert found.per_person_estimate is not None
    assert found.per_person_estimate > 0
    assert found.people_and_visits_disagree
    assert (report.verdict.code, report.verdict.winner, found.winner) == (VerdictCode.DISAGREE, None, None)
    assert "The 50 units with more than 20 searches are 11.9 % of the units" in report.verdict.sentence
    assert [(row.searches, row.units) for row in report.activity] == [("1", 370), ("more than 20", 50)]
    assert report.activity[0].estimate == pytest.approx(90 / 370)
    assert "People and visits disagree" in str(report)
    assert "People and visits disagree" in report.to_markdown()


def test_people_who_agree_have_a_verdict() -> None:
    likes = [[1, 1, 0], [1], [1, -1, 1, 1], [0, 1]] * 60 + [[-1]] * 10
    report = analyze(table_of(visits(likes)), planned_units=250)
    assert (report.verdict.code, report.verdict.winner) == (VerdictCode.PREFERRED, "production")
    even = analyze(table_of(visits([[1, -1], [0], [1], [-1]] * 30)))
    assert (even.verdict.code, even.verdict.winner) == (VerdictCode.UNDECIDED, None)


def test_rounding_prefers_nobody() -> None:
    """Twelve users, each with +1/3 three times and -1 once, which is nothing in all."""
    rows = []
    for unit in range(12):
        for place in range(4):
            number = 4 * unit + place
            row = made_row(number, (), method="team_draft", unit=f"u-{unit}")
            first = [rank for rank, team in enumerate(row["teams"], 1) if team == 0]
            second = [rank for rank, team in enumerate(row["teams"], 1) if team == 1]
            ranks = second[:1] if place == 3 else [*first[:2], *second[:1]]
            rows.append(row | {"events": made_row(number, ranks)["events"]})
    (found,) = analyze(table_of(rows), "normalized").comparisons
    assert (found.estimate, found.unit_wins, found.unit_losses) == (0, 0, 0)
