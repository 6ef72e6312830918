"""Figures of one process in Prometheus' text format."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter

LIMITS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_HELP = {
    "interleaf_requests_total": "requests by route and status",
    "interleaf_impressions_total": "lists composed, by experiment and arm",
    "interleaf_events_total": "events by what became of them",
    "interleaf_excluded_total": "impressions that do not count, by rule",
}


class Metrics:
    """Counters, and how long requests took; each worker process has its own, and says which it is."""

    def __init__(self) -> None:
        self.counters: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._slow: dict[str, list[int]] = {}
        self._spent: dict[str, float] = {}
        self._served: Counter[tuple[str, int]] = Counter()

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add to a counter."""
        self.counters[name, tuple(labels.items())] += amount

    def served(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._served[route, status] += 1
        counts = self._slow.get(route)
        if counts is None:
            counts = self._slow[route] = [0] * (len(LIMITS) + 1)
        counts[bisect_left(LIMITS, seconds)] += 1
        self._spent[route] = self._spent.get(route, 0.0) + seconds

    def text(self) -> str:
        """All of it."""
        worker = ("worker", str(os.getpid()))
        for (route, status), amount in self._served.items():
            self.counters["interleaf_requests_total", (("route", route), ("status", str(status)))] = amount
        lines = []
        for name, meaning in _HELP.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} counter"]
            for (counter, labels), amount in sorted(self.counters.items()):
                if counter == name:
                    lines.append(f"{name}{_labels((*labels, worker))} {amount}")
        name = "interleaf_request_seconds"
        lines += [f"# HELP {name} time of requests by route", f"# TYPE {name} histogram"]
        for route, counts in sorted(self._slow.items()):
            below = 0
            for limit, amount in zip((*map(str, LIMITS), "+Inf"), counts, strict=True):
                below += amount
                lines.append(f"{name}_bucket{_labels((('route', route), ('le', limit), worker))} {below}")
            lines.append(f"{name}_count{_labels((('route', route), worker))} {below}")
            lines.append(f"{name}_sum{_labels((('route', route), worker))} {self._spent[route]:.6f}")
        return "\n".join(lines) + "\n"


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return "{" + inside + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
