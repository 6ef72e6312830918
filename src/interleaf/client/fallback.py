"""What a client returns, and the lists that it can compose without the service."""

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
from interleaf.errors import ClientError, InterleafError
from interleaf.experiment import Experiment, Request, show
from interleaf.experiment.assignment import OUTSIDE
from interleaf.experiment.serving import unmixed_page
from interleaf.interleaving.rankings import insert_fixed
from interleaf.log.schema import FALLBACK


@dataclass(frozen=True)
class Answer:
    """The documents to show.

    `impression` is what events name; None where nothing is logged of this page. `arm` is `interleaved`, `holdout`,
    `fallback`, or `outside` of the experiment. `token` lets a browser report events of this impression; only the
    service can give one. `stored`: the service has it; False where it waits in the spool, or is not logged at all.
    """

    impression: str | None
    documents: list[str]
    arm: str
    token: str | None = None
    version: int | None = None
    stored: bool = False


@dataclass(frozen=True)
class EventCounts:
    """What became of events: `spooled` ones are sent when the service answers again.

    `unusable` ones were not sent, or were refused: they name no result of a list, or no kind.
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
    """How a client fares: whether the service is away, and how many records wait, were dropped, were refused.

    Dropped is what found the spool full; refused is what the service would not take when it was sent later, and lists
    of known experiments that the key is not for. Cleaned
    are values of visitors that could not be used as they came: a query that is too long, a page number below 1.
    Quarantined are files of the spool folder that are no records, and records that the service answered with 500
    again and again while it took others: they were renamed to `.bad`.
    """

    away: bool
    waiting: int
    dropped: int
    refused: int
    cleaned: int = 0
    quarantined: int = 0


def to_client_error(status: int, error: Mapping[str, Any]) -> ClientError:
    """An error response of the service as an exception, with its message."""
    field = error.get("field")
    place = f" (at {field})" if field else ""
    return ClientError(f"{error['message']}{place} [{status} {error['code']}]", status, error["code"], field)


def is_key_rejected(status: int, error: Mapping[str, Any]) -> bool:
    """Whether the key itself is refused: missing, unknown, revoked or expired, which an admin can mend."""
    return status in (401, 403) and not is_out_of_scope(error)


def is_out_of_scope(error: Mapping[str, Any]) -> bool:
    """Whether the key is valid, and this request is not for it; other requests may be."""
    return error.get("code") in ("wrong_experiment", "wrong_role")


RUNNING = "running"
log = logging.getLogger("interleaf.client")


@dataclass(frozen=True)
class Known:
    """An experiment as the service last described it."""

    settings: Experiment
    version: int
    state: str


class KnownExperiments:
    """Experiments that were asked for: in memory, and in a folder for the next process, which may meet an outage."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._known: dict[str, Known | None] = {}

    @property
    def names(self) -> list[str]:
        """All that were asked for, known or not."""
        return list(self._known)

    def want(self, name: str) -> bool:
        """Ask for an experiment; True if that is new."""
        if name in self._known:
            return False
        self._known[name] = self._read(name)
        return True

    def get(self, name: str) -> Known | None:
        return self._known.get(name)

    def learn(self, name: str, data: Any) -> None:
        """Take what the service says of an experiment; what this release does not understand stays unknown."""
        try:
            known = _known(data)
        except (InterleafError, KeyError, TypeError) as problem:
            log.warning("what the service says of experiment %r is not understood: %s", name, problem)
            return
        is_new = known != self._known.get(name)
        self._known[name] = known
        if is_new:
            self._keep(name, data)
            _warm(known)

    def _path(self, name: str) -> Path | None:
        return self._folder and self._folder / f"{quote(name, safe='')}.settings"

    def _read(self, name: str) -> Known | None:
        path = self._path(name)
        if path is not None:
            with suppress(OSError, ValueError, KeyError, TypeError):
                return _known(json.loads(path.read_bytes()))
        return None

    def _keep(self, name: str, data: Mapping[str, Any]) -> None:
        path = self._path(name)
        if path is not None:
            with suppress(OSError):  # it is known in memory, which is what counts now
                part = path.with_name(f"{path.name}.{os.getpid()}.part")
                settings = {name: data[name] for name in ("settings", "version", "state")}
                write_private(part, json.dumps(settings).encode())
                part.replace(path)


def compose(known: Known | None, request: Request, *, is_running: bool = True) -> tuple[Answer, bool]:
    """The page as the service would make it, and whether it is to be logged.

    Of an experiment that does not run, the control is shown as it is; of one that is unknown, the first ranking.
    """
    if known is None:
        return Answer(None, _first(request), FALLBACK), False
    if not is_running or known.state != RUNNING:
        return Answer(None, unmixed_page(known.settings, request), OUTSIDE, version=known.version), False
    shown = show(known.settings, known.version, request)
    name = None if shown.row is None else request.impression
    return Answer(name, shown.documents, shown.arm, version=known.version), shown.row is not None


def _first(request: Request) -> list[str]:
    """The first ranking that came, with fixed documents in their places; all of it where the page's size is unknown."""
    ranking = next((ranking for ranking in request.rankings.values() if ranking), [])
    rest = [document for document in ranking if document not in request.fixed.values()]
    whole = list(insert_fixed(rest, request.fixed))
    if request.k is None:
        return whole if request.page == 1 else []
    return whole[request.k * (request.page - 1) : request.k * request.page]


def _known(data: Any) -> Known:
    return Known(Experiment.of(data["settings"]), int(data["version"]), str(data["state"]))


def _warm(known: Known) -> None:
    """Make the first list now, in whatever thread this is, and not when somebody waits for it."""
    with suppress(InterleafError):
        request = Request("warm", "warm", "warm", {name: ["a", "b", "c"] for name in known.settings.rankers})
        show(replace(known.settings, share=1.0, offset=None, holdout=0.0), known.version, request)
