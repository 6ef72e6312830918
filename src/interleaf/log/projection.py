"""Which columns are read: names of columns, and of fields inside them, such as `events.kind`.

If only some fields of a column are wanted, Parquet reads only these, which is faster. Other formats read the whole
column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from interleaf.errors import DataError
from interleaf.log import schema

# Columns that are needed to join the pages of an impression.
_PAGED = ("experiment", "version", "impression", "time", "page", "method", "rankers", "documents", "teams")
_EVENT = ("events.event", "events.kind", "events.rank", "events.time")

Wanted = tuple[str, ...] | None  # None: all columns


class Projection(NamedTuple):
    """The columns that are always read, and `spare` columns, each read only if one of its named columns is missing."""

    names: Wanted
    spare: dict[str, tuple[str, ...]]

    def wanted(self, present: Collection[str]) -> Wanted:
        """What to read of a file with these columns.

        >>> projection_of(["time", "ranks"], {"rankings": ["ranks"]}).wanted(["time", "rankings"])
        ('time', 'ranks', 'rankings')
        """
        if self.names is None:
            return None
        return self.names + tuple(name for name, others in self.spare.items() if not set(others) <= set(present))

    def with_pages(self) -> Projection:
        """The same, with the columns that are needed to join the pages of an impression."""
        if self.names is None:
            return self
        is_inside = any(name.startswith("events.") for name in self.names)
        events = _EVENT if is_inside and "events" not in self.names else ("events",)
        return Projection(tuple(dict.fromkeys((*self.names, *_PAGED, *events))), self.spare)

    def only(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without columns that were read only to join pages."""
        names = None if self.names is None else (*self.names, *self.spare)
        return batch.select([name for name in batch.schema.names if is_wanted(name, names)])


def projection_of(columns: Iterable[str] | None, spare: Mapping[str, Sequence[str]]) -> Projection:
    """The columns that a reader asks for; an unknown name is an error."""
    if isinstance(columns, str):
        raise DataError(f"columns is {columns!r}, one text; give a list of names")
    names = None if columns is None else tuple(columns)
    known = {name for field in schema.SCHEMA for name in (field.name, *_inner(field.type, f"{field.name}."))}
    for name in (*(names or ()), *spare):
        if name not in known:
            raise DataError(f"a log has no column {name!r}; the columns are {', '.join(schema.SCHEMA.names)}")
    return Projection(names, {name: tuple(others) for name, others in spare.items()})


def _inner(kind: pa.DataType, prefix: str) -> Iterator[str]:
    kind = kind.value_type if pa.types.is_list(kind) else kind
    for field in kind if pa.types.is_struct(kind) else ():
        yield prefix + field.name
        yield from _inner(field.type, f"{prefix}{field.name}.")


def is_wanted(name: str, names: Wanted) -> bool:
    """Whether a column is wanted, or a field inside it."""
    return names is None or any(one.split(".")[0] == name for one in names)


def leaves(paths: Sequence[str], names: Iterable[str]) -> list[str]:
    """The Parquet columns, by their full paths, that hold these columns and fields.

    Writers name the levels between a list and its items differently: `events.list.element.kind`, `events.array.kind`,
    `events.bag.array_element.kind`. So a path matches if it has the names in their order, with others between them.

    >>> leaves(["time", "events.list.element.kind", "events.list.element.time"], ["time", "events.kind"])
    ['time', 'events.list.element.kind']
    """
    return [path for path in paths if any(_fits(path.split("."), name.split(".")) for name in names)]


def _fits(path: list[str], name: list[str]) -> bool:
    rest = iter(path)
    return path[0] == name[0] and all(part in rest for part in name)
