"""JSON lines: what may be left out, what is dropped and why; and no line is lost without being counted."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from interleaf import DataError, log
from interleaf.log import jsonl, schema
from interleaf.log.jsonl import is_event, lines_of, parse_line

LEAST: dict[str, Any] = {
    "experiment": "example",
    "impression": "i-1",
    "time": "2026-11-15T12:00:00Z",
    "method": "team_draft",
    "rankers": ["A", "B"],
    "documents": ["a", "b"],
}
FULL: dict[str, Any] = LEAST | {
    "version": 2,
    "unit": "ユーザー",
    "key": "k1:00",
    "arm": "holdout",
    "page": 1,
    "log_probability": -0.5,
    "relaxed": False,
    "latency": [1.5, None],
    "ranks": [[1, 2], [2, 0]],
    "lengths": [2, 1],
    "union": 2,
    "teams": [0, -1],
    "rankings": [["a", "b"], ["b"]],
    "captions": [None, {"title": "b", "highlights": [{"field": "title", "start": 0, "end": 1}]}],
    "characters": [812, None],
    "grades": [2, None],
    "events": [{"kind": "click", "rank": 1, "time": "2026-11-15T12:00:01+00:00", "dwell": 3}],
    "attributes": {"device": "phone"},
}


def write(folder: Path, *lines: Any, name: str = "log.jsonl") -> Path:
    path = folder / name
    path.write_bytes(
        b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    )
    return path


def rows(path: Path) -> tuple[list[dict[str, Any]], log.LogReading]:
    reading = log.read(path)
    return [row for batch in reading for row in batch.to_pylist()], reading


def test_the_least_that_an_impression_says(tmp_path: Path) -> None:
    (row,), reading = rows(write(tmp_path, LEAST))
    assert {name: value for name, value in row.items() if value is not None and name != "time"} == {
        **{name: value for name, value in LEAST.items() if name != "time"},
        **{"version": 1, "arm": "interleaved", "events": [], "attributes": []},
    }
    assert row["time"].isoformat() == "2026-11-15T12:00:00+00:00"
    assert reading.rows == 1
    assert not reading.dropped


def test_nulls_blank_lines_marks_and_unknown_names_change_nothing(tmp_path: Path) -> None:
    plain, _ = rows(write(tmp_path, FULL, LEAST))
    noisy = write(
        tmp_path,
        b"\xef\xbb\xbf" + json.dumps(FULL | {"session": None, "shelf": {"documents": []}}, ensure_ascii=False).encode(),
        b"",
        b"  \r",
        json.dumps(LEAST | {"events": None, "teams": None}).encode() + b" \r",
        name="noisy.jsonl",
    )
    assert rows(noisy)[0] == plain
    packed = tmp_path / "packed.ndjson"
    packed.write_bytes(gzip.compress(noisy.read_bytes()))
    assert rows(packed)[0] == plain, "what is packed is told by its first bytes"


def test_rankings_may_have_names_and_ids_may_be_numbers(tmp_path: Path) -> None:
    named = {name: value for name, value in LEAST.items() if name != "rankers"}
    found, reading = rows(
        write(
            tmp_path,
            named | {"rankings": {"new": [4, 1], "old": ["b"]}, "documents": [4, "b"]},
            named | {"rankings": {"new": ["a"], "old": ["b"]}, "rankers": ["old", "new"]},
            named | {"rankings": {"new": ["a"], "old": ["b"]}, "rankers": ["old", "older"]},
            named | {"rankings": [["a"], ["b"]]},
        )
    )
    assert [(row["rankers"], row["rankings"], row["documents"]) for row in found] == [
        (["new", "old"], [["4", "1"], ["b"]], ["4", "b"]),
        (["old", "new"], [["b"], ["a"]], ["a", "b"]),
    ]
    assert reading.dropped == {"wrong_value:rankings": 1, "no_value:rankers": 1}
    assert reading.examples["wrong_value:rankings"].startswith(
        f"{tmp_path / 'log.jsonl'}:3: 'rankings' are of ['new', 'old']"
    )


def test_attributes_are_texts_and_what_json_calls_a_number_becomes_one(tmp_path: Path) -> None:
    given = {"device": "phone", "age": 7, "share": 0.5, "member": True, "class": None}
    (row,), _ = rows(write(tmp_path, LEAST | {"attributes": given}))
    assert row["attributes"] == [("device", "phone"), ("age", "7"), ("share", "0.5"), ("member", "true")]


WRONG: list[tuple[Any, str]] = [
    (b"no json", "not_json"),
    (b'{"experiment": NaN}', "not_json"),
    (b"\xff\xfe{", "not_json"),
    (b"[" * 100_000, "not_json"),
    (b'{"version": ' + b"1" * 5000 + b"}", "not_json"),
    (b"[1, 2]", "not_an_object"),
    (b'"text"', "not_an_object"),
    (json.dumps(LEAST | {"query": "\ud800"}).encode(), "not_unicode"),
    ({}, "no_value:impression"),
    *(
        ({key: value for key, value in LEAST.items() if key != name}, f"no_value:{name}")
        for name in LEAST
        if name != "experiment"
    ),
    *(
        (LEAST | {name: wrong}, f"wrong_value:{name}")
        for name in FULL
        for wrong in ({"no": ["such"]}, True)
        if name != "relaxed"
    ),
    *(
        (LEAST | {name: 3.5}, f"wrong_value:{name}")
        for name in ("unit", "time", "impression", "documents", "relaxed", "ranks")
    ),
    (LEAST | {"time": "0001-01-01T00:00:00+12:00"}, "wrong_value:time"),
    (LEAST | {"time": "noon"}, "wrong_value:time"),
    (LEAST | {"version": 2**31}, "wrong_value:version"),
    (LEAST | {"version": 1.0}, "wrong_value:version"),
    (LEAST | {"teams": [0, 128]}, "wrong_value:teams"),
    (LEAST | {"teams": [0, None]}, "wrong_value:teams"),
    (LEAST | {"documents": ["a", None]}, "wrong_value:documents"),
    (LEAST | {"documents": [["a"]]}, "wrong_value:documents"),
    (LEAST | {"ranks": [1, 2]}, "wrong_value:ranks"),
    (LEAST | {"ranks": [[1, "2"]]}, "wrong_value:ranks"),
    (LEAST | {"latency": [1e300]}, "wrong_value:latency"),
    (LEAST | {"attributes": {"device": ["phone"]}}, "wrong_value:attributes"),
    (LEAST | {"attributes": [["device", "phone"]]}, "wrong_value:attributes"),
    (LEAST | {"events": [{"kind": "click", "rank": 1}]}, "wrong_value:events"),
    (LEAST | {"events": [None]}, "wrong_value:events"),
    ({"kind": "click", "rank": 1, "time": "2026-11-15T12:00:00Z"}, "no_event_value:impression"),
    ({"kind": "click", "impression": "i-1", "time": "2026-11-15T12:00:00Z"}, "no_event_value:rank"),
    ({"kind": "click", "impression": "i-1", "rank": 1}, "no_event_value:time"),
    ({"kind": "click", "impression": 7.5, "rank": 1, "time": "2026-11-15T12:00:00Z"}, "wrong_event_value:impression"),
    ({"kind": "click", "impression": "i-1", "rank": 1.5, "time": "2026-11-15T12:00:00Z"}, "wrong_event_value:rank"),
]


def test_a_line_without_experiment_or_zone_is_read_and_the_assumption_is_noted(tmp_path: Path) -> None:
    bare = {name: value for name, value in LEAST.items() if name != "experiment"}
    found, reading = rows(write(tmp_path, bare | {"time": "2026-11-15T12:00:00"}))
    assert [(row["experiment"], row["time"]) for row in found] == [
        ("experiment", datetime(2026, 11, 15, 12, tzinfo=UTC))
    ]
    assert list(reading.assumptions) == [schema.NO_EXPERIMENT, schema.NAIVE_TIMES, schema.NO_EVENT_LINES]
    assert not reading.dropped


def test_a_line_that_cannot_be_used_is_counted_by_its_reason(tmp_path: Path) -> None:
    for wrong, reason in WRONG:
        found, reading = rows(write(tmp_path, FULL, wrong, LEAST))
        assert len(found) == 2
        assert dict(reading.dropped) == {reason: 1}, wrong
        assert list(reading.examples) == [reason]
        assert reading.examples[reason].startswith(f"{tmp_path / 'log.jsonl'}:2: ")
    found, reading = rows(write(tmp_path, LEAST, *(wrong for wrong, _ in WRONG)))
    assert len(found) == 1
    assert reading.dropped.total() == len(WRONG)


def test_a_log_without_one_good_line_is_none(tmp_path: Path) -> None:
    path = write(tmp_path, b"a,b", b"1,2")
    with pytest.raises(DataError, match=r"no line can be used, of 2; the first: .*log\.jsonl:1: line is not JSON"):
        list(log.read(path))
    assert rows(write(tmp_path, name="empty.jsonl"))[0] == []


def test_a_last_line_without_its_newline_is_whole_or_cut_off(tmp_path: Path) -> None:
    line = json.dumps(FULL, ensure_ascii=False).encode()
    path = tmp_path / "log.jsonl"
    for size in {0, *range(1, len(line), 5), len(line) - 1, len(line)}:
        path.write_bytes(line + b"\n" + line[:size])
        found, reading = rows(path)
        assert len(found) == (2 if size == len(line) else 1)
        assert reading.dropped == ({} if size in (0, len(line)) else {"cut_off": 1})


def test_a_line_without_end_is_too_long_to_be_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 1000)
    long = json.dumps(LEAST | {"query": "x" * 5000}).encode()
    found, reading = rows(write(tmp_path, LEAST, long, LEAST | {"impression": "i-2"}))
    assert [row["impression"] for row in found] == ["i-1", "i-2"]
    assert reading.dropped == {"line_too_long": 1}


def test_what_is_appended_while_a_log_is_read_is_for_the_next_time(tmp_path: Path) -> None:
    path = write(tmp_path, *(LEAST | {"impression": f"i-{number}"} for number in range(5)))
    reading = log.read(path, batch_size=1)
    batches = iter(reading)
    next(batches)
    with path.open("ab") as file:
        file.write(json.dumps(LEAST).encode() + b"\nhalf a li")
    assert len(list(batches)) == 4
    assert not reading.dropped
    assert [number for number, _ in lines_of(path, path.stat().st_size)] == [1, 2, 3, 4, 5, 6, 7]


def test_a_damaged_packed_file_is_named(tmp_path: Path) -> None:
    content = gzip.compress(json.dumps(LEAST).encode() + b"\n")
    for damaged in (content[:-9], content[:20] + b"\0\0\0" + content[23:]):
        (tmp_path / "log.jsonl.gz").write_bytes(damaged)
        with pytest.raises(DataError, match=r"log\.jsonl\.gz is a damaged gzip file"):
            list(log.read(tmp_path))


EVENT = {"impression": "i-1", "kind": "documents", "rank": 1, "time": "2026-11-15T12:00:00Z"}


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        (json.dumps(FULL), False),
        (json.dumps(EVENT), True),
        (json.dumps(EVENT | {"documents": None}), True),
        (json.dumps(EVENT | {"documents": ["a"]}), False),
        (json.dumps(EVENT | {"documents": "a"}), False),
        (json.dumps(EVENT | {"extra": {"documents": ["a"]}}), True),
        (json.dumps({"note": '"documents": ["a"]'} | EVENT), True),
        (json.dumps({"rankings": {"A": ["a"]}} | LEAST), False),
        (json.dumps({"query": "{"} | LEAST), False),
        (json.dumps(EVENT).replace("impression", "impressio\\u006e"), True),
        (json.dumps(LEAST | {"kind": "click"}).replace("documents", "document\\u0073"), False),
        ('{"documents": ["a"], "documents": null, "kind": "click"}', True),  # JSON takes the last of two values
    ],
)
def test_impressions_and_events_are_told_apart_exactly(line: str, is_one: bool) -> None:
    assert is_event(parse_line(line.encode())) is is_one


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid line with something changed: a field, or bytes."""
    row = draw(st.sampled_from([FULL, LEAST, EVENT]))
    if draw(st.booleans()):
        row = row | {draw(st.sampled_from([*FULL, "kind", "shelf"])): draw(json_values)}
    line = bytearray(json.dumps(row, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.integers(0, 3))):
        place, length = draw(st.integers(0, len(line))), draw(st.integers(0, 4))
        line[place : place + length] = draw(
            st.binary(max_size=3) | st.sampled_from([b'"', b"{", b"}", b"[", b",", b"\\"])
        )
    return bytes(line).replace(b"\n", b" ")


def is_event_by_the_book(line: bytes) -> bool:
    """Whether a line is an object with a kind and without documents, in text that can be written."""
    try:
        value = json.loads(line.decode())
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("kind") is not None and value.get("documents") is None


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(mutated(), min_size=1, max_size=6))
def test_no_line_is_lost_without_being_counted(tmp_path: Path, lines: list[bytes]) -> None:
    path = write(tmp_path, LEAST, *lines)
    found, reading = rows(path)
    full = [line for line in lines if line.strip()]
    events = sum(map(is_event_by_the_book, full))
    wrong_events = sum(
        count for reason, count in reading.dropped.items() if reason.partition(":")[0].endswith("event_value")
    )
    assert len(found) - 1 + reading.dropped.total() - wrong_events == len(full) - events
    assert wrong_events <= events
    for batch in log.read(path, batch_size=2):
        batch.validate(full=True)


def test_lines_without_any_event_are_noted_as_a_table_without_the_column_is(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    click = {"impression": "i-1", "kind": "click", "rank": 1, "time": "2026-11-15T12:00:01Z"}
    for lines, assumed in (
        ([LEAST], [schema.NO_EVENT_LINES]),
        ([LEAST | {"events": []}], []),
        ([LEAST, click], []),
        ([LEAST, LEAST | {"impression": "i-2", "events": []}], []),
    ):
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        reading = log.read(path)
        assert sum(batch.num_rows for batch in reading) == sum("documents" in line for line in lines)
        assert list(reading.assumptions) == assumed
