"""Which engine: as asked for, else where the log is."""

from __future__ import annotations

from typing import Any

from interleaf.errors import DataError, listed

LOCAL, SPARK = ENGINES = ("local", "spark")


def chosen(engine: str | None, log: Any) -> str:
    """Where the flow runs.

    >>> chosen(None, "log.parquet"), chosen("spark", "log.parquet")
    ('local', 'spark')
    """
    if engine not in (None, *ENGINES):
        raise DataError(f"there is no engine {engine!r}; use {listed(ENGINES)}")
    if engine == LOCAL and is_frame(log):
        raise DataError("a data frame of Spark is counted where it is; leave engine out, or give toArrow() of it")
    return engine or (SPARK if is_frame(log) else LOCAL)


def is_frame(log: Any) -> bool:
    """Whether this is a data frame of Spark; nothing of Spark is imported to tell."""
    return any(kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame" for kind in type(log).__mro__)
