"""Experiments in a store: drafts, versions, states, and a history of who did what."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from interleaf.errors import StateError
from interleaf.experiment import Experiment
from interleaf.experiment.traffic import free_place
from interleaf.store.contract import DECIDED, DRAFT, RUNNING, STOPPED, Recorded, Stored
from interleaf.store.database import Transaction, is_kept

_POSSIBLE = {
    DRAFT: "edit it, or start it",
    RUNNING: "edit it, which makes a new version, or stop it",
    STOPPED: "decide it",
    DECIDED: "nothing more; create another one",
}


class Experiments:
    """The experiments that a transaction sees."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def all(self, only: str | None = None) -> list[Stored]:
        """All experiments by name, or one."""
        where, values = ("", ()) if only is None else ("WHERE {} = ?", (only,))
        histories: dict[str, list[Recorded]] = {}
        for name, *rest in self._transaction.rows(
            "SELECT experiment, time, version, what, who, note FROM history "
            f"{where.format('experiment')} ORDER BY number",
            *values,
        ):
            histories.setdefault(name, []).append(Recorded(*rest))
        versions: dict[str, dict[int, Experiment]] = {}
        for name, version, settings in self._transaction.rows(
            f"SELECT experiment, version, settings FROM versions {where.format('experiment')} ORDER BY version", *values
        ):
            versions.setdefault(name, {})[version] = parsed(settings)
        return [
            Stored(
                versions[name][version],
                version,
                state,
                created,
                started,
                stopped,
                tuple(histories[name]),
                versions[name],
            )
            for name, version, state, created, started, stopped in self._transaction.rows(
                f"SELECT name, version, state, created, started, stopped FROM experiments {where.format('name')} "
                "ORDER BY name",
                *values,
            )
        ]

    def one(self, name: str) -> Stored:
        """An experiment, or KeyError."""
        found = self.all(name) if is_kept(name) else []
        if not found:
            raise KeyError(name)
        return found[0]

    def create(self, settings: Experiment, now: int, who: str) -> None:
        """A new draft."""
        self._transaction.alone()
        found = self.all(settings.name)
        if found:
            state = found[0].state
            possible = "" if state == DECIDED else f", or {_POSSIBLE[state]}"
            raise StateError(
                f"there is an experiment {settings.name!r} already, {state}; choose another name{possible}"
            )
        self._transaction.change(
            "INSERT INTO experiments (name, version, state, created) VALUES (?, 1, ?, ?)", settings.name, DRAFT, now
        )
        self._keep(settings, 1)
        self._note(settings.name, 1, "created", now, who)

    def edit(self, settings: Experiment, now: int, who: str) -> None:
        """A draft is changed; a running experiment gets a new version."""
        self._transaction.alone()
        found = self._in(settings.name, "edited", DRAFT, RUNNING)
        version = found.version
        if found.state == RUNNING:
            version += 1
            settings = self._placed(settings, found.settings)
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

    def _in(self, name: str, what: str, *states: str) -> Stored:
        found = self.one(name)
        if found.state not in states:
            raise StateError(f"experiment {name!r} cannot be {what}: it is {_said(found)}")
        return found

    def _placed(self, settings: Experiment, before: Experiment | None = None) -> Experiment:
        """With its place in the lane: the one it had, where its share is as it was, so that units stay who they are."""
        running = [one.settings for one in self.all() if one.state == RUNNING and one.settings.name != settings.name]
        if before and (before.lane, before.share) == (settings.lane, settings.share) and settings.offset is None:
            settings = replace(settings, offset=before.offset)
        return replace(settings, offset=free_place(settings, running))

    def _keep(self, settings: Experiment, version: int) -> None:
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
def parsed(settings: str) -> Experiment:
    """Settings as they are kept."""
    return Experiment.of(json.loads(settings))


def _said(stored: Stored) -> str:
    return f"{stored.state}, version {stored.version}; {_POSSIBLE[stored.state]}"


def _changes(before: Experiment, after: Experiment) -> str:
    """The names of the settings that differ."""
    old, new = before.to_dict(), after.to_dict()
    names: Iterable[str] = (name for name in new if new[name] != old[name])
    return ", ".join(names) or "nothing changed"
