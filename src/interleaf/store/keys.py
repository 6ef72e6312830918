"""Access keys, the secret that signs tokens, and sessions of the dashboard."""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256

from interleaf.errors import DataError, StateError, join_names
from interleaf.store.database import Database, Transaction, is_kept
from interleaf.store.records import ROLES, AccessKey

COLUMNS = "id, role, label, created, revoked, experiment, expires, used"
_SIGNING = "signing"  # the secret that signs new tokens; one that was rotated out has a random name after this
USE_STEP = 300 * 1_000_000  # microseconds between two writes of a session's last use


class KeyStore:
    """The part of a store that holds keys, token secrets and sessions."""

    _database: Database

    def add_key(
        self,
        role: str,
        label: str,
        now: int,
        *,
        experiment: str | None = None,
        expires: int | None = None,
        name: str | None = None,
    ) -> tuple[AccessKey, str]:
        """Create a key for one experiment or for all; returns it with its secret, which is stored only as a hash.

        The secret is `il_`, the role, and 32 random bytes. `name` is the key's id, if given: StateError if there is
        such a key already.
        """
        key = AccessKey(name or secrets.token_hex(8), role, label, now, None, experiment, expires)
        if role not in ROLES:
            raise DataError(f"role is {role!r}; give {join_names(ROLES)}")
        if key.is_expired(now):
            raise DataError("the key would expire at once; give a later time")
        secret = f"il_{role}_{secrets.token_urlsafe(32)}"
        with self._database.writing() as transaction:
            if experiment is not None and not (
                is_kept(experiment) and transaction.rows("SELECT 1 FROM experiments WHERE name = ?", experiment)
            ):
                raise DataError(f"experiment is {experiment[:100]!r}, and there is no such experiment; create it first")
            is_new = transaction.change(
                "INSERT INTO access_keys (id, hash, role, label, created, experiment, expires) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
                *(key.id, hash_of(secret), role, label, now, experiment, expires),
            )
        if not is_new:
            raise StateError(f"the key {key.id} already exists: this form was already sent; the secret was shown once")
        return key, secret

    def keys(self) -> list[AccessKey]:
        """All keys, oldest first."""
        with self._database.reading() as transaction:
            rows = transaction.rows(f"SELECT {COLUMNS} FROM access_keys ORDER BY created, id")
        return [AccessKey(*row) for row in rows]

    def key_of(self, secret: str) -> AccessKey | None:
        """The key with this secret, if there is one that is not revoked; it may have expired.

        It is looked up by a hash, so the duration reveals nothing about the secret.
        """
        wanted = hash_of(secret)
        statement = f"SELECT hash, {COLUMNS} FROM access_keys WHERE hash = ? AND revoked IS NULL"
        with self._database.reading() as transaction:
            rows = transaction.rows(statement, wanted)
        return next((AccessKey(*rest) for stored, *rest in rows if hmac.compare_digest(bytes(stored), wanted)), None)

    def note_key_use(self, key: str, now: int) -> None:
        """Record when a key was used."""
        with self._database.writing() as transaction:
            _note_key_use(transaction, key, now)

    def revoke(self, key: str, now: int) -> bool:
        """Revoke a key and end its sessions; False if there is no valid key with this id."""
        if not is_kept(key):
            return False
        with self._database.writing() as transaction:
            return revoke_key(transaction, key, now)

    def token_secrets(self, now: int) -> list[bytes]:
        """The secret that signs tokens of impressions, and after it the older ones that are still accepted."""
        with self._database.reading() as transaction:
            stored = transaction.column(
                "SELECT secret FROM secrets WHERE name = ? OR (name LIKE ? AND expires > ?) "
                "ORDER BY expires IS NOT NULL, name",
                *(_SIGNING, f"{_SIGNING}-%", now),
            )
        return list(map(bytes, stored))

    def rotate_token_secret(self, now: int, expires: int) -> None:
        """Sign tokens with a new secret; older ones are accepted until `expires`, and expired ones are deleted."""
        older, old = f"{_SIGNING}-%", f"{_SIGNING}-{secrets.token_hex(8)}"
        with self._database.writing() as transaction:
            transaction.alone()
            transaction.change("DELETE FROM secrets WHERE name LIKE ? AND expires <= ?", older, now)
            transaction.change(
                "UPDATE secrets SET expires = ? WHERE name LIKE ? AND expires > ?", expires, older, expires
            )
            transaction.change("UPDATE secrets SET name = ?, expires = ? WHERE name = ?", old, expires, _SIGNING)
            transaction.change("INSERT INTO secrets (name, secret) VALUES (?, ?)", _SIGNING, secrets.token_bytes(32))

    def begin_session(self, key: str, now: int, expires: int) -> str:
        """Start a session and return its random id, of which the store has a hash. Expired sessions are deleted."""
        session = secrets.token_urlsafe(32)
        with self._database.writing() as transaction:
            transaction.change("DELETE FROM sessions WHERE expires <= ?", now)
            transaction.change(
                "INSERT INTO sessions (hash, access_key, created, expires, used) VALUES (?, ?, ?, ?, ?)",
                *(hash_of(session), key, now, expires, now),
            )
            _note_key_use(transaction, key, now)
        return session

    def session_key(self, session: str, now: int) -> AccessKey | None:
        """The key of a session, unless the session has ended or the key is not valid any more."""
        columns = ", ".join(f"k.{column}" for column in COLUMNS.split(", "))
        with self._database.reading() as transaction:
            rows = transaction.rows(
                f"SELECT s.used, {columns} FROM sessions s JOIN access_keys k ON k.id = s.access_key "
                "WHERE s.hash = ? AND s.expires > ?",
                *(hash_of(session), now),
            )
        key = AccessKey(*rows[0][1:]) if rows else None
        if key is None or not key.is_valid(now):
            return None
        if now - rows[0][0] >= USE_STEP:
            with self._database.writing() as transaction:
                transaction.change("UPDATE sessions SET used = ? WHERE hash = ?", now, hash_of(session))
                _note_key_use(transaction, key.id, now)  # same order everywhere, to avoid deadlocks
        return key

    def end_session(self, session: str) -> bool:
        """End one session; False if it had ended."""
        with self._database.writing() as transaction:
            return transaction.change("DELETE FROM sessions WHERE hash = ?", hash_of(session)) > 0

    def end_sessions(self, key: str | None = None) -> int:
        """End all sessions of a key, or of all keys; how many there were."""
        with self._database.writing() as transaction:
            return transaction.change("DELETE FROM sessions WHERE access_key = COALESCE(?, access_key)", key)

    def count_sessions(self, now: int) -> dict[str, int]:
        """How many sessions each key has, by its id."""
        counts = "SELECT access_key, count(*) FROM sessions WHERE expires > ? GROUP BY access_key"
        with self._database.reading() as transaction:
            return dict(transaction.rows(counts, now))


def _note_key_use(transaction: Transaction, key: str, now: int) -> None:
    transaction.change("UPDATE access_keys SET used = ? WHERE id = ?", now, key)


def revoke_key(transaction: Transaction, key: str, now: int) -> bool:
    """Revoke a key and end its sessions; False if there is no such key, or if it is revoked already."""
    transaction.change("DELETE FROM sessions WHERE access_key = ?", key)
    changed = transaction.change("UPDATE access_keys SET revoked = ? WHERE id = ? AND revoked IS NULL", now, key)
    return changed > 0


def hash_of(secret: str) -> bytes:
    """The hash of a secret."""
    return sha256(secret.encode(errors="replace")).digest()
