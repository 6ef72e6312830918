"""Integers of impressions as bytes: decoded one by one and all at once, they are the same; damaged ones are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from interleaf.kernels.arrays import Array
from interleaf.log.packed_numbers import NUMBER_COLUMNS, check_numbers, number_columns, pack_numbers, unpack_numbers

NUMBERS = st.lists(st.integers(0, 2**31 - 1), max_size=4)
FLOATS = st.floats(width=32, allow_nan=False)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    rankers = draw(st.integers(1, 4))
    ranks, unshown = (
        st.integers(0, 5).flatmap(lambda width: st.lists(st.lists(st.just(7), min_size=width, max_size=width),
                                                         min_size=rankers, max_size=rankers))
        for _ in range(2)
    )  # fmt: skip
    columns = {
        **{"ranks": ranks, "unshown_ranks": unshown, "lengths": NUMBERS, "choices": NUMBERS},
        **{"teams": st.lists(st.integers(-1, 127), max_size=4), "latency": st.lists(st.none() | FLOATS, max_size=4)},
        **{"union": st.integers(0, 2**31 - 1), "relaxed": st.booleans()},
        "characters": st.lists(st.none() | st.integers(0, 2**31 - 1), max_size=4),
    }
    row: dict[str, Any] = {name: draw(st.none() | values) for name, values in columns.items()}
    return row if row["ranks"] is not None else row | {"unshown_ranks": None}


def places_of(packed: list[bytes]) -> tuple[Array, Array, Array]:
    ends = np.cumsum([len(one) // 4 for one in packed])
    starts = np.concatenate([[0], ends[:-1]])
    return np.frombuffer(b"".join(packed), np.int32), starts, ends


@given(st.lists(rows(), min_size=1, max_size=5))
def test_columns_of_many_rows_are_those_of_each_row(many: list[dict[str, Any]]) -> None:
    packed = list(map(pack_numbers, many))
    assert list(map(unpack_numbers, packed)) == many
    places = places_of(packed)
    check_numbers(*places)
    columns, shown = number_columns(*places)
    assert {name: columns[name].to_pylist() for name in NUMBER_COLUMNS} == {
        name: [row[name] for row in many] for name in NUMBER_COLUMNS
    }
    assert shown.tolist() == [len(row["ranks"][0]) if row["ranks"] else 0 for row in many]


@given(st.lists(st.integers(-3, 6) | st.integers(-(2**31), 2**31 - 1), max_size=24))
def test_damaged_integers_are_refused_or_decoded(numbers: list[int]) -> None:
    good = pack_numbers({"ranks": [[1, 2]], "teams": [0, 0]})
    damaged = np.array(numbers, np.int32).tobytes()
    places = places_of([good, damaged, good])
    try:
        check_numbers(*places)
        columns, _ = number_columns(*places)
    except ValueError:
        return
    for name, column in columns.items():
        column.validate(full=True)
        first, middle, last = column.to_pylist()
        assert first == last == unpack_numbers(good)[name]
        assert repr(middle) == repr(unpack_numbers(damaged)[name])
