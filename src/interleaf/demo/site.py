"""The search page of the demo: you search, see an interleaved list, and your clicks count."""

from __future__ import annotations

import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import uvicorn
from jinja2 import Environment
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from interleaf.client import Client
from interleaf.demo.engine import Engine
from interleaf.errors import InterleafError
from interleaf.report.html import templates

HOST, MAX_PORT = "127.0.0.1", 65_535
MAX_START, MAX_END = 60.0, 5  # seconds to start and to end


def listen(port: int = 0) -> socket.socket:
    """Open a listening socket; port 0 means any free port."""
    try:
        if not 0 <= port <= MAX_PORT:
            raise OSError(f"ports end at {MAX_PORT}")
        return socket.create_server((HOST, port))
    except OSError as error:
        raise InterleafError(f"port {port} cannot be used ({error}); give another --port, or leave it out") from None


def address(place: socket.socket) -> str:
    """The URL of a listening socket."""
    return f"http://{HOST}:{place.getsockname()[1]}"


@contextmanager
def serve_app(app: Starlette, place: socket.socket) -> Iterator[None]:
    """Serve the application while the block runs; requests in progress are finished at the end."""
    settings = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=MAX_END)
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, args=([place],), name="interleaf-demo-service", daemon=True)
    thread.start()
    try:
        end = time.monotonic() + MAX_START
        while not server.started:
            if not thread.is_alive() or time.monotonic() > end:
                raise InterleafError("the service of the demo did not start; see its messages above")
            time.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        thread.join(2 * MAX_END)


_PAGES: Environment = templates(("interleaf.demo", "pages"))
COOKIE = "interleaf-demo"
MAX_QUERY = 200
EXAMPLES = ("OrderedDict", "parse command line", "temporary file", "json.dumps", "send mail", "run process timeout")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "private, no-cache",  # going back shows the same list
}
Piece = tuple[str, bool]


class Site:
    """The pages of a search engine; lists come from the experiment with this name and these rankers."""

    def __init__(self, engine: Engine, client: Client, experiment: str, rankers: Sequence[str]) -> None:
        self._engine, self._client = engine, client
        self._experiment, self._rankers = experiment, tuple(rankers)

    def routes(self) -> list[Route]:
        """Routes to add to the service."""
        return [
            Route("/search", self.search, name="demo-search"),
            Route("/search.css", _sheet, name="demo-sheet"),
            Route("/library/{name}", self.entry, name="demo-entry"),
        ]

    def search(self, request: Request) -> Response:
        """The search page; with a query, the interleaved results."""
        query, cookie = _query(request), request.cookies.get(COOKIE, "")
        unit = cookie if re.fullmatch("you-[0-9a-f]{16}", cookie) else f"you-{secrets.token_hex(8)}"
        rankings, captions = self._engine.answers(query, self._rankers)
        shown = None
        if captions:
            about: dict[str, Any] = {"query": query, "captions": captions, "attributes": {"device": "yours"}}
            shown = self._client.interleave(self._experiment, rankings, unit=unit, **about)
        answer = self._page(
            "search.html",
            query=query,
            shown=shown,
            results=[self._result(one, captions[one]) for one in shown.documents] if shown else [],
            examples=EXAMPLES,
            rankers=self._rankers,
            entries=len(self._engine.entries),
        )
        answer.set_cookie(COOKIE, unit, max_age=86_400, httponly=True, samesite="strict")
        return answer

    def entry(self, request: Request) -> Response:
        """The page of an entry."""
        entry = self._engine.entries.get(request.path_params["name"])
        if entry is None:
            return self._page("missing.html", 404, query=_query(request))
        inside = [one for one in self._engine.entries.values() if one.owner == entry.id]
        outside = self._engine.entries.get(entry.owner)
        return self._page("entry.html", query=_query(request), entry=entry, inside=inside, outside=outside)

    def _page(self, template: str, status: int = 200, **values: Any) -> Response:
        text = _PAGES.get_template(template).render(values, experiment=self._experiment)
        return Response(text, status, HEADERS, "text/html")

    def _result(self, name: str, caption: Mapping[str, Any]) -> dict[str, Any]:
        lit = {
            field: pieces(caption[field], [one for one in caption["highlights"] if one["field"] == field])
            for field in ("title", "snippet")
        }
        return {"name": name, "kind": self._engine.entries[name].kind, "url": caption["url"], **lit}


def pieces(text: str, highlights: Sequence[Mapping[str, Any]]) -> list[Piece]:
    """A text split at its highlights, each part with whether it is highlighted.

    >>> pieces("json.dumps(obj)", [{"start": 0, "end": 4}])
    [('json', True), ('.dumps(obj)', False)]
    """
    cut, place = list[Piece](), 0
    for section in highlights:
        cut += [(text[place : section["start"]], False), (text[section["start"] : section["end"]], True)]
        place = section["end"]
    return [(part, lit) for part, lit in [*cut, (text[place:], False)] if part]


def _query(request: Request) -> str:
    """The query, on one line, without invisible characters, and cut to a length."""
    text = request.query_params.get("q", "")[: 10 * MAX_QUERY]
    printable = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(printable.split())[:MAX_QUERY]


def _sheet(request: Request) -> Response:
    sheet = files("interleaf.demo").joinpath("pages/demo.css").read_bytes()
    return Response(sheet, headers=HEADERS, media_type="text/css")
