"""A cluster on one machine: Spark's own standalone master, two workers, and `spark-submit` of the command line."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from socket import create_connection, socket

import pytest

from interleaf.analysis.analyze import analyze
from interleaf.simulate.data import synthetic
from interleaf.simulate.people import People
from interleaf.simulate.world import World
from tests.support.spark_sessions import NEEDS

pytestmark = [NEEDS, pytest.mark.slow]
ALONE = "127.0.0.1"


def free_port() -> int:
    with socket() as one:
        one.bind((ALONE, 0))
        return int(one.getsockname()[1])


@pytest.fixture
def home() -> Path:
    return Path(pytest.importorskip("pyspark", reason="the extra spark is not installed").__file__).parent


@pytest.fixture
def master(home: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each, processes of this test."""
    port = free_port()
    place = "org.apache.spark.deploy."
    common = ["--host", ALONE, "--webui-port", "0"]
    with ExitStack() as stack:

        def run(*arguments: str) -> None:
            log = stack.enter_context(open(tmp_path / f"{len(list(tmp_path.iterdir()))}.log", "wb"))
            command = [str(home / "bin" / "spark-class"), *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment(home))
            stack.callback(process.wait)
            stack.callback(process.terminate)

        run(f"{place}master.Master", *common, "--port", str(port))
        address = f"spark://{ALONE}:{port}"
        until = time.monotonic() + 60
        while True:
            try:
                create_connection((ALONE, port), 1).close()
                break
            except OSError:
                assert time.monotonic() < until, "the master does not listen"
                time.sleep(0.2)
        for number in range(2):
            folder = ["--work-dir", str(tmp_path / f"worker-{number}")]
            run(f"{place}worker.Worker", *common, "--cores", "1", "--memory", "1g", *folder, address)
        yield address


def environment(home: Path) -> dict[str, str]:
    return os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": ALONE, "PYSPARK_PYTHON": sys.executable}


def test_a_submitted_analysis_prints_the_report_of_the_local_engine(home: Path, master: str, tmp_path: Path) -> None:
    path, script = tmp_path / "log.parquet", tmp_path / "run.py"
    world = World(synthetic(queries=20, seed=1), [1, 9], People(units=2000), seed=3)
    world.write(path, impressions=150_000)
    script.write_text("import sys\n\nfrom interleaf.cli import main\n\nsys.exit(main())\n")
    command = [
        *(str(home / "bin" / "spark-submit"), "--master", master, "--executor-memory", "512m"),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.cores.max=2", "--conf", f"spark.driver.host={ALONE}"),
        *("--conf", f"spark.executorEnv.NUMBA_CACHE_DIR={os.environ['NUMBA_CACHE_DIR']}"),
        *(str(script), "analyze", "--engine", "spark", "--format", "json", str(path)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=environment(home))
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == analyze(path).to_dict()
    assert len(list(tmp_path.glob("worker-*/app-*/*"))) == 2  # both workers ran an executor
