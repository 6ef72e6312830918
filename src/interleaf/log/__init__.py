"""Logs: one row an impression, its events inside; Parquet, or JSON lines or CSV with the same names.

write.py         write_batches: record batches to a whole file
rows.py          rows_to_batch: impressions as dictionaries to a record batch
values.py        what a column may hold
writer.py        LogWriter: a log that grows while people search
appending.py     its files, safe against crashes, threads and forks
reading.py       read: any log as record batches, with counts of what was not used
files.py         paths, globs and folders to files
remote.py        files in object stores
projection.py    which columns are read
parquet.py       Parquet files
checksums.py     their checksums, written and checked
arrow.py         tables and streams in memory
joining.py       files of JSON lines, the events joined to their impressions
lines.py         a line of JSON to an impression or an event
csv_rows.py      a row of CSV to the same
normal.py        columns of other tools in the types of a log
event_lines.py   events that wait for their impressions
repeated_events.py  copies of one event, merged
pages.py         rows of one impression that goes on over pages, joined
text.py          lines of text files, plain or gzip
native.py        convert: any log to one file of the native schema
"""

from interleaf.log.native import convert as convert
from interleaf.log.reading import Progress as Progress
from interleaf.log.reading import Reading as Reading
from interleaf.log.reading import read as read
from interleaf.log.rows import rows_to_batch as rows_to_batch
from interleaf.log.write import write_batches as write_batches
from interleaf.log.writer import LogWriter as LogWriter

__all__ = ["LogWriter", "Reading", "convert", "read", "rows_to_batch", "write_batches"]
