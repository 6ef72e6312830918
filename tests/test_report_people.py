"""What people prefer, not visits: weights of units, one voice per person and per search, and when they disagree."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleaf import analyze
from interleaf.report.people import MAX_WEIGHT, weigh
from interleaf.report.record import DISAGREE, PREFERRED, UNDECIDED
from tests.log_rows import Row, made_row, table_of


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
def test_weights_are_impressions_up_to_a_limit(units: list[tuple[int, int]], max_weight: int) -> None:
    clicked, scores = (np.array(column, np.int64) for column in zip(*units, strict=True))
    names = np.arange(len(units), dtype=np.uint64) << np.uint64(34)
    sums, weights = weigh(names, clicked, scores[:, None] * 2**24, max_weight)
    limited = [min(number, max_weight) for number, _ in units]
    truth = [
        round(Fraction(score * 2**24 * weight, number)) for (number, score), weight in zip(units, limited, strict=True)
    ]
    assert weights[: len(units)].tolist() == limited
    assert sums[: len(units), 0].tolist() == truth


def test_no_heavy_user_outweighs_ten_visits() -> None:
    """One user with 200 visits for candidate, against 30 with two visits for production."""
    (found,) = analyze(table_of(visits([[-1] * 200] + [[1, 1]] * 20 + [[1, 0]] * 10))).comparisons
    assert found.estimate == pytest.approx((20 * 2 + 10 - MAX_WEIGHT) / (30 * 2 + MAX_WEIGHT))
    assert found.per_person_estimate == pytest.approx((20 + 10 / 2 - 1) / 31)
    assert found.per_search_estimate == pytest.approx((20 * 2 + 10 - 200) / (30 * 2 + 200))


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
    assert (report.verdict.code, report.verdict.winner, found.winner) == (DISAGREE, None, None)
    assert report.verdict.sentence.startswith("People and visits disagree, so neither ranker wins: ")
    assert "counted once per person, people prefer production" in report.verdict.sentence
    assert "The 50 units with more than 10 searches are 11.9% of the units" in report.verdict.sentence
    assert [(row.searches, row.units) for row in report.activity] == [("1", 370), ("more than 10", 50)]
    assert report.activity[0].estimate == pytest.approx(90 / 370)
    assert "People and visits disagree" in str(report)
    assert "People and visits disagree" in report.to_markdown()


def test_people_who_agree_have_a_verdict() -> None:
    likes = [[1, 1, 0], [1], [1, -1, 1, 1], [0, 1]] * 60 + [[-1]] * 10
    report = analyze(table_of(visits(likes)), planned_units=250)
    assert (report.verdict.code, report.verdict.winner) == (PREFERRED, "production")
    even = analyze(table_of(visits([[1, -1], [0], [1], [-1]] * 30)))
    assert (even.verdict.code, even.verdict.winner) == (UNDECIDED, None)


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
