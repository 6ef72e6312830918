"""Counts what the proxy does, for Prometheus and the health page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter as PrometheusCounter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from interleaf.server.monitoring import BuildInfo

# The limit of an alert, 0.4, is one of them: between two of them, quantiles are a guess.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.4, 0.5, 1.0, 2.5, 10.0)
disable_created_metrics()  # type: ignore[no-untyped-call]  # a time beside each counter, which nobody asks for


class ProxyMetrics:
    """The counters of one proxy."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        registry.register(BuildInfo(None))
        counter = partial(PrometheusCounter, registry=registry)
        seconds = partial(Histogram, registry=registry, buckets=BUCKETS)
        requests = "requests by how they were answered, and status"
        self._requests = counter("interleaf_proxy_requests_total", requests, ("kind", "status"))
        self._lists = counter("interleaf_proxy_lists_total", "answered searches by arm", ("arm",))
        self._bypassed = counter("interleaf_proxy_bypassed_total", "searches that were not interleaved", ("code",))
        self._failures = counter("interleaf_proxy_failures_total", "what went wrong with searches", ("code", "ranker"))
        self._upstream = counter("interleaf_proxy_upstream_errors_total", "requests without an answer", ("code",))
        self._events = counter("interleaf_proxy_events_total", "events by source and outcome", ("source", "outcome"))
        self._seconds = seconds("interleaf_proxy_request_seconds", "time until an answer begins", ("kind",))
        self._ranker_seconds = seconds(
            "interleaf_proxy_ranker_seconds",
            "time of a ranker's answer, as the engine says; of a late one, the time waited",
            ("ranker",),
        )
        # Labels are looked up once.
        self._request = lru_cache(1000)(lambda kind, status: self._requests.labels(kind, str(status)))
        self._duration, self._ranker = lru_cache(100)(self._seconds.labels), lru_cache(100)(self._ranker_seconds.labels)
        self._list = lru_cache(100)(self._lists.labels)
        self.bypassed: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.latest: dict[str, str] = {}  # the last problem of each code and ranker, in words
        self.lists: Counter[str] = Counter()
        self.events: Counter[str] = Counter()

    def watch_recorder(self, status: Callable[[], Mapping[str, Any]]) -> None:
        """Report how many records wait, and whether the service is away, as the status of the recorder says."""
        waiting = "impressions and events that are not delivered yet"
        away = "1 if the service does not answer, else 0"
        gauge = partial(Gauge, registry=self._registry)
        gauge("interleaf_proxy_records_waiting", waiting).set_function(lambda: status()["waiting"])
        gauge("interleaf_proxy_service_away", away).set_function(lambda: status().get("away", False))

    def count_request(self, kind: str, status: int, seconds: float) -> None:
        """Count a request and its time."""
        self._request(kind, status).inc()
        self._duration(kind).observe(seconds)

    def count_list(self, arm: str) -> None:
        """Count a search that was answered with a list of the experiment."""
        self._list(arm).inc()
        self.lists[arm] += 1

    def count_bypass(self, code: str) -> None:
        """Count a search that got the engine's own answer."""
        self._bypassed.labels(code).inc()
        self.bypassed[code] += 1

    def count_failure(self, code: str, ranker: str = "") -> None:
        """Count something that went wrong; without a ranker, the search was not interleaved, or a record was lost."""
        self._failures.labels(code, ranker).inc()
        self.failures[code] += 1

    def count_upstream_error(self, code: str) -> None:
        """Count a request that the engine did not answer."""
        self._upstream.labels(code).inc()

    def count_event(self, source: str, outcome: str) -> None:
        """Count an event."""
        self._events.labels(source, outcome).inc()
        self.events[f"{source}:{outcome}"] += 1

    def time_ranker(self, ranker: str, seconds: float) -> None:
        """Note how long a ranker's answer took."""
        self._ranker(ranker).observe(seconds)

    def text(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self._registry)
