"""Queries of a scanned block. Attributes have other names in every log, so they stay one text: an object of texts."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from interleaf.adapters.record_scan import FIELD, QUERY, TOP
from interleaf.adapters.scanned import Scanned, as_batch
from interleaf.adapters.ubi_records import QUERIES
from interleaf.methods.arrays import Array


def queries_of(block: Scanned, counts: Counter[str]) -> tuple[Array, pa.RecordBatch]:
    """The lines that queries could be had of, and the queries; one without a time is told of later."""
    rows = block.rows(QUERY)
    time, is_known = block.times(rows, counts)
    usable = is_known | (block.spans[rows, FIELD[TOP, "timestamp"], 1] == 0)
    columns = {
        "query_id": block.texts(rows, TOP, "query_id"),
        "time": time,
        "text": block.texts(rows, TOP, "user_query"),
        "application": block.ids(rows, TOP, "application"),
        "user": block.ids(rows, TOP, "user_id"),
        "client": block.ids(rows, TOP, "client_id"),
        "session": block.ids(rows, TOP, "session_id"),
        "hits": block.lists(rows, "query_response_hit_ids"),
        "owners": pa.nulls(len(rows), QUERIES.field("owners").type),
        "attributes": pc.fill_null(block.texts(rows, TOP, "query_attributes"), "{}"),
    }
    return rows[usable], as_batch(columns, usable, QUERIES)
