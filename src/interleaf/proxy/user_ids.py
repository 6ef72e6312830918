"""Where the id of a user comes from."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from interleaf.client.visitors import clean_id, visitor_id
from interleaf.proxy.config import UnitSection
from interleaf.proxy.search_requests import RawHeaders


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
