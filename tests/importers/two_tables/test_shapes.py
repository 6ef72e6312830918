"""Whatever the shape, the format and the order of two tables: the report is that of the log they came from."""

import csv
import io
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from interleaf import analyze
from interleaf.importers import partition
from interleaf.methods.registry import METHODS
from tests.support.log_rows import Row, made_rows, table_of
from tests.support.two_tables import RESULTS, SHAPES, as_lines, as_table, events_of, in_shape, numbers_of, with_json

COMPARED = [name for name, row in METHODS.items() if row.schemes]
PLACES = ("document", "rank", "rank from 0")


@pytest.mark.parametrize("shape", [*SHAPES, RESULTS])
@pytest.mark.parametrize("method", COMPARED)
def test_two_tables_are_the_log_that_they_came_from(method: str, shape: str) -> None:
    rows = made_rows(40, method, of=METHODS[method].rankers[0] or 2)
    tables = as_table(in_shape(rows, shape)), as_table(events_of(rows))
    assert numbers_of(impressions=tables[0], events=tables[1], by=["device"]) == numbers_of(
        table_of(rows), by=["device"]
    )


ROWS = made_rows(30, of=3)
EXPECTED = numbers_of(table_of(ROWS))


def as_csv(rows: list[Row], path: Path) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8")
    return path


def as_source(rows: list[Row], kind: str, folder: Path, name: str) -> Any:
    """The rows in a format; CSV takes only texts and numbers."""
    path = folder / name
    if kind == "lines":
        path.with_suffix(".jsonl").write_text(as_lines(rows), encoding="utf-8")
        return path.with_suffix(".jsonl")
    if kind == "csv":
        return as_csv(rows, path.with_suffix(".csv"))
    if kind == "folder":
        path.mkdir(exist_ok=True)
        for number, part in enumerate((rows[::2], rows[1::2])):
            pq.write_table(as_table(part), path / f"{number}.parquet")
        return str(path)
    table = as_table(rows)
    if kind == "polars":
        return pytest.importorskip("polars").from_arrow(table)
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(rows)
    if kind == "stream":
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(7))
    return table


FORMATS = ("table", "stream", "lines", "csv", "folder", "polars", "pandas")


@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from([*SHAPES, RESULTS]),
    st.tuples(st.sampled_from(FORMATS), st.sampled_from(FORMATS)),
    st.sampled_from(PLACES),
    st.integers(0, 2**32),
    st.sampled_from([0, 2**40]),
)
def test_shape_format_order_and_partitions_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory,
    shape: str,
    formats: tuple[str, str],
    place: str,
    seed: int,
    room: int,
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    impressions, events = in_shape(ROWS, shape), events_of(ROWS, place)
    impressions = list(map(with_json, impressions)) if formats[0] == "csv" else impressions
    Random(seed).shuffle(impressions)
    Random(seed + 1).shuffle(events)
    sources = as_source(impressions, formats[0], folder, "i"), as_source(events, formats[1], folder, "e")
    with pytest.MonkeyPatch.context() as changed:
        if not room:  # many partitions, all of them on disk
            changed.setattr(partition, "PART", 2**15)
            changed.setattr(partition, "ROOM", 2**10)
        assert numbers_of(impressions=sources[0], events=sources[1]) == EXPECTED


@pytest.mark.parametrize("shape", [*SHAPES, RESULTS])
def test_partitions_may_be_empty(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two impressions in many partitions on disk, and an event of none."""
    monkeypatch.setattr(partition, "PART", 2**11)
    monkeypatch.setattr(partition, "ROOM", 1)
    rows = ROWS[:2]
    events = [*events_of(rows), events_of(rows)[0] | {"request_id": "i-99"}]
    report = analyze(impressions=as_table(in_shape(rows, shape)), events=as_table(events))
    assert report.totals.impressions == 2
    assert report.totals.events == {"counted": len(events) - 1, "unmatched": 1}


def test_the_notes_of_the_report_say_which_columns_were_read() -> None:
    tables = as_table(in_shape(ROWS, "owners by name")), as_table(events_of(ROWS))
    notes = analyze(impressions=tables[0], events=tables[1]).notes
    assert any("unit from 'visitorId'" in note and "owner from 'ranker'" in note for note in notes)
    assert any("document from 'doc_id'" in note for note in notes)
