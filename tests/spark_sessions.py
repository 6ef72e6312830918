"""A Spark session on this machine, quiet, for the tests that need one."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import pytest

HAS_JAVA = shutil.which("java") is not None or "JAVA_HOME" in os.environ
NEEDS = pytest.mark.skipif(not HAS_JAVA, reason="Spark needs Java 17 or later, and there is none here")


def start(master: str = "local[2]", **settings: str) -> Any:
    """A session of these settings; its workers are this Python, and keep kernels where this process does."""
    sql = pytest.importorskip("pyspark.sql", reason="the extra spark is not installed")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    quiet = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"],
        "spark.executorEnv.PYTHONPATH": os.getcwd(),
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "America/New_York",
    }
    building = sql.SparkSession.builder.master(master).appName("tests")
    for name, value in (quiet | settings).items():
        building = building.config(name, value)
    session = building.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
