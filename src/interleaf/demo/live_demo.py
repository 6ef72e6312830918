"""The live demo on this machine: a search engine, the service, simulated users, the dashboard and a verdict.

On its search page you search, see an interleaved list, and your clicks count.
"""

from __future__ import annotations

import re
import secrets
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import uvicorn
from jinja2 import Environment
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from interleaf.client import Client
from interleaf.demo.engine import Engine, order_of, read_entries
from interleaf.demo.searchers import Crowd, searches, truth
from interleaf.errors import ClientError, InterleafError
from interleaf.report.format import format_signed, span
from interleaf.report.html import templates
from interleaf.report.report import Report
from interleaf.server.app import create_app
from interleaf.server.reports import Reports
from interleaf.store.sql import open_store

HOST, MAX_PORT = "127.0.0.1", 65_535
MAX_START, MAX_END = 60.0, 5  # seconds to start and to end
_PAGES: Environment = templates(("interleaf.demo", "pages"))
COOKIE = "interleaf-demo"
MAX_QUERY = 200
EXAMPLES = ("OrderedDict", "parse command line", "temporary file", "json.dumps", "send mail", "run process timeout")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "private, no-cache",  # going back shows the same list
}
NAME = "demo"
PLANNED_UNITS, HOLDOUT = 300, 0.05
MAX_WAIT = 300.0  # seconds to wait for an answer: the first ones compile, which takes a minute on a slow machine
_PATH = f"/v1/experiments/{NAME}"
PIPED = 5.0  # seconds between two lines in a pipe
LOOK = 1.1  # seconds between two reads of the report, which the service computes once per second
SERVICE_TIMEOUT = 30.0  # seconds to wait for the service, which may be compiling
TOLD = 500  # searches from which the true quality is computed


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


def begin(client: Client, rankers: Sequence[str]) -> None:
    """Create and start the experiment `demo`, or continue the one that runs in the store already."""
    settings = {"name": NAME, "rankers": list(rankers), "planned_units": PLANNED_UNITS}
    try:
        stored = client.call("GET", _PATH, timeout=MAX_WAIT)
    except ClientError as error:
        if error.status == 401:
            remedy = "give another --store, or leave it out"
            raise InterleafError(f"the store has keys, and the demo has none; {remedy}") from None
        if error.status != 404:
            raise
        settings |= {"holdout": HOLDOUT, "by": ["device"]}
        stored = client.call("POST", "/v1/experiments", settings, timeout=MAX_WAIT)
    if stored["state"] == "draft":
        stored = client.call("POST", f"{_PATH}/start", timeout=MAX_WAIT)
    if stored["state"] != "running" or stored["settings"]["rankers"] != settings["rankers"]:
        problem = f"the store holds another experiment {NAME!r}, {stored['state']}, of {stored['settings']['rankers']}"
        raise InterleafError(f"{problem}; give another --store, or leave it out")


def read_report(client: Client) -> Report | None:
    """The current report; None before the first list was shown."""
    reports = client.call("GET", f"{_PATH}/report", timeout=MAX_WAIT)["reports"]
    return Report.from_dict(next(iter(reports.values()))) if reports else None


def line_of(report: Report | None) -> str:
    """The current result in a line, the most important words first, because it may be cut."""
    if report is None:
        return "Nobody has searched yet."
    came = f"{report.totals.units:,} people, {report.totals.impressions:,} lists"
    if not report.verdict.trusted:
        return f"Do not trust this: {report.verdict.why[0]}; {came}"
    winner = report.verdict.winner
    result = f"People prefer {winner}" if winner else "No difference shown yet"
    one = report.comparisons[0] if len(report.comparisons) == 1 else None
    if one is not None and one.estimate is not None and one.interval is not None:
        result += f": {one.first} over {one.second} {format_signed(one.estimate)} ({span(one.interval)})"
    return f"{result}; {came}"


class RunningLine:
    """A line of output that is overwritten."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._is_terminal = out, out.isatty()
        self._line, self._when = "", float("-inf")

    def show(self, line: str) -> None:
        """Overwrite the line; in a pipe, print it only if it is new and some time has passed."""
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            print("\r\x1b[K" + line[:width], end="", file=self._out, flush=True)
        elif line != self._line and time.monotonic() >= self._when + PIPED:
            self._when = time.monotonic()
            print(line, file=self._out, flush=True)
        self._line = line

    def hint(self, text: str) -> None:
        """Show a progress message at a terminal; the next line replaces it."""
        if self._is_terminal:
            self.show(text)

    def end(self, line: str) -> None:
        """Print the last line."""
        print(("\r\x1b[K" if self._is_terminal else "") + line, file=self._out, flush=True)


@dataclass(frozen=True)
class Demo:
    """Settings of the demo: rankers (the first is the control), number of simulated users, address of the service."""

    rankers: Sequence[str] = ("equal", "exact")
    people: int = 1000
    seed: int = 1
    port: int = 0
    store: str | None = None
    until_decided: bool = False
    searches_per_second: float = 15.0

    def __post_init__(self) -> None:
        if self.people < 0:
            raise InterleafError(f"the number of people is {self.people}; give --people 0 or more")
        if self.until_decided and not self.people:
            raise InterleafError("--until-decided needs people, and --people is 0; give more, or leave it out")
        for ranker in self.rankers:
            order_of(ranker)  # raises if there is none


def run(demo: Demo, out: TextIO | None = None) -> int:
    """Run the demo until Ctrl-C, or until it is decided; returns exit status 1 if it should be decided and is not."""
    out = out or sys.stdout
    line = RunningLine(out)
    with ExitStack() as stack:
        place = stack.enter_context(listen(demo.port))
        folder = stack.enter_context(TemporaryDirectory(prefix="interleaf-demo-"))
        store = stack.enter_context(closing(open_store(demo.store or Path(folder) / "demo.sqlite")))
        line.hint("Reading the documentation of the standard library ...")
        engine = stack.enter_context(closing(Engine(read_entries())))
        url, app = address(place), create_app(store)
        client = Client(url, timeout=SERVICE_TIMEOUT)
        app.router.routes[:0] = Site(engine, client, NAME, demo.rankers).routes()
        stack.enter_context(serve_app(app, place))
        stack.callback(client.close)
        line.hint("Starting the experiment; the first time this compiles its methods ...")
        begin(client, demo.rankers)
        coming = searches(engine.entries, demo.people, demo.seed)
        crowd = Crowd(engine, client, NAME, demo.rankers, coming, demo.searches_per_second)
        stack.callback(crowd.stop)
        report = _watch_until_decided(demo, url, client, crowd, line)
        has_gone = crowd.has_gone
        crowd.stop()
        if crowd.problem is not None:
            raise crowd.problem
        if report is None:
            client.close()  # deliver spooled records before the last report
            last = Reports(store).get_blocking(NAME, store.experiment(NAME).version)
            report = next(iter(last.reports.values()), None)
        if demo.until_decided and has_gone:
            outcome = "it is decided" if _is_decided(report) else "nothing is decided"
            line.end(f"All {demo.people:,} people have searched; {outcome}.")
        line.end(line_of(report))
        if report is not None:
            print(file=out)
            report.show(out)
        if demo.until_decided and coming:
            print(f"\n{truth(engine, demo.rankers, coming[:TOLD])}", file=out)
        return 1 if demo.until_decided and not _is_decided(report) else 0


def _watch_until_decided(demo: Demo, url: str, client: Client, crowd: Crowd, line: RunningLine) -> Report | None:
    """Print the current result until the demo is over; returns the report that decided it, if one did.

    A verdict stays valid even if later searches make the interval include zero again.
    """
    is_told, watch = False, f"{url}/experiments/{NAME}"
    with suppress(KeyboardInterrupt):
        line.end(f"Open {watch} to watch, {url}/search to search and click yourself; Ctrl-C ends.\n")
        crowd.start()
        while True:
            has_gone = crowd.has_gone
            report = read_report(client)  # may be some seconds old
            if crowd.problem is not None:
                break
            if demo.until_decided and _is_decided(report):
                return report
            if demo.until_decided and has_gone:
                break
            if has_gone and not is_told and demo.people:
                is_told = True
                line.end(f"All {demo.people:,} people have searched; you may go on, and Ctrl-C ends.")
            line.show(line_of(report))
            time.sleep(LOOK)
    return None


def _is_decided(report: Report | None) -> bool:
    """Whether the confidence sequence excludes zero, in a report that can be trusted."""
    return report is not None and report.verdict.trusted and report.verdict.winner is not None
