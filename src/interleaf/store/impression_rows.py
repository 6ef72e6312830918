"""Writes impressions and events."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from interleaf.errors import DataError
from interleaf.experiment.serving import Noted, draw_lists
from interleaf.log.drop_reasons import EventFate
from interleaf.store.attribution import EventMatch, Matching
from interleaf.store.codec import EncodedRow, decode_row, encode_note, encode_row
from interleaf.store.database import MAX_BYTES, Row, Transaction, is_kept
from interleaf.store.records import MAX_EARLY, Event, StoredImpression
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


def encode_lists(impressions: Sequence[StoredImpression]) -> None:
    """Draw the planned lists of impressions together, and encode them. What they were drawn from is not needed then."""
    planned = [(one, one.shown) for one in impressions if one.shown is not None and one.parts is None]
    draw_lists([shown for _, shown in planned])
    for one, shown in planned:
        if isinstance(shown.record, Noted):
            one.parts, shown.record = encode_note(shown.record, **one.extras), None


def rows_of(impressions: Sequence[StoredImpression], sought: Mapping[tuple[str, int], int]) -> list[Row]:
    """Impressions as rows of their table; those with encoded parts were checked before."""
    encode_lists(impressions)
    return [
        (one.id, one.experiment, one.version, one.unit, one.time, one.closes if one.until is None else one.until,
         one.closes, sought[one.experiment, one.version], *(one.parts or _check_and_encode(one)))
        for one in impressions
    ]  # fmt: skip


def _check_and_encode(one: StoredImpression) -> EncodedRow:
    """Check and encode the row of an impression."""
    for name in ("id", "unit"):
        _check_text(name, getattr(one, name), MAX_BYTES)
    for name in ("time", "until", "closes"):
        _check_time(name, getattr(one, name))
    return encode_row(one.row)


def check_event(event: Event) -> None:
    """Raise DataError if an event cannot be stored."""
    for name in ("id", "impression", "unit"):
        _check_text(name, getattr(event, name), MAX_BYTES)
    for name in ("kind", "document"):
        _check_text(name, getattr(event, name))
    for name in ("time", "received"):
        _check_time(name, getattr(event, name))
    if event.rank is not None and not -(2**63) <= event.rank < 2**63:
        raise DataError(f"rank is {event.rank}; give the place in the shown list")
    for name, most in (("dwell", 3e38), ("value", math.inf)):
        number = getattr(event, name)
        if number is not None and not -most < number < most:
            raise DataError(f"{name} is {number}; give a finite number")


def _check_text(name: str, text: str | None, most: int | None = None) -> None:
    if text is not None and not is_kept(text, most):
        limit = f", and at most {most:,} bytes" if most else ""
        raise DataError(f"{name} is {text[:200]!r}; give Unicode text without null characters{limit}")


def _check_time(name: str, time: int | None) -> None:
    if time is not None and not FIRST <= time < LAST:
        raise DataError(f"{name} is {time}; give microseconds since 1970, in the years 1 to 9999")


class Writing:
    """Writes impressions and events within a transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction, self._matching = transaction, Matching(transaction)

    def impressions(self, rows: Sequence[Row]) -> list[Mapping[str, Any] | None]:
        """Write impressions, and match events that waited for them; returns the existing row of each, or None."""
        is_new = self._transaction.insert(IMPRESSIONS, rows) if rows else []
        before = self.read_rows([row[0] for row, new in zip(rows, is_new, strict=True) if not new])
        if waiting := self.find_awaiting([row for row, new in zip(rows, is_new, strict=True) if new]):
            self.match(waiting)
        return [None if new else before.get(row[0]) for row, new in zip(rows, is_new, strict=True)]

    def read_rows(self, ids: list[str]) -> dict[str, dict[str, Any]]:
        """The rows of impressions, by id."""
        if not ids:
            return {}
        rows = self._transaction.rows(f"SELECT {ROW} FROM impressions WHERE id = ANY(?)", ids)
        return {row[0]: row_of(row) for row in rows}

    def events(self, events: Sequence[Event]) -> list[str]:
        """Write events; returns the code of the `EventFate` of each."""
        if not events:
            return []
        stored_keys = self._read_stored_keys([event.id for event in events])
        fresh: dict[Key, Event] = {}
        again: list[Event] = []
        for event in events:
            if event.key in stored_keys or event.key in fresh:
                again.append(event)
            else:
                fresh[event.key] = event
        fates = self._put(self._matching.match_events(list(fresh.values())))
        repeated = [*again, *(event for event in fresh.values() if fates[event.key] == EventFate.REPEATED)]
        for scope in {event.scope for event in repeated}:
            self._complete([event for event in repeated if event.scope == scope], scope)
        return [fates.pop(event.key, EventFate.REPEATED) for event in events]

    def extend(self, impression: str, row: Mapping[str, Any]) -> bool:
        """Replace a row by the one with a further page; False, and no change, if it is folded or has that page."""
        parts = encode_row(row)
        statement = f"SELECT {ROW} FROM impressions WHERE id = ? AND folded = 0 FOR UPDATE"
        before = self._transaction.rows(statement, impression)
        if not before or (row_of(before[0])["page"] or 1) >= (row.get("page") or 1):
            return False
        statement = "UPDATE impressions SET design = ?, numbers = ?, body = ? WHERE id = ?"
        return self._transaction.change(statement, *parts, impression) > 0

    def _complete(self, events: Sequence[Event], scope: str | None) -> None:
        """Merge repeated events into the stored ones: the largest dwell, and a value if there was none.

        The dwell is known when the user comes back: the click is sent again with its dwell. With a scope, only events
        of that experiment are changed.
        """
        more = [event for event in events if event.dwell is not None or event.value is not None]
        if not more:
            return
        still_open = self._transaction.column(
            "SELECT id FROM impressions WHERE id IN (SELECT impression FROM events WHERE id = ANY(?)) "
            "AND folded = 0 AND experiment = COALESCE(?, experiment) ORDER BY number FOR SHARE",
            *(list({event.id for event in more}), scope),
        )
        for event in sorted(more, key=lambda event: event.key):  # sorted, to avoid deadlocks
            new = event.dwell, event.dwell, event.value, *event.key
            self._transaction.change(f"UPDATE events {_COMPLETED} AND impression = ANY(?)", *new, still_open)
            is_in_scope = "(experiment IS NULL OR experiment = COALESCE(?, experiment))"
            self._transaction.change(f"UPDATE apart {_COMPLETED} AND {is_in_scope}", *new, scope)

    def waiting(self, now: int) -> list[int]:
        """Numbers of unmatched events whose impressions may have been written by a concurrent transaction."""
        return self._transaction.column(
            "SELECT number FROM (SELECT a.number FROM apart a JOIN impressions i ON i.id = a.impression "
            f"WHERE a.reason = '{UNKNOWN}' AND a.received >= ? ORDER BY a.received DESC LIMIT ?) AS named "
            "UNION ALL SELECT number FROM (SELECT number, unit, time FROM apart WHERE impression IS NULL "
            "AND received >= ? ORDER BY received DESC LIMIT ?) AS young WHERE EXISTS (SELECT 1 FROM impressions i "
            "WHERE i.unit = young.unit AND i.folded = 0 AND i.sought = 1 "
            "AND i.time <= young.time + ? AND i.until >= young.time)",
            *(now - REMATCHED, MAX_WAITING, now - REMATCHED_OF_UNIT, MAX_WAITING, MAX_EARLY),
        )

    def waiting_for_closed(self, experiment: str, version: int, now: int, most: int) -> list[int]:
        """Numbers of unmatched events, of any age, that may belong to impressions which are about to be folded.

        Concurrent transactions that write an event and its impression do not see each other; this is the last chance
        to match them.
        """
        closed = (
            "SELECT id, unit, time, until FROM impressions WHERE experiment = ? AND version = ? AND folded = 0 "
            "AND closes <= ? ORDER BY closes LIMIT ?"
        )
        named = self._transaction.column(  # SQLite keeps the order of a cross join
            f"SELECT a.number FROM ({closed}) AS closed CROSS JOIN apart a "
            f"WHERE a.impression = closed.id AND a.reason = '{UNKNOWN}' LIMIT ?",
            *(experiment, version, now, most, MAX_WAITING),
        )
        of_units = self._transaction.column(
            f"SELECT DISTINCT a.number FROM ({closed}) AS closed CROSS JOIN apart a WHERE a.unit = closed.unit "
            "AND a.impression IS NULL AND a.time BETWEEN closed.time - ? AND closed.until LIMIT ?",
            *(experiment, version, now, most, MAX_EARLY, MAX_WAITING),
        )
        return named + of_units

    def match(self, numbers: list[int]) -> None:
        """Match unmatched events again, and move those with a better result."""
        rows = self._transaction.rows(  # without those that another transaction has matched meanwhile
            f"SELECT {_WAITING} FROM apart WHERE number = ANY(?) ORDER BY id, target FOR UPDATE", numbers
        )
        again = self._matching.match_events([Event(*event) for _, _, *event in rows])
        better = {number: one for (number, reason, *_), one in zip(rows, again, strict=True) if _is_better(one, reason)}
        if better:
            self._transaction.change("DELETE FROM apart WHERE number = ANY(?)", [*better])
            self._put([*better.values()])

    def _read_stored_keys(self, ids: list[str]) -> set[Key]:
        """The keys of events with these ids that are stored."""
        rows = self._transaction.rows(
            "SELECT id, target FROM events WHERE id = ANY(?) UNION ALL SELECT id, target FROM apart WHERE id = ANY(?)",
            *(ids, ids),
        )
        return {(name, target) for name, target in rows}

    def _put(self, results: Sequence[EventMatch]) -> dict[Key, str]:
        """Store events with their matches or as unmatched; returns the code of the `EventFate` of each.

        A concurrent transaction may write the same event: the unique index allows its first row once.
        """
        matched: dict[Key, list[Row]] = {}
        apart: dict[Key, Row] = {}
        for event, matches, showing in results:
            rest = event.dwell, event.value
            if isinstance(matches, str):
                where = (showing.experiment, showing.version) if showing else (None, None)
                times = event.received, event.time
                what = event.impression, event.unit, event.rank, event.document
                row = event.id, str(matches), *where, event.kind, *times, *what, *rest, event.scope, event.key[1]
                apart[event.key] = row
            else:
                matched[event.key] = [
                    (event.id, match.impression, place, event.kind, match.rank, match.time, event.received, *rest,
                     event.key[1])
                    for place, match in enumerate(matches)
                ]  # fmt: skip
        fates: dict[Key, str] = dict.fromkeys((*matched, *apart), EventFate.REPEATED)
        if matched:
            went_in = self._transaction.insert(EVENTS, [first for first, *_ in matched.values()])
            new = [key for key, is_new in zip(matched, went_in, strict=True) if is_new]
            fates |= dict.fromkeys(new, EventFate.ACCEPTED)
            if more := [row for key in new for row in matched[key][1:]]:
                self._transaction.insert(EVENTS, more)
        if apart:
            stored_keys = self._read_stored_keys([name for name, _ in apart])
            rows = {key: row for key, row in apart.items() if key not in stored_keys}
            went_in = self._transaction.insert(APART, [*rows.values()]) if rows else []
            fates |= {key: row[1] for (key, row), is_new in zip(rows.items(), went_in, strict=True) if is_new}
        return fates

    def find_awaiting(self, rows: Sequence[Row]) -> list[int]:
        """Numbers of unmatched events that may belong to these impressions."""
        if not rows or not self._transaction.rows(WAITS):
            return []
        return self._transaction.column(
            f"SELECT number FROM (SELECT number FROM apart WHERE reason = '{UNKNOWN}' "
            "AND impression = ANY(?) ORDER BY time DESC LIMIT ?) AS named UNION ALL "
            "SELECT number FROM (SELECT number FROM apart WHERE impression IS NULL AND unit = ANY(?) "
            "AND time BETWEEN ? AND ? ORDER BY time DESC LIMIT ?) AS of_units",
            *([row[0] for row in rows], MAX_WAITING),
            [row[3] for row in rows if row[3] is not None],
            *(min(row[4] for row in rows) - MAX_EARLY, max(row[5] for row in rows), MAX_WAITING),
        )


def row_of(row: Row) -> dict[str, Any]:
    """A row of the log."""
    name, experiment, version, unit, time, *parts = row
    columns = {"experiment": experiment, "version": version, "impression": name, "unit": unit, "time": time}
    return columns | decode_row(EncodedRow(*parts))


def _is_better(result: EventMatch, reason: str) -> bool:
    """Whether the new result of an unmatched event is better than its reason. A later impression does not cause an
    event, so it counts only if no earlier one is known.
    """
    event, matches, _ = result
    if isinstance(matches, str) or reason in (UNKNOWN, EventFate.NOT_SHOWN_TO_UNIT):
        return matches != reason
    return all(match.time == event.time for match in matches)
