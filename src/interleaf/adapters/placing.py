"""The rank of every event: as we wrote it, by the object, by the internal id, by the ordinal; copies are merged."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.adapters.evidence import Evidence
from interleaf.adapters.parts import Part
from interleaf.kernels.arrays import Array
from interleaf.log.repeated_events import Merged, merge_copies

LEFT_OUT = -(2**31)  # a rank that no event has
OBJECT, RANK, INTERNAL, ORDINAL, SHOWN, NOT_SHOWN, NO_DOCUMENT, NO_ORDINAL = range(8)
REASONS = {
    INTERNAL: "event placed by internal_id",
    ORDINAL: "event placed by its ordinal",
    SHOWN: "impression event",
    NOT_SHOWN: "event on nothing shown",
    NO_DOCUMENT: "event about no document",
    NO_ORDINAL: "event whose ordinal cannot be read as a rank",
}


class Placed(NamedTuple):
    """By event: its rank, `LEFT_OUT` where it does not count; and its dwell and value, nan where they are not known."""

    rank: Array
    dwell: Array
    value: Array


def place_events(part: Part, evidence: Evidence, ordinals: int | None, usable: Array, counts: Counter[str]) -> Placed:
    """Place the events on usable lists; how each got its rank is counted."""
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
    merged = _merged(part, rank, how != RANK)
    counts["event that came again"] += int(merged.is_repeated.sum())
    return Placed(np.where(merged.is_repeated, LEFT_OUT, rank), merged.dwell, merged.value)


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


def _merged(part: Part, rank: Array, is_foreign: Array) -> Merged:
    """Merge copies of one event: those with the same id; or, where foreign events have none, of the same moment.

    Events of ours without an id may well be alike: there, each is one.
    """
    events, is_used = part.events, rank != LEFT_OUT
    has_id = np.asarray(pc.is_valid(events["event"]))
    by_id, by_moment = np.flatnonzero(is_used & has_id), np.flatnonzero(is_used & ~has_id & is_foreign)
    time, kind = np.asarray(events["time"]), _codes_by_name(events["kind"])
    merged = Merged(np.zeros(len(rank), np.bool_), *(_floats(events[name]) for name in ("dwell", "value")))
    ids = events["event"].take(pa.array(by_id)).dictionary_encode().indices
    for some, columns in (
        (by_id, (np.asarray(ids),)),
        (by_moment, (kind[by_moment], rank[by_moment], time[by_moment])),
    ):
        event = _numbered(part.query[some], *columns)
        is_copied = (np.bincount(event) > 1)[event]
        places = some[is_copied]
        copies = (column[places] for column in (time, rank, kind, merged.dwell, merged.value))
        for values, found in zip(merged, merge_copies(event[is_copied], *copies), strict=True):
            values[places] = found
    return merged


def _numbered(*columns: Array) -> Array:
    """A number for each row of columns, the same for rows that are alike."""
    order = np.lexsort(columns[::-1])
    is_new = np.zeros(len(order), np.bool_)
    for column in columns:
        is_new[1:] |= column[order][1:] != column[order][:-1]
    numbers = np.zeros(len(order), np.int64)
    numbers[order] = np.cumsum(is_new)
    return numbers


def _codes_by_name(texts: pa.Array) -> Array:
    """A number for each text, in the order of the texts."""
    encoded = texts.dictionary_encode()
    places = np.argsort(np.asarray(pc.array_sort_indices(encoded.dictionary)))
    return np.asarray(places[np.asarray(encoded.indices)])


def _floats(column: pa.Array) -> Array:
    return np.array(pc.fill_null(column, np.nan))
