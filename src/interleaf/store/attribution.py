"""Finds the impressions that an event belongs to, and its rank; or why it belongs to none.

Impressions are also found by their units: for events that name only their unit, and to join searches to sessions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from interleaf.experiment import Experiment
from interleaf.experiment.serving import build_whole_list
from interleaf.experiment.settings import EVERY, MOST_SHOWN, SAME
from interleaf.log.drop_reasons import EventFate
from interleaf.metrics.guardrail_metrics import joined_gap
from interleaf.store.codec import COLUMNS, EncodedRow, decode_row
from interleaf.store.database import Row, Transaction
from interleaf.store.experiments import parse_settings
from interleaf.store.records import MAX_AHEAD, MAX_EARLY, Event

MAX_MATCHES = 100  # impressions that get an event if all do; no person sees a document more often
MAX_SHOWINGS = 1000  # open impressions of a unit that are searched for an event
MAX_FOLDED = 100  # folded impressions that are searched for the reason why it does not count
_SHOWING = "id, experiment, version, unit, time, until, folded, design, numbers, body"
MAX_EARLIER = 1000  # latest searches of a user, over all experiments, among which those before are sought
EVER = -(2**63)


@dataclass(frozen=True)
class Showing:
    """An impression that an event may belong to."""

    id: str
    experiment: str
    version: int
    unit: str | None
    time: int
    until: int
    folded: bool
    parts: EncodedRow

    @cached_property
    def row(self) -> dict[str, Any]:
        """The decoded row."""
        return decode_row(self.parts)


class Match(NamedTuple):
    """Where an event counts: its rank in `documents`, and a time that is not before the impression."""

    impression: str
    rank: int
    time: int


def of_impression(event: Event, showing: Showing | None) -> list[Match] | str:
    """The match of an event that names its impression, or why there is none."""
    if showing is None:
        return EventFate.FUTURE if _is_ahead(event) else EventFate.UNKNOWN_IMPRESSION
    rank = _rank(event, showing.row)
    reason = rank if isinstance(rank, str) else _check_time(event, showing)
    return reason or [_match(event, showing, int(rank))]


Ranked = tuple[Showing, int]
Ways = dict[tuple[str, int], str]  # the attribution of each version of an experiment


def of_unit(event: Event, showings: Iterable[Showing], ways: Ways) -> list[Match]:
    """The matches of an event that names only its unit and document, in all experiments."""
    timely = [one for one in _find_showings(event, showings, ways) if not _check_time(event, one[0])]
    # Prefer impressions before the event. Clocks differ, so later ones are used if there are no others.
    timely = [one for one in timely if one[0].time <= event.time] or timely
    timely.sort(key=lambda one: (one[0].experiment, one[0].time, one[0].id))
    matches: list[Match] = []
    for _, group in groupby(timely, lambda one: one[0].experiment):
        own = list(group)
        last = own[-1][0]
        own = _choose(own, ways[last.experiment, last.version])
        matches += [_match(event, showing, rank) for showing, rank in own]
    return matches


def explain_unmatched(event: Event, showings: Iterable[Showing], ways: Ways) -> tuple[str, Showing | None]:
    """Why an event of a unit has no match, and the nearest impression that showed the document, if any."""
    shown = [(showing, _check_time(event, showing)) for showing, _ in _find_showings(event, showings, ways)]
    for reason in (EventFate.FOLDED, EventFate.LATE, EventFate.EARLY, EventFate.FUTURE):
        own = [showing for showing, why in shown if why == reason]
        if own:
            return reason, max(own, key=lambda showing: (showing.time, showing.id))
    return EventFate.FUTURE if _is_ahead(event) else EventFate.NOT_SHOWN_TO_UNIT, None


def _find_showings(event: Event, showings: Iterable[Showing], ways: Ways) -> list[Ranked]:
    """Impressions that showed the document, of experiments that attribute by unit; without those excluded as bots."""
    if event.document is None:
        return []
    own = [showing for showing in showings if ways[showing.experiment, showing.version] != SAME]
    ranked = [(showing, _rank(event, showing.row)) for showing in own if showing.row["excluded"] is None]
    return [(showing, rank) for showing, rank in ranked if isinstance(rank, int)]


def _choose(shown: list[Ranked], way: str) -> list[Ranked]:
    """Which of the impressions of an experiment, in order of time, get the event."""
    if way == EVERY:
        return shown[-MAX_MATCHES:]
    if way != MOST_SHOWN:
        return shown[-1:]
    owners = [_owners(showing.row, rank) for showing, rank in shown]
    times = Counter(owner for some in owners for owner in some)
    most = max(times.values(), default=0)
    fitting = [one for one, some in zip(shown, owners, strict=True) if any(times[owner] == most for owner in some)]
    return fitting[-1:] or shown[-1:]


def _owners(row: Mapping[str, Any], rank: int) -> list[str]:
    """The ranker that a document was drawn for, else the rankers that rank it highest."""
    rankers, teams, ranks = row["rankers"], row.get("teams"), row.get("ranks")
    if teams is not None and teams[rank - 1] >= 0:
        return [rankers[teams[rank - 1]]]
    rank_of = {name: own[rank - 1] for name, own in zip(rankers, ranks or (), strict=False) if own[rank - 1] > 0}
    return [name for name, own in rank_of.items() if own == min(rank_of.values())]


def _rank(event: Event, row: Mapping[str, Any]) -> int | str:
    """The rank of an event in `documents`, or why it has none."""
    document = event.document
    if document is None:
        shown = build_whole_list(row)
        if event.rank is None or not 1 <= event.rank <= len(shown):
            return EventFate.RANK_NOT_SHOWN
        document = shown[event.rank - 1]
    if document in row["documents"]:
        return int(row["documents"].index(document)) + 1
    return EventFate.FIXED_SLOT if document in (row.get("fixed") or {}).values() else EventFate.DOCUMENT_NOT_SHOWN


def _check_time(event: Event, showing: Showing) -> str:
    if _is_ahead(event):
        return EventFate.FUTURE
    if event.time < showing.time - MAX_EARLY:
        return EventFate.EARLY
    if event.time > showing.until:
        return EventFate.LATE
    return EventFate.FOLDED if showing.folded else ""


def _is_ahead(event: Event) -> bool:
    return event.time > event.received + MAX_AHEAD


def _match(event: Event, showing: Showing, rank: int) -> Match:
    return Match(showing.id, rank, max(event.time, showing.time))


# An event, its matches or why there is none, and the nearest impression.
EventMatch = tuple[Event, list[Match] | str, Showing | None]
_Showings = dict[str, list[Showing]]


class Matching:
    """Finds the impressions of events, and locks them against folding and deletion until the transaction ends."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def match_events(self, events: Sequence[Event]) -> list[EventMatch]:
        """The matches of each event, or why it has none."""
        by_id = {one.id: one for one in self._showings([event.impression for event in events if event.impression])}
        of_units = [event for event in events if event.impression is None]
        matches = self._of_units(of_units) if of_units else {}
        results: list[EventMatch] = []
        for event in events:
            if event.impression is None:
                results.append(matches[event.key])
            else:
                shown = _in_scope(event, by_id.get(event.impression))
                results.append((event, of_impression(event, shown), shown))
        return results

    def _of_units(self, events: Sequence[Event]) -> dict[tuple[str, str], EventMatch]:
        """The matches of events that name only their unit, by key."""
        still_open = self._latest(events, folded=False, most=MAX_SHOWINGS)
        ways = self._ways_of(still_open)
        results: dict[tuple[str, str], EventMatch] = {}
        lost = []
        for event in events:
            matches = of_unit(event, _all_in_scope(event, still_open), ways)
            results[event.key] = event, matches, None
            if not matches:
                lost.append(event)
        folded = self._latest(lost, folded=True, most=MAX_FOLDED) if lost else {}
        ways |= self._ways_of(folded)
        for event in lost:
            showings = _all_in_scope(event, still_open) + _all_in_scope(event, folded)
            results[event.key] = event, *explain_unmatched(event, showings, ways)
        return results

    def _latest(self, events: Sequence[Event], folded: bool, most: int) -> _Showings:
        """The latest impressions of the events' units; limited, because a crawler may have very many."""
        units = {event.unit for event in events if event.unit is not None}
        ids = find_ids(self._transaction, list(units), folded, most)
        showings: _Showings = {}
        for one in self._showings(ids):
            if one.folded == folded:
                showings.setdefault(one.unit or "", []).append(one)
        return showings

    def _showings(self, ids: list[str]) -> list[Showing]:
        if not ids:
            return []
        statement = f"SELECT {_SHOWING} FROM impressions WHERE id = ANY(?) ORDER BY number FOR SHARE"
        return [
            Showing(name, experiment, version, unit, time, until, bool(folded), EncodedRow(*parts))
            for name, experiment, version, unit, time, until, folded, *parts in self._transaction.rows(statement, ids)
        ]

    def _ways_of(self, showings: _Showings) -> Ways:
        return self.ways({one.experiment for own in showings.values() for one in own})

    def ways(self, names: Collection[str]) -> Ways:
        """The attribution setting of each version of these experiments."""
        return {place: settings.attribution for place, settings in self._settings_of(names).items()}

    def sought(self, names: Collection[str]) -> dict[tuple[str, int], int]:
        """Whether impressions of each version of these experiments are found by their unit."""
        return {place: int(is_sought(settings)) for place, settings in self._settings_of(names).items()}

    def _settings_of(self, names: Collection[str]) -> dict[tuple[str, int], Experiment]:
        if not names:
            return {}
        statement = "SELECT experiment, version, settings FROM versions WHERE experiment = ANY(?)"
        rows = self._transaction.rows(statement, list(names))
        return {(name, version): parse_settings(settings) for name, version, settings in rows}


def _in_scope(event: Event, showing: Showing | None) -> Showing | None:
    """The impression, unless the event may not belong to its experiment."""
    return showing if showing is not None and event.scope in (None, showing.experiment) else None


def _all_in_scope(event: Event, showings: _Showings) -> list[Showing]:
    """The impressions of the event's unit, of experiments that the event may belong to."""
    return [one for one in showings.get(event.unit or "", ()) if _in_scope(event, one)]


def is_sought(settings: Experiment) -> bool:
    """Whether impressions of an experiment are found by their unit."""
    return settings.attribution != SAME or joined_gap(settings.guardrails) is not None


def read_earlier(transaction: Transaction, rows: Sequence[Row], settings: Experiment, version: int) -> list[Row]:
    """Rows of `COLUMNS` of the same units that may be in a session with these rows, without them.

    A session goes on while less than a gap passes after the last event of a search, and an event comes at most one
    window after its search.
    """
    gap = joined_gap(settings.guardrails)
    units = [] if gap is None else sorted({row[1] for row in rows if row[1] is not None})
    if gap is None or not units:
        return []
    times, own = [row[2] for row in rows], {row[0] for row in rows}
    since = min(times) - settings.window - round(gap * 1e6)
    ids = {name for folded in (False, True) for name in find_ids(transaction, units, folded, MAX_EARLIER, since)}
    return transaction.rows(
        f"SELECT {COLUMNS} FROM impressions WHERE id = ANY(?) AND experiment = ? AND version = ? AND time <= ?",
        *(sorted(ids - own), settings.name, version, max(times)),
    )


def find_ids(transaction: Transaction, units: Sequence[str], folded: bool, most: int, since: int = EVER) -> list[str]:
    """Ids of the latest impressions of units from a time on; limited, because a crawler may have very many."""
    which = "folded = 1" if folded else "folded = 0 AND sought = 1"  # the conditions of the two indexes
    return transaction.column(
        f"SELECT i.id FROM unnest(?::text[]) AS each (value) JOIN impressions i ON i.unit = each.value AND {which} "
        "AND i.number >= COALESCE((SELECT last.number FROM impressions last WHERE last.unit = each.value "
        f"AND {which} ORDER BY last.number DESC LIMIT 1 OFFSET ?), 0) AND i.time >= ?",
        *(list(units), most - 1, since),
    )
