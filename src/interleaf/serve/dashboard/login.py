"""In with a key, and out again."""

from __future__ import annotations

import asyncio
import re

from starlette.responses import RedirectResponse, Response

from interleaf.serve.dashboard import session
from interleaf.serve.dashboard.pages import HEADERS, Visit, page
from interleaf.serve.service import log

_OURS = re.compile(r"/(?![/\\])[A-Za-z0-9._/?=-]{0,300}")


async def shown(visit: Visit) -> Response:
    """The form; who is in already goes on."""
    if visit.who is not None:
        return RedirectResponse(_onward(visit.request.query_params.get("next", "/")), 303)
    revoked_own = visit.request.query_params.get("revoked") == "own"
    return asked(visit, problem="You revoked the key that you were logged in with; log in with another." * revoked_own)


def asked(visit: Visit, status: int = 200, problem: str = "") -> Response:
    """The form that asks for a key; a link from another site arrives without its cookie, and may go on."""
    request = visit.request
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    wanted = visit.form.get("next") or request.query_params.get("next") or here
    is_from_elsewhere = request.headers.get("sec-fetch-site") == "cross-site"
    onward = "/" if request.url.path.startswith(("/login", "/logout")) and wanted == here else _onward(wanted)
    return page(visit, "login.html", status, problem=problem, onward=onward, is_from_elsewhere=is_from_elsewhere)


async def enter(visit: Visit) -> Response:
    """A read or admin key opens the dashboard: the cookie names the key, and never holds its secret."""
    service, request = visit.service, visit.request
    key = await service.access.known(visit.form.get("key", "").strip())
    if key is None:
        visit.shared.attempts.count_wrong(request.client.host if request.client else "")
        return asked(visit, 401, "This key is unknown or revoked; ask an admin for another.")
    if key.role not in session.ROLES:
        return asked(visit, 403, f"The dashboard is for read and admin keys, and this key's role is {key.role}.")
    answer = RedirectResponse(_onward(visit.form.get("next", "/")), 303, HEADERS)
    await session.end(service, visit.cookie)  # of a login before
    session.keep(service, request, answer, await session.begin(service, key))
    return answer


async def leave(visit: Visit) -> Response:
    """End the session."""
    await session.end(visit.service, visit.cookie)
    return _left()


async def leave_everywhere(visit: Visit) -> Response:
    """End all sessions of the key that this person logged in with."""
    if visit.who is not None:
        ended = await asyncio.to_thread(visit.service.store.end_sessions, visit.who.id)
        log.info("ended all sessions of a key", extra={"key": visit.who.id, "sessions": ended})
    return _left()


def _left() -> Response:
    answer = RedirectResponse("/login", 303, HEADERS)
    answer.delete_cookie(session.COOKIE, path="/", httponly=True, samesite="strict")
    return answer


def _onward(wanted: str) -> str:
    """An address of ours, whatever was asked for."""
    return wanted if _OURS.fullmatch(wanted) else "/"
