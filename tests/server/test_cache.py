"""Cached values: each is loaded once, expires, and never replaces a newer one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from interleaf.errors import StoreError
from interleaf.server.cache import OUTAGE_SECONDS, TTLCache

TTL, REFRESH_AFTER = 1.0, 0.5


class Asked:
    """A store that counts who asks it, and answers when it may."""

    def __init__(self) -> None:
        self.times, self.value, self.may = 0, "old", threading.Event()
        self.may.set()
        self.problem: Exception | None = None

    def __call__(self, key: str) -> str:
        value = self.value
        self.times += 1  # with this value, whatever comes later
        self.may.wait(120)
        if self.problem is not None:
            raise self.problem
        if key == "nobody":
            raise KeyError(key)
        return value


class Watch:
    now = 0.0

    def __call__(self) -> float:
        return self.now


Run = Callable[[Asked, Watch, TTLCache[str, str]], Coroutine[Any, Any, None]]


def cached(asked: Asked, watch: Watch) -> TTLCache[str, str]:
    return TTLCache(asked, TTL, 10, refresh_after=REFRESH_AFTER, clock=watch)


def run(scene: Run) -> None:
    asked, watch = Asked(), Watch()
    asyncio.run(asyncio.wait_for(scene(asked, watch, cached(asked, watch)), 120))


async def begun(asked: Asked, times: int) -> None:
    """Until the store was asked so often."""
    while asked.times < times:
        await asyncio.sleep(0.001)


async def quiet(asked: Asked, found: TTLCache[str, str], times: int) -> None:
    """Until the store was asked so often, and has answered."""
    await begun(asked, times)
    while found._loading:
        await asyncio.sleep(0.001)


def test_however_many_want_it_the_store_is_asked_once() -> None:
    async def scene(asked: Asked, watch: Watch, found: TTLCache[str, str]) -> None:
        assert await asyncio.gather(*(found.get("a") for _ in range(50))) == ["old"] * 50
        assert asked.times == 1
        assert await found.get("a") == "old"
        assert asked.times == 1

    run(scene)


def test_after_half_the_time_it_is_asked_again_and_nobody_waits() -> None:
    async def scene(asked: Asked, watch: Watch, found: TTLCache[str, str]) -> None:
        await found.get("a")
        asked.value = "new"
        asked.may.clear()
        watch.now = REFRESH_AFTER
        for _ in range(10):
            assert await found.get("a") == "old"
        asked.may.set()
        await quiet(asked, found, 2)
        assert await found.get("a") == "new"
        assert asked.times == 2
        watch.now = REFRESH_AFTER + TTL
        assert await found.get("a") == "new"
        assert asked.times == 3  # the last one was too old

    run(scene)


def test_what_the_store_raises_is_raised_and_forgotten() -> None:
    async def scene(asked: Asked, watch: Watch, found: TTLCache[str, str]) -> None:
        for times in (1, 2):
            with pytest.raises(KeyError):
                await found.get("nobody")
            assert asked.times == times
        assert not found._entries

    run(scene)


def test_who_gives_up_waiting_does_not_take_the_answer_from_others() -> None:
    async def scene(asked: Asked, watch: Watch, found: TTLCache[str, str]) -> None:
        asked.may.clear()
        hasty, patient = asyncio.create_task(found.get("a")), asyncio.create_task(found.get("a"))
        await begun(asked, 1)
        hasty.cancel()
        asked.may.set()
        assert await patient == "old"

    run(scene)


def test_an_answer_that_is_older_than_a_change_is_not_kept() -> None:
    async def scene(asked: Asked, watch: Watch, found: TTLCache[str, str]) -> None:
        asked.may.clear()
        waiting = asyncio.create_task(found.get("a"))
        await begun(asked, 1)
        watch.now = 0.1
        found.put("a", "changed")
        asked.may.set()
        assert await waiting == "old"  # as it was when it was asked for
        assert await found.get("a") == "changed"

    run(scene)


def test_an_answer_that_is_older_than_forgetting_is_not_kept() -> None:
    async def scene(asked: Asked, watch: Watch, found: TTLCache[str, str]) -> None:
        await found.get("b")
        asked.may.clear()
        waiting = asyncio.create_task(found.get("a"))
        await begun(asked, 2)
        watch.now = 0.1
        found.clear()
        asked.value = "new"
        watch.now = 0.2
        later = asyncio.create_task(found.get("a"))
        await begun(asked, 3)
        assert not found._entries
        asked.may.set()
        assert (await waiting, await later) == ("old", "new")
        assert await found.get("a") == "new"
        assert not found._loading

    run(scene)


def test_strangers_do_not_fill_the_memory() -> None:
    async def scene(asked: Asked, watch: Watch, found: TTLCache[str, str]) -> None:
        for number in range(35):
            await found.get(str(number))
        assert list(found._entries) == [str(number) for number in range(25, 35)]
        assert not found._loading

    run(scene)


def test_threads_and_tasks_wait_for_one_value() -> None:
    async def scene(asked: Asked, watch: Watch, found: TTLCache[str, str]) -> None:
        asked.may.clear()
        with ThreadPoolExecutor(4) as threads:
            waiting = [asyncio.wrap_future(threads.submit(found.get_blocking, "a")) for _ in range(4)]
            waiting += [asyncio.create_task(found.get("a")) for _ in range(4)]
            await begun(asked, 1)
            asked.may.set()
            assert await asyncio.gather(*waiting) == ["old"] * 8
        assert asked.times == 1

    run(scene)


def test_a_thread_does_not_wait_for_a_job_that_waits_for_the_thread() -> None:
    async def scene(asked: Asked, watch: Watch, _: TTLCache[str, str]) -> None:
        with ThreadPoolExecutor(1) as only:
            found, may_start = TTLCache(asked, TTL, 10, executor=only, clock=watch), threading.Event()

            def wait_and_get() -> str:
                may_start.wait(120)
                return found.get_blocking("a")

            thread = asyncio.wrap_future(only.submit(wait_and_get))
            task = asyncio.create_task(found.get("a"))
            await asyncio.sleep(0)  # now the loading of the task is in the queue, behind the thread
            may_start.set()
            assert list(await asyncio.gather(thread, task)) == ["old", "old"]
        assert asked.times == 1

    run(scene)


def test_a_caller_may_take_older_values_than_others() -> None:
    asked, watch = Asked(), Watch()
    found = TTLCache(asked, lambda entry: entry.seconds + 1.0, 10, clock=watch)
    assert found.get_blocking("a") == "old"
    asked.value, watch.now = "new", 5.0
    assert found.get_blocking("a", lambda entry: 10.0) == "old"
    assert found.get_blocking("a") == "new"


def test_in_an_outage_an_expired_value_is_used_for_an_hour() -> None:
    async def scene(asked: Asked, watch: Watch, found: TTLCache[str, str]) -> None:
        assert await found.get_or_last("a") == "old"
        asked.problem = StoreError("the store is away")
        watch.now = OUTAGE_SECONDS - 1
        assert await found.get_or_last("a") == "old"
        watch.now = OUTAGE_SECONDS
        for key in ("a", "b"):
            with pytest.raises(StoreError, match="the store is away"):
                await found.get_or_last(key)

    run(scene)
