"""The table of calls: what each takes and gives, and whose key it asks for; the API's description follows from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from interleaf.experiment import Experiment
from interleaf.serve import calls, hot
from interleaf.serve.messages import (
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
    "search": {"type": "string", "maxLength": calls.MAX_SEARCH},
    "state": {"type": "string", "enum": list(STATES)},
    "archived": {"type": "boolean"},
    "limit": {"type": "integer", "minimum": 1, "maximum": calls.MAX_LIMIT, "default": calls.DEFAULT_LIMIT},
    "page": {"type": "integer", "minimum": 1, "maximum": calls.MAX_PAGE, "default": 1},
}
_ALL = "/v1/experiments"
_ONE = _ALL + "/{name}"
CALLS = (  # in the order in which the router tries them: those that traffic goes through come first
    Call("POST", _ONE + "/interleave", INGEST, "mix rankings into a list", hot.interleave, Interleave, Shown, 201),
    Call("POST", EVENTS, INGEST, "report what people did", hot.events, Events, Taken, 202, narrows=True),
    Call("GET", _ALL, READ, "experiments, page by page", calls.listed, None, Experiments, narrows=True, query=_SEARCH),
    Call("POST", _ALL, ADMIN, "make an experiment, as a draft", calls.create, Experiment, status=201),
    Call("GET", _ONE, EITHER, "one experiment", calls.read),
    Call("PUT", _ONE, ADMIN, "change a draft; of a running one, make a new version", calls.edit, Experiment),
    Call("POST", _ONE + "/start", ADMIN, "let it run", calls.start),
    Call("POST", _ONE + "/stop", ADMIN, "end it", calls.stop),
    Call("POST", _ONE + "/decide", ADMIN, "write down the decision", calls.decide, Decision),
    Call("POST", _ONE + "/archive", ADMIN, "stop it if it runs, and hide it from lists", calls.archive),
    Call("POST", _ONE + "/unarchive", ADMIN, "show it in lists again", calls.unarchive),
    Call(
        *("DELETE", _ONE, ADMIN, "delete it with all its rows; `confirm` repeats its name", calls.delete),
        gives=Deleted,
        query={CONFIRM: {"type": "string"}},
    ),
    Call("GET", _ONE + "/report", READ, "the report, as on the page", calls.report, None, ReportAnswer),
    Call("GET", _ONE + "/log", READ, "the native log, as Parquet", calls.export, None, bytes),
    Call("DELETE", "/v1/units/{unit:path}", ADMIN, "delete all rows of a unit", calls.forget, None, Forgotten),
    Call("GET", "/livez", PUBLIC, "whether the process answers, whatever its store does", calls.live, None, Healthy),
    Call("GET", "/readyz", PUBLIC, "whether the store answers within a second", calls.ready, None, Healthy),
    Call("GET", "/healthz", PUBLIC, "the same as /readyz", calls.ready, None, Healthy),
    Call("GET", "/metrics", READ, "figures for Prometheus", calls.figures, None, str, during_outage=True),
)
