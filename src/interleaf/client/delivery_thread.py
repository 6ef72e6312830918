"""The thread that delivers spooled records, and the circuit breaker on latency."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from interleaf.client.connections import AwayError, Connections, Reply
from interleaf.client.fallback import KnownExperiments
from interleaf.client.spool import Spool
from interleaf.errors import ClientError

_CHANCE = random.Random()  # a program that has seeded the module `random` gets the numbers that it expects


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
        """From a share of the timeout and a number of answers; with None, it never trips."""
        if slow is None:
            return cls(float("inf"), 1)
        share, window = slow
        if not 0 < share <= 1 or isinstance(window, bool) or not isinstance(window, int) or window < 1:
            problem = "give a share of the timeout, above 0 to 1, and a number of answers, such as (0.5, 20)"
            raise ClientError(f"slow is {slow!r}; {problem}, or None")
        return cls(share * timeout, window)

    def forget(self) -> None:
        """Reset it: after it tripped, and in the child of a fork."""
        self._lock = threading.Lock()
        self._latest: deque[bool] = deque(maxlen=self._window)

    def is_slow(self, seconds: float) -> bool:
        """Whether an answer took too long."""
        return seconds > self._limit

    def trips(self, seconds: float) -> bool:
        """Count an answer; True if calls should not wait for the service for a while."""
        with self._lock:
            self._latest.append(self.is_slow(seconds))
            return 2 * sum(self._latest) > self._window


EVENTS = "/v1/events"
DESCRIBED = ("settings", "version", "state")
LISTED = ("impression", "documents", "arm", "token", "version")
TAKEN = ("accepted", "repeated", "unmatched")
MAX_EVENTS = 500  # of one request
FAILED = 500  # the status of an answer
MAX_TRIES = 5  # tries of a record that gets status 500 while other requests succeed
MAX_FAILURES = 3  # records in a row with status 500 until delivery pauses
SPOOL_SECONDS = 1.0  # between two rounds of delivery while records are spooled
_CHUNK = 200  # records read at a time
log = logging.getLogger("interleaf.client")


class DeliveryThread:
    """Sends the requests of a client. While the service is `away`, only this thread tries it, with increasing pauses.

    The service is away if it does not answer, or if its answers are slow. It is back after a quick answer.
    """

    def __init__(
        self,
        connections: Connections,
        spool: Spool,
        known: KnownExperiments,
        refresh: float,
        backoff: tuple[float, float],
        breaker: LatencyBreaker,
    ) -> None:
        self._connections, self._spool, self._known = connections, spool, known
        self._refresh, self._backoff, self._breaker = refresh, backoff, breaker
        self._refreshed = -refresh
        self.refused, self.quarantined = 0, 0
        self._out_of_scope: set[str] = set()
        self._successes = 0  # lists and events that the service accepted
        self._tries: dict[str, tuple[int, int]] = {}  # tries of records with status 500, and successes at the last try
        self.forget()

    def forget(self) -> None:
        """Start again after a fork: the thread runs only in the parent."""
        self.away, self._is_slow, self._must_rest = False, False, False
        self.is_failing = False  # whether the last round of delivery ended with an AwayError
        self._failures = self._failures_in_a_row = 0  # of this round of delivery
        self._breaker.forget()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._wake, self._ended = threading.Event(), threading.Event()

    def post(self, path: str, body: bytes, fields: Iterable[str], since: float, deadline: float) -> Reply:
        """Send a request that a caller waits for. After a failure, this raises until the thread gets an answer."""
        if self.away:
            raise AwayError("the service was away a moment ago")
        try:
            reply = self._connections.ask("POST", path, body, fields, deadline)
        except AwayError as problem:
            self.miss(problem)
            raise
        if self._breaker.trips(time.monotonic() - since):
            self._breaker.forget()
            self._must_rest = True
            self.miss(AwayError("most of its latest answers were slow"))
        self._successes += reply.is_success
        return reply

    def miss(self, problem: Exception) -> None:
        """Mark the service as away."""
        if not self.away:
            log.warning("the service is away; records are spooled: %s", problem)
        self.away = True
        self.wake()

    def note_out_of_scope(self, what: str, problem: Exception) -> None:
        """Count a request that the key does not allow; log the first one of each experiment."""
        self.refused += 1
        if what not in self._out_of_scope:
            self._out_of_scope.add(what)
            log.error("%s: %s; further refusals are counted in client.status().refused, and not logged", what, problem)

    def learn(self, name: str) -> None:
        """Fetch the settings of an experiment."""
        reply = self._ask("GET", f"/v1/experiments/{quote(name, safe='')}", None, DESCRIBED)
        if reply.is_success:
            self._known.learn(name, reply.data)

    def wake(self, *, soon: bool = False) -> None:
        """Start the thread if needed, and wake it up; with `soon`, it also refreshes settings."""
        if soon:
            self._refreshed = -self._refresh
        if self._thread is None:
            with self._starting:
                if self._thread is None and not self._ended.is_set():
                    self._thread = threading.Thread(target=self._run, name="interleaf-delivery", daemon=True)
                    self._thread.start()
        self._wake.set()

    def close(self, seconds: float) -> None:
        """Deliver what can be delivered at once, and stop."""
        self._ended.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        pause, most = self._backoff
        while not self._ended.is_set():
            self._wake.wait(self._idle())
            self._wake.clear()
            if self._must_rest:  # delivering spooled lists later shows whether it is quick again
                self._must_rest = False
                self._ended.wait(most)
            try:
                self._round()
                pause, self.is_failing = self._backoff[0], False
            except AwayError as problem:
                if not (self.away or self.is_failing):
                    log.warning("records cannot be delivered; they stay in the spool: %s", problem)
                self.is_failing = True
                self._ended.wait(max(pause * _CHANCE.uniform(0.5, 1.0), problem.retry_after or 0.0))
                pause = min(2 * pause, most)
            except Exception:
                log.exception("delivery failed; it will be retried")
                self._ended.wait(most)

    def _idle(self) -> float:
        """Seconds until the next round. A spool with records is checked often: other processes may fail."""
        due = self._refreshed + self._refresh - time.monotonic()
        return max(0.0, due if self._spool.is_empty() else min(due, SPOOL_SECONDS))

    def _round(self) -> None:
        self._is_slow, self._failures, self._failures_in_a_row = False, 0, 0
        if self.away or time.monotonic() >= self._refreshed + self._refresh:
            for name in self._known.names:
                self.learn(name)
            self._refreshed = time.monotonic()
        self._deliver()
        self._meet()
        if self._failures:
            raise AwayError(f"the service answered {FAILED} to {self._failures} records")
        if self.away:
            raise AwayError("the service answers slowly")

    def _meet(self) -> None:
        """Mark the service as back, after the first record that it accepts."""
        if self.away and not self._is_slow:
            log.info("the service is back")
            self.away = False

    def _deliver(self) -> None:
        with self._spool.claim() as is_ours:
            names = self._spool.names() if is_ours else []
            names.sort(key=self._tries.__contains__)  # records that failed before come last
            for start in range(0, len(names), _CHUNK):
                records = list(self._read(names[start : start + _CHUNK]))
                for name, record in records:
                    if record["experiment"] is not None:
                        path = f"/v1/experiments/{quote(record['experiment'], safe='')}/interleave"
                        self._settle([name], self._send(path, record["body"], LISTED))
                self._send_events([(name, record) for name, record in records if record["experiment"] is None])

    def _read(self, names: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        for name in names:
            try:
                text = self._spool.read(name)
                if text is not None:
                    yield name, _record(text)
            except (ValueError, KeyError, TypeError, RecursionError, PermissionError) as problem:
                log.error("the spooled file %s is not a valid record; it is set aside: %r", name, problem)
                self.quarantined += 1
                self._spool.quarantine(name)
            except OSError as problem:
                log.error("the spooled record %s cannot be read now: %r", name, problem)

    def _send_events(self, records: list[tuple[str, dict[str, Any]]]) -> None:
        while records:
            batch, events = list[tuple[str, dict[str, Any]]](), list[Any]()
            while records and (not batch or len(events) + len(records[0][1]["body"]["events"]) <= MAX_EVENTS):
                batch.append(records.pop(0))
                events += batch[-1][1]["body"]["events"]
            reply = self._send(EVENTS, {"events": events}, TAKEN)
            if reply.is_success or len(batch) == 1:
                self._settle([name for name, _ in batch], reply)
            else:  # one that is refused must not take the others along
                for name, record in batch:
                    self._settle([name], self._send(EVENTS, record["body"], TAKEN))

    def _send(self, path: str, body: Any, fields: Iterable[str]) -> Reply:
        """Send spooled records. They may be the cause of a status 500, so that is not an outage yet."""
        try:
            return self._ask("POST", path, body, fields)
        except AwayError as problem:
            if problem.status != FAILED:
                raise
            return Reply(FAILED, {})

    def _ask(self, method: str, path: str, body: Any, fields: Iterable[str]) -> Reply:
        began = time.monotonic()
        reply = self._connections.ask(method, path, None if body is None else json.dumps(body).encode(), fields)
        self._is_slow = self._breaker.is_slow(time.monotonic() - began)
        if reply.is_key_rejected:
            raise AwayError(f"the service answered {reply.status} to this key", self._backoff[1])
        return reply

    def _settle(self, names: list[str], reply: Reply) -> None:
        for name in names:
            if reply.is_success:
                self._successes += 1
                self._failures_in_a_row = 0
                self._tries.pop(name, None)
                self._spool.remove(name)
                self._meet()
            elif reply.status == FAILED:
                self._fail(name)
            elif reply.is_out_of_scope:  # it can be delivered by hand with another key
                self.refused += 1
                log.warning("the spooled record %s is set aside: %s", name, reply.error)
                self._spool.quarantine(name)
            else:
                self.refused += 1
                log.warning("a spooled record was refused and dropped: %s", reply.error)
                self._spool.remove(name)

    def _fail(self, name: str) -> None:
        """Count a failed try of a record, if other requests succeeded since its last try.

        Only the success of other requests shows that the record is the cause, and not the service.
        """
        tries, successes = self._tries.get(name, (0, -1))
        self._tries[name] = tries, successes = tries + (self._successes > successes), self._successes
        if tries >= MAX_TRIES:
            log.error("the service answered %d to the spooled record %s %d times; it is set aside", FAILED, name, tries)
            self.quarantined += 1
            del self._tries[name]
            self._spool.quarantine(name)
            return
        self._failures += 1
        self._failures_in_a_row += 1
        self._meet()
        if self._failures_in_a_row >= MAX_FAILURES:
            raise AwayError(f"the service answered {FAILED} to {MAX_FAILURES} records in a row")


def _record(text: bytes) -> dict[str, Any]:
    """Decode a spooled record, a request for a list or events; raises an error other than OSError if it is invalid."""
    record: dict[str, Any] = json.loads(text)
    experiment, body = record["experiment"], record["body"]
    json.dumps(body)  # it may be nested too deeply
    if experiment is None:
        if not isinstance(body["events"], list) or not body["events"]:
            raise ValueError("it contains no list of events")
    elif not isinstance(body, dict) or not quote(experiment, safe=""):
        raise ValueError("it contains no request of an experiment")
    return record
