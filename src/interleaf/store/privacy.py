"""How user ids and query texts are stored: as they come, hashed with a secret, or not at all.

The store holds a salted scrypt hash of the secret, and so detects a different one. scrypt is slow, so guessing the
secret takes long. A store does not mix query texts and hashes: the same query would have two names, and older rows
would still hold texts although hashes were requested.
"""

from __future__ import annotations

import hmac
import secrets
from datetime import UTC, datetime
from hashlib import blake2b, scrypt

from interleaf.errors import DataError, StoreError
from interleaf.store.database import Database, Transaction
from interleaf.store.records import RUNNING

KEEP, HASH, DROP = "keep", "hash", "drop"
_STORED = {KEEP: "as they come", HASH: "as hashes"}
ROTATE = "interleaf store rotate-unit-secret"
_LATEST = "SELECT number, since, salt, fingerprint FROM unit_secrets ORDER BY number DESC"
_HELD = (
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM impressions) OR EXISTS (SELECT 1 FROM apart) OR EXISTS (SELECT 1 FROM sums)"
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
