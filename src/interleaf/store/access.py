"""Keys that let people and programs in: random, kept as hashes, revocable."""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256

from interleaf.errors import DataError, listed
from interleaf.store.contract import ROLES, AccessKey
from interleaf.store.database import Row, Transaction

_COLUMNS = "id, role, label, created, revoked"


def add_key(transaction: Transaction, role: str, label: str, now: int) -> tuple[AccessKey, str]:
    """A new key and its secret: `il_`, its role, and 32 random bytes."""
    if role not in ROLES:
        raise DataError(f"role is {role!r}; give {listed(ROLES)}")
    secret = f"il_{role}_{secrets.token_urlsafe(32)}"
    key = AccessKey(secrets.token_hex(8), role, label, now, None)
    transaction.change(
        "INSERT INTO access_keys (id, hash, role, label, created) VALUES (?, ?, ?, ?, ?)",
        *(key.id, _hash(secret), role, label, now),
    )
    return key, secret


def keys(transaction: Transaction) -> list[AccessKey]:
    """All keys, oldest first."""
    return [AccessKey(*row) for row in transaction.rows(f"SELECT {_COLUMNS} FROM access_keys ORDER BY created, id")]


def key_of(transaction: Transaction, secret: str) -> AccessKey | None:
    """The key with this secret, unless it is revoked.

    It is found by a hash that nobody can steer, so the time of the search tells nothing of the secret.
    """
    wanted = _hash(secret)
    rows: list[Row] = transaction.rows(
        f"SELECT hash, {_COLUMNS} FROM access_keys WHERE hash = ? AND revoked IS NULL", wanted
    )
    return next((AccessKey(*rest) for found, *rest in rows if hmac.compare_digest(bytes(found), wanted)), None)


def revoke(transaction: Transaction, key: str, now: int) -> bool:
    """End a key; False if there is none such, or it has ended."""
    changed = transaction.change("UPDATE access_keys SET revoked = ? WHERE id = ? AND revoked IS NULL", now, key)
    return changed > 0


def _hash(secret: str) -> bytes:
    return sha256(secret.encode(errors="replace")).digest()
