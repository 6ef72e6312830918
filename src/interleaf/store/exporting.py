"""All rows of a version, as record batches of the log."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from interleaf.experiment import Experiment
from interleaf.store.batches import COLUMNS, EVENT_COLUMNS, batch_of
from interleaf.store.database import Database
from interleaf.store.folding import kept_of

PAGE = 5000  # rows at a time


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
            events = transaction.rows(
                f"SELECT {EVENT_COLUMNS} FROM events WHERE impression {database.words['among']}",
                database.among([row[0] for row in rows]),
            )
        if not rows:
            return
        yield batch_of(kept_of(rows, events), settings, version)
        last = rows[-1][-1]
