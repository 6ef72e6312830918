"""Columns of lists that other systems made: experiment, unit, rankers and owners, as far as the log shows them.

`LogEvidence` reads the whole log first: whether ids join, whether ordinals start at 0 or 1, what identifies a unit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.errors import DataError
from interleaf.importers.partition import Partition, lists_of
from interleaf.importers.protocol import ENGINE, UNITS, ImportNote, ImportOptions
from interleaf.interleaving.rankings import MAX_RANKERS
from interleaf.kernels.arrays import Array
from interleaf.log import schema
from interleaf.methods.registry import show_unchanged

KNOWN = 0.95  # share of queries that must have an id to use it as the unit
JOINING = 0.05  # below this share, hits and events use different ids, and matches are accidental
UNMIXED = 7  # lists with one owner each, and none with two; in a log of mixed lists the chance is at most 1/128


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


NOBODY = -1
_TYPES = {column.name: column.type for column in schema.COLUMNS}


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
