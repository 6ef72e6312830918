"""What was last noted of each running experiment, so that a change is noted once, whatever number of workers look."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from interleaf.store.experiments import ExperimentStore, read_experiment
from interleaf.store.history import add_history
from interleaf.store.outbox import EVENT_KINDS, SERVICE
from interleaf.store.records import RUNNING, Stored

AUTOMATIC = "automatic rule"  # who stops an experiment by its stop rules


class Watched(NamedTuple):
    """A running experiment, and what was last noted of its version: a value by kind, and times by kind.

    `revision` counts how often something was noted of the experiment.
    """

    stored: Stored
    revision: int
    values: Mapping[str, Any]
    times: Mapping[str, int]


class Change(NamedTuple):
    """A new value of a kind, with a note for the history."""

    kind: str
    value: Any
    note: str


class WatchStore(ExperimentStore):
    """The part of a store that notes changes of running experiments."""

    def claim_looks(self, now: int, period: int, most: int) -> list[Watched]:
        """Running experiments that no worker has looked at for this time; others leave them alone for as long."""
        with self._changing() as transaction:
            rows = transaction.rows(
                "SELECT e.name, w.revision, w.state FROM experiments e LEFT JOIN watched w ON w.experiment = e.name "
                "WHERE e.state = ? AND (w.looked IS NULL OR w.looked <= ? OR w.looked > ?) ORDER BY w.looked LIMIT ?",
                *(RUNNING, now - period, now, most),
            )
            looks = []
            for name, revision, text in rows:
                transaction.change(
                    "INSERT INTO watched (experiment, looked, revision, state) VALUES (?, ?, 0, '{}') "
                    "ON CONFLICT (experiment) DO UPDATE SET looked = excluded.looked",
                    *(name, now),
                )
                stored, state = read_experiment(transaction, name), json.loads(text or "{}")
                values = state["values"] if state.get("version") == stored.version else {}
                looks.append(Watched(stored, revision or 0, values, state.get("times", {})))
            return looks

    def note_changes(
        self, watched: Watched, changes: Sequence[Change], facts: Mapping[str, Any], now: int, stop: str = ""
    ) -> Stored | None:
        """Write changes to the history and the outbox, and stop the experiment if there is a reason.

        Returns None, and does nothing, if something else was noted meanwhile, or if the experiment was edited or
        stopped. `facts` are for webhooks.
        """
        name, version = watched.stored.settings.name, watched.stored.version
        with self._changing() as transaction:
            revisions = transaction.column("SELECT revision FROM watched WHERE experiment = ?", name)
            if revisions != [watched.revision]:
                return None
            stored = read_experiment(transaction, name)
            seen = watched.stored
            if (stored.state, stored.version, stored.settings) != (RUNNING, seen.version, seen.settings):
                return None
            for change in changes:
                add_history(transaction, name, version, change.kind, now, SERVICE, change.note)
                if change.kind in EVENT_KINDS:
                    reported = {**facts, "reason": change.note}
                    self._enqueue(transaction, stored, change.kind, watched.revision, now, reported)
            state = {
                "version": version,
                "values": {**watched.values, **{change.kind: change.value for change in changes}},
                "times": {**watched.times, **{change.kind: now for change in changes}},
            }
            update = "UPDATE watched SET revision = revision + 1, state = ? WHERE experiment = ?"
            transaction.change(update, json.dumps(state), name)
            if stop:
                return self._stop(transaction, stored, now, AUTOMATIC, stop, facts)
            return read_experiment(transaction, name)
