"""Cells of whatever type become the types of a log; those that cannot are marked."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from interleaf.importers.two_tables.cell_values import NUMERIC_TIMES, convert
from interleaf.log import schema

MOMENT = datetime(2026, 11, 15, 12, 0, 0, 250_000, tzinfo=UTC)
MICROS = (MOMENT - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("values", "assumed"),
    [
        (pa.array([MOMENT]), None),
        (pa.array([MOMENT], pa.timestamp("ns", "Europe/Berlin")), None),
        (pa.array([MOMENT.replace(tzinfo=None)]), schema.NAIVE_TIMES),
        (pa.array(["2026-11-15T12:00:00.250Z"]), None),
        (pa.array(["2026-11-15 12:00:00.25 UTC"]), None),
        (pa.array(["2026-11-15 13:00:00.250 +0100"]), None),
        (pa.array(["2026-11-15 13:00:00.25+01"]), None),
        (pa.array(["2026-11-15 12:00:00.25"]), schema.NAIVE_TIMES),
        (pa.array([MICROS / 1e6]), NUMERIC_TIMES),
        (pa.array([Decimal(MICROS) / 10**6]), NUMERIC_TIMES),
        (pa.array([MICROS // 1000]), NUMERIC_TIMES),
        (pa.array([float(MICROS // 1000)]), NUMERIC_TIMES),
        (pa.array([MICROS]), NUMERIC_TIMES),
        (pa.array([MICROS * 1000]), NUMERIC_TIMES),
        (pa.array([str(MICROS // 1000)]), NUMERIC_TIMES),
        (pa.array([f"{MICROS // 10**6}.25"]), NUMERIC_TIMES),
        (pa.array(["2026-11-15T12:00:00.250Z"]).dictionary_encode(), None),
    ],
)
def test_times_of_every_form_are_one_moment(values: pa.Array, assumed: str | None) -> None:
    cells = convert(values, "time", schema.TIME)
    assert cells.values.to_pylist() == [MOMENT]
    assert not cells.wrong.any()
    assert cells.assumptions == ({assumed} if assumed else set())


def test_times_that_are_none_are_marked() -> None:
    cells = convert(pa.array(["yesterday", None, "2026-11-15T12:00:00Z", "99999999999999999999"]), "time", schema.TIME)
    assert cells.wrong.tolist() == [True, False, False, True]
    assert convert(pa.array([[1]]), "time", schema.TIME).wrong.tolist() == [True]
    assert convert(pa.array([date(2026, 11, 15)]), "time", schema.TIME).values[0].as_py() == MOMENT.replace(
        hour=0, microsecond=0
    )


@pytest.mark.parametrize(
    ("values", "texts", "wrong"),
    [
        (pa.array([7, None]), ["7", None], [False, False]),
        (pa.array([7.0, None, 7.5]), ["7", None, "7.5"], [False, False, False]),
        (pa.array([b"a", b"\xff"]), ["a", None], [False, True]),
        (pa.array([["a"], None]), [None, None], [True, False]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"], [False] * 3),
        (pa.nulls(2), [None, None], [False, False]),
    ],
)
def test_ids_become_text(values: pa.Array, texts: list[Any], wrong: list[bool]) -> None:
    cells = convert(values, "impression", pa.string())
    assert (cells.values.to_pylist(), cells.wrong.tolist()) == (texts, wrong)


def test_numbers_of_text_are_read_and_others_are_marked() -> None:
    cells = convert(pa.array(["2", "2.0", "two", "2.5", None]), "rank", pa.int64())
    assert (cells.values.to_pylist(), cells.wrong.tolist()) == (
        [2, 2, None, None, None],
        [False, False, True, True, False],
    )
    cells = convert(pa.array(["1e3", "x"]), "value", pa.float64())
    assert (cells.values.to_pylist(), cells.wrong.tolist()) == ([1000.0, None], [False, True])
    assert convert(pa.array(["TRUE", "0", "no"]), "relaxed", pa.bool_()).wrong.tolist() == [False, False, True]


@given(st.lists(st.none() | st.integers(0, 2 * 10**9) | st.text() | st.binary() | st.floats(), max_size=3))
def test_no_cell_breaks_a_conversion(values: list[Any]) -> None:
    try:
        column = pa.array(values)
    except pa.ArrowException:
        return
    for name, kind in (
        ("time", schema.TIME),
        ("unit", pa.string()),
        ("rank", pa.int64()),
        ("ranks", schema.SCHEMA.field("ranks").type),
    ):
        cells = convert(column, name, kind)
        assert len(cells.values) == len(cells.wrong) == len(column)
        assert cells.values.type == kind


def test_numbers_that_are_no_times_are_wrong() -> None:
    cells = convert(pa.array([float("nan"), float("inf"), -float("inf"), 1e300, 1.5, None]), "time", schema.TIME)
    assert cells.wrong.tolist() == [True, True, True, True, False, False]
    assert cells.values.is_valid().to_pylist() == [False, False, False, False, True, False]
