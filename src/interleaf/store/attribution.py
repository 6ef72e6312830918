"""To which impressions an event belongs, and at which rank; or why it belongs to none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from interleaf.experiment.settings import EVERY, MOST_SHOWN, SAME
from interleaf.experiment.showing import build_whole_list
from interleaf.store import reasons
from interleaf.store.contract import Event
from interleaf.store.encoding import Encoded, decoded

MOST_MATCHES = 100  # impressions that get an event where all do: whoever sees a document more often is no person


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
    parts: Encoded

    @cached_property
    def row(self) -> dict[str, Any]:
        """What was shown."""
        return decoded(self.parts)


class Match(NamedTuple):
    """Where an event counts: the rank is that in `documents`, and it did not happen before the list was shown."""

    impression: str
    rank: int
    time: int


def of_impression(event: Event, showing: Showing | None) -> list[Match] | str:
    """The match of an event that names its impression, or why there is none."""
    if showing is None:
        return reasons.FUTURE if _is_ahead(event) else reasons.UNKNOWN
    rank = _rank(event, showing.row)
    reason = rank if isinstance(rank, str) else _untimely(event, showing)
    return reason or [_match(event, showing, int(rank))]


Ranked = tuple[Showing, int]
Ways = Mapping[tuple[str, int], str]  # how each version of an experiment attributes


def of_unit(event: Event, showings: Iterable[Showing], ways: Ways) -> list[Match]:
    """The matches of an event that names its unit and document, in every experiment whose attribution finds one."""
    timely = [one for one in _shown(event, showings, ways) if not _untimely(event, one[0])]
    # What was shown after it is no cause of it; clocks differ, so it may be where there is nothing else.
    timely = [one for one in timely if one[0].time <= event.time] or timely
    timely.sort(key=lambda one: (one[0].experiment, *_when(one)))
    found: list[Match] = []
    for _, group in groupby(timely, lambda one: one[0].experiment):
        own = list(group)
        last = own[-1][0]
        chosen = _chosen(own, ways[last.experiment, last.version])
        found += [_match(event, showing, rank) for showing, rank in chosen]
    return found


def unmatched(event: Event, showings: Iterable[Showing], ways: Ways) -> tuple[str, Showing | None]:
    """Why an event of a unit has no match, and the impression that it comes nearest to, if one showed the document."""
    shown = [(showing, _untimely(event, showing)) for showing, _ in _shown(event, showings, ways)]
    for reason in (reasons.FOLDED, reasons.LATE, reasons.EARLY, reasons.FUTURE):
        own = [showing for showing, why in shown if why == reason]
        if own:
            return reason, max(own, key=lambda showing: (showing.time, showing.id))
    return reasons.FUTURE if _is_ahead(event) else reasons.NOT_SHOWN, None


def _shown(event: Event, showings: Iterable[Showing], ways: Ways) -> list[Ranked]:
    """Impressions that showed the document, of experiments that look for it; a crawler's take no part."""
    if event.document is None:
        return []
    own = [showing for showing in showings if ways[showing.experiment, showing.version] != SAME]
    ranked = [(showing, _rank(event, showing.row)) for showing in own if showing.row["excluded"] is None]
    return [(showing, rank) for showing, rank in ranked if isinstance(rank, int)]


def _chosen(shown: Sequence[Ranked], way: str) -> Sequence[Ranked]:
    """Which of the impressions of an experiment, last ones last, get the event."""
    if way == EVERY:
        return shown[-MOST_MATCHES:]
    if way != MOST_SHOWN:
        return shown[-1:]
    owners = [_owners(showing.row, rank) for showing, rank in shown]
    times = Counter(owner for some in owners for owner in some)
    most = max(times.values(), default=0)
    fitting = [one for one, some in zip(shown, owners, strict=True) if any(times[owner] == most for owner in some)]
    return fitting[-1:] or shown[-1:]


def _owners(row: Mapping[str, Any], rank: int) -> list[str]:
    """Who showed a document: the team that it was drawn for, else the rankers that have it highest."""
    rankers, teams, ranks = row["rankers"], row.get("teams"), row.get("ranks")
    if teams is not None and teams[rank - 1] >= 0:
        return [rankers[teams[rank - 1]]]
    held = {name: own[rank - 1] for name, own in zip(rankers, ranks or (), strict=False) if own[rank - 1] > 0}
    return [name for name, own in held.items() if own == min(held.values())]


def _rank(event: Event, row: Mapping[str, Any]) -> int | str:
    """The rank of an event in `documents`, or why it has none there."""
    document = event.document
    if document is None:
        shown = build_whole_list(row)
        if event.rank is None or not 1 <= event.rank <= len(shown):
            return reasons.NO_RANK
        document = shown[event.rank - 1]
    if document in row["documents"]:
        return int(row["documents"].index(document)) + 1
    return reasons.FIXED if document in (row.get("fixed") or {}).values() else reasons.NO_DOCUMENT


def _untimely(event: Event, showing: Showing) -> str:
    if _is_ahead(event):
        return reasons.FUTURE
    if event.time < showing.time - reasons.MOST_EARLY:
        return reasons.EARLY
    if event.time > showing.until:
        return reasons.LATE
    return reasons.FOLDED if showing.folded else ""


def _is_ahead(event: Event) -> bool:
    return event.time > event.received + reasons.MOST_AHEAD


def _match(event: Event, showing: Showing, rank: int) -> Match:
    return Match(showing.id, rank, max(event.time, showing.time))


def _when(one: Ranked) -> tuple[int, str]:
    return one[0].time, one[0].id
