"""Columns that UBI has no field for come back exactly, and damaged texts spoil no other row."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, strategies as st

from interleaf.importers.ubi_export import (
    attributes_in,
    decode_rows,
    encode_row,
    shared_columns,
    texts_of,
)
from interleaf.log import schema

Row = dict[str, Any]
KINDS = {column.name: column.type for column in schema.COLUMNS}
TEXTS = st.text(st.characters(codec="utf-8"), max_size=4)
SMALL, WIDE, HUGE = st.integers(-1, 127), st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)


def lists(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(items, max_size=4)


def same_lengths(items: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    return st.integers(0, 3).flatmap(lambda n: st.lists(st.lists(items, min_size=n, max_size=n), max_size=3))


RANKS = lists(lists(HUGE)) | same_lengths(SMALL) | same_lengths(WIDE) | same_lengths(HUGE)
CAPTIONS = st.fixed_dictionaries(
    {"title": st.none() | TEXTS, "url": st.none(), "snippet": st.none() | TEXTS, "deep_links": st.none() | SMALL}
)
HIGHLIGHTS = st.fixed_dictionaries({"field": TEXTS, "start": HUGE, "end": SMALL})
# A log may hold NaN, but no infinity.
ROWS = st.fixed_dictionaries(
    {},
    optional={
        **{"ranks": RANKS, "unshown_ranks": RANKS, "lengths": lists(HUGE), "choices": lists(SMALL), "union": HUGE},
        **{
            "teams": lists(SMALL),
            "relaxed": st.booleans(),
            "latency": lists(st.none() | st.floats(width=32, allow_infinity=False)),
        },
        **{
            "key": TEXTS,
            "page": WIDE,
            "log_probability": st.floats(allow_infinity=False),
            "grades": lists(st.none() | SMALL),
        },
        **{"rankings": lists(lists(TEXTS)), "unit": TEXTS, "session": TEXTS},
        "captions": lists(
            st.none() | st.builds(lambda one, bold: one | {"highlights": bold}, CAPTIONS, lists(HIGHLIGHTS))
        ),
    },
)


@given(st.lists(ROWS, max_size=5))
def test_rows_come_back_exactly(rows: list[Row]) -> None:
    columns, problems = decode_rows(pa.array(list(map(encode_row, rows)), pa.string()))
    assert not problems
    for name, column in columns.items():
        column.validate(full=True)
        expected = pa.array([row.get(name) for row in rows], KINDS[name]).to_pylist()
        assert repr(column.to_pylist()) == repr(expected), name  # by repr, because a nan equals nothing


GOOD: Row = {"ranks": [[1, 300], [2, 1]], "teams": [0, 1], "page": 2, "latency": [1.5, None], "unit": ""}


@given(st.data())
def test_a_damaged_text_is_an_error_of_its_row_only(data: st.DataObject) -> None:
    whole = bytearray(b64decode(encode_row(GOOD)))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    bodies = st.sampled_from([b"{}", b"[]", b"{}{}", b'{"page":', b'{"page":99999}', b'{"other":1}', b"[" * 99_996])
    heads = st.integers(0, 40).map(lambda head: head.to_bytes(4, "little"))
    made = st.builds(lambda head, numbers, body: head + numbers + body, heads, st.binary(max_size=40), bodies)
    damaged = data.draw(st.just(bytes(whole)) | made.map(lambda one: one + b" " * (-len(one) % 12)))
    text = data.draw(st.just(b64encode(damaged).decode()) | st.text("AB+/=*\n", max_size=40))
    good = encode_row(GOOD)
    columns, problems = decode_rows(pa.array([good, text, good, good]))
    assert problems.keys() <= {1}
    for name, column in columns.items():
        column.validate(full=True)
        first, middle, *others = column.to_pylist()
        expected = GOOD.get(name)
        assert [first, *others] == [expected] * 3
        assert middle is None or not problems


def test_many_rows_of_integers_of_different_sizes_keep_their_order() -> None:
    draw = np.random.default_rng(1)
    rows: list[Row] = [{"lengths": draw.integers(0, 10 ** int(draw.integers(1, 9)), 3).tolist()} for _ in range(9000)]
    texts = list(map(encode_row, rows))
    texts[5000] = texts[7000] = "AAAA"
    columns, problems = decode_rows(pa.array(texts))
    assert problems.keys() == {5000, 7000}
    expected = [None if place in problems else row["lengths"] for place, row in enumerate(rows)]
    assert columns["lengths"].to_pylist() == expected


@given(st.dictionaries(TEXTS | st.sampled_from(["method", "open", "attribute:x", "attribute:method"]), TEXTS))
def test_attributes_come_back_with_any_name(attributes: dict[str, str]) -> None:
    row: Row = {"experiment": "e", "version": 2, "arm": "a", "method": "m", "rankers": ["x", "y"], "open": True}
    texts = texts_of(row | {"attributes": attributes})
    assert attributes_in(texts) == attributes
    columns, problems = shared_columns([texts])
    assert not problems
    assert {name: column.to_pylist() for name, column in columns.items()} == {
        name: [row.get(name)] for name in (*row, "excluded", "fallback_reason")
    }
