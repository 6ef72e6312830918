"""Events of a scanned block."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.adapters.record_scan import ABOUT, ACTION, EVENT, NAMED, OBJECT, POSITION, TOP
from interleaf.adapters.scanned import Scanned, as_batch
from interleaf.adapters.ubi_records import DWELL_TIME, EVENTS, LARGEST, MAX_RANK
from interleaf.methods.arrays import Array


def events_of(block: Scanned, counts: Counter[str]) -> tuple[Array, pa.RecordBatch]:
    """The lines that events could be had of, and the events."""
    rows = block.rows(EVENT)
    time, usable = block.times(rows, counts)
    rank = block.texts(rows, ABOUT, "rank").cast(pa.int64())
    is_rank = pc.and_kleene(pc.greater_equal(rank, -MAX_RANK), pc.less_equal(rank, MAX_RANK))
    dwell, other = _numbers(block, rows, "dwell"), _numbers(block, rows, "dwell_time")
    counts[DWELL_TIME] += int(np.asarray(pc.and_(pc.is_null(dwell), pc.is_valid(other)))[usable].sum())
    columns = {
        "query_id": block.texts(rows, TOP, "query_id"),
        "kind": block.texts(rows, TOP, "action_name"),
        "application": block.ids(rows, TOP, "application"),
        "user": block.ids(rows, TOP, "user_id"),
        "client": block.ids(rows, TOP, "client_id"),
        "session": pc.coalesce(block.ids(rows, TOP, "session_id"), block.ids(rows, ABOUT, "session_id")),
        "event": pc.coalesce(_names(block, rows), block.ids(rows, ABOUT, "event")),
        "document": block.ids(rows, OBJECT, "object_id"),
        "internal": block.ids(rows, OBJECT, "internal_id"),
        "owner": block.ids(rows, ABOUT, "search_config"),
        "time": time,
        "ordinal": block.texts(rows, POSITION, "ordinal").cast(pa.int64()),
        "rank": pc.if_else(is_rank, rank, None),
        "dwell": pc.coalesce(dwell, other),
        "value": _numbers(block, rows, "value"),
    }
    return rows[usable], as_batch(columns, usable, EVENTS)


def _names(block: Scanned, rows: Array) -> pa.Array:
    """The ids that action lines of a bulk file give to the records that follow them."""
    follows = (rows > 0) & (block.kinds[rows - 1] == ACTION)
    return pc.if_else(pa.array(follows), block.ids(rows - 1, NAMED, "_id"), None)


def _numbers(block: Scanned, rows: Array, name: str) -> pa.Array:
    found = block.texts(rows, ABOUT, name).cast(pa.float64())
    return pc.if_else(pc.less(pc.abs(found), LARGEST), found, None)
