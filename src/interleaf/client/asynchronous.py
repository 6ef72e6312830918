"""The client for event loops: the one for threads, run in threads.

A request takes a millisecond or a fraction of a second at worst, so a few threads carry thousands of them a second, and
every promise about outages is kept by the same code. The time that a request waits for a thread counts towards its
time-out. A task that is cancelled leaves its request to end by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from interleaf.client.responses import Answer, Status, Taken
from interleaf.client.synchronous import BEGAN, Client, Rankings

_P = ParamSpec("_P")
_R = TypeVar("_R")


class AsyncClient:
    """`Client` with coroutines: the same arguments, and `threads`, the number of requests on their way at once."""

    def __init__(self, url: str, key: str | None = None, *, threads: int = 32, **options: Any) -> None:
        self._client = Client(url, key, **options)
        self._threads = ThreadPoolExecutor(threads, "interleaf-client")

    async def interleave(self, experiment: str, rankings: Rankings, **request: Any) -> Answer:
        """The list to show; as `Client.interleave`."""
        return await self._run(self._client.interleave, experiment, rankings, **request)

    async def click(self, impression: str | None, rank: int, dwell: float | None = None) -> Taken:
        """A click at a rank of a shown list."""
        return await self._run(self._client.click, impression, rank, dwell)

    async def events(self, events: Iterable[Mapping[str, Any]]) -> Taken:
        """Tell what people did; as `Client.events`."""
        return await self._run(self._client.events, events)

    async def call(self, method: str, path: str, body: Any = None, *, timeout: float = 60.0) -> dict[str, Any]:
        """Any other call of the service; as `Client.call`."""
        return await self._run(self._client.call, method, path, body, timeout=timeout)

    async def status(self) -> Status:
        """Whether the service is away, and what waits for it."""
        return await self._run(self._client.status)

    async def close(self) -> None:
        """Deliver what can be delivered now, and end."""
        await self._run(self._client.close)
        self._threads.shutdown()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, function: Callable[_P, _R], *arguments: _P.args, **options: _P.kwargs) -> _R:
        began = time.monotonic()

        def run() -> _R:
            BEGAN.set(began)
            return function(*arguments, **options)

        return await asyncio.get_running_loop().run_in_executor(self._threads, run)
