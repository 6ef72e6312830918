"""A store by its address."""

from __future__ import annotations

from pathlib import Path

from interleaf.errors import DataError
from interleaf.extras import require
from interleaf.store.database import Database
from interleaf.store.sql import SqlStore

_FILE, _POSTGRES = "sqlite:///", ("postgresql://", "postgres://")


def opened(address: str | Path) -> SqlStore:
    """The store at a path (or `sqlite:///path`), made if it is not there; or in PostgreSQL, at `postgresql://...`."""
    database = _database(str(address))
    try:
        return SqlStore(database)
    except BaseException:
        database.close()
        raise


def _database(address: str) -> Database:
    if address.startswith(_POSTGRES):
        require("postgres", "a store in PostgreSQL needs", "psycopg", "psycopg_pool")
        from interleaf.store.postgres import Postgres

        return Postgres(address)
    path = address.removeprefix(_FILE)
    if "://" in path:
        scheme = path.partition("://")[0]  # and no more of it: it may hold a password
        raise DataError(f"the store's address begins with {scheme}://; give a path, sqlite:///path or postgresql://...")
    from interleaf.store.sqlite import SQLite

    return SQLite(Path(path))
