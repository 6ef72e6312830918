"""What every store promises.

An impression or event is acknowledged only when it is durable. Writes are idempotent by id. Impressions whose
attribution window is over are folded into the tally of their experiment's version in the transaction that marks them
folded; a report is that tally plus the open impressions, scored when it is read. All methods block; times are
microseconds since 1970, UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from interleaf.experiment import Experiment
from interleaf.store.codec import Encoded
from interleaf.store.time_check import StoreTime
from interleaf.tally import Tally

DRAFT, RUNNING, STOPPED, DECIDED = "draft", "running", "stopped", "decided"
STATES = (DRAFT, RUNNING, STOPPED, DECIDED)
INGEST, READ, ADMIN = "ingest", "read", "admin"
ROLES = (INGEST, READ, ADMIN)
ACCEPTED, REPEATED = "accepted", "repeated"  # else the fate of an event is one of `reasons`


@dataclass(frozen=True)
class Recorded:
    """A remark in an experiment's history: created, edited, started, stopped, decided, with who and what."""

    time: int
    version: int
    what: str
    who: str
    note: str = ""


@dataclass(frozen=True)
class Stored:
    """An experiment as it is kept: its latest version, its state, and its history, first remark first."""

    settings: Experiment
    version: int
    state: str
    created: int
    started: int | None
    stopped: int | None
    history: tuple[Recorded, ...]
    versions: Mapping[int, Experiment]
    archived: int | None = None


@dataclass(frozen=True)
class Search:
    """Which experiments are wanted: all words of `text` begin words of their names, rankers or notes.

    `archived` is whether they are; None: both. `only` is the name of the one that may be seen at all.
    """

    text: str = ""
    state: str | None = None
    archived: bool | None = False
    only: str | None = None


EVERYTHING = Search(archived=None)


class ExperimentCount(NamedTuple):
    """How many experiments a search finds: at least so many where that is not exact."""

    number: int
    is_exact: bool


@dataclass(slots=True)
class Impression:
    """A list that was shown: `row` is that of the log without its events, with `k` and `fixed` besides.

    `until` is when its attribution window is over: later events do not count; None: `closes`. `closes` is when it may
    be folded, which is later if the impression itself was told late. With `parts`, the row is not looked at: it is
    encoded already, and all values of the impression are known to be right, as those of a decoded request are.
    """

    id: str
    experiment: str
    version: int
    unit: str | None
    time: int
    closes: int
    row: Mapping[str, Any]
    until: int | None = None
    parts: Encoded | None = None


@dataclass(frozen=True)
class Event:
    """What somebody did: on an impression, or, where only the unit is known, on one that attribution finds.

    `rank` is of the list as people saw it, fixed documents counted; or the `document` is named.
    """

    id: str
    kind: str
    received: int
    time: int
    impression: str | None = None
    unit: str | None = None
    rank: int | None = None
    document: str | None = None
    dwell: float | None = None
    value: float | None = None
    scope: str | None = None  # the only experiment that it may belong to; None: any

    @property
    def key(self) -> tuple[str, str]:
        """What makes two events the same: the id, and the impression or else the unit that they name."""
        return self.id, self.unit or "" if self.impression is None else self.impression


@dataclass(frozen=True)
class AccessKey:
    """A key without its secret: for one experiment or for all; `used` is its last use, to some minutes."""

    id: str
    role: str
    label: str
    created: int
    revoked: int | None
    experiment: str | None = None
    expires: int | None = None
    used: int | None = None

    def is_valid(self, now: int) -> bool:
        """Whether it opens anything now."""
        return self.revoked is None and not self.is_expired(now)

    def is_expired(self, now: int) -> bool:
        """Whether its time is over."""
        return self.expires is not None and self.expires <= now


@dataclass(frozen=True)
class Counts:
    """What a version holds: impressions by state, and events kept apart by reason."""

    open: int
    folded: int
    apart: Mapping[str, int]


class Store(Protocol):
    """Where a service keeps everything."""

    def close(self) -> None: ...

    def connections(self) -> dict[str, int]:
        """How many connections to a server are `open` and `idle`, and how many requests are `waiting` for one.

        Empty where there is no server.
        """

    def warnings(self) -> list[str]:
        """What the operator should mend, each with its remedy, such as a file that other users can open."""

    def back_up(self, path: Path) -> None:
        """Write a consistent copy to a new file that only its owner can read; others may write meanwhile."""

    def check(self) -> None:
        """Raise `StoreError` if it does not answer, or its unit secret was rotated since `use_unit_secret`."""

    def use_unit_secret(self, secret: bytes | None, now: int) -> None:
        """Hash units with this secret, or with none; DataError if units in the store are under another one."""

    def use_queries(self, queries: str, now: int) -> None:
        """Store query texts like this (`keep`, `hash`, `drop`); DataError if texts and hashes would be mixed."""

    def read_time(self, now: int, monotonic: int) -> StoreTime:
        """The time to fold and to delete by, which a clock that jumps ahead does not change at once.

        `now` is what the clock says, `monotonic` microseconds of one that nobody can set.
        """

    def token_secrets(self, now: int) -> list[bytes]:
        """The secret that signs tokens of impressions, and after it the older ones that are still accepted."""

    def rotate_token_secret(self, now: int, expires: int) -> None:
        """Sign tokens with a new secret; those of older ones are accepted until `expires`."""

    # Experiments. Unknown names raise KeyError, a wrong state StateError, a setting that cannot be ExperimentError.

    def experiments(self, search: Search = EVERYTHING, limit: int | None = None, offset: int = 0) -> list[Stored]:
        """Experiments that a search finds: what runs first, then drafts, then the rest, each the latest first."""

    def count_experiments(self, search: Search = EVERYTHING) -> ExperimentCount:
        """How many a search finds; a thousand at most are counted."""

    def is_alone(self) -> bool:
        """Whether one version of one experiment has ever run, and no other."""

    def experiment(self, name: str) -> Stored: ...
    def create(self, settings: Experiment, now: int, who: str) -> Stored: ...
    def edit(self, settings: Experiment, now: int, who: str) -> Stored:
        """A draft is changed; a running experiment gets a new version, with a fresh analysis.

        Where only notes are different (owner, hypothesis, description, tags), the version stays, in any state.
        """

    def start(self, name: str, now: int, who: str) -> Stored: ...
    def stop(self, name: str, now: int, who: str) -> Stored: ...
    def decide(self, name: str, decision: str, now: int, who: str) -> Stored: ...
    def archive(self, name: str, now: int, who: str) -> Stored:
        """Hide it from lists; one that runs is stopped."""

    def unarchive(self, name: str, now: int, who: str) -> Stored: ...
    def delete(self, name: str, now: int) -> int:
        """Delete an experiment with all its rows, and revoke its keys; how many impressions that were.

        One that runs raises StateError.
        """

    # The hot path.

    def write(
        self, impressions: Sequence[Impression], events: Sequence[Event]
    ) -> tuple[list[Mapping[str, Any] | None], list[str]]:
        """All in one durable transaction. Of each impression, the row that was stored before under its id, or None;
        of each event, `ACCEPTED`, `REPEATED`, or the reason why it is kept apart. One that cannot be stored (an id of
        more than 1,000 bytes, a null character, half a letter, a number out of range) is a DataError for all.
        """

    def row(self, impression: str) -> Mapping[str, Any] | None:
        """The row of an impression, with every column of the log but its events, or None."""

    def extend(self, impression: str, row: Mapping[str, Any]) -> bool:
        """A further page was shown: the row with all pages.

        False if it is folded already, or has that page already, and stays as it was.
        """

    # Sums and rows.

    def fold(self, now: int | StoreTime, most: int = 1000) -> int:
        """Fold impressions that closed until now, at most so many of each version; how many that were.

        Who writes may wait for the transaction: it is short if it folds few.
        """

    def tallies(self, name: str, version: int | None = None) -> dict[str, Tally]:
        """The folded sums and the open impressions together, one tally for each of `Experiment.metrics`, in its order
        (a tally a metric is folded and kept); empty if there are no impressions. Latest version by default.
        """

    def counts(self, name: str, version: int | None = None) -> Counts: ...
    def unplaced(self) -> dict[str, int]:
        """Events kept apart that belong to no experiment, by reason: their impression or unit is not known."""

    def examples(self, name: str, version: int | None = None, most: int = 10) -> list[dict[str, Any]]:
        """The latest impressions as rows with their `events`, latest first."""

    def export(self, name: str, version: int | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in the native log's schema, those still open marked."""

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
        """A new key and its secret, which is shown this once and kept as a hash; of one experiment, or of all.

        With a `name`, that is its id: StateError if there is such a key already.
        """

    def keys(self) -> list[AccessKey]: ...
    def key_of(self, secret: str) -> AccessKey | None:
        """The key with this secret, if there is one that is not revoked; it may have expired."""

    def note_key_use(self, key: str, now: int) -> None:
        """Write when a key was used."""

    def revoke(self, key: str, now: int) -> bool:
        """End a key and its sessions; False if there is no valid key with this id."""

    def begin_session(self, key: str, now: int, expires: int) -> str:
        """Start a session of the dashboard and return its random id, of which the store has only a hash."""

    def session_key(self, session: str, now: int) -> AccessKey | None:
        """The key of a session, unless the session has ended or the key is not valid any more."""

    def end_session(self, session: str) -> bool: ...
    def end_sessions(self, key: str | None = None) -> int:
        """End all sessions of a key, or of all keys; how many there were."""

    def count_sessions(self, now: int) -> dict[str, int]:
        """How many sessions each key has, by its id."""

    def forget(self, unit: str) -> int:
        """Delete all rows of a unit, from the files of a SQLite store too; how many impressions that were.

        What is folded of them stays in the sums. StoreError if the unit secret was rotated since `use_unit_secret`.
        """

    def expire(self, before: int) -> int:
        """Delete rows of folded impressions shown before then; their sums stay."""
