"""How a service runs: its limits, and what it keeps of people."""

from __future__ import annotations

from dataclasses import dataclass

KEEP, HASH, DROP = "keep", "hash", "drop"
QUERIES = (KEEP, HASH, DROP)


@dataclass(frozen=True)
class Settings:
    """Limits of requests, and privacy.

    `unit_secret`: units are stored as a hash keyed with it. `queries`: whether query texts are kept, hashed or dropped.
    `retention_days`: rows of closed impressions older than that are deleted, and their sums stay.
    """

    most_body: int = 1_000_000
    requests_per_second: float = 10_000.0
    unit_secret: bytes | None = None
    queries: str = KEEP
    retention_days: float | None = None
    fold_seconds: float = 5.0
    cookie_hours: float = 12.0
    loopback_only: bool = True
