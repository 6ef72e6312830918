"""Writes impressions and events, and exports the rows of a version."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from interleaf.errors import DataError
from interleaf.experiment import Experiment
from interleaf.store.attribution import Found, Match, Matching
from interleaf.store.codec import COLUMNS, EVENT_COLUMNS, EncodedRow, decode_row, encode_row
from interleaf.store.database import MAX_BYTES, Database, Row, Transaction, is_kept
from interleaf.store.event_fates import MAX_EARLY, EventFate
from interleaf.store.fold import PAGE, batch_with_events
from interleaf.store.records import Event, Impression
from interleaf.store.sql_tables import APART, EVENTS, IMPRESSIONS

FIRST, LAST = -62_135_596_800_000_000, 253_402_300_800_000_000  # the years 1 to 9999
ROW = "id, experiment, version, unit, time, design, numbers, body"  # the columns that `row_of` takes
REMATCHED = 600 * 1_000_000  # microseconds; younger events are matched again with the impressions that they name
REMATCHED_OF_UNIT = 60 * 1_000_000  # the same for impressions of their units; most of these never match
WAITS = "SELECT 1 FROM apart LIMIT 1"  # whether there are unmatched events
UNKNOWN = EventFate.UNKNOWN_IMPRESSION
MAX_WAITING = 500  # events that are matched again at a time, the latest first
_COMPLETED = (
    "SET dwell = CASE WHEN dwell >= ? THEN dwell ELSE coalesce(?, dwell) END, value = coalesce(value, ?) "
    "WHERE id = ? AND target = ?"
)
_WAITING = "number, reason, id, kind, received, time, impression, unit, rank, document, dwell, value, scope"
Key = tuple[str, str]  # `Event.key`


def rows_of(impressions: Iterable[Impression], sought: Mapping[tuple[str, int], int]) -> list[Row]:
    """Impressions as rows of their table; those with encoded parts were checked before."""
    return [
        (one.id, one.experiment, one.version, one.unit, one.time, one.closes if one.until is None else one.until,
         one.closes, sought[one.experiment, one.version], *(one.parts or _check_and_encode(one)))
        for one in impressions
    ]  # fmt: skip


def _check_and_encode(one: Impression) -> EncodedRow:
    """Check and encode the row of an impression."""
    for name in ("id", "unit"):
        _text(name, getattr(one, name))
    for name in ("time", "until", "closes"):
        if getattr(one, name) is not None:
            _time(name, getattr(one, name))
    return encode_row(one.row)


def check_event(event: Event) -> None:
    """Raise DataError if an event cannot be stored."""
    for name in ("id", "impression", "unit"):
        _text(name, getattr(event, name))
    for name in ("kind", "document"):
        _text(name, getattr(event, name), None)
    _time("time", event.time)
    _time("received", event.received)
    if event.rank is not None and not -(2**63) <= event.rank < 2**63:
        raise DataError(f"rank is {event.rank}; give the place in the shown list")
    for name, most in (("dwell", 3e38), ("value", math.inf)):
        number = getattr(event, name)
        if number is not None and not -most < number < most:
            raise DataError(f"{name} is {number}; give a finite number")


def _text(name: str, text: str | None, most: int | None = MAX_BYTES) -> str | None:
    if text is not None and not is_kept(text, most):
        limit = f", and at most {most:,} bytes" if most else ""
        raise DataError(f"{name} is {text[:200]!r}; give Unicode text without null characters{limit}")
    return text


def _time(name: str, time: int) -> int:
    if not FIRST <= time < LAST:
        raise DataError(f"{name} is {time}; give microseconds since 1970, in the years 1 to 9999")
    return time


class Writing:
    """Writes impressions and events within a transaction."""

    def __init__(self, database: Database, transaction: Transaction) -> None:
        self._database, self._transaction = database, transaction
        self._matching = Matching(database, transaction)
        self._among, self._hold, self._take = (database.words[word] for word in ("among", "hold", "take"))

    def impressions(self, rows: Sequence[Row]) -> list[Mapping[str, Any] | None]:
        """Write impressions, and match events that waited for them; returns the existing row of each, or None."""
        went_in = self._transaction.insert(IMPRESSIONS, rows) if rows else []
        there = [row[0] for row, new in zip(rows, went_in, strict=True) if not new]
        kept = self.read_rows(there)
        new = [row for row, new in zip(rows, went_in, strict=True) if new]
        if waiting := self._awaiting(new):
            self.match(waiting)
        return [None if new else kept.get(row[0]) for row, new in zip(rows, went_in, strict=True)]

    def read_rows(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The rows of impressions, by id."""
        if not ids:
            return {}
        found = self._transaction.rows(
            f"SELECT {ROW} FROM impressions WHERE id {self._among}", self._database.among(ids)
        )
        return {row[0]: row_of(row) for row in found}

    def events(self, events: Sequence[Event]) -> list[str]:
        """Write events; returns the code of the `EventFate` of each."""
        if not events:
            return []
        known = self._read_stored_keys([event.id for event in events])
        fresh: dict[Key, Event] = {}
        again: list[Event] = []
        for event in events:
            if event.key in known or event.key in fresh:
                again.append(event)
            else:
                fresh[event.key] = event
        fates = self._put(self._matching.match_events(list(fresh.values())))
        repeated = [*again, *(event for event in fresh.values() if fates[event.key] == EventFate.REPEATED)]
        for scope in {event.scope for event in repeated}:
            self._complete([event for event in repeated if event.scope == scope], scope)
        return [fates.pop(event.key, EventFate.REPEATED) for event in events]

    def extend(self, impression: str, row: Mapping[str, Any]) -> bool:
        """Replace a row by the one with a further page; False if there is none, or if it is folded."""
        parts = encode_row(row)
        kept = self._transaction.rows(
            f"SELECT {ROW} FROM impressions WHERE id = ? AND folded = 0 {self._take}", impression
        )
        if not kept or (row_of(kept[0])["page"] or 1) >= (row.get("page") or 1):
            return False
        self._transaction.change(
            "UPDATE impressions SET design = ?, numbers = ?, body = ? WHERE id = ?", *parts, impression
        )
        return True

    def _complete(self, events: Sequence[Event], scope: str | None) -> None:
        """Merge repeated events into the stored ones: the largest dwell, and a value if there was none.

        The dwell is known when the user comes back: the click is sent again with its dwell. With a scope, only events
        of that experiment are changed.
        """
        more = [event for event in events if event.dwell is not None or event.value is not None]
        if not more:
            return
        still_open = self._transaction.rows(
            f"SELECT id FROM impressions WHERE id IN (SELECT impression FROM events WHERE id {self._among}) "
            f"AND folded = 0 AND experiment = COALESCE(?, experiment) ORDER BY number {self._hold}",
            *(self._database.among(list({event.id for event in more})), scope),
        )
        ids = self._database.among([name for (name,) in still_open])
        for event in sorted(more, key=lambda event: event.key):  # sorted, to avoid deadlocks
            new = event.dwell, event.dwell, event.value, *event.key
            self._transaction.change(f"UPDATE events {_COMPLETED} AND impression {self._among}", *new, ids)
            self._transaction.change(
                f"UPDATE apart {_COMPLETED} AND (experiment IS NULL OR experiment = COALESCE(?, experiment))",
                *new,
                scope,
            )

    def waiting(self, now: int) -> list[int]:
        """Numbers of unmatched events whose impressions may have been written by a concurrent transaction."""
        rows = self._transaction.rows(
            "SELECT number FROM (SELECT a.number FROM apart a JOIN impressions i ON i.id = a.impression "
            f"WHERE a.reason = '{UNKNOWN}' AND a.received >= ? ORDER BY a.received DESC LIMIT ?) AS named "
            "UNION ALL SELECT number FROM (SELECT number, unit, time FROM apart WHERE impression IS NULL "
            "AND received >= ? ORDER BY received DESC LIMIT ?) AS young WHERE EXISTS (SELECT 1 FROM impressions i "
            "WHERE i.unit = young.unit AND i.folded = 0 AND i.sought = 1 "
            "AND i.time <= young.time + ? AND i.until >= young.time)",
            *(now - REMATCHED, MAX_WAITING, now - REMATCHED_OF_UNIT, MAX_WAITING, MAX_EARLY),
        )
        return [number for (number,) in rows]

    def waiting_for_closed(self, experiment: str, version: int, now: int, most: int) -> list[int]:
        """Numbers of unmatched events, of any age, that name impressions which are about to be folded."""
        rows = self._transaction.rows(
            "SELECT a.number FROM (SELECT id FROM impressions WHERE experiment = ? AND version = ? AND folded = 0 "
            "AND closes <= ? ORDER BY closes LIMIT ?) AS closed CROSS JOIN apart a "  # SQLite keeps this order
            f"WHERE a.impression = closed.id AND a.reason = '{UNKNOWN}' LIMIT ?",
            *(experiment, version, now, most, MAX_WAITING),
        )
        return [number for (number,) in rows] + self._matching.find_crossed(experiment, version, now, most, MAX_WAITING)

    def match(self, numbers: Sequence[int]) -> None:
        """Match unmatched events again, and move those with a better result."""
        rows = self._transaction.rows(  # without those that another transaction has matched meanwhile
            f"SELECT {_WAITING} FROM apart WHERE number {self._among} ORDER BY id, target {self._take}",
            self._database.among(numbers),
        )
        again = self._matching.match_events([Event(*event) for _, _, *event in rows])
        better = {number: one for (number, reason, *_), one in zip(rows, again, strict=True) if _is_better(one, reason)}
        if better:
            self._transaction.change(f"DELETE FROM apart WHERE number {self._among}", self._database.among([*better]))
            self._put([*better.values()])

    def _read_stored_keys(self, ids: list[str]) -> set[Key]:
        """The keys of events with these ids that are stored."""
        values = self._database.among(ids)
        found = self._transaction.rows(
            f"SELECT id, target FROM events WHERE id {self._among} "
            f"UNION ALL SELECT id, target FROM apart WHERE id {self._among}",
            *(values, values),
        )
        return {(name, target) for name, target in found}

    def _put(self, found: Sequence[Found]) -> dict[Key, str]:
        """Store events with their matches or as unmatched; returns the code of the `EventFate` of each.

        A concurrent transaction may write the same event: the unique index allows its first row once.
        """
        matched = {event.key: _event_rows(event, matches) for event, matches, _ in found if isinstance(matches, list)}
        apart = {one[0].key: one for one in found if isinstance(one[1], str)}
        fates: dict[Key, str] = dict.fromkeys((*matched, *apart), EventFate.REPEATED)
        if matched:
            went_in = self._transaction.insert(EVENTS, [first for first, *_ in matched.values()])
            new = [key for key, is_new in zip(matched, went_in, strict=True) if is_new]
            fates |= dict.fromkeys(new, EventFate.ACCEPTED)
            if more := [row for key in new for row in matched[key][1:]]:
                self._transaction.insert(EVENTS, more)
        if apart:
            known = self._read_stored_keys([name for name, _ in apart])
            rows = {key: _apart_row(one) for key, one in apart.items() if key not in known}
            went_in = self._transaction.insert(APART, [*rows.values()]) if rows else []
            fates |= {key: row[1] for (key, row), is_new in zip(rows.items(), went_in, strict=True) if is_new}
        return fates

    def is_awaited(self, rows: Sequence[Row]) -> bool:
        """Whether there are unmatched events that may belong to these impressions."""
        return bool(self._awaiting(rows))

    def _awaiting(self, rows: Sequence[Row]) -> list[int]:
        if not rows or not self._transaction.rows(WAITS):
            return []
        waiting = self._transaction.rows(
            f"SELECT number FROM (SELECT number FROM apart WHERE reason = '{UNKNOWN}' "
            f"AND impression {self._among} ORDER BY time DESC LIMIT ?) AS named UNION ALL "
            f"SELECT number FROM (SELECT number FROM apart WHERE impression IS NULL AND unit {self._among} "
            "AND time BETWEEN ? AND ? ORDER BY time DESC LIMIT ?) AS of_units",
            *(self._database.among([row[0] for row in rows]), MAX_WAITING),
            self._database.among([row[3] for row in rows if row[3] is not None]),
            *(min(row[4] for row in rows) - MAX_EARLY, max(row[5] for row in rows), MAX_WAITING),
        )
        return [number for (number,) in waiting]


def row_of(found: Row) -> dict[str, Any]:
    """A row of the log."""
    name, experiment, version, unit, time, *parts = found
    known = {"experiment": experiment, "version": version, "impression": name, "unit": unit, "time": time}
    return known | decode_row(EncodedRow(*parts))


def _is_better(found: Found, reason: str) -> bool:
    """Whether the new result of an unmatched event is better than its reason. A later impression does not cause an
    event, so it counts only if no earlier one is known.
    """
    event, matches, _ = found
    if isinstance(matches, str) or reason in (UNKNOWN, EventFate.NOT_SHOWN_TO_UNIT):
        return matches != reason
    return all(match.time == event.time for match in matches)


def _event_rows(event: Event, matches: Sequence[Match]) -> list[Row]:
    more = event.received, event.dwell, event.value
    return [
        (event.id, match.impression, place, event.kind, match.rank, match.time, *more, event.key[1])
        for place, match in enumerate(matches)
    ]


def _apart_row(found: Found) -> Row:
    event, reason, showing = found
    where = (showing.experiment, showing.version) if showing else (None, None)
    return (
        *(event.id, str(reason), *where, event.kind, event.received, event.time, event.impression, event.unit),
        *(event.rank, event.document, event.dwell, event.value, event.scope, event.key[1]),
    )


def export(database: Database, settings: Experiment, version: int) -> Iterator[pa.RecordBatch]:
    """All rows of a version, page by page, each in its own transaction, so that a slow reader blocks nobody."""
    last = -1
    while True:
        with database.reading() as transaction:
            rows = transaction.rows(
                f"SELECT {COLUMNS}, body, number FROM impressions WHERE experiment = ? AND version = ? "
                "AND number > ? ORDER BY number LIMIT ?",
                *(settings.name, version, last, PAGE),
            )
            if not rows:
                return
            batch = batch_with_events(database, transaction, rows, settings, version)
        yield batch
        last = rows[-1][-1]


def latest_rows(database: Database, name: str, version: int, most: int) -> list[dict[str, Any]]:
    """The latest impressions with their `events`, latest first."""
    with database.reading() as transaction:
        rows = transaction.rows(
            f"SELECT {ROW} FROM impressions WHERE experiment = ? AND version = ? ORDER BY number DESC LIMIT ?",
            *(name, version, most),
        )
        events = transaction.rows(
            f"SELECT {EVENT_COLUMNS} FROM events WHERE impression {database.words['among']} ORDER BY time, rank, id",
            database.among([row[0] for row in rows]),
        )
    found = {row[0]: row_of(row) | {"events": []} for row in rows}
    names = ("event", "kind", "rank", "time", "dwell", "value")
    for impression, *rest in events:
        found[impression]["events"].append(dict(zip(names, rest, strict=True)))
    return list(found.values())
