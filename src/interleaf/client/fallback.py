"""What a client returns, and how it composes lists without the service."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from operator import add
from pathlib import Path
from typing import Any
from urllib.parse import quote

from interleaf.client.spool import write_private
from interleaf.errors import InterleafError
from interleaf.experiment import Experiment, Request, show
from interleaf.experiment.assignment import OUTSIDE
from interleaf.experiment.serving import unmixed_page
from interleaf.interleaving.rankings import insert_fixed
from interleaf.log.schema import FALLBACK


@dataclass(frozen=True)
class Answer:
    """The documents to show.

    `impression` is the id that events refer to; None if the list is not logged. `arm` is `interleaved`, `holdout`,
    `fallback`, or `outside` (of the experiment); in the mode `one_list` it is the ranker whose list is shown, and in
    the mode `choose` it is `alone` if only one ranker was run. `token` lets a browser report events of this impression;
    only the service can issue one. `stored`: the service has stored it; False if it is spooled or not logged.
    """

    impression: str | None
    documents: list[str]
    arm: str
    token: str | None = None
    version: int | None = None
    stored: bool = False


@dataclass(frozen=True)
class RankerChoice:
    """The rankers to run for a user now: only their rankings are needed for the list.

    `arm` is `interleaved`; or `holdout`, `outside` or `fallback`, if only the control is shown. `epoch` is the number
    of the epoch in which these rankers stay the same; None if the experiment does not choose among many rankers, or if
    the service is away.
    """

    rankers: tuple[str, ...]
    arm: str
    version: int | None = None
    epoch: int | None = None


@dataclass(frozen=True)
class EventCounts:
    """How many events were accepted, repeated, unmatched or spooled (they are sent when the service answers again).

    `unusable` events were not sent, or were refused: they lack a list, a result or a kind.
    """

    accepted: int = 0
    repeated: int = 0
    unmatched: int = 0
    spooled: int = 0
    unusable: int = 0

    def __add__(self, other: EventCounts) -> EventCounts:
        return EventCounts(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True)
class Status:
    """The state of a client: whether the service is away, and how many records are spooled, dropped or refused.

    Away: the last request of a caller, or the last delivery of spooled records, failed.
    Dropped: records that did not fit into the spool. Refused: spooled records that the service did not accept, and
    lists of known experiments that the key does not allow. Cleaned: values of visitors that had to be changed, such as
    a query that is too long or a page number below 1. Quarantined: files in the spool folder that are not valid
    records, and records that got status 500 repeatedly while others succeeded; they were renamed to `.bad`.
    """

    away: bool
    waiting: int
    dropped: int
    refused: int
    cleaned: int = 0
    quarantined: int = 0


RUNNING = "running"
log = logging.getLogger("interleaf.client")


@dataclass(frozen=True)
class KnownExperiment:
    """An experiment as the service last described it."""

    settings: Experiment
    version: int
    state: str


class KnownExperiments:
    """Settings of experiments: in memory, and in a folder, for a later process that starts during an outage."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._known: dict[str, KnownExperiment | None] = {}

    @property
    def names(self) -> list[str]:
        """All experiments that were requested, known or not."""
        return list(self._known)

    def want(self, name: str) -> bool:
        """Remember that an experiment was requested; True if it is new."""
        if name in self._known:
            return False
        self._known[name] = self._read(name)
        return True

    def get(self, name: str) -> KnownExperiment | None:
        return self._known.get(name)

    def learn(self, name: str, data: Any) -> None:
        """Store the settings that the service sent; settings that this release does not understand are ignored."""
        try:
            settings = _parse_known(data)
        except (InterleafError, KeyError, TypeError) as problem:
            log.warning("the settings of experiment %r are not understood: %s", name, problem)
            return
        is_new = settings != self._known.get(name)
        self._known[name] = settings
        if is_new:
            self._keep(name, data)
            with suppress(InterleafError):  # compose a list now, so that compilation does not delay the first request
                request = Request("warm", "warm", "warm", {name: ["a", "b", "c"] for name in settings.settings.rankers})
                show(replace(settings.settings, share=1.0, offset=None, holdout=0.0), settings.version, request)

    def _path(self, name: str) -> Path | None:
        return self._folder and self._folder / f"{quote(name, safe='')}.settings"

    def _read(self, name: str) -> KnownExperiment | None:
        path = self._path(name)
        if path is not None:
            with suppress(OSError, ValueError, KeyError, TypeError):
                return _parse_known(json.loads(path.read_bytes()))
        return None

    def _keep(self, name: str, data: Mapping[str, Any]) -> None:
        path = self._path(name)
        if path is not None:
            with suppress(OSError):  # the copy in memory is enough for now
                part = path.with_name(f"{path.name}.{os.getpid()}.part")
                settings = {name: data[name] for name in ("settings", "version", "state")}
                write_private(part, json.dumps(settings).encode())
                part.replace(path)


def compose(known: KnownExperiment | None, request: Request, *, is_running: bool = True) -> tuple[Answer, bool]:
    """The page as the service would compose it, and whether it must be logged.

    If the experiment is not running, the control is shown; if it is unknown, the first ranking.
    """
    if known is None:
        return Answer(None, _first(request), FALLBACK), False
    if not is_running or known.state != RUNNING:
        return Answer(None, unmixed_page(known.settings, request), OUTSIDE, version=known.version), False
    shown = show(known.settings, known.version, request)
    name = None if shown.record is None else request.impression
    return Answer(name, shown.documents, shown.arm, version=known.version), shown.record is not None


def _first(request: Request) -> list[str]:
    """The first available ranking with fixed documents in place; all of it if the page size is unknown."""
    ranking = next((ranking for ranking in request.rankings.values() if ranking), [])
    rest = [document for document in ranking if document not in request.fixed.values()]
    documents = list(insert_fixed(rest, request.fixed))
    if request.k is None:
        return documents if request.page == 1 else []
    return documents[request.k * (request.page - 1) : request.k * request.page]


def _parse_known(data: Any) -> KnownExperiment:
    return KnownExperiment(Experiment.of(data["settings"]), int(data["version"]), str(data["state"]))
