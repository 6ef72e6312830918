"""A request to the dashboard: its session, and the page that answers it.

The session is a cookie with a random id; form tokens are tied to the cookie. The store has only a hash of the id, and a
form token is a hash keyed with the cookie. So there is no secret that could be used to forge a session. Pages are made
from templates, escaped, with a strict content security policy.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from jinja2 import Environment
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from interleaf import plots
from interleaf.errors import InterleafError
from interleaf.report.charts import Chart, charts
from interleaf.report.format import Names, count, several
from interleaf.report.html import templates
from interleaf.report.layout import STATUS_OF_MARK
from interleaf.server.auth import OPEN
from interleaf.server.cache import TTLCache
from interleaf.server.middleware import Head
from interleaf.server.rate_limits import Attempts
from interleaf.server.schemas import ApiError
from interleaf.server.service import SECOND, Service
from interleaf.store.records import ADMIN, READ, AccessKey
from interleaf.tables import one_line

COOKIE = "interleaf"
DASHBOARD_ROLES = (READ, ADMIN)
OWN_SITE = ("same-origin", "none")  # values of Sec-Fetch-Site
MAX_COOKIE = 200  # characters
NO_CHARTS = "There are no charts: interleaf's extra `plots` is not installed here. The tables have all numbers."
TTL = 4.0  # seconds; a chart takes longer to compute than a report
MAX_DRAWINGS = 50
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
}


async def begin_session(service: Service, key: AccessKey) -> str:
    """Start a session of a key, and return its id for the cookie."""
    now = service.clock()
    expires = now + round(service.settings.cookie_hours * 3600) * SECOND
    return await asyncio.to_thread(service.store.begin_session, key.id, now, expires)


async def find_holder(service: Service, cookie: str) -> AccessKey | None:
    """The key of a session; None if the session has ended or its key is not valid any more."""
    if not cookie or len(cookie) > MAX_COOKIE:
        return None
    if await service.access.is_open():
        return OPEN
    key = await asyncio.to_thread(service.store.session_key, cookie, service.clock())
    return key if key is not None and key.role in DASHBOARD_ROLES else None


def form_token(cookie: str) -> str:
    """The CSRF token of a form; empty without a cookie."""
    key = blake2b(cookie.encode(errors="replace")).digest()
    return blake2b(b"form", digest_size=18, key=key).hexdigest() if cookie else ""


def check_token(cookie: str, given: str) -> None:
    """Refuse a form of another site, or of a page loaded before the latest login."""
    if not cookie or not hmac.compare_digest(form_token(cookie).encode(), given.encode(errors="replace")):
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


def set_cookie(service: Service, request: Request, response: Response, cookie: str) -> None:
    """Set the cookie: for this site only, and not readable by scripts."""
    seconds, is_secure = round(service.settings.cookie_hours * 3600), request.url.scheme == "https"
    response.set_cookie(COOKIE, cookie, seconds, secure=is_secure, httponly=True, samesite="strict")


class DashboardState:
    """What all requests to the dashboard share.

    `charts`: those of each section of the report of a version whose page is open, or the reason why there are none.
    They may be a few seconds older than the report.
    """

    def __init__(self, service: Service) -> None:
        self.service, self.attempts, self.charts = service, Attempts(), TTLCache(self._draw, TTL, MAX_DRAWINGS)

    def _draw(self, place: tuple[str, int]) -> tuple[dict[str, list[Chart]], str]:
        try:
            plots.check_drawing()
        except InterleafError:
            return {}, NO_CHARTS
        report = next(iter(self.service.reports.get_blocking(*place).reports.values()), None)
        return {} if report is None else charts(report), ""


@dataclass
class Visit:
    """A request to the dashboard: the key of the user (None: not logged in), the cookie, and the submitted form."""

    shared: DashboardState
    request: Request
    who: AccessKey | None = None
    cookie: str = ""
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def service(self) -> Service:
        return self.shared.service

    @property
    def may_act(self) -> bool:
        """Whether the user may change experiments."""
        return self.who is not None and self.who.role == ADMIN

    @property
    def may_manage(self) -> bool:
        """Whether the user may create experiments and keys."""
        return self.may_act and self.who is not None and self.who.experiment is None

    @property
    def is_open(self) -> bool:
        """Whether there are no keys, so that anyone on this machine can do everything."""
        return self.who is OPEN

    @property
    def address(self) -> str:
        """The URL of the service, as the browser sees it."""
        return str(self.request.base_url).rstrip("/")

    @property
    def name(self) -> str:
        """The experiment in the URL."""
        return str(self.request.path_params["name"])


def page(visit: Visit, template: str, status: int = 200, **values: Any) -> Response:
    """A template as a response."""
    return HTMLResponse(render(visit, template, **values), status, HEADERS)


def part(visit: Visit, template: str, **values: Any) -> Response:
    """The part of a page that is refreshed; 304 if the browser has it already."""
    text = render(visit, template, **values).encode()
    headers = HEADERS | {"ETag": f'"{blake2b(text, digest_size=12).hexdigest()}"'}
    if visit.request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return HTMLResponse(text, headers=headers)


def render(visit: Visit, template: str, **values: Any) -> str:
    """Render a template."""
    values |= {name: getattr(visit, name) for name in ("who", "may_act", "may_manage", "is_open")}
    values |= {"token": form_token(visit.cookie), "marks": STATUS_OF_MARK}
    return environment().get_template(template).render(values)


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The template environment, with filters and escaping."""
    environment: Environment = templates(("interleaf.server.dashboard", "templates"), finalize=_clean)
    filters = {"typed": _escape_lines, "moment": moment, "short": short, "number": count, "rankers": _rankers}
    environment.filters |= filters | {"who": lambda text: short(text, 80)}
    return environment


def _clean(value: Any) -> Any:
    """Make untrusted text safe to show: one line, no bidirectional controls, no line break before a per cent sign."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return one_line(value).replace(" %", "\u00a0%")
    return value


def _escape_lines(value: str) -> Markup:
    """The value of a form field, escaped, with its line breaks."""
    return escape("\n".join(one_line(line) for line in value.splitlines()))


def moment(time: int) -> Markup:
    """A time of the store as HTML, to the minute."""
    moment = datetime.fromtimestamp(time / 1e6, UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(moment.isoformat(), moment.strftime("%Y-%m-%d %H:%M"))


def _rankers(names: Sequence[str]) -> str:
    """The names of rankers as in reports, where no two are alike; only some if there are many."""
    return several(Names(names).values(), limit=6)


def short(text: str, most: int = 120) -> str:
    """A long text with its middle cut out.

    >>> short("abcdefghij", 7)
    'abcd…ij'
    """
    return text if len(text) <= most else f"{text[: most - 1 - most // 3]}…{text[len(text) - most // 3 :]}"
