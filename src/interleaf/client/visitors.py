"""Cleans values that come from visitors, so that nothing they type or forge can break a search.

Texts are cut and cleaned. An id that the service would refuse is replaced by its hash, because cutting could make two
ids equal. A number out of range becomes the nearest valid one, or is dropped.
"""

from __future__ import annotations

import logging
import math
import re
import secrets
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

from interleaf.errors import ClientError
from interleaf.experiment import limits
from interleaf.interleaving.rankings import text_id

_LONE = re.compile("[\ud800-\udfff]")  # lone surrogates, which UTF-8 cannot encode
_DIGITS, _BITS = 20, 10_000  # maximum digits of a number in a text, and bits of a number that becomes text
log = logging.getLogger("interleaf.client")


class Visitors:
    """Cleans the values of requests and events, counts what it changed, and warns once about each field."""

    def __init__(self) -> None:
        self.cleaned = 0
        self._fields: set[str] = set()

    def note(self, field: str, what: str) -> None:
        """Count a value that had to be changed or dropped. The values themselves are never logged."""
        self.cleaned += 1
        if field not in self._fields:
            self._fields.add(field)
            log.warning("%s %s; further ones are counted in client.status().cleaned, and not logged", field, what)

    def id(self, field: str, value: Any) -> str | None:
        """An id of a unit, a session or an impression; None if it is empty."""
        return self._text(field, value, clean_id)

    def text(self, field: str, value: Any, max_length: int) -> str | None:
        """A text that may be cut."""
        return self._text(field, value, lambda text: clean_text(text, max_length))

    def attributes(self, values: Mapping[str, Any] | None) -> dict[str, str] | None:
        """Attributes with their values, without empty ones."""
        if values is None:
            return None
        if not isinstance(values, Mapping):
            raise ClientError(f"attributes are {values!r:.100}; give a mapping from names to values")
        cleaned = dict[str, str]()
        for name, value in values.items():
            label = self.text("attributes", name, limits.MAX_LABEL)
            text = self.text("attributes", value, limits.MAX_DOCUMENT)
            if label and text and len(cleaned) < limits.MAX_ATTRIBUTES:
                cleaned[label] = text
            elif value is not None:
                self.note("attributes", f"are empty, or more than {limits.MAX_ATTRIBUTES}")
        return cleaned

    def captions(self, values: Mapping[str, Mapping[str, Any]] | None) -> dict[str, dict[str, Any]] | None:
        """Captions by document, without values that the service would refuse: snippets contain what visitors typed."""
        if values is None:
            return None
        if not isinstance(values, Mapping):
            raise ClientError(f"captions are {values!r:.100}; give a mapping from documents to captions")
        cleaned = dict[str, dict[str, Any]]()
        for document, caption in values.items():
            name = _document_id(document)
            if name and len(cleaned) < limits.MAX_CAPTIONS and isinstance(caption, Mapping):
                cleaned[name] = self._caption(caption)
            else:
                self.note("captions", "do not name a document, are not a mapping, or are too many")
        return cleaned

    def characters(self, values: Mapping[str, int] | None) -> dict[str, int] | None:
        """Lengths of texts by document, without values that the service would refuse."""
        if values is None:
            return None
        if not isinstance(values, Mapping):
            raise ClientError(f"characters are {values!r:.100}; give a mapping from documents to lengths of texts")
        cleaned = dict[str, int]()
        for document, value in values.items():
            name, length = _document_id(document), whole(value)
            is_length = length is not None and 0 <= length <= limits.MAX_CHARACTERS
            if name and len(cleaned) < limits.MAX_CAPTIONS and length is not None and is_length:
                cleaned[name] = length
            else:
                self.note("characters", "do not name a document, are not lengths, or are too many")
        return cleaned

    def _caption(self, given: Mapping[str, Any]) -> dict[str, Any]:
        caption = dict[str, Any]()
        for field, value in given.items():
            if field in _CAPTION_TEXTS:
                caption[field] = self.text("captions", value, limits.MAX_CAPTION)
            elif value is not None:
                fit = _CAPTION[field](value) if field in _CAPTION else None
                if fit is None or (isinstance(fit, list) and len(fit) < len(value)):
                    self.note("captions", "hold a field or a value that the service does not take")
                caption |= {} if fit is None else {field: fit}
        return caption

    def page(self, value: Any) -> int:
        """A page number; 1 if the value is not one."""
        page = whole(value)
        if page is None or page < 1:
            self.note("page", "is not a page number")
            return 1
        return page

    def k(self, value: Any) -> int | None:
        """The number of results per page; None, for the experiment's setting, if the value is not a number."""
        k = None if value is None else whole(value)
        fit = None if k is None or k < 1 else min(k, limits.MAX_K)
        if fit != k or (k is None and value is not None):
            self.note("k", f"is not from 1 to {limits.MAX_K}")
        return fit

    def event(self, given: Any) -> dict[str, Any] | None:
        """An event that the service accepts, or None if a required field is missing or invalid."""
        event, unfit = dict[str, Any](), list[str]()
        for field, value in given.items() if isinstance(given, Mapping) else ():
            if value is not None:
                clean = _EVENT.get(field)
                fit = clean(value) if clean else None
                if fit is None or (isinstance(value, str) and field != "time" and value != str(fit)):
                    unfit.append(field)
                if fit is not None:
                    event[field] = fit
        for field in unfit:
            self.note(f"event field {field!r:.100}", "holds a value that the service does not take")
        has_place = "document" in event or ("rank" in event and "impression" in event)
        if has_place and "kind" not in unfit and ("impression" in event) != ("unit" in event):
            return {"event": secrets.token_hex(16)} | event
        self.note("an event", "is without an impression or a unit, a rank or a document, or a kind")
        return None

    def _text(self, field: str, value: Any, clean: Callable[[str], str]) -> str | None:
        if value is None:
            return None
        text = _as_text(value)
        fit = clean(_coerce(value) if text is None else text)
        if fit != text:
            self.note(field, "holds a value that the service does not take")
        return fit or None


def clean_text(text: str, max_length: int) -> str:
    """A text without NUL and lone surrogates, cut to a length.

    >>> clean_text("red\\0 shoes", 5)
    'red s'
    """
    return _LONE.sub("\ufffd", text.replace("\0", ""))[:max_length]


def _document_id(document: object) -> str | None:
    """The id of a document as text; None if the service would refuse it."""
    name = text_id(document)
    return name if name and name == clean_text(name, limits.MAX_DOCUMENT) else None


def clean_id(text: str) -> str:
    """An id as it is, or a hash of it (32 hexadecimal digits) if the service would refuse it.

    >>> clean_id("user-7"), clean_id("x" * 251)
    ('user-7', 'd664d9a28aaea51fa7b5023434434252')
    """
    if len(text) <= limits.MAX_NAME and "\0" not in text and not _LONE.search(text):
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def whole(value: Any) -> int | None:
    """A whole number, also from text, such as a URL parameter; None if the value is not one."""
    if isinstance(value, str):
        value = value.strip()
        return int(value) if re.fullmatch(f"-?[0-9]{{1,{_DIGITS}}}", value) else None
    if isinstance(value, bool):
        return None
    try:
        return int(value) if value == int(value) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _as_text(value: Any) -> str | None:
    """A text or number as text; None for other types."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and value.bit_length() > _BITS:  # Python refuses to convert longer ones to decimal
        return hex(value)
    return str(value) if isinstance(value, (int, float)) else None


def _coerce(value: Any) -> str:
    """The text of a value of another type; for a list with one value, as from a query string, that of the value."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    try:
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    except Exception:  # `str` of an unknown object may raise anything; the search must go on
        return ""


def _id(value: Any) -> str | None:
    text = _as_text(value)
    return None if text is None else clean_id(text) or None


def _short(max_length: int, value: Any) -> str | None:
    """A name, which is dropped rather than cut if it is too long."""
    text = _as_text(value)
    return text if text and text == clean_text(text, max_length) else None


def _whole(minimum: int, maximum: int, value: Any) -> int | None:
    number = whole(value)
    return number if number is not None and minimum <= number <= maximum else None


def _highlights(value: Any) -> list[dict[str, Any]] | None:
    """Highlights of a caption, without those that the service would refuse."""
    if not isinstance(value, (list, tuple)):
        return None
    spans = [one for one in value[: limits.MAX_HIGHLIGHTS] if isinstance(one, Mapping) and set(one) == set(_HIGHLIGHT)]
    cleaned = [{field: clean(one[field]) for field, clean in _HIGHLIGHT.items()} for one in spans]
    return [one for one in cleaned if None not in one.values()]


def _number(minimum: float, maximum: float, value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if minimum <= number <= maximum else None


def _time(value: Any) -> str | None:
    """A time as text; raises for a datetime without a time zone, which is an error of the caller."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ClientError(f"time is {value!r}; give it a time zone, such as datetime.now(UTC)")
        return value.isoformat()
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return None if moment.tzinfo is None else moment.isoformat()


_EVENT: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("event", "impression", "unit"), _id),
    "rank": partial(_whole, 1, limits.MAX_RANK),
    "document": partial(_short, limits.MAX_DOCUMENT),
    "kind": partial(_short, limits.MAX_LABEL),
    "time": _time,
    "dwell": partial(_number, 0, limits.MAX_DWELL),
    "value": partial(_number, -limits.MAX_VALUE, limits.MAX_VALUE),
}
_HIGHLIGHT: dict[str, Callable[[Any], Any]] = {
    "field": partial(_short, limits.MAX_LABEL),
    **dict.fromkeys(("start", "end"), partial(_whole, 0, limits.MAX_HIGHLIGHT_END)),
}
_CAPTION_TEXTS = ("title", "url", "snippet")
_CAPTION: dict[Any, Callable[[Any], Any]] = {
    "highlights": _highlights,
    "deep_links": partial(_whole, 0, limits.MAX_DEEP_LINKS),
}


COOKIE = "interleaf_visitor"
MAX_AGE_DAYS = 90
_ID = re.compile("[0-9a-f]{32}")


class VisitorId(NamedTuple):
    """The id of a visitor, to pass as `unit`; `set_cookie` is the value of a Set-Cookie header, or None."""

    id: str
    set_cookie: str | None


def visitor_id(
    cookies: Mapping[str, str] | str | None, *, name: str = COOKIE, days: int = MAX_AGE_DAYS, secure: bool = True
) -> VisitorId:
    """The id in a visitor's cookies, or a new id with the header that stores it in the browser.

    `cookies` is a mapping, as in web frameworks, or the text of the Cookie header. The id is random and contains no
    personal data. Without `secure` the cookie also works over plain HTTP, for development.

    >>> visitor_id({"interleaf_visitor": "0123456789abcdef0123456789abcdef"})
    VisitorId(id='0123456789abcdef0123456789abcdef', set_cookie=None)
    >>> fresh = visitor_id("")
    >>> fresh.set_cookie.replace(fresh.id, "ID")
    'interleaf_visitor=ID; Max-Age=7776000; Path=/; SameSite=Lax; HttpOnly; Secure'
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name):
        raise ClientError(f"name is {name!r}; give letters, digits, '_' and '-' as the name of a cookie")
    if isinstance(days, bool) or not isinstance(days, int) or days < 1:
        raise ClientError(f"days is {days!r}; give a whole number of days, at least 1")
    present = _value(cookies, name)
    if present is not None and _ID.fullmatch(present):
        return VisitorId(present, None)
    fresh = secrets.token_hex(16)
    header = f"{name}={fresh}; Max-Age={days * 86_400}; Path=/; SameSite=Lax; HttpOnly"
    return VisitorId(fresh, header + "; Secure" * secure)


def _value(cookies: Mapping[str, str] | str | None, name: str) -> str | None:
    if isinstance(cookies, Mapping):
        value = cookies.get(name)
        return value if isinstance(value, str) else None
    for part in (cookies or "").split(";"):  # a malformed cookie must not hide the others
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return None
