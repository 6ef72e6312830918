"""Asks several retrievers at once, in threads or in tasks, within a time budget.

The first retriever is the control. Nobody waits for more than is needed: if one of the others fails, the answer of the
control is enough. If nobody answers in time, the first answer after that is used, as without a time budget.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

from interleaf.stable_codes import Code

MAX_LATE_CALLS = 16  # calls of one retriever that may still run after their time budget; further calls are skipped
Call = Callable[[], Any]  # returns documents, or a coroutine that does


class FallbackCode(Code):
    """Why passages were not mixed or not logged. The codes never change."""

    FAILED = "retriever_failed", "the retriever raised an error", "see the error in the log of the program"
    LATE = "retriever_late", "the retriever did not answer within the time budget", "make it faster, or raise timeout"
    BUSY = "retriever_busy", f"{MAX_LATE_CALLS} earlier calls of the retriever still run", "give it a time-out"
    EMPTY = "retriever_empty", "the retriever found nothing", "compare retrievers on questions that both can answer"
    NOT_MIXED = "not_mixed", "the passages could not be mixed", "see the error in the log of the program"
    NOT_LOGGED = (
        "not_logged",
        "the list could not be logged",
        "see the error in the log of the program",
    )


@dataclass
class Answers:
    """What the retrievers answered, in the order in which they did; why others did not; and milliseconds of each."""

    documents: dict[str, list[Any]] = field(default_factory=dict)
    problems: dict[str, FallbackCode] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)
    latency: dict[str, float] = field(default_factory=dict)

    @property
    def is_some(self) -> bool:
        """Whether somebody answered, if only that there is nothing."""
        return bool(self.documents) or FallbackCode.EMPTY in self.problems.values()


class TimedCalls:
    """Calls all retrievers at once, question by question; thread-safe."""

    def __init__(self, names: Sequence[str], timeout: float) -> None:
        self._names, self._timeout = tuple(names), timeout
        self._late: Counter[str] = Counter()
        self._lock = threading.Lock()

    def ask(self, calls: Mapping[str, Call]) -> Answers:
        """The answers of all calls, each in a thread of its own."""
        running = self._start(calls, _start_thread)
        while not running.is_decided:
            first = concurrent.futures.FIRST_COMPLETED
            running.take(concurrent.futures.wait(running.futures, running.time_left, first).done)
        self._watch_late(running)
        return running.answers

    async def ask_async(self, calls: Mapping[str, Call]) -> Answers:
        """The same in tasks; calls that are not coroutine functions run in threads."""
        running = self._start(calls, _start_task)
        waiting = {_for_loop(future): future for future in running.futures}
        try:
            while not running.is_decided:
                first = asyncio.FIRST_COMPLETED
                done, _ = await asyncio.wait(waiting, timeout=running.time_left, return_when=first)
                _read_errors(done)
                running.take([waiting.pop(future) for future in done])
        finally:
            for future in waiting:
                future.cancel()
            self._watch_late(running)
        return running.answers

    def _start(self, calls: Mapping[str, Call], start: Callable[[Call], Any]) -> _RunningCalls:
        """Start the calls. The control is always called; others are skipped if too many of their calls are late."""
        running = _RunningCalls(self._names[0], self._timeout)
        with self._lock:
            busy = {name for name in self._names[1:] if self._late[name] >= MAX_LATE_CALLS}
        for name in self._names:
            if name in busy:
                running.answers.problems[name] = FallbackCode.BUSY
            else:
                running.futures[start(calls[name])] = name
        return running

    def _watch_late(self, running: _RunningCalls) -> None:
        """Count the calls that still run, until they end."""
        for future, name in running.futures.items():
            with self._lock:
                self._late[name] += 1
            future.add_done_callback(partial(self._end, name))

    def _end(self, name: str, ended: Any) -> None:
        with self._lock:
            self._late[name] -= 1
        if not ended.cancelled():
            ended.exception()  # it was late, so nobody else looks at its error


class _RunningCalls:
    """The calls for one question that still run, and the answers so far."""

    def __init__(self, control: str, timeout: float) -> None:
        self._control, self._began = control, time.monotonic()
        self._until = self._began + timeout
        self.futures: dict[Any, str] = {}
        self.answers = Answers()

    @property
    def time_left(self) -> float | None:
        """Seconds until the time budget is over; None, without a limit, if it is over and nobody has answered."""
        left = self._until - time.monotonic()
        return left if left > 0 else 0.0 if self.answers.is_some else None

    @property
    def is_decided(self) -> bool:
        """Whether no further answer is needed."""
        answers = self.answers
        if not self.futures:
            return True
        if time.monotonic() >= self._until and answers.is_some:
            for name in self.futures.values():
                answers.problems[name] = FallbackCode.LATE
            return True
        control_is_out = self._control in answers.problems
        return bool(answers.documents and answers.problems) and (control_is_out or self._control in answers.documents)

    def take(self, done: Collection[Any]) -> None:
        """Note the calls that ended."""
        answers, milliseconds = self.answers, 1000 * (time.monotonic() - self._began)
        for future in done:
            name = self.futures.pop(future)
            try:
                documents = list(future.result())
            except asyncio.CancelledError:  # by the retriever itself
                answers.problems[name] = FallbackCode.FAILED
                answers.errors[name] = TimeoutError(f"the call of the retriever {name!r} was cancelled")
            except BaseException as error:
                answers.problems[name], answers.errors[name] = FallbackCode.FAILED, error
            else:
                answers.latency[name] = milliseconds
                if documents:
                    answers.documents[name] = documents
                else:
                    answers.problems[name] = FallbackCode.EMPTY


def _start_thread(call: Call) -> concurrent.futures.Future[Any]:
    """Run a call in a thread that, unlike those of a pool, does not keep the program from ending."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()  # now nobody can cancel it
    context = copy_context()

    def work() -> None:
        try:
            result = context.run(call)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=work, name="interleaf-retriever", daemon=True).start()
    return future


def _start_task(call: Call) -> Any:
    return asyncio.ensure_future(call()) if iscoroutinefunction(call) else _start_thread(call)


def _read_errors(done: Collection[asyncio.Future[Any]]) -> None:
    """Mark errors as seen; otherwise asyncio reports them when it drops the futures."""
    for future in done:
        if not future.cancelled():
            future.exception()


def _for_loop(future: Any) -> asyncio.Future[Any]:
    """A future that the event loop can wait for."""
    return future if isinstance(future, asyncio.Future) else asyncio.wrap_future(future)
