"""How query texts are stored: as they come, hashed, or not at all. A store does not mix texts and hashes.

The same query would have two names in it, and whoever asks for hashes would still have texts in older rows.
"""

from __future__ import annotations

from interleaf.errors import DataError
from interleaf.store.database import Transaction
from interleaf.store.unit_secrets import day_of

KEEP, HASH, DROP = "keep", "hash", "drop"
_STORED = {KEEP: "as they come", HASH: "as hashes"}


def use_queries(transaction: Transaction, queries: str, now: int) -> None:
    """Store queries like this; DataError if the rows of the store have texts and hashes are wanted, or vice versa."""
    transaction.alone()
    for before, since in transaction.rows("SELECT queries, since FROM query_storage"):
        if queries in (before, DROP):
            return
        if transaction.rows("SELECT 1 FROM impressions LIMIT 1"):
            raise DataError(
                f"queries are stored {_STORED[before]} since {day_of(since)}, and --queries {queries} was given: the "
                "same query would have two names in the store, and older rows would stay as they are; start with "
                f"--queries {before} or --queries {DROP}, or with an empty --store, or delete the experiments that "
                "have rows first"
            )
        transaction.change("DELETE FROM query_storage")
    if queries != DROP:
        transaction.change("INSERT INTO query_storage (one, queries, since) VALUES (1, ?, ?)", queries, now)
