"""Grouped writes: what arrives while one transaction is on its way is written by the next one, all together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

from interleaf.errors import StoreError
from interleaf.store.contract import Event, Impression, Store

MOST = 128  # items of one transaction: those of larger ones wait longer, and nobody gains
MOST_WAITING = 20_000


class _Waiting(NamedTuple):
    """What one request brings, and the future that gets the result."""

    impression: Impression | None
    events: Sequence[Event]
    done: asyncio.Future[Any]


class Writing:
    """The way of one event loop into a store; `put` and `tell` return when what they were given is durable."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[_Waiting] = []
        self._busy = False
        self._thread = ThreadPoolExecutor(1, "interleaf-writer")

    def __len__(self) -> int:
        return len(self._waiting)

    async def put(self, impression: Impression) -> Mapping[str, Any] | None:
        """Write a list; the row that was stored before under its id, or None."""
        before: Mapping[str, Any] | None = await self._write(impression, ())
        return before

    async def tell(self, events: Sequence[Event]) -> list[str]:
        """Write events; of each, what became of it."""
        fates: list[str] = await self._write(None, events)
        return fates

    def _write(self, impression: Impression | None, events: Sequence[Event]) -> asyncio.Future[Any]:
        """Write it, together with what others write meanwhile; the future is done when it is durable."""
        if len(self._waiting) >= MOST_WAITING:
            raise StoreError("more is waiting to be written than can be kept; try again")
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._waiting.append(_Waiting(impression, events, done))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._next, loop)
        return done

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the thread what waits, if anything does."""
        size, many = 0, 0
        for waiting in self._waiting:
            size += len(waiting.events) + 1
            many += 1
            if size >= MOST:
                break
        batch, self._waiting = self._waiting[:many], self._waiting[many:]
        if not batch:
            self._busy = False
            return
        written = loop.run_in_executor(self._thread, self._written, batch)
        written.add_done_callback(lambda done: self._tell(loop, batch, done))

    def _tell(self, loop: asyncio.AbstractEventLoop, batch: list[_Waiting], done: asyncio.Future[Any]) -> None:
        self._next(loop)
        for waiting, result in zip(batch, done.result(), strict=True):
            if waiting.done.cancelled():  # nobody waits any more
                continue
            if isinstance(result, Exception):
                waiting.done.set_exception(result)
            else:
                waiting.done.set_result(result)

    def _written(self, batch: list[_Waiting]) -> list[Any]:
        """In the thread: all at once; if that fails for another reason than the store's, one by one."""
        try:
            rows, fates = self._store.write(
                [waiting.impression for waiting in batch if waiting.impression is not None],
                [event for waiting in batch for event in waiting.events],
            )
        except StoreError as error:  # for each its own: one that all share keeps all of them from being freed
            return [StoreError(str(error)) for _ in batch]
        except Exception as error:
            return [error] if len(batch) == 1 else [self._written([waiting])[0] for waiting in batch]
        row, fate = iter(rows), iter(fates)
        return [
            list(islice(fate, len(waiting.events))) if waiting.impression is None else next(row) for waiting in batch
        ]

    async def close(self) -> None:
        """Wait for what is on its way."""
        while self._busy or self._waiting:
            await asyncio.sleep(0.01)
        self._thread.shutdown()
