"""The API's description (OpenAPI 3.1), made from the table of calls."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from interleaf import __version__
from interleaf.experiment import Experiment
from interleaf.experiment.settings import SETTINGS
from interleaf.serve.routes import CALLS, CONFIRM, PUBLIC, Call
from interleaf.serve.schemas import Refusal

_REFS = "#/components/schemas/{name}"
_MEANINGS = {
    400: "malformed: not JSON, or not UTF-8",
    401: "no key, or an unknown one",
    403: "a key of another role, or a token of another impression",
    404: "unknown",
    409: "not in that state",
    413: "too large",
    415: "not JSON",
    422: "understood, but wrong: the field is named",
    429: "too many requests",
    503: "the store is away",
}
_VERSIONED = ("/report", "/log")


def description() -> dict[str, Any]:
    """The whole document."""
    records = {one for call in CALLS for one in (call.takes, call.gives) if _is_record(one)} | {Refusal}
    _, components = msgspec.json.schema_components(sorted(records, key=lambda one: one.__name__), ref_template=_REFS)
    paths: dict[str, dict[str, Any]] = {}
    for call in CALLS:
        paths.setdefault(call.address, {})[call.method.lower()] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "interleaf",
            "version": __version__,
            "summary": "Which ranker do people prefer",
        },
        "paths": paths,
        "components": {
            "schemas": components | {"Experiment": experiment_schema()},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def experiment_schema() -> dict[str, Any]:
    """The settings of an experiment."""
    fields = {
        name: setting.metadata["kind"].schema | {"description": setting.metadata["meaning"]}
        for name, setting in SETTINGS.items()
    }
    return {"type": "object", "properties": fields, "required": ["name", "rankers"], "additionalProperties": False}


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _operation(call: Call) -> dict[str, Any]:
    refused = {"$ref": _REFS.format(name=Refusal.__name__)}
    answers: dict[str, Any] = {str(call.status): {"description": call.does, "content": _content(call)}}
    if call.status == 201 and call.takes is not Experiment:
        answers["200"] = {"description": "the same again", "content": _content(call)}
    for status, meaning in _MEANINGS.items():
        answers[str(status)] = {"description": meaning, "content": {"application/json": {"schema": refused}}}
    operation: dict[str, Any] = {
        "summary": call.does,
        "operationId": call.run.__name__,
        "responses": answers,
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", call.address)
    ]
    if call.path.endswith(_VERSIONED):
        parameters.append({"name": "version", "in": "query", "schema": {"type": "integer", "minimum": 1}})
    parameters += [
        {"name": name, "in": "query", "required": name == CONFIRM, "schema": schema}
        for name, schema in call.query.items()
    ]
    if parameters:
        operation["parameters"] = parameters
    if call.takes is not None:
        taken = {"application/json": {"schema": {"$ref": _REFS.format(name=call.takes.__name__)}}}
        operation["requestBody"] = {"required": True, "content": taken}
    if call.role != PUBLIC:
        operation["security"] = [{"key": []}]
    return operation


def _content(call: Call) -> dict[str, Any]:
    if call.gives is bytes:
        return {"application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}}}
    if call.gives is str:
        return {"text/plain": {"schema": {"type": "string"}}}
    return {"application/json": {"schema": {"$ref": _REFS.format(name=call.gives.__name__)}}}
