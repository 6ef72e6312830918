"""Bodies of requests and responses, and errors with code and message."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interleaf.errors import ExperimentError, InterleafError, StateError, StoreError
from interleaf.experiment import limits
from interleaf.interleaving.rankings import text_id

MAX_EVENTS, MAX_DOCUMENTS = 1000, 1000
_LENGTH = "1 to {} characters; a whole number is taken as its text"
Id = Annotated[str, Meta(min_length=1, max_length=limits.MAX_DOCUMENT, description=_LENGTH.format(limits.MAX_DOCUMENT))]
Name = Annotated[str, Meta(min_length=1, max_length=limits.MAX_NAME, description=_LENGTH.format(limits.MAX_NAME))]
Label = Annotated[str, Meta(min_length=1, max_length=limits.MAX_LABEL)]
Query = Annotated[str, Meta(max_length=limits.MAX_QUERY)]
Long = Annotated[str, Meta(max_length=limits.MAX_CAPTION)]
Ranking = Annotated[list[Id], Meta(max_length=MAX_DOCUMENTS, description="document ids, best first, each once")]
TextLength = Annotated[int, Meta(ge=0, le=limits.MAX_CHARACTERS, description="characters of the text of a document")]
TextLengths = Annotated[dict[Id, TextLength], Meta(max_length=limits.MAX_CAPTIONS)]
Seconds = Annotated[float, Meta(ge=0, le=limits.MAX_DWELL)]
Moment = Annotated[datetime, Meta(tz=True)]


_IDS = ("unit", "session", "impression", "event", "document")
_S = TypeVar("_S", bound=Struct)


def decoder(kind: type[_S]) -> Callable[[bytes], _S]:
    """A function that decodes bodies of this kind; ids may be whole numbers, which become text."""
    decode = msgspec.json.Decoder(kind).decode

    def decode_body(body: bytes) -> _S:
        try:
            return decode(body)
        except msgspec.ValidationError:
            plain = _with_text_ids(msgspec.json.decode(body))
            return msgspec.convert(plain, kind, str_keys=True)  # raises the same error if ids were not the problem

    return decode_body


def _with_text_ids(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    ids = {name: _text_id(body[name]) for name in _IDS if name in body}
    for name in ("rankings", "fixed", "groups"):
        if isinstance(body.get(name), dict):
            ids[name] = {key: _text_id(value) for key, value in body[name].items()}
    if isinstance(body.get("events"), list):
        ids["events"] = [_with_text_ids(event) for event in body["events"]]
    return body | ids


def _text_id(value: Any) -> Any:
    if isinstance(value, list):
        return [_text_id(one) for one in value]
    return value if (text := text_id(value)) is None else text


class Highlight(Struct, forbid_unknown_fields=True):
    """A part of a caption's text that was shown in bold."""

    field: Label
    start: Annotated[int, Meta(ge=0, le=limits.MAX_HIGHLIGHT_END)]
    end: Annotated[int, Meta(ge=0, le=limits.MAX_HIGHLIGHT_END)]


class Caption(Struct, forbid_unknown_fields=True):
    """The title, URL and snippet of a document, as shown to users."""

    title: Long | None = None
    url: Long | None = None
    snippet: Long | None = None
    highlights: Annotated[list[Highlight], Meta(max_length=limits.MAX_HIGHLIGHTS)] | None = None
    deep_links: Annotated[int, Meta(ge=0, le=limits.MAX_DEEP_LINKS)] | None = None


class InterleaveRequest(Struct, forbid_unknown_fields=True):
    """Rankings for one query of one unit; null stands for a ranking that failed or came too late.

    An empty ranking is an answer: the ranker found nothing. A list of which no ranker found a document is empty, and it
    is logged.
    A list shows one document of each group, such as variants of a product.
    A client that composed a list during an outage sends it later, with its `time` and the `version` at that time.
    """

    rankings: Annotated[dict[Label, Ranking | None], Meta(max_length=100)] = {}
    unit: Name | None = None
    query: Query | None = None
    session: Name | None = None
    impression: Name | None = None
    k: Annotated[int, Meta(ge=1, le=limits.MAX_K)] | None = None
    page: Annotated[int, Meta(ge=1, le=limits.MAX_PAGE)] = 1
    attributes: Annotated[dict[Label, Id], Meta(max_length=limits.MAX_ATTRIBUTES)] | None = None
    captions: Annotated[dict[Id, Caption], Meta(max_length=limits.MAX_CAPTIONS)] | None = None
    characters: TextLengths | None = None
    fixed: Annotated[dict[Annotated[int, Meta(ge=1, le=limits.MAX_FIXED)], Id], Meta(max_length=100)] | None = None
    groups: Annotated[dict[Id, Id], Meta(max_length=2 * MAX_DOCUMENTS, description="document to group")] | None = None
    latency: Annotated[dict[Label, Annotated[float, Meta(ge=0, le=1e7)]], Meta(max_length=100)] | None = None
    user_agent: Annotated[str, Meta(max_length=limits.MAX_USER_AGENT)] | None = None
    time: Moment | None = None
    version: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class ChooseRequest(Struct, forbid_unknown_fields=True):
    """The user for whom rankers are to be run."""

    unit: Name


class ChooseResponse(Struct):
    """The rankers to run for this user now, whose rankings the next request for a list needs.

    `epoch`: the number of the epoch, at whose end they may change; null if the experiment does not choose among many
    rankers, or if there is no plan: then only the control is run.
    """

    rankers: list[str]
    arm: str
    version: int
    epoch: int | None


class InterleaveResponse(Struct):
    """The documents to show; `token` lets a browser report events of this impression, and no other."""

    impression: str | None
    documents: list[str]
    arm: str
    version: int
    token: str | None


class EventBody(Struct, forbid_unknown_fields=True):
    """An event on an impression; or of a unit, whose impression is found by attribution."""

    event: Name | None = None
    impression: Name | None = None
    unit: Name | None = None
    rank: Annotated[int, Meta(ge=1, le=limits.MAX_RANK)] | None = None
    document: Id | None = None
    kind: Label = "click"
    time: Moment | None = None
    dwell: Seconds | None = None
    value: Annotated[float, Meta(ge=-limits.MAX_VALUE, le=limits.MAX_VALUE)] | None = None


class EventsRequest(Struct, forbid_unknown_fields=True):
    """A batch of events. With an impression's token no key is needed, but all events must belong to that impression."""

    events: Annotated[list[EventBody], Meta(min_length=1, max_length=MAX_EVENTS)]
    token: Annotated[str, Meta(max_length=200)] | None = None


class EventsResponse(Struct):
    """How many events of a batch were accepted, repeated or unmatched; `apart` counts the unmatched by reason."""

    accepted: int
    repeated: int
    unmatched: int
    apart: dict[str, int]


class DecisionRequest(Struct, forbid_unknown_fields=True):
    """The decision, as text."""

    decision: Annotated[str, Meta(min_length=1, max_length=2000)]


class HistoryEntry(Struct):
    """A line of an experiment's history."""

    time: str
    version: int
    what: str
    who: str
    note: str


class ExperimentResponse(Struct):
    """An experiment with its settings and its history."""

    name: str
    version: int
    state: str
    settings: dict[str, Any]
    created: str
    started: str | None
    stopped: str | None
    archived: str | None
    history: list[HistoryEntry]


class ExperimentsResponse(Struct):
    """A page of experiments, the total on all pages, and the number of the next page, if there is one.

    At most a thousand are counted. If there are more, `total` is not exact.
    """

    experiments: list[ExperimentResponse]
    total: int
    is_total_exact: bool
    next: int | None


class ReportResponse(Struct):
    """The report of each metric, the primary one first; or the reason why there is no report yet."""

    version: int
    reports: dict[str, Any]
    reason: str | None
    open: int
    folded: int
    apart: dict[str, int]


class PlansResponse(Struct):
    """The plans of all epochs of a version, if the experiment chooses the best of many rankers."""

    version: int
    plans: list[dict[str, Any]]


class HealthResponse(Struct):
    """The service is healthy."""

    status: str


class ForgetResponse(Struct):
    """How many impressions of a unit were deleted."""

    impressions: int


class DeleteResponse(Struct):
    """How many impressions were deleted with an experiment."""

    impressions: int


class ErrorBody(Struct, omit_defaults=True):
    """An error code, and a message that names the value and the remedy."""

    code: str
    message: str
    field: str | UnsetType = UNSET


class ErrorResponse(Struct):
    """The body of every error response."""

    error: ErrorBody


JSON = "application/json"
RETRY = "Retry-After"
log = logging.getLogger("interleaf.server")
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
    """A record as JSON. For speed, it skips `Response.__init__` and `Response.__call__`."""

    def __init__(self, record: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.body, self.status_code, self.background = _encode(record), status, None
        self.raw_headers = [(b"content-length", b"%d" % len(self.body)), (b"content-type", JSON.encode())]
        for name, value in (headers or {}).items():
            self.raw_headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body})


def error_response(error: Exception, route: str = "other") -> JsonResponse:
    """The response to a request that raised this error. An unexpected error is logged, and its text is not sent."""
    status, code, message = 422, "invalid", str(error)
    field = error.field if isinstance(error, ApiError | ExperimentError) else None
    headers: Mapping[str, str] | None = None
    match error:
        case ApiError():
            status, code, headers = error.status, error.code, error.headers
        case msgspec.ValidationError():
            message, *fields = _PLACE.split(message)[:2]
            field = fields[0] if fields else None
        case msgspec.DecodeError() | UnicodeDecodeError() | RecursionError():
            status, code = 400, "malformed"
        case StateError():
            status, code = 409, "wrong_state"
        case StoreError():
            status, code, headers = 503, "store_away", {RETRY: "1"}
        case InterleafError():
            pass
        case _:
            status, code, message = 500, "internal", "something went wrong on our side; it has been logged"
            log.error("a request failed", exc_info=error, extra={"route": route})
    return JsonResponse(ErrorResponse(ErrorBody(code, message, field or msgspec.UNSET)), status, headers)


def refuse_nulls(body: bytes, data: Any) -> None:
    """Refuse the character NUL, which databases and terminals cannot handle."""
    if b"\\u0000" in body and (field := _null_field(msgspec.to_builtins(data))) is not None:
        raise ApiError(422, "invalid", "the request contains the character NUL; remove it", field or None)


def _null_field(value: Any, field: str = "") -> str | None:
    """The field that contains the character NUL, such as `events[3].unit`; None if there is none."""
    if isinstance(value, dict):
        if any(isinstance(key, str) and "\0" in key for key in value):
            return field
        places = ((f"{field}.{key}" if field else str(key), item) for key, item in value.items())
    elif isinstance(value, list):
        places = ((f"{field}[{index}]", item) for index, item in enumerate(value))
    else:
        return field if isinstance(value, str) and "\0" in value else None
    return next((inner for place, item in places if (inner := _null_field(item, place)) is not None), None)
