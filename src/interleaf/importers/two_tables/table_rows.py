"""The rows of both tables in one form, and which of them can be used.

The rows of the impressions have converted cells. Three shapes are known: lists, as lists or JSON text, of ids or of
objects with id and owner; one row for each result, with its rank; and rankings with the key of the random draw, which
compose the list again. The rows of the events have impression, document or rank, kind, time, and what the event is
worth. For each row that cannot be used, the first reason is counted, with an example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as short
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.errors import DataError, InterleafError
from interleaf.importers.two_tables.cell_values import Cells, convert, each, each_json, entries_of
from interleaf.importers.two_tables.column_names import ATTRIBUTE, IMPRESSIONS, NAMES, TableColumns, simplify
from interleaf.interleaving.api import interleave
from interleaf.kernels.arrays import Array
from interleaf.log import schema
from interleaf.log.drop_reasons import DropReason
from interleaf.log.event_join import ReadCounts
from interleaf.log.jsonl import LineError, split_rankings
from interleaf.methods.registry import resolve

LIST, RESULTS, KEY = "list", "results", "key"  # the shapes
_TEXTS = pa.list_(pa.string())
DOC = "document"
RESULT = (DOC, "owner", "rank")  # fields of a result that has a row of its own
_TYPES = {column.name: column.type for column in schema.COLUMNS}
_RANKINGS = pa.struct([("rankers", _TEXTS), ("rankings", pa.list_(_TEXTS))])
K = 10  # documents of a list that is composed again, if no column says how many were shown
_FIELDS = {simplify(name): field for field in RESULT for name in (field, *NAMES[IMPRESSIONS][field])} | {
    "id": "document"
}
RARE = 0.01  # a smaller share of events at position 0 does not mean that positions start there
CLICK = "click"  # the kind of events without a kind
EVENT_SCHEMA = pa.schema(
    [
        ("impression", pa.string()),
        ("document", pa.string()),
        *((column.name, pa.int64() if column.name == "rank" else column.type) for column in schema.EVENT),
    ]
)


@dataclass
class RowChecks:
    """Marks the rows of one batch after another; `wrong` gives the reason for a cell that cannot be converted."""

    where: str
    counts: ReadCounts
    wrong: Callable[[str], str]
    rankers: Sequence[str] = ()
    _is_used: Array = field(default_factory=lambda: np.zeros(0, np.bool_))
    _before: int = 0

    def start(self, size: int) -> None:
        """Begin with a batch of this many rows."""
        self._before += len(self._is_used)
        self._is_used = np.ones(size, np.bool_)

    def take(self, name: str, source: pa.Array, cells: Cells) -> pa.Array:
        """The converted cells of a column; rows with a wrong one are not used."""
        self.counts.assumptions |= dict.fromkeys(sorted(cells.assumptions))
        if cells.wrong.any():
            self._drop(self.wrong(name), cells.wrong, source, f"{name} ")
        return cells.values

    def refuse(self, reason: str, rows: pa.Array) -> None:
        """Do not use these rows."""
        marks = np.asarray(pc.fill_null(rows, False))
        if marks.any():
            self._drop(reason, marks)

    def _drop(self, reason: str, marks: Array, source: pa.Array | None = None, name: str = "") -> None:
        out = np.flatnonzero(self._is_used & marks)
        if len(out):
            value = "" if source is None else f": {name}is {short(source[int(out[0])].as_py())}"
            self.counts.dropped[reason] += len(out)
            self.counts.examples.setdefault(reason, f"{self.where}, row {self._before + int(out[0]) + 1:,}{value}")
            self._is_used[out] = False

    def select_usable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that can be used."""
        return batch if self._is_used.all() else batch.filter(pa.array(self._is_used))


def find_shape(columns: TableColumns, problems: list[InterleafError]) -> str:
    """The shape of the impressions; none, or two at once, is a problem."""
    shapes = [
        (LIST, "documents" in columns),
        (RESULTS, "document" in columns and "rank" in columns),
    ]
    candidates = [shape for shape, holds in shapes if holds]
    if len(candidates) == 2:
        names = [columns.by_field[field] for field in ("documents", "document")]
        mapped = [field for field in ("documents", "document") if field in columns.mapped_fields]
        if len(mapped) == 1:
            return LIST if mapped == ["documents"] else RESULTS
        remedy = f"--map documents={names[0]} or --map document={names[1]}"
        problems.append(
            DataError(f"the impressions have lists ({names[0]!r}) and results ({names[1]!r}); give {remedy}")
        )
    if not candidates and not {"rankings", "key"} <= set(columns.by_field):
        problems.append(
            DataError(
                "the impressions do not say what was shown; they need a list (--map documents=COLUMN), or one row for "
                "each result (--map document=COLUMN --map rank=COLUMN), or rankings and key of the draw (--map "
                f"rankings=COLUMN --map key=COLUMN); not used: {', '.join(map(repr, columns.unused)) or 'no column'}"
            )
        )
    return candidates[0] if candidates else KEY


class ImpressionRows:
    """Converts record batches of the impressions to batches of `schema`; rows that cannot be used are counted."""

    def __init__(self, columns: TableColumns, shape: str, method: str, checks: RowChecks) -> None:
        self.shape, self._columns, self._method, self._checks = shape, columns, method, checks
        self._composes = shape != RESULTS and {"rankings", "key"} <= set(columns.by_field) and "owner" not in columns
        self._attributes = {field: field[len(ATTRIBUTE) :] for field in columns.by_field if field.startswith(ATTRIBUTE)}
        special = {"documents", "owner", "rankings", "k", *RESULT, *self._attributes}
        self._plain = [field for field in columns.by_field if field not in special]
        kinds: dict[str, pa.DataType] = {field: _TYPES[field] for field in self._plain}
        if "rankings" in columns:
            kinds |= {"rankings": _TYPES["rankings"], "rankers": _TYPES["rankers"]}
        if self._attributes:
            kinds["attributes"] = _TYPES["attributes"]
        if shape == RESULTS:
            kinds |= {"document": pa.string(), "owner": pa.string(), "rank": pa.int64()}
        else:
            kinds |= {"documents": _TEXTS, "owners": _TEXTS}
        self.schema = pa.schema(list(kinds.items()))

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that can be used."""
        source = {field: batch.column(column) for field, column in self._columns.by_field.items()}
        checks = self._checks
        checks.start(len(batch))
        arrays: dict[str, pa.Array] = {}
        for name in self._plain:
            arrays[name] = checks.take(name, source[name], convert(source[name], name, _TYPES[name]))
        checks.refuse(DropReason.NO_ID, arrays["impression"].is_null())
        checks.refuse(DropReason.NO_TIME, arrays["time"].is_null())
        if "rankings" in source:
            arrays |= self._rankings(checks, source["rankings"], arrays)
        if self._attributes:
            arrays["attributes"] = self._with_attributes(batch, arrays.get("attributes"))
        if self.shape == RESULTS:
            kinds = {"document": pa.string(), "rank": pa.int64(), "owner": pa.string()}
            for name, kind in kinds.items():
                if name in source:
                    arrays[name] = checks.take(name, source[name], convert(source[name], name, kind))
        elif self.shape == LIST:
            arrays |= self._lists(checks, source)
        if self._composes and not _has_items(arrays.get("owners")):
            arrays |= self._compose_again(checks, source, arrays)
        whole = [arrays.get(field.name, pa.nulls(len(batch), field.type)) for field in self.schema]
        return checks.select_usable(pa.RecordBatch.from_arrays(whole, schema=self.schema))

    def _lists(self, checks: RowChecks, source: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The shown documents and their owners, from lists of ids or of objects; by rank if the objects have one."""
        entries = checks.take("documents", source["documents"], entries_of(source["documents"], _field_of))
        if not self._composes:
            checks.refuse(DropReason.NO_VALUE.of("documents"), entries.is_null())
        flat, ranks = entries.flatten(), entries.flatten().field("rank")
        parents = pc.list_parent_indices(entries)
        if ranks.null_count < len(ranks):
            order = np.lexsort((np.asarray(pc.fill_null(ranks, 2**31)), np.asarray(parents)))
            flat = flat.take(pa.array(order))
        lists = {name: _like(entries, flat.field(field)) for name, field in (("documents", DOC), ("owners", "owner"))}
        lacking = np.asarray(parents.filter(flat.field(DOC).is_null()))
        checks.refuse(
            DropReason.WRONG_VALUE.of("documents"), pa.array(np.bincount(lacking, minlength=len(entries)) > 0)
        )
        if "owner" in source:
            owners = checks.take("owner", source["owner"], entries_of(source["owner"], _field_of))
            lists["owners"] = _like(owners, owners.flatten().field(DOC))
            sizes = map(pc.list_value_length, lists.values())
            checks.refuse(DropReason.LIST_LENGTH, pc.not_equal(*sizes))
        return lists

    def _rankings(self, checks: RowChecks, values: pa.Array, arrays: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """Rankings as lists, and the rankers that are their keys if they are objects."""
        names = arrays.get("rankers")
        if not any(kind(values.type) for kind in (schema.is_string, pa.types.is_struct, pa.types.is_map)):
            rankings = checks.take("rankings", values, convert(values, "rankings", _TYPES["rankings"]))
            return {"rankings": rankings} | ({} if names is not None else {"rankers": pa.nulls(len(values), _TEXTS)})
        make = each_json if schema.is_string(values.type) else each
        cells = checks.take("rankings", values, make(values, _split, _RANKINGS))
        keys = cells.field("rankers")
        return {"rankings": cells.field("rankings"), "rankers": keys if names is None else pc.coalesce(names, keys)}

    def _with_attributes(self, batch: pa.RecordBatch, known: pa.Array | None) -> pa.Array:
        """Attributes from columns of their own, beside those of a column of attributes."""
        cells = {
            name: convert(batch.column(self._columns.by_field[field]), name, pa.string()).values.to_pylist()
            for field, name in self._attributes.items()
        }
        rows = [dict(one or ()) for one in known.to_pylist()] if known is not None else [{} for _ in range(len(batch))]
        for name, values in cells.items():
            for row, value in zip(rows, values, strict=True):
                if value is not None:
                    row[name] = value
        return pa.array([list(row.items()) for row in rows], _TYPES["attributes"])

    def _compose_again(
        self, checks: RowChecks, source: Mapping[str, pa.Array], arrays: Mapping[str, pa.Array]
    ) -> dict[str, pa.Array]:
        """Lists that rankings and key compose again: their documents, and the owners of methods that have owners."""
        size = len(arrays["rankings"])
        ks = convert(source["k"], "k", pa.int64()).values.to_pylist() if "k" in source else [K] * size
        shown = arrays["documents"].to_pylist() if "documents" in arrays else [None] * size
        methods = arrays["method"].to_pylist() if "method" in arrays else [self._method] * size
        columns = [arrays[name].to_pylist() for name in ("rankers", "rankings", "key")]
        documents: list[Any] = [None] * size
        owners: list[Any] = [None] * size
        failed = np.zeros(size, np.bool_)
        rows = zip(*columns, shown, methods, ks, strict=True)
        for place, (rankers, rankings, key, logged, method, k) in enumerate(rows):
            documents[place] = logged
            if rankings is None or key is None:
                failed[place] = logged is None
                continue
            try:
                composed = _compose(
                    rankers or self._checks.rankers, rankings, method or self._method, k or K, key, logged
                )
            except InterleafError:
                failed[place] = True
                continue
            documents[place], owners[place] = composed
        checks.refuse(DropReason.NOT_REPRODUCED, pa.array(failed))
        return {"documents": pa.array(documents, _TEXTS), "owners": pa.array(owners, _TEXTS)}


def _compose(
    rankers: Sequence[str], rankings: Sequence[Sequence[str]], method: str, k: int, key: str, known: list[str] | None
) -> tuple[list[str], list[str | None] | None]:
    """Documents and owners of a list that is composed again; an error if other documents are known to be shown."""
    if known is not None and not resolve(method).method.has_teams:
        return known, None
    shown = interleave(
        dict(zip(rankers, rankings, strict=True)), method, k=k if known is None else max(len(known), 1), key=key
    )
    if known is not None and list(shown.documents) != known:
        raise DataError("the rankings and the key give another list")
    if shown.teams is None:
        return list(map(str, shown.documents)), None
    return list(map(str, shown.documents)), [None if team < 0 else shown.rankers[team] for team in shown.teams]


def _split(value: Any) -> dict[str, Any]:
    """Rankings from an object by ranker, or from lists."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # an Arrow map
        value = dict(value)
    try:
        split = split_rankings({"rankings": value})
    except LineError as problem:
        raise ValueError(str(problem)) from None
    texts = [[str(document) for document in ranking] for ranking in split["rankings"]]
    return {"rankers": split.get("rankers"), "rankings": texts}


def _field_of(name: str) -> str | None:
    """The field of a result that a key of an object is."""
    return _FIELDS.get(simplify(name))


def _has_items(lists: pa.Array | None) -> bool:
    """Whether some item of the lists is not null."""
    return lists is not None and lists.flatten().null_count < len(lists.flatten())


def _like(lists: pa.ListArray, values: pa.Array) -> pa.ListArray:
    """Lists of the same sizes, null where these are, with other values."""
    sizes = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    is_null = np.append(np.asarray(lists.is_null()), False)
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(sizes)), pa.int32(), mask=is_null), values)


def check_place(columns: TableColumns, problems: list[InterleafError]) -> None:
    """A problem if the events do not say what they happened to."""
    if "document" not in columns and "rank" not in columns:
        problems.append(
            DataError(
                "the events do not say on which document they happened; name it by --map events.document=COLUMN "
                f"or --map events.rank=COLUMN; not used: {', '.join(map(repr, columns.unused)) or 'no column'}"
            )
        )


class EventRows:
    """Converts record batches of the events to batches of `EVENT_SCHEMA`; rows that cannot be used are counted."""

    def __init__(self, columns: TableColumns, checks: RowChecks) -> None:
        self._columns, self._checks = columns, checks
        self._placed = self._at_0 = 0  # events without a document, and those of them at position 0

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that can be used."""
        checks, arrays = self._checks, {}
        checks.start(len(batch))
        for column in EVENT_SCHEMA:
            if column.name in self._columns:
                source = batch.column(self._columns.by_field[column.name])
                arrays[column.name] = checks.take(column.name, source, convert(source, column.name, column.type))
            else:
                arrays[column.name] = pa.nulls(len(batch), column.type)
        for name in ("impression", "time"):
            checks.refuse(DropReason.NO_EVENT_VALUE.of(name), arrays[name].is_null())
        is_placed = pc.or_(arrays["document"].is_valid(), arrays["rank"].is_valid())
        checks.refuse(DropReason.NO_EVENT_VALUE.of("document"), pc.invert(is_placed))
        arrays["kind"] = pc.fill_null(arrays["kind"], CLICK)
        rows = checks.select_usable(pa.RecordBatch.from_arrays(list(arrays.values()), schema=EVENT_SCHEMA))
        ranks = np.asarray(rows["rank"].filter(rows["document"].is_null()))
        self._placed += len(ranks)
        self._at_0 += int((ranks == 0).sum())
        return rows

    @property
    def first_rank(self) -> int:
        """The number of the top position, 0 or 1; an error if a few events only are at 0."""
        if 0 < self._at_0 < RARE * self._placed:
            raise DataError(
                f"{self._at_0:,} of {self._placed:,} events are at position 0, too few for the top of a list; give "
                "--ordinals 0 or --ordinals 1"
            )
        return 0 if self._at_0 else 1
