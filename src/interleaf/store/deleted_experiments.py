"""Experiments are deleted with all their rows: the name at once, then rows page by page, so that nobody waits for long.

The name and its last version stay: another experiment of that name begins at the next version, so that no row, sum or
report is ever taken for one of the deleted experiment.
"""

from __future__ import annotations

from interleaf.errors import StateError
from interleaf.store.access import revoke
from interleaf.store.contract import RUNNING
from interleaf.store.database import Database, Transaction
from interleaf.store.deleting import PAGE, delete_impressions
from interleaf.store.experiments import Experiments

LATE = 60 * 1_000_000  # microseconds in which another worker may still write rows of an experiment that it remembers


def delete(database: Database, name: str, now: int) -> int:
    """Delete an experiment that does not run, and revoke its keys; how many impressions it had."""
    with database.writing() as transaction:
        transaction.alone()
        found = Experiments(transaction).one(name)
        if found.state == RUNNING:
            raise StateError(f"experiment {name!r} cannot be deleted: it is running; stop it or archive it first")
        transaction.change("DELETE FROM experiments WHERE name = ?", name)
        for table in ("versions", "history", "experiment_words"):
            transaction.change(f"DELETE FROM {table} WHERE experiment = ?", name)
        keys = transaction.rows("SELECT id FROM access_keys WHERE experiment = ? AND revoked IS NULL", name)
        for (key,) in keys:
            revoke(transaction, key, now)
        transaction.change(
            "INSERT INTO deleted_experiments (name, version, deleted, is_done) VALUES (?, ?, ?, 0) ON CONFLICT (name) "
            "DO UPDATE SET version = excluded.version, deleted = excluded.deleted, is_done = 0",
            *(name, found.version, now),
        )
    return _delete_rows(database, name, found.version)


def finish(database: Database, now: int) -> int:
    """Delete what is left of deleted experiments: rows of one whose deletion was cut short, or that came late; how many
    impressions that were.
    """
    total = 0
    with database.reading() as transaction:
        left = transaction.rows("SELECT name, version, deleted FROM deleted_experiments WHERE is_done = 0")
    for name, version, deleted in left:
        total += _delete_rows(database, name, version)
        if now - deleted >= LATE:
            with database.writing() as transaction:
                transaction.change(
                    "UPDATE deleted_experiments SET is_done = 1 WHERE name = ? AND version = ?", name, version
                )
    return total


def _delete_rows(database: Database, name: str, version: int) -> int:
    """Delete the rows of an experiment up to a version; how many impressions that were."""
    total = 0
    while True:
        with database.writing() as transaction:
            rows = transaction.rows(
                "SELECT id FROM impressions WHERE experiment = ? AND version <= ? LIMIT ?", name, version, PAGE
            )
            total += delete_impressions(database, transaction, [impression for (impression,) in rows])
            if len(rows) < PAGE:
                _delete_sums(transaction, name, version)
                return total


def _delete_sums(transaction: Transaction, name: str, version: int) -> None:
    for table in ("sums", "apart"):
        transaction.change(f"DELETE FROM {table} WHERE experiment = ? AND version <= ?", name, version)
