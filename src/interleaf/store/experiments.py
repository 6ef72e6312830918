"""Experiments in a store: drafts, versions, states, history; and a prefix search with limited cost.

The search looks up prefixes of words in names, rankers and notes. A rare word leads to few experiments, which are all
checked. If every word of a search is common, only the first `MAX_SCANNED` experiments of the list are checked.

What was last noted of each running experiment is stored, so that a change is noted once, whatever number of workers
look.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from interleaf.errors import InterleafError, StateError
from interleaf.experiment import Experiment
from interleaf.experiment.assignment import free_place
from interleaf.store.database import Row, SqlTable, Transaction, is_kept
from interleaf.store.history import EVENT_KINDS, SERVICE, STOP, VERDICT, OutboxStore, add_history, read_histories
from interleaf.store.records import DECIDED, DRAFT, EVERYTHING, RUNNING, STOPPED, ExperimentCount, Search, Stored

WORDS = SqlTable("experiment_words", "experiment text, word text", ("experiment", "word"))
MAX_WORDS = 10  # of a search
MAX_LENGTH = 40  # of a word, in characters
MAX_RARE = 1000  # rows of a word that is rare
MAX_SCANNED = 3000
_ORDER = f"(CASE state WHEN '{RUNNING}' THEN 0 WHEN '{DRAFT}' THEN 1 ELSE 2 END)"  # the expression of the index
_FIRST_IDEOGRAPH = "\u2e80"  # from here on, each character is a word
_LAST = "\U0010ffff"  # sorts after every other character
_RANGE = "word >= ? AND word < ?"
_HAS_WORD = f"EXISTS (SELECT 1 FROM experiment_words w WHERE w.experiment = name AND {_RANGE})"
_POSSIBLE = {
    DRAFT: "edit it, or start it",
    RUNNING: "edit it, which makes a new version, or stop it",
    STOPPED: "decide it",
    DECIDED: "nothing more; create another one",
}
MAX_COUNT = 1000  # experiments that are counted
_COLUMNS = "name, version, state, created, started, stopped, archived"
_STEP = 500  # experiments read at a time
AUTOMATIC = "automatic rule"  # who stops an experiment by its stop rules


def select(transaction: Transaction, search: Search) -> tuple[str, str, list[Any], str, bool]:
    """The experiments that a search finds, as parts of a SQL statement: source, condition, values and order.

    The last item says whether no experiment that matches the search is left out.
    """
    conditions = {None: ["1 = 1"], True: ["archived IS NOT NULL"], False: ["archived IS NULL"]}[search.archived]
    equal = {"state": search.state, "name": search.only}
    conditions += [f"{column} = ?" for column, value in equal.items() if value is not None]
    condition, values = " AND ".join(conditions), [value for value in equal.values() if value is not None]
    order = f"{_ORDER}, created DESC, name" if search.state is None else "created DESC, name"
    words = [word[:MAX_LENGTH] for word in search.text.casefold().split()[:MAX_WORDS]]
    ranges = [(word, word + _LAST) for word in words]
    if not ranges:
        return "experiments", condition, values, order, True
    rows = f"SELECT 1 FROM experiment_words WHERE {_RANGE} LIMIT {MAX_RARE + 1}"  # stop counting above the limit
    counts = [_number(transaction, f"SELECT count(*) FROM ({rows}) AS counted", one) for one in ranges]
    rare = counts.index(min(counts))
    if counts[rare] <= MAX_RARE:
        first, others = ranges[rare], [one for place, one in enumerate(ranges) if place != rare]
        # SQLite does not reorder a cross join.
        source = f"(SELECT DISTINCT experiment FROM experiment_words WHERE {_RANGE}) AS found CROSS JOIN experiments"
        wanted = [condition, "name = found.experiment", *[_HAS_WORD] * len(others)]
        return source, " AND ".join(wanted), [*first, *values, *itertools.chain(*others)], order, True
    source = f"(SELECT * FROM experiments WHERE {condition} ORDER BY {order} LIMIT {MAX_SCANNED}) AS first_ones"
    scanned = _number(transaction, f"SELECT count(*) FROM (SELECT 1 FROM {source}) AS counted", values)
    has_words = " AND ".join([_HAS_WORD] * len(ranges))
    return source, has_words, [*values, *itertools.chain(*ranges)], order, scanned < MAX_SCANNED


def _number(transaction: Transaction, statement: str, values: Iterable[Any]) -> int:
    ((number,),) = transaction.rows(statement, *values)
    return int(number)


def index(transaction: Transaction, experiment: str, text: str) -> None:
    """Index the words of a text as the search terms of an experiment, and remove all others."""
    before = set(transaction.column("SELECT word FROM experiment_words WHERE experiment = ?", experiment))
    now = set(beginnings(text))
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
            kind = "digit" if sign.isdecimal() else "letter" if sign.isalpha() and sign < _FIRST_IDEOGRAPH else ""
            if not kind or kind != before:
                yield word[place : place + MAX_LENGTH]
            before = kind


class ExperimentStore(OutboxStore):
    """The experiments of a store: unknown names raise KeyError, wrong states StateError, settings ExperimentError."""

    def experiments(self, search: Search = EVERYTHING, limit: int | None = None, offset: int = 0) -> list[Stored]:
        """Experiments that match a search: running ones, then drafts, then others, each latest first."""
        with self._database.reading() as transaction:
            source, condition, values, order, _ = select(transaction, search)
            rows = transaction.rows(
                f"SELECT {_COLUMNS} FROM {source} WHERE {condition} ORDER BY {order} LIMIT ? OFFSET ?",
                *(*values, 2**62 if limit is None else limit, offset),
            )
            return _with_versions(transaction, rows)

    def count_experiments(self, search: Search = EVERYTHING) -> ExperimentCount:
        """How many experiments match a search, counted up to `MAX_COUNT`."""
        with self._database.reading() as transaction:
            source, condition, values, _, is_whole = select(transaction, search)
            rows = f"SELECT 1 FROM {source} WHERE {condition} LIMIT {MAX_COUNT + 1}"
            number = _number(transaction, f"SELECT count(*) FROM ({rows}) AS counted", values)
        return ExperimentCount(min(number, MAX_COUNT), is_whole and number <= MAX_COUNT)

    def is_alone(self) -> bool:
        """Whether only one version of one experiment has ever run."""
        statement = "SELECT 1 FROM experiments e JOIN versions v ON v.experiment = e.name WHERE e.state <> ? LIMIT 2"
        with self._database.reading() as transaction:
            return len(transaction.rows(statement, DRAFT)) == 1

    def experiment(self, name: str) -> Stored:
        """One experiment, with all its versions and its history."""
        with self._database.reading() as transaction:
            return read_experiment(transaction, name)

    def create(self, settings: Experiment, now: int, who: str) -> Stored:
        """Create a draft. Version numbers continue after those of a deleted experiment with the same name."""
        name = settings.name
        with self._changing() as transaction:
            for state in transaction.column("SELECT state FROM experiments WHERE name = ?", name):
                possible = "" if state == DECIDED else f", or {_POSSIBLE[state]}"
                raise StateError(f"there is an experiment {name!r} already, {state}; choose another name{possible}")
            deleted = transaction.column("SELECT version FROM deleted_experiments WHERE name = ?", name)
            version = 1 + max(deleted, default=0)
            insert = "INSERT INTO experiments (name, version, state, created) VALUES (?, ?, ?, ?)"
            transaction.change(insert, name, version, DRAFT, now)
            _write_settings(transaction, settings, version)
            return _record(transaction, name, version, "created", now, who)

    def edit(self, settings: Experiment, now: int, who: str) -> Stored:
        """Change a draft, or create a new version of a running experiment, with a fresh analysis.

        If only notes or stop rules differ (`EDITABLE`), the version stays the same, in any state.
        """
        with self._changing() as transaction:
            before = read_experiment(transaction, settings.name)
            version = before.version
            if before.state == RUNNING:
                settings = _place_in_lane(transaction, settings, before.settings)
            if settings.needs_new_version(before.settings):
                _check_state(before, "edited", DRAFT, RUNNING)
                version += before.state == RUNNING
            _write_settings(transaction, settings, version)
            old, new = before.settings.to_dict(), settings.to_dict()
            changes = ", ".join(name for name in new if new[name] != old[name]) or "nothing changed"
            return _record(transaction, settings.name, version, "edited", now, who, changes)

    def start(self, name: str, now: int, who: str) -> Stored:
        """Start a draft, in a free place of its lane."""
        with self._changing() as transaction:
            draft = _check_state(read_experiment(transaction, name), "started", DRAFT)
            _write_settings(transaction, _place_in_lane(transaction, draft.settings), draft.version)
            return _record(transaction, name, draft.version, "started", now, who, state=RUNNING, started=now)

    def stop(self, name: str, now: int, who: str) -> Stored:
        """Stop a running experiment."""
        with self._changing() as transaction:
            running = _check_state(read_experiment(transaction, name), "stopped", RUNNING)
            return self._stop(transaction, running, now, who)

    def decide(self, name: str, decision: str, now: int, who: str) -> Stored:
        """Record the decision on a stopped experiment."""
        with self._changing() as transaction:
            stopped = _check_state(read_experiment(transaction, name), "decided", STOPPED)
            return _record(transaction, name, stopped.version, "decided", now, who, decision, state=DECIDED)

    def archive(self, name: str, now: int, who: str) -> Stored:
        """Hide an experiment from lists, and stop it if it is running."""
        with self._changing() as transaction:
            before = read_experiment(transaction, name)
            if before.archived is not None:
                raise StateError(f"experiment {name!r} cannot be archived: it is archived already")
            if before.state == RUNNING:
                self._stop(transaction, before, now, who)
            return _record(transaction, name, before.version, "archived", now, who, archived=now)

    def unarchive(self, name: str, now: int, who: str) -> Stored:
        """Show an experiment in lists again; it stays stopped."""
        with self._changing() as transaction:
            before = read_experiment(transaction, name)
            if before.archived is None:
                raise StateError(f"experiment {name!r} cannot be unarchived: it is not archived")
            return _record(transaction, name, before.version, "unarchived", now, who, archived=None)

    def _stop(
        self,
        transaction: Transaction,
        running: Stored,
        now: int,
        who: str,
        reason: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> Stored:
        """Stop a running experiment, and write the webhooks of that; by default with the verdict noted last."""
        name = running.settings.name
        if facts is None:
            states = transaction.column("SELECT state FROM watched WHERE experiment = ?", name)
            state = json.loads(states[0]) if states else {}
            values = state["values"] if state.get("version") == running.version else {}
            facts = values.get(VERDICT, {"verdict": None})
        self._enqueue(transaction, running, STOP, 0, now, {**facts, "reason": reason, "by": who})
        return _record(transaction, name, running.version, "stopped", now, who, reason, state=STOPPED, stopped=now)

    @contextmanager
    def _changing(self) -> Iterator[Transaction]:
        """A writing transaction that waits for all others that change experiments."""
        with self._database.writing() as transaction:
            transaction.alone()
            yield transaction


def read_experiment(transaction: Transaction, name: str) -> Stored:
    """An experiment, or KeyError."""
    rows = transaction.rows(f"SELECT {_COLUMNS} FROM experiments WHERE name = ?", name) if is_kept(name) else []
    if not rows:
        raise KeyError(name)
    return _with_versions(transaction, rows)[0]


def _with_versions(transaction: Transaction, rows: Sequence[Row]) -> list[Stored]:
    """Rows of experiments, with their versions and histories."""
    names = [row[0] for row in rows]
    histories = read_histories(transaction, names)
    versions: dict[str, dict[int, Experiment]] = {name: {} for name in names}
    statement = "SELECT experiment, version, settings FROM versions WHERE experiment = ANY(?) ORDER BY version"
    for name, version, settings in transaction.rows(statement, names):
        versions[name][version] = parse_settings(settings)
    return [
        Stored(
            *(versions[name][version], version, state, created, started, stopped),
            *(tuple(histories[name]), versions[name], archived),
        )
        for name, version, state, created, started, stopped, archived in rows
    ]


def _check_state(experiment: Stored, what: str, *states: str) -> Stored:
    """Raise StateError if the state of an experiment does not allow an action."""
    problem = f"experiment {experiment.settings.name!r} cannot be {what}: it is"
    if experiment.archived is not None:
        raise StateError(f"{problem} archived; unarchive it first")
    if experiment.state not in states:
        raise StateError(f"{problem} {experiment.state}, version {experiment.version}; {_POSSIBLE[experiment.state]}")
    return experiment


def _place_in_lane(transaction: Transaction, settings: Experiment, before: Experiment | None = None) -> Experiment:
    """The settings with an offset in the lane. If the share is unchanged, the offset is, too, so the units stay."""
    running: list[Experiment] = []
    if settings.lane is not None:
        literal = settings.lane.replace("!", "!!").replace("%", "!%").replace("_", "!_")  # the wildcards of LIKE
        texts = transaction.column(
            "SELECT v.settings FROM experiments e JOIN versions v ON v.experiment = e.name AND v.version = e.version "
            "WHERE e.state = ? AND e.name <> ? AND v.settings LIKE ? ESCAPE '!'",
            *(RUNNING, settings.name, f'%"lane": "{literal}"%'),
        )
        running = [parse_settings(text) for text in texts]  # also some of other lanes, if notes have these words
    if before and (before.lane, before.share) == (settings.lane, settings.share) and settings.offset is None:
        settings = replace(settings, offset=before.offset)
    return replace(settings, offset=free_place(settings, running))


def _write_settings(transaction: Transaction, settings: Experiment, version: int) -> None:
    index(transaction, settings.name, settings.words)
    transaction.change(
        "INSERT INTO versions (experiment, version, settings) VALUES (?, ?, ?) "
        "ON CONFLICT (experiment, version) DO UPDATE SET settings = excluded.settings",
        *(settings.name, version, json.dumps(settings.to_dict())),
    )


def _record(
    transaction: Transaction, name: str, version: int, what: str, now: int, who: str, note: str = "", **columns: Any
) -> Stored:
    """Change columns of an experiment, and add an entry to its history; returns the experiment."""
    assignments = ", ".join(f"{column} = ?" for column in ("version", *columns))
    transaction.change(f"UPDATE experiments SET {assignments} WHERE name = ?", version, *columns.values(), name)
    add_history(transaction, name, version, what, now, who, note)
    return read_experiment(transaction, name)


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
            before = watched.stored
            if (stored.state, stored.version, stored.settings) != (RUNNING, before.version, before.settings):
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
