"""What a store holds: experiments, impressions, events and keys; times are microseconds since 1970, UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from interleaf.experiment import Experiment, Shown
from interleaf.store.codec import EncodedRow

DRAFT, RUNNING, STOPPED, DECIDED = "draft", "running", "stopped", "decided"
STATES = (DRAFT, RUNNING, STOPPED, DECIDED)
INGEST, READ, ADMIN = "ingest", "read", "admin"
ROLES = (INGEST, READ, ADMIN)


@dataclass(frozen=True)
class Recorded:
    """An entry in an experiment's history: created, edited, started, stopped or decided, by whom, and a note."""

    time: int
    version: int
    what: str
    who: str
    note: str = ""


@dataclass(frozen=True)
class Stored:
    """A stored experiment: its latest version, its state, and its history, oldest entry first."""

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
    """A search for experiments: all words of `text` are prefixes of words in their names, rankers or notes.

    `archived`: whether they are archived; None: both. `only`: the one experiment that the key may see.
    """

    text: str = ""
    state: str | None = None
    archived: bool | None = False
    only: str | None = None


EVERYTHING = Search(archived=None)


class ExperimentCount(NamedTuple):
    """How many experiments match a search; a lower bound if it is not exact."""

    number: int
    is_exact: bool


@dataclass(slots=True)
class StoredImpression:
    """A list that was shown: `row` is the row of the log without events, with `k` and `fixed`.

    `until` is the end of its attribution window: later events do not count (None: `closes`). `closes` is when it may be
    folded, which is later if the impression was reported late. With `parts`, the row is ignored: it is encoded already,
    and all values were checked, as in a decoded request. With `shown`, a planned list is drawn and encoded before it is
    written; `extras` are more of its columns.
    """

    id: str
    experiment: str
    version: int
    unit: str | None
    time: int
    closes: int
    row: Mapping[str, Any]
    until: int | None = None
    parts: EncodedRow | None = None
    shown: Shown | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """An event on an impression; or, if only the unit is given, on the impression that attribution finds.

    It has the `rank` in the list that users saw, with fixed documents, or the `document`.
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
        """Two events with the same key are copies: the id, and the impression, or else the unit."""
        return self.id, self.unit or "" if self.impression is None else self.impression


@dataclass(frozen=True)
class AccessKey:
    """A key without its secret, for one experiment or for all; `used` is its approximate last use."""

    id: str
    role: str
    label: str
    created: int
    revoked: int | None
    experiment: str | None = None
    expires: int | None = None
    used: int | None = None

    def is_valid(self, now: int) -> bool:
        """Whether the key is neither revoked nor expired."""
        return self.revoked is None and not self.is_expired(now)

    def is_expired(self, now: int) -> bool:
        return self.expires is not None and self.expires <= now


@dataclass(frozen=True)
class VersionCounts:
    """Counts of a version: impressions by state, and unmatched events by reason."""

    open: int
    folded: int
    apart: Mapping[str, int]


MAX_EARLY = 60 * 1_000_000  # microseconds that an event may seem to precede its impression: clocks differ
MAX_AHEAD = 300 * 1_000_000  # microseconds that it may seem to follow its arrival
