"""Experiments in a store: drafts, versions, states, and a history of who did what."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from interleaf.errors import InterleafError, StateError
from interleaf.experiment import Experiment
from interleaf.experiment.traffic import free_place
from interleaf.store import experiment_search
from interleaf.store.contract import (
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
from interleaf.store.database import Row, Transaction, is_kept

_POSSIBLE = {
    DRAFT: "edit it, or start it",
    RUNNING: "edit it, which makes a new version, or stop it",
    STOPPED: "decide it",
    DECIDED: "nothing more; create another one",
}
MAX_COUNT = 1000  # experiments that are counted
_COLUMNS = "name, version, state, created, started, stopped, archived"
_STEP = 500  # experiments read at a time


class Experiments:
    """The experiments that a transaction sees."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def find(self, search: Search = EVERYTHING, limit: int | None = None, offset: int = 0) -> list[Stored]:
        """Experiments that a search finds: what runs first, then drafts, then the rest, each the latest first."""
        source, condition, values, order, _ = experiment_search.select(self._transaction, search)
        rows = self._transaction.rows(
            f"SELECT {_COLUMNS} FROM {source} WHERE {condition} ORDER BY {order} LIMIT ? OFFSET ?",
            *(*values, 2**62 if limit is None else limit, offset),
        )
        return [one for start in range(0, len(rows), _STEP) for one in self._whole(rows[start : start + _STEP])]

    def count(self, search: Search = EVERYTHING) -> ExperimentCount:
        """How many a search finds, counted up to `MAX_COUNT`."""
        source, condition, values, _, is_whole = experiment_search.select(self._transaction, search)
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
            versions[name][version] = parsed(settings)
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
        """Whether one version of one experiment has ever run, and no other."""
        rows = self._transaction.rows(
            "SELECT 1 FROM experiments e JOIN versions v ON v.experiment = e.name WHERE e.state <> ? LIMIT 2", DRAFT
        )
        return len(rows) == 1

    def create(self, settings: Experiment, now: int, who: str) -> None:
        """A new draft; where one of the same name was deleted, versions go on from there, so that none means two."""
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
        """A draft is changed; a running experiment gets a new version, unless only its notes are different."""
        self._transaction.alone()
        found = self.one(settings.name)
        version = found.version
        if found.state == RUNNING:
            settings = self._placed(settings, found.settings)
        if not settings.differs_in_notes_only(found.settings):
            self._check(found, "edited", DRAFT, RUNNING)
            if found.state == RUNNING:
                version += 1
                self._transaction.change("UPDATE experiments SET version = ? WHERE name = ?", version, settings.name)
        self._keep(settings, version)
        self._note(settings.name, version, "edited", now, who, _changes(found.settings, settings))

    def start(self, name: str, now: int, who: str) -> None:
        """A draft begins to run, in a free place of its lane."""
        self._transaction.alone()
        found = self._in(name, "started", DRAFT)
        self._keep(self._placed(found.settings), found.version)
        self._transaction.change("UPDATE experiments SET state = ?, started = ? WHERE name = ?", RUNNING, now, name)
        self._note(name, found.version, "started", now, who)

    def stop(self, name: str, now: int, who: str) -> None:
        """A running experiment ends."""
        self._transaction.alone()
        found = self._in(name, "stopped", RUNNING)
        self._transaction.change("UPDATE experiments SET state = ?, stopped = ? WHERE name = ?", STOPPED, now, name)
        self._note(name, found.version, "stopped", now, who)

    def decide(self, name: str, decision: str, now: int, who: str) -> None:
        """What was decided is written down."""
        self._transaction.alone()
        found = self._in(name, "decided", STOPPED)
        self._transaction.change("UPDATE experiments SET state = ? WHERE name = ?", DECIDED, name)
        self._note(name, found.version, "decided", now, who, decision)

    def archive(self, name: str, now: int, who: str) -> None:
        """Hide an experiment from lists; one that runs is stopped."""
        self._transaction.alone()
        found = self.one(name)
        if found.archived is not None:
            raise StateError(f"experiment {name!r} cannot be archived: it is so already")
        if found.state == RUNNING:
            self.stop(name, now, who)
        self._transaction.change("UPDATE experiments SET archived = ? WHERE name = ?", now, name)
        self._note(name, found.version, "archived", now, who)

    def unarchive(self, name: str, now: int, who: str) -> None:
        """Show it in lists again; what was stopped stays so."""
        self._transaction.alone()
        found = self.one(name)
        if found.archived is None:
            raise StateError(f"experiment {name!r} cannot be unarchived: it is not archived")
        self._transaction.change("UPDATE experiments SET archived = NULL WHERE name = ?", name)
        self._note(name, found.version, "unarchived", now, who)

    def _in(self, name: str, what: str, *states: str) -> Stored:
        return self._check(self.one(name), what, *states)

    def _check(self, found: Stored, what: str, *states: str) -> Stored:
        """Refuse what cannot be done to an experiment in its state."""
        name = found.settings.name
        if found.archived is not None:
            raise StateError(f"experiment {name!r} cannot be {what}: it is archived; unarchive it first")
        if found.state not in states:
            raise StateError(f"experiment {name!r} cannot be {what}: it is {_said(found)}")
        return found

    def _placed(self, settings: Experiment, before: Experiment | None = None) -> Experiment:
        """With its place in the lane: the one it had, where its share is as it was, so that units stay who they are."""
        running = self._running_in(settings.lane, settings.name) if settings.lane is not None else []
        if before and (before.lane, before.share) == (settings.lane, settings.share) and settings.offset is None:
            settings = replace(settings, offset=before.offset)
        return replace(settings, offset=free_place(settings, running))

    def _running_in(self, lane: str, but: str) -> list[Experiment]:
        """The settings of other experiments that run in a lane."""
        rows = self._transaction.rows(
            "SELECT v.settings FROM experiments e JOIN versions v ON v.experiment = e.name AND v.version = e.version "
            "WHERE e.state = ? AND e.name <> ? AND v.settings LIKE ? ESCAPE '!'",
            *(RUNNING, but, f'%"lane": "{_literal(lane)}"%'),
        )
        found = [parsed(settings) for (settings,) in rows]
        return [one for one in found if one.lane == lane]  # a note may have the same words

    def _keep(self, settings: Experiment, version: int) -> None:
        experiment_search.index(self._transaction, settings.name, settings.words)
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


def _literal(text: str) -> str:
    """A text in which no character has a meaning of its own for LIKE."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


@lru_cache(256)
def parsed(settings: str) -> Experiment:
    """Settings as they are kept."""
    return Experiment.of(json.loads(settings))


def index_experiments(transaction: Transaction) -> None:
    """Let all experiments of a store be found by their words: the step that makes the table of words."""
    last = ""
    while rows := transaction.rows(
        "SELECT e.name, v.settings FROM experiments e JOIN versions v ON v.experiment = e.name "
        "AND v.version = e.version WHERE e.name > ? ORDER BY e.name LIMIT ?",
        *(last, _STEP),
    ):
        for name, settings in rows:
            try:
                text = parsed(settings).words
            except InterleafError:  # settings that were possible once
                text = name
            experiment_search.index(transaction, name, text)
        last = rows[-1][0]


def _said(stored: Stored) -> str:
    return f"{stored.state}, version {stored.version}; {_POSSIBLE[stored.state]}"


def _changes(before: Experiment, after: Experiment) -> str:
    """The names of the settings that differ."""
    old, new = before.to_dict(), after.to_dict()
    names: Iterable[str] = (name for name in new if new[name] != old[name])
    return ", ".join(names) or "nothing changed"
