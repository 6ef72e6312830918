"""Who is at the browser: a cookie with the random id of a session, and tokens that tie a form to that cookie.

The store has only the hash of a session's id, and a form's token is a hash keyed with the cookie: there is no secret
with which a session could be forged.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
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
    """Start a session of a key; its id, for the cookie."""
    now = service.clock()
    expires = now + round(service.settings.cookie_hours * 3600) * SECOND
    return await asyncio.to_thread(service.store.begin_session, key.id, now, expires)


def unkeyed() -> str:
    """A cookie for a browser that needs no login, because there are no keys: only forms are tied to it."""
    return secrets.token_urlsafe(32)


async def holder(service: Service, cookie: str) -> AccessKey | None:
    """Whose session it is; None if it has ended, or if its key opens nothing any more."""
    if not cookie or len(cookie) > MAX_COOKIE:
        return None
    if await service.access.is_open():
        return OPEN
    key = await asyncio.to_thread(service.store.session_key, cookie, service.clock())
    return key if key is not None and key.role in ROLES else None


async def end(service: Service, cookie: str) -> None:
    """End a session."""
    await asyncio.to_thread(service.store.end_session, cookie)


def token(cookie: str) -> str:
    """What a form carries to show that it comes from a page of ours; no cookie has no token."""
    key = blake2b(cookie.encode(errors="replace")).digest()
    return blake2b(b"form", digest_size=18, key=key).hexdigest() if cookie else ""


def check_token(cookie: str, given: str) -> None:
    """Refuse a form from elsewhere, or from before another login."""
    if not cookie or not hmac.compare_digest(token(cookie).encode(), given.encode(errors="replace")):
        raise ApiError(403, "wrong_token", "this form is out of date, or not ours: reload its page, and try again")


def check_site(request: Request) -> None:
    """Refuse a form that a page of another site sent.

    Browsers say so in Sec-Fetch-Site; those that do not, and those that reach the service without TLS, send the Origin.
    """
    site = request.headers.get("sec-fetch-site")
    head: Head = request.scope["head"]
    if site not in OWN_SITE if site is not None else not head.is_own_origin:
        problem = (
            "this form was sent from another site; use this site's own page. Behind a proxy, let it pass the header "
            "Host on as it is"
        )
        raise ApiError(403, "wrong_site", problem)


def keep(service: Service, request: Request, response: Response, cookie: str) -> None:
    """Give the cookie to the browser: for our pages only, and out of reach of scripts."""
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=round(service.settings.cookie_hours * 3600),
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
