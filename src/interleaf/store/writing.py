"""Impressions and events go in: each once, events to where they belong, in one transaction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interleaf.errors import DataError
from interleaf.store import attribution, reasons
from interleaf.store.attribution import Match, Showing
from interleaf.store.contract import ACCEPTED, REPEATED, Event, Impression
from interleaf.store.database import MOST_BYTES, Database, Row, Transaction, is_kept
from interleaf.store.encoding import Encoded, decoded, encoded
from interleaf.store.experiments import parsed
from interleaf.store.tables import APART, EVENTS, IMPRESSIONS

FIRST, LAST = -62_135_596_800_000_000, 253_402_300_800_000_000  # the years 1 to 9999
Found = tuple[Event, list[Match] | str, Showing | None]  # where an event belongs, or why nowhere
ROW = "id, experiment, version, unit, time, design, numbers, body"  # what `row_of` takes
_SHOWING = "id, experiment, version, unit, time, closes, folded, design, numbers, body"
MOST_SHOWINGS = 1000  # impressions of a unit that an event is looked for in
_WAITING = "id, reason, kind, received, time, impression, unit, rank, document, dwell, value"


def rows_of(impressions: Iterable[Impression]) -> list[Row]:
    """Impressions as rows of their table, checked."""
    return [
        (_text("id", one.id), one.experiment, one.version, _text("unit", one.unit), _time("time", one.time),
         _time("closes", one.closes), *encoded(one.row, one.checked))
        for one in impressions
    ]  # fmt: skip


def check_event(event: Event) -> None:
    """Whether an event can be kept at all."""
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


def _text(name: str, text: str | None, most: int | None = MOST_BYTES) -> str | None:
    if text is not None and not is_kept(text, most):
        limit = f", and at most {most:,} bytes" if most else ""
        raise DataError(f"{name} is {text[:200]!r}; give Unicode text without null characters{limit}")
    return text


def _time(name: str, time: int) -> int:
    if not FIRST <= time < LAST:
        raise DataError(f"{name} is {time}; give microseconds since 1970, in the years 1 to 9999")
    return time


class Writing:
    """A transaction that impressions and events are put in by."""

    def __init__(self, database: Database, transaction: Transaction) -> None:
        self._database, self._transaction = database, transaction
        self._among, self._hold = database.words["among"], database.words["hold"]

    def impressions(self, rows: Sequence[Row]) -> list[Mapping[str, Any] | None]:
        """Put impressions in, and events that waited for them; of each one that was there, its row."""
        went_in = self._transaction.insert(IMPRESSIONS, rows) if rows else []
        there = [row[0] for row, new in zip(rows, went_in, strict=True) if not new]
        kept = self.kept(there)
        new = [row for row, new in zip(rows, went_in, strict=True) if new]
        self._match_waiting(new)
        return [None if new else kept.get(row[0]) for row, new in zip(rows, went_in, strict=True)]

    def kept(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The rows of impressions, by id."""
        if not ids:
            return {}
        found = self._transaction.rows(
            f"SELECT {ROW} FROM impressions WHERE id {self._among}",
            self._database.among(ids),
        )
        return {row[0]: row_of(row) for row in found}

    def events(self, events: Sequence[Event]) -> list[str]:
        """Put events in; of each, what became of it."""
        if not events:
            return []
        known = self._known([event.id for event in events])
        fresh: dict[str, Event] = {}
        again: list[Event] = []
        for event in events:
            if event.id in known or event.id in fresh:
                again.append(event)
            else:
                fresh[event.id] = event
        fates = self._put(self._matched(list(fresh.values())))
        self._add_dwells(again)
        return [fates.pop(event.id, REPEATED) for event in events]

    def _add_dwells(self, events: Sequence[Event]) -> None:
        """How long people stayed is known when they come back: an event that comes again may bring it."""
        for event in events:
            if event.dwell is not None:
                self._transaction.change(
                    "UPDATE events SET dwell = ? WHERE id = ? AND dwell IS NULL "
                    "AND impression IN (SELECT id FROM impressions WHERE folded = 0)",
                    *(event.dwell, event.id),
                )
                self._transaction.change(
                    "UPDATE apart SET dwell = ? WHERE id = ? AND dwell IS NULL", event.dwell, event.id
                )

    def waiting(self, since: int) -> list[Row]:
        """Events received since then whose impressions came in another transaction at the same time."""
        return self._transaction.rows(
            f"SELECT {', '.join('a.' + name for name in _WAITING.split(', '))} FROM apart a "
            f"JOIN impressions i ON i.id = a.impression WHERE a.reason = '{reasons.UNKNOWN}' AND a.received >= ?",
            since,
        )

    def match(self, rows: Sequence[Row]) -> None:
        """Put waiting events where they belong, but those that still wait for the same reason."""
        reason_of = {row[0]: row[1] for row in rows}
        found = [
            one for one in self._matched([Event(row[0], *row[2:]) for row in rows]) if one[1] != reason_of[one[0].id]
        ]
        if found:
            ids = self._database.among([event.id for event, _, _ in found])
            self._transaction.change(f"DELETE FROM apart WHERE id {self._among}", ids)
            self._put(found)

    def _known(self, ids: list[str]) -> set[str]:
        values = self._database.among(ids)
        found = self._transaction.rows(
            f"SELECT id FROM events WHERE id {self._among} UNION ALL SELECT id FROM apart WHERE id {self._among}",
            *(values, values),
        )
        return {name for (name,) in found}

    def _put(self, found: Sequence[Found]) -> dict[str, str]:
        """Put events where they belong; of each, what became of it."""
        matched = [(event, match) for event, matches, _ in found if isinstance(matches, list) for match in matches]
        apart = [(event, matches, showing) for event, matches, showing in found if isinstance(matches, str)]
        if matched:
            self._transaction.insert(EVENTS, sorted(map(_event_row, matched), key=lambda row: row[:2]))
        if apart:
            self._transaction.insert(APART, sorted(map(_apart_row, apart), key=lambda row: row[0]))
        return {event.id: matches if isinstance(matches, str) else ACCEPTED for event, matches, _ in found}

    def _matched(self, events: Sequence[Event]) -> list[Found]:
        by_id = {one.id: one for one in self._showings({event.impression for event in events if event.impression})}
        by_unit: dict[str, list[Showing]] = {}
        for one in self._showings(self._of_units({event.unit for event in events if not event.impression})):
            if not one.folded:
                by_unit.setdefault(one.unit or "", []).append(one)
        ways = self._ways() if by_unit else {}
        found: list[Found] = []
        for event in events:
            if event.impression is not None:
                shown = by_id.get(event.impression)
                found.append((event, attribution.of_impression(event, shown), shown))
            else:
                found.append((event, attribution.of_unit(event, by_unit.get(event.unit or "", ()), ways), None))
        return found

    def _showings(self, ids: set[str]) -> list[Showing]:
        """Impressions by their ids; nobody folds them before this transaction ends."""
        if not ids:
            return []
        rows = self._transaction.rows(
            f"SELECT {_SHOWING} FROM impressions WHERE id {self._among} ORDER BY number {self._hold}",
            self._database.among(list(ids)),
        )
        return [
            Showing(name, experiment, version, unit, time, closes, bool(folded), Encoded(*parts))
            for name, experiment, version, unit, time, closes, folded, *parts in rows
        ]

    def _of_units(self, units: set[str | None]) -> set[str]:
        """The ids of the latest open impressions of units; a crawler may have more of them than can be looked at."""
        names = [unit for unit in units if unit is not None]
        if not names:
            return set()
        rows = self._transaction.rows(
            "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY unit ORDER BY number DESC) AS place "
            f"FROM impressions WHERE unit {self._among} AND folded = 0) AS latest WHERE place <= ?",
            *(self._database.among(names), MOST_SHOWINGS),
        )
        return {name for (name,) in rows}

    def _ways(self) -> dict[tuple[str, int], str]:
        rows = self._transaction.rows("SELECT experiment, version, settings FROM versions")
        return {(name, version): parsed(settings).attribution for name, version, settings in rows}

    def _match_waiting(self, rows: Sequence[Row]) -> None:
        """Events that came before these impressions, and not so long before that they cannot belong to them."""
        if not rows:
            return
        # The reasons are part of the statement, and not values, so that the indexes of such events are used.
        waiting = self._transaction.rows(
            f"SELECT {_WAITING} FROM apart WHERE time >= ? AND ((reason = '{reasons.UNKNOWN}' "
            f"AND impression {self._among}) OR (reason = '{reasons.NOT_SHOWN}' AND unit {self._among}))",
            min(row[4] for row in rows) - reasons.MOST_EARLY,
            self._database.among([row[0] for row in rows]),
            self._database.among([row[3] for row in rows if row[3] is not None]),
        )
        self.match(waiting)


def row_of(found: Row) -> dict[str, Any]:
    """A row of the log."""
    name, experiment, version, unit, time, *parts = found
    known = {"experiment": experiment, "version": version, "impression": name, "unit": unit, "time": time}
    return known | decoded(Encoded(*parts))


def _event_row(matched: tuple[Event, Match]) -> Row:
    event, match = matched
    return event.id, match.impression, event.kind, match.rank, match.time, event.received, event.dwell, event.value


def _apart_row(apart: tuple[Event, str, Showing | None]) -> Row:
    event, reason, showing = apart
    where = (showing.experiment, showing.version) if showing else (None, None)
    return (
        *(event.id, reason, *where, event.kind, event.received, event.time, event.impression, event.unit),
        *(event.rank, event.document, event.dwell, event.value),
    )
