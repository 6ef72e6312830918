"""The table of API calls (input, output, role), and the OpenAPI description made from it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
from starlette.responses import Response

from interleaf import __version__
from interleaf.experiment import Experiment
from interleaf.experiment.settings import SETTINGS
from interleaf.server import choosing, endpoints, ingest, schemas
from interleaf.store.records import ADMIN, INGEST, READ, STATES

PUBLIC, EITHER = "public", "read or ingest"
EVENTS = "/v1/events"


@dataclass(frozen=True, eq=False)
class Call:
    """One call: the role that it needs, its handler, the types of its request and response, its success status.

    A key of one experiment may make calls about that experiment, and calls with `narrows`, which return only that one.
    `query` has the schemas of query parameters. `during_outage`: the call works while the store does not answer.
    """

    method: str
    path: str
    role: str
    does: str
    run: Callable[..., Awaitable[Response]]
    takes: Any = None
    gives: Any = schemas.ExperimentResponse
    status: int = 200
    narrows: bool = False
    during_outage: bool = False
    query: Mapping[str, Any] = field(default_factory=dict)


_SEARCH = {
    "search": {"type": "string", "maxLength": endpoints.MAX_SEARCH},
    "state": {"type": "string", "enum": list(STATES)},
    "archived": {"type": "boolean"},
    "limit": {"type": "integer", "minimum": 1, "maximum": endpoints.MAX_LIMIT, "default": endpoints.DEFAULT_LIMIT},
    "page": {"type": "integer", "minimum": 1, "maximum": endpoints.MAX_PAGE, "default": 1},
}
_ALL = "/v1/experiments"
_ONE = _ALL + "/{name}"
_UNIT = "/v1/units/{unit:path}"
_HEALTH = schemas.HealthResponse
CALLS = (  # in the order in which the router tries them: calls of search traffic come first
    Call(
        *("POST", _ONE + "/interleave", INGEST, "mix rankings into a list", ingest.interleave),
        *(schemas.InterleaveRequest, schemas.InterleaveResponse, 201),
    ),
    Call(
        *("POST", _ONE + "/choose", INGEST, "which rankers to run for a user", choosing.choose),
        *(schemas.ChooseRequest, schemas.ChooseResponse),
    ),
    Call(
        *("POST", EVENTS, INGEST, "report clicks and other events", ingest.events),
        *(schemas.EventsRequest, schemas.EventsResponse, 202, True),
    ),
    Call(
        *("GET", _ALL, READ, "experiments, page by page", endpoints.list_experiments, None),
        *(schemas.ExperimentsResponse, 200, True, False, _SEARCH),
    ),
    Call("POST", _ALL, ADMIN, "create an experiment, as a draft", endpoints.create, Experiment, status=201),
    Call("GET", _ONE, EITHER, "one experiment", endpoints.read),
    Call("PUT", _ONE, ADMIN, "change a draft, or make a new version of a running one", endpoints.edit, Experiment),
    Call("POST", _ONE + "/start", ADMIN, "start it", endpoints.start),
    Call("POST", _ONE + "/stop", ADMIN, "end it", endpoints.stop),
    Call("POST", _ONE + "/decide", ADMIN, "record the decision", endpoints.decide, schemas.DecisionRequest),
    Call("POST", _ONE + "/archive", ADMIN, "stop it if it runs, and hide it from lists", endpoints.archive),
    Call("POST", _ONE + "/unarchive", ADMIN, "show it in lists again", endpoints.unarchive),
    Call(
        *("DELETE", _ONE, ADMIN, "delete it with all its rows; `confirm` repeats its name", endpoints.delete),
        gives=schemas.DeleteResponse,
        query={"confirm": {"type": "string"}},
    ),
    Call("GET", _ONE + "/report", READ, "the report, as on the page", endpoints.report, None, schemas.ReportResponse),
    Call("GET", _ONE + "/plans", READ, "the plans of epochs", endpoints.plans, None, schemas.PlansResponse),
    Call("GET", _ONE + "/log", READ, "the native log, as Parquet", endpoints.export, None, bytes),
    Call("DELETE", _UNIT, ADMIN, "delete all rows of a unit", endpoints.forget, None, schemas.ForgetResponse),
    Call("GET", "/livez", PUBLIC, "whether the process answers (not the store)", endpoints.live, None, _HEALTH),
    Call("GET", "/readyz", PUBLIC, "whether the store answers within a second", endpoints.ready, None, _HEALTH),
    Call("GET", "/healthz", PUBLIC, "the same as /readyz", endpoints.ready, None, _HEALTH),
    Call("GET", "/metrics", READ, "metrics for Prometheus", endpoints.metrics, None, str, during_outage=True),
)


_REFS = "#/components/schemas/{name}"
_MEANINGS = {
    400: "malformed: not JSON, or not UTF-8",
    401: "no key, or an unknown one",
    403: "the key has another role, or the token belongs to another impression",
    404: "unknown",
    409: "not in that state",
    413: "too large",
    415: "not JSON",
    422: "a value is invalid; the response names the field",
    429: "too many requests",
    503: "the store does not answer",
}


@lru_cache(maxsize=1)
def description() -> dict[str, Any]:
    """The OpenAPI document."""
    records: set[Any] = {schemas.ErrorResponse}
    records.update(one for call in CALLS for one in (call.takes, call.gives) if hasattr(one, "__struct_fields__"))
    _, components = msgspec.json.schema_components(sorted(records, key=lambda one: one.__name__), ref_template=_REFS)
    paths: dict[str, dict[str, Any]] = {}
    for call in CALLS:
        address = call.path.replace(":path", "")  # in OpenAPI syntax
        paths.setdefault(address, {})[call.method.lower()] = _operation(call, address)
    fields = {name: setting.schema | {"description": setting.meaning} for name, setting in SETTINGS.items()}
    needed = ["name", "rankers"]
    settings = {"type": "object", "properties": fields, "required": needed, "additionalProperties": False}
    return {
        "openapi": "3.1.0",
        "info": {"title": "interleaf", "version": __version__, "summary": "Compare rankers by interleaving"},
        "paths": paths,
        "components": {
            "schemas": components | {"Experiment": settings},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(call: Call, address: str) -> dict[str, Any]:
    answers: dict[str, Any] = {str(call.status): {"description": call.does, "content": _content(call.gives)}}
    if call.status == 201 and call.takes is not Experiment:
        answers["200"] = {"description": "the same again", "content": _content(call.gives)}
    for status, meaning in _MEANINGS.items():
        answers[str(status)] = {"description": meaning, "content": _content(schemas.ErrorResponse)}
    operation: dict[str, Any] = {"summary": call.does, "operationId": call.run.__name__, "responses": answers}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", address)
    ]
    if call.path.endswith(("/report", "/log", "/plans")):
        parameters.append({"name": "version", "in": "query", "schema": {"type": "integer", "minimum": 1}})
    parameters += [
        {"name": name, "in": "query", "required": name == "confirm", "schema": schema}
        for name, schema in call.query.items()
    ]
    if parameters:
        operation["parameters"] = parameters
    if call.takes is not None:
        operation["requestBody"] = {"required": True, "content": _content(call.takes)}
    if call.role != PUBLIC:
        operation["security"] = [{"key": []}]
    return operation


def _content(kind: type) -> dict[str, Any]:
    if kind is bytes:
        return {"application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}}}
    if kind is str:
        return {"text/plain": {"schema": {"type": "string"}}}
    return {"application/json": {"schema": {"$ref": _REFS.format(name=kind.__name__)}}}
