"""Queries that came more than once, such as from the engine and from the page: one is made of all."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from interleaf.adapters.ubi_records import QUERIES, batch_of

Record = dict[str, Any]


def each_once(queries: pa.RecordBatch, counts: Counter[str]) -> pa.RecordBatch:
    """Every query once, in the order of their first records."""
    codes = np.asarray(queries["query_id"].dictionary_encode().indices)  # in the order of first records
    is_repeated = (np.bincount(codes) > 1)[codes]
    if not is_repeated.any():
        return queries
    found: dict[str, Record] = {}
    for record in queries.filter(pa.array(is_repeated)).to_pylist():
        query = record | {"attributes": json.loads(record["attributes"])}
        known = found.setdefault(record["query_id"], query)
        if known is not query:
            found[record["query_id"]] = _merged(known, query, counts)
    rows = [query | {"attributes": json.dumps(query["attributes"], ensure_ascii=False)} for query in found.values()]
    tables = [pa.Table.from_batches([queries.filter(pa.array(~is_repeated))]), pa.Table.from_pylist(rows, QUERIES)]
    order = np.concatenate([codes[~is_repeated], np.unique(codes[is_repeated])])
    return batch_of(pa.concat_tables(tables).take(pa.array(np.argsort(order))))


def _merged(known: Record, query: Record, counts: Counter[str]) -> Record:
    """Each fills what the other left open; the first that tells most of the list counts."""
    first, other = (query, known) if _told(query) > _told(known) else (known, query)
    whole = {name: other[name] if value is None else value for name, value in first.items()}
    whole["attributes"] = other["attributes"] | first["attributes"]
    if None not in (known["hits"], query["hits"]) and known["hits"] != query["hits"]:
        counts["query that came again with other hits"] += 1
    elif whole == known:
        counts["query that came again"] += 1
    else:
        counts["query that came again and filled in what was missing"] += 1
    return whole


def _told(query: Record) -> tuple[bool, bool]:
    """How much a record says of the list: owners belong to the hits that they came with."""
    return query["owners"] is not None, query["hits"] is not None
