"""Lists of other systems: under which name they are imported, who was shown them, and who owns their documents."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf import schema
from interleaf.adapters.evidence import UNITS, Evidence
from interleaf.adapters.parts import Part
from interleaf.adapters.pieces import lists_of
from interleaf.errors import DataError, listed
from interleaf.methods.arrays import Array

ENGINE = "engine"  # the one ranker of a log that compares nothing
NOBODY = -1
_TYPES = {column.name: column.type for column in schema.COLUMNS}


@dataclass(frozen=True)
class Options:
    """What a caller may set: how foreign lists are named, and what cannot be told from the log."""

    experiment: str = "imported"
    method: str = field(default="team_draft")  # of lists whose hits have owners
    single: str = field(default="single")  # of lists that one ranker made
    ordinals: int | None = None
    unit: str | None = None
    only_interleaved: bool = False  # answers without owners are left out

    def __post_init__(self) -> None:
        if self.ordinals not in (None, 0, 1):
            raise DataError(f"ordinals start at {self.ordinals!r}; give 0 or 1, or nothing, to guess from the log")
        if self.unit not in (None, *UNITS):
            raise DataError(f"the unit is {self.unit!r}; give {listed(UNITS)}")


class Foreign:
    """The columns of lists of other systems, by the evidence of all parts; counts as it goes."""

    def __init__(self, evidence: Evidence, options: Options, counts: Counter[str]) -> None:
        self._options, self._counts = options, counts
        first = options.unit or evidence.unit
        self._units = sorted(UNITS, key=lambda unit: unit != first)
        self._rankers = evidence.rankers

    def columns(self, part: Part, usable: Array) -> dict[str, pa.Array]:
        """All that is known of usable lists, but what every list has: its time, query, documents and events."""
        options, size, some = self._options, int(usable.sum()), pa.array(usable)
        known = {unit: part.known(unit).filter(some) for unit in UNITS}
        same: dict[str, Any] = {"experiment": options.experiment, "version": 1}
        if self._rankers:
            same |= {"arm": schema.INTERLEAVED, "method": options.method, "rankers": self._rankers}
        else:
            same |= {"arm": ENGINE, "method": options.single, "rankers": [ENGINE]}
        columns = {name: pa.array([value], _TYPES[name]).take(_zeros(size)) for name, value in same.items()}
        if self._rankers:
            owners = self._owners(part)
            places = np.repeat(np.arange(len(usable)), part.sizes)
            lacking = np.bincount(places[owners == NOBODY], minlength=len(usable))[usable] > 0
            self._counts["list with a document of no known owner"] += int(lacking.sum())
            columns["teams"] = lists_of(part.sizes[usable], pa.array(owners[usable[places]], pa.int8()))
        return columns | {
            "impression": part.queries["query_id"].filter(some),
            "unit": self._unit(known),
            "session": known["session"],
            "attributes": _attributes(part, usable),
        }

    def _unit(self, known: dict[str, pa.Array]) -> pa.Array:
        """The chosen unit, else the next one that is known."""
        found = pc.coalesce(*(known[unit] for unit in self._units))
        self._counts["unit of another kind"] += known[self._units[0]].null_count - found.null_count
        self._counts["unit that is not known"] += found.null_count
        return found

    def _owners(self, part: Part) -> Array:
        """The number of the ranker that owns each hit: by the list, else by the first event that names one."""
        rankers = pa.array(self._rankers, pa.string())
        found = np.full(len(part.hits), NOBODY, np.int64)
        is_said = np.repeat(np.asarray(pc.is_valid(part.queries["owners"])), part.sizes)
        found[is_said] = _numbers(pc.list_flatten(part.queries["owners"]), rankers)
        some = np.flatnonzero(np.asarray(pc.is_valid(part.events["owner"])) & (part.by_object >= 0))
        places = part.starts[part.query[some]] + part.by_object[some]
        numbers = _numbers(part.events["owner"].take(pa.array(some)), rankers)
        named = np.full(len(part.hits), NOBODY, np.int64)
        named[places[::-1]] = numbers[::-1]
        self._counts["hit with two owners"] += int((named[places] != numbers).sum())
        return np.where(found == NOBODY, named, found)


def _attributes(part: Part, usable: Array) -> pa.Array:
    """The attributes of each query, its application first; those that are alike are made once."""
    applications = part.queries["application"].dictionary_encode()
    names = [*applications.dictionary.to_pylist(), None]
    application = np.asarray(pc.fill_null(applications.indices, len(names) - 1)).astype(np.int64)
    pairs, place = np.unique((application * len(part.attributes) + part.codes)[usable], return_inverse=True)
    different = []
    for pair in pairs.tolist():
        name, about = names[pair // len(part.attributes)], part.attributes[pair % len(part.attributes)]
        different.append(list((about if name is None else {"application": name} | about).items()))
    return pa.array(different, _TYPES["attributes"]).take(pa.array(place))


def _numbers(owners: pa.Array, rankers: pa.Array) -> Array:
    return np.asarray(pc.fill_null(pc.index_in(owners, rankers), NOBODY))


def _zeros(size: int) -> pa.Array:
    return pa.array(np.zeros(size, np.int64))
