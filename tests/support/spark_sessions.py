"""A Spark session on this machine, quiet, for the tests that need one."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HAS_JAVA = shutil.which("java") is not None or "JAVA_HOME" in os.environ
NEEDS = pytest.mark.skipif(not HAS_JAVA, reason="Spark needs Java 17 or later, and there is none here")
MARKS = [NEEDS, pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")]


def started() -> Iterator[Any]:
    """A session for all tests of a process, for a fixture; it has one core, as other tests have the others.

    Its worker is this Python, and keeps kernels where this process does.
    """
    sql = pytest.importorskip("pyspark.sql", reason="the extra spark is not installed")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # starts faster, runs slower
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.python.daemon.module": "tests.support.spark_daemon",
        "spark.executorEnv.NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"],
        "spark.executorEnv.PYTHONPATH": os.getcwd(),
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "America/New_York",
    }
    building = sql.SparkSession.builder.master("local[1]").appName("tests")
    for name, value in settings.items():
        building = building.config(name, value)
    session = building.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def written(folder: Path, table: Any, groups: int = 50) -> Path:
    """Three files of small row groups, in folders as Hive writes them."""
    import pyarrow.parquet as pq

    third = table.num_rows // 3 + 1
    for place in range(3):
        path = folder / f"day={place}" / "log.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(table.slice(place * third, third), path, row_group_size=groups)
    return folder
