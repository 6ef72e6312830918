"""Broken logs: a clear error, or a report that accounts for every row and is right about those it kept."""

import math
import re
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from interleaf import DataError, InterleafError, Interleaving, log
from interleaf.analysis.analyze import analyze
from interleaf.log import schema
from interleaf.methods.registry import METHODS, resolve
from interleaf.report.report import Report
from tests.oracles.logs import Rules, Sums
from tests.support.log_rows import Row, loose_table_of, made_event, made_row, made_rows, table_of, with_column

STRANGE = ("", "\0", "a\0b", "👟" * 300, "x" * 100_000, "‮right to left", "line\nbreak", "'quotes\"", "NaN")


class Change(NamedTuple):
    """What is wrong with a row, and what must become of it."""

    row: Any
    fate: str  # "kept", "dropped" or "left out"


def with_event(**event: Any) -> Any:
    return lambda row: {"events": [*row["events"], made_event(**({"rank": 1, "time": row["time"]} | event))]}


CHANGES = (
    *(Change({"unit": text}, "kept") for text in (*STRANGE[1:], None)),
    *(Change({"arm": text}, "kept") for text in ("holdout", "fallback", STRANGE[2])),
    *(Change({"attributes": {text: text, "device": text}}, "kept") for text in STRANGE),
    *(Change(lambda row, text=text: {"documents": [text, *row["documents"][1:]]}, "kept") for text in STRANGE),
    *(Change({name: None}, "dropped") for name in ("impression", "time", "rankers", "experiment", "arm", "method")),
    *(Change(with_event(rank=rank), "dropped") for rank in (0, -1, 5, 32_767, -32_768)),
    Change(with_event(seconds=-3600), "kept"),
    Change(with_event(seconds=10**8), "kept"),
    Change(with_event(kind=STRANGE[2]), "kept"),
    Change(with_event(event="", dwell=math.nan, value=math.inf), "kept"),
    Change({"events": []}, "kept"),
    Change({"events": None}, "kept"),
    Change({"rankers": ["A", "A"]}, "dropped"),
    Change({"rankers": ["A", "B", "C"]}, "dropped"),
    Change({"rankers": []}, "dropped"),
    Change({"rankers": ["A", STRANGE[2]]}, "left out"),
    Change({"version": 0}, "left out"),
    Change({"version": None}, "dropped"),
    Change({"method": "team_craft"}, "dropped"),
    Change({"method": "team_draft(depth=3)"}, "dropped"),
    Change({"method": "single"}, "dropped"),
    Change({"method": "team_draft(fill=owned)"}, "left out"),
    Change({"ranks": [[1, 2, 3, 4]]}, "dropped"),
    Change({"ranks": [[1, 2, 3, 4], [1, 2, 3]]}, "dropped"),
    Change({"ranks": [[1, 2, 3, 4], [1, 1, 2, 3]]}, "dropped"),
    Change({"ranks": [[1, 2, 3, 7], [1, 2, 3, 4]]}, "dropped"),
    Change({"ranks": [[1, 2, 3, -4], [1, 2, 3, 4]]}, "dropped"),
    Change({"teams": [0, 1, 0, 2]}, "dropped"),
    Change({"teams": [0, 1, 0, -2]}, "dropped"),
    Change({"teams": [0, 1, 0]}, "dropped"),
    Change({"teams": None}, "dropped"),
    Change({"lengths": [6]}, "dropped"),
    Change({"lengths": [3, 3]}, "dropped"),
    Change({"union": 100}, "dropped"),
    Change({"union": 3}, "dropped"),
    *(Change({"key": text, "query": text, "session": text}, "kept") for text in STRANGE),
    Change({"page": -1, "log_probability": math.nan, "relaxed": True, "grades": [1], "captions": []}, "kept"),
    *(Change({"latency": some}, "kept") for some in ([math.nan, -1.0], [1.0], [1e38, 0.0], [], [None, 2.0])),
    Change({"time": made_row(0)["time"] + timedelta(days=100_000)}, "dropped"),
    Change({"time": made_row(0)["time"] - timedelta(days=100_000)}, "dropped"),
)


def left_out(report: Report) -> int:
    """Rows that a note tells of."""
    found = [number for note in report.notes for number in re.findall(r"left out: ([\d,]+)", note)]
    return sum(int(number.replace(",", "")) for number in found)


def check_accounts(rows: list[Row], fates: list[str]) -> None:
    """Every row is counted once, in its place; and the figures are those of the rows that are kept."""
    kept = [row for row, fate in zip(rows, fates, strict=True) if fate == "kept"]
    kept = [row | {"events": row["events"] or [], "attributes": row["attributes"] or {}} for row in kept]
    report = analyze(loose_table_of(rows), by=["device"])
    count = Counter(fates)
    assert report.totals.impressions == len(kept)
    assert sum(report.totals.dropped.values()) == count["dropped"]
    assert left_out(report) == count["left out"]
    sums = Sums(kept)
    (found,) = report.comparisons
    assert (found.impressions, found.clicked) == (sums.impressions, sums.clicked)
    assert (found.wins, found.losses) == (sums.wins[0, 1], sums.losses[0, 1])
    assert found.estimate == (pytest.approx(float(sums.estimate((0, 1)))) if sums.clicked else None)


def changed(row: Row, change: Change) -> Row:
    more: Row = change.row(row) if callable(change.row) else change.row
    return row | more


@pytest.mark.parametrize("place", range(len(CHANGES)))
def test_rows_with_one_thing_wrong_are_accounted_for(place: int) -> None:
    rows, change = made_rows(20), CHANGES[place]
    for number in (3, 9, 19):
        rows[number] = changed(rows[number], change)
    fates = [change.fate if number in (3, 9, 19) else "kept" for number in range(20)]
    check_accounts(rows, fates)


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, len(CHANGES) - 1), min_size=1, max_size=15, unique=True),
    st.lists(st.integers(0, 29), max_size=4, unique=True),
    st.randoms(use_true_random=False),
)
def test_rows_with_all_kinds_of_wrongs_are_accounted_for(places: list[int], again: list[int], chance: Any) -> None:
    changes = [CHANGES[place] for place in places] + [Change({}, "kept")] * (30 - len(places))
    chance.shuffle(changes)
    rows = [changed(row, change) for row, change in zip(made_rows(30), changes, strict=True)]
    fates = [change.fate for change in changes]
    for number in again:  # the same row once more
        if fates[number] != "dropped":
            rows.append(rows[number])
            # What another version lacks is told with that version.
            fates.append("left out" if rows[number]["version"] == 0 else "dropped")
    check_accounts(rows, fates)


# Whole columns.

KINDS = (pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.list_(pa.string()), pa.null(), pa.binary())


@pytest.mark.parametrize("name", schema.SCHEMA.names)
def test_a_missing_column_is_named_or_done_without(name: str) -> None:
    source = table_of(made_rows(20)).drop([name])
    if not schema.SCHEMA.field(name).nullable and name not in schema.DEFAULTS:
        with pytest.raises(DataError, match=f"no column '{name}'"):
            analyze(source)
        return
    if name in resolve("team_draft").method.needs:
        with pytest.raises(DataError, match=f"by team_draft; dropped rows: no {name}: 20"):
            analyze(source)
        return
    report = analyze(source)
    assert report.totals.impressions + sum(report.totals.dropped.values()) == 20
    if name == "events":
        assert (report.totals.clicked, report.comparisons[0].estimate) == (0, None)
    elif report.totals.impressions and name != "unit":
        assert report.comparisons == analyze(table_of(made_rows(20))).comparisons


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", schema.SCHEMA.names)
def test_a_column_of_another_type_is_named_or_read_as_what_it_is(name: str, kind: Any) -> None:
    source = with_column(table_of(made_rows(20)), name, pa.nulls(20, kind))
    try:
        report = analyze(source)
    except InterleafError as error:
        message = str(error)
    else:
        message = ""
        assert report.totals.impressions + sum(report.totals.dropped.values()) == 20
    if message and kind != pa.null():
        assert f"column '{name}'" in message or "no row that can be used" in message


@pytest.mark.parametrize("field", [column.name for column in schema.EVENT])
def test_events_without_a_field_are_refused_or_counted_without_it(field: str) -> None:
    source = table_of(made_rows(20))
    events = [[{**event} for event in row] for row in source["events"].to_pylist()]
    for event in (event for row in events for event in row):
        del event[field]
    kind = pa.list_(pa.struct([column.field for column in schema.EVENT if column.name != field]))
    changed = with_column(source, "events", events, kind)
    if field in ("kind", "rank", "time"):
        with pytest.raises(DataError, match=f"no field '{field}'"):
            analyze(changed)
    else:
        assert analyze(changed).comparisons == analyze(source).comparisons


def test_columns_that_nobody_knows_change_nothing() -> None:
    source = table_of([row | {"mood": "fine", "documents2": [1]} for row in made_rows(20)])
    assert analyze(source).to_dict() == analyze(table_of(made_rows(20))).to_dict()


def test_text_that_is_not_unicode_is_a_clear_error() -> None:
    source = table_of(made_rows(4))
    offsets = pa.py_buffer(pa.array(range(0, 10, 2), pa.int32()).buffers()[1])
    broken = pa.StringArray.from_buffers(4, offsets, pa.py_buffer(b"\xff\xfe" * 4))
    with pytest.raises(InterleafError):
        analyze(with_column(source, "arm", broken))


@pytest.mark.parametrize("microseconds", [569 * 10**15, -(10**17), 2**63 - 1, -(2**62)])
@pytest.mark.parametrize("everywhere", [True, False])
def test_times_that_no_calendar_has_are_dropped_or_a_clear_error(microseconds: int, everywhere: bool) -> None:
    source = table_of(made_rows(20))
    usual = source["time"].combine_chunks().view(pa.int64()).to_pylist()
    times = [microseconds] * 20 if everywhere else [*usual[:-1], microseconds]
    try:
        report = analyze(with_column(source, "time", pa.array(times).view(schema.TIME)))
    except InterleafError:
        return
    assert report.totals.impressions + sum(report.totals.dropped.values()) == 20
    assert str(report)


# Files.


@pytest.fixture
def written(tmp_path: Path) -> Path:
    log.write_batches(tmp_path / "log.parquet", table_of(made_rows(200)).to_batches())
    return tmp_path / "log.parquet"


def test_a_parquet_file_that_is_cut_off_or_damaged_is_named(written: Path) -> None:
    data = written.read_bytes()
    for size in (0, 3, 4, 100, len(data) // 2, len(data) - 8, len(data) - 1):
        written.write_bytes(data[:size])
        with pytest.raises(DataError, match=r"log\.parquet"):
            analyze(written)
    written.write_bytes(b"PAR1" + bytes(500) + b"PAR1")
    with pytest.raises(DataError, match=r"log\.parquet"):
        analyze(written)


def test_lines_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    log.write_batches(tmp_path / "log.jsonl", table_of(made_rows(30)).to_batches())
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines(keepends=True)
    lines[3] = b"not json\n"
    lines[7] = b"[1, 2]\n"
    lines[9] = lines[9].replace(b'"union":', b'"union":"many","u":')
    lines[11] = lines[11][:50]  # and glued to the next one
    (tmp_path / "log.jsonl").write_bytes(b"".join(lines) + lines[0][:200])
    report = analyze(tmp_path / "log.jsonl")
    kept = [row for number, row in enumerate(made_rows(30)) if number not in (3, 7, 9, 11, 12)]
    assert report.comparisons == analyze(table_of(kept)).comparisons
    assert sum(report.totals.dropped.values()) == 5


# What `Interleaving.from_dict` refuses must not be scored, and what it takes must be.


@st.composite
def doubtful_rows(draw: st.DrawFn, method: str) -> list[Row]:
    """Rows whose numbers are nearly right; without rankings, which could mend them."""
    numbers = st.integers(-1, 8) | st.sampled_from([100, 127])
    rows = []
    for number in range(draw(st.integers(1, 4))):
        row = made_row(number, draw(st.lists(st.integers(1, 4), max_size=3)), method, rankings=None)
        for name in draw(st.lists(st.sampled_from(["ranks", "lengths", "union", "teams", "choices"]), max_size=2)):
            if name == "union":
                row[name] = draw(numbers)
            elif row.get(name) is not None:
                part = row[name][draw(st.integers(0, 1))] if name == "ranks" else row[name]
                part[draw(st.integers(0, len(part) - 1))] = draw(numbers)
        rows.append(row)
    return rows


def is_taken(row: Row) -> bool:
    try:
        Interleaving.from_dict(row)
    except InterleafError:
        return False
    return True


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.schemes])
@settings(max_examples=40)
@given(data=st.data())
def test_a_row_is_scored_if_and_only_if_it_could_be_a_list(method: str, data: st.DataObject) -> None:
    """Without ranks of unshown documents: these schemes do not read them, and `from_dict` checks them against ranks."""
    drawn = data.draw(doubtful_rows(method))
    rows = [{name: value for name, value in row.items() if name != "unshown_ranks"} for row in drawn]
    taken = [row for row in rows if is_taken(row)]
    scheme = "click_deduped" if method == "team_draft" else "click"
    if not taken:
        with pytest.raises(DataError, match="no row that can be used"):
            analyze(loose_table_of(rows), scheme)
        return
    report = analyze(loose_table_of(rows), scheme)
    (found,) = report.comparisons
    assert found.impressions == len(taken), [is_taken(row) for row in rows]
    assert sum(report.totals.dropped.values()) == len(rows) - len(taken)
    sums = Sums(taken, Rules(scheme))
    assert found.clicked == sums.clicked
    assert found.estimate == (pytest.approx(float(sums.estimate((0, 1))), abs=1e-12) if sums.clicked else None)


def test_a_list_of_a_million_documents_is_dropped_and_reads_nothing_that_is_not_there() -> None:
    deep = [f"d{number}" for number in range(900_000)]
    places = list(range(1, len(deep) + 1))
    long = {"documents": deep, "teams": [0] * len(deep), "ranks": [places, places[::-1]]}
    row = {
        name: value for name, value in made_row(99).items() if name not in ("lengths", "union", "rankings", "choices")
    }
    report = analyze(loose_table_of([*made_rows(40), row | long]))
    assert report.totals.dropped == {"too_many_documents": 1}


@pytest.mark.parametrize("kind", [pa.list_(pa.null()), pa.null()])
def test_a_parquet_file_whose_events_are_all_empty_is_read(tmp_path: Path, kind: Any) -> None:
    rows = [row | {"events": []} for row in made_rows(20)]
    values: list[Any] = [None if pa.types.is_null(kind) else []] * 20
    table = with_column(table_of(rows), "events", values, kind)
    pq.write_table(table, tmp_path / "log.parquet")
    assert analyze(tmp_path / "log.parquet").totals.impressions == 20
    assert analyze(table).totals.impressions == 20


def test_whole_numbers_are_ids_of_units_and_impressions(tmp_path: Path) -> None:
    table = table_of(made_rows(40))
    numbers = {"unit": [row % 7 for row in range(40)], "impression": list(range(40))}
    named = table
    for name, values in numbers.items():
        table = with_column(table, name, values, pa.int64())
        named = with_column(named, name, [str(value) for value in values])
    pq.write_table(table, tmp_path / "log.parquet")
    wanted = analyze(named).to_dict()
    assert analyze(table).to_dict() == wanted
    assert analyze(tmp_path / "log.parquet").to_dict() == wanted
