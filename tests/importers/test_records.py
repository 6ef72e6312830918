"""Every line of a UBI file becomes the record that plain Python reads from it, or is dropped with its reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from interleaf.importers.partition import ShuffleFile
from interleaf.importers.protocol import ImportResult
from interleaf.importers.ubi import UbiReader
from interleaf.importers.ubi_records import since_1970
from interleaf.log.files import files_of

Row = dict[str, Any]
PLAIN = '{"action_name": "click", "query_id": "q", "timestamp": 1794744005000, "event_attributes": {"object": {}}}'
NOT_JSON = "not_json"
EVENT, QUERY, ACTION = "an event", "a query", "nothing, and no reason"


def read(folder: Path, *lines: str | bytes) -> tuple[list[Row], list[Row], ImportResult]:
    """The queries and the events of lines."""
    path = folder / "ubi.ndjson"
    path.write_bytes(b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines))
    imported = ImportResult()
    with ShuffleFile(0) as shuffle:
        UbiReader(None, shuffle, imported).read(files_of(path)[0])
        ((queries, events),) = shuffle.parts()
    for batch in (queries, events):
        batch.validate(full=True)
    return queries.to_pylist(), events.to_pylist(), imported


LINES: dict[str, str] = {
    PLAIN: EVENT,
    " \t\r": ACTION,
    "": ACTION,
    '{"index": {"_index": "ubi_events", "_id": "7"}}': ACTION,
    '{"create": {}}': ACTION,
    '{"index": null}': ACTION,
    '{"user_query": "shoes", "query_id": "q"}': QUERY,
    '{"user_query": null, "query_id": "q"}': QUERY,
    '{"query_response_hit_ids": ["a"], "query_id": "q", "more": [1, [{}, []], {"x": null}]}': QUERY,
    PLAIN.replace("{}", '{"object_id": 7}'): EVENT,
    PLAIN.replace("{}", '{"object_id": [7]}'): EVENT,
    PLAIN.replace('"q"', '""'): "event_without_query",
    PLAIN.replace("1794744005000", "1794744005000.5"): EVENT,
    PLAIN.replace("1794744005000", "1e400"): "event_without_time",
    PLAIN.replace("1794744005000", "9" * 400): "event_without_time",
    PLAIN.replace("1794744005000", "9" * 5000): NOT_JSON,
    PLAIN.replace("{}", "[]"): EVENT,
    PLAIN.replace('{"object": {}}', "[7, {}]"): EVENT,
    PLAIN.replace('{"object": {}}', '{"position": {"ordinal": 1e300}, "rank": 1e400, "dwell": 1e400}'): EVENT,
    PLAIN.replace(
        '{"object": {}}', '{"position": {"ordinal": 99999999999999999999}, "rank": 1' + "0" * 99 + "}"
    ): EVENT,
    PLAIN[:-1] + ', "query_id": "again"}': EVENT,
    PLAIN + PLAIN: NOT_JSON,
    PLAIN[:-1] + ",}": NOT_JSON,
    PLAIN[:-1]: NOT_JSON,
    PLAIN[:-1] + ', "x": 01}': NOT_JSON,
    PLAIN[:-1] + ', "x": +1}': NOT_JSON,
    PLAIN[:-1] + ', "x": 1.}': NOT_JSON,
    PLAIN[:-1] + ', "x": NaN}': NOT_JSON,
    PLAIN[:-1] + ', "x": nul}': NOT_JSON,
    PLAIN[:-1] + ', "x": [1,]}': NOT_JSON,
    PLAIN[:-1] + ', "x": {"y"}}': NOT_JSON,
    PLAIN[:-1] + ', "x": "\\q"}': NOT_JSON,
    PLAIN[:-1] + ', "x": "\\u12g4"}': NOT_JSON,
    PLAIN[:-1] + ', "x": "\t"}': NOT_JSON,
    PLAIN[:-1] + ', "x": "\\ud800"}': "not_unicode",
    PLAIN[:-1] + ', "x": 1e400}': EVENT,
    PLAIN[:-1] + ', "x": ' + "[" * 99 + "]" * 99 + "}": EVENT,
    PLAIN[:-1] + ', "x": ' + "[" * 99_999 + "]" * 99_999 + "}": NOT_JSON,
    PLAIN + "\r": EVENT,
    '{"user_query": "shoes", "query_id": "q", "hits": {"hits": []}}': QUERY,
    '{"user_query": "shoes", "query_id": "q", "query_response_hit_ids": [7, "b"]}': QUERY,
    '{"user_query": "shoes", "query_id": "q", "query_response_hit_ids": ["a", null]}': "hit_without_id",
    '{"user_query": "shoes", "query_id": "q", "query_response_hit_ids": [' + "9" * 5000 + "]}": NOT_JSON,
    '{"user_query": "shoes", "query_id": "q", "query_response_hit_ids": ' + "[" * 99_999 + "]" * 99_999 + "}": NOT_JSON,
    '{"user_query": "shoes", "query_id": "q", "query_attributes": {"n": 5}}': QUERY,
    '{"user_query": "shoes", "query_id": "q", "query_attributes": {"n": ' + "9" * 5000 + "}}": QUERY,
    '{"user_query": "shoes", "query_id": "q", "query_attributes": {"n": "\\ud800"}}': "not_unicode",
    '{"user_query": "shoes", "query_id": "q", "interleaf_row": {"n": 5}}': QUERY,
    '{"user_query": "shoes", "query_id": ""}': "query_without_id",
    '{"_id": "7", "_source": {"user_query": "shoes", "query_id": "q"}}': QUERY,
    '{"_source": {"index": {}}}': "unknown_record",
    '{"query_id": "q", "document": "a", "time": 1794744005}': EVENT,
    "[1]": "not_an_object",
    "7": "not_an_object",
    "{}": "unknown_record",
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_a_record_or_dropped_with_its_reason_and_number(tmp_path: Path, line: str) -> None:
    queries, events, imported = read(tmp_path, line, PLAIN)
    expected = LINES[line]
    assert (len(queries), len(events)) == (expected == QUERY, 1 + (expected == EVENT))
    path = tmp_path / "ubi.ndjson"
    assert imported.examples == ({} if expected in (EVENT, QUERY, ACTION) else {expected: f"{path}:1"})
    assert all(reason.remedy for reason in imported.counts)  # type: ignore[attr-defined]


def test_of_a_name_that_comes_twice_the_last_one_counts(tmp_path: Path) -> None:
    _, (event,), _ = read(tmp_path, PLAIN[:-1] + ', "query_id": "again"}')
    assert event["query_id"] == "again"


def test_bytes_that_are_no_text_drop_their_line_only(tmp_path: Path) -> None:
    for wrong in (PLAIN.encode().replace(b"click", b"\xff\xfe"), PLAIN[:-1].encode() + b', "skipped": "\xff"}'):
        _, events, imported = read(tmp_path, PLAIN, wrong, PLAIN)
        assert len(events) == 2
        assert imported.examples == {NOT_JSON: f"{tmp_path / 'ubi.ndjson'}:2"}


def test_a_kind_that_is_no_text_is_written_as_json(tmp_path: Path) -> None:
    click = {"query_id": "q", "document": "d", "time": 1794744005000}
    for kinds in (["click", None], ["click", None, 7]):  # Arrow alone would read the first as texts and a null
        _, events, _ = read(tmp_path, *(json.dumps(click | {"kind": kind}) for kind in kinds))
        assert [event["kind"] for event in events] == ["click", "null", "7"][: len(kinds)]


def test_the_id_of_an_action_line_is_that_of_the_next_record_only(tmp_path: Path) -> None:
    action = '{"create": {"_id": "e-1"}}'
    _, events, _ = read(tmp_path, action, PLAIN, PLAIN, action, "", PLAIN, action, "[1]", PLAIN)
    assert [one["event"] for one in events] == ["e-1", None, None, None]


# The rules again, in plain Python.


def text_of(value: Any, counts: Counter[str]) -> str | None:
    counts["numeric_id"] += type(value) is int
    return value if type(value) is str else str(value) if type(value) is int else None


def number_of(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and abs(value) < 3e38 else None


def ordinal_of(value: Any, counts: Counter[str]) -> int | None:
    counts["ordinal_not_whole"] += type(value) is float
    return int(value) if type(value) in (int, float) and value == int(value) else None


def time_of(value: Any, counts: Counter[str]) -> int | None:
    counts["numeric_time"] += type(value) is int
    return {"2026-11-15T12:00:05.25+0100": 1794740405250000, 1794744005000: 1794744005000000}.get(value)


def id_of(value: Any, counts: Counter[str]) -> str | None:
    return text_of(value, counts) or None


def expected_event(value: Row, counts: Counter[str]) -> Row | str:
    query = text_of(value["query_id"], counts)
    if not query:
        return "event_without_query"
    time = time_of(value["timestamp"], counts)
    if time is None:
        return "event_without_time"
    more = value.get("event_attributes") or {}
    thing, place = more.get("object") or {}, more.get("position") or {}
    dwell, dwell_time = number_of(more.get("dwell")), number_of(more.get("dwell_time"))
    counts["dwell_time"] += dwell is None and dwell_time is not None
    return {
        "query_id": query,
        "kind": value["action_name"],
        **{name: id_of(value.get(f"{name}_id"), counts) for name in ("user", "client", "session")},
        "application": id_of(value.get("application"), counts),
        "event": id_of(more.get("event"), counts),
        "document": id_of(thing.get("object_id"), counts),
        "internal": id_of(thing.get("internal_id"), counts),
        "owner": id_of(more.get("search_config"), counts),
        "time": time,
        "ordinal": ordinal_of(place.get("ordinal"), counts),
        "rank": more.get("rank"),
        "dwell": dwell_time if dwell is None else dwell,
        "value": number_of(more.get("value")),
    }


def expected_query(value: Row, counts: Counter[str]) -> Row | str:
    query = text_of(value["query_id"], counts)
    if not query:
        return "query_without_id"
    attributes = value.get("query_attributes") or {}
    time = time_of(value["timestamp"], counts)
    hits = [text_of(hit, counts) for hit in value.get("query_response_hit_ids") or []]
    if None in hits:
        return "hit_without_id"
    counts["attribute_not_text"] += sum(type(one) in (list, dict) for one in attributes.values())
    texts = {
        name: one if type(one) is str else json.dumps(one)
        for name, one in attributes.items()
        if type(one) in (str, int, float, bool)
    }
    return {
        "query_id": query,
        "time": time,
        "text": value.get("user_query"),
        **{name: id_of(value.get(f"{name}_id"), counts) for name in ("user", "client", "session")},
        "application": id_of(value.get("application"), counts),
        "hits": hits or None,
        "owners": None,
        "own": None,
        "attributes": texts,
    }


def expected(records: Sequence[Row], counts: Counter[str]) -> tuple[list[Row], list[Row]]:
    queries: list[Row] = []
    events: list[Row] = []
    for value in records:
        is_query = "user_query" in value or "query_response_hit_ids" in value
        if "action_name" in value:
            row = expected_event(value, counts)
        else:
            row = expected_query(value, counts) if is_query else "unknown_record"
        if isinstance(row, str):
            counts[row] += 1
        else:
            (events if "action_name" in value else queries).append(row)
    return queries, events


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(MADE, min_size=1, max_size=5), st.booleans(), st.sampled_from([None, 1]), st.booleans())
def test_records_are_those_of_the_rules(
    tmp_path: Path, records: list[Row], ascii_only: bool, indent: int | None, is_compact: bool
) -> None:
    separators = (",", ":") if is_compact else None
    lines = [
        json.dumps(one, ensure_ascii=ascii_only, indent=indent, separators=separators).replace("\n", " ")
        for one in records
    ]
    queries, events, imported = read(tmp_path, *lines)
    for query in queries:
        query["attributes"] = json.loads(query["attributes"])
    counts = Counter[str]()
    assert (queries, events) == expected(records, counts)
    assert +imported.counts == +counts


def test_times_are_the_moments_that_they_say() -> None:
    draw = Random(1)
    for _ in range(1000):
        moment = datetime(draw.randrange(2, 9999), draw.randrange(1, 13), draw.randrange(1, 29), tzinfo=UTC)
        moment += timedelta(microseconds=draw.randrange(86_400 * 10**6))
        ahead = timedelta(minutes=draw.randrange(-23 * 60, 23 * 60))
        sign, hours, minutes = "-" if ahead < timedelta(0) else "+", *divmod(abs(ahead) // timedelta(minutes=1), 60)
        zone = f"{sign}{hours:02}{draw.choice([':', ''])}{minutes:02}"
        local = (moment + ahead).replace(tzinfo=None)
        text = local.isoformat(draw.choice("T "), "microseconds") + zone
        counts = Counter[str]()
        assert since_1970(text, counts) == moment - datetime(1970, 1, 1, tzinfo=UTC)
        assert not counts


@pytest.mark.parametrize("text", ["2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-12-31T25:00:00Z", "noon", ""])
def test_what_is_no_time_is_none(text: str) -> None:
    assert since_1970(text, Counter()) is None
