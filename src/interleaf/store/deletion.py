"""Deletes rows: by age, of a user, or of an experiment."""

from __future__ import annotations

from interleaf.errors import StateError
from interleaf.store.database import Database, Transaction, is_kept
from interleaf.store.experiments import read_experiment
from interleaf.store.keys import revoke_key
from interleaf.store.privacy import PrivacyStore
from interleaf.store.records import RUNNING
from interleaf.store.sql_tables import OPEN_NAMES

PAGE = 5000  # rows deleted at a time
LATE = 60 * 1_000_000  # microseconds in which other workers may still write rows of a deleted experiment
OF_UNIT = (  # open impressions have no index by unit, which would make each write slower
    f"{OPEN_NAMES} SELECT id FROM impressions WHERE unit = ? AND folded = 1 UNION ALL "
    "SELECT i.id FROM names CROSS JOIN versions v CROSS JOIN impressions i WHERE v.experiment = names.name "
    "AND i.experiment = v.experiment AND i.version = v.version AND i.folded = 0 AND i.unit = ? LIMIT ?"
)


class DeletionStore(PrivacyStore):
    """The part of a store that deletes rows."""

    _is_unscrubbed = False  # whether files may still contain deleted rows

    def forget(self, unit: str) -> int:
        """Delete all rows of a unit, also from the files of a SQLite store; returns how many impressions it had.

        Folded impressions stay in the sums. StoreError if the unit secret was rotated since `use_unit_secret`.
        """
        if not is_kept(unit):
            return 0
        self.check()  # otherwise rows under another secret would be missed
        total, is_done = 0, False
        while not is_done:
            with self._database.reading() as transaction:  # it scans all open rows, but blocks nobody
                ids = transaction.column(OF_UNIT, unit, unit, PAGE)
            with self._database.writing() as transaction:
                total += _delete_impressions(transaction, ids)
                transaction.change("DELETE FROM apart WHERE impression = ANY(?)", ids)
                transaction.change("DELETE FROM apart WHERE unit = ?", unit)
            is_done = len(ids) < PAGE
        self._is_unscrubbed = not self._database.scrub()
        return total

    def expire(self, before: int) -> int:
        """Delete folded impressions shown before then, and older unmatched events; returns how many impressions."""
        total = last = 0
        while True:  # start with the oldest row
            with self._database.reading() as transaction:
                rows = transaction.rows(
                    "SELECT number, id, time, folded FROM impressions WHERE number > ? ORDER BY number LIMIT ?",
                    *(last, PAGE),
                )
            if not any(time < before for _, _, time, _ in rows):
                break
            last = rows[-1][0]
            with self._database.writing() as transaction:
                ids = [name for _, name, time, folded in rows if folded and time < before]
                total += _delete_impressions(transaction, ids)
        old = "DELETE FROM apart WHERE number IN (SELECT number FROM apart WHERE received < ? LIMIT ?)"
        while True:
            with self._database.writing() as transaction:
                if transaction.change(old, before, PAGE) < PAGE:
                    return total

    def delete(self, name: str, now: int) -> int:
        """Delete an experiment with all its rows, unless it runs, and revoke its keys; returns how many impressions."""
        with self._database.writing() as transaction:
            transaction.alone()
            experiment = read_experiment(transaction, name)
            if experiment.state == RUNNING:
                raise StateError(f"experiment {name!r} cannot be deleted: it is running; stop it or archive it first")
            transaction.change("DELETE FROM experiments WHERE name = ?", name)
            for table in ("versions", "history", "experiment_words", "watched", "webhooks", "epoch_plans"):
                transaction.change(f"DELETE FROM {table} WHERE experiment = ?", name)
            for key in transaction.column("SELECT id FROM access_keys WHERE experiment = ? AND revoked IS NULL", name):
                revoke_key(transaction, key, now)
            transaction.change(
                "INSERT INTO deleted_experiments (name, version, deleted, is_done) VALUES (?, ?, ?, 0) "
                "ON CONFLICT (name) DO UPDATE SET version = excluded.version, deleted = excluded.deleted, is_done = 0",
                *(name, experiment.version, now),
            )
        total = _delete_rows(self._database, name, experiment.version)
        self._is_unscrubbed = not self._database.scrub()
        return total

    def _finish_deletions(self, now: int) -> None:
        """Delete the remaining rows of deleted experiments: after an interrupted deletion, or rows written late."""
        total = 0
        with self._database.reading() as transaction:
            left = transaction.rows("SELECT name, version, deleted FROM deleted_experiments WHERE is_done = 0")
        for name, version, deleted in left:
            total += _delete_rows(self._database, name, version)
            if now - deleted >= LATE:
                done = "UPDATE deleted_experiments SET is_done = 1 WHERE name = ? AND version = ?"
                with self._database.writing() as transaction:
                    transaction.change(done, name, version)
        if total or self._is_unscrubbed:
            self._is_unscrubbed = not self._database.scrub()


def _delete_impressions(transaction: Transaction, ids: list[str]) -> int:
    """Delete impressions and their events. Impressions go first: this waits for concurrent writers of their events."""
    deleted = transaction.change("DELETE FROM impressions WHERE id = ANY(?)", ids)
    transaction.change("DELETE FROM events WHERE impression = ANY(?)", ids)
    return deleted


def _delete_rows(database: Database, name: str, version: int) -> int:
    """Delete the rows of an experiment up to a version; returns how many impressions were deleted."""
    total = 0
    while True:
        with database.writing() as transaction:
            statement = "SELECT id FROM impressions WHERE experiment = ? AND version <= ? LIMIT ?"
            ids = transaction.column(statement, name, version, PAGE)
            total += _delete_impressions(transaction, ids)
            if len(ids) < PAGE:
                for table in ("sums", "apart"):
                    transaction.change(f"DELETE FROM {table} WHERE experiment = ? AND version <= ?", name, version)
                return total
