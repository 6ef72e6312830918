"""Reads the result of a query of DuckDB or PostgreSQL in batches, without writing to the database.

A table is `duckdb:///shop.db?query=select ...` or `postgresql://user:password@host/database?query=select ...`: the SQL
is all that follows `query=`, as it is. No message quotes the address or the SQL: both may hold passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from interleaf.environment import require
from interleaf.errors import DataError, hide_passwords

DUCKDB, POSTGRES = ("duckdb",), ("postgresql", "postgres")
_QUERY = re.compile(r"[?&]query=", re.IGNORECASE)
NO_DOWNLOADS: dict[str, Any] = {"autoinstall_known_extensions": "false"}  # settings of DuckDB
ROWS = 16_384  # rows of PostgreSQL that are Python objects at a time


class OpenedQuery(NamedTuple):
    """A query that has been sent: what to call it, its columns, and the batches of its result, once."""

    where: str
    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]


def is_address(source: str) -> bool:
    """Whether this names a database rather than a file.

    >>> is_address("duckdb:///shop.db?query=from clicks"), is_address("s3://bucket/clicks.parquet")
    (True, False)
    """
    scheme, colon, _ = source.partition("://")
    return bool(colon) and scheme.lower() in (*DUCKDB, *POSTGRES)


def open_query(address: str, stack: ExitStack) -> OpenedQuery:
    """Open the database, and send the query; `stack` closes them."""
    scheme = address.partition("://")[0].lower()
    place, *sql = _QUERY.split(address, maxsplit=1)
    name = "DuckDB" if scheme in DUCKDB else "PostgreSQL"
    if not sql or not sql[0].strip():
        raise DataError(f"the address of {name} has no query; end it in ?query=select ...")
    return (_open_duckdb if scheme in DUCKDB else _open_postgres)(place, sql[0].strip().rstrip(";"), stack)


def _open_duckdb(place: str, sql: str, stack: ExitStack) -> OpenedQuery:
    require("duckdb", "a query of DuckDB needs", "duckdb")
    import duckdb

    path = place.partition("://")[2].removeprefix("/")  # as in SQLAlchemy: three slashes are a relative path
    where = f"the query of DuckDB ({path or 'in memory'})"
    if path and not Path(path).is_file():
        raise DataError(
            f"there is no database {path!r}; an absolute path has four slashes, as in duckdb:////data/shop.db"
        )
    with _refusing(where, duckdb.Error):
        statements = duckdb.extract_statements(sql)
        if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
            raise DataError(f"{where} is not one SELECT statement, and only reading is allowed; give one")
        connection = stack.enter_context(
            closing(duckdb.connect(path or ":memory:", read_only=bool(path), config=NO_DOWNLOADS))
        )
        reader = pa.RecordBatchReader.from_stream(connection.sql(sql))
    return OpenedQuery(where, reader.schema, _duckdb_batches(where, reader))


def _duckdb_batches(where: str, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    with _refusing(where, pa.ArrowException, OSError):
        yield from reader


def _open_postgres(place: str, sql: str, stack: ExitStack) -> OpenedQuery:
    require("postgres", "a query of PostgreSQL needs", "psycopg")
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.types.string import TextLoader

    from interleaf.postgres_errors import describe_address

    where = f"the query of {describe_address(place, 'the address of PostgreSQL')}"
    settings = {"connect_timeout": "10"} | conninfo_to_dict(place)
    # The whole session only reads, so that a statement after COMMIT cannot write either.
    options = f"{settings.pop('options', None) or ''} -c default_transaction_read_only=on"
    with _refusing(where, psycopg.Error, OSError):
        opened = psycopg.connect(**settings, options=options.strip())  # type: ignore[arg-type]
        connection = stack.enter_context(closing(opened))
        for kind in ("json", "jsonb"):
            connection.adapters.register_loader(kind, TextLoader)
        cursor = stack.enter_context(closing(connection.cursor("interleaf")))
        cursor.execute(sql.encode())
        oids = [(column.name, column.type_code) for column in cursor.description or ()]
    columns = pa.schema([pa.field(name, _ARROW_TYPES.get(oid, pa.string())) for name, oid in oids])
    return OpenedQuery(where, columns, _postgres_batches(where, cursor, columns))


# By the number of the type in PostgreSQL: bool, integers, floats, times. All others become text.
_ARROW_TYPES: dict[int, pa.DataType] = {
    16: pa.bool_(),
    **dict.fromkeys((20, 21, 23), pa.int64()),
    **dict.fromkeys((700, 701), pa.float64()),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
}


def _postgres_batches(where: str, cursor: Any, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    import psycopg

    with _refusing(where, psycopg.Error, OSError):
        while rows := cursor.fetchmany(ROWS):
            arrays = [
                pa.array([_text(value) for value in values] if field.type == pa.string() else values, field.type)
                for values, field in zip(zip(*rows, strict=True), columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=columns)


def _text(value: Any) -> str | None:
    """A value of PostgreSQL as text; an array as JSON."""
    if isinstance(value, list):
        return msgspec.json.encode(value).decode()
    return value if value is None or isinstance(value, str) else str(value)


# Settings with passwords that a driver may quote from the SQL.
_SECRET = re.compile(r"\b(password|pwd|secret|token)\b\s*['\"]?\s*[=:]?\s*\S+", re.IGNORECASE)


@contextmanager
def _refusing(where: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn an error of a driver into one that names the query and the cause."""
    try:
        yield
    except errors as problem:
        raise DataError(f"{where} failed: {_cause_of(problem)}") from None


def _cause_of(problem: Exception) -> str:
    """Why a query failed. What PostgreSQL says of a connection is never shown, because it may quote the address."""
    if type(problem).__module__.startswith("psycopg") and not (getattr(problem, "sqlstate", None) or "").startswith(
        "42"
    ):
        from interleaf.postgres_errors import cause_of

        return cause_of(problem)
    return describe(problem)


def describe(problem: Exception) -> str:
    r"""What a driver says: the first line only, because the next ones quote the SQL, and without secrets.

    >>> describe(ValueError("cannot open postgresql://ann:hunter2@host/shop\nLINE 1: ..."))
    'cannot open postgresql://***host/shop'
    """
    return _SECRET.sub("***", hide_passwords(str(problem).strip().partition("\n")[0]))
