"""The rank of every event: as we wrote it, by the object, by the internal id, by the ordinal; and each event once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.adapters.evidence import Evidence
from interleaf.adapters.parts import Part
from interleaf.methods.arrays import Array

LEFT_OUT = -(2**15)  # a rank that no event has
OBJECT, RANK, INTERNAL, ORDINAL, SHOWN, NOT_SHOWN, NO_DOCUMENT, NO_ORDINAL = range(8)
REASONS = {
    INTERNAL: "event placed by internal_id",
    ORDINAL: "event placed by its ordinal",
    SHOWN: "impression event",
    NOT_SHOWN: "event on nothing shown",
    NO_DOCUMENT: "event about no document",
    NO_ORDINAL: "event whose ordinal cannot be read as a rank",
}


def ranks_of(part: Part, evidence: Evidence, ordinals: int | None, usable: Array, counts: Counter[str]) -> Array:
    """The rank of each event on usable lists, -32768 where it is left out; how each came by it is counted."""
    events = part.events
    size = part.sizes[part.query]
    ordinal = np.asarray(pc.fill_null(events["ordinal"], -1)) - _starts(events["application"], evidence, ordinals)
    fits = (ordinal >= 0) & (ordinal < size)
    given = np.asarray(pc.fill_null(events["rank"], LEFT_OUT))
    has_object, has_ordinal = (np.asarray(pc.is_valid(events[name])) for name in ("document", "ordinal"))
    told: list[tuple[Array, int, Any]] = [
        (given != LEFT_OUT, RANK, given),
        (part.is_shown, SHOWN, LEFT_OUT),
        (part.by_object >= 0, OBJECT, part.by_object + 1),
        (part.by_internal >= 0, INTERNAL, part.by_internal + 1),
        (has_object & (evidence.ids_join | ~has_ordinal), NOT_SHOWN, LEFT_OUT),
        (~has_ordinal, NO_DOCUMENT, LEFT_OUT),
        (fits, ORDINAL, ordinal + 1),
    ]
    conditions = [condition for condition, _, _ in told]
    how = np.select(conditions, [number for _, number, _ in told], NO_ORDINAL)
    rank: Array = np.select(conditions, [value for _, _, value in told], LEFT_OUT)
    here = usable[part.query]
    amounts = np.bincount(how[here], minlength=len(REASONS) + 2)
    counts.update({reason: int(amounts[number]) for number, reason in REASONS.items()})
    counts["event of a query that is left out"] += int((~here).sum())
    rank = np.where(here, rank, LEFT_OUT)
    again = _repeated(part, rank, how != RANK)
    counts["event that came again"] += int(again.sum())
    return np.where(again, LEFT_OUT, rank)


def _starts(applications: pa.Array, evidence: Evidence, ordinals: int | None) -> Array:
    """Where the ordinals of each event's application start; far away where that is not known, so that none fits."""
    if ordinals is not None:
        return np.full(len(applications), ordinals, np.int64)
    found = np.full(len(applications), 2**40, np.int64)
    for name in pc.unique(applications).to_pylist():
        start = evidence.start_of(name)
        if start is not None:
            there = pc.is_null(applications) if name is None else pc.fill_null(pc.equal(applications, name), False)
            found[np.asarray(there)] = start
    return found


def _repeated(part: Part, rank: Array, is_foreign: Array) -> Array:
    """Whether an event is there before: with the same id; or, where foreign events have none, at the same moment.

    Events of ours without an id may well be alike: there, each is one.
    """
    names = np.asarray(pc.is_valid(part.events["event"]))
    used = rank != LEFT_OUT
    again = np.zeros(len(rank), np.bool_)
    by_name, by_moment = np.flatnonzero(used & names), np.flatnonzero(used & ~names & is_foreign)
    again[by_name] = _seen(part.query[by_name], _codes(part, "event", by_name))
    if len(by_moment):
        time = np.asarray(part.events["time"])[by_moment]
        again[by_moment] = _seen(part.query[by_moment], _codes(part, "kind", by_moment), rank[by_moment], time)
    return again


def _seen(*columns: Array) -> Array:
    """Whether a row of columns is there before."""
    order = np.lexsort(columns[::-1])
    same = np.ones(len(order), np.bool_)
    same[:1] = False
    for column in columns:
        same[1:] &= column[order][1:] == column[order][:-1]
    found = np.zeros(len(order), np.bool_)
    found[order] = same
    return found


def _codes(part: Part, name: str, some: Array) -> Array:
    return np.asarray(part.events[name].take(pa.array(some)).dictionary_encode().indices)
