"""All rows of a version, as record batches of the log."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from interleaf.experiment import Experiment
from interleaf.store.batches import COLUMNS
from interleaf.store.database import Database
from interleaf.store.folding import PAGE, batch_with_events


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
