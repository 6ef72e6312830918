"""Damaged Parquet files: an error that names the file, or the same report; never another one."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interleaf import log
from interleaf.analysis.analyze import analyze
from interleaf.errors import DataError
from interleaf.log import schema
from interleaf.log.parquet import MARK, parquet_pieces
from tests.support.log_rows import made_rows, table_of

ROWS = 200
Result = TypeVar("Result")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checksums") / "log.parquet"
    log.write_batches(path, table_of(made_rows(ROWS)).to_batches())
    return path


def read_all(path: Path) -> pa.Table:
    return pa.Table.from_batches(log.read(path))


def result_or_refusal(function: Callable[[Path], Result], path: Path) -> Result | None:
    """What a function makes of a file; None where an error names the file."""
    try:
        return function(path)
    except DataError as error:
        message = str(error)
    assert str(path) in message
    return None


def test_a_damaged_header_of_a_dictionary_is_an_error(written: Path, tmp_path: Path) -> None:
    """Headers of pages have no checksum; without a word in the dictionary, the place that a row names is not there."""
    data, damaged = written.read_bytes(), tmp_path / "damaged.parquet"
    with pq.ParquetFile(written) as file:
        chunks = [file.metadata.row_group(0).column(number) for number in range(file.metadata.num_columns)]
    (method,) = [chunk for chunk in chunks if chunk.path_in_schema == "method"]
    start = method.dictionary_page_offset
    for place in range(start, start + 40):
        for bit in range(8):
            damaged.write_bytes(flip(data, place, bit))
            found = result_or_refusal(read_all, damaged)
            assert found is None or found["method"].to_pylist() == ["team_draft"] * ROWS


def flip(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


def test_a_flipped_bit_is_an_error_or_changes_nothing(written: Path, tmp_path: Path) -> None:
    """Anywhere in the file: pages, their headers, the footer and its checksum."""
    data, whole, damaged = written.read_bytes(), read_all(written), tmp_path / "damaged.parquet"
    chance, errors = random.Random(10), 0
    for _ in range(500):
        damaged.write_bytes(flip(data, chance.randrange(len(data)), chance.randrange(8)))
        found = result_or_refusal(read_all, damaged)
        errors += found is None
        assert found is None or found.equals(whole)
    assert errors > 300


def test_a_damaged_file_gives_the_same_report_or_none(written: Path, tmp_path: Path) -> None:
    data, report, damaged = written.read_bytes(), analyze(written).to_dict(), tmp_path / "damaged.parquet"
    chance = random.Random(11)
    for _ in range(100):
        place = chance.randrange(4, len(data) - 20)
        damaged.write_bytes(data[:place] + chance.randbytes(chance.choice([1, 2, 16])) + data[place + 16 :])
        found = result_or_refusal(analyze, damaged)
        assert found is None or found.to_dict() == report


def test_a_flipped_bit_of_the_footer_is_named(written: Path, tmp_path: Path) -> None:
    """Without its checksum, the column `unit` becomes another one, and every impression a unit of its own."""
    data, damaged = written.read_bytes(), tmp_path / "damaged.parquet"
    place = data.rindex(MARK)
    damaged.write_bytes(data[:place] + data[place:].replace(b"\x04unit", b"\x04unis"))
    with pytest.raises(DataError, match=r"damaged\.parquet cannot be read as Parquet \(the checksum of its footer"):
        analyze(damaged)


def test_files_with_checksums_are_ordinary_parquet(written: Path, tmp_path: Path) -> None:
    """And a copy by another writer, which has no checksum, is read as before."""
    table = pq.read_table(written)
    assert table.equals(table_of(made_rows(ROWS)))
    pq.write_table(table, tmp_path / "copy.parquet")
    assert MARK not in (tmp_path / "copy.parquet").read_bytes()
    assert analyze(tmp_path / "copy.parquet").to_dict() == analyze(written).to_dict()
    assert polars.read_parquet(written)["impression"].to_list() == table["impression"].to_pylist()
    assert len(duckdb.read_parquet(str(written)).fetchall()) == ROWS


def test_a_log_without_rows_has_a_checksum(tmp_path: Path) -> None:
    path = tmp_path / "empty.parquet"
    path.write_bytes(b"".join(parquet_pieces(schema.SCHEMA, [])))
    assert path.read_bytes().count(MARK) == 1
    assert log.read(path).rows == 0
