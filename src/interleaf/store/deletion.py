"""Deletes rows: by age, of a user, or of an experiment."""

from __future__ import annotations

from collections.abc import Sequence

from interleaf.errors import StateError
from interleaf.store.database import Database, Transaction
from interleaf.store.experiments import ExperimentTable
from interleaf.store.keys import revoke_key
from interleaf.store.records import RUNNING
from interleaf.store.sql_tables import OPEN_NAMES

PAGE = 5000  # rows deleted at a time
OF_UNIT = (  # open impressions have no index by unit, which would make each write slower
    f"{OPEN_NAMES} SELECT id FROM impressions WHERE unit = ? AND folded = 1 UNION ALL "
    "SELECT i.id FROM names CROSS JOIN versions v CROSS JOIN impressions i WHERE v.experiment = names.name "
    "AND i.experiment = v.experiment AND i.version = v.version AND i.folded = 0 AND i.unit = ? LIMIT ?"
)


def forget(database: Database, unit: str) -> int:
    """Delete all rows of a unit; returns how many impressions it had."""
    total = 0
    while True:
        with database.reading() as transaction:  # it scans all open rows, but blocks nobody
            ids = [name for (name,) in transaction.rows(OF_UNIT, unit, unit, PAGE)]
        with database.writing() as transaction:
            total += delete_impressions(database, transaction, ids)
            among = database.words["among"]
            transaction.change(f"DELETE FROM apart WHERE impression {among}", database.among(ids))
            transaction.change("DELETE FROM apart WHERE unit = ?", unit)
        if len(ids) < PAGE:
            return total


def expire(database: Database, before: int) -> int:
    """Delete folded impressions shown before then, and old unmatched events; returns the number of impressions."""
    total = last = 0
    while True:  # start with the oldest row
        with database.reading() as transaction:
            rows = transaction.rows(
                "SELECT number, id, time, folded FROM impressions WHERE number > ? ORDER BY number LIMIT ?",
                *(last, PAGE),
            )
        if not any(time < before for _, _, time, _ in rows):
            break
        last = rows[-1][0]
        with database.writing() as transaction:
            ids = [name for _, name, time, folded in rows if folded and time < before]
            total += delete_impressions(database, transaction, ids)
    while True:
        with database.writing() as transaction:
            gone = transaction.change(
                "DELETE FROM apart WHERE number IN (SELECT number FROM apart WHERE received < ? LIMIT ?)", before, PAGE
            )
        if gone < PAGE:
            return total


def delete_impressions(database: Database, transaction: Transaction, ids: Sequence[str]) -> int:
    """Delete impressions and their events. Impressions go first: this waits for concurrent writers of their events."""
    among, values = database.words["among"], database.among(ids)
    gone = transaction.change(f"DELETE FROM impressions WHERE id {among}", values)
    transaction.change(f"DELETE FROM events WHERE impression {among}", values)
    return gone


LATE = 60 * 1_000_000  # microseconds in which other workers may still write rows of a deleted experiment


def delete(database: Database, name: str, now: int) -> int:
    """Delete an experiment that is not running, and revoke its keys; returns how many impressions it had."""
    with database.writing() as transaction:
        transaction.alone()
        found = ExperimentTable(transaction).one(name)
        if found.state == RUNNING:
            raise StateError(f"experiment {name!r} cannot be deleted: it is running; stop it or archive it first")
        transaction.change("DELETE FROM experiments WHERE name = ?", name)
        for table in ("versions", "history", "experiment_words"):
            transaction.change(f"DELETE FROM {table} WHERE experiment = ?", name)
        keys = transaction.rows("SELECT id FROM access_keys WHERE experiment = ? AND revoked IS NULL", name)
        for (key,) in keys:
            revoke_key(transaction, key, now)
        transaction.change(
            "INSERT INTO deleted_experiments (name, version, deleted, is_done) VALUES (?, ?, ?, 0) ON CONFLICT (name) "
            "DO UPDATE SET version = excluded.version, deleted = excluded.deleted, is_done = 0",
            *(name, found.version, now),
        )
    return _delete_rows(database, name, found.version)


def finish(database: Database, now: int) -> int:
    """Delete the remaining rows of deleted experiments: after an interrupted deletion, or rows that were written late.

    Returns how many impressions were deleted.
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
    """Delete the rows of an experiment up to a version; returns how many impressions were deleted."""
    total = 0
    while True:
        with database.writing() as transaction:
            rows = transaction.rows(
                "SELECT id FROM impressions WHERE experiment = ? AND version <= ? LIMIT ?", name, version, PAGE
            )
            total += delete_impressions(database, transaction, [impression for (impression,) in rows])
            if len(rows) < PAGE:
                for table in ("sums", "apart"):
                    transaction.change(f"DELETE FROM {table} WHERE experiment = ? AND version <= ?", name, version)
                return total
