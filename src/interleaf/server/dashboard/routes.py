"""The URLs of the dashboard, the role that each needs, and error pages."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from interleaf.server import endpoints
from interleaf.server.auth import OPEN, check_scope
from interleaf.server.dashboard import (
    access_pages,
    downloads,
    experiment_pages,
    form_pages,
    static_files,
)
from interleaf.server.dashboard.visit import (
    COOKIE,
    DashboardState,
    Visit,
    check_site,
    check_token,
    find_holder,
    page,
    set_cookie,
)
from interleaf.server.middleware import read_body
from interleaf.server.schemas import ApiError, error_response
from interleaf.server.service import Service
from interleaf.store.records import ADMIN, READ

PUBLIC = "public"
FORM = "application/x-www-form-urlencoded"
MAX_FIELDS = 200
_ONE = "/experiments/{name}"


@dataclass(frozen=True)
class PageRoute:
    """One page or form: its handler and the role that it needs.

    A key of one experiment opens the pages of that experiment, and pages with `narrows`, which show only that one.
    """

    method: str
    path: str
    role: str
    run: Callable[[Visit], Awaitable[Response]]
    narrows: bool = False


PAGE_ROUTES = (
    PageRoute("GET", "/", READ, experiment_pages.show_list, narrows=True),
    PageRoute("GET", "/live", READ, experiment_pages.refresh_list, narrows=True),
    PageRoute("GET", "/experiments/new", ADMIN, form_pages.show_new),
    PageRoute("POST", "/experiments/new", ADMIN, form_pages.create),
    PageRoute("GET", _ONE, READ, experiment_pages.show_experiment),
    PageRoute("GET", _ONE + "/live", READ, experiment_pages.refresh_experiment),
    PageRoute("GET", _ONE + "/export", READ, downloads.export),
    PageRoute("GET", _ONE + "/tables/{table}.csv", READ, downloads.table),
    PageRoute("GET", _ONE + "/edit", ADMIN, form_pages.show_edit),
    PageRoute("POST", _ONE + "/edit", ADMIN, form_pages.edit),
    PageRoute("POST", _ONE + "/start", ADMIN, form_pages.action(endpoints.start)),
    PageRoute("POST", _ONE + "/stop", ADMIN, form_pages.action(endpoints.stop)),
    PageRoute("POST", _ONE + "/decide", ADMIN, form_pages.action(endpoints.decide, "decision")),
    PageRoute("POST", _ONE + "/archive", ADMIN, form_pages.action(endpoints.archive)),
    PageRoute("POST", _ONE + "/unarchive", ADMIN, form_pages.action(endpoints.unarchive)),
    PageRoute("POST", _ONE + "/delete", ADMIN, form_pages.delete),
    PageRoute("GET", "/keys", ADMIN, access_pages.show_keys),
    PageRoute("POST", "/keys", ADMIN, access_pages.add),
    PageRoute("POST", "/keys/revoke", ADMIN, access_pages.revoke),
    PageRoute("POST", "/keys/sign-out", ADMIN, access_pages.sign_out),
    PageRoute("GET", "/login", PUBLIC, access_pages.show_login),
    PageRoute("POST", "/login", PUBLIC, access_pages.enter),
    PageRoute("POST", "/logout", PUBLIC, access_pages.leave),
    PageRoute("POST", "/logout/everywhere", PUBLIC, access_pages.leave_everywhere),
)


def routes(service: Service) -> list[Route]:
    """All routes of the dashboard, and its static files."""
    shared = DashboardState(service)
    page_routes = [Route(one.path, _endpoint(shared, one), methods=[one.method]) for one in PAGE_ROUTES]
    return [*page_routes, Route("/static/{name}", static_files.serve, methods=["GET"])]


def _endpoint(shared: DashboardState, address: PageRoute) -> Callable[[Request], Awaitable[Response]]:
    async def run(request: Request) -> Response:
        visit = Visit(shared, request)
        try:
            return await _answer(visit, address)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:
            return error_page(visit, error)

    return run


async def _answer(visit: Visit, address: PageRoute) -> Response:
    service, request = visit.service, visit.request
    visit.cookie = request.cookies.get(COOKIE, "")
    visit.who = await find_holder(service, visit.cookie)
    is_new = visit.who is None and await service.access.is_open()
    if is_new:
        visit.who, visit.cookie = OPEN, secrets.token_urlsafe(32)  # no login is needed; the cookie protects forms
    if address.method == "POST":
        check_site(request)
        visit.form = await _read_form(request, service.settings.max_body)
        if visit.who is not None and address.run is not access_pages.enter:
            check_token(visit.cookie, visit.form.get("token", ""))
    if address.role != PUBLIC and visit.who is None:
        return access_pages.ask_for_key(visit, 401)
    if address.role == ADMIN and not visit.may_act:
        raise ApiError(403, "wrong_role", "this is for admin keys, and you are logged in with a read key")
    if visit.who is not None and address.role != PUBLIC and not address.narrows:
        check_scope(visit.who, request.path_params.get("name"))
    answer = await address.run(visit)
    if is_new and COOKIE not in answer.headers.get("set-cookie", ""):
        set_cookie(service, request, answer, visit.cookie)
    return answer


async def _read_form(request: Request, max_body: int) -> dict[str, str]:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise ApiError(415, "not_a_form", "this address takes only the form of its own page")
    body = await read_body(request.scope["head"], request.receive, max_body)
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise ApiError(400, "malformed", "the form cannot be read: reload its page, and try again") from None


def error_page(visit: Visit, error: Exception) -> Response:
    """An error as a page, with the status and the message that the API gives."""
    response = error_response(error, visit.request.scope["route"].path)
    sentence = msgspec.json.decode(response.body)["error"]["message"]
    title = HTTPStatus(response.status_code).phrase
    answer = page(visit, "refused.html", response.status_code, title=title, sentence=sentence)
    if "retry-after" in response.headers:
        answer.headers["Retry-After"] = response.headers["retry-after"]
    return answer
