"""The circuit breaker on latency: when most of the latest answers were slow."""

from __future__ import annotations

import threading
from collections import deque

from interleaf.errors import ClientError


class LatencyBreaker:
    """Trips when more than half of the last `window` answers took longer than `limit` seconds.

    >>> breaker = LatencyBreaker(limit=0.5, window=4)
    >>> [breaker.trips(seconds) for seconds in (0.9, 0.1, 0.6, 0.7)]
    [False, False, False, True]
    """

    def __init__(self, limit: float, window: int) -> None:
        self._limit, self._window = limit, window
        self.forget()

    @classmethod
    def of(cls, slow: tuple[float, int] | None, timeout: float) -> LatencyBreaker:
        """From a share of the time-out and a number of answers; None never trips."""
        if slow is None:
            return cls(float("inf"), 1)
        share, window = slow
        if not 0 < share <= 1 or isinstance(window, bool) or not isinstance(window, int) or window < 1:
            problem = "give a share of the time-out, above 0 to 1, and a number of answers, such as (0.5, 20)"
            raise ClientError(f"slow is {slow!r}; {problem}, or None")
        return cls(share * timeout, window)

    def forget(self) -> None:
        """Begin anew: after it tripped, and in the child of a fork."""
        self._lock = threading.Lock()
        self._latest: deque[bool] = deque(maxlen=self._window)

    def is_slow(self, seconds: float) -> bool:
        """Whether an answer took too long."""
        return seconds > self._limit

    def trips(self, seconds: float) -> bool:
        """Count an answer; True if the service is to be left alone for a while."""
        with self._lock:
            self._latest.append(self.is_slow(seconds))
            return 2 * sum(self._latest) > self._window
