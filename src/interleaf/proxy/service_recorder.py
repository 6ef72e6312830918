"""Impressions and events for a service: delivered by the client's thread, from a spool while the service is away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from interleaf.client.clients import Client
from interleaf.client.fallback import RUNNING, EventCounts
from interleaf.errors import InterleafError
from interleaf.experiment import Request, Shown
from interleaf.proxy.config import ExperimentSection
from interleaf.proxy.recorders import RecordDetails, RecordingThread, Running

REFRESH_SECONDS = 10.0  # a start or a stop of the experiment is noticed within this time
TIMEOUT_SECONDS = 2.0


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
        known = self._client.known(self._name)
        return Running(known.settings, known.version) if known is not None and known.state == RUNNING else None

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
        known = {name: value for name, value in body.items() if value is not None}
        self._thread.put(lambda: self._deliver(known))

    def record_event(self, event: Mapping[str, Any]) -> None:
        timed = {"time": datetime.now(UTC).isoformat()} | dict(event)
        self._thread.put(lambda: self._report(timed))

    def status(self) -> dict[str, Any]:
        known = self._client.known(self._name)
        state = {"state": None if known is None else known.state, "version": None if known is None else known.version}
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
