"""Keys: all of them, a new one, whose secret is shown once, and the end of one."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from starlette.responses import RedirectResponse, Response

from interleaf.errors import DataError, ExperimentError, StateError
from interleaf.experiment.fields import Text
from interleaf.serve.access import OPEN
from interleaf.serve.dashboard import session
from interleaf.serve.dashboard.forms import sentence
from interleaf.serve.dashboard.pages import HEADERS, Visit, page
from interleaf.serve.responses import ApiError
from interleaf.serve.service import SECOND, log
from interleaf.store.contract import ADMIN, INGEST, READ, ROLES, AccessKey

MEANINGS = {
    INGEST: "for the search service: sends rankings and events",
    READ: "sees this dashboard, reports and logs",
    ADMIN: "does everything: experiments and keys, too",
}
DAY, MAX_DAYS = 86_400 * SECOND, 3650
_LABEL, _ID = Text(100), re.compile("[0-9a-f]{16}")


@dataclass(frozen=True)
class Line:
    """A key on the page: its state in a word, and how many sessions it has."""

    key: AccessKey
    state: str
    sessions: int


async def shown(visit: Visit) -> Response:
    """The page."""
    made = visit.request.query_params.get("made", "")
    problem = f"The key {made[:40]} was made already, and its secret was shown then. To have another, fill in the form."
    return await _page(visit, problem=problem if made else "")


async def _page(visit: Visit, status: int = 200, problem: str = "", secret: str = "") -> Response:
    now, store = visit.service.clock(), visit.service.store
    known = await asyncio.to_thread(store.keys)
    sessions = await asyncio.to_thread(store.count_sessions, now)
    known.sort(key=lambda key: (not key.is_valid(now), -key.created))
    return page(
        visit,
        "keys.html",
        status,
        lines=[Line(key, _state(key, now), sessions.get(key.id, 0)) for key in known],
        is_anyone_in=bool(sessions),
        meanings=MEANINGS,
        problem=problem,
        secret=secret,
        form=visit.form,
        new_id=secrets.token_hex(8),
    )


def _state(key: AccessKey, now: int) -> str:
    if key.revoked is not None:
        return "revoked"
    return "expired" if key.is_expired(now) else "valid"


async def add(visit: Visit) -> Response:
    """A new key; the first one must be an admin's, or nobody could make others here.

    Its id comes with the form, so that the same form, sent again, makes no second key.
    """
    service, form = visit.service, visit.form
    role, label, experiment = (form.get(name, "").strip() for name in ("role", "label", "experiment"))
    problems = [*_problems(form), *_first_key_problems(visit)]
    if problems:
        return await _page(visit, 422, " ".join(problems))
    now = service.clock()
    expires = now + round(float(form["days"]) * DAY) if form.get("days", "").strip() else None
    try:
        key, secret = await asyncio.to_thread(
            partial(service.store.add_key, experiment=experiment or None, expires=expires, name=form.get("id")),
            *(role, label, now),
        )
    except DataError as error:
        return await _page(visit, 422, sentence(str(error)))
    except StateError:
        return RedirectResponse(f"/keys?made={form['id']}", 303, HEADERS)
    service.access.forget()
    log.info("made a key", extra={"key": key.id, "role": role, "by": visit.who.id if visit.who else ""})
    cookie, visit.form = "", {}
    if visit.who is OPEN:  # whoever made the first key goes on with it
        cookie = await session.begin(service, key)
        visit.who, visit.cookie = key, cookie
    answer = await _page(visit, secret=secret)
    if cookie:
        session.keep(service, visit.request, answer, cookie)
    return answer


def _problems(form: Mapping[str, str]) -> list[str]:
    """What is wrong with the fields, each in a sentence."""
    found = []
    if form.get("role", "") not in ROLES:
        found.append("Choose what the key is for.")
    try:
        _LABEL.check(form.get("label", "").strip())
    except ValueError as remedy:
        found.append(sentence(str(ExperimentError("label", form.get("label", ""), str(remedy)))))
    days = form.get("days", "").strip()
    if days and not (days.isascii() and days.isdecimal() and 1 <= int(days[:9]) <= MAX_DAYS):
        found.append(f"Days until it expires: give a whole number from 1 to {MAX_DAYS:,}, or nothing.")
    if not _ID.fullmatch(form.get("id", "")):
        found.append("The form has no id of a new key: load the page again.")
    return found


def _first_key_problems(visit: Visit) -> list[str]:
    """The first key must not lock out who makes it."""
    form = visit.form
    is_whole = form.get("role") == ADMIN and not form.get("experiment", "").strip() and not form.get("days", "").strip()
    if visit.who is not OPEN or is_whole:
        return []
    return ["The first key must be an admin's, of all experiments, and not expire: nobody gets in without a key then."]


async def revoke(visit: Visit) -> Response:
    """A key opens nothing any more; the last admin's stays, because nobody here could make another."""
    service, wanted = visit.service, visit.form.get("key", "")
    known, now = await asyncio.to_thread(service.store.keys), service.clock()
    if [key.id for key in known if key.is_valid(now) and key.role == ADMIN and key.experiment is None] == [wanted]:
        problem = "this is the last admin key; make another one first, or revoke it with interleaf keys revoke"
        raise ApiError(409, "last_admin", problem)
    if not await asyncio.to_thread(service.store.revoke, wanted, service.clock()):
        raise ApiError(404, "unknown", f"there is no key {wanted[:100]!r} that is not revoked")
    service.access.forget()
    log.info("revoked a key", extra={"key": wanted, "by": visit.who.id if visit.who else ""})
    if visit.who is not None and wanted == visit.who.id:
        return RedirectResponse("/login?revoked=own", 303, HEADERS)
    return RedirectResponse("/keys", 303, HEADERS)


async def sign_out(visit: Visit) -> Response:
    """End the sessions of a key; of all keys, if the form names none."""
    wanted = visit.form.get("key")
    known = await asyncio.to_thread(visit.service.store.keys)
    if wanted is not None and wanted not in (key.id for key in known):
        raise ApiError(404, "unknown", f"there is no key {wanted[:100]!r}")
    ended = await asyncio.to_thread(visit.service.store.end_sessions, wanted)
    log.info(
        "ended sessions", extra={"key": wanted or "all", "sessions": ended, "by": visit.who.id if visit.who else ""}
    )
    return RedirectResponse("/keys", 303, HEADERS)
