"""Logs are written whole or not at all, and what is read back is what was written."""

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interleaf import DataError, Interleaving, interleave
from interleaf.log import record_batches, rows_to_batch, write_batches
from interleaf.log.schema import SCHEMA

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def row(number: int, **changes: Any) -> dict[str, Any]:
    """An impression as a service would log it."""
    rankings = {"production": ["d4", "d1", "d7"], "candidate": ["d1", "d9", "d4"]}
    shown = interleave(rankings, k=3, key=("example", number))
    click = {"event": f"e-{number}", "kind": "click", "rank": 2, "time": NOON + timedelta(seconds=number), "dwell": 1.5}
    impression = {
        "experiment": "example",
        "version": 1,
        "impression": f"i-{number}",
        "time": NOON,
        "unit": "ユーザー" if number % 2 else None,
        "arm": "interleaved",
        "events": [click] if number % 3 else [],
        "attributes": {"device": "mobile"},
        "latency": [12.5, 3.25],
    }
    return shown.to_dict(rankings=True) | impression | changes


def rows(count: int) -> Any:
    return rows_to_batch(row(number) for number in range(count))


def lines(path: Path) -> list[dict[str, Any]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_parquet_gives_back_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batches, "ROW_GROUP", 8)
    batch = rows(20)
    path = tmp_path / "log.parquet"
    pieces = [batch.slice(0, 3), batch.slice(3, 12), batch.slice(15)]
    assert write_batches(path, pieces, {"interleaf.truth": "{}"}) == 20
    table = pq.read_table(path)
    assert table.combine_chunks().to_batches()[0].equals(batch)
    assert table.schema.equals(SCHEMA)
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(number).num_rows for number in range(3)] == [8, 8, 4]
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert file.schema_arrow.metadata == {b"interleaf.schema": b"1", b"interleaf.truth": b"{}"}


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
def test_json_lines_give_back_what_was_written(tmp_path: Path, name: str) -> None:
    batch = rows(20)
    assert write_batches(tmp_path / name, [batch.slice(0, 7), batch.slice(7)]) == 20
    found = lines(tmp_path / name)
    assert rows_to_batch(found).equals(batch)
    assert found[1]["time"] == "2026-11-15T12:00:00.000000Z"
    assert found[1]["events"][0] == {
        "event": "e-1",
        "kind": "click",
        "rank": 2,
        "time": "2026-11-15T12:00:01.000000Z",
        "dwell": 1.5,
    }
    assert found[1]["attributes"] == {"device": "mobile"}
    assert "unit" not in found[0]
    assert Interleaving.from_dict(found[0]).documents == tuple(found[0]["documents"])


def test_the_same_rows_make_the_same_zipped_file(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_batches(tmp_path / name, [rows(5)])
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


@pytest.mark.parametrize("name", ["log.parquet", "log.jsonl", "log.jsonl.gz"])
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ZeroDivisionError, GeneratorExit])
def test_an_interrupted_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, interruption: type[BaseException]
) -> None:
    monkeypatch.setattr(record_batches, "ROW_GROUP", 4)

    def interrupted() -> Iterator[Any]:
        yield rows(10)
        assert list(tmp_path.glob(f"*{Path(name).suffix}")) == [], "nothing must look like a log yet"
        raise interruption

    with pytest.raises(interruption):
        write_batches(tmp_path / name, interrupted())
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write_batches(path, [rows(3)])
    with pytest.raises(DataError):
        write_batches(path, [rows(2), rows(2).drop_columns(["unit"])])
    assert len(lines(path)) == 3
    write_batches(path, [rows(1)])
    assert len(lines(path)) == 1


@pytest.mark.parametrize("name", ["log.parquet", "log.jsonl"])
def test_no_batches_make_an_empty_log(tmp_path: Path, name: str) -> None:
    assert write_batches(tmp_path / name, []) == 0
    if name == "log.parquet":
        assert pq.read_table(tmp_path / name).schema.equals(SCHEMA)


def test_missing_nullable_columns_stay_missing_and_unknown_ones_are_kept(tmp_path: Path) -> None:
    batch = rows_to_batch([row(1, shelf=["a", "b"]), row(2)]).drop_columns(["captions"])
    write_batches(tmp_path / "log.parquet", [batch])
    table = pq.read_table(tmp_path / "log.parquet")
    assert "captions" not in table.column_names
    assert table["shelf"].to_pylist() == [["a", "b"], None]


def test_a_log_has_one_schema_and_it_is_checked(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="batch 2 has the columns"):
        write_batches(tmp_path / "log.parquet", [rows(2), rows(2).drop_columns(["unit"])])
    with pytest.raises(DataError, match="no column 'arm'"):
        write_batches(tmp_path / "log.parquet", [rows(2).drop_columns(["arm"])])


def test_the_ending_and_the_folder_must_make_sense(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'log.csv' .* '.parquet', '.jsonl' or '.jsonl.gz'"):
        write_batches(tmp_path / "log.csv", [rows(1)])
    with pytest.raises(DataError, match="there is no folder"):
        write_batches(tmp_path / "nowhere" / "log.jsonl", [rows(1)])


def test_json_has_no_word_for_what_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="impression 'i-1' holds a number that JSON cannot"):
        write_batches(tmp_path / "log.jsonl", [rows_to_batch([row(1, log_probability=float("nan"))])])
    assert list(tmp_path.iterdir()) == []


def test_times_may_come_in_any_zone_and_ids_as_integers() -> None:
    tokyo = NOON.astimezone(timezone(timedelta(hours=9)))
    batch = rows_to_batch(
        [row(1, time=tokyo, documents=[4, 1, 9]), row(2, time=tokyo.isoformat(), rankings=[[4, 1, 7], [1, 9, 4]])]
    )
    assert batch["time"].to_pylist() == [NOON, NOON]
    assert batch["documents"][0].as_py() == ["4", "1", "9"]
    assert batch["rankings"][1].as_py() == [["4", "1", "7"], ["1", "9", "4"]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arm": None}, "row 2 has no 'arm'"),
        ({"method": None}, "row 2 has no 'method'"),
        ({"version": "first"}, "column 'version' cannot be written as int32"),
        ({"version": 2**40}, "column 'version' cannot be written as int32"),
        ({"teams": 3}, "column 'teams' cannot be written as list"),
        ({"time": datetime(2026, 11, 15)}, "column 'time' .* does not say its zone"),
        ({"time": "noon"}, "column 'time' cannot be written"),
        ({"time": 1.0}, "is not a time; give a datetime or ISO 8601 text"),
        ({"events": [{"kind": "click", "rank": 1, "time": "2026-11-15T12:00:00"}]}, "column 'events' .* its zone"),
        ({"events": 3}, "column 'events' cannot be written"),
        ({"documents": "d1"}, "column 'documents' cannot be written"),
        ({"rankings": ["d1", "d2"]}, "column 'rankings' .* 'd1' is one text; give a list"),
        ({"rankings": 3}, "column 'rankings' cannot be written"),
        ({"documents": [("a", 1)]}, "column 'documents' cannot be written"),
        ({"attributes": {"device": 3}}, "column 'attributes' cannot be written"),
    ],
)
def test_a_row_that_cannot_be_logged_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        rows_to_batch([row(1), row(2) | changes])


def test_a_batch_of_no_rows_has_the_schema() -> None:
    assert rows_to_batch([]).schema.equals(SCHEMA)
    assert pa.Table.from_batches([rows_to_batch([])]).num_rows == 0
