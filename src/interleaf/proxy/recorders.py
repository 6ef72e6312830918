"""Where impressions and events go: to a log on this machine, or to a service. A thread writes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from time import time_ns
from typing import Any, NamedTuple, Protocol

from interleaf.client.clients import Client
from interleaf.client.fallback import RUNNING, EventCounts
from interleaf.errors import InterleafError
from interleaf.experiment import Experiment, Request, Shown
from interleaf.experiment.serving import Noted
from interleaf.log.writer import LogWriter
from interleaf.proxy.config import ExperimentSection
from interleaf.server.rate_limits import Bots

MAX_WAITING = 5000  # records that wait for the thread; above it, they are dropped and counted
log = logging.getLogger("interleaf.proxy")
REFRESH_SECONDS = 10.0  # a start or a stop of the experiment is noticed within this time
TIMEOUT_SECONDS = 2.0


class Running(NamedTuple):
    """The settings of a running experiment."""

    settings: Experiment
    version: int


class RecordDetails(NamedTuple):
    """What is recorded of a list besides the list: rankings' times in milliseconds, the user agent."""

    latency: Mapping[str, float]
    user_agent: str | None


class Recorder(Protocol):
    """Takes impressions and events."""

    def running(self) -> Running | None:
        """The experiment, if it is running."""

    def record(self, shown: Shown, request: Request, version: int, seen: RecordDetails) -> None:
        """Write down an impression, or its next page."""

    def record_event(self, event: Mapping[str, Any]) -> None:
        """Write down an event; it has an impression, a rank or a document, and a kind."""

    def status(self) -> dict[str, Any]:
        """How it goes, for the health page and the metrics: `waiting` records, whether a service is `away`."""

    def close(self) -> None:
        """Write down everything that waits."""


class RecordingThread:
    """Runs the writes of a recorder one after the other in a thread; drops and counts them if too many wait."""

    def __init__(self, dropped: Callable[[], None]) -> None:
        self._threads = ThreadPoolExecutor(1, "interleaf-record")
        self._lock, self._waiting, self._dropped = Lock(), 0, dropped

    @property
    def waiting(self) -> int:
        """The number of writes that wait, or are in progress."""
        return self._waiting

    def put(self, work: Callable[[], object]) -> None:
        """Run it later."""
        with self._lock:
            is_full = self._waiting >= MAX_WAITING
            self._waiting += not is_full
        if is_full:
            self._dropped()
        else:
            self._threads.submit(self._run, work)

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as problem:
            self._dropped()
            level = logging.WARNING if isinstance(problem, InterleafError) else logging.ERROR
            log.log(level, "a record could not be written: %s", problem, exc_info=level == logging.ERROR)
        finally:
            with self._lock:
                self._waiting -= 1

    def close(self) -> None:
        """Wait until everything is written."""
        self._threads.shutdown()


class LogRecorder:
    """Writes impressions and events to the log in a folder; the experiment is always running."""

    def __init__(self, section: ExperimentSection, settings: Experiment, dropped: Callable[[], None]) -> None:
        assert section.log is not None
        try:
            section.log.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InterleafError(f"the folder {section.log} cannot be made: {error.strerror}; give another") from None
        self._writer = LogWriter(section.log, experiment=settings.name)
        self._running, self._thread = Running(settings, 1), RecordingThread(dropped)
        self._bots = Bots(lambda: time_ns() // 1000)

    def running(self) -> Running | None:
        return self._running

    def record(self, shown: Shown, request: Request, version: int, seen: RecordDetails) -> None:
        note, time, settings = shown.record, datetime.now(UTC), self._running.settings
        assert isinstance(note, Noted)
        rule = self._bots.rule(settings, request.unit, seen.user_agent)
        if request.page == 1:
            self._bots.count_impression(settings, request.unit)

        def write() -> None:
            shown_list, name = note.drawn_list.interleaving(), request.impression
            if request.page > 1:
                self._writer.next_page(name, shown_list, request.page, time=time, rankings=True)
                return
            about = {name: note.about[name] for name in ("unit", "query", "arm", "page", "fallback_reason")}
            about |= {"latency": [seen.latency.get(ranker) for ranker in settings.rankers], "excluded": rule}
            self._writer.impression(shown_list, impression=name, time=time, rankings=True, **about)

        self._thread.put(write)

    def record_event(self, event: Mapping[str, Any]) -> None:
        fields = {
            name: event[name] for name in ("rank", "time", "dwell", "value", "event") if event.get(name) is not None
        }
        self._thread.put(lambda: self._writer.event(event["impression"], event["kind"], **fields))

    def status(self) -> dict[str, Any]:
        return {"running": True, "log": True, "waiting": self._thread.waiting}

    def close(self) -> None:
        self._thread.close()
        self._writer.close()


class ServiceRecorder:
    """Takes lists that the proxy composed with the settings of the service. No search waits for the service."""

    def __init__(self, section: ExperimentSection, dropped: Callable[[], None]) -> None:
        assert section.service is not None
        self._name = section.name
        self._client = Client(
            section.service,
            read_key(section.key_file),
            spool=section.spool,
            refresh=REFRESH_SECONDS,
            timeout=TIMEOUT_SECONDS,
        )
        self._thread = RecordingThread(dropped)

    def running(self) -> Running | None:
        experiment = self._client.find_experiment(self._name)
        return (
            Running(experiment.settings, experiment.version)
            if experiment is not None and experiment.state == RUNNING
            else None
        )

    def record(self, shown: Shown, request: Request, version: int, seen: RecordDetails) -> None:
        body = {
            "impression": request.impression,
            "unit": request.unit,
            "query": request.query,
            "rankings": request.rankings,
            "k": request.k,
            "page": request.page,
            "latency": dict(seen.latency),
            "user_agent": seen.user_agent,
            "time": datetime.now(UTC).isoformat(),
            "version": version,
        }
        fields = {name: value for name, value in body.items() if value is not None}
        self._thread.put(lambda: self._deliver(fields))

    def record_event(self, event: Mapping[str, Any]) -> None:
        timed = {"time": datetime.now(UTC).isoformat()} | dict(event)
        self._thread.put(lambda: self._report(timed))

    def status(self) -> dict[str, Any]:
        experiment = self._client.find_experiment(self._name)
        state = {
            "state": None if experiment is None else experiment.state,
            "version": None if experiment is None else experiment.version,
        }
        client = asdict(self._client.status())
        client["waiting"] += self._thread.waiting
        return {"running": self.running() is not None, **state, **client}

    def close(self) -> None:
        self._thread.close()
        self._client.close()

    def _deliver(self, body: Mapping[str, Any]) -> None:
        if not self._client.deliver(self._name, body):
            raise InterleafError("the spool is full")

    def _report(self, event: Mapping[str, Any]) -> None:
        if self._client.events([event]) == EventCounts():
            raise InterleafError("the spool is full")


def read_key(path: Path | None) -> str | None:
    """The key in a file."""
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InterleafError(f"cannot read the key {path}: {error}") from None
