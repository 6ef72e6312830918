"""The old log, read whole: for each impression the query, what was shown and clicked, and how likely the list was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf import buckets, log
from interleaf.decode import COLUMNS, Counting, Decoded, Decoding, Design
from interleaf.decode.attributes import Exclusion, excluded
from interleaf.decode.columns import codes, column, lists, numbers, texts
from interleaf.engines.work import repeats
from interleaf.errors import DataError, MethodError
from interleaf.methods.arrays import Array, Impression
from interleaf.methods.table import Chosen, resolve
from interleaf.refine.reuse.chances import log_chances
from interleaf.schema import INTERLEAVED
from interleaf.tally.seen import Seen

NO_QUERY, NO_CHANCE = "no query", "no list probability: it is not logged, and {} cannot tell it from what is"
NEVER_SHOWN = "a list that its own method would never show"
UNKNOWN = "unknown method: {}"


class Rows(NamedTuple):
    """Impressions by row: documents as hashes, and the logs of P(L) and P(L, a); 0 for a union that is not known."""

    query: Array
    documents: Array
    counts: Array
    clicks: Array
    teams: Array
    unit: Array
    union: Array
    rankers: Array
    log_chance: Array
    log_joint: Array

    def only(self, keep: Array) -> Rows:
        """The rows that a mask keeps."""
        return Rows(*(values[keep] for values in self))


@dataclass
class Old:
    """An old log: its rows, the names behind their queries, the methods that composed them, and what was dropped.

    `rankings[ranker][query]` are old rankers' own rankings, where asked for: those of the query's first impression.
    """

    rows: Rows
    queries: list[str]
    methods: Counter[str]
    dropped: Counter[str]
    rankings: dict[str, dict[str, list[str]]]


@dataclass(frozen=True)
class Wanted:
    """What to read of a log: which events count, what to leave out; and which rankers' rankings to keep."""

    counting: Counting = field(default_factory=Counting)
    experiment: str | None = None
    version: int | None = None
    exclude: Exclusion = field(default_factory=Exclusion)
    rankers: Collection[str] = ()

    def takes(self, design: Design) -> bool:
        """Whether rows of this design are wanted; lists that were not drawn say nothing of others."""
        asked = self.experiment in (None, design.experiment) and self.version in (None, design.version)
        return asked and design.arm == INTERLEAVED

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        dwell = ("events.dwell",) if self.counting.dwell is not None else ()
        attributes = ("attributes",) if self.exclude.attributes else ()
        return (*COLUMNS, "query", "documents", "rankings", "log_probability", *dwell, *attributes)


def read_old(source: Any, wanted: Wanted, progress: log.Progress | None = None) -> Old:
    """Read a log whose lists were drawn by chance."""
    reading = log.read(source, wanted.columns, progress=progress)
    seen, reader = Seen(expected=reading.rows or 0), _Reader(wanted)
    for batch in reading:
        reader.add(batch, repeats(batch, seen))
    reader.dropped += reading.dropped
    return reader.close()


class _Reader:
    """Rows as they come, batch by batch."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._numbers: dict[str, int] = {}
        self._parts: list[Rows] = []
        self._units: list[Array] = []
        self._rankings: dict[str, dict[str, list[str]]] = {name: {} for name in wanted.rankers}
        self.methods: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()

    def add(self, batch: pa.RecordBatch, repeated: Array) -> None:
        queries, names = self._queries(batch)
        documents, chances = _documents(batch), column(batch, "log_probability")
        logged = np.full(batch.num_rows, np.nan) if chances is None else numbers(chances, np.nan, pa.float64())
        decoding = Decoding(batch, self._wanted.counting, self._wanted.takes, repeated)
        self._units.append(decoding.unit)
        for rule, rows in excluded(batch, decoding.unit, self._wanted.exclude, np.zeros(0, np.uint64)).items():
            decoding.leave_out(rule, rows)
        decoding.leave_out(NO_QUERY, queries < 0)
        for decoded in decoding:
            self.dropped += decoded.dropped
            self._keep_rankings(batch, decoded, queries, names)
            try:
                chosen = resolve(decoded.design.method)
            except MethodError as problem:
                self.dropped[UNKNOWN.format(problem)] += len(decoded.rows)
                continue
            self._add(chosen, decoded, queries[decoded.rows], documents, logged[decoded.rows])
        self.dropped += decoding.dropped

    def close(self) -> Old:
        if not self._parts:
            raise DataError("the log has no interleaved impression that was asked for; give one whose lists were drawn")
        width = max(part.documents.shape[1] for part in self._parts)
        rows = Rows(*(np.concatenate(parts) for parts in zip(*(_widened(p, width) for p in self._parts), strict=True)))
        most = self._wanted.exclude.most_impressions
        if most is not None:
            units, amounts = np.unique(np.concatenate(self._units), return_counts=True)
            crawling = np.isin(rows.unit, units[amounts > most])
            self.dropped[f"excluded: units of more than {most:,} impressions"] += int(crawling.sum())
            rows = rows.only(~crawling)
        return Old(rows, list(self._numbers), self.methods, self.dropped, self._rankings)

    def _queries(self, batch: pa.RecordBatch) -> tuple[Array, list[str]]:
        """The number of each row's query in the whole log, -1 for none."""
        array = column(batch, "query")
        if array is None:
            return np.full(batch.num_rows, -1, np.int64), []
        places, names = codes(array)
        table = np.array([*(self._numbers.setdefault(name, len(self._numbers)) for name in names), -1], np.int64)
        return table[places], list(self._numbers)

    def _add(self, chosen: Chosen, decoded: Decoded, queries: Array, documents: _Documents, logged: Array) -> None:
        of_list, of_joint = _chances(chosen, decoded, logged)
        unknown, never = np.isnan(of_list), np.isneginf(of_list)
        self.dropped[NO_CHANCE.format(chosen.method.name)] += int(unknown.sum())
        self.dropped[NEVER_SHOWN] += int(never.sum())
        keep = ~(unknown | never)
        self.methods[str(chosen)] += int(keep.sum())
        rows = Rows(
            queries,
            documents.matrix(decoded.rows, decoded.impressions.ranks.shape[2]),
            decoded.counts,
            decoded.clicked,
            decoded.impressions.teams,
            decoded.unit,
            np.where(decoded.has["sizes"], decoded.impressions.union, 0),
            np.full(len(decoded.rows), len(decoded.design.rankers)),
            of_list,
            of_joint,
        )
        self._parts.append(rows.only(keep))

    def _keep_rankings(self, batch: pa.RecordBatch, decoded: Decoded, queries: Array, names: list[str]) -> None:
        """The rankings of the first impression of each query, of rankers that are wanted and there."""
        array = column(batch, "rankings") if self._rankings else None
        places = {name: place for place, name in enumerate(decoded.design.rankers) if name in self._rankings}
        if array is None or not places:
            return
        found, rows = np.unique(queries[decoded.rows], return_index=True)
        for query, row in zip(found.tolist(), decoded.rows[rows].tolist(), strict=True):
            for name, place in places.items():
                if names[query] not in self._rankings[name] and array[row].is_valid:
                    self._rankings[name][names[query]] = array[row][place].as_py()


class _Documents(NamedTuple):
    """The shown documents of a batch, as hashes."""

    offsets: Array
    hashes: Array

    def matrix(self, rows: Array, width: int) -> Array:
        """`[row, position]`, 0 below the end of a list."""
        places = self.offsets[rows][:, None] + np.arange(width)
        inside = places < self.offsets[rows + 1][:, None]
        found = np.append(self.hashes, np.uint64(0))
        return np.where(inside, found[np.minimum(places, len(self.hashes))], np.uint64(0))


def _documents(batch: pa.RecordBatch) -> _Documents:
    found = lists(batch.column("documents"))
    names = texts(found.values)
    return _Documents(found.offsets, buckets.hashes(buckets.DOCUMENT, names.offsets, names.data))


def _chances(chosen: Chosen, decoded: Decoded, logged: Array) -> tuple[Array, Array]:
    """How likely each list was: as logged, or as its method says; and with its assignment, where there is one."""
    known = decoded.has["ranks"] & decoded.has["sizes"]
    if "choices" in chosen.method.needs:
        known &= decoded.has["choices"]
    of_list, of_joint = np.full((2, len(logged)), np.nan)
    if known.any():
        some = Impression(*(values[known] for values in decoded.impressions))
        of_list[known], of_joint[known] = log_chances(chosen, some, decoded.counts[known])
    return np.where(np.isnan(logged), of_list, logged), of_joint


def _widened(rows: Rows, width: int) -> Iterator[Array]:
    for values in rows:
        missing = width - values.shape[1] if values.ndim == 2 else 0
        yield np.pad(values, ((0, 0), (0, missing))) if missing else values
