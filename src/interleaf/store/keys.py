"""Access keys, the secret that signs tokens, and sessions of the dashboard."""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256

from interleaf.errors import DataError, StateError, listed
from interleaf.store.contract import ROLES, AccessKey
from interleaf.store.database import Row, Transaction, is_kept

COLUMNS = "id, role, label, created, revoked, experiment, expires, used"
_SIGNING = "signing"  # the secret that signs new tokens; one that was rotated out has a random name after this


def add_key(transaction: Transaction, key: AccessKey) -> str:
    """Keep a new key; its secret is `il_`, its role, and 32 random bytes."""
    if key.role not in ROLES:
        raise DataError(f"role is {key.role!r}; give {listed(ROLES)}")
    if key.is_expired(key.created):
        raise DataError("the key would expire at once; give a later time")
    if key.experiment is not None and not (
        is_kept(key.experiment) and transaction.rows("SELECT 1 FROM experiments WHERE name = ?", key.experiment)
    ):
        raise DataError(f"experiment is {key.experiment[:100]!r}, and there is none such; make it first")
    secret = f"il_{key.role}_{secrets.token_urlsafe(32)}"
    is_new = transaction.change(
        "INSERT INTO access_keys (id, hash, role, label, created, experiment, expires) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO NOTHING",
        *(key.id, hash_of(secret), key.role, key.label, key.created, key.experiment, key.expires),
    )
    if not is_new:
        raise StateError(f"the key {key.id} was made already; its secret was shown then")
    return secret


def keys(transaction: Transaction) -> list[AccessKey]:
    """All keys, oldest first."""
    return [AccessKey(*row) for row in transaction.rows(f"SELECT {COLUMNS} FROM access_keys ORDER BY created, id")]


def key_of(transaction: Transaction, secret: str) -> AccessKey | None:
    """The key with this secret, unless it is revoked.

    It is found by a hash that nobody can steer, so the time of the search tells nothing of the secret.
    """
    wanted = hash_of(secret)
    rows: list[Row] = transaction.rows(
        f"SELECT hash, {COLUMNS} FROM access_keys WHERE hash = ? AND revoked IS NULL", wanted
    )
    return next((AccessKey(*rest) for found, *rest in rows if hmac.compare_digest(bytes(found), wanted)), None)


def note_key_use(transaction: Transaction, key: str, now: int) -> None:
    """Write when a key was used."""
    transaction.change("UPDATE access_keys SET used = ? WHERE id = ?", now, key)


def revoke(transaction: Transaction, key: str, now: int) -> bool:
    """End a key and its sessions; False if there is none such, or it has ended."""
    transaction.change("DELETE FROM sessions WHERE access_key = ?", key)
    changed = transaction.change("UPDATE access_keys SET revoked = ? WHERE id = ? AND revoked IS NULL", now, key)
    return changed > 0


def token_secrets(transaction: Transaction, now: int) -> list[bytes]:
    """The secret that signs tokens of impressions, and after it the older ones that are still accepted."""
    rows = transaction.rows(
        "SELECT secret FROM secrets WHERE name = ? OR (name LIKE ? AND expires > ?) ORDER BY expires IS NOT NULL, name",
        *(_SIGNING, f"{_SIGNING}-%", now),
    )
    return [bytes(secret) for (secret,) in rows]


def rotate_token_secret(transaction: Transaction, now: int, expires: int) -> None:
    """Sign tokens with a new secret; the one before is accepted until `expires`, and what has expired is deleted."""
    transaction.alone()
    transaction.change("DELETE FROM secrets WHERE name LIKE ? AND expires <= ?", f"{_SIGNING}-%", now)
    transaction.change(
        "UPDATE secrets SET expires = ? WHERE name LIKE ? AND expires > ?", expires, f"{_SIGNING}-%", expires
    )
    old = f"{_SIGNING}-{secrets.token_hex(8)}"
    transaction.change("UPDATE secrets SET name = ?, expires = ? WHERE name = ?", old, expires, _SIGNING)
    transaction.change("INSERT INTO secrets (name, secret) VALUES (?, ?)", _SIGNING, secrets.token_bytes(32))


def hash_of(secret: str) -> bytes:
    """What is kept of a secret."""
    return sha256(secret.encode(errors="replace")).digest()


USE_STEP = 300 * 1_000_000  # microseconds between two writes of a session's last use


def begin_session(transaction: Transaction, key: str, now: int, expires: int) -> str:
    """Start a session of a key and return its id; expired sessions are deleted."""
    transaction.change("DELETE FROM sessions WHERE expires <= ?", now)
    session = secrets.token_urlsafe(32)
    transaction.change(
        "INSERT INTO sessions (hash, access_key, created, expires, used) VALUES (?, ?, ?, ?, ?)",
        *(hash_of(session), key, now, expires, now),
    )
    note_key_use(transaction, key, now)
    return session


def session_key(transaction: Transaction, session: str, now: int) -> tuple[AccessKey, bool] | None:
    """The valid key of a session, and whether the session's last use should be written again; None if it has ended."""
    columns = ", ".join(f"k.{column}" for column in COLUMNS.split(", "))
    rows = transaction.rows(
        f"SELECT s.used, {columns} FROM sessions s JOIN access_keys k ON k.id = s.access_key "
        "WHERE s.hash = ? AND s.expires > ?",
        *(hash_of(session), now),
    )
    for used, *rest in rows:
        key = AccessKey(*rest)
        if key.is_valid(now):
            return key, now - used >= USE_STEP
    return None


def note_session_use(transaction: Transaction, session: str, key: str, now: int) -> None:
    """Write the last use of a session and of its key."""
    transaction.change("UPDATE sessions SET used = ? WHERE hash = ?", now, hash_of(session))
    note_key_use(transaction, key, now)  # in this order, as everywhere: nobody waits in a circle


def end_session(transaction: Transaction, session: str) -> bool:
    """End one session; False if it had ended."""
    return transaction.change("DELETE FROM sessions WHERE hash = ?", hash_of(session)) > 0


def end_sessions(transaction: Transaction, key: str | None = None) -> int:
    """End all sessions of a key, or of all keys; how many there were."""
    if key is None:
        return transaction.change("DELETE FROM sessions")
    return transaction.change("DELETE FROM sessions WHERE access_key = ?", key)


def count_sessions(transaction: Transaction, now: int) -> dict[str, int]:
    """How many sessions each key has."""
    rows = transaction.rows("SELECT access_key, count(*) FROM sessions WHERE expires > ? GROUP BY access_key", now)
    return dict(rows)
