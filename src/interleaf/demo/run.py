"""The whole thing on this machine: a real search engine, a service, people, a live dashboard, a verdict."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from interleaf.client import Client
from interleaf.demo.crowd import Crowd
from interleaf.demo.engine import Engine
from interleaf.demo.entries import read_entries
from interleaf.demo.live import NAME, Live
from interleaf.demo.people import searches
from interleaf.demo.rankers import ranker_of
from interleaf.demo.server import address, listening, serving
from interleaf.demo.site import Site
from interleaf.demo.terminal import RunningLine, line_of
from interleaf.demo.truth import truth
from interleaf.errors import InterleafError
from interleaf.report.report import Report
from interleaf.serve.app import create_app
from interleaf.serve.reports import Reports
from interleaf.store.opening import opened

LOOK = 1.1  # seconds between two looks at the report, which the service makes once a second
PATIENCE = 30.0  # seconds for an answer of the service, which compiles beside
TOLD = 500  # searches that the truth is told of


@dataclass(frozen=True)
class Demo:
    """What to run: who is compared (the first is the control), how many people come, where the service is."""

    rankers: Sequence[str] = ("equal", "exact")
    people: int = 1000
    seed: int = 1
    port: int = 0
    store: str | None = None
    until_decided: bool = False
    searches_per_second: float = 15.0

    def __post_init__(self) -> None:
        if self.people < 0:
            raise InterleafError(f"{self.people} people cannot search; give --people 0 or more")
        if self.until_decided and not self.people:
            raise InterleafError("nobody decides anything with --people 0; give more, or leave out --until-decided")
        for ranker in self.rankers:
            ranker_of(ranker)


def run(demo: Demo, out: TextIO | None = None) -> int:
    """Run it until it is decided, or until Ctrl-C; the status is 1 if it should have been decided and was not."""
    out = out or sys.stdout
    line = RunningLine(out)
    with ExitStack() as stack:
        place = stack.enter_context(listening(demo.port))
        folder = stack.enter_context(TemporaryDirectory(prefix="interleaf-demo-"))
        store = stack.enter_context(closing(opened(demo.store or Path(folder) / "demo.sqlite")))
        line.hint("Reading the documentation of the standard library ...")
        engine = stack.enter_context(closing(Engine(read_entries())))
        client, live = Client(address(place), timeout=PATIENCE), Live(address(place))
        app = create_app(store)
        app.router.routes[:0] = Site(engine, client, NAME, demo.rankers).routes()
        stack.enter_context(serving(app, place))
        stack.callback(client.close)
        line.hint("Starting the experiment; the first time this compiles its methods ...")
        live.begin(demo.rankers)
        coming = searches(engine.entries, demo.people, demo.seed)
        crowd = Crowd(engine, client, NAME, demo.rankers, coming, demo.searches_per_second)
        stack.callback(crowd.stop)
        report = _deciding(demo, live, crowd, line)
        has_gone = crowd.has_gone
        crowd.stop()
        if crowd.problem is not None:
            raise crowd.problem
        if report is None:
            client.close()  # what waits to be sent is part of the last report
            last = Reports(store).get_blocking(NAME, store.experiment(NAME).version)
            report = next(iter(last.reports.values()), None)
        if demo.until_decided and has_gone:
            line.end(_all(demo) + ("it is decided." if _is_decided(report) else "nothing is decided."))
        line.end(line_of(report))
        if report is not None:
            print(file=out)
            report.show(out)
        if demo.until_decided and coming:
            print(f"\n{truth(engine, demo.rankers, coming[:TOLD])}", file=out)
        return 1 if demo.until_decided and not _is_decided(report) else 0


def _deciding(demo: Demo, live: Live, crowd: Crowd, line: RunningLine) -> Report | None:
    """Say how it stands until it is over; the report that decided it, if that is what ended it.

    A verdict that was reached stands, though a few who come later might have left it open for a while.
    """
    is_told = False
    watch, search = f"{live.url}/experiments/{NAME}", f"{live.url}/search"
    with suppress(KeyboardInterrupt):
        line.end(f"Open {watch} to watch, {search} to search and click yourself; Ctrl-C ends.\n")
        crowd.start()
        while True:
            has_gone = crowd.has_gone
            report = live.report()  # some seconds old
            if crowd.problem is not None:
                break
            if demo.until_decided and _is_decided(report):
                return report
            if demo.until_decided and has_gone:
                break
            if has_gone and not is_told and demo.people:
                is_told = True
                line.end(_all(demo) + "you may go on, and Ctrl-C ends.")
            line.show(line_of(report))
            time.sleep(LOOK)
    return None


def _all(demo: Demo) -> str:
    """How a line begins that says what comes after the last of them."""
    return f"All {demo.people:,} people have searched; "


def _is_decided(report: Report | None) -> bool:
    """Whether the confidence sequence leaves out zero, in a report that can be trusted."""
    return report is not None and report.verdict.trusted and report.verdict.winner is not None
