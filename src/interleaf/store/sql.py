"""The store in SQL, over any database; `open_store` opens it by its address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from interleaf.environment import require
from interleaf.errors import DataError, InterleafError
from interleaf.experiment import Experiment
from interleaf.store.attribution import Matching
from interleaf.store.codec import COLUMNS, EVENT_COLUMNS
from interleaf.store.database import Database, is_kept
from interleaf.store.epoch_plans import EpochPlanStore
from interleaf.store.experiments import WatchStore
from interleaf.store.fold import PAGE, Folding, batch_with_events, closed_versions
from interleaf.store.impression_rows import ROW, Writing, check_event, row_of, rows_of
from interleaf.store.keys import KeyStore
from interleaf.store.privacy import DeletionStore
from interleaf.store.records import DRAFT, Event, StoredImpression, VersionCounts
from interleaf.store.sql_tables import IMPRESSIONS, upgrade
from interleaf.store.time_check import ClockStore, StoreTime
from interleaf.tally import Tally

MAX_VERSIONS = 10_000  # versions whose attribution setting is cached
_FILE, _POSTGRES = "sqlite:///", ("postgresql://", "postgres://")


class SqlStore(ClockStore, DeletionStore, EpochPlanStore, KeyStore, WatchStore):
    """The data of a service in a database. All methods block.

    An impression or event is acknowledged only when it is durable. Writes are idempotent by id. Impressions whose
    attribution window is over are folded into the tally of their experiment's version in the transaction that marks
    them folded. A report is that tally plus the open impressions, which are scored when it is read.
    """

    def __init__(self, database: Database) -> None:
        upgrade(database)
        self._database = database
        self.connections, self.warnings = database.connections, database.warnings
        self.back_up, self.close = database.back_up, database.close
        self._folding = Folding(database)
        self._sought: dict[tuple[str, int], int] = {}

    # The hot path.

    def write(
        self, impressions: Sequence[StoredImpression], events: Sequence[Event]
    ) -> tuple[list[Mapping[str, Any] | None], list[str]]:
        """Write impressions and events in one durable transaction.

        Returns for each impression the row that was already stored under its id, or None; and for each event the code
        of its `EventFate`. If one cannot be stored (an id of more than 1,000 bytes, a null character, a lone
        surrogate, a number out of range), DataError is raised and nothing is written.
        """
        self._check_unit_secret()
        rows = rows_of(impressions, self._versions({(one.experiment, one.version) for one in impressions}))
        for event in events:
            check_event(event)
        if not events and self._database.put(IMPRESSIONS, rows, lambda one: bool(Writing(one).find_awaiting(rows))):
            return [None] * len(rows), []
        with self._database.writing() as transaction:
            writing = Writing(transaction)
            return writing.impressions(rows), writing.events(events)

    def _versions(self, used: set[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """For these versions, and maybe others, whether impressions are found by their unit.

        Settings of a version that is not a draft never change, so they are cached.
        """
        sought = self._sought
        if not used <= sought.keys():
            with self._database.reading() as transaction:
                names = list({name for name, _ in used})
                read_now = Matching(transaction).sought(names)
                statement = "SELECT name FROM experiments WHERE state = ? AND name = ANY(?)"
                drafts = transaction.column(statement, DRAFT, names)
            cached = self._sought if len(self._sought) < MAX_VERSIONS else {}
            sought = cached | read_now
            self._sought = {place: way for place, way in sought.items() if place[0] not in drafts}
        for name, version in used - sought.keys():
            raise DataError(f"there is no version {version} of an experiment {name!r}; create it first")
        return sought

    def row(self, impression: str) -> Mapping[str, Any] | None:
        """The row of an impression, with every column of the log but its events, or None."""
        if not is_kept(impression):
            return None
        with self._database.reading() as transaction:
            return Writing(transaction).read_rows([impression]).get(impression)

    def extend(self, impression: str, row: Mapping[str, Any]) -> bool:
        """Replace the row of an impression by one with a further page; False if it is folded or has that page."""
        with self._database.writing() as transaction:
            return Writing(transaction).extend(impression, row)

    # Sums and rows.

    def fold(self, now: int | StoreTime, most: int = 1000) -> int:
        """Fold closed impressions, at most `most` of each version; returns how many.

        Writers may wait for the transaction, so it should be short: fold few at a time.
        """
        time = now if isinstance(now, StoreTime) else StoreTime(now, now, 0, None)
        self._finish_deletions(time.now)
        with self._database.reading() as transaction:
            self._look_for_rotation(transaction)
            closed = closed_versions(transaction, time)
            writing = Writing(transaction)
            waiting = writing.waiting(time.now)
            for one, version, end in closed:
                waiting += writing.waiting_for_closed(one.name, version, end, most)
        if waiting:
            with self._database.writing() as transaction:
                Writing(transaction).match(waiting)
        folded, problems = 0, []
        for one, version, end in closed:
            try:
                folded += self._folding.fold(one, version, end, most)
            except InterleafError as problem:  # a version that cannot be folded must not block the others
                problems.append(problem)
        if problems:
            raise problems[0]
        return folded

    def tallies(self, name: str, version: int | None = None) -> dict[str, Tally]:
        """The tally of folded and open impressions for each of `Experiment.metrics`, in its order.

        Empty if there are no impressions. Latest version by default.
        """
        return self._folding.tallies(*self._version(name, version))

    def counts(self, name: str, version: int | None = None) -> VersionCounts:
        name_version = name, self._version(name, version)[1]
        where = "WHERE experiment = ? AND version = ?"
        with self._database.reading() as transaction:
            still_open = transaction.column(f"SELECT count(*) FROM impressions {where} AND folded = 0", *name_version)
            folded = transaction.column(f"SELECT sum(impressions) FROM sums {where} GROUP BY metric", *name_version)
            apart = transaction.rows(f"SELECT reason, count(*) FROM apart {where} GROUP BY reason", *name_version)
        return VersionCounts(still_open[0], max(map(int, folded), default=0), dict(sorted(apart)))

    def count_unplaced(self) -> dict[str, int]:
        """Unmatched events of no known experiment, by reason: their impression or unit is unknown."""
        with self._database.reading() as transaction:
            rows = transaction.rows("SELECT reason, count(*) FROM apart WHERE experiment IS NULL GROUP BY reason")
            return dict(sorted(rows))

    def examples(self, name: str, version: int | None = None, most: int = 10) -> list[dict[str, Any]]:
        """The latest impressions as rows with their `events`, latest first."""
        statement = f"SELECT {ROW} FROM impressions WHERE experiment = ? AND version = ? ORDER BY number DESC LIMIT ?"
        version = self._version(name, version)[1]
        with self._database.reading() as transaction:
            rows = transaction.rows(statement, name, version, most)
            examples = {row[0]: row_of(row) | {"events": []} for row in rows}
            statement = f"SELECT {EVENT_COLUMNS} FROM events WHERE impression = ANY(?) ORDER BY time, rank, id"
            for impression, *event in transaction.rows(statement, list(examples)):
                names = ("event", "kind", "rank", "time", "dwell", "value")
                examples[impression]["events"].append(dict(zip(names, event, strict=True)))
        return list(examples.values())

    def export(self, name: str, version: int | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in the schema of the native log; open impressions are marked.

        Each page of rows is read in its own transaction, so that a slow reader blocks nobody.
        """
        return self._export(*self._version(name, version))

    def _export(self, settings: Experiment, version: int) -> Iterator[pa.RecordBatch]:
        last = -1
        while True:
            with self._database.reading() as transaction:
                rows = transaction.rows(
                    f"SELECT {COLUMNS}, body, number FROM impressions WHERE experiment = ? AND version = ? "
                    "AND number > ? ORDER BY number LIMIT ?",
                    *(settings.name, version, last, PAGE),
                )
                if not rows:
                    return
                batch = batch_with_events(transaction, rows, settings, version)
            yield batch
            last = rows[-1][-1]

    def _version(self, name: str, version: int | None) -> tuple[Experiment, int]:
        """The settings of a version, the latest by default."""
        experiment = self.experiment(name)
        version = experiment.version if version is None else version
        return experiment.versions[version], version


def open_store(address: str | Path) -> SqlStore:
    """Open the store at a path (or `sqlite:///path`), created if it does not exist; or at `postgresql://...`."""
    database = _database(str(address))
    try:
        return SqlStore(database)
    except BaseException:
        database.close()
        raise


def _database(address: str) -> Database:
    if address.startswith(_POSTGRES):
        require("postgres", "a store in PostgreSQL needs", "psycopg", "psycopg_pool")
        from interleaf.store.postgres import Postgres

        return Postgres(address)
    path = address.removeprefix(_FILE)
    if "://" in path:
        scheme = path.partition("://")[0]  # only the scheme: the rest may contain a password
        raise DataError(f"the store's address begins with {scheme}://; give a path, sqlite:///path or postgresql://...")
    from interleaf.store.sqlite import SQLite

    return SQLite(Path(path))
