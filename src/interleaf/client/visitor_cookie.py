"""A lasting id for visitors who are not logged in: a random number in a first-party cookie."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import NamedTuple

from interleaf.errors import ClientError

COOKIE = "interleaf_visitor"
MAX_AGE_DAYS = 90
_ID = re.compile("[0-9a-f]{32}")


class VisitorId(NamedTuple):
    """The id of a visitor, to be given as `unit`; `set_cookie` is the value of a Set-Cookie header, or None."""

    id: str
    set_cookie: str | None


def visitor_id(
    cookies: Mapping[str, str] | str | None, *, name: str = COOKIE, days: int = MAX_AGE_DAYS, secure: bool = True
) -> VisitorId:
    """The id in a visitor's cookies, or a new one with the header that keeps it in the browser.

    Cookies are a mapping, as web frameworks give them, or the text of the Cookie header. The id is random, and says
    nothing of a person. Without `secure` the cookie also works over plain HTTP, for development.

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
    known = _value(cookies, name)
    if known is not None and _ID.fullmatch(known):
        return VisitorId(known, None)
    fresh = secrets.token_hex(16)
    header = f"{name}={fresh}; Max-Age={days * 86_400}; Path=/; SameSite=Lax; HttpOnly"
    return VisitorId(fresh, header + "; Secure" * secure)


def _value(cookies: Mapping[str, str] | str | None, name: str) -> str | None:
    if isinstance(cookies, Mapping):
        value = cookies.get(name)
        return value if isinstance(value, str) else None
    for part in (cookies or "").split(";"):  # one cookie that is broken must not hide the others
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return None
