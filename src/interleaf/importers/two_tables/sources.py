"""Opens a table as record batches: files (Parquet, CSV, JSON lines), data frames, Arrow, queries of a database.

Columns of CSV and JSON lines are text, null where a cell is empty; lists and objects in JSON lines become JSON text.

A query of DuckDB or PostgreSQL is `duckdb:///shop.db?query=select ...` or
`postgresql://user:password@host/database?query=select ...`: the SQL is all that follows `query=`, as it is. Nothing is
written to the database. No message quotes the address or the SQL: both may hold passwords.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.csv as arrow_csv

from interleaf.environment import require
from interleaf.errors import DataError, hide_passwords
from interleaf.log import schema
from interleaf.log.arrow import table_of_frame
from interleaf.log.drop_reasons import DropReason
from interleaf.log.event_join import ReadCounts
from interleaf.log.files import LogFile, files_of
from interleaf.log.jsonl import LineError, lines_of, parse_line
from interleaf.log.parquet import open_parquet
from interleaf.log.reader import is_paths

BATCH = 65_536  # rows read at a time
_DUCKDB_MODULES = ("duckdb", "_duckdb")
LINES = 8_192  # lines that are Python objects at a time
Batches = Callable[[Sequence[str], ReadCounts], Iterator[pa.RecordBatch]]
DUCKDB, POSTGRES = ("duckdb",), ("postgresql", "postgres")
_QUERY = re.compile(r"[?&]query=", re.IGNORECASE)
NO_DOWNLOADS: dict[str, Any] = {"autoinstall_known_extensions": "false"}  # settings of DuckDB
ROWS = 16_384  # rows of PostgreSQL that are Python objects at a time
# By the number of the type in PostgreSQL: bool, integers, floats, times. All others become text.
_ARROW_TYPES: dict[int, pa.DataType] = {
    16: pa.bool_(),
    **dict.fromkeys((20, 21, 23), pa.int64()),
    **dict.fromkeys((700, 701), pa.float64()),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
}
# Settings with passwords that a driver may quote from the SQL.
_SECRET = re.compile(r"\b(password|pwd|secret|token)\b\s*['\"]?\s*[=:]?\s*\S+", re.IGNORECASE)


@dataclass(frozen=True)
class TableSource:
    """A table that can be read once: what to call it ('' for one in memory), its columns, and how to read some of them.

    `size` is its size in bytes, None if that is not known.
    """

    where: str
    columns: tuple[str, ...]
    read: Batches
    size: int | None = None


def open_table(source: Any, table: str, stack: ExitStack) -> TableSource:
    """Open a table, which `stack` closes; errors say which of the two it is."""
    if isinstance(source, str) and is_address(source):
        reader = open_query(source, stack)
        return _of_batches(reader.where, reader.schema, reader.batches)
    if is_paths(source):
        return _of_files(files_of(source))
    return _of_frame(source, table)


def _of_batches(
    where: str, columns: pa.Schema, batches: Iterable[pa.RecordBatch], size: int | None = None
) -> TableSource:
    def read(names: Sequence[str], counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.select(list(names))

    return TableSource(where, tuple(columns.names), read, size)


def _of_frame(source: Any, table: str) -> TableSource:
    """A table in memory, or a stream of another library."""
    source = table_of_frame(source, _of_pandas)
    if isinstance(source, pa.Table):
        return _of_batches("", source.schema, source.to_batches(BATCH), source.nbytes)
    kind = type(source).__name__
    if hasattr(source, "__arrow_c_stream__"):
        try:
            if type(source).__module__.startswith(_DUCKDB_MODULES):  # a connection has room for one open result
                columns = pa.RecordBatchReader.from_stream(source.limit(0)).read_all().schema
                return _of_batches("", columns, _stream(source))
            reader = pa.RecordBatchReader.from_stream(source)
        except pa.ArrowException as problem:
            raise DataError(f"the {table} of type {kind} are not a table ({problem}); give one") from None
        return _of_batches("", reader.schema, reader)
    raise DataError(f"the {table} are of type {kind}; give a path, an address with ?query=, or a data frame")


def _stream(source: Any) -> Iterator[pa.RecordBatch]:
    yield from pa.RecordBatchReader.from_stream(source)


def _of_pandas(frame: Any) -> pa.Table:
    """A table of all columns; those of several Python types become text, lists and objects in them JSON text."""
    columns = {}
    for name in frame.columns:
        try:
            columns[str(name)] = pa.array(frame[name], from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):
            values = [None if value is None or value != value else _json_text(value) for value in frame[name].tolist()]
            columns[str(name)] = pa.array(values, pa.string())
    return pa.table(columns)


def _of_files(files: Sequence[LogFile]) -> TableSource:
    """Files of any format, also mixed: a column that a file lacks is null there."""
    names = dict.fromkeys(name for file in files for name in (*_names_of(file), *file.folder_columns))

    def read(names: Sequence[str], counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        for file in files:
            for batch in _READERS[_format(file)](file, names, counts):
                yield _complete(batch, names, file)

    where = str(files[0].path) if len(files) == 1 else f"{files[0].path} and {len(files) - 1} more"
    return TableSource(where, tuple(names), read, sum(file.size for file in files))


def _complete(batch: pa.RecordBatch, names: Sequence[str], file: LogFile) -> pa.RecordBatch:
    """The columns in order; those that the file lacks have the value of its folder's name, or null."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    for name in names:
        if name not in columns:
            value = file.folder_columns.get(name)
            columns[name] = pa.nulls(len(batch)) if value is None else pa.repeat(value, len(batch))
    return pa.RecordBatch.from_arrays([columns[name] for name in names], list(names))


def _format(file: LogFile) -> str:
    return "parquet" if file.is_parquet else "csv" if file.is_csv else "lines"


def _names_of(file: LogFile) -> list[str]:
    """The names of the columns of a file; JSON lines are read for them."""
    if file.is_parquet:
        with open_parquet(file) as parquet:
            return list(parquet.schema_arrow.names)
    if file.is_csv:
        with _open_csv(file) as reader:
            names: list[str] = reader.schema.names
        schema.refuse([f"two columns are named {name!r}; keep one" for name in _find_repeated(names)], str(file.path))
        return names
    return list({name: None for value in _objects(file, ReadCounts()) for name in value})


def _find_repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _read_parquet(file: LogFile, names: Sequence[str], counts: ReadCounts) -> Iterator[pa.RecordBatch]:
    with open_parquet(file) as parquet:
        present = [name for name in names if name in parquet.schema_arrow.names]
        yield from parquet.iter_batches(BATCH, columns=present)


def _read_csv(file: LogFile, names: Sequence[str], counts: ReadCounts) -> Iterator[pa.RecordBatch]:
    with _open_csv(file, names, counts) as reader:
        yield from reader


@contextmanager
def _open_csv(file: LogFile, names: Sequence[str] = (), counts: ReadCounts | None = None) -> Iterator[Any]:
    """Open a CSV file whose first row names its columns; rows of another length are dropped and counted."""

    def skip(row: Any) -> str:
        if counts is not None:
            problem = f"the row has {row.actual_columns} cells, and the first one {row.expected_columns}"
            counts.drop(file, row.number or 0, LineError(DropReason.CELL_COUNT, problem))
        return "skip"

    try:
        with pa.input_stream(str(file.path), compression="detect") as stream:
            yield arrow_csv.open_csv(
                stream,
                read_options=arrow_csv.ReadOptions(use_threads=False, block_size=2**22),
                parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    include_columns=list(names),
                    include_missing_columns=True,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                    null_values=[""],
                ),
            )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        words = " ".join(str(problem).split())
        raise DataError(
            f"{file.path} cannot be read as CSV ({words}); write UTF-8, with commas, columns named first"
        ) from None


def _read_lines(file: LogFile, names: Sequence[str], counts: ReadCounts) -> Iterator[pa.RecordBatch]:
    objects = _objects(file, counts)
    while some := list(islice(objects, LINES)):
        cells = [[_json_text(one.get(name)) for one in some] for name in names]
        yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in cells], list(names))


def _json_text(value: Any) -> str | None:
    """A value of JSON as a cell of text."""
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def _objects(file: LogFile, counts: ReadCounts) -> Iterator[dict[str, Any]]:
    for number, line in lines_of(file.here, file.size):
        try:
            if line.strip():
                yield parse_line(line)
        except LineError as problem:
            counts.drop(file, number, problem)


_READERS = {"parquet": _read_parquet, "csv": _read_csv, "lines": _read_lines}


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


def _postgres_batches(where: str, cursor: Any, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    import psycopg

    with _refusing(where, psycopg.Error, OSError):
        while rows := cursor.fetchmany(ROWS):
            arrays = [
                pa.array([_value_text(value) for value in values] if field.type == pa.string() else values, field.type)
                for values, field in zip(zip(*rows, strict=True), columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=columns)


def _value_text(value: Any) -> str | None:
    """A value of PostgreSQL as text; an array as JSON."""
    if isinstance(value, list):
        return msgspec.json.encode(value).decode()
    return value if value is None or isinstance(value, str) else str(value)


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
