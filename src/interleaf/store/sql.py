"""The store in SQL, over any database; `opened` opens it by its address."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from interleaf.environment import require
from interleaf.errors import DataError, InterleafError, StoreError
from interleaf.experiment import Experiment
from interleaf.experiment.settings import SAME
from interleaf.store import deletion, keys, privacy, time_check
from interleaf.store.attribution import Matching
from interleaf.store.contract import (
    DRAFT,
    EVERYTHING,
    AccessKey,
    Counts,
    Event,
    ExperimentCount,
    Impression,
    Search,
    Stored,
)
from interleaf.store.database import Database, Transaction, is_kept
from interleaf.store.experiments import Experiments
from interleaf.store.fold import Folding, closed_versions
from interleaf.store.impression_rows import Writing, check_event, export, latest_rows, rows_of
from interleaf.store.sql_tables import IMPRESSIONS, upgrade
from interleaf.store.time_check import StoreTime, TimeCheck
from interleaf.tally import Tally

PAGE = 5000  # rows exported at a time
MAX_VERSIONS = 10_000  # of experiments that are remembered to look for events of units, or not


class SqlStore:
    """A `Store` in a database."""

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
        return self._database.connections()

    def warnings(self) -> list[str]:
        return self._database.warnings()

    def back_up(self, path: Path) -> None:
        self._database.back_up(path)

    def check(self) -> None:
        with self._database.reading() as transaction:
            transaction.rows("SELECT version FROM schema_version")
            self._is_rotated = self._is_secret_rotated(transaction)
        self._check_unit_secret()

    def use_unit_secret(self, secret: bytes | None, now: int) -> None:
        with self._database.writing() as transaction:
            self._unit_secret = privacy.use_unit_secret(transaction, secret, now)

    def use_queries(self, queries: str, now: int) -> None:
        with self._database.writing() as transaction:
            privacy.use_queries(transaction, queries, now)

    def _is_secret_rotated(self, transaction: Transaction) -> bool:
        """Whether the store has a newer unit secret than the one that this process hashes units with."""
        return self._unit_secret not in (None, privacy.latest_number(transaction))

    def _check_unit_secret(self) -> None:
        if self._is_rotated:
            raise StoreError("the unit secret was rotated while this service ran; start it again with the new one")

    def rotate_unit_secret(self, secret: bytes | None, now: int) -> list[str]:
        """From now on this is the secret of the store; the names of experiments that are running meanwhile."""
        with self._database.writing() as transaction:
            return privacy.rotate_unit_secret(transaction, secret, now)

    def check_known_secret(self, secret: bytes | None) -> None:
        """Raise DataError if the store never had units under this secret."""
        with self._database.reading() as transaction:
            privacy.check_known_secret(transaction, secret)

    def read_time(self, now: int, monotonic: int) -> StoreTime:
        with self._database.writing() as transaction:
            return self._time_check.read(transaction, now, monotonic)

    def trust_clock(self, now: int) -> str | None:
        """Take the clock as right; what the store said against it, if anything."""
        with self._database.writing() as transaction:
            return time_check.trust_clock(transaction, now)

    def token_secrets(self, now: int) -> list[bytes]:
        with self._database.reading() as transaction:
            return keys.token_secrets(transaction, now)

    def rotate_token_secret(self, now: int, expires: int) -> None:
        with self._database.writing() as transaction:
            keys.rotate_token_secret(transaction, now, expires)

    # Experiments.

    def experiments(self, search: Search = EVERYTHING, limit: int | None = None, offset: int = 0) -> list[Stored]:
        with self._database.reading() as transaction:
            return Experiments(transaction).find(search, limit, offset)

    def count_experiments(self, search: Search = EVERYTHING) -> ExperimentCount:
        with self._database.reading() as transaction:
            return Experiments(transaction).count(search)

    def is_alone(self) -> bool:
        with self._database.reading() as transaction:
            return Experiments(transaction).is_alone()

    def experiment(self, name: str) -> Stored:
        with self._database.reading() as transaction:
            return Experiments(transaction).one(name)

    def create(self, settings: Experiment, now: int, who: str) -> Stored:
        return self._changed(settings.name, lambda experiments: experiments.create(settings, now, who))

    def edit(self, settings: Experiment, now: int, who: str) -> Stored:
        return self._changed(settings.name, lambda experiments: experiments.edit(settings, now, who))

    def start(self, name: str, now: int, who: str) -> Stored:
        return self._changed(name, lambda experiments: experiments.start(name, now, who))

    def stop(self, name: str, now: int, who: str) -> Stored:
        return self._changed(name, lambda experiments: experiments.stop(name, now, who))

    def decide(self, name: str, decision: str, now: int, who: str) -> Stored:
        return self._changed(name, lambda experiments: experiments.decide(name, decision, now, who))

    def archive(self, name: str, now: int, who: str) -> Stored:
        return self._changed(name, lambda experiments: experiments.archive(name, now, who))

    def unarchive(self, name: str, now: int, who: str) -> Stored:
        return self._changed(name, lambda experiments: experiments.unarchive(name, now, who))

    def _changed(self, name: str, change: Callable[[Experiments], None]) -> Stored:
        with self._database.writing() as transaction:
            experiments = Experiments(transaction)
            change(experiments)
            return experiments.one(name)

    def delete(self, name: str, now: int) -> int:
        deleted = deletion.delete(self._database, name, now)
        self._is_unscrubbed = not self._database.scrub()
        return deleted

    # The hot path.

    def write(
        self, impressions: Sequence[Impression], events: Sequence[Event]
    ) -> tuple[list[Mapping[str, Any] | None], list[str]]:
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
        """Of these versions, and maybe others, whether events that name a unit alone are looked for.

        What is not a draft any more stays as it is, and is remembered.
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
        if not is_kept(impression):
            return None
        with self._database.reading() as transaction:
            return Writing(self._database, transaction).kept([impression]).get(impression)

    def extend(self, impression: str, row: Mapping[str, Any]) -> bool:
        with self._database.writing() as transaction:
            return Writing(self._database, transaction).extend(impression, row)

    # Sums and rows.

    def fold(self, now: int | StoreTime, most: int = 1000) -> int:
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
            except InterleafError as problem:  # one that cannot be folded does not hold up the others
                problems.append(problem)
        if problems:
            raise problems[0]
        return folded

    def tallies(self, name: str, version: int | None = None) -> dict[str, Tally]:
        return self._folding.tallies(*self._version(name, version))

    def counts(self, name: str, version: int | None = None) -> Counts:
        name_version = name, self._version(name, version)[1]
        where = "WHERE experiment = ? AND version = ?"
        with self._database.reading() as transaction:
            ((still_open,),) = transaction.rows(
                f"SELECT count(*) FROM impressions {where} AND folded = 0", *name_version
            )
            folded = transaction.rows(f"SELECT sum(impressions) FROM sums {where} GROUP BY metric", *name_version)
            apart = transaction.rows(f"SELECT reason, count(*) FROM apart {where} GROUP BY reason", *name_version)
        return Counts(still_open, max((int(count) for (count,) in folded), default=0), dict(sorted(apart)))

    def unplaced(self) -> dict[str, int]:
        with self._database.reading() as transaction:
            rows = transaction.rows("SELECT reason, count(*) FROM apart WHERE experiment IS NULL GROUP BY reason")
            return dict(sorted(rows))

    def examples(self, name: str, version: int | None = None, most: int = 10) -> list[dict[str, Any]]:
        name_version = name, self._version(name, version)[1]
        return latest_rows(self._database, *name_version, most)

    def export(self, name: str, version: int | None = None) -> Iterator[pa.RecordBatch]:
        settings, version = self._version(name, version)
        return export(self._database, settings, version)

    def _version(self, name: str, version: int | None) -> tuple[Experiment, int]:
        """The settings of a version, the latest by default."""
        found = self.experiment(name)
        version = found.version if version is None else version
        return found.versions[version], version

    # Keys and privacy.

    def add_key(
        self,
        role: str,
        label: str,
        now: int,
        *,
        experiment: str | None = None,
        expires: int | None = None,
        name: str | None = None,
    ) -> tuple[AccessKey, str]:
        key = AccessKey(name or secrets.token_hex(8), role, label, now, None, experiment, expires)
        with self._database.writing() as transaction:
            return key, keys.add_key(transaction, key)

    def keys(self) -> list[AccessKey]:
        with self._database.reading() as transaction:
            return keys.keys(transaction)

    def key_of(self, secret: str) -> AccessKey | None:
        with self._database.reading() as transaction:
            return keys.key_of(transaction, secret)

    def note_key_use(self, key: str, now: int) -> None:
        with self._database.writing() as transaction:
            keys.note_key_use(transaction, key, now)

    def revoke(self, key: str, now: int) -> bool:
        if not is_kept(key):
            return False
        with self._database.writing() as transaction:
            return keys.revoke(transaction, key, now)

    def begin_session(self, key: str, now: int, expires: int) -> str:
        with self._database.writing() as transaction:
            return keys.begin_session(transaction, key, now, expires)

    def session_key(self, session: str, now: int) -> AccessKey | None:
        with self._database.reading() as transaction:
            found = keys.session_key(transaction, session, now)
        if found is None:
            return None
        key, is_due = found
        if is_due:
            with self._database.writing() as transaction:
                keys.note_session_use(transaction, session, key.id, now)
        return key

    def end_session(self, session: str) -> bool:
        with self._database.writing() as transaction:
            return keys.end_session(transaction, session)

    def end_sessions(self, key: str | None = None) -> int:
        with self._database.writing() as transaction:
            return keys.end_sessions(transaction, key)

    def count_sessions(self, now: int) -> dict[str, int]:
        with self._database.reading() as transaction:
            return keys.count_sessions(transaction, now)

    def forget(self, unit: str) -> int:
        if not is_kept(unit):
            return 0
        self.check()  # rows under another secret would be missed
        deleted = deletion.forget(self._database, unit)
        self._is_unscrubbed = not self._database.scrub()
        return deleted

    def expire(self, before: int) -> int:
        return deletion.expire(self._database, before)


_FILE, _POSTGRES = "sqlite:///", ("postgresql://", "postgres://")


def opened(address: str | Path) -> SqlStore:
    """The store at a path (or `sqlite:///path`), made if it is not there; or in PostgreSQL, at `postgresql://...`."""
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
        scheme = path.partition("://")[0]  # and no more of it: it may hold a password
        raise DataError(f"the store's address begins with {scheme}://; give a path, sqlite:///path or postgresql://...")
    from interleaf.store.sqlite import SQLite

    return SQLite(Path(path))
