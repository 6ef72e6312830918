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
from interleaf.adapters.parts import Part, lists_of
from interleaf.errors import DataError, listed
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import unchanged

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
        self._rankers, self._is_one_by_one = evidence.rankers, evidence.is_one_by_one

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
        if self._is_one_by_one:
            columns |= self._unmixed(part, usable)
        elif self._rankers:
            columns["teams"] = self._teams(part, usable)
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

    def _unmixed(self, part: Part, usable: Array) -> dict[str, pa.Array]:
        """Lists of one configuration each, as an A/B bucket has them."""
        self._counts["list of one configuration"] += int(usable.sum())
        place = pa.array(_numbers(self.configurations(part), self._rankers)[usable])
        methods = [str(unchanged(ranker)) for ranker in self._rankers]
        return {name: pa.array(found).take(place) for name, found in (("arm", self._rankers), ("method", methods))}

    def configurations(self, part: Part) -> pa.Array:
        """Whose each list is, where none is mixed; if there is only one, it is of all lists."""
        return part.configurations.fill_null(self._rankers[0]) if len(self._rankers) == 1 else part.configurations

    def _teams(self, part: Part, usable: Array) -> pa.ListArray:
        """The number of the ranker that owns each hit."""
        owners = _numbers(part.owners, self._rankers)
        lacking = np.bincount(part.lists[owners == NOBODY], minlength=len(usable))[usable] > 0
        self._counts["list with a document of no known owner"] += int(lacking.sum())
        some, places = part.naming
        named = _numbers(part.events["owner"].take(pa.array(some)), self._rankers)
        self._counts["hit with two owners"] += int((owners[places] != named).sum())
        return lists_of(part.sizes[usable], pa.array(owners[usable[part.lists]], pa.int8()))


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


def _numbers(owners: pa.Array, rankers: list[str]) -> Array:
    return np.asarray(pc.fill_null(pc.index_in(owners, pa.array(rankers, pa.string())), NOBODY))


def _zeros(size: int) -> pa.Array:
    return pa.array(np.zeros(size, np.int64))
