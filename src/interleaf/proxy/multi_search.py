"""Requests to `_msearch`: those of their searches that take part are interleaved, and the engine answers the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw

from interleaf.proxy.codes import BypassCode, BypassError, FailureCode
from interleaf.proxy.fan_out import FanOut
from interleaf.proxy.search import Built
from interleaf.proxy.search_requests import EngineRequest, Incoming, write_pairs

MAX_SEARCHES = 100  # of one request; a larger one passes through
END = "/_msearch"
_decode_raw = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode


class MultiSearch:
    """The searches of one request."""

    def __init__(self, incoming: Incoming) -> None:
        self._incoming = incoming
        lines = incoming.plain.rstrip(b"\n").split(b"\n")
        if len(lines) % 2 or len(lines) > 2 * MAX_SEARCHES:
            raise BypassError(BypassCode.NOT_UNDERSTOOD)
        self._pairs = list(zip(lines[::2], lines[1::2], strict=True))

    def searches(self, is_selected: Callable[[str, str], bool]) -> dict[int, Incoming]:
        """The searches that the configuration selects, by their places, each as a request of its own."""
        found = dict[int, Incoming]()
        for place, (line, body) in enumerate(self._pairs):
            one = self._as_request(line, body)
            if one is not None and is_selected("POST", one.path):
                found[place] = one
        return found

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
        fan_out: FanOut,
        is_selected: Callable[[str, str], bool],
        build: Callable[[Incoming], Awaitable[Built]],
        bypassed: Callable[[BypassError], None],
    ) -> Built:
        """The answer to the whole request; raises BypassError if none of its searches is interleaved."""
        selected = self.searches(is_selected)
        if not selected:
            raise BypassError(BypassCode.NO_SEARCH)
        outcomes = await asyncio.gather(*map(build, selected.values()), return_exceptions=True)
        built = dict[int, Built]()
        for outcome in outcomes:
            if isinstance(outcome, BypassError) and outcome.code == BypassCode.OUTSIDE:
                raise outcome  # so are all searches of this user, who gets a cookie
        for place, outcome in zip(selected, outcomes, strict=True):
            if isinstance(outcome, Built):
                built[place] = outcome
            elif isinstance(outcome, BypassError):
                bypassed(outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
        if not built:
            raise BypassError(BypassCode.NO_SEARCH)
        return await self._join(fan_out, built)

    async def _join(self, fan_out: FanOut, built: dict[int, Built]) -> Built:
        """The answers of the interleaved searches, and those of the engine to the others, in their order."""
        first = next(iter(built.values()))
        rest = [pair for place, pair in enumerate(self._pairs) if place not in built]
        headers, took, others = first.headers, 0, list[Raw]()
        if rest:
            body = b"".join(line + b"\n" + text + b"\n" for line, text in rest)
            answer, headers = await fan_out.send(
                EngineRequest(b"POST", self._incoming.target, _without_length(self._incoming), body)
            )
            try:
                data = _decode_raw(answer)
                others, took = _decode_list(data["responses"]), msgspec.json.decode(data.get("took", b"0"), type=int)
            except (ValueError, KeyError, RecursionError):  # also bytes that are not UTF-8
                raise BypassError(FailureCode.ANSWER_NOT_UNDERSTOOD) from None
        if len(others) != len(rest):
            raise BypassError(FailureCode.ANSWER_NOT_UNDERSTOOD)
        left, responses = iter(others), list[Any]()
        for place in range(len(self._pairs)):
            responses.append(_with_status(built[place].body) if place in built else next(left))
        tooks = [msgspec.json.decode(_decode_raw(one.body)["took"], type=int) for one in built.values()]
        text = _encode({"took": max(took, *tooks), "responses": responses})
        return Built(text, headers, first.impression, first.result, first.arm)


def _with_status(body: bytes) -> dict[str, Any]:
    return {**_decode_raw(body), "status": 200}


def _without_length(incoming: Incoming) -> list[tuple[bytes, bytes]]:
    dropped = (b"content-length", b"content-encoding", b"accept-encoding")
    return [pair for pair in incoming.headers if pair[0] not in dropped]
