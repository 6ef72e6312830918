"""Sends the rankers' requests at the same time, and waits for them within the time budget."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from interleaf.proxy.codes import BypassError, FailureCode, UpstreamCode, UpstreamError
from interleaf.proxy.search_requests import EngineRequest, ParsedSearch, RankerAnswer, decompress
from interleaf.proxy.upstream import Upstream

IN_VAIN = (UpstreamCode.SILENT, UpstreamCode.BUSY)  # after these, the engine is not asked again
APART_SECONDS = 60.0  # after a combined request failed or was slow, requests are sent one by one for this time
Requests = Mapping[str, EngineRequest]
Answering = asyncio.Future[RankerAnswer]


@dataclass
class FanOutResult:
    """The answers of the rankers that answered in time, and what went wrong with the others."""

    answers: dict[str, RankerAnswer] = field(default_factory=dict)
    failures: dict[str, FailureCode] = field(default_factory=dict)


class FanOut:
    """Asks the engine for all rankers of a search.

    One combined request costs the engine less, but the control's answer then waits for the slowest ranker. So after a
    combined request that was slow or failed, requests are sent one by one for a while.
    """

    def __init__(self, upstream: Upstream, max_answer: int, budget: float) -> None:
        self._upstream, self._max_answer, self._budget = upstream, max_answer, budget
        self._apart_until = 0.0

    async def ask(self, search: ParsedSearch, requests: Requests, control: str) -> FanOutResult:
        """The rankers' answers; raises BypassError if the control's failed, UpstreamError if the engine is silent."""
        began = time.monotonic()
        combined = search.combine(list(requests.values())) if began >= self._apart_until else None
        if combined is not None:
            result = await self._ask_together(search, combined, requests, control)
            if result is not None:
                return result
            self._apart_until = time.monotonic() + APART_SECONDS
        return await self._ask_apart(search, requests, control, began + self._budget)

    async def _ask_together(
        self, search: ParsedSearch, combined: EngineRequest, requests: Requests, control: str
    ) -> FanOutResult | None:
        """None if there is no answer within the budget, or none that is understood."""
        result = FanOutResult()
        try:
            async with asyncio.timeout(self._budget):
                body, headers = await self.send(combined)
            parts = search.split(body)
        except (TimeoutError, BypassError, UpstreamError):
            return None
        if len(parts) != len(requests):
            return None
        for name, (status, part) in zip(requests, parts, strict=True):
            try:
                if status != 200:
                    raise BypassError(FailureCode.CONTROL_FAILED if name == control else FailureCode.RANKER_FAILED)
                answer = result.answers[name] = search.read_answer(part)
                answer.headers, answer.seconds = headers, answer.took / 1000
            except BypassError as problem:
                if name == control:  # such as a query that the engine refuses
                    raise BypassError(FailureCode.CONTROL_FAILED) from None
                result.failures[name] = _failure(problem)
        return result

    async def _ask_apart(self, search: ParsedSearch, requests: Requests, control: str, deadline: float) -> FanOutResult:
        """The control has all the time that it needs; the others have until the deadline, or until the control answers.

        If the deadline is over already, only the control is asked.
        """
        result = FanOutResult()
        asked = list(requests) if time.monotonic() < deadline else [control]
        tasks = {name: asyncio.ensure_future(self._ask_one(search, requests[name])) for name in asked}
        try:
            await asyncio.wait([tasks[control]])
            self._read(result, control, tasks[control], is_control=True)
            others = [task for name, task in tasks.items() if name != control]
            left = deadline - time.monotonic()
            if others and not all(task.done() for task in others) and left > 0:
                await asyncio.wait(others, timeout=left)
            for name in requests:
                if name != control:
                    self._read(result, name, tasks.get(name))
        finally:
            for task in tasks.values():
                if not task.cancel() and not task.cancelled():
                    task.exception()  # else asyncio reports that nobody asked for it
        if control in result.failures:
            raise BypassError(FailureCode.CONTROL_FAILED)
        return result

    def _read(
        self, result: FanOutResult, name: str, task: asyncio.Future[RankerAnswer] | None, is_control: bool = False
    ) -> None:
        if task is None or not task.done():
            result.failures[name] = FailureCode.RANKER_SLOW
            return
        try:
            result.answers[name] = task.result()
        except BypassError as problem:
            result.failures[name] = _failure(problem)
        except UpstreamError as problem:
            if problem.code in IN_VAIN and is_control:
                raise
            result.failures[name] = FailureCode.RANKER_FAILED

    async def _ask_one(self, search: ParsedSearch, request: EngineRequest) -> RankerAnswer:
        began = time.monotonic()
        body, headers = await self.send(request)
        answer = search.read_answer(body)
        answer.headers, answer.seconds = headers, time.monotonic() - began
        return answer

    async def send(
        self, request: EngineRequest, statuses: tuple[int, ...] = (200,)
    ) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        """The body of an answer with one of these statuses, and its headers."""
        answer = await self._upstream.send(request.method, request.target, request.headers, request.body, again=True)
        try:
            if answer.status not in statuses:
                raise BypassError(FailureCode.RANKER_FAILED)
            body = await answer.read(self._max_answer)
        finally:
            answer.close()
        coding = b",".join(value for name, value in answer.headers if name.lower() == b"content-encoding")
        plain = None if body is None else decompress(body, coding.decode("latin-1"), self._max_answer)
        if plain is None:
            raise BypassError(FailureCode.ANSWER_TOO_LARGE if body is None else FailureCode.ANSWER_NOT_UNDERSTOOD)
        return plain, answer.headers


def _failure(problem: BypassError) -> FailureCode:
    return problem.code if isinstance(problem.code, FailureCode) else FailureCode.INTERNAL
