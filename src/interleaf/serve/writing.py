"""Grouped writes: what arrives while one transaction is on its way is written by the next one, all together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from interleaf.errors import StoreError
from interleaf.store.contract import Event, Impression, Store

MOST = 500  # items of one transaction
MOST_WAITING = 20_000


@dataclass
class _Waiting:
    """Items of one request, and the future of what became of them."""

    impressions: Sequence[Impression]
    events: Sequence[Event]
    done: asyncio.Future[Any] = field(repr=False)


class Writing:
    """The way of one event loop into a store; `write` returns when what it was given is durable."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[_Waiting] = []
        self._busy = False
        self._thread = ThreadPoolExecutor(1, "interleaf-writer")

    async def write(
        self, impressions: Sequence[Impression] = (), events: Sequence[Event] = ()
    ) -> tuple[list[Mapping[str, Any] | None], list[str]]:
        """As the store's `write`, together with what others write meanwhile."""
        if len(self._waiting) >= MOST_WAITING:
            raise StoreError("more is waiting to be written than can be kept; try again")
        loop = asyncio.get_running_loop()
        waiting = _Waiting(impressions, events, loop.create_future())
        self._waiting.append(waiting)
        if not self._busy:
            self._busy = True
            loop.call_soon(self._next, loop)
        found: tuple[list[Mapping[str, Any] | None], list[str]] = await waiting.done
        return found

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the thread what waits, if anything does."""
        batch, size = list[_Waiting](), 0
        while self._waiting and size < MOST and len(batch) < len(self._waiting):
            batch.append(self._waiting[len(batch)])
            size += len(batch[-1].impressions) + len(batch[-1].events)
        del self._waiting[: len(batch)]
        if not batch:
            self._busy = False
            return
        written = loop.run_in_executor(self._thread, self._written, batch)
        written.add_done_callback(lambda done: self._tell(loop, batch, done))

    def _tell(self, loop: asyncio.AbstractEventLoop, batch: list[_Waiting], done: asyncio.Future[Any]) -> None:
        for waiting, result in zip(batch, done.result(), strict=True):
            if waiting.done.cancelled():
                continue
            if isinstance(result, Exception):
                waiting.done.set_exception(result)
            else:
                waiting.done.set_result(result)
        self._next(loop)

    def _written(self, batch: list[_Waiting]) -> list[Any]:
        """In the thread: all at once; if that fails for another reason than the store's, one by one."""
        try:
            rows, fates = self._store.write(
                [one for waiting in batch for one in waiting.impressions],
                [one for waiting in batch for one in waiting.events],
            )
        except StoreError as error:
            return [error] * len(batch)
        except Exception as error:
            return [error] if len(batch) == 1 else [self._written([waiting])[0] for waiting in batch]
        found, row, fate = list[Any](), 0, 0
        for waiting in batch:
            impressions, events = len(waiting.impressions), len(waiting.events)
            found.append((rows[row : row + impressions], fates[fate : fate + events]))
            row, fate = row + impressions, fate + events
        return found

    async def close(self) -> None:
        """Wait for what is on its way."""
        while self._busy or self._waiting:
            await asyncio.sleep(0.01)
        self._thread.shutdown()
