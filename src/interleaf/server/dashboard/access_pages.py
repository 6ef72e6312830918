"""Login, logout, and the page that manages access keys."""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import Any

from starlette.responses import RedirectResponse, Response

from interleaf.errors import DataError, ExperimentError, StateError
from interleaf.plain_data import Label, convert
from interleaf.server.auth import OPEN
from interleaf.server.dashboard.form_pages import sentence
from interleaf.server.dashboard.visit import COOKIE, DASHBOARD_ROLES, HEADERS, Visit, begin_session, page, set_cookie
from interleaf.server.schemas import ApiError
from interleaf.server.service import SECOND, log
from interleaf.store.records import ADMIN, INGEST, READ, ROLES

_OURS = re.compile(r"/(?![/\\])[A-Za-z0-9._/?=-]{0,300}")
MEANINGS = {
    INGEST: "for the search service: sends rankings and events",
    READ: "can see this dashboard, reports and logs",
    ADMIN: "can do everything: manage experiments and keys",
}
DAY, MAX_DAYS = 86_400 * SECOND, 3650
_ID = re.compile("[0-9a-f]{16}")


async def show_login(visit: Visit) -> Response:
    """Show the login form; redirect if the user is logged in already."""
    if visit.who is not None:
        return RedirectResponse(_onward(visit.request.query_params.get("next", "/")), 303)
    revoked_own = visit.request.query_params.get("revoked") == "own"
    problem = "You revoked the key that you were logged in with; log in with another." if revoked_own else ""
    return ask_for_key(visit, problem=problem)


def ask_for_key(visit: Visit, status: int = 200, problem: str = "") -> Response:
    """The form that asks for a key. Links from other sites arrive without the cookie, so it offers to go on."""
    request = visit.request
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    target = visit.form.get("next") or request.query_params.get("next") or here
    is_from_elsewhere = request.headers.get("sec-fetch-site") == "cross-site"
    onward = "/" if request.url.path.startswith(("/login", "/logout")) and target == here else _onward(target)
    return page(visit, "login.html", status, problem=problem, onward=onward, is_from_elsewhere=is_from_elsewhere)


async def enter(visit: Visit) -> Response:
    """Log in with a read or admin key. The cookie holds a session id, never the key's secret."""
    service, request = visit.service, visit.request
    key = await service.access.find_key(visit.form.get("key", "").strip())
    if key is None:
        visit.shared.attempts.count_wrong(request.client.host if request.client else "")
        return ask_for_key(visit, 401, "This key is unknown or revoked; ask an admin for another.")
    if key.role not in DASHBOARD_ROLES:
        return ask_for_key(visit, 403, f"The dashboard is for read and admin keys, and this key's role is {key.role}.")
    answer = RedirectResponse(_onward(visit.form.get("next", "/")), 303, HEADERS)
    await asyncio.to_thread(service.store.end_session, visit.cookie)  # of an earlier login
    set_cookie(service, request, answer, await begin_session(service, key))
    return answer


async def leave(visit: Visit) -> Response:
    """End the session."""
    await asyncio.to_thread(visit.service.store.end_session, visit.cookie)
    return _leave()


async def leave_everywhere(visit: Visit) -> Response:
    """End all sessions of the key that the user logged in with."""
    if visit.who is not None:
        ended = await asyncio.to_thread(visit.service.store.end_sessions, visit.who.id)
        log.info("ended all sessions of a key", extra={"key": visit.who.id, "sessions": ended})
    return _leave()


def _leave() -> Response:
    answer = RedirectResponse("/login", 303, HEADERS)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def _onward(target: str) -> str:
    """A path of this site, even if the form names another site."""
    return target if _OURS.fullmatch(target) else "/"


async def show_keys(visit: Visit) -> Response:
    """The page with all keys."""
    name = visit.request.query_params.get("made", "")
    problem = f"The key {name[:40]} already exists, and its secret was shown once. To have another, fill in the form."
    return await _page(visit, problem=problem if name else "")


async def _page(visit: Visit, status: int = 200, problem: str = "", secret: str = "") -> Response:
    now, store = visit.service.clock(), visit.service.store
    keys = await asyncio.to_thread(store.keys)
    sessions = await asyncio.to_thread(store.count_sessions, now)
    keys.sort(key=lambda key: (not key.is_valid(now), -key.created))
    return page(
        visit,
        "keys.html",
        status,
        lines=[(key, key.is_valid(now), sessions.get(key.id, 0)) for key in keys],
        is_anyone_in=bool(sessions),
        meanings=MEANINGS,
        problem=problem,
        secret=secret,
        form=visit.form,
        new_id=secrets.token_hex(8),
    )


async def add(visit: Visit) -> Response:
    """Create a key. The first one must be an admin key; otherwise nobody could create others here.

    The form holds the id of the new key, so that sending the form twice creates one key.
    """
    service, form = visit.service, visit.form
    role, label, experiment = (form.get(name, "").strip() for name in ("role", "label", "experiment"))
    problems = _problems(visit)
    if problems:
        return await _page(visit, 422, " ".join(problems))
    now = service.clock()
    expires = now + round(float(form["days"]) * DAY) if form.get("days", "").strip() else None
    try:
        options: dict[str, Any] = {"experiment": experiment or None, "expires": expires, "name": form.get("id")}
        key, secret = await asyncio.to_thread(service.store.add_key, role, label, now, **options)
    except DataError as error:
        return await _page(visit, 422, sentence(str(error)))
    except StateError:
        return RedirectResponse(f"/keys?made={form['id']}", 303, HEADERS)
    service.access.forget()
    log.info("made a key", extra={"key": key.id, "role": role, "by": visit.who.id if visit.who else ""})
    cookie, visit.form = "", {}
    if visit.who is OPEN:  # log the user in with the first key
        cookie = await begin_session(service, key)
        visit.who, visit.cookie = key, cookie
    answer = await _page(visit, secret=secret)
    if cookie:
        set_cookie(service, visit.request, answer, cookie)
    return answer


def _problems(visit: Visit) -> list[str]:
    """One sentence for each invalid field, and for a first key that would lock out the user who creates it."""
    form, problems = visit.form, []
    if form.get("role", "") not in ROLES:
        problems.append("Choose what the key is for.")
    try:
        convert(form.get("label", "").strip(), Label)
    except ValueError as remedy:
        problems.append(sentence(str(ExperimentError("label", form.get("label", ""), str(remedy)))))
    days = form.get("days", "").strip()
    if days and not (days.isascii() and days.isdecimal() and 1 <= int(days[:9]) <= MAX_DAYS):
        problems.append(f"Days until it expires: give a whole number from 1 to {MAX_DAYS:,}, or nothing.")
    if not _ID.fullmatch(form.get("id", "")):
        problems.append("The form has no id of a new key: load the page again.")
    is_whole = form.get("role") == ADMIN and not form.get("experiment", "").strip() and not days
    if visit.who is OPEN and not is_whole:
        first = "The first key must be an admin key for all experiments that does not expire"
        problems.append(f"{first}: all requests need a key then.")
    return problems


async def revoke(visit: Visit) -> Response:
    """Revoke a key. The last admin key cannot be revoked here, because nobody could create another."""
    service, target = visit.service, visit.form.get("key", "")
    keys, now = await asyncio.to_thread(service.store.keys), service.clock()
    if [key.id for key in keys if key.is_valid(now) and key.role == ADMIN and key.experiment is None] == [target]:
        problem = "this is the last admin key; make another one first, or revoke it with interleaf keys revoke"
        raise ApiError(409, "last_admin", problem)
    if not await asyncio.to_thread(service.store.revoke, target, service.clock()):
        raise ApiError(404, "unknown", f"there is no key {target[:100]!r} that is not revoked")
    service.access.forget()
    log.info("revoked a key", extra={"key": target, "by": visit.who.id if visit.who else ""})
    if visit.who is not None and target == visit.who.id:
        return RedirectResponse("/login?revoked=own", 303, HEADERS)
    return RedirectResponse("/keys", 303, HEADERS)


async def sign_out(visit: Visit) -> Response:
    """End the sessions of a key, or of all keys if the form names none."""
    target = visit.form.get("key")
    keys = await asyncio.to_thread(visit.service.store.keys)
    if target is not None and target not in (key.id for key in keys):
        raise ApiError(404, "unknown", f"there is no key {target[:100]!r}")
    ended = await asyncio.to_thread(visit.service.store.end_sessions, target)
    by = visit.who.id if visit.who else ""
    log.info("ended sessions", extra={"key": target or "all", "sessions": ended, "by": by})
    return RedirectResponse("/keys", 303, HEADERS)
