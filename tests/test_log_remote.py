"""Logs at addresses: what Arrow's file systems open is read like a folder of this machine."""

from pathlib import Path

import pytest

from interleaf import DataError, log, tally_log
from interleaf.log.files import files_of
from tests.log_rows import made_rows, table_of
from tests.test_tally import check_same


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = made_rows(60)
    for day in range(3):
        path = tmp_path / f"day={day}" / "log.parquet"
        path.parent.mkdir()
        log.write_batches(path, table_of(rows[20 * day : 20 * day + 20]).to_batches())
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "half.parquet").write_bytes(b"")
    return tmp_path


def test_an_address_is_read_like_the_folder_that_it_names(folder: Path) -> None:
    expected = tally_log(folder)
    for given in (
        f"file://{folder}",
        f"file://{folder}/day=*/*.parquet",
        [f"file://{folder}/day={n}" for n in range(3)],
    ):
        check_same(tally_log(given), expected)
    assert tally_log(f"file://{folder}/day=1/log.parquet").impressions == 20
    assert [str(file.path) for file in files_of(f"file://{folder}/day=[01]/*")] == [
        f"file://{folder}/day={day}/log.parquet" for day in range(2)
    ]


def test_an_address_that_cannot_be_read_says_so(folder: Path) -> None:
    with pytest.raises(DataError, match=r"no file system for foo://bar/log\.parquet.*use s3, gs, abfss or hdfs"):
        tally_log("foo://bar/log.parquet")
    with pytest.raises(DataError, match=r"there is no Parquet file at file://.*/none"):
        tally_log(f"file://{folder}/none")
