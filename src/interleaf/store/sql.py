"""The store in SQL, over any database; `open_store` opens it by its address."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from interleaf.environment import require
from interleaf.errors import DataError, InterleafError, StoreError
from interleaf.experiment import Experiment
from interleaf.experiment.settings import SAME
from interleaf.store import deletion, privacy, time_check
from interleaf.store.attribution import Matching
from interleaf.store.database import Database, Transaction, is_kept
from interleaf.store.experiments import ExperimentTable
from interleaf.store.fold import Folding, closed_versions
from interleaf.store.impression_rows import Writing, check_event, export, latest_rows, rows_of
from interleaf.store.keys import KeyStore
from interleaf.store.records import (
    DRAFT,
    EVERYTHING,
    Event,
    ExperimentCount,
    Impression,
    Search,
    Stored,
    VersionCounts,
)
from interleaf.store.sql_tables import IMPRESSIONS, upgrade
from interleaf.store.time_check import StoreTime, TimeCheck
from interleaf.tally import Tally

PAGE = 5000  # rows exported at a time
MAX_VERSIONS = 10_000  # versions whose attribution setting is cached


class SqlStore(KeyStore):
    """The data of a service in a database. All methods block.

    An impression or event is acknowledged only when it is durable. Writes are idempotent by id. Impressions whose
    attribution window is over are folded into the tally of their experiment's version in the transaction that marks
    them folded. A report is that tally plus the open impressions, which are scored when it is read.
    """

    def __init__(self, database: Database) -> None:
        upgrade(database)
        self._database = database
        self._among = database.words["among"]
        self._folding = Folding(database)
        self._time_check = TimeCheck()
        self._sought: dict[tuple[str, int], int] = {}
        self._unit_secret: int | None = None  # its number, once the service has said which it uses
        self._is_rotated = self._is_unscrubbed = False

    def close(self) -> None:
        self._database.close()

    def connections(self) -> dict[str, int]:
        """How many connections to a server are `open` and `idle`, and how many requests are `waiting` for one.

        Empty where there is no server.
        """
        return self._database.connections()

    def warnings(self) -> list[str]:
        """Problems that the operator should fix, each with its remedy, such as a file that other users can open."""
        return self._database.warnings()

    def back_up(self, path: Path) -> None:
        """Write a consistent copy to a new file that only its owner can read; writes continue meanwhile."""
        self._database.back_up(path)

    def check(self) -> None:
        """Raise `StoreError` if it does not answer, or its unit secret was rotated since `use_unit_secret`."""
        with self._database.reading() as transaction:
            transaction.rows("SELECT version FROM schema_version")
            self._is_rotated = self._is_secret_rotated(transaction)
        self._check_unit_secret()

    def use_unit_secret(self, secret: bytes | None, now: int) -> None:
        """Hash units with this secret, or with none; DataError if units in the store are under another one."""
        with self._database.writing() as transaction:
            self._unit_secret = privacy.use_unit_secret(transaction, secret, now)

    def use_queries(self, queries: str, now: int) -> None:
        """Store query texts like this (`keep`, `hash`, `drop`); DataError if texts and hashes would be mixed."""
        with self._database.writing() as transaction:
            privacy.use_queries(transaction, queries, now)

    def _is_secret_rotated(self, transaction: Transaction) -> bool:
        """Whether the store has a newer unit secret than the one that this process hashes units with."""
        return self._unit_secret not in (None, privacy.latest_number(transaction))

    def _check_unit_secret(self) -> None:
        if self._is_rotated:
            raise StoreError("the unit secret was rotated while this service ran; start it again with the new one")

    def rotate_unit_secret(self, secret: bytes | None, now: int) -> list[str]:
        """Replace the secret of the store; returns the names of running experiments."""
        with self._database.writing() as transaction:
            return privacy.rotate_unit_secret(transaction, secret, now)

    def check_known_secret(self, secret: bytes | None) -> None:
        """Raise DataError if the store never had units under this secret."""
        with self._database.reading() as transaction:
            privacy.check_known_secret(transaction, secret)

    def read_time(self, now: int, monotonic: int) -> StoreTime:
        """The time by which rows are folded and deleted; it does not follow a clock that jumps ahead at once.

        `now` is the time of the clock, `monotonic` that of a monotonic clock, both in microseconds.
        """
        with self._database.writing() as transaction:
            return self._time_check.read(transaction, now, monotonic)

    def trust_clock(self, now: int) -> str | None:
        """Accept the time of the clock; returns the problem that the store had with it, or None."""
        with self._database.writing() as transaction:
            return time_check.trust_clock(transaction, now)

    # Experiments. Unknown names raise KeyError, a wrong state StateError, a wrong setting ExperimentError.

    def experiments(self, search: Search = EVERYTHING, limit: int | None = None, offset: int = 0) -> list[Stored]:
        """Experiments that match a search: running ones, then drafts, then others, each latest first."""
        with self._database.reading() as transaction:
            return ExperimentTable(transaction).find(search, limit, offset)

    def count_experiments(self, search: Search = EVERYTHING) -> ExperimentCount:
        """How many experiments match a search; at most a thousand are counted."""
        with self._database.reading() as transaction:
            return ExperimentTable(transaction).count(search)

    def is_alone(self) -> bool:
        """Whether only one version of one experiment has ever run."""
        with self._database.reading() as transaction:
            return ExperimentTable(transaction).is_alone()

    def experiment(self, name: str) -> Stored:
        with self._database.reading() as transaction:
            return ExperimentTable(transaction).one(name)

    def create(self, settings: Experiment, now: int, who: str) -> Stored:
        return self._change(settings.name, lambda experiments: experiments.create(settings, now, who))

    def edit(self, settings: Experiment, now: int, who: str) -> Stored:
        """Change a draft, or create a new version of a running experiment, with a fresh analysis.

        If only notes differ (owner, hypothesis, description, tags), the version stays the same, in any state.
        """
        return self._change(settings.name, lambda experiments: experiments.edit(settings, now, who))

    def start(self, name: str, now: int, who: str) -> Stored:
        return self._change(name, lambda experiments: experiments.start(name, now, who))

    def stop(self, name: str, now: int, who: str) -> Stored:
        return self._change(name, lambda experiments: experiments.stop(name, now, who))

    def decide(self, name: str, decision: str, now: int, who: str) -> Stored:
        return self._change(name, lambda experiments: experiments.decide(name, decision, now, who))

    def archive(self, name: str, now: int, who: str) -> Stored:
        """Hide it from lists, and stop it if it is running."""
        return self._change(name, lambda experiments: experiments.archive(name, now, who))

    def unarchive(self, name: str, now: int, who: str) -> Stored:
        return self._change(name, lambda experiments: experiments.unarchive(name, now, who))

    def _change(self, name: str, change: Callable[[ExperimentTable], None]) -> Stored:
        with self._database.writing() as transaction:
            experiments = ExperimentTable(transaction)
            change(experiments)
            return experiments.one(name)

    def delete(self, name: str, now: int) -> int:
        """Delete an experiment with all its rows, and revoke its keys; returns how many impressions it had.

        StateError if it is running.
        """
        deleted = deletion.delete(self._database, name, now)
        self._is_unscrubbed = not self._database.scrub()
        return deleted

    # The hot path.

    def write(
        self, impressions: Sequence[Impression], events: Sequence[Event]
    ) -> tuple[list[Mapping[str, Any] | None], list[str]]:
        """Write impressions and events in one durable transaction.

        Returns for each impression the row that was already stored under its id, or None; and for each event the code
        of its `EventFate`. If one cannot be stored (an id of more than 1,000 bytes, a null character, a lone
        surrogate, a number out of range), DataError is raised and nothing is written.
        """
        self._check_unit_secret()
        sought = self._versions({(one.experiment, one.version) for one in impressions})
        rows = rows_of(impressions, sought)
        for event in events:
            check_event(event)
        if not events and self._database.put(
            IMPRESSIONS, rows, lambda one: Writing(self._database, one).is_awaited(rows)
        ):
            return [None] * len(rows), []
        with self._database.writing() as transaction:
            writing = Writing(self._database, transaction)
            return writing.impressions(rows), writing.events(events)

    def _versions(self, used: set[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """For these versions, and maybe others, whether events that name only their unit are matched.

        Settings of a version that is not a draft never change, so they are cached.
        """
        sought = self._sought
        if not used <= sought.keys():
            with self._database.reading() as transaction:
                names = {name for name, _ in used}
                ways = Matching(self._database, transaction).ways(names)
                drafts = transaction.rows(
                    f"SELECT name FROM experiments WHERE state = ? AND name {self._among}",
                    *(DRAFT, self._database.among(list(names))),
                )
            known = self._sought if len(self._sought) < MAX_VERSIONS else {}
            sought = known | {place: int(way != SAME) for place, way in ways.items()}
            self._sought = {place: way for place, way in sought.items() if (place[0],) not in drafts}
        for name, version in used - sought.keys():
            raise DataError(f"there is no version {version} of an experiment {name!r}; create it first")
        return sought

    def row(self, impression: str) -> Mapping[str, Any] | None:
        """The row of an impression, with every column of the log but its events, or None."""
        if not is_kept(impression):
            return None
        with self._database.reading() as transaction:
            return Writing(self._database, transaction).read_rows([impression]).get(impression)

    def extend(self, impression: str, row: Mapping[str, Any]) -> bool:
        """Replace the row of an impression by one with a further page.

        Returns False, and changes nothing, if it is folded or has that page already.
        """
        with self._database.writing() as transaction:
            return Writing(self._database, transaction).extend(impression, row)

    # Sums and rows.

    def fold(self, now: int | StoreTime, most: int = 1000) -> int:
        """Fold closed impressions, at most `most` of each version; returns how many.

        Writers may wait for the transaction, so it should be short: fold few at a time.
        """
        time = now if isinstance(now, StoreTime) else StoreTime(now, now, 0, None)
        now = time.now
        if deletion.finish(self._database, now) or self._is_unscrubbed:
            self._is_unscrubbed = not self._database.scrub()
        with self._database.reading() as transaction:
            self._is_rotated = self._is_secret_rotated(transaction)
            closed = closed_versions(transaction, time)
            writing = Writing(self._database, transaction)
            waiting = writing.waiting(now)
            for one, version, end in closed:
                waiting += writing.waiting_for_closed(one.name, version, end, most)
        if waiting:
            with self._database.writing() as transaction:
                Writing(self._database, transaction).match(waiting)
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
            ((still_open,),) = transaction.rows(
                f"SELECT count(*) FROM impressions {where} AND folded = 0", *name_version
            )
            folded = transaction.rows(f"SELECT sum(impressions) FROM sums {where} GROUP BY metric", *name_version)
            apart = transaction.rows(f"SELECT reason, count(*) FROM apart {where} GROUP BY reason", *name_version)
        return VersionCounts(still_open, max((int(count) for (count,) in folded), default=0), dict(sorted(apart)))

    def unplaced(self) -> dict[str, int]:
        """Unmatched events of no known experiment, by reason: their impression or unit is unknown."""
        with self._database.reading() as transaction:
            rows = transaction.rows("SELECT reason, count(*) FROM apart WHERE experiment IS NULL GROUP BY reason")
            return dict(sorted(rows))

    def examples(self, name: str, version: int | None = None, most: int = 10) -> list[dict[str, Any]]:
        """The latest impressions as rows with their `events`, latest first."""
        name_version = name, self._version(name, version)[1]
        return latest_rows(self._database, *name_version, most)

    def export(self, name: str, version: int | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in the schema of the native log; open impressions are marked."""
        settings, version = self._version(name, version)
        return export(self._database, settings, version)

    def _version(self, name: str, version: int | None) -> tuple[Experiment, int]:
        """The settings of a version, the latest by default."""
        found = self.experiment(name)
        version = found.version if version is None else version
        return found.versions[version], version

    # Privacy.

    def forget(self, unit: str) -> int:
        """Delete all rows of a unit, also from the files of a SQLite store; returns how many impressions it had.

        Folded impressions stay in the sums. StoreError if the unit secret was rotated since `use_unit_secret`.
        """
        if not is_kept(unit):
            return 0
        self.check()  # otherwise rows under another secret would be missed
        deleted = deletion.forget(self._database, unit)
        self._is_unscrubbed = not self._database.scrub()
        return deleted

    def expire(self, before: int) -> int:
        """Delete rows of folded impressions shown before this time; their sums stay."""
        return deletion.expire(self._database, before)


_FILE, _POSTGRES = "sqlite:///", ("postgresql://", "postgres://")


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
