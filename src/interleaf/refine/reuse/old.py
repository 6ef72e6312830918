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
from interleaf.decode.columns import codes, column, lists, numbers, texts, there
from interleaf.engines.work import repeats
from interleaf.errors import DataError, MethodError
from interleaf.methods.arrays import Array, Impression
from interleaf.methods.table import Chosen, resolve
from interleaf.refine.reuse.borrowed import Borrowed
from interleaf.refine.reuse.chances import log_chances
from interleaf.schema import INTERLEAVED
from interleaf.tally.seen import Seen

NO_QUERY, NO_CHANCE = "no query", "no list probability: it is not logged, and {} cannot tell it from what is"
NEVER_SHOWN = "a list that its own method would never show"
NOT_RANKED = "no new rankings for its query"
NO_LOGARITHM = "a log_probability that is no logarithm of a probability"
UNKNOWN = "unknown method: {}"
ROUNDING = 1e-9  # a log_probability may be so much above 0


class Rows(NamedTuple):
    """Impressions by row: documents as hashes, and the logs of P(L) and P(L, a); 0 for a union that is not known.

    `method` is the number of the one that composed the list.
    """

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
    method: Array

    def only(self, keep: Array) -> Rows:
        """The rows that a mask keeps."""
        return Rows(*(values[keep] for values in self))


@dataclass
class Old:
    """An old log: its rows, the names behind their queries and methods, and what was dropped.

    `borrowed` are old rankers' own rankings, where asked for.
    """

    rows: Rows
    queries: list[str]
    methods: list[str]
    dropped: Counter[str]
    borrowed: Borrowed

    def composed(self, rows: Rows) -> Counter[str]:
        """How many of these rows each method composed."""
        return Counter({self.methods[number]: int((rows.method == number).sum()) for number in np.unique(rows.method)})


def nothing_left(dropped: Counter[str]) -> DataError:
    """Where nothing is left of a log: what became of it."""
    why = "; ".join(f"{reason}: {count:,}" for reason, count in dropped.most_common() if count)
    return DataError(
        f"the log has no interleaved impression that can be used{why and f' ({why})'}; give one whose lists were "
        "drawn, and that says how likely they were"
    )


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
        self._borrowed = Borrowed(wanted.rankers)
        self._methods: dict[str, int] = {}
        self.dropped: Counter[str] = Counter()

    def add(self, batch: pa.RecordBatch, repeated: Array) -> None:
        queries, names = self._queries(batch)
        documents, chances = _documents(batch), column(batch, "log_probability")
        logged = np.full(batch.num_rows, np.nan) if chances is None else _logged(chances)
        decoding = Decoding(batch, self._wanted.counting, self._wanted.takes, repeated)
        self._units.append(decoding.unit)
        for rule, rows in excluded(batch, decoding.unit, self._wanted.exclude, np.zeros(0, np.uint64)).items():
            decoding.leave_out(rule, rows)
        decoding.leave_out(NO_QUERY, queries < 0)
        for part in decoding:
            self.dropped += part.dropped
            decoded = self._borrow(batch, part, queries, names)
            try:
                chosen = resolve(decoded.design.method)
            except MethodError as problem:
                self.dropped[UNKNOWN.format(problem)] += len(decoded.rows)
                continue
            self._add(chosen, decoded, queries[decoded.rows], documents, logged[decoded.rows])
        self.dropped += decoding.dropped

    def close(self) -> Old:
        if not self._parts:
            raise nothing_left(self.dropped)
        width = max(part.documents.shape[1] for part in self._parts)
        rows = Rows(*(np.concatenate(parts) for parts in zip(*(_widened(p, width) for p in self._parts), strict=True)))
        most = self._wanted.exclude.most_impressions
        if most is not None:
            units, amounts = np.unique(np.concatenate(self._units), return_counts=True)
            crawling = np.isin(rows.unit, units[amounts > most])
            self.dropped[f"excluded: units of more than {most:,} impressions"] += int(crawling.sum())
            rows = rows.only(~crawling)
        if not len(rows.query):
            raise nothing_left(self.dropped)
        return Old(rows, list(self._numbers), list(self._methods), self.dropped, self._borrowed)

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
        wrong = np.isinf(logged) | (logged > ROUNDING)
        unknown, never = np.isnan(of_list), np.isneginf(of_list) & ~wrong
        for reason, rows in (
            (NO_LOGARITHM, wrong),
            (NO_CHANCE.format(chosen.method.name), unknown),
            (NEVER_SHOWN, never),
        ):
            self.dropped[reason] += int(rows.sum())
        method = self._methods.setdefault(str(chosen), len(self._methods))
        made = Rows(
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
            np.full(len(decoded.rows), method),
        )
        self._parts.append(made.only(~(wrong | unknown | never)))

    def _borrow(self, batch: pa.RecordBatch, decoded: Decoded, queries: Array, names: list[str]) -> Decoded:
        """Keep the rankings of rankers that are wanted; what is left are rows that have none, or whole ones."""
        asked = [names[query] for query in queries[decoded.rows]]
        keep = np.ones(len(asked), np.bool_)
        for reason, broken in self._borrowed.add(
            column(batch, "rankings"), decoded.design, decoded.rows, asked
        ).items():
            self.dropped[reason] += int((keep & broken).sum())
            keep &= ~broken
        return decoded.only(keep)


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


def _logged(chances: pa.Array) -> Array:
    """Logged probabilities, nan where there is none; what is there, but is not a number, is as wrong as infinity."""
    found = numbers(chances, np.nan, pa.float64())
    return np.where(there(chances) & np.isnan(found), np.inf, found)


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
