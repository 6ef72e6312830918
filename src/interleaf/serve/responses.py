"""Responses as JSON: a record, or an error with its code and message. A stack trace is never sent."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interleaf.errors import ExperimentError, InterleafError, StateError, StoreError
from interleaf.serve.schemas import Problem, Refusal

JSON = "application/json"
RETRY = "Retry-After"
log = logging.getLogger("interleaf.serve")
_encode = msgspec.json.Encoder().encode
_PLACE = re.compile(r" - at `(?:key` in `)?\$?\.?([^`]*)`$")


class ApiError(Exception):
    """A request that gets an error response."""

    def __init__(
        self, status: int, code: str, message: str, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.field, self.headers = status, code, field, headers


class JsonResponse(Response):
    """A record as JSON. It skips what `Response.__init__` and `Response.__call__` do for other kinds of responses."""

    def __init__(self, record: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.body, self.status_code, self.background = _encode(record), status, None
        self.raw_headers = [(b"content-length", b"%d" % len(self.body)), (b"content-type", JSON.encode())]
        for name, value in (headers or {}).items():
            self.raw_headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body})


def error_response(error: Exception, route: str = "other") -> JsonResponse:
    """The response to a request that raised this error. An unexpected error is logged, and not explained."""
    status, code, field, headers = _kind(error)
    if status == 500:
        log.error("a request failed", exc_info=error, extra={"route": route})
        message = "something went wrong on our side; it has been logged"
    else:
        message = _PLACE.sub("", str(error)) if isinstance(error, msgspec.ValidationError) else str(error)
    problem = Problem(code, message, field or msgspec.UNSET)
    return JsonResponse(Refusal(problem), status, headers)


def _kind(error: Exception) -> tuple[int, str, str | None, Mapping[str, str] | None]:
    match error:
        case ApiError():
            return error.status, error.code, error.field, error.headers
        case msgspec.ValidationError():
            place = _PLACE.search(str(error))
            return 422, "invalid", place[1] if place else None, None
        case msgspec.DecodeError() | UnicodeDecodeError() | RecursionError():
            return 400, "malformed", None, None
        case ExperimentError():
            return 422, "invalid", error.field, None
        case StateError():
            return 409, "wrong_state", None, None
        case StoreError():
            return 503, "store_away", None, {RETRY: "1"}
        case InterleafError():
            return 422, "invalid", None, None
    return 500, "internal", None, None
