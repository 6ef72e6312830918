"""A block of lines, scanned: the rows of each kind of record, and their fields as Arrow columns."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.adapters.iso_scan import UNKNOWN, moments
from interleaf.adapters.pieces import lists_of
from interleaf.adapters.record_scan import FIELD, SINGLE, TOP, WANTED, scan
from interleaf.adapters.times import MOST, SECONDS_BELOW
from interleaf.compiled import kernel
from interleaf.methods.arrays import Array

FEW = 64  # lines that are not worth a scan
LATEST = MOST // 1000  # milliseconds
_QUOTE, _NEWLINE = ord('"'), ord("\n")


class Scanned:
    """The kind of each line, and where in the block each wanted field of it stands."""

    def __init__(self, block: memoryview) -> None:
        self.data = np.frombuffer(block.toreadonly(), np.uint8)
        ends = np.flatnonzero(self.data == _NEWLINE) + 1
        self.starts = np.concatenate([[0], ends])
        self.ends = ends if len(self.data) == self.starts[-1] else np.append(ends, len(self.data))
        whole, lines = len(ends), len(self.ends)  # the last line may lack its newline
        self.kinds = np.full(lines, SINGLE, np.int8)
        self.spans = np.zeros((lines, len(WANTED), 2), np.int32)
        self.escaped = np.zeros((lines, len(WANTED)), np.bool_)
        self.hits = np.empty((np.count_nonzero(self.data == _QUOTE) // 2, 2), np.int32)
        if lines > FEW and _is_unicode(self.data):
            scan(self.data, self.starts, self.kinds[:whole], self.spans, self.escaped, self.hits)

    def line(self, number: int) -> bytes:
        """A line with its newline."""
        return self.data[self.starts[number] : self.ends[number]].tobytes()

    def rows(self, kind: int) -> Array:
        """The lines of a kind."""
        return np.flatnonzero(self.kinds == kind)

    def texts(self, rows: Array, where: int, name: str, least: int = 0) -> pa.StringArray:
        """A field as text, null where it is not there, or of fewer bytes than `least`."""
        field = FIELD[where, name]
        spans = self.spans[rows, field]
        there = (spans[:, 1] > 0) & (spans[:, 1] - spans[:, 0] >= least)
        if not there.any():
            return pa.nulls(len(rows), pa.string())
        found = _gathered(self.data, spans, there)
        escaped = self.escaped[rows, field]
        if escaped.any():
            texts = [json.loads(b'"%b"' % self.data[start:end].tobytes()) for start, end in spans[escaped]]
            found = pc.replace_with_mask(found, pa.array(escaped), pa.array(texts, pa.string()))
        return found

    def ids(self, rows: Array, where: int, name: str) -> pa.StringArray:
        """The same, but an empty text is none."""
        return self.texts(rows, where, name, 1)

    def lists(self, rows: Array, name: str) -> pa.ListArray:
        """A list of texts, null where it is not there, or empty."""
        spans = self.spans[rows, FIELD[TOP, name]].astype(np.int64)
        sizes = spans[:, 1] - spans[:, 0]
        places = np.repeat(spans[:, 0] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
        found = lists_of(sizes, _gathered(self.data, self.hits[places], np.ones(len(places), np.bool_)))
        return pc.if_else(pa.array(sizes > 0), found, None)

    def times(self, rows: Array, counts: Counter[str]) -> tuple[pa.Array, Array]:
        """Microseconds since 1970, and where they are known: times of rarer forms are left to the lenient way."""
        spans = self.spans[rows, FIELD[TOP, "timestamp"]]
        found = np.empty(len(rows), np.int64)
        moments(self.data, spans, found)
        is_number = (spans[:, 1] > 0) & (self.data[spans[:, 0] - 1] != _QUOTE)
        if is_number.any():
            numbers = np.asarray(_gathered(self.data, spans[is_number], is_number[is_number]).cast(pa.int64()))
            is_time = (numbers >= 0) & (numbers < LATEST)
            counts["time as a number"] += int(is_time.sum())
            numbers = numbers * np.where(numbers < SECONDS_BELOW, 1_000_000, 1000)
            found[is_number] = np.where(is_time, numbers, UNKNOWN)
        return pa.array(found, mask=found == UNKNOWN), found != UNKNOWN


def _is_unicode(data: Array) -> bool:
    bounds = pa.py_buffer(np.array([0, len(data)]))
    try:
        pa.LargeStringArray.from_buffers(1, bounds, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _gathered(data: Array, spans: Array, there: Array) -> pa.StringArray:
    """The texts of spans, null where they are not there."""
    offsets = np.zeros(len(spans) + 1, np.int32)
    np.cumsum(spans[:, 1] - spans[:, 0], out=offsets[1:])
    found = np.empty(offsets[-1], np.uint8)
    _gather(data, spans, offsets, found)
    known = pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.StringArray.from_buffers(len(spans), pa.py_buffer(offsets), pa.py_buffer(found), known)


@kernel
def _gather(data: Array, spans: Array, offsets: Array, found: Array) -> None:
    for row in range(len(spans)):
        start = spans[row, 0] - offsets[row]
        for place in range(offsets[row], offsets[row + 1]):
            found[place] = data[start + place]


def as_batch(columns: dict[str, Any], usable: Array, schema: pa.Schema) -> pa.RecordBatch:
    """The usable rows of columns, in the order of a schema."""
    batch = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
    return batch if usable.all() else batch.filter(pa.array(usable))
