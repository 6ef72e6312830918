"""The compiled scanner of UBI records takes what is JSON and of the schema's types, and reads it as Python would."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleaf.adapters import scanned
from interleaf.adapters.event_blocks import events_of
from interleaf.adapters.iso_scan import UNKNOWN, moments
from interleaf.adapters.query_blocks import queries_of
from interleaf.adapters.record_scan import ACTION, BLANK, EVENT, QUERY, SINGLE
from interleaf.adapters.scanned import Scanned
from interleaf.adapters.times import microseconds
from interleaf.adapters.ubi_records import EVENTS, QUERIES, event_of, query_of

PLAIN = '{"action_name": "click", "query_id": "q", "timestamp": 1794744005000, "event_attributes": {"object": {}}}'


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanned, "FEW", 0)


def kinds(*lines: str | bytes) -> list[int]:
    data = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
    found: list[int] = Scanned(memoryview(data)).kinds.tolist()
    return found


@pytest.mark.parametrize(
    ("line", "kind"),
    {
        PLAIN: EVENT,
        " \t\r": BLANK,
        '{"index": {"_index": "ubi_events", "_id": "7"}}': ACTION,
        '{"create": {}}': ACTION,
        '{"user_query": "shoes", "query_id": "q"}': QUERY,
        '{"query_response_hit_ids": ["a"], "query_id": "q", "more": [1, [{}, []], {"x": null}]}': QUERY,
        PLAIN.replace("{}", '{"object_id": 7}'): SINGLE,
        PLAIN.replace('"q"', '""'): SINGLE,
        PLAIN.replace("1794744005000", "1794744005000.5"): SINGLE,
        PLAIN.replace("{}", "[]"): SINGLE,
        PLAIN[:-1] + ', "query_id": "again"}': SINGLE,
        PLAIN + PLAIN: SINGLE,
        PLAIN[:-1] + ",}": SINGLE,
        PLAIN[:-1]: SINGLE,
        PLAIN[:-1] + ', "x": 01}': SINGLE,
        PLAIN[:-1] + ', "x": +1}': SINGLE,
        PLAIN[:-1] + ', "x": 1.}': SINGLE,
        PLAIN[:-1] + ', "x": nul}': SINGLE,
        PLAIN[:-1] + ', "x": [1,]}': SINGLE,
        PLAIN[:-1] + ', "x": {"y"}}': SINGLE,
        PLAIN[:-1] + ', "x": "\\q"}': SINGLE,
        PLAIN[:-1] + ', "x": "\\u12g4"}': SINGLE,
        PLAIN[:-1] + ', "x": "\t"}': SINGLE,
        PLAIN[:-1] + ', "x": ' + "[" * 99 + "]" * 99 + "}": SINGLE,
        '{"user_query": "shoes", "query_id": "q", "hits": {"hits": []}}': SINGLE,
        '{"user_query": "shoes", "query_id": "q", "query_response_hit_ids": ["a", null]}': SINGLE,
        '{"user_query": "shoes", "query_id": "q", "query_attributes": {"n": 5}}': SINGLE,
        '{"_source": {"user_query": "shoes"}}': SINGLE,
        "[1]": SINGLE,
        "{}": SINGLE,
    }.items(),
)
def test_a_line_is_of_a_kind(line: str, kind: int) -> None:
    assert kinds(line, PLAIN) == [kind, EVENT]


def test_bytes_that_are_no_text_are_left_to_the_slow_way() -> None:
    assert kinds(PLAIN, PLAIN.encode().replace(b"click", b"\xff\xfe")) == [SINGLE, SINGLE]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
IDS = TEXTS | st.integers(0, 9) | st.none()
MADE = st.fixed_dictionaries(
    {"query_id": TEXTS, "timestamp": st.sampled_from(["2026-11-15T12:00:05.25+0100", 1794744005000, "", None])},
    optional={
        **dict.fromkeys(("user_query", "application", "user_id", "session_id", "message"), TEXTS),
        **{"action_name": TEXTS, "more": VALUES, "client_id": IDS},
        "query_response_hit_ids": st.lists(TEXTS, max_size=4) | st.lists(IDS, max_size=2) | st.none(),
        "query_attributes": st.dictionaries(TEXTS, TEXTS, max_size=3) | st.dictionaries(TEXTS, VALUES, max_size=2),
        "event_attributes": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "object": st.fixed_dictionaries({}, optional={"object_id": IDS, "internal_id": IDS, "x": VALUES}),
                "position": st.fixed_dictionaries({}, optional={"ordinal": st.integers(-9, 99) | st.floats(0, 9)}),
                **{name: st.floats(-9, 1e40) | st.integers() for name in ("dwell", "dwell_time", "value")},
                **{"rank": st.integers(-(10**6), 10**6), "event": TEXTS, "search_config": TEXTS, "more": VALUES},
            },
        ),
    },
)


@given(st.lists(MADE, min_size=1, max_size=5), st.booleans(), st.sampled_from([None, 1]))
def test_records_are_those_of_the_slow_way(records: list[dict[str, Any]], ascii_only: bool, indent: int | None) -> None:
    lines = [json.dumps(one, ensure_ascii=ascii_only, indent=indent).replace("\n", " ") for one in records]
    block, fast, slow = (
        Scanned(memoryview("".join(line + "\n" for line in lines).encode())),
        Counter[str](),
        Counter[str](),
    )
    for (rows, batch), read, schema in (
        (events_of(block, fast), event_of, EVENTS),
        (queries_of(block, fast), query_of, QUERIES),
    ):
        batch.validate(full=True)
        for row, found in zip(rows.tolist(), batch.to_pylist(), strict=True):
            expected = dict(zip(schema.names, read(records[row], None, slow), strict=True))
            if schema is QUERIES:
                found["attributes"], expected["attributes"] = map(
                    json.loads, (found["attributes"], expected["attributes"])
                )
            assert found == expected
    assert +fast == +slow


def test_times_are_read_as_python_reads_them() -> None:
    draw = Random(1)
    texts = ["2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2000-02-29 00:00:00Z"]
    texts += ["9999-12-31T23:59:59.999999Z", "2026-12-31T24:00:00Z", "2026-11-15T12:00:00", "0001-01-01T00:00:00Z"]
    for _ in range(3000):
        text = f"{draw.randrange(1, 9999):04}-{draw.randrange(1, 13):02}-{draw.randrange(1, 32):02}T"
        text += f"{draw.randrange(24):02}:{draw.randrange(60):02}:{draw.randrange(60):02}"
        text += draw.choice(["", ".5", ".25", ".123456", ".1234567"]) + draw.choice(["Z", "+0000", "-08:30", "+14"])
        if draw.random() < 0.3:
            place = draw.randrange(len(text))
            text = text[:place] + draw.choice("0159:-+TZ ") + text[place + 1 :]
        texts.append(text)
    ends = np.cumsum([len(text) + 1 for text in texts])
    spans = np.stack([np.concatenate([[0], ends[:-1]]), ends - 1], axis=1).astype(np.int32)
    found = np.empty(len(texts), np.int64)
    moments(np.frombuffer("\n".join([*texts, ""]).encode(), np.uint8), spans, found)
    for text, moment in zip(texts, found.tolist(), strict=True):
        if moment != UNKNOWN:
            counts = Counter[str]()
            assert (text, microseconds(text, counts), sum(counts.values())) == (text, moment, 0)
    assert (found != UNKNOWN).sum() > 1000
    assert found[[1, 2, 5, 6]].tolist() == [UNKNOWN] * 4
    assert (found[[0, 3, 4, 7]] != UNKNOWN).all()
