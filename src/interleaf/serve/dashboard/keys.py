"""Keys: all of them, a new one, whose secret is shown once, and the end of one."""

from __future__ import annotations

import asyncio

from starlette.responses import RedirectResponse, Response

from interleaf.errors import ExperimentError
from interleaf.experiment.fields import Text
from interleaf.serve.access import OPEN
from interleaf.serve.answers import RefusedError
from interleaf.serve.dashboard import session
from interleaf.serve.dashboard.pages import HEADERS, Visit, page
from interleaf.serve.service import log
from interleaf.store.contract import ADMIN, INGEST, READ, ROLES

MEANINGS = {
    INGEST: "for the search service: sends rankings and events",
    READ: "sees this dashboard, reports and logs",
    ADMIN: "does everything: experiments and keys, too",
}
_LABEL = Text(100)


async def shown(visit: Visit) -> Response:
    """The page."""
    return await _page(visit)


async def _page(visit: Visit, status: int = 200, problem: str = "", secret: str = "") -> Response:
    known = await asyncio.to_thread(visit.service.store.keys)
    listed = sorted(known, key=lambda key: (key.revoked is not None, -key.created))
    return page(
        visit, "keys.html", status, keys=listed, meanings=MEANINGS, problem=problem, secret=secret, form=visit.form
    )


async def add(visit: Visit) -> Response:
    """A new key; the first one must be an admin's, or nobody could make others here."""
    service, role = visit.service, visit.form.get("role", "")
    if role not in ROLES:
        return await _page(visit, 422, "Choose what the key is for.")
    if visit.who is OPEN and role != ADMIN:
        return await _page(visit, 422, "The first key must be an admin's: as soon as there is a key, the door is shut.")
    try:
        label = _LABEL.check(visit.form.get("label", "").strip())
    except ValueError as remedy:
        return await _page(visit, 422, str(ExperimentError("label", visit.form.get("label", ""), str(remedy))))
    key, secret = await asyncio.to_thread(service.store.add_key, role, label, service.clock())
    service.access.forget()
    log.info("made a key", extra={"key": key.id, "role": role, "by": visit.who.id if visit.who else ""})
    cookie, visit.form = "", {}
    if visit.who is OPEN:  # whoever made the first key goes on with it
        cookie = session.begun(service, key.id)
        visit.who, visit.cookie = key, cookie
    answer = await _page(visit, secret=secret)
    if cookie:
        session.keep(service, visit.request, answer, cookie)
    return answer


async def revoke(visit: Visit) -> Response:
    """A key opens nothing any more; the last admin's stays, because nobody here could make another."""
    service, wanted = visit.service, visit.form.get("key", "")
    valid = [key for key in await asyncio.to_thread(service.store.keys) if key.revoked is None]
    if [key.id for key in valid if key.role == ADMIN] == [wanted]:
        problem = "this is the last admin key; make another one first, or revoke it with interleaf keys revoke"
        raise RefusedError(409, "last_admin", problem)
    if not await asyncio.to_thread(service.store.revoke, wanted, service.clock()):
        raise RefusedError(404, "unknown", f"there is no key {wanted[:100]!r} that is not revoked")
    service.access.forget()
    log.info("revoked a key", extra={"key": wanted, "by": visit.who.id if visit.who else ""})
    if visit.who is not None and wanted == visit.who.id:
        return RedirectResponse("/login?revoked=own", 303, HEADERS)
    return RedirectResponse("/keys", 303, HEADERS)
