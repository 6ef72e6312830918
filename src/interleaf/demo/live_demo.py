"""The live demo on this machine: a search engine, the service, simulated users, the dashboard and a verdict."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from interleaf.client import Client
from interleaf.demo.engine import Engine, order_of, read_entries
from interleaf.demo.searchers import Crowd, searches, truth
from interleaf.demo.site import Site, address, listen, serve_app
from interleaf.errors import ClientError, InterleafError
from interleaf.report.format import format_signed, span
from interleaf.report.report import Report
from interleaf.server.app import create_app
from interleaf.server.reports import Reports
from interleaf.store.sql import open_store

NAME = "demo"
PLANNED_UNITS, HOLDOUT = 300, 0.05
MAX_WAIT = 300.0  # seconds to wait for an answer: the first ones compile, which takes a minute on a slow machine
_PATH = f"/v1/experiments/{NAME}"


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


PIPED = 5.0  # seconds between two lines in a pipe


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


LOOK = 1.1  # seconds between two reads of the report, which the service computes once per second
SERVICE_TIMEOUT = 30.0  # seconds to wait for the service, which may be compiling
TOLD = 500  # searches from which the true quality is computed


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
