"""The rows of a version: all of them as record batches of the log, or the latest as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from interleaf.experiment import Experiment
from interleaf.store.batches import COLUMNS, EVENT_COLUMNS
from interleaf.store.database import Database
from interleaf.store.folding import PAGE, batch_with_events
from interleaf.store.writing import ROW, row_of


def export(database: Database, settings: Experiment, version: int) -> Iterator[pa.RecordBatch]:
    """Page by page, each in a transaction of its own: a slow reader holds nobody up."""
    last = -1
    while True:
        with database.reading() as transaction:
            rows = transaction.rows(
                f"SELECT {COLUMNS}, body, number FROM impressions WHERE experiment = ? AND version = ? "
                "AND number > ? ORDER BY number LIMIT ?",
                *(settings.name, version, last, PAGE),
            )
            if not rows:
                return
            batch = batch_with_events(database, transaction, rows, settings, version)
        yield batch
        last = rows[-1][-1]


def latest_rows(database: Database, name: str, version: int, most: int) -> list[dict[str, Any]]:
    """The latest impressions with their `events`, latest first."""
    with database.reading() as transaction:
        rows = transaction.rows(
            f"SELECT {ROW} FROM impressions WHERE experiment = ? AND version = ? ORDER BY number DESC LIMIT ?",
            *(name, version, most),
        )
        events = transaction.rows(
            f"SELECT {EVENT_COLUMNS} FROM events WHERE impression {database.words['among']} ORDER BY time, rank, id",
            database.among([row[0] for row in rows]),
        )
    found = {row[0]: row_of(row) | {"events": []} for row in rows}
    names = ("event", "kind", "rank", "time", "dwell", "value")
    for impression, *rest in events:
        found[impression]["events"].append(dict(zip(names, rest, strict=True)))
    return list(found.values())
