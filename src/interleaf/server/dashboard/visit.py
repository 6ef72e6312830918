"""A request to the dashboard; renders pages from templates, escaped, with a strict content security policy."""

from __future__ import annotations

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
from interleaf.server.dashboard import browser_session
from interleaf.server.rate_limits import Attempts
from interleaf.server.service import Service
from interleaf.store.records import ADMIN, AccessKey
from interleaf.tables import one_line

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
    values |= {"token": browser_session.token(visit.cookie), "marks": STATUS_OF_MARK}
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
