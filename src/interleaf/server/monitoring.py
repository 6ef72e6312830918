"""Prometheus metrics of all workers, and structured logs."""

from __future__ import annotations

import json
import logging
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from interleaf.store.records import Stored

FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # folder of the workers' metrics; must be set before prometheus_client is imported
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
disable_created_metrics()  # type: ignore[no-untyped-call]  # a time beside each counter, which nobody asks for


class Metrics:
    """The metrics of a service. Gauges of a worker are updated when it calls `measure`."""

    def __init__(self) -> None:
        self._folder = os.environ.get(FOLDER)
        self._registry = registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        requests = counter("interleaf_requests_total", "requests by route and status", ("route", "status"))
        impressions = counter("interleaf_impressions_total", "lists by experiment and arm", ("experiment", "arm"))
        self._events = counter("interleaf_events_total", "events by outcome", ("fate",))
        rules = ("experiment", "rule")
        self._excluded = counter("interleaf_excluded_total", "impressions excluded by bot rules", rules)
        self.folded = counter("interleaf_folded_impressions_total", "impressions folded into sums")
        seconds = Histogram(
            "interleaf_request_seconds", "duration of requests by route", ("route",), registry=registry, buckets=BUCKETS
        )
        waiting, backlog = "requests waiting to be written", "time since all closed impressions were folded into sums"
        self._queue = gauge("interleaf_write_queue", waiting, multiprocess_mode="livesum")
        self._backlog = gauge("interleaf_fold_backlog_seconds", backlog, multiprocess_mode="livemax")
        pool, memory = "connections to PostgreSQL by state", "resident memory of each worker"
        self._pool = gauge("interleaf_store_connections", pool, ("state",), multiprocess_mode="livesum")
        self._memory = gauge("interleaf_resident_memory_bytes", memory, multiprocess_mode="liveall")
        # Labels are looked up once.
        self._request = lru_cache(1000)(lambda route, code: (requests.labels(route, str(code)), seconds.labels(route)))
        self._impression = lru_cache(1000)(impressions.labels)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        requests, durations = self._request(route, status)
        requests.inc()
        durations.observe(seconds)

    def count_impression(self, experiment: str, arm: str, rule: str | None) -> None:
        """Count a list; `rule` is the bot rule that excludes it, if any."""
        self._impression(experiment, arm).inc()
        if rule is not None:
            self._excluded.labels(experiment, rule).inc()

    def count_events(self, fates: Mapping[str, int]) -> None:
        """Count events by outcome."""
        for fate, amount in fates.items():
            self._events.labels(fate).inc(amount)

    def measure(self, queue: int, backlog: float, pool: Mapping[str, int]) -> None:
        """Set the gauges of this process."""
        self._queue.set(queue)
        self._backlog.set(backlog)
        for state, amount in pool.items():
            self._pool.labels(state).set(amount)
        with suppress(OSError):  # not every system has this file
            self._memory.set(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))

    def text(self, running: Iterable[Stored] | None) -> bytes:
        """All metrics, with the running experiments if they are known, in the Prometheus text format."""
        registry = self._registry if self._folder is None else _Workers(Path(self._folder))
        return generate_latest(registry) + generate_latest(BuildInfo(running))

    def close(self) -> None:
        """Remove the gauges of this process."""
        if self._folder is not None:
            mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]


@dataclass
class _Workers:
    """The metrics of all workers, from their files in a folder."""

    folder: Path

    def collect(self) -> Iterable[Metric]:
        for pid in {int(path.stem.rpartition("_")[2]) for path in self.folder.glob("gauge_live*_*.db")}:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:  # this worker was killed
                with suppress(FileNotFoundError):  # another worker has removed its gauges
                    mark_process_dead(pid)  # type: ignore[no-untyped-call]
        # The file of a worker that starts is empty at first, which MultiProcessCollector cannot read.
        files = [str(path) for path in self.folder.glob("*.db") if _size(path)]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return merged


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # removed meanwhile
        return 0


@dataclass(eq=False)  # a registry needs a hash
class BuildInfo:
    """The version, and the running experiments with their methods."""

    running: Iterable[Stored] | None

    def collect(self) -> Iterator[Metric]:
        labels: tuple[str, ...] = ("version", "python")
        build = GaugeMetricFamily("interleaf_build_info", "version of interleaf and Python", labels=labels)
        build.add_metric((version("interleaf"), platform.python_version()), 1)
        yield build
        if self.running is None:
            return
        labels = ("experiment", "version", "method")
        running = GaugeMetricFamily("interleaf_running_experiment_info", "running experiments", labels=labels)
        for stored in self.running:
            running.add_metric((stored.settings.name, str(stored.version), stored.settings.method), 1)
        yield running


_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class Lines(logging.Formatter):
    """A log record as a line of JSON: time, level, message, and extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "what": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _PLAIN}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up(level: str = "INFO") -> None:
    """Log messages of interleaf, uvicorn and the connection pool to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(Lines())
    for name, least in (("interleaf", level), ("uvicorn.error", level), ("psycopg.pool", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(least)  # the pool logs every connection that it hands out
