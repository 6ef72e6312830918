"""A cache whose values expire, for data of the store, reports and charts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future
from typing import Generic, NamedTuple, TypeVar

from interleaf.errors import StoreError

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
MAX_WAIT = 1.0  # seconds that `get_or_last` waits for a value
OUTAGE_SECONDS = 3600.0  # seconds that `get_or_last` uses an expired value if no other can be loaded


class CacheEntry(NamedTuple, Generic[Value]):
    """A value, when its loading began, and how many seconds it took."""

    value: Value
    since: float
    seconds: float


class _Loading(Generic[Value]):
    """A value that is being loaded. The first thread that acquires `claim` loads it; others wait for the future."""

    def __init__(self) -> None:
        self.claim, self.future = threading.Lock(), Future[Value]()
        self.future.set_running_or_notify_cancel()  # a task that stops waiting must not cancel it for others


class TTLCache(Generic[Key, Value]):
    """Values by key. If several threads and tasks ask for a missing value at once, it is loaded once.

    `ttl`: seconds that a value is used, counted from the start of its loading; or a function of the entry. After
    `refresh_after` seconds, a task gets the cached value, and it is loaded again in the background. Errors of `load`
    are raised and not cached. Tasks load values in `executor` (None: the executor of the event loop). Above `max_size`
    values, the oldest one is removed.
    """

    def __init__(
        self,
        load: Callable[[Key], Value],
        ttl: float | Callable[[CacheEntry[Value]], float],
        max_size: int,
        *,
        refresh_after: float | None = None,
        executor: Executor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load_value, self._ttl, self._max_size, self._refresh_after = load, ttl, max_size, refresh_after
        self._executor, self._clock = executor, clock
        self._entries: dict[Key, CacheEntry[Value]] = {}
        self._loading: dict[Key, _Loading[Value]] = {}
        self._cleared = -1.0  # when `clear` was called
        self._lock = threading.Lock()  # for changes of entries and loading

    async def get(self, key: Key) -> Value:
        """The value; for tasks of an event loop."""
        entry = self._entries.get(key)
        age = 0.0 if entry is None else self._clock() - entry.since
        if entry is None or age >= (self._ttl(entry) if callable(self._ttl) else self._ttl):
            return await asyncio.wrap_future(self._start_loading(key).future)
        if self._refresh_after is not None and age >= self._refresh_after:
            self._start_loading(key)
        return entry.value

    async def get_or_last(self, key: Key) -> Value:
        """The value, or an expired one if the store does not answer in time; StoreError if there is neither."""
        try:
            return await asyncio.wait_for(self.get(key), MAX_WAIT)
        except (StoreError, TimeoutError) as error:
            entry = self._get_fresh(key, OUTAGE_SECONDS)
            if entry is not None:
                return entry.value
            raise StoreError(str(error) or f"the store is away: it did not answer within {MAX_WAIT:g} s") from None

    def get_blocking(self, key: Key, ttl: Callable[[CacheEntry[Value]], float] | None = None) -> Value:
        """The value; for threads that may block. `ttl` overrides the cache's own."""
        entry = self._get_fresh(key, self._ttl if ttl is None else ttl)
        if entry is not None:
            return entry.value
        loading, _ = self._reserve(key)
        self._load(key, loading)
        return loading.future.result()

    def put(self, key: Key, value: Value) -> None:
        """Cache a value that the caller has just read or changed."""
        self._keep(key, CacheEntry(value, self._clock(), 0.0))

    def clear(self) -> None:
        """Remove all values, and do not cache those that are being loaded now."""
        with self._lock:
            self._entries.clear()
            self._loading.clear()
            self._cleared = self._clock()

    def _get_fresh(self, key: Key, ttl: float | Callable[[CacheEntry[Value]], float]) -> CacheEntry[Value] | None:
        entry = self._entries.get(key)
        if entry is None or self._clock() - entry.since >= (ttl(entry) if callable(ttl) else ttl):
            return None
        return entry

    def _reserve(self, key: Key) -> tuple[_Loading[Value], bool]:
        """The loading of a value, and whether it was just created."""
        with self._lock:
            is_new = key not in self._loading
            if is_new:
                self._loading[key] = _Loading()
            return self._loading[key], is_new

    def _start_loading(self, key: Key) -> _Loading[Value]:
        loading, is_new = self._reserve(key)
        if is_new:
            asyncio.get_running_loop().run_in_executor(self._executor, self._load, key, loading)
        return loading

    def _load(self, key: Key, loading: _Loading[Value]) -> None:
        """Load a value, unless another thread is loading it: waiting for a job that is queued behind would deadlock."""
        if not loading.claim.acquire(blocking=False):
            return
        since = self._clock()
        try:
            value = self._load_value(key)
        except BaseException as error:
            self._finish(key, loading)
            loading.future.set_exception(error)
            return
        self._keep(key, CacheEntry(value, since, self._clock() - since))
        self._finish(key, loading)
        loading.future.set_result(value)

    def _finish(self, key: Key, loading: _Loading[Value]) -> None:
        with self._lock:
            if self._loading.get(key) is loading:
                del self._loading[key]

    def _keep(self, key: Key, entry: CacheEntry[Value]) -> None:
        """Cache an entry, unless there is a newer one."""
        with self._lock:
            present = self._entries.get(key)
            if entry.since <= self._cleared or (present is not None and present.since > entry.since):
                return
            self._entries.pop(key, None)
            self._entries[key] = entry
            if len(self._entries) > self._max_size:
                del self._entries[next(iter(self._entries))]
