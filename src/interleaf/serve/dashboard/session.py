"""Who is at the browser: a signed cookie that names a key, and tokens that tie a form to that cookie."""

from __future__ import annotations

import asyncio
import secrets

from starlette.requests import Request
from starlette.responses import Response

from interleaf.serve.access import OPEN, is_signed, signed
from interleaf.serve.answers import RefusedError
from interleaf.serve.service import SECOND, Service
from interleaf.store.contract import ADMIN, READ, AccessKey

COOKIE = "interleaf"
ROLES = (READ, ADMIN)
_SESSION, _FORM = "session", "form"


def begun(service: Service, key: str) -> str:
    """A fresh cookie for a key: its id, when it ends, and something random."""
    until = service.clock() // SECOND + round(service.settings.cookie_hours * 3600)
    text = f"{key}.{until}.{secrets.token_hex(8)}"
    return f"{text}.{signed(service.secret, _SESSION, text)}"


async def holder(service: Service, cookie: str) -> AccessKey | None:
    """Whose cookie it is; None if it is forged or over, or if its key has been revoked meanwhile."""
    text, _, signature = cookie.rpartition(".")
    if not text or not is_signed(service.secret, _SESSION, text, signature):
        return None
    key, until, _ = text.rsplit(".", 2)
    if service.clock() >= int(until) * SECOND:
        return None
    if key == OPEN.id:
        return OPEN if await service.access.is_open() else None
    known = await asyncio.to_thread(service.store.keys)
    return next((one for one in known if one.id == key and one.revoked is None and one.role in ROLES), None)


def token(service: Service, cookie: str) -> str:
    """What a form carries to show that it comes from a page of ours."""
    return signed(service.secret, _FORM, cookie)


def check_token(service: Service, cookie: str, given: str) -> None:
    """A form from elsewhere, or from before another login, does nothing."""
    if not is_signed(service.secret, _FORM, cookie, given):
        raise RefusedError(403, "wrong_token", "this form is out of date, or not ours: reload its page, and try again")


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
