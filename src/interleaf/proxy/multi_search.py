"""Requests to `_msearch`: those of their searches that take part are interleaved, and the engine answers the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Raw

from interleaf.proxy.codes import BypassCode, BypassError, FailureCode
from interleaf.proxy.fan_out import FanOut
from interleaf.proxy.search import Accepted, Built
from interleaf.proxy.search_requests import EngineRequest, Incoming, RawHeaders, write_pairs

MAX_SEARCHES = 100  # of one request; a larger one passes through
END = "/_msearch"
_decode_raw = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode


class EngineAnswers(NamedTuple):
    """What the engine answered to searches of the request: by their places, with the time and the headers."""

    responses: dict[int, Raw]
    took: int
    headers: RawHeaders | None


class MultiSearch:
    """The searches of one request; `bypassed` counts those that are selected, but cannot be interleaved."""

    def __init__(self, incoming: Incoming, fan_out: FanOut, bypassed: Callable[[BypassError], None]) -> None:
        self._incoming, self._fan_out, self._bypassed = incoming, fan_out, bypassed
        lines = incoming.plain.rstrip(b"\n").split(b"\n")
        if len(lines) % 2 or len(lines) > 2 * MAX_SEARCHES:
            raise BypassError(BypassCode.NOT_UNDERSTOOD)
        self._pairs = list(zip(lines[::2], lines[1::2], strict=True))

    def searches(self, is_selected: Callable[[str, str], bool]) -> dict[int, Incoming]:
        """The searches that the configuration selects, by their places, each as a request of its own."""
        searches = dict[int, Incoming]()
        for place, (line, body) in enumerate(self._pairs):
            one = self._as_request(line, body)
            if one is not None and is_selected("POST", one.path):
                searches[place] = one
        return searches

    def _as_request(self, line: bytes, body: bytes) -> Incoming | None:
        try:
            header = msgspec.json.decode(line) if line.strip() else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if not isinstance(header, dict):
            return None
        index = header.pop("index", None)
        names = index if isinstance(index, list) else [index] if index is not None else []
        text = ",".join(map(str, names)) or self._incoming.path.removesuffix(END).strip("/")
        values = {name: ",".join(map(str, one)) if isinstance(one, list) else one for name, one in header.items()}
        if any(not isinstance(value, str | int | float | bool) for value in values.values()):
            return None
        pairs = [
            (name, str(value).lower() if isinstance(value, bool) else str(value)) for name, value in values.items()
        ]
        path = f"/{quote(text, safe=',*+-_.:@<>')}/_search" if text else "/_search"
        shared = [pair for pair in self._incoming.parameters if pair[0] != "max_concurrent_searches"]
        query = write_pairs(pairs + shared)
        headers = [
            (name, value.replace(b"x-ndjson", b"json") if name == b"content-type" else value)
            for name, value in self._incoming.headers
        ]
        one = Incoming(b"POST", path, query, headers, unit=self._incoming.unit)
        one.plain = body
        return one

    async def answer(
        self,
        is_selected: Callable[[str, str], bool],
        accept: Callable[[Incoming], Awaitable[Accepted]],
        build: Callable[[Accepted], Awaitable[Built]],
    ) -> Built | None:
        """The answer to the whole request; None if no search is selected, BypassError if none can be interleaved."""
        accepted, problems = await self._accept(self.searches(is_selected), accept)
        others = [place for place in range(len(self._pairs)) if place not in accepted]
        calls = [self._ask_engine(others), *map(build, accepted.values())] if accepted else []
        outcomes: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
        built = dict[int, Built]()
        for place, outcome in zip(accepted, outcomes[1:], strict=True):
            if isinstance(outcome, Built):
                built[place] = outcome
            elif isinstance(outcome, BypassError):
                problems.append(outcome)
            else:
                raise outcome
        for problem in problems[not built :]:
            self._bypassed(problem)
        if not built:
            if problems:
                raise problems[0]
            return None
        if isinstance(outcomes[0], BaseException):
            raise outcomes[0]
        late = await self._ask_engine([place for place in accepted if place not in built])
        return self._join(built, outcomes[0], late)

    async def _accept(
        self, selected: dict[int, Incoming], accept: Callable[[Incoming], Awaitable[Accepted]]
    ) -> tuple[dict[int, Accepted], list[BypassError]]:
        """The selected searches that take part, and why the others do not."""
        accepted, problems = dict[int, Accepted](), list[BypassError]()
        for place, one in selected.items():
            try:
                accepted[place] = await accept(one)
            except BypassError as problem:
                if problem.code == BypassCode.OUTSIDE:
                    raise  # so are all searches of this user, who gets a cookie
                problems.append(problem)
        return accepted, problems

    async def _ask_engine(self, places: list[int]) -> EngineAnswers:
        """The engine's answers to these searches, in one request."""
        if not places:
            return EngineAnswers({}, 0, None)
        body = b"".join(line + b"\n" + text + b"\n" for line, text in map(self._pairs.__getitem__, places))
        answer, headers = await self._fan_out.send(
            EngineRequest(b"POST", self._incoming.target, _without_length(self._incoming), body)
        )
        try:
            data = _decode_raw(answer)
            responses, took = _decode_list(data["responses"]), msgspec.json.decode(data.get("took", b"0"), type=int)
            return EngineAnswers(dict(zip(places, responses, strict=True)), took, headers)
        except (ValueError, KeyError, RecursionError):  # also bytes that are not UTF-8
            raise BypassError(FailureCode.ANSWER_NOT_UNDERSTOOD) from None

    def _join(self, built: dict[int, Built], *others: EngineAnswers) -> Built:
        """The answers of the interleaved searches, and those of the engine to the others, in their order."""
        first = next(iter(built.values()))
        responses: dict[int, Any] = {place: _with_status(one.body) for place, one in built.items()}
        tooks = [msgspec.json.decode(responses[place]["took"], type=int) for place in built]
        for some in others:
            responses |= some.responses
            tooks.append(some.took)
        text = _encode({"took": max(tooks), "responses": [responses[place] for place in sorted(responses)]})
        headers = next((some.headers for some in others if some.headers is not None), first.headers)

        def record() -> None:
            for one in built.values():
                one.record()

        return first._replace(body=text, headers=headers, record=record)


def _with_status(body: bytes) -> dict[str, Any]:
    return {**_decode_raw(body), "status": 200}


def _without_length(incoming: Incoming) -> list[tuple[bytes, bytes]]:
    dropped = (b"content-length", b"content-encoding", b"accept-encoding")
    return [pair for pair in incoming.headers if pair[0] not in dropped]
