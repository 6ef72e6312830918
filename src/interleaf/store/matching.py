"""Where events belong: what a transaction reads of impressions to find out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from interleaf.store import attribution, reasons
from interleaf.store.attribution import Match, Showing
from interleaf.store.contract import Event
from interleaf.store.database import Database, Transaction
from interleaf.store.encoding import Encoded
from interleaf.store.experiments import parsed

Found = tuple[Event, list[Match] | str, Showing | None]  # where an event belongs; or why nowhere, and whose it is
MOST_SHOWINGS = 1000  # open impressions of a unit that an event is looked for in
MOST_FOLDED = 100  # folded ones, where no open one has it: they only say why it does not count
_SHOWING = "id, experiment, version, unit, time, until, folded, design, numbers, body"
_Ways = dict[tuple[str, int], str]
_Showings = dict[str, list[Showing]]


class Matching:
    """Looks for the impressions of events; nobody folds or deletes them before the transaction ends."""

    def __init__(self, database: Database, transaction: Transaction) -> None:
        self._database, self._transaction = database, transaction
        self._words = database.words

    def found(self, events: Sequence[Event]) -> list[Found]:
        """Of each event, its matches, or why there is none."""
        by_id = {one.id: one for one in self._showings({event.impression for event in events if event.impression})}
        of_units = [event for event in events if event.impression is None]
        matches = self._of_units(of_units) if of_units else {}
        found: list[Found] = []
        for event in events:
            if event.impression is None:
                found.append(matches[event.key])
            else:
                shown = _in_scope(event, by_id.get(event.impression))
                found.append((event, attribution.of_impression(event, shown), shown))
        return found

    def crossed(self, experiment: str, version: int, now: int, most: int, most_events: int) -> list[int]:
        """Events kept apart, of whatever age, that may belong to impressions of their units which now are to be folded.

        An event and an impression that are written at the same time do not see each other; this is the last time that
        they can meet.
        """
        rows = self._transaction.rows(
            "SELECT DISTINCT a.number FROM (SELECT unit, time, until FROM impressions WHERE experiment = ? "
            "AND version = ? AND folded = 0 AND closes <= ? ORDER BY closes LIMIT ?) AS closed "
            "CROSS JOIN apart a "  # in this order
            "WHERE a.unit = closed.unit AND a.impression IS NULL "
            "AND a.time BETWEEN closed.time - ? AND closed.until LIMIT ?",
            *(experiment, version, now, most, reasons.MOST_EARLY, most_events),
        )
        return [number for (number,) in rows]

    def _of_units(self, events: Sequence[Event]) -> dict[tuple[str, str], Found]:
        """Of each event that names its unit, by key."""
        still_open = self._latest(events, folded=False, most=MOST_SHOWINGS)
        ways = self._ways_of(still_open)
        found: dict[tuple[str, str], Found] = {}
        lost = []
        for event in events:
            matches = attribution.of_unit(event, _all_in_scope(event, still_open), ways)
            found[event.key] = event, matches, None
            if not matches:
                lost.append(event)
        folded = self._latest(lost, folded=True, most=MOST_FOLDED) if lost else {}
        ways |= self._ways_of(folded)
        for event in lost:
            showings = _all_in_scope(event, still_open) + _all_in_scope(event, folded)
            found[event.key] = event, *attribution.unmatched(event, showings, ways)
        return found

    def _latest(self, events: Sequence[Event], folded: bool, most: int) -> _Showings:
        """The latest impressions of the events' units: a crawler may have more of them than can be looked at."""
        units = {event.unit for event in events if event.unit is not None}
        which = "folded = 1" if folded else "folded = 0 AND sought = 1"  # each as its index has it
        rows = self._transaction.rows(
            f"SELECT i.id FROM {self._words['each']} JOIN impressions i ON i.unit = each.value AND {which} "
            "AND i.number >= COALESCE((SELECT last.number FROM impressions last WHERE last.unit = each.value "
            f"AND {which} ORDER BY last.number DESC LIMIT 1 OFFSET ?), 0)",
            *(self._database.among(list(units)), most - 1),
        )
        found: _Showings = {}
        for one in self._showings({name for (name,) in rows}):
            if one.folded == folded:
                found.setdefault(one.unit or "", []).append(one)
        return found

    def _showings(self, ids: set[str]) -> list[Showing]:
        if not ids:
            return []
        rows = self._transaction.rows(
            f"SELECT {_SHOWING} FROM impressions WHERE id {self._words['among']} ORDER BY number {self._words['hold']}",
            self._database.among(list(ids)),
        )
        return [
            Showing(name, experiment, version, unit, time, until, bool(folded), Encoded(*parts))
            for name, experiment, version, unit, time, until, folded, *parts in rows
        ]

    def _ways_of(self, showings: _Showings) -> _Ways:
        return self.ways({one.experiment for own in showings.values() for one in own})

    def ways(self, names: Collection[str]) -> _Ways:
        """How each version of these experiments attributes events that name only their unit."""
        if not names:
            return {}
        rows = self._transaction.rows(
            f"SELECT experiment, version, settings FROM versions WHERE experiment {self._words['among']}",
            self._database.among(list(names)),
        )
        return {(name, version): parsed(settings).attribution for name, version, settings in rows}


def _in_scope(event: Event, showing: Showing | None) -> Showing | None:
    """The impression, unless it is of an experiment that the event may not belong to."""
    return showing if showing is not None and event.scope in (None, showing.experiment) else None


def _all_in_scope(event: Event, showings: _Showings) -> list[Showing]:
    """The impressions of the event's unit, of experiments that the event may belong to."""
    return [one for one in showings.get(event.unit or "", ()) if _in_scope(event, one)]
