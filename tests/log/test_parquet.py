"""A Parquet file that is damaged, cut off or something else is named; one without rows is a log without rows."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interleaf import DataError, interleave, log
from interleaf.log.schema import SCHEMA

COUNT = 40


def rows() -> Any:
    shown = [
        interleave([["a", "b", "c"], ["b", "c", "d"]], key=("example", number)).to_dict() for number in range(COUNT)
    ]
    row = {"experiment": "example", "version": 1, "arm": "interleaved", "time": "2026-11-15T12:00:00Z"}
    return log.rows_to_batch(row | one | {"impression": f"i-{number}"} for number, one in enumerate(shown))


def test_a_file_that_is_cut_off_anywhere_is_named(tmp_path: Path) -> None:
    whole = tmp_path / "whole.parquet"
    log.write_batches(whole, [rows()])
    content = whole.read_bytes()
    cut = tmp_path / "cut.parquet"
    for size in {0, 1, 3, 4, 5, 7, 8, 11, 12, *range(16, len(content), 97), *range(len(content) - 20, len(content))}:
        cut.write_bytes(content[:size])
        with pytest.raises(DataError, match=r"cut\.parquet (is empty|cannot be read as Parquet).*again"):
            log.read(cut)
    with pytest.raises(DataError, match=r"cut\.parquet"):
        log.read(tmp_path)


def test_another_format_under_this_name_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    for content in (b"{}\n", b"\x1f\x8b" + b"x" * 100, b"PAR1" + b"\0" * 50 + b"PAR1", b"x" * 10_000):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"log\.parquet cannot be read as Parquet"):
            log.read(path)


def test_a_damaged_page_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_batches([rows()]), path, compression="zstd", use_dictionary=False)
    column = pq.read_metadata(path).row_group(0).column(SCHEMA.get_field_index("impression"))
    content = bytearray(path.read_bytes())
    start = column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    reading = log.read(path)
    assert reading.rows == COUNT
    with pytest.raises(DataError, match=r"log\.parquet cannot be read as Parquet .*damaged"):
        list(reading)
    assert sum(batch.num_rows for batch in log.read(path, ["version", "arm"])) == COUNT, "other columns are whole"


def test_a_file_without_rows_is_a_log_without_rows(tmp_path: Path) -> None:
    log.write_batches(tmp_path / "none.parquet", [])
    pq.write_table(SCHEMA.empty_table(), tmp_path / "empty.parquet")
    reading = log.read(tmp_path)
    assert reading.rows == 0
    assert reading.columns == tuple(SCHEMA.names)
    assert sum(batch.num_rows for batch in reading) == 0


def test_files_of_other_widths_and_columns_are_read_side_by_side(tmp_path: Path) -> None:
    table = pa.Table.from_batches([rows()])
    large = table.set_column(0, "experiment", table["experiment"].cast(pa.large_string()))
    wide = large.set_column(1, "version", large["version"].cast(pa.int64())).append_column(
        "shelf", [list(range(COUNT))]
    )
    pq.write_table(wide.drop_columns(["session", "key"]), tmp_path / "b.parquet")
    pq.write_table(table, tmp_path / "a.parquet")
    reading = log.read(tmp_path)
    assert reading.columns == (*SCHEMA.names, "shelf")
    assert reading.rows == 2 * COUNT
    first, second = reading
    assert first.schema.field("version").type == pa.int32()
    assert second.schema.field("version").type == pa.int64()
    assert second["shelf"].to_pylist() == list(range(COUNT))
    assert "key" not in second.schema.names
    pq.write_table(table.set_column(1, "version", table["version"].cast(pa.string())), tmp_path / "c.parquet")
    with pytest.raises(DataError, match=r"c\.parquet: column 'version' is of type string"):
        log.read(tmp_path)


def test_large_row_groups_come_in_small_batches(tmp_path: Path) -> None:
    many = pa.concat_tables([pa.Table.from_batches([rows()])] * 50)
    pq.write_table(many, tmp_path / "log.parquet", row_group_size=10**6)
    assert pq.read_metadata(tmp_path / "log.parquet").num_row_groups == 1
    sizes = [batch.num_rows for batch in log.read(tmp_path / "log.parquet", ["ranks"], batch_size=300)]
    assert sizes == [300] * 6 + [200]


def test_any_log_becomes_one_file_of_the_native_schema(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    table = pa.Table.from_batches([rows()])
    log.write_batches(folder / "a.jsonl", table.to_batches())
    nanoseconds = table["time"].cast(pa.timestamp("ns", "UTC"))
    foreign = table.set_column(3, "time", nanoseconds).append_column("shelf", [list(range(COUNT))])
    pq.write_table(foreign.drop_columns(["unit"]), folder / "b.parquet")
    (folder / "c.jsonl").write_text("{}\n")
    for name in ("all.parquet", "all.jsonl.gz"):
        reading = log.convert(folder, tmp_path / name)
        assert reading.rows == 2 * COUNT
        assert reading.dropped == {"no_value:impression": 1}
        found = pa.Table.from_batches(list(log.read(tmp_path / name))).cast(SCHEMA)
        assert found.combine_chunks().equals(pa.concat_tables([table, table]).combine_chunks())


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("version", pa.array([2**40] * COUNT), "column 'version' cannot be written as int32"),
        ("arm", pa.array([None] * COUNT, pa.string()), "row 1: there is no 'arm'"),
        (
            "events",
            pa.array(
                [[{"kind": None, "rank": 1, "time": 0}]] * COUNT,
                pa.list_(pa.struct([("kind", pa.string()), ("rank", pa.int16()), ("time", pa.timestamp("us", "UTC"))])),
            ),
            "events",
        ),
    ],
)
def test_what_the_native_schema_cannot_hold_is_not_converted(
    tmp_path: Path, name: str, values: Any, words: str
) -> None:
    table = pa.Table.from_batches([rows()])
    foreign = table.set_column(table.schema.get_field_index(name), name, values)
    with pytest.raises(DataError, match=words):
        log.convert(foreign, tmp_path / "log.parquet")
    assert not list(tmp_path.iterdir())
