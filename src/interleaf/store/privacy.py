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

from interleaf.errors import DataError
from interleaf.store.database import Transaction
from interleaf.store.records import RUNNING

ROTATE = "interleaf store rotate-unit-secret"
_LATEST = "SELECT number, since, salt, fingerprint FROM unit_secrets ORDER BY number DESC"
_HELD = (
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM impressions) OR EXISTS (SELECT 1 FROM apart) OR EXISTS (SELECT 1 FROM sums)"
)


def hash_unit(unit: str, secret: bytes | None) -> str:
    """The stored form of a user id: the id itself, or a hash of it if there is a secret."""
    return unit if secret is None else blake2b(unit.encode(), digest_size=16, key=secret).hexdigest()


def use_unit_secret(transaction: Transaction, secret: bytes | None, now: int) -> int:
    """Check that this is the secret of the store, and return its number; a store without units accepts any secret."""
    transaction.alone()
    for number, since, salt, fingerprint in transaction.rows(f"{_LATEST} LIMIT 1"):
        if _matches(secret, salt, fingerprint):
            return int(number)
        if transaction.rows(_HELD):
            raise DataError(_mismatch(since, fingerprint is not None, secret is not None))
        transaction.change("DELETE FROM unit_secrets")
    return _add(transaction, secret, now)


def rotate_unit_secret(transaction: Transaction, secret: bytes | None, now: int) -> list[str]:
    """Replace the secret of the store; returns the names of running experiments."""
    transaction.alone()
    for _, since, salt, fingerprint in transaction.rows(f"{_LATEST} LIMIT 1"):
        if _matches(secret, salt, fingerprint):
            raise DataError(f"this is the secret of the store already, since {day_of(since)}; give a new one")
    _add(transaction, secret, now)
    running = transaction.rows("SELECT name FROM experiments WHERE state = ? ORDER BY name", RUNNING)
    return [name for (name,) in running]


def check_known_secret(transaction: Transaction, secret: bytes | None) -> None:
    """Raise DataError if the store never had units under this secret."""
    known = transaction.rows(_LATEST)
    if known and not any(_matches(secret, salt, fingerprint) for _, _, salt, fingerprint in known):
        given = "this secret" if secret is not None else "no secret"
        raise DataError(f"the store never had units under {given}; give the --unit-secret-file that was used then")


def latest_number(transaction: Transaction) -> int | None:
    """The number of the secret that is used now."""
    ((number,),) = transaction.rows("SELECT max(number) FROM unit_secrets")
    return None if number is None else int(number)


def _add(transaction: Transaction, secret: bytes | None, now: int) -> int:
    salt = secrets.token_bytes(16)
    fingerprint = None if secret is None else _fingerprint(secret, salt)
    transaction.change(
        "INSERT INTO unit_secrets (since, salt, fingerprint) VALUES (?, ?, ?)", *(now, salt, fingerprint)
    )
    return latest_number(transaction) or 0


def _matches(secret: bytes | None, salt: bytes, fingerprint: bytes | None) -> bool:
    if secret is None or fingerprint is None:
        return secret is fingerprint
    return hmac.compare_digest(_fingerprint(secret, bytes(salt)), bytes(fingerprint))


def _fingerprint(secret: bytes, salt: bytes) -> bytes:
    return scrypt(secret, salt=salt, n=2**14, r=8, p=1)


def _mismatch(since: int, is_hashed: bool, is_given: bool) -> str:
    if not is_hashed:
        problem = f"units are stored as they come since {day_of(since)}, and a unit secret was given"
        remedy = "start without --unit-secret-file"
    else:
        given = "another one" if is_given else "none"
        problem = f"units are hashed with a secret since {day_of(since)}, and {given} was given"
        remedy = "give that secret as --unit-secret-file"
    return (
        f"{problem}: each person would get a second name in the store, and deleting a unit would miss rows; "
        f"{remedy}, or change it for good with {ROTATE}"
    )


def day_of(time: int) -> str:
    """The date of a time of the store."""
    return f"{datetime.fromtimestamp(time / 1e6, UTC):%Y-%m-%d}"


KEEP, HASH, DROP = "keep", "hash", "drop"
_STORED = {KEEP: "as they come", HASH: "as hashes"}


def use_queries(transaction: Transaction, queries: str, now: int) -> None:
    """Set how queries are stored; DataError if texts and hashes would be mixed."""
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
