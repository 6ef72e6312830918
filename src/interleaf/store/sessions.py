"""Sessions of the dashboard: the browser has a random id, the store has only its hash."""

from __future__ import annotations

import secrets

from interleaf.store.access import COLUMNS, hash_of, note_key_use
from interleaf.store.contract import AccessKey
from interleaf.store.database import Transaction

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
