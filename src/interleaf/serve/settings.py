"""How a service runs: its limits, and what it keeps of people."""

from __future__ import annotations

from dataclasses import dataclass

from interleaf.errors import InterleafError
from interleaf.store.query_storage import HASH, KEEP


@dataclass(frozen=True)
class Settings:
    """Limits of requests, and privacy.

    `max_url`, `max_head`, `max_body`: bytes. `head_seconds`, `body_seconds`: a client may take so long to send them.
    `write_seconds`: a connection is aborted whose client reads nothing of its answer for this time, or up to twice it.
    `max_connections`: open at once, in each worker. `requests_per_second`: of a key; `browser_requests_per_second`: of
    an address that sends no key.
    `unit_secret`: units are stored as a hash keyed with it. `queries`: whether query texts are kept, hashed or dropped.
    `retention_days`: rows of closed impressions older than that are deleted, and their sums stay. `own_process`:
    nothing else runs in the process, so that Python's collector of cycles can be set for what a service does.
    `warming`: the folder of the process that compiles report kernels beside the service, if there is one.
    """

    max_body: int = 1_000_000
    max_url: int = 8_000
    max_head: int = 32_000
    max_headers: int = 100
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    write_seconds: float = 30.0
    max_connections: int = 2_000
    requests_per_second: float = 10_000.0
    browser_requests_per_second: float = 50.0
    unit_secret: bytes | None = None
    queries: str = KEEP
    retention_days: float | None = None
    fold_seconds: float = 5.0
    cookie_hours: float = 12.0
    loopback_only: bool = True
    own_process: bool = False
    warming: str | None = None

    def __post_init__(self) -> None:
        if self.queries == HASH and self.unit_secret is None:
            raise InterleafError(
                "queries hashed without a secret of yours can be guessed; give --unit-secret-file, or drop them"
            )
        if self.retention_days is not None and not self.retention_days > 0:
            raise InterleafError(f"retention is {self.retention_days:g} days; give a number above 0")
        if self.max_connections < 1:
            raise InterleafError(f"{self.max_connections} connections at most refuse everybody; give 1 or more")
        for rate in (self.requests_per_second, self.browser_requests_per_second):
            if not rate >= 1:
                raise InterleafError(f"{rate:g} requests a second refuse everybody; give 1 or more")
