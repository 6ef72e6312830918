"""Limits on what a client sends on a connection, and on its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

SERVICE = "service"  # the name in the state of the application of what a connection needs


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of connections.

    `max_url`, `max_head`: bytes. `head_seconds`, `body_seconds`: maximum time to send headers and body.
    `write_seconds`: a connection is aborted if its client reads nothing for this time (at most twice as long).
    `max_connections`: open connections of each worker.
    """

    max_url: int = 8_000
    max_head: int = 32_000
    max_headers: int = 100
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    write_seconds: float = 30.0
    max_connections: int = 2_000


class RequestCounter(Protocol):
    """Counts requests that a connection refuses."""

    def count_request(self, route: str, status: int, seconds: float, /) -> None:
        """Count a request."""


class ConnectionOwner(Protocol):
    """What a connection needs of its application."""

    @property
    def settings(self) -> ConnectionLimits:
        """The limits."""

    @property
    def metrics(self) -> RequestCounter:
        """Counts refused requests."""
