"""The table of API calls: request and response bodies, and the role of the key; openapi.py is generated from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from interleaf.experiment import Experiment
from interleaf.serve import endpoints, ingest
from interleaf.serve.schemas import (
    Decision,
    Deleted,
    Events,
    ExperimentAnswer,
    Experiments,
    Forgotten,
    Healthy,
    Interleave,
    ReportAnswer,
    Shown,
    Taken,
)
from interleaf.store.contract import ADMIN, INGEST, READ, STATES

PUBLIC, EITHER = "public", "read or ingest"
EVENTS = "/v1/events"


@dataclass(frozen=True, eq=False)
class Call:
    """One call: the role that it asks for, what it does, what it takes and gives as body, its status if all is well.

    A key of one experiment may make calls about that one; and others if they `narrow` themselves to it. `query` has the
    schemas of parameters in the address. `during_outage`: it is answered while the store is away.
    """

    method: str
    path: str
    role: str
    does: str
    run: Callable[..., Awaitable[Response]]
    takes: Any = None
    gives: Any = ExperimentAnswer
    status: int = 200
    narrows: bool = False
    during_outage: bool = False
    query: Mapping[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The path as the API's description has it."""
        return self.path.replace(":path", "")


CONFIRM = "confirm"
_SEARCH = {
    "search": {"type": "string", "maxLength": endpoints.MAX_SEARCH},
    "state": {"type": "string", "enum": list(STATES)},
    "archived": {"type": "boolean"},
    "limit": {"type": "integer", "minimum": 1, "maximum": endpoints.MAX_LIMIT, "default": endpoints.DEFAULT_LIMIT},
    "page": {"type": "integer", "minimum": 1, "maximum": endpoints.MAX_PAGE, "default": 1},
}
_ALL = "/v1/experiments"
_ONE = _ALL + "/{name}"
CALLS = (  # in the order in which the router tries them: those that traffic goes through come first
    Call("POST", _ONE + "/interleave", INGEST, "mix rankings into a list", ingest.interleave, Interleave, Shown, 201),
    Call("POST", EVENTS, INGEST, "report what people did", ingest.events, Events, Taken, 202, narrows=True),
    Call(
        "GET", _ALL, READ, "experiments, page by page", endpoints.listed, None, Experiments, narrows=True, query=_SEARCH
    ),
    Call("POST", _ALL, ADMIN, "make an experiment, as a draft", endpoints.create, Experiment, status=201),
    Call("GET", _ONE, EITHER, "one experiment", endpoints.read),
    Call("PUT", _ONE, ADMIN, "change a draft; of a running one, make a new version", endpoints.edit, Experiment),
    Call("POST", _ONE + "/start", ADMIN, "let it run", endpoints.start),
    Call("POST", _ONE + "/stop", ADMIN, "end it", endpoints.stop),
    Call("POST", _ONE + "/decide", ADMIN, "write down the decision", endpoints.decide, Decision),
    Call("POST", _ONE + "/archive", ADMIN, "stop it if it runs, and hide it from lists", endpoints.archive),
    Call("POST", _ONE + "/unarchive", ADMIN, "show it in lists again", endpoints.unarchive),
    Call(
        *("DELETE", _ONE, ADMIN, "delete it with all its rows; `confirm` repeats its name", endpoints.delete),
        gives=Deleted,
        query={CONFIRM: {"type": "string"}},
    ),
    Call("GET", _ONE + "/report", READ, "the report, as on the page", endpoints.report, None, ReportAnswer),
    Call("GET", _ONE + "/log", READ, "the native log, as Parquet", endpoints.export, None, bytes),
    Call("DELETE", "/v1/units/{unit:path}", ADMIN, "delete all rows of a unit", endpoints.forget, None, Forgotten),
    Call(
        "GET", "/livez", PUBLIC, "whether the process answers, whatever its store does", endpoints.live, None, Healthy
    ),
    Call("GET", "/readyz", PUBLIC, "whether the store answers within a second", endpoints.ready, None, Healthy),
    Call("GET", "/healthz", PUBLIC, "the same as /readyz", endpoints.ready, None, Healthy),
    Call("GET", "/metrics", READ, "figures for Prometheus", endpoints.figures, None, str, during_outage=True),
)
