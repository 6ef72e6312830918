"""Sessions of the dashboard: a cookie with a random session id, and form tokens that are tied to the cookie.

The store has only a hash of the session id, and a form token is a hash keyed with the cookie. So there is no secret
that could be used to forge a session.
"""

from __future__ import annotations

import asyncio
import hmac
from hashlib import blake2b

from starlette.requests import Request
from starlette.responses import Response

from interleaf.server.auth import OPEN
from interleaf.server.middleware import Head
from interleaf.server.schemas import ApiError
from interleaf.server.service import SECOND, Service
from interleaf.store.records import ADMIN, READ, AccessKey

COOKIE = "interleaf"
ROLES = (READ, ADMIN)
OWN_SITE = ("same-origin", "none")  # values of Sec-Fetch-Site
MAX_COOKIE = 200  # characters


async def begin(service: Service, key: AccessKey) -> str:
    """Start a session of a key, and return its id for the cookie."""
    now = service.clock()
    expires = now + round(service.settings.cookie_hours * 3600) * SECOND
    return await asyncio.to_thread(service.store.begin_session, key.id, now, expires)


async def holder(service: Service, cookie: str) -> AccessKey | None:
    """The key of a session; None if the session has ended or its key is not valid any more."""
    if not cookie or len(cookie) > MAX_COOKIE:
        return None
    if await service.access.is_open():
        return OPEN
    key = await asyncio.to_thread(service.store.session_key, cookie, service.clock())
    return key if key is not None and key.role in ROLES else None


def token(cookie: str) -> str:
    """The CSRF token of a form; empty without a cookie."""
    key = blake2b(cookie.encode(errors="replace")).digest()
    return blake2b(b"form", digest_size=18, key=key).hexdigest() if cookie else ""


def check_token(cookie: str, given: str) -> None:
    """Refuse a form of another site, or of a page loaded before the latest login."""
    if not cookie or not hmac.compare_digest(token(cookie).encode(), given.encode(errors="replace")):
        problem = "this form is out of date, or of another site: reload its page and try again"
        raise ApiError(403, "wrong_token", problem)


def check_site(request: Request) -> None:
    """Refuse a form that a page of another site sent.

    Browsers send Sec-Fetch-Site; old browsers, and all browsers without TLS, send only Origin.
    """
    site = request.headers.get("sec-fetch-site")
    head: Head = request.scope["head"]
    if site not in OWN_SITE if site is not None else not head.is_own_origin:
        problem = "this form was sent from another site; use this site's own page"
        raise ApiError(403, "wrong_site", f"{problem}. A proxy in front must pass on the header Host unchanged")


def keep(service: Service, request: Request, response: Response, cookie: str) -> None:
    """Set the cookie: for this site only, and not readable by scripts."""
    seconds, is_secure = round(service.settings.cookie_hours * 3600), request.url.scheme == "https"
    response.set_cookie(COOKIE, cookie, seconds, secure=is_secure, httponly=True, samesite="strict")
