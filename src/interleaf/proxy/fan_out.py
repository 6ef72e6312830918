"""Sends the rankers' requests at the same time, and waits for them within the time budget."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from interleaf.client.visitors import clean_text
from interleaf.proxy.codes import BypassCode, BypassError, EngineStatusError, FailureCode, UpstreamCode, UpstreamError
from interleaf.proxy.search_requests import EngineRequest, ParsedSearch, RankerAnswer, decompress
from interleaf.proxy.upstream import Upstream

IN_VAIN = (UpstreamCode.SILENT, UpstreamCode.BUSY)  # after these, the engine is not asked again
APART_SECONDS = 60.0  # after a combined request failed or was slow, each ranker gets its own request for this time
OVERLOADED = 429  # the status with which engines refuse searches that are too many
MAX_REASON = 200  # characters of an engine's reason that are logged
Requests = Mapping[str, EngineRequest]
Answering = asyncio.Future[RankerAnswer]


@dataclass
class FanOutResult:
    """The answers of the rankers that answered in time, and what went wrong with the others."""

    answers: dict[str, RankerAnswer] = field(default_factory=dict)
    failures: dict[str, BypassError] = field(default_factory=dict)
    late: dict[str, float] = field(default_factory=dict)  # the seconds that were waited for rankers that are late


class FanOut:
    """Asks the engine for all rankers of a search.

    One combined request costs the engine less, but the control's answer then waits for the slowest ranker. So after a
    combined request that was slow or failed, each ranker gets its own request for a while.
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
        return await self._ask_apart(search, requests, control, began)

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
                    raise EngineStatusError(status, find_reason(part))
                answer = result.answers[name] = search.read_answer(part)
                answer.headers = headers
            except BypassError as problem:
                if name == control:
                    raise _of_control(problem) from None
                result.failures[name] = problem
        return result

    async def _ask_apart(self, search: ParsedSearch, requests: Requests, control: str, began: float) -> FanOutResult:
        """The control has all the time that it needs; the others have until the deadline, or until the control answers.

        If the deadline is over already, only the control is asked.
        """
        result, deadline = FanOutResult(), began + self._budget
        names = list(requests) if time.monotonic() < deadline else [control]
        tasks = {name: asyncio.ensure_future(self._ask_one(search, requests[name])) for name in names}
        try:
            try:
                result.answers[control] = await tasks[control]
            except (BypassError, UpstreamError) as problem:
                raise _of_control(problem) from None
            others = [task for name, task in tasks.items() if name != control]
            left = deadline - time.monotonic()
            if others and not all(task.done() for task in others) and left > 0:
                await asyncio.wait(others, timeout=left)
            for name in requests:
                if name != control:
                    self._read(result, name, tasks.get(name), began)
        finally:
            for task in tasks.values():
                if not task.cancel() and not task.cancelled():
                    task.exception()  # else asyncio reports that nobody asked for it
        return result

    def _read(self, result: FanOutResult, name: str, task: Answering | None, began: float) -> None:
        """Read the answer of a ranker other than the control."""
        if task is None or not task.done():
            result.failures[name] = BypassError(FailureCode.RANKER_SLOW)
            result.late[name] = time.monotonic() - began
            return
        try:
            result.answers[name] = task.result()
        except BypassError as problem:
            result.failures[name] = problem
        except UpstreamError as problem:
            result.failures[name] = BypassError(FailureCode.RANKER_FAILED, str(problem))

    async def _ask_one(self, search: ParsedSearch, request: EngineRequest) -> RankerAnswer:
        body, headers = await self.send(request)
        answer = search.read_answer(body)
        answer.headers = headers
        return answer

    async def send(
        self, request: EngineRequest, statuses: tuple[int, ...] = (200,)
    ) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        """The body of an answer with one of these statuses, and its headers."""
        answer = await self._upstream.send(request.method, request.target, request.headers, request.body, again=True)
        try:
            body = await answer.read(self._max_answer)
        finally:
            answer.close()
        coding = b",".join(value for name, value in answer.headers if name.lower() == b"content-encoding")
        plain = None if body is None else decompress(body, coding.decode("latin-1"), self._max_answer)
        if answer.status not in statuses:
            raise EngineStatusError(answer.status, find_reason(plain or b""))
        if plain is None:
            raise BypassError(FailureCode.ANSWER_TOO_LARGE if body is None else FailureCode.ANSWER_NOT_UNDERSTOOD)
        return plain, answer.headers


def _of_control(problem: BypassError | UpstreamError) -> BypassError | UpstreamError:
    """Why nothing can be interleaved. The control's search is the caller's, so the caller causes errors such as 400."""
    if isinstance(problem, UpstreamError):
        in_vain = problem.code in IN_VAIN
        return problem if in_vain else BypassError(FailureCode.CONTROL_FAILED, str(problem))
    if not isinstance(problem, EngineStatusError):
        return problem
    is_caller = 400 <= problem.status < 500 and problem.status != OVERLOADED
    return BypassError(BypassCode.REFUSED if is_caller else FailureCode.CONTROL_FAILED, problem.detail)


def find_reason(body: bytes) -> str:
    """Why the engine answered with an error, in its own words, shortened; empty if it does not say.

    >>> find_reason(b'{"error": {"type": "parsing_exception", "reason": "unknown query [bm]"}, "status": 400}')
    'parsing_exception: unknown query [bm]'
    >>> find_reason(b'{"error": {"msg": "undefined field sku", "code": 400}}')
    'undefined field sku'
    """
    try:
        error = msgspec.json.decode(body)["error"]
        if isinstance(error, str):
            return clean_text(error, MAX_REASON)
        causes = error.get("root_cause") or [error]  # the error itself may only say "all shards failed"
        words = [causes[0].get(name) for name in ("type", "reason", "msg")]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return ""
    return clean_text(": ".join(one for one in words if isinstance(one, str)), MAX_REASON)
