"""The service: its settings, its caches, and its background tasks."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from interleaf.errors import InterleafError, StoreError
from interleaf.experiment import Experiment
from interleaf.interleaving.api import warm_composing
from interleaf.server import warming
from interleaf.server.auth import MAX_CACHED, REFRESH_AFTER, TTL, Access, Tokens
from interleaf.server.cache import TTLCache
from interleaf.server.choosing import Choosing
from interleaf.server.connection import ConnectionLimits
from interleaf.server.monitoring import Metrics
from interleaf.server.rate_limits import Bots, Rates
from interleaf.server.reports import CurrentReports, Reports
from interleaf.server.schemas import ApiError
from interleaf.server.webhooks import WebhookSettings
from interleaf.server.write_queue import WriteQueue
from interleaf.store.privacy import HASH, KEEP
from interleaf.store.records import RUNNING, Search, Stored
from interleaf.store.sql import SqlStore
from interleaf.store.time_check import StoreTime

SECOND = 1_000_000
MEASURE_SECONDS = 5.0
MAX_EVENTS = 1000  # events of an impression that browsers may send in an hour; no person does more
READY_SECONDS = 1.0  # time limit of the store in the readiness check


@dataclass(frozen=True)
class ServiceSettings(ConnectionLimits):
    """Limits and privacy settings.

    `max_body`: bytes. `requests_per_second`: rate limit of a key; `browser_requests_per_second`: rate limit of an
    address that sends no key.
    `unit_secret`: user ids are stored as a hash keyed with it. `queries`: whether query texts are kept, hashed or
    dropped. `retention_days`: rows of closed impressions older than that are deleted; their sums stay. `own_process`:
    nothing else runs in the process, so that the garbage collector can be tuned for the service.
    `watch_seconds`: time between two looks at the report of a running experiment. `send_seconds`: time between two
    looks for webhooks that are due.
    `warming`: the folder of the background process that compiles report kernels, if there is one.
    """

    max_body: int = 1_000_000
    requests_per_second: float = 10_000.0
    browser_requests_per_second: float = 50.0
    unit_secret: bytes | None = None
    queries: str = KEEP
    retention_days: float | None = None
    fold_seconds: float = 5.0
    watch_seconds: float = 60.0
    send_seconds: float = 5.0
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    cookie_hours: float = 12.0
    loopback_only: bool = True
    own_process: bool = False
    warming: str | None = None

    def __post_init__(self) -> None:
        if self.queries == HASH and self.unit_secret is None:
            problem = "query hashes without a secret can be guessed"
            raise InterleafError(f"{problem}; give --unit-secret-file, or --queries drop")
        if self.retention_days is not None and not self.retention_days > 0:
            raise InterleafError(f"retention is {self.retention_days:g} days; give a number above 0")
        if self.max_connections < 1:
            raise InterleafError(f"the maximum number of connections is {self.max_connections}; give at least 1")
        for rate in (self.requests_per_second, self.browser_requests_per_second):
            if not rate >= 1:
                problem = f"the rate limit is {rate:g} requests per second"
                raise InterleafError(f"{problem}; give at least 1 request per second")


Clock = Callable[[], int]
Result = TypeVar("Result")
log = logging.getLogger("interleaf.server")


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def monotonic() -> int:
    """Microseconds of a clock that cannot be set; on Linux, it also counts the time while the machine sleeps."""
    if sys.platform == "linux":
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    return time.monotonic_ns() // 1000


class Service:
    """One process's service over a store."""

    def __init__(self, store: SqlStore, clock: Clock, settings: ServiceSettings, monotonic: Clock) -> None:
        self.store, self.clock, self.settings, self._monotonic = store, clock, settings, monotonic
        store.use_unit_secret(settings.unit_secret, clock())
        store.use_queries(settings.queries, clock())
        store.use_webhooks(settings.webhooks.urls, settings.webhooks.public_url.rstrip("/"))
        self.tokens = Tokens(store, clock)
        self.access = Access(store, settings.requests_per_second, clock)
        self.metrics = Metrics()
        self.bots = Bots(clock)
        self.addresses = Rates(settings.browser_requests_per_second)
        self.impressions = Rates(MAX_EVENTS / 3600, MAX_EVENTS, lambda: clock() / SECOND)
        self.write_queue = WriteQueue(store)
        self.warming = warming.Progress(None if settings.warming is None else Path(settings.warming))
        # Reports and folding take seconds, and must not keep requests waiting for a thread.
        self._reporting = ThreadPoolExecutor(2, "interleaf-report")
        self._keeping = ThreadPoolExecutor(1, "interleaf-fold")
        self._checking = ThreadPoolExecutor(1, "interleaf-check")
        self.reports = Reports(store, self._reporting)
        self.choosing = Choosing(self)
        self.experiments = TTLCache(store.experiment, TTL, MAX_CACHED, refresh_after=REFRESH_AFTER)
        self._running: TTLCache[None, tuple[Stored, ...]] = TTLCache(
            lambda _: tuple(store.experiments(Search(state=RUNNING))), TTL, 1, refresh_after=REFRESH_AFTER
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._folded_at = time.monotonic()  # when all closed impressions were folded
        self._clock_problem: str | None = None

    @property
    def hides(self) -> bool:
        """Whether the store holds no plain user ids or no plain queries."""
        return self.settings.unit_secret is not None or self.settings.queries != KEEP

    async def experiment(self, name: str) -> Stored:
        """The experiment, at most a second old; 404 if there is none."""
        try:
            return await self.experiments.get(name)
        except KeyError:
            raise ApiError(404, "unknown", f"there is no experiment {name[:100]!r}", "name") from None

    async def running(self) -> tuple[Stored, ...] | None:
        """The experiments that run; None if the store does not answer in time."""
        try:
            return await asyncio.wait_for(self._running.get(None), READY_SECONDS)
        except (StoreError, TimeoutError):
            return None

    async def current_reports(self, name: str, version: int) -> CurrentReports:
        """The report of a version; waits until the kernels that it needs are compiled."""
        await self.wait_for_kernels([await self.experiment(name)])
        return await self.reports.get(name, version)

    async def wait_for_kernels(self, experiments: Iterable[Stored]) -> None:
        """Wait until the background process has compiled the report kernels of these experiments."""
        versions = (settings for one in experiments for settings in one.versions.values())
        for method in {settings.resolved_method.method.name for settings in versions}:
            await self.warming.wait(method)

    async def run_report(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Run slow work in the threads for reports."""
        return await asyncio.get_running_loop().run_in_executor(self._reporting, work, *arguments)

    async def start(self) -> None:
        """Compile the kernels of running experiments, and start the background tasks."""
        for warning in await asyncio.to_thread(self.store.warnings):
            log.warning(warning)
        await self.access.is_open()  # so that it is cached during an outage
        for stored in await asyncio.to_thread(self.store.experiments, Search(state=RUNNING)):
            await self.warm(stored.settings)
        self._tasks = [asyncio.create_task(work) for work in (self._fold(), self._measure())]

    async def warm(self, settings: Experiment) -> None:
        """Compile the kernels that compose lists of an experiment, before its first request."""
        if self.settings.own_process and warming.needs_compiling(settings):
            log.info("compiling, once per installation", extra={"method": settings.method})
            await asyncio.to_thread(warming.compile_lists, settings)
        await asyncio.to_thread(warm_composing, settings.method, settings.rankers_per_list)

    async def stop(self) -> None:
        """Wait until all writes are done, and stop."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.write_queue.close()
        self.metrics.close()
        await asyncio.to_thread(self.choosing.close)
        for pool in (self._reporting, self._keeping, self._checking):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)

    async def _fold(self) -> None:
        """Fold closed impressions and delete old rows periodically; retry if the store does not answer."""
        loop = asyncio.get_running_loop()
        await self.warming.wait()
        while True:
            try:
                now = await loop.run_in_executor(self._keeping, self.read_time)
                while folded := await loop.run_in_executor(self._keeping, self.store.fold, now):
                    self.metrics.folded.inc(folded)
                    await asyncio.sleep(0)
                self._folded_at = time.monotonic()
                if self.settings.retention_days is not None:
                    oldest = now.trusted - round(self.settings.retention_days * 86_400 * SECOND)
                    await loop.run_in_executor(self._keeping, self.store.expire, oldest)
            except StoreError as error:
                log.warning("the store is away", extra={"reason": str(error)})
            except Exception:
                log.exception("folding failed")
            await asyncio.sleep(self.settings.fold_seconds)

    def read_time(self) -> StoreTime:
        """The time by which rows are folded and deleted; logs an error if the clock seems to have jumped."""
        time = self.store.read_time(self.clock(), self._monotonic())
        if time.problem is not None and time.problem != self._clock_problem:  # log it once
            log.error("the clock is in doubt", extra={"reason": time.problem})
        self._clock_problem = time.problem
        return time

    async def check_store(self) -> None:
        """Raise StoreError if the store does not answer in time. A store that hangs blocks at most one thread."""
        check = asyncio.get_running_loop().run_in_executor(self._checking, self.store.check)
        try:
            await asyncio.wait_for(check, READY_SECONDS)
        except TimeoutError:
            raise StoreError(f"the store is away: it did not answer within {READY_SECONDS:g} s") from None

    def measure(self) -> None:
        """Set the gauges of this process."""
        self.metrics.measure(len(self.write_queue), time.monotonic() - self._folded_at, self.store.connections())

    async def _measure(self) -> None:
        """Set the gauges periodically: a scrape reaches one worker, which reports the gauges of all."""
        while True:
            self.measure()
            await asyncio.sleep(MEASURE_SECONDS)
