"""Logs at addresses: what Arrow's file systems open is read like a folder of this machine.

Amazon's store cannot run here: moto speaks its protocol, over HTTP and to Arrow's own client.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interleaf import DataError, analyze, log, tally_log
from interleaf.log.files import files_of
from tests.support.log_rows import made_rows, table_of
from tests.support.spark_sessions import NEEDS
from tests.support.stand_in import until
from tests.tally.test_tally import check_same

BIN = Path(sys.executable).parent
# In a process of its own, as the commands are: the variables are for them alone.
COPY = """import os, sys
from pathlib import Path
from pyarrow import fs
store = fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"], scheme="http", allow_bucket_creation=True)
store.create_dir("logs")
folder = Path(sys.argv[1])
for path in folder.rglob("*.parquet"):
    with store.open_output_stream(f"logs/{path.relative_to(folder)}") as out:
        out.write(path.read_bytes())
"""
ANALYZE = """import contextlib, io, json, sys
from interleaf.cli import main
done = []
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["analyze", *arguments])
    done.append((status, out.getvalue(), err.getvalue()))
print(json.dumps(done))
"""


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
    with pytest.raises(
        DataError, match=r"an address that begins with foo:// is not a log; use 's3', 'gs', 'abfss' or 'hdfs'"
    ):
        tally_log("foo://bar/log.parquet")
    with pytest.raises(DataError, match=r"cannot open s3a:///x: Missing bucket .*; check its address, keys and region"):
        tally_log("s3a:///x")
    with pytest.raises(DataError, match=r"there is no Parquet file at file://.*/none"):
        tally_log(f"file://{folder}/none")


@pytest.fixture
def bucket(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The folder in a bucket named `logs`; the variables by which whoever reads it finds the store."""
    command = [str(BIN / "moto_server"), "-H", "127.0.0.1", "-p", "0"]
    said = tmp_path_factory.mktemp("store") / "said.txt"  # a line for each request, more than a pipe holds
    with said.open("wb") as out, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=out) as server:
        try:
            until(lambda: "CTRL" in said.read_text() or server.poll() is not None)
            (place,) = re.findall(r"http://\S+", said.read_text())
            there = {"AWS_ENDPOINT_URL": place, "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
            there |= {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing"}
            variables = {**os.environ, **there}
            subprocess.run([sys.executable, "-c", COPY, str(folder)], env=variables, check=True, timeout=300)
            yield variables
        finally:
            server.kill()


def analyzed(given: list[list[str]], variables: dict[str, str]) -> list[tuple[int, str, str]]:
    """The status of `interleaf analyze` with each of these arguments, and what it prints, all in one process."""
    command = [sys.executable, "-c", ANALYZE, json.dumps(given)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return [(status, out, err) for status, out, err in json.loads(done.stdout)]


def test_a_bucket_is_read_like_the_folder_that_was_copied_there(folder: Path, bucket: dict[str, str]) -> None:
    there, wrong = ("s3a://logs/", "s3://logs/day=*/*.parquet"), ("s3://logs/none", "s3a://nowhere/")
    done = analyzed([*(["--format", "json", one] for one in there), *([one] for one in wrong)], bucket)
    expected = analyze(folder).to_dict()
    for status, out, err in done[:2]:
        assert status == 0, err
        assert json.loads(out) == expected
    for address, (status, out, err) in zip(wrong, done[2:], strict=True):
        assert (status, out) == (2, "")
        assert f"there is no Parquet file at {address}" in err


@NEEDS
@pytest.mark.slow
def test_executors_read_a_bucket_by_themselves(folder: Path, bucket: dict[str, str]) -> None:
    ((status, out, err),) = analyzed([["--format", "json", "--engine", "spark", "s3a://logs/"]], bucket)
    assert status == 0, err
    assert json.loads(out) == analyze(folder).to_dict()
