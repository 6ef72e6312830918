"""Joins queries of other systems and their events to impressions, and gives each event its rank.

`LogEvidence` reads the whole log first: whether ids join, whether ordinals start at 0 or 1, what identifies a unit.
Experiment, unit, rankers and owners are read as far as the log has them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.errors import DataError
from interleaf.importers.partition import Partition, lists_of
from interleaf.importers.protocol import ENGINE, UNITS, ImportNote, ImportOptions, ImportResult
from interleaf.importers.ubi_export import attributes_in, decode_rows, shared_columns
from interleaf.interleaving.rankings import MAX_RANKERS
from interleaf.kernels.arrays import Array
from interleaf.log import schema
from interleaf.log.drop_reasons import DropReason
from interleaf.log.event_join import MergedCopies, merge_copies
from interleaf.methods.registry import show_unchanged

KNOWN = 0.95  # share of queries that must have an id to use it as the unit
JOINING = 0.05  # below this share, hits and events use different ids, and matches are accidental
UNMIXED = 7  # lists with one owner each, and none with two; in a log of mixed lists the chance is at most 1/128
NOBODY = -1
_TYPES = {column.name: column.type for column in schema.COLUMNS}
LEFT_OUT = -(2**31)  # the rank of an event that does not count
OBJECT, RANK, INTERNAL, ORDINAL, SHOWN, NOT_SHOWN, NO_DOCUMENT, NO_ORDINAL = range(8)
REASONS = {
    INTERNAL: ImportNote.PLACED_BY_INTERNAL_ID,
    ORDINAL: ImportNote.PLACED_BY_ORDINAL,
    SHOWN: ImportNote.IMPRESSION_EVENT,
    NOT_SHOWN: ImportNote.EVENT_NOT_ON_LIST,
    NO_DOCUMENT: ImportNote.EVENT_WITHOUT_DOCUMENT,
    NO_ORDINAL: ImportNote.UNREADABLE_ORDINAL,
}


@dataclass
class LogEvidence:
    """Counts over the whole log, and conclusions from them."""

    queries: int = 0
    ours: int = 0
    objects: int = 0  # events on shown lists that have an object
    joined: int = 0  # those of them whose object is in the list
    internal: int = 0  # those of the others whose internal id is in the list
    mixed: int = 0  # lists of several owners
    unmixed: int = 0  # lists of several documents, all of one owner
    owners: set[str] = field(default_factory=set)
    units: Counter[str] = field(default_factory=Counter)
    bases: defaultdict[str | None, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, part: Partition) -> None:
        """Count a partition."""
        self.queries += len(part.queries)
        self.ours += int(part.is_ours.sum())
        for owners in (pc.list_flatten(part.queries["owners"]), part.events["owner"]):
            self.owners.update(pc.unique(owners).drop_null().to_pylist())
        for unit in UNITS:
            ids = part.identity(unit)
            self.units[unit] += len(ids) - ids.null_count
        self._look(part)
        if self.owners:
            self._look_for_mixed(part)

    def _look_for_mixed(self, part: Partition) -> None:
        is_first = pc.equal(part.owners, part.configurations.take(pa.array(part.lists)))
        self.mixed += len(np.unique(part.lists[np.asarray(pc.fill_null(pc.invert(is_first), False))]))
        alike = np.bincount(part.lists[np.asarray(pc.fill_null(is_first, False))], minlength=len(part.sizes))
        self.unmixed += int(((alike == part.sizes) & (part.sizes > 1)).sum())

    def _look(self, part: Partition) -> None:
        """Count events on shown lists, except those whose rank our export wrote."""
        events = part.events
        some = ~part.is_shown & np.asarray(pc.is_null(events["rank"]))
        some &= part.sizes[part.query] > 0
        if not some.any():
            return
        has_object = some & np.asarray(pc.is_valid(events["document"]))
        self.objects += int(has_object.sum())
        self.joined += int((has_object & (part.by_object >= 0)).sum())
        self.internal += int((has_object & (part.by_internal >= 0)).sum())
        place = np.maximum(part.by_object, part.by_internal)
        ordinal = np.asarray(pc.fill_null(events["ordinal"], -1))
        some &= ordinal >= 0
        masks = {
            "start 0": (place == ordinal) & (place >= 0),
            "start 1": (place + 1 == ordinal) & (place >= 0),
            "zero": ordinal == 0,
            "last": ordinal == part.sizes[part.query],
        }
        encoded = events["application"].dictionary_encode(null_encoding="encode")
        codes, names = np.asarray(encoded.indices), encoded.dictionary.to_pylist()
        for code in np.unique(codes[some]).tolist():
            these = some & (codes == code)
            self.bases[names[code]].update({what: int((these & mask).sum()) for what, mask in masks.items()})

    @property
    def join_rate(self) -> float | None:
        """The share of events with an object whose object id is among the hits; None without such events."""
        return self.joined / self.objects if self.objects else None

    @property
    def ids_join(self) -> bool:
        """Whether object ids can be used to find ranks; otherwise only ordinals can."""
        return not self.objects or self.joined + self.internal >= JOINING * self.objects

    def start_of(self, application: str | None) -> int | None:
        """Where the ordinals of an application start: by most joined events, else by ordinals that exclude 0 or 1."""
        counts = self.bases.get(application, Counter())
        if counts["start 0"] != counts["start 1"] and self.ids_join:
            return int(counts["start 1"] > counts["start 0"])
        if bool(counts["zero"]) == bool(counts["last"]):
            return None
        return 0 if counts["zero"] else 1

    @property
    def unit(self) -> str | None:
        """The first of user, client and session that nearly all queries have, else the most frequent one."""
        if not self.units.total():
            return None
        enough = [unit for unit in UNITS if self.units[unit] >= KNOWN * self.queries]
        return enough[0] if enough else max(UNITS, key=lambda unit: self.units[unit])

    @property
    def may_be_unmixed(self) -> bool:
        """Whether documents have owners, but no list is known to have two."""
        return bool(self.owners) and not self.mixed

    @property
    def is_one_by_one(self) -> bool:
        """Whether each list has one owner: an A/B test, or a log of one configuration."""
        return len(self.owners) == 1 or (self.may_be_unmixed and self.unmixed >= UNMIXED)

    @property
    def rankers(self) -> list[str]:
        """The sorted names of rankers that own documents."""
        if len(self.owners) > MAX_RANKERS:
            raise DataError(
                f"{len(self.owners)} different rankers own hits, such as {sorted(self.owners)[:3]}; the log of one "
                f"experiment has at most {MAX_RANKERS}: import the experiments one by one"
            )
        return sorted(self.owners)


class Foreign:
    """Computes the columns of lists of other systems from the evidence of the whole log, and counts problems."""

    def __init__(self, evidence: LogEvidence, options: ImportOptions, counts: Counter[str]) -> None:
        self._options, self._counts = options, counts
        self._units = sorted(UNITS, key=lambda unit: unit != (options.unit or evidence.unit))
        self._rankers, self._is_one_by_one = evidence.rankers, evidence.is_one_by_one

    def columns(self, part: Partition, usable: Array) -> dict[str, pa.Array]:
        """The columns of usable lists, except time, query, documents and events, which every list has."""
        options, size, some = self._options, int(usable.sum()), pa.array(usable)
        ids = {unit: part.identity(unit).filter(some) for unit in UNITS}
        zeros = pa.array(np.zeros(size, np.int64))
        same: dict[str, Any] = {"experiment": options.experiment, "version": 1}
        if self._rankers:
            same |= {"arm": schema.INTERLEAVED, "method": options.method, "rankers": self._rankers}
        else:
            same |= {"arm": ENGINE, "method": options.single, "rankers": [ENGINE]}
        columns = {name: pa.array([value], _TYPES[name]).take(zeros) for name, value in same.items()}
        if self._is_one_by_one:
            columns |= self._arm_columns(part, usable)
        elif self._rankers:
            columns["teams"] = self._teams(part, usable)
        return columns | {
            "impression": part.queries["query_id"].filter(some),
            "unit": self._unit(ids),
            "session": ids["session"],
            "attributes": _attributes(part, usable),
        }

    def _unit(self, ids: dict[str, pa.Array]) -> pa.Array:
        """The chosen kind of unit, else the next kind that is known."""
        units = pc.coalesce(*(ids[unit] for unit in self._units))
        self._counts[ImportNote.OTHER_UNIT] += ids[self._units[0]].null_count - units.null_count
        self._counts[ImportNote.UNKNOWN_UNIT] += units.null_count
        return units

    def _arm_columns(self, part: Partition, usable: Array) -> dict[str, pa.Array]:
        """The columns of lists with one configuration each, as in an A/B test."""
        self._counts[ImportNote.ONE_CONFIGURATION] += int(usable.sum())
        place = pa.array(_numbers(self.configurations(part), self._rankers)[usable])
        methods = [str(show_unchanged(ranker)) for ranker in self._rankers]
        return {"arm": pa.array(self._rankers).take(place), "method": pa.array(methods).take(place)}

    def configurations(self, part: Partition) -> pa.Array:
        """The configuration of each list, if none is mixed; if there is only one, all lists have it."""
        return part.configurations.fill_null(self._rankers[0]) if len(self._rankers) == 1 else part.configurations

    def _teams(self, part: Partition, usable: Array) -> pa.ListArray:
        """The number of the ranker that owns each hit."""
        owners = _numbers(part.owners, self._rankers)
        lacking = np.bincount(part.lists[owners == NOBODY], minlength=len(usable))[usable] > 0
        self._counts[ImportNote.OWNER_MISSING] += int(lacking.sum())
        some, places = part.naming
        named = _numbers(part.events["owner"].take(pa.array(some)), self._rankers)
        self._counts[ImportNote.TWO_OWNERS] += int((owners[places] != named).sum())
        return lists_of(part.sizes[usable], pa.array(owners[usable[part.lists]], pa.int8()))


def _attributes(part: Partition, usable: Array) -> pa.Array:
    """The attributes of each query, its application first; equal attributes are decoded once."""
    applications = part.queries["application"].dictionary_encode(null_encoding="encode")
    names = applications.dictionary.to_pylist()
    application = np.asarray(applications.indices).astype(np.int64)
    pairs, place = np.unique((application * len(part.attributes) + part.codes)[usable], return_inverse=True)
    different = []
    for pair in pairs.tolist():
        code, about = divmod(pair, len(part.attributes))
        application_name = {} if names[code] is None else {"application": names[code]}
        different.append(application_name | part.attributes[about])
    return attribute_maps(different, place)


def attribute_maps(different: list[dict[str, str]], places: Array) -> pa.Array:
    """The column of attributes, from the distinct values and the index of each row's value."""
    return pa.array([list(one.items()) for one in different], _TYPES["attributes"]).take(pa.array(places))


def _numbers(owners: pa.Array, rankers: list[str]) -> Array:
    return np.asarray(pc.fill_null(pc.index_in(owners, pa.array(rankers, pa.string())), NOBODY))


def place_events(
    part: Partition, evidence: LogEvidence, ordinals: int | None, usable: Array, counts: Counter[str]
) -> dict[str, Array]:
    """The rank of each event on usable lists (`LEFT_OUT` if it does not count), its dwell and value (nan if unknown).

    Counts how each got its rank.
    """
    events = part.events
    size = part.sizes[part.query]
    ordinal = np.asarray(pc.fill_null(events["ordinal"], -1)) - _starts(events["application"], evidence, ordinals)
    fits = (ordinal >= 0) & (ordinal < size)
    own_rank = np.asarray(pc.fill_null(events["rank"], LEFT_OUT))
    has_object, has_ordinal = (np.asarray(pc.is_valid(events[name])) for name in ("document", "ordinal"))
    rules: list[tuple[Array, int, Any]] = [
        (own_rank != LEFT_OUT, RANK, own_rank),
        (part.is_shown, SHOWN, LEFT_OUT),
        (part.by_object >= 0, OBJECT, part.by_object + 1),
        (part.by_internal >= 0, INTERNAL, part.by_internal + 1),
        (has_object & (evidence.ids_join | ~has_ordinal), NOT_SHOWN, LEFT_OUT),
        (~has_ordinal, NO_DOCUMENT, LEFT_OUT),
        (fits, ORDINAL, ordinal + 1),
    ]
    conditions, numbers, ranks = map(list, zip(*rules, strict=True))
    how = np.select(conditions, numbers, NO_ORDINAL)
    here = usable[part.query]
    amounts = np.bincount(how[here], minlength=len(REASONS) + 2)
    counts.update({reason: int(amounts[number]) for number, reason in REASONS.items()})
    counts[ImportNote.QUERY_LEFT_OUT] += int((~here).sum())
    rank = np.where(here, np.select(conditions, ranks, LEFT_OUT), LEFT_OUT)
    merged = _merge_event_copies(part, rank, how != RANK)
    counts[ImportNote.EVENT_REPEATED] += int(merged.is_repeated.sum())
    return {"rank": np.where(merged.is_repeated, LEFT_OUT, rank), "dwell": merged.dwell, "value": merged.value}


def _starts(applications: pa.Array, evidence: LogEvidence, ordinals: int | None) -> Array:
    """Where the ordinals of each event's application start; if unknown, a number so large that no ordinal fits."""
    if ordinals is not None:
        return np.full(len(applications), ordinals, np.int64)
    encoded = applications.dictionary_encode(null_encoding="encode")
    starts = [evidence.start_of(name) for name in encoded.dictionary.to_pylist()]
    by_code = np.array([2**40 if start is None else start for start in starts], np.int64)
    return np.asarray(by_code[np.asarray(encoded.indices)])


def _merge_event_copies(part: Partition, rank: Array, is_foreign: Array) -> MergedCopies:
    """Merge copies of one event: those with the same id; or, for foreign events without ids, with the same time.

    Events of our export without an id are never merged.
    """
    events, is_used = part.events, rank != LEFT_OUT
    has_id = np.asarray(pc.is_valid(events["event"]))
    by_id, by_moment = np.flatnonzero(is_used & has_id), np.flatnonzero(is_used & ~has_id & is_foreign)
    kinds = events["kind"].dictionary_encode()  # as numbers, in the sort order of the texts
    time, kind = np.asarray(events["time"]), np.asarray(pc.rank(kinds.dictionary).take(kinds.indices))
    dwell, value = (np.array(pc.fill_null(events[name], np.nan)) for name in ("dwell", "value"))
    merged = MergedCopies(np.zeros(len(rank), np.bool_), dwell, value)
    ids = events["event"].take(pa.array(by_id)).dictionary_encode()
    groups: list[tuple[Array, tuple[Array, ...]]] = [(by_moment, (kind[by_moment], rank[by_moment], time[by_moment]))]
    if len(ids.dictionary) < len(by_id):
        groups.append((by_id, (np.asarray(ids.indices),)))
    for some, columns in groups:
        event = _number_rows(part.query[some], *columns)
        is_copied = (np.bincount(event) > 1)[event]
        places = some[is_copied]
        copies = (column[places] for column in (time, rank, kind, merged.dwell, merged.value))
        for values, new_values in zip(merged, merge_copies(event[is_copied], *copies), strict=True):
            values[places] = new_values
    return merged


def _number_rows(*columns: Array) -> Array:
    """A number for each row, the same for equal rows."""
    order = np.lexsort(columns[::-1])
    is_new = np.zeros(len(order), np.bool_)
    for column in columns:
        is_new[1:] |= column[order][1:] != column[order][:-1]
    numbers = np.zeros(len(order), np.int64)
    numbers[order] = np.cumsum(is_new)
    return numbers


class Joiner:
    """Turns partitions of a log into record batches, with the evidence of the whole log; counts problems."""

    def __init__(self, evidence: LogEvidence, options: ImportOptions, imported: ImportResult) -> None:
        self._evidence, self._options, self._imported = evidence, options, imported
        self._foreign = Foreign(evidence, options, imported.counts)

    def batch(self, part: Partition) -> pa.RecordBatch:
        """The impressions of a partition. If a log has lists of interleaf, only these are imported."""
        counts = self._imported.counts
        counts.update(part.counts)
        usable = self._usable(part)
        columns = self._own(part, usable) if self._evidence.ours else self._foreign.columns(part, usable)
        counts[ImportNote.DOCUMENT_TWICE] += int((part.shows_twice & usable).sum())
        places = place_events(part, self._evidence, self._options.ordinals, usable, counts)
        size, text = int(usable.sum()), part.queries["text"]
        columns |= {
            "time": _select(part.queries["time"], usable).cast(schema.TIME),
            "query": _select(pc.if_else(pc.equal(text, ""), None, text), usable),
            "documents": lists_of(part.sizes[usable], _select(part.hits, np.repeat(usable, part.sizes))),
            "events": _events(part, places, usable),
        }
        self._imported.impressions += size
        self._imported.events += int((places["rank"] != LEFT_OUT).sum())
        arrays = [columns.get(column.name, pa.nulls(size, column.type)) for column in schema.COLUMNS]
        return pa.RecordBatch.from_arrays(arrays, schema=schema.SCHEMA)

    def _usable(self, part: Partition) -> Array:
        """Which queries become impressions; for the others, the first reason is counted."""
        left = np.ones(len(part.is_ours), np.bool_)
        for reason, holds in self._reasons(part):
            out = np.flatnonzero(left & holds)
            if len(out):
                name = part.queries["query_id"][int(out[0])].as_py()
                self._imported.drop(reason, f"query_id {name!r}", len(out))
            left[out] = False
        return left

    def _reasons(self, part: Partition) -> Iterator[tuple[str, Array]]:
        is_foreign = ~part.is_ours
        yield DropReason.GAPS_IN_LIST, part.has_gaps
        yield ImportNote.NOTHING_SHOWN, ~part.has_list & is_foreign
        yield ImportNote.QUERY_WITHOUT_TIME, np.asarray(pc.is_null(part.queries["time"]))
        if self._evidence.ours:
            yield ImportNote.OTHER_SYSTEM, is_foreign
            return
        if self._options.only_interleaved:
            yield ImportNote.NO_OWNERS, np.asarray(pc.is_null(part.queries["owners"]))
        if self._evidence.is_one_by_one:
            yield ImportNote.UNKNOWN_CONFIGURATION, np.asarray(pc.is_null(self._foreign.configurations(part)))

    def _own(self, part: Partition, usable: Array) -> dict[str, pa.Array]:
        """The columns of lists that our export wrote; lists that cannot be decoded are marked as not usable."""
        places, own = np.flatnonzero(usable), _select(part.queries, usable)
        codes, code = np.unique(part.codes[places], return_inverse=True)
        attributes = [part.attributes[number] for number in codes.tolist()]
        shared, wrong = shared_columns(attributes)
        columns, problems = decode_rows(own["own"])
        problems = {place: wrong[number] for place, number in enumerate(code.tolist()) if number in wrong} | problems
        for place, problem in sorted(problems.items()):
            self._imported.drop(
                ImportNote.UNREADABLE_COLUMNS, f"query_id {own['query_id'][place].as_py()!r}: {problem}"
            )
        columns |= {name: column.take(pa.array(code)) for name, column in shared.items()} | {
            "impression": own["query_id"],
            "attributes": attribute_maps(list(map(attributes_in, attributes)), code),
        }
        usable[places[list(problems)]] = False
        return {name: _select(column, usable[places]) for name, column in columns.items()}


def _select(values: pa.Array, mask: Array) -> pa.Array:
    """The values, or the rows of a batch, where the mask is true."""
    return values if mask.all() else values.filter(pa.array(mask))


def _events(part: Partition, places: dict[str, Array], usable: Array) -> pa.ListArray:
    """The events of usable lists in the log's schema; they are sorted by query and time already."""
    some = places["rank"] != LEFT_OUT
    events = _select(part.events, some)
    new_columns = {name: pa.array(column[some], from_pandas=True) for name, column in places.items()}
    columns = dict(zip(events.schema.names, events.columns, strict=True)) | new_columns
    arrays = [columns[column.name].cast(column.type) for column in schema.EVENT]
    inner = pa.StructArray.from_arrays(arrays, fields=[column.field for column in schema.EVENT])
    return lists_of(np.bincount(part.query[some], minlength=len(usable))[usable], inner)
