"""Logs in Parquet, JSON lines or CSV; each row is one impression with its events.

schema.py          the columns, their Arrow types, the check of a file's schema, and which columns are read
validation.py      checks of single values
writer.py          LogWriter: a log that grows while people search
record_batches.py  rows_to_batch, write_batches, convert
packed_numbers.py  the integers of an impression as bytes, from which columns are decoded
reader.py          read: any log as record batches, with counts of rows that were not used
files.py           finds the files of paths, globs, folders and addresses
parquet.py, jsonl.py, csv_rows.py, arrow.py  the formats
trec_runs.py       rankings of queries, as TREC runs
drop_reasons.py    codes for why rows are dropped and for what became of events
event_join.py      joins events that are lines of their own, and merges copies of an event
page_join.py       joins the rows of an impression that has several pages
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interleaf.log.reader import LogReading, Progress, read
    from interleaf.log.record_batches import convert, rows_to_batch, write_batches
    from interleaf.log.writer import LogWriter

__all__ = ["LogReading", "LogWriter", "Progress", "convert", "read", "rows_to_batch", "write_batches"]

_MODULES = {"LogReading": "reader", "Progress": "reader", "read": "reader", "LogWriter": "writer"}


def __getattr__(name: str) -> Any:
    """Import the readers and writers when they are first used: the client needs only `interleaf.log.schema`."""
    if name not in __all__:
        raise AttributeError(f"module 'interleaf.log' has no attribute {name!r}")
    return getattr(import_module(f"interleaf.log.{_MODULES.get(name, 'record_batches')}"), name)
