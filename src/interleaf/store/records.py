"""What a store holds: experiments, impressions, events and keys; times are microseconds since 1970, UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from interleaf.experiment import Experiment
from interleaf.store.codec import EncodedRow

DRAFT, RUNNING, STOPPED, DECIDED = "draft", "running", "stopped", "decided"
STATES = (DRAFT, RUNNING, STOPPED, DECIDED)
INGEST, READ, ADMIN = "ingest", "read", "admin"
ROLES = (INGEST, READ, ADMIN)


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
    parts: EncodedRow | None = None


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
class VersionCounts:
    """What a version holds: impressions by state, and events kept apart by reason."""

    open: int
    folded: int
    apart: Mapping[str, int]
