"""Impressions as dictionaries become record batches of the native schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from interleaf import schema
from interleaf.errors import DataError
from interleaf.log.values import RULES

# The only defaults: nothing happened, nothing is known.
EMPTY: dict[str, Any] = {name: schema.DEFAULTS[name] for name in ("events", "attributes")}


def rows_to_batch(rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    """A record batch from impressions as dictionaries: `Interleaving.to_dict()` and the fields of the impression.

    Times are `datetime`s with a time zone, or ISO 8601 text; document ids become text. Nullable columns may be left
    out, and so may `events` and `attributes` where there are none. Unknown names are kept as columns of their own, but
    for the `fixed` of `to_dict`: a log holds no fixed documents, and `Interleaving.rank_in_log` gives its ranks.

    >>> from interleaf import interleave
    >>> shown = interleave([["a", "b"], ["b", "c"]], key=("example", "user-7"))
    >>> row = {"experiment": "example", "version": 1, "impression": "i-1", "time": "2026-11-15T12:00:00Z"}
    >>> batch = rows_to_batch([shown.to_dict() | row | {"arm": "interleaved", "unit": "user-7"}])
    >>> batch.num_rows, batch.schema.equals(schema.SCHEMA)
    (1, True)
    """
    rows = list(rows)
    known = {column.name for column in schema.COLUMNS}
    others = dict.fromkeys(name for row in rows for name in row if name not in known and name != "fixed")
    columns = {column.name: _array(column, rows) for column in schema.COLUMNS}
    for name in others:
        columns[name] = _converted([row.get(name) for row in rows], None, name)
    fields = [*schema.SCHEMA, *(pa.field(name, columns[name].type) for name in others)]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields, schema.SCHEMA.metadata))


def _array(column: schema.Column, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    values = [row.get(column.name) for row in rows]
    if column.name in EMPTY:
        values = [EMPTY[column.name] if value is None else value for value in values]
    for number, value in enumerate(values):
        if value is None and not column.nullable:
            raise DataError(
                f"row {number + 1} has no {column.name!r} ({column.type}: {column.meaning}); it may not be left out"
            )
    check = RULES[column.name].check
    try:
        values = [None if value is None else check(value) for value in values]
    except ValueError as problem:
        raise _refusal(column.name, column.type, problem) from None
    return _converted(values, column.type, column.name)


def _converted(values: list[Any], kind: pa.DataType | None, name: str) -> pa.Array:
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        raise _refusal(name, kind, problem) from None


def _refusal(name: str, kind: pa.DataType | None, problem: Exception) -> DataError:
    return DataError(f"column {name!r} cannot be written as {kind or 'one type'}: {problem}")
