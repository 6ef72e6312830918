"""What a foreign log must be seen whole for: do its ids join, do ordinals start at 0 or 1, who is a unit, who ranks."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.adapters.parts import Part
from interleaf.errors import DataError
from interleaf.interleaving.rankings import MOST_RANKERS

UNITS = ("user", "client", "session")
KNOWN = 0.95  # the share of queries of which a unit must be known, to be the unit of all
JOINING = 0.05  # below this share, ids of hits and of events are of two worlds, and joins are accidents
UNMIXED = 7  # so many lists of one owner each, and none of two: by chance, that is 1 of 128 logs of mixed lists at most
LOW = 0.5  # below this share, a person should look


@dataclass
class Evidence:
    """Counts over the whole log, and what follows from them."""

    queries: int = 0
    ours: int = 0
    objects: int = 0  # events with an object, on shown lists
    joined: int = 0  # of them, those whose object is in the list
    internal: int = 0  # of the others, those whose internal id is
    mixed: int = 0  # lists of several owners
    unmixed: int = 0  # lists of several documents, all of one owner
    owners: set[str] = field(default_factory=set)
    units: Counter[str] = field(default_factory=Counter)
    bases: defaultdict[str | None, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, part: Part) -> None:
        """Look at a part."""
        self.queries += len(part.queries)
        self.ours += int(part.is_ours.sum())
        for owners in (pc.list_flatten(part.queries["owners"]), part.events["owner"]):
            self.owners.update(pc.unique(owners).drop_null().to_pylist())
        for unit in UNITS:
            known = part.known(unit)
            self.units[unit] += len(known) - known.null_count
        self._look(part)
        if self.owners:
            self._look_for_mixed(part)

    def _look_for_mixed(self, part: Part) -> None:
        is_first = pc.equal(part.owners, part.configurations.take(pa.array(part.lists)))
        self.mixed += len(np.unique(part.lists[np.asarray(pc.fill_null(pc.invert(is_first), False))]))
        alike = np.bincount(part.lists[np.asarray(pc.fill_null(is_first, False))], minlength=len(part.sizes))
        self.unmixed += int(((alike == part.sizes) & (part.sizes > 1)).sum())

    def _look(self, part: Part) -> None:
        """Reactions to shown lists, but those whose rank we wrote ourselves."""
        events = part.events
        some = ~part.is_shown & np.asarray(pc.is_null(events["rank"]))
        some &= part.sizes[part.query] > 0
        has_object = some & np.asarray(pc.is_valid(events["document"]))
        self.objects += int(has_object.sum())
        self.joined += int((has_object & (part.by_object >= 0)).sum())
        self.internal += int((has_object & (part.by_internal >= 0)).sum())
        place = np.maximum(part.by_object, part.by_internal)
        ordinal = np.asarray(pc.fill_null(events["ordinal"], -1))
        some &= ordinal >= 0
        applications = events["application"]
        for name in pc.unique(applications.filter(pc.greater_equal(events["ordinal"], 0))).to_pylist():
            there = pc.is_null(applications) if name is None else pc.fill_null(pc.equal(applications, name), False)
            these = some & np.asarray(there)
            found = {
                "start 0": (place == ordinal) & (place >= 0),
                "start 1": (place + 1 == ordinal) & (place >= 0),
                "zero": ordinal == 0,
                "last": ordinal == part.sizes[part.query],
            }
            if these.any():
                self.bases[name].update({what: int((these & mask).sum()) for what, mask in found.items()})

    @property
    def join_rate(self) -> float | None:
        """Of the events with an object, the share whose object id is among the hits; None if there are none."""
        return self.joined / self.objects if self.objects else None

    @property
    def ids_join(self) -> bool:
        """Whether objects tell ranks; else, only ordinals do."""
        return not self.objects or self.joined + self.internal >= JOINING * self.objects

    def start_of(self, application: str | None) -> int | None:
        """Where the ordinals of an application start: as most joined events say, else by what 0 or 1 would rule out."""
        found = self.bases.get(application, Counter())
        if found["start 0"] != found["start 1"] and self.ids_join:
            return int(found["start 1"] > found["start 0"])
        if bool(found["zero"]) == bool(found["last"]):
            return None
        return 0 if found["zero"] else 1

    @property
    def unit(self) -> str | None:
        """The first of user, client and session that is known of nearly all queries, else the one known of most."""
        if not self.units.total():
            return None
        enough = [unit for unit in UNITS if self.units[unit] >= KNOWN * self.queries]
        return enough[0] if enough else max(UNITS, key=lambda unit: self.units[unit])

    @property
    def may_be_unmixed(self) -> bool:
        """Whether rankers own documents, but no list is known to have two owners."""
        return bool(self.owners) and not self.mixed

    @property
    def is_one_by_one(self) -> bool:
        """Whether rankers own lists, and none was mixed: an A/B test, or a log of one configuration."""
        return len(self.owners) == 1 or (self.may_be_unmixed and self.unmixed >= UNMIXED)

    @property
    def rankers(self) -> list[str]:
        """The names of rankers that own something, sorted."""
        if len(self.owners) > MOST_RANKERS:
            raise DataError(
                f"{len(self.owners)} different rankers own hits, such as {sorted(self.owners)[:3]}; the log of one "
                f"experiment has at most {MOST_RANKERS}: import the experiments one by one"
            )
        return sorted(self.owners)
