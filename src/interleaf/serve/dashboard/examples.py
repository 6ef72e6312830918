"""Lists that people saw: whose document stood where, and what was clicked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from interleaf.experiment.showing import build_whole_list
from interleaf.render.figures import Names, count
from interleaf.serve.dashboard.pages import moment, short
from interleaf.serve.ingest import to_microseconds

COLOURS = 6  # of teams; the letter tells them apart, too
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Team:
    """A ranker as its documents are marked: a letter, or a number after the last one, and a colour."""

    name: str
    letter: str
    colour: int


@dataclass(frozen=True)
class Shown:
    """A document of a list: whose it is, where the rankers have it, and what people did with it."""

    document: str
    title: str
    team: Team | None
    ranks: str
    events: str
    is_fixed: bool = False


@dataclass(frozen=True)
class Example:
    """One impression."""

    time: Any
    facts: tuple[tuple[str, str], ...]
    documents: tuple[Shown, ...]


def teams(rankers: Iterable[str]) -> tuple[Team, ...]:
    """The marks of all rankers."""
    names = Names(rankers)
    return tuple(
        Team(names[ranker], LETTERS[place] if place < len(LETTERS) else str(place + 1), place % COLOURS)
        for place, ranker in enumerate(rankers)
    )


def example(row: Mapping[str, Any], marked: Sequence[Team]) -> Example:
    """A row of the log, as people look at it."""
    attributes = row.get("attributes") or {}
    known = [
        ("query", row.get("query")),
        ("unit", row.get("unit")),
        ("arm", row.get("arm")),
        *(dict(attributes).items()),
        ("does not count", row.get("excluded")),
    ]
    happened: dict[int, Counter[str]] = {}
    for event in row.get("events") or ():
        happened.setdefault(event["rank"], Counter())[event["kind"]] += 1
    places = {document: place for place, document in enumerate(row["documents"])}
    shown = [
        _shown(row, places[document], marked, happened.get(places[document] + 1))
        if document in places
        else Shown(short(document), "", None, "", "", is_fixed=True)
        for document in build_whole_list(row)
    ]
    facts = tuple((short(str(name), 40), short(str(value))) for name, value in known if value not in (None, ""))
    return Example(_time(row["time"]), facts, tuple(shown))


def _time(time: int | datetime) -> Any:
    return moment(time if isinstance(time, int) else to_microseconds(time))


def _shown(row: Mapping[str, Any], place: int, marked: Sequence[Team], events: Counter[str] | None) -> Shown:
    owner = (row.get("teams") or [-1] * (place + 1))[place]
    caption = (row.get("captions") or [None] * (place + 1))[place] or {}
    ranks = [own[place] for own in row.get("ranks") or ()]
    return Shown(
        short(row["documents"][place]),
        short(caption.get("title") or ""),
        marked[owner] if 0 <= owner < len(marked) else None,
        ", ".join(f"{team.letter} {rank or 'not'}" for team, rank in zip(marked, ranks, strict=False)),
        ", ".join(short(kind, 40) + f" × {count(number)}" * (number > 1) for kind, number in (events or {}).items()),
    )
