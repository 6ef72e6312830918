"""A queue of writes: requests that arrive during one transaction are written together in the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import accumulate, islice
from typing import Any, NamedTuple

from interleaf.errors import StoreError
from interleaf.store.impression_rows import encode_lists
from interleaf.store.records import Event, StoredImpression
from interleaf.store.sql import SqlStore

MAX_ITEMS = 128  # lists and events of one transaction; larger ones are not faster per item
MAX_WAITING = 20_000


class _Waiting(NamedTuple):
    """What one request writes, and the future that gets the result."""

    impression: StoredImpression | None
    events: Sequence[Event]
    done: asyncio.Future[Any]


class WriteQueue:
    """The writes of one event loop into a store; the futures of `put` and `put_events` are done when it is durable."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._waiting: list[_Waiting] = []
        self._busy = False
        self._thread = ThreadPoolExecutor(1, "interleaf-writer")

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, impression: StoredImpression) -> asyncio.Future[Mapping[str, Any] | None]:
        """Write a list; the result is the row that was already stored under its id, or None."""
        return self._write(impression, ())

    def put_events(self, events: Sequence[Event]) -> asyncio.Future[list[str]]:
        """Write events; the result is the code of the `EventFate` of each."""
        return self._write(None, events)

    def _write(self, impression: StoredImpression | None, events: Sequence[Event]) -> asyncio.Future[Any]:
        if len(self._waiting) >= MAX_WAITING:
            raise StoreError("the write queue is full; try again")
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._waiting.append(_Waiting(impression, events, done))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._write_next, loop)
        return done

    def _write_next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the next batch to the thread, if there is one."""
        sizes = accumulate(len(waiting.events) + 1 for waiting in self._waiting)
        many = next((number for number, size in enumerate(sizes, 1) if size >= MAX_ITEMS), len(self._waiting))
        batch, self._waiting = self._waiting[:many], self._waiting[many:]
        if not batch:
            self._busy = False
            return
        with suppress(Exception):  # a list that cannot be drawn fails again in the thread, alone
            encode_lists([waiting.impression for waiting in batch if waiting.impression is not None])
        writing = loop.run_in_executor(self._thread, self._write_batch, batch)
        writing.add_done_callback(lambda done: self._set_results(loop, batch, done))

    def _set_results(self, loop: asyncio.AbstractEventLoop, batch: list[_Waiting], done: asyncio.Future[Any]) -> None:
        self._write_next(loop)
        for waiting, result in zip(batch, done.result(), strict=True):
            if waiting.done.cancelled():  # the request was aborted
                continue
            if isinstance(result, Exception):
                waiting.done.set_exception(result)
            else:
                waiting.done.set_result(result)

    def _write_batch(self, batch: list[_Waiting]) -> list[Any]:
        """Runs in the thread: write a batch at once; one by one if that fails, unless the store does not answer."""
        try:
            rows, fates = self._store.write(
                [waiting.impression for waiting in batch if waiting.impression is not None],
                [event for waiting in batch for event in waiting.events],
            )
        except StoreError as error:  # an error object for each: a shared one would keep all requests in memory
            return [StoreError(str(error)) for _ in batch]
        except Exception as error:
            return [error] if len(batch) == 1 else [self._write_batch([waiting])[0] for waiting in batch]
        row, fate = iter(rows), iter(fates)
        return [list(islice(fate, len(one.events))) if one.impression is None else next(row) for one in batch]

    async def close(self) -> None:
        """Wait until everything is written."""
        while self._busy or self._waiting:
            await asyncio.sleep(0.01)
        self._thread.shutdown()
