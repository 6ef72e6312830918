"""Searches that take part: which requests they are, what callers asked for, who asks, and the scores of the answer."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlencode

import msgspec

from interleaf.client.visitors import clean_id, visitor_id
from interleaf.proxy.codes import BypassCode, BypassError
from interleaf.proxy.config import Condition, RankerSection, RequestsSection, UnitSection
from interleaf.proxy.json_pointer import find_value

Pairs = list[tuple[str, str]]
RawHeaders = Sequence[tuple[bytes, bytes]]
MAX_PARAMETERS, MAX_QUERY_ID = 1000, 200
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
STEP = 1e-6  # the smallest relative difference of two scores that follow each other: more than a 32 bit number resolves


@dataclass
class Incoming:
    """A request that may be a search: as it came, and its parts."""

    method: bytes
    path: str
    query: bytes
    headers: RawHeaders  # without hop-by-hop ones; names are in lower case
    unit: str | None = None
    plain: bytes = field(init=False, default=b"")  # the body without its content coding

    @property
    def target(self) -> bytes:
        """Path and query as they came."""
        return self.path.encode("latin-1") + (b"?" + self.query if self.query else b"")

    def header(self, name: bytes) -> str:
        """The value of a header; empty if it is missing."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")

    @cached_property
    def parameters(self) -> Pairs:
        """The URL parameters."""
        return read_pairs(self.query)

    def parameter(self, name: str) -> str | None:
        """The last value of a URL parameter, as engines read it."""
        return next((value for key, value in reversed(self.parameters) if key == name), None)


class ResultPage(NamedTuple):
    """The part of the list that the caller asks for: `size` results after the first `first`."""

    first: int
    size: int


@dataclass(frozen=True)
class EngineRequest:
    """A request of a ranker to the engine."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass
class RankerAnswer:
    """The answer to a ranker's search: ids, best first, and what its engine needs to build the page."""

    ids: list[str]
    hits: Any
    data: Any
    took: float  # milliseconds, as the engine says
    headers: RawHeaders = ()


@dataclass
class Page:
    """The page that people see: its documents, and how many the whole mixed list has."""

    window: ResultPage
    documents: list[str]
    before: list[str]  # all documents of earlier pages
    mixed: int
    note: dict[str, Any]  # what the answer says about the impression
    link_of: Callable[[int, str], str | None] | None = None  # the link that counts a click on a rank with a URL

    def add_links(self, urls: Sequence[Any]) -> None:
        """Add the links of the documents to the note; None where a document has no URL."""
        if self.link_of is not None:
            ranked = enumerate(urls, self.window.first + 1)
            self.note["links"] = [self.link_of(rank, url) if isinstance(url, str) else None for rank, url in ranked]


class ParsedSearch(Protocol):
    """A search that can be interleaved, in the terms of its engine."""

    window: ResultPage
    body: Any  # the JSON body; None if the engine's searches have none
    digest: bytes  # the same for all pages of one search
    query: str  # the text that was typed, else a digest of the search

    @property
    def defaults_request(self) -> EngineRequest | None:
        """Asks for the parameters that the engine adds to the caller's; None if it adds none."""

    def read_defaults(self, body: bytes) -> Pairs:
        """The parameters that the engine adds, from its answer to `defaults_request`."""

    def add_defaults(self, defaults: Pairs) -> None:
        """Read the search again with the parameters that the engine adds."""

    def request_of(self, ranker: RankerSection, size: int, is_control: bool) -> EngineRequest:
        """The request of a ranker for its first results."""

    def combine(self, requests: list[EngineRequest]) -> EngineRequest | None:
        """One request for all of them; None if the engine has none."""

    def split(self, body: bytes) -> list[tuple[int, bytes]]:
        """The answer to a combined request, as a status and an answer for each."""

    def read_answer(self, body: bytes) -> RankerAnswer:
        """The answer to a ranker's request."""

    def find_query_id(self, answer: RankerAnswer) -> str | None:
        """The query id of UBI, of the request or of the control's answer."""

    def build(self, control: str, answers: Mapping[str, RankerAnswer], page: Page) -> bytes:
        """The answer to the caller."""


def is_selected(section: RequestsSection) -> Callable[[str, str], bool]:
    """A function that says whether the method and the path of a request take part; a slash at the end is ignored.

    >>> selected = is_selected(RequestsSection(paths=("/products-*/_search",)))
    >>> selected("POST", "/products-de/_search"), selected("POST", "/products/_doc/_search")
    (True, False)
    """
    patterns = "|".join(re.escape(one).replace(r"\*", "[^/]*") for one in section.paths)
    match, methods = re.compile(f"(?:{patterns})/?").fullmatch, frozenset(section.methods)
    return lambda method, path: method in methods and match(path) is not None


def read_pairs(text: bytes) -> Pairs:
    """URL parameters, also those of a form."""
    try:
        decoded = text.decode("ascii")
        return parse_qsl(decoded, keep_blank_values=True, max_num_fields=MAX_PARAMETERS, errors="strict")
    except ValueError:
        raise BypassError(BypassCode.NOT_UNDERSTOOD) from None


def write_pairs(pairs: Pairs) -> bytes:
    """URL parameters as text."""
    return urlencode(pairs).encode("ascii")


def set_pairs(pairs: Pairs, values: Mapping[str, Sequence[str]]) -> Pairs:
    """Replace parameters; without values, they are removed.

    >>> set_pairs([("q", "shoes"), ("rows", "10")], {"rows": ["50"], "q": []})
    [('rows', '50')]
    """
    others = [(name, value) for name, value in pairs if name not in values]
    return others + [(name, value) for name, several in values.items() for value in several]


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396): objects are merged, null removes, everything else replaces.

    >>> merge_patch({"query": {"a": 1, "b": 2}, "size": 5}, {"query": {"a": None, "c": [3]}})
    {'query': {'b': 2, 'c': [3]}, 'size': 5}
    """
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def decode_object(body: bytes) -> dict[str, Any]:
    """A JSON object; an empty body is an empty object."""
    if not body.strip():
        return {}
    try:
        data = msgspec.json.decode(body)
    except _UNREADABLE:
        raise BypassError(BypassCode.NOT_JSON) from None
    if not isinstance(data, dict):
        raise BypassError(BypassCode.NOT_JSON)
    return data


def decompress(body: bytes, coding: str, max_bytes: int) -> bytes | None:
    """A body without its content coding; None if the coding is unknown, the data is broken, or the result too large.

    >>> import gzip
    >>> decompress(gzip.compress(b"{}"), "gzip", 100), decompress(gzip.compress(bytes(1000)), "gzip", 100)
    (b'{}', None)
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return body if len(body) <= max_bytes else None
    if coding not in ("gzip", "x-gzip", "deflate"):
        return None
    decoder = zlib.decompressobj(wbits=47)  # gzip or zlib, by the first bytes
    try:
        plain = decoder.decompress(body, max_bytes + 1)
    except zlib.error:
        return None
    return plain if decoder.eof and len(plain) <= max_bytes else None


def holds(condition: Condition, incoming: Incoming, body: Any) -> bool:
    """Whether a condition of the configuration holds."""
    if condition.parameter is not None:
        value: Any = incoming.parameter(condition.parameter)
    elif condition.header is not None:
        value = incoming.header(condition.header.lower().encode()) or None
    else:
        value = find_value(body, condition.pointer or ())
    if condition.equals is None:
        return value is not None
    if isinstance(condition.equals, bool) or condition.pointer is not None:
        return bool(value == condition.equals) and isinstance(value, bool) == isinstance(condition.equals, bool)
    return bool(value == str(condition.equals))


def as_query_id(value: Any) -> str | None:
    """The query id of UBI in the object `ubi` of a request or an answer."""
    query_id = value.get("query_id") if isinstance(value, dict) else None
    return query_id if isinstance(query_id, str) and 0 < len(query_id) <= MAX_QUERY_ID else None


def read_whole(value: Any, least: int = 0) -> int:
    """A whole number of a request, also as text."""
    if isinstance(value, str) and len(value) < 12 and value.isascii() and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BypassError(BypassCode.NOT_UNDERSTOOD)
    return value


def read_number(raw: msgspec.Raw | None) -> float:
    """A number of an answer; 0 if it is none."""
    try:
        return msgspec.json.decode(raw or b"0", type=int | float)
    except msgspec.DecodeError:
        return 0


def is_true(value: Any) -> bool:
    """Whether a flag of a request is set, as engines read it."""
    return value not in (None, False, "false", "off", "no", "0")


def digest_of(*parts: Any) -> bytes:
    """A digest of plain data."""
    return blake2b(msgspec.json.encode(parts, order="sorted"), digest_size=16).digest()


class Unit(NamedTuple):
    """The id of a user, and the Set-Cookie header that a new user gets."""

    id: str | None
    set_cookie: bytes | None = None


def find_unit(section: UnitSection, headers: RawHeaders) -> Unit:
    """The id in the header, else in the cookie, else in the proxy's own cookie.

    The value of a cookie may be a session's secret, so it is hashed.
    """
    if section.header is not None:
        name = section.header.lower().encode()
        value = next((value for key, value in headers if key == name), b"").decode("latin-1").strip()
        if value:
            return Unit(clean_id(value))
    cookies = _read_cookies(headers) if section.cookie or section.own_cookie else {}
    if section.cookie is not None and cookies.get(section.cookie):
        return Unit(blake2b(cookies[section.cookie].encode("latin-1"), digest_size=16).hexdigest())
    if not section.own_cookie:
        return Unit(None)
    visitor = visitor_id(cookies, secure=section.secure_cookie)
    return Unit(visitor.id, None if visitor.set_cookie is None else visitor.set_cookie.encode())


def _read_cookies(headers: RawHeaders) -> dict[str, str]:
    """The cookies of a request; of several with one name, the first counts, as in browsers."""
    cookies = dict[str, str]()
    for name, line in headers:
        if name == b"cookie":
            for part in line.decode("latin-1").split(";"):
                key, _, value = part.strip().partition("=")
                cookies.setdefault(key, value)
    return cookies


def decrease(scores: Sequence[float | None]) -> list[float | None]:
    """Scores that decrease: each is the document's own, or a little below the one before.

    They depend on the documents before only, so they are the same on every page. If a document has no score, none has.

    >>> decrease([2.0, 3.0, 1.0])
    [2.0, 1.999998, 1.0]
    >>> decrease([2.0, None])
    [None, None]
    """
    decreasing = list[float | None]()
    last = float("inf")
    for score in scores:
        if score is None:
            return [None] * len(scores)
        last = min(score, last - max(abs(last) * STEP, 1e-9)) if decreasing else score
        decreasing.append(last)
    return decreasing
