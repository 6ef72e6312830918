"""How user ids and query texts are stored: as they come, hashed with a secret, or not at all; and the deletion of rows.

The store holds a salted scrypt hash of the secret, and so detects a different one. scrypt is slow, so guessing the
secret takes long. A store does not mix query texts and hashes: the same query would have two names, and older rows
would still hold texts although hashes were requested. Rows are deleted by age, of a user, or of an experiment.
"""

from __future__ import annotations

import hmac
import secrets
from datetime import UTC, datetime
from hashlib import blake2b, scrypt

from interleaf.errors import DataError, StateError, StoreError
from interleaf.store.database import Database, Transaction, is_kept
from interleaf.store.experiments import read_experiment
from interleaf.store.keys import revoke_key
from interleaf.store.records import RUNNING
from interleaf.store.sql_tables import OPEN_NAMES

KEEP, HASH, DROP = "keep", "hash", "drop"
_STORED = {KEEP: "as they come", HASH: "as hashes"}
ROTATE = "interleaf store rotate-unit-secret"
_LATEST = "SELECT number, since, salt, fingerprint FROM unit_secrets ORDER BY number DESC"
_HELD = (
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM impressions) OR EXISTS (SELECT 1 FROM apart) OR EXISTS (SELECT 1 FROM sums)"
)

DELETED_AT_ONCE = 5000  # rows deleted at a time
LATE = 60 * 1_000_000  # microseconds in which other workers may still write rows of a deleted experiment
OF_UNIT = (  # open impressions have no index by unit, which would make each write slower
    f"{OPEN_NAMES} SELECT id FROM impressions WHERE unit = ? AND folded = 1 UNION ALL "
    "SELECT i.id FROM names CROSS JOIN versions v CROSS JOIN impressions i WHERE v.experiment = names.name "
    "AND i.experiment = v.experiment AND i.version = v.version AND i.folded = 0 AND i.unit = ? LIMIT ?"
)


def hash_unit(unit: str, secret: bytes | None) -> str:
    """The stored form of a user id: the id itself, or a hash of it if there is a secret."""
    return unit if secret is None else blake2b(unit.encode(), digest_size=16, key=secret).hexdigest()


class PrivacyStore:
    """The part of a store that knows which secret units are hashed with, and how queries are stored."""

    _database: Database
    _unit_secret: int | None = None  # its number, once the service has said which it uses
    _is_rotated = False

    def use_unit_secret(self, secret: bytes | None, now: int) -> None:
        """Hash units with this secret, or with none; DataError if units in the store are under another one."""
        with self._database.writing() as transaction:
            transaction.alone()
            for number, since, salt, fingerprint in transaction.rows(f"{_LATEST} LIMIT 1"):
                if _matches(secret, salt, fingerprint):
                    self._unit_secret = int(number)
                    return
                if transaction.rows(_HELD):
                    raise DataError(_mismatch(since, fingerprint is not None, secret is not None))
                transaction.change("DELETE FROM unit_secrets")
            _add_secret(transaction, secret, now)
            self._unit_secret = _latest_number(transaction)

    def rotate_unit_secret(self, secret: bytes | None, now: int) -> list[str]:
        """Replace the secret of the store; returns the names of running experiments."""
        with self._database.writing() as transaction:
            transaction.alone()
            for _, since, salt, fingerprint in transaction.rows(f"{_LATEST} LIMIT 1"):
                if _matches(secret, salt, fingerprint):
                    raise DataError(f"this is the secret of the store already, since {day_of(since)}; give a new one")
            _add_secret(transaction, secret, now)
            return transaction.column("SELECT name FROM experiments WHERE state = ? ORDER BY name", RUNNING)

    def check_known_secret(self, secret: bytes | None) -> None:
        """Raise DataError if the store never had units under this secret."""
        with self._database.reading() as transaction:
            rows = transaction.rows(_LATEST)
        if rows and not any(_matches(secret, salt, fingerprint) for _, _, salt, fingerprint in rows):
            remark = "this secret" if secret is not None else "no secret"
            raise DataError(f"the store never had units under {remark}; give the --unit-secret-file that was used then")

    def check(self) -> None:
        """Raise `StoreError` if it does not answer, or its unit secret was rotated since `use_unit_secret`."""
        with self._database.reading() as transaction:
            self._look_for_rotation(transaction)
        self._check_unit_secret()

    def _look_for_rotation(self, transaction: Transaction) -> None:
        """Find out whether the store has a newer unit secret than the one that this process hashes units with."""
        self._is_rotated = self._unit_secret not in (None, _latest_number(transaction))

    def _check_unit_secret(self) -> None:
        if self._is_rotated:
            raise StoreError("the unit secret was rotated while this service ran; start it again with the new one")

    def use_queries(self, queries: str, now: int) -> None:
        """Store query texts like this (`keep`, `hash`, `drop`); DataError if texts and hashes would be mixed."""
        with self._database.writing() as transaction:
            transaction.alone()
            for before, since in transaction.rows("SELECT queries, since FROM query_storage"):
                if queries in (before, DROP):
                    return
                if transaction.rows("SELECT 1 FROM impressions LIMIT 1"):
                    raise DataError(
                        f"queries are stored {_STORED[before]} since {day_of(since)}, and --queries {queries} was "
                        "given: the same query would have two names in the store, and older rows would stay as they "
                        f"are; start with --queries {before} or --queries {DROP}, or with an empty --store, or delete "
                        "the experiments that have rows first"
                    )
                transaction.change("DELETE FROM query_storage")
            if queries != DROP:
                transaction.change("INSERT INTO query_storage (one, queries, since) VALUES (1, ?, ?)", queries, now)


def _latest_number(transaction: Transaction) -> int | None:
    """The number of the secret that is used now."""
    ((number,),) = transaction.rows("SELECT max(number) FROM unit_secrets")
    return None if number is None else int(number)


def _add_secret(transaction: Transaction, secret: bytes | None, now: int) -> None:
    salt = secrets.token_bytes(16)
    fingerprint = None if secret is None else _fingerprint(secret, salt)
    transaction.change("INSERT INTO unit_secrets (since, salt, fingerprint) VALUES (?, ?, ?)", now, salt, fingerprint)


def _matches(secret: bytes | None, salt: bytes, fingerprint: bytes | None) -> bool:
    if secret is None or fingerprint is None:
        return secret is fingerprint
    return hmac.compare_digest(_fingerprint(secret, bytes(salt)), bytes(fingerprint))


def _fingerprint(secret: bytes, salt: bytes) -> bytes:
    return scrypt(secret, salt=salt, n=2**14, r=8, p=1)


def _mismatch(since: int, is_hashed: bool, is_given: bool) -> str:
    stored, remedy = "stored as they come", "start without --unit-secret-file"
    remark = "a unit secret"
    if is_hashed:
        stored, remedy = "hashed with a secret", "give that secret as --unit-secret-file"
        remark = "another one" if is_given else "none"
    return (
        f"units are {stored} since {day_of(since)}, and {remark} was given: each person would get a second name in the "
        f"store, and deleting a unit would miss rows; {remedy}, or change it permanently with {ROTATE}"
    )


def day_of(time: int) -> str:
    """The date of a time of the store."""
    return f"{datetime.fromtimestamp(time / 1e6, UTC):%Y-%m-%d}"


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
                ids = transaction.column(OF_UNIT, unit, unit, DELETED_AT_ONCE)
            with self._database.writing() as transaction:
                total += _delete_impressions(transaction, ids)
                transaction.change("DELETE FROM apart WHERE impression = ANY(?)", ids)
                transaction.change("DELETE FROM apart WHERE unit = ?", unit)
            is_done = len(ids) < DELETED_AT_ONCE
        self._is_unscrubbed = not self._database.scrub()
        return total

    def expire(self, before: int) -> int:
        """Delete folded impressions shown before then, and older unmatched events; returns how many impressions."""
        total = last = 0
        while True:  # start with the oldest row
            with self._database.reading() as transaction:
                rows = transaction.rows(
                    "SELECT number, id, time, folded FROM impressions WHERE number > ? ORDER BY number LIMIT ?",
                    *(last, DELETED_AT_ONCE),
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
                if transaction.change(old, before, DELETED_AT_ONCE) < DELETED_AT_ONCE:
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
            ids = transaction.column(statement, name, version, DELETED_AT_ONCE)
            total += _delete_impressions(transaction, ids)
            if len(ids) < DELETED_AT_ONCE:
                for table in ("sums", "apart"):
                    transaction.change(f"DELETE FROM {table} WHERE experiment = ? AND version <= ?", name, version)
                return total
