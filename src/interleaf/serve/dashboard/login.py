"""In with a key, and out again."""

from __future__ import annotations

import re

from starlette.responses import RedirectResponse, Response

from interleaf.serve.answers import RefusedError
from interleaf.serve.dashboard import session
from interleaf.serve.dashboard.pages import HEADERS, Visit, page

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
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise RefusedError(403, "wrong_site", "log in from this site's own page")
    address = request.client.host if request.client else ""
    visit.shared.attempts.check(address)
    key = await service.access.known(visit.form.get("key", "").strip())
    if key is None:
        visit.shared.attempts.was_wrong(address)
        return asked(visit, 401, "This key is unknown or revoked; ask an admin for another.")
    if key.role not in session.ROLES:
        return asked(visit, 403, f"The dashboard is for read and admin keys, and this key's role is {key.role}.")
    answer = RedirectResponse(_onward(visit.form.get("next", "/")), 303, HEADERS)
    session.keep(service, request, answer, session.begun(service, key.id))
    return answer


async def leave(visit: Visit) -> Response:
    """Forget the cookie."""
    answer = RedirectResponse("/login", 303, HEADERS)
    answer.delete_cookie(session.COOKIE, path="/", httponly=True, samesite="strict")
    return answer


def _onward(wanted: str) -> str:
    """An address of ours, whatever was asked for."""
    return wanted if _OURS.fullmatch(wanted) else "/"
