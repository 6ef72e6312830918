"""Logs: each row is one impression with its events; Parquet, or JSON lines or CSV with the same names.

schema.py          the columns, their Arrow types, and the check of a file's schema
validation.py      checks of single values
writer.py          LogWriter: a log that grows while people search
record_batches.py  rows_to_batch, write_batches, convert
reader.py          read: any log as record batches, with counts of what was not used
files.py           paths, globs, folders and addresses to files
projection.py      which columns are read
parquet.py, jsonl.py, csv_rows.py, arrow.py  the formats
drop_reasons.py    codes of why rows are dropped and of what became of events
event_join.py      events that are lines of their own, joined; copies of an event, merged
page_join.py       rows of an impression that has several pages, joined
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interleaf.log.reader import LogReading, Progress, read
    from interleaf.log.record_batches import convert, rows_to_batch, write_batches
    from interleaf.log.writer import LogWriter

__all__ = ["LogReading", "LogWriter", "Progress", "convert", "read", "rows_to_batch", "write_batches"]

_MODULES = {"reader": ("Progress", "LogReading", "read"), "writer": ("LogWriter",)}


def __getattr__(name: str) -> Any:
    """Import the readers and writers when they are first used: the client needs only `interleaf.log.schema`."""
    if name not in __all__:
        raise AttributeError(f"module 'interleaf.log' has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), "record_batches")
    return getattr(import_module(f"interleaf.log.{module}"), name)
