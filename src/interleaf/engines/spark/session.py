"""Spark as it is running, or started here."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from interleaf.environment import require
from interleaf.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CACHE = "NUMBA_CACHE_DIR"


def session() -> SparkSession:
    """The active session, as a notebook or `spark-submit` has one; else a new one, of the master that Spark is set to.

    Python workers of a new one are this Python, unless PYSPARK_PYTHON says otherwise, and keep compiled kernels where
    this process does.
    """
    require("spark", "the engine 'spark' needs", "pyspark")
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    building = SparkSession.builder.appName("interleaf")
    if CACHE in os.environ:
        building = building.config(f"spark.executorEnv.{CACHE}", os.environ[CACHE])
    try:
        return building.getOrCreate()
    except PySparkRuntimeError as problem:
        raise DataError(
            f"Spark does not start: {problem}; it needs Java 17 or later, and JAVA_HOME to say where"
        ) from None
