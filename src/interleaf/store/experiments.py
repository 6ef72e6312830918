"""The table of experiments: drafts, versions, states, history; and a prefix search with limited cost.

The search looks up prefixes of words in names, rankers and notes. A rare word leads to few experiments, which are all
checked. If every word of a search is common, only the first `MAX_SCANNED` experiments of the list are checked.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from interleaf.errors import InterleafError, StateError
from interleaf.experiment import Experiment
from interleaf.experiment.assignment import free_place
from interleaf.store.database import Row, SqlTable, Transaction, is_kept
from interleaf.store.records import (
    DECIDED,
    DRAFT,
    EVERYTHING,
    RUNNING,
    STOPPED,
    ExperimentCount,
    Recorded,
    Search,
    Stored,
)

WORDS = SqlTable("experiment_words", {"experiment": "text", "word": "text"}, ("experiment", "word"))
MAX_WORDS = 10  # of a search
MAX_LENGTH = 40  # of a word, in characters
MAX_RARE = 1000  # rows of a word that is rare
MAX_SCANNED = 3000
_ORDER = f"(CASE state WHEN '{RUNNING}' THEN 0 WHEN '{DRAFT}' THEN 1 ELSE 2 END)"  # the expression of the index
_LAST = "\U0010ffff"  # sorts after every other character
_RANGE = "word >= ? AND word < ?"
_HAS_WORD = f"EXISTS (SELECT 1 FROM experiment_words w WHERE w.experiment = name AND {_RANGE})"


class Selection(NamedTuple):
    """Experiments as parts of a SQL statement: source, condition, values and order.

    `is_whole`: no experiment that matches the search is left out.
    """

    source: str
    condition: str
    values: list[Any]
    order: str
    is_whole: bool


def select(transaction: Transaction, search: Search) -> Selection:
    """The experiments that a search finds."""
    condition, values = _filter(search)
    order = f"{_ORDER}, created DESC, name" if search.state is None else "created DESC, name"
    words = [word[:MAX_LENGTH] for word in search.text.casefold().split()[:MAX_WORDS]]
    ranges = [(word, word + _LAST) for word in words]
    if not ranges:
        return Selection("experiments", condition, values, order, True)
    rows = f"SELECT 1 FROM experiment_words WHERE {_RANGE} LIMIT {MAX_RARE + 1}"  # stop counting above the limit
    counts = [_number(transaction, f"SELECT count(*) FROM ({rows}) AS counted", one) for one in ranges]
    rare = counts.index(min(counts))
    if counts[rare] <= MAX_RARE:
        first, others = ranges[rare], [one for place, one in enumerate(ranges) if place != rare]
        # SQLite does not reorder a cross join.
        source = f"(SELECT DISTINCT experiment FROM experiment_words WHERE {_RANGE}) AS found CROSS JOIN experiments"
        wanted = [condition, "name = found.experiment", *[_HAS_WORD] * len(others)]
        return Selection(source, " AND ".join(wanted), [*first, *values, *itertools.chain(*others)], order, True)
    source = f"(SELECT * FROM experiments WHERE {condition} ORDER BY {order} LIMIT {MAX_SCANNED}) AS first_ones"
    scanned = _number(transaction, f"SELECT count(*) FROM (SELECT 1 FROM {source}) AS counted", values)
    wanted = [_HAS_WORD] * len(ranges)
    given = [*values, *itertools.chain(*ranges)]
    return Selection(source, " AND ".join(wanted), given, order, scanned < MAX_SCANNED)


def _filter(search: Search) -> tuple[str, list[Any]]:
    """State, archive and name of a search as a condition, and its values."""
    conditions = {None: ["1 = 1"], True: ["archived IS NOT NULL"], False: ["archived IS NULL"]}[search.archived]
    given = [("state", search.state), ("name", search.only)]
    conditions += [f"{column} = ?" for column, value in given if value is not None]
    return " AND ".join(conditions), [value for _, value in given if value is not None]


def _number(transaction: Transaction, statement: str, values: Iterable[Any]) -> int:
    ((number,),) = transaction.rows(statement, *values)
    return int(number)


def index(transaction: Transaction, experiment: str, text: str) -> None:
    """Index the words of a text as the search terms of an experiment, and remove all others."""
    rows = transaction.rows("SELECT word FROM experiment_words WHERE experiment = ?", experiment)
    before, now = {word for (word,) in rows}, set(beginnings(text))
    for word in before - now:
        transaction.change("DELETE FROM experiment_words WHERE experiment = ? AND word = ?", experiment, word)
    if new := sorted(now - before):
        transaction.insert(WORDS, [(experiment, word) for word in new])


def beginnings(text: str) -> Iterator[str]:
    """The suffixes of words that start where letters, digits or other signs begin; searches match their prefixes.

    >>> sorted(set(beginnings("Shoes bm25_new")))
    ['25_new', '_new', 'bm25_new', 'new', 'shoes']
    """
    for word in text.casefold().split():
        before = ""
        for place, sign in enumerate(word):
            kind = _kind(sign)
            if not kind or kind != before:
                yield word[place : place + MAX_LENGTH]
            before = kind


def _kind(sign: str) -> str:
    """The class of characters that form a word together; empty if each is a word, as in Chinese."""
    if sign.isdecimal():
        return "digit"
    return "letter" if sign.isalpha() and sign < "\u2e80" else ""


_POSSIBLE = {
    DRAFT: "edit it, or start it",
    RUNNING: "edit it, which makes a new version, or stop it",
    STOPPED: "decide it",
    DECIDED: "nothing more; create another one",
}
MAX_COUNT = 1000  # experiments that are counted
_COLUMNS = "name, version, state, created, started, stopped, archived"
_STEP = 500  # experiments read at a time


class ExperimentTable:
    """The experiments, within a transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def find(self, search: Search = EVERYTHING, limit: int | None = None, offset: int = 0) -> list[Stored]:
        """Experiments that match a search: running ones, then drafts, then others, each latest first."""
        source, condition, values, order, _ = select(self._transaction, search)
        rows = self._transaction.rows(
            f"SELECT {_COLUMNS} FROM {source} WHERE {condition} ORDER BY {order} LIMIT ? OFFSET ?",
            *(*values, 2**62 if limit is None else limit, offset),
        )
        return [one for start in range(0, len(rows), _STEP) for one in self._whole(rows[start : start + _STEP])]

    def count(self, search: Search = EVERYTHING) -> ExperimentCount:
        """How many experiments match a search, counted up to `MAX_COUNT`."""
        source, condition, values, _, is_whole = select(self._transaction, search)
        ((number,),) = self._transaction.rows(
            f"SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {condition} LIMIT {MAX_COUNT + 1}) AS counted", *values
        )
        return ExperimentCount(min(number, MAX_COUNT), is_whole and number <= MAX_COUNT)

    def _whole(self, rows: Sequence[Row]) -> list[Stored]:
        """Rows of experiments, with their versions and histories."""
        if not rows:
            return []
        names = [row[0] for row in rows]
        among = f"WHERE experiment IN ({', '.join('?' * len(names))})"
        histories: dict[str, list[Recorded]] = {name: [] for name in names}
        for name, *rest in self._transaction.rows(
            f"SELECT experiment, time, version, what, who, note FROM history {among} ORDER BY number", *names
        ):
            histories[name].append(Recorded(*rest))
        versions: dict[str, dict[int, Experiment]] = {name: {} for name in names}
        for name, version, settings in self._transaction.rows(
            f"SELECT experiment, version, settings FROM versions {among} ORDER BY version", *names
        ):
            versions[name][version] = parse_settings(settings)
        return [
            Stored(
                *(versions[name][version], version, state, created, started, stopped),
                *(tuple(histories[name]), versions[name], archived),
            )
            for name, version, state, created, started, stopped, archived in rows
        ]

    def one(self, name: str) -> Stored:
        """An experiment, or KeyError."""
        statement = f"SELECT {_COLUMNS} FROM experiments WHERE name = ?"
        found = self._whole(self._transaction.rows(statement, name)) if is_kept(name) else []
        if not found:
            raise KeyError(name)
        return found[0]

    def is_alone(self) -> bool:
        """Whether only one version of one experiment has ever run."""
        rows = self._transaction.rows(
            "SELECT 1 FROM experiments e JOIN versions v ON v.experiment = e.name WHERE e.state <> ? LIMIT 2", DRAFT
        )
        return len(rows) == 1

    def create(self, settings: Experiment, now: int, who: str) -> None:
        """Create a draft. Version numbers continue after those of a deleted experiment with the same name."""
        self._transaction.alone()
        found = self._transaction.rows("SELECT state FROM experiments WHERE name = ?", settings.name)
        if found:
            ((state,),) = found
            possible = "" if state == DECIDED else f", or {_POSSIBLE[state]}"
            raise StateError(
                f"there is an experiment {settings.name!r} already, {state}; choose another name{possible}"
            )
        deleted = self._transaction.rows("SELECT version FROM deleted_experiments WHERE name = ?", settings.name)
        version = 1 + max((number for (number,) in deleted), default=0)
        self._transaction.change(
            "INSERT INTO experiments (name, version, state, created) VALUES (?, ?, ?, ?)",
            *(settings.name, version, DRAFT, now),
        )
        self._keep(settings, version)
        self._note(settings.name, version, "created", now, who)

    def edit(self, settings: Experiment, now: int, who: str) -> None:
        """Change a draft, or create a new version of a running experiment, unless only its notes differ."""
        self._transaction.alone()
        found = self.one(settings.name)
        version = found.version
        if found.state == RUNNING:
            settings = self._place_in_lane(settings, found.settings)
        if not settings.differs_in_notes_only(found.settings):
            self._check(found, "edited", DRAFT, RUNNING)
            if found.state == RUNNING:
                version += 1
                self._transaction.change("UPDATE experiments SET version = ? WHERE name = ?", version, settings.name)
        self._keep(settings, version)
        self._note(settings.name, version, "edited", now, who, _changes(found.settings, settings))

    def start(self, name: str, now: int, who: str) -> None:
        """Start a draft, in a free place of its lane."""
        self._transaction.alone()
        found = self._in(name, "started", DRAFT)
        self._keep(self._place_in_lane(found.settings), found.version)
        self._transaction.change("UPDATE experiments SET state = ?, started = ? WHERE name = ?", RUNNING, now, name)
        self._note(name, found.version, "started", now, who)

    def stop(self, name: str, now: int, who: str) -> None:
        """Stop a running experiment."""
        self._transaction.alone()
        found = self._in(name, "stopped", RUNNING)
        self._transaction.change("UPDATE experiments SET state = ?, stopped = ? WHERE name = ?", STOPPED, now, name)
        self._note(name, found.version, "stopped", now, who)

    def decide(self, name: str, decision: str, now: int, who: str) -> None:
        """Record the decision."""
        self._transaction.alone()
        found = self._in(name, "decided", STOPPED)
        self._transaction.change("UPDATE experiments SET state = ? WHERE name = ?", DECIDED, name)
        self._note(name, found.version, "decided", now, who, decision)

    def archive(self, name: str, now: int, who: str) -> None:
        """Hide an experiment from lists, and stop it if it is running."""
        self._transaction.alone()
        found = self.one(name)
        if found.archived is not None:
            raise StateError(f"experiment {name!r} cannot be archived: it is archived already")
        if found.state == RUNNING:
            self.stop(name, now, who)
        self._transaction.change("UPDATE experiments SET archived = ? WHERE name = ?", now, name)
        self._note(name, found.version, "archived", now, who)

    def unarchive(self, name: str, now: int, who: str) -> None:
        """Show an experiment in lists again; it stays stopped."""
        self._transaction.alone()
        found = self.one(name)
        if found.archived is None:
            raise StateError(f"experiment {name!r} cannot be unarchived: it is not archived")
        self._transaction.change("UPDATE experiments SET archived = NULL WHERE name = ?", name)
        self._note(name, found.version, "unarchived", now, who)

    def _in(self, name: str, what: str, *states: str) -> Stored:
        return self._check(self.one(name), what, *states)

    def _check(self, found: Stored, what: str, *states: str) -> Stored:
        """Raise StateError if the state of an experiment does not allow an action."""
        name = found.settings.name
        if found.archived is not None:
            raise StateError(f"experiment {name!r} cannot be {what}: it is archived; unarchive it first")
        if found.state not in states:
            raise StateError(
                f"experiment {name!r} cannot be {what}: it is {found.state}, version {found.version}; "
                f"{_POSSIBLE[found.state]}"
            )
        return found

    def _place_in_lane(self, settings: Experiment, before: Experiment | None = None) -> Experiment:
        """The settings with an offset in the lane. If the share is unchanged, the offset is, too, so the units stay."""
        running = self._running_in(settings.lane, settings.name) if settings.lane is not None else []
        if before and (before.lane, before.share) == (settings.lane, settings.share) and settings.offset is None:
            settings = replace(settings, offset=before.offset)
        return replace(settings, offset=free_place(settings, running))

    def _running_in(self, lane: str, but: str) -> list[Experiment]:
        """The settings of other experiments that run in a lane."""
        literal = lane.replace("!", "!!").replace("%", "!%").replace("_", "!_")  # escape the wildcards of LIKE
        rows = self._transaction.rows(
            "SELECT v.settings FROM experiments e JOIN versions v ON v.experiment = e.name AND v.version = e.version "
            "WHERE e.state = ? AND e.name <> ? AND v.settings LIKE ? ESCAPE '!'",
            *(RUNNING, but, f'%"lane": "{literal}"%'),
        )
        found = [parse_settings(settings) for (settings,) in rows]
        return [one for one in found if one.lane == lane]  # LIKE also finds the words in notes

    def _keep(self, settings: Experiment, version: int) -> None:
        index(self._transaction, settings.name, settings.words)
        self._transaction.change(
            "INSERT INTO versions (experiment, version, settings) VALUES (?, ?, ?) "
            "ON CONFLICT (experiment, version) DO UPDATE SET settings = excluded.settings",
            *(settings.name, version, json.dumps(settings.to_dict())),
        )

    def _note(self, name: str, version: int, what: str, now: int, who: str, note: str = "") -> None:
        self._transaction.change(
            "INSERT INTO history (experiment, time, version, what, who, note) VALUES (?, ?, ?, ?, ?, ?)",
            *(name, now, version, what, who, note),
        )


@lru_cache(256)
def parse_settings(settings: str) -> Experiment:
    """Settings from their stored form."""
    return Experiment.of(json.loads(settings))


def index_experiments(transaction: Transaction) -> None:
    """Index all experiments of a store: the migration that fills the table of words."""
    last = ""
    while rows := transaction.rows(
        "SELECT e.name, v.settings FROM experiments e JOIN versions v ON v.experiment = e.name "
        "AND v.version = e.version WHERE e.name > ? ORDER BY e.name LIMIT ?",
        *(last, _STEP),
    ):
        for name, settings in rows:
            try:
                text = parse_settings(settings).words
            except InterleafError:  # settings that an older release allowed
                text = name
            index(transaction, name, text)
        last = rows[-1][0]


def _changes(before: Experiment, after: Experiment) -> str:
    """The names of the settings that differ."""
    old, new = before.to_dict(), after.to_dict()
    names: Iterable[str] = (name for name in new if new[name] != old[name])
    return ", ".join(names) or "nothing changed"
