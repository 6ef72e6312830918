"""What is remembered of the store: for a second, asked for once, and never older than what is known since."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from interleaf.serve import remembered
from interleaf.serve.remembered import EARLY, SECONDS, Remembered


class Asked:
    """A store that counts who asks it, and answers when it may."""

    def __init__(self) -> None:
        self.times, self.value, self.may = 0, "old", threading.Event()
        self.may.set()

    def __call__(self, key: str) -> str:
        value = self.value
        self.times += 1  # with this value, whatever comes later
        self.may.wait(120)
        if key == "nobody":
            raise KeyError(key)
        return value


class Watch:
    now = 0.0

    def __call__(self) -> float:
        return self.now


Run = Callable[[Asked, Watch, Remembered[str, str]], Coroutine[Any, Any, None]]


def run(scene: Run) -> None:
    asked, watch = Asked(), Watch()
    asyncio.run(asyncio.wait_for(scene(asked, watch, Remembered(asked, watch)), 120))


async def begun(asked: Asked, times: int) -> None:
    """Until the store was asked so often."""
    while asked.times < times:
        await asyncio.sleep(0.001)


async def quiet(asked: Asked, found: Remembered[str, str], times: int) -> None:
    """Until the store was asked so often, and has answered."""
    await begun(asked, times)
    while found._asked:
        await asyncio.sleep(0.001)


def test_however_many_want_it_the_store_is_asked_once() -> None:
    async def scene(asked: Asked, watch: Watch, found: Remembered[str, str]) -> None:
        assert found.at_once("a") is None
        assert await asyncio.gather(*(found.get("a") for _ in range(50))) == ["old"] * 50
        assert asked.times == 1
        assert await found.get("a") == "old"
        assert asked.times == 1

    run(scene)


def test_after_half_the_time_it_is_asked_again_and_nobody_waits() -> None:
    async def scene(asked: Asked, watch: Watch, found: Remembered[str, str]) -> None:
        await found.get("a")
        asked.value = "new"
        asked.may.clear()
        watch.now = EARLY
        for _ in range(10):
            kept = found.at_once("a")
            assert kept is not None
            assert kept.value == await found.get("a") == "old"
        asked.may.set()
        await quiet(asked, found, 2)
        assert await found.get("a") == "new"
        assert asked.times == 2
        watch.now = EARLY + SECONDS
        assert found.at_once("a") is None  # too old
        assert await found.get("a") == "new"

    run(scene)


def test_what_the_store_raises_is_raised_and_forgotten() -> None:
    async def scene(asked: Asked, watch: Watch, found: Remembered[str, str]) -> None:
        for times in (1, 2):
            with pytest.raises(KeyError):
                await found.get("nobody")
            assert asked.times == times
        assert found.at_once("nobody") is None

    run(scene)


def test_who_gives_up_waiting_does_not_take_the_answer_from_others() -> None:
    async def scene(asked: Asked, watch: Watch, found: Remembered[str, str]) -> None:
        asked.may.clear()
        hasty, patient = asyncio.create_task(found.get("a")), asyncio.create_task(found.get("a"))
        await begun(asked, 1)
        hasty.cancel()
        asked.may.set()
        assert await patient == "old"

    run(scene)


def test_an_answer_that_is_older_than_a_change_is_not_kept() -> None:
    async def scene(asked: Asked, watch: Watch, found: Remembered[str, str]) -> None:
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
    async def scene(asked: Asked, watch: Watch, found: Remembered[str, str]) -> None:
        await found.get("b")
        asked.may.clear()
        waiting = asyncio.create_task(found.get("a"))
        await begun(asked, 2)
        watch.now = 0.1
        found.forget()
        asked.value = "new"
        watch.now = 0.2
        later = asyncio.create_task(found.get("a"))
        await begun(asked, 3)
        assert [found.at_once(key) for key in ("a", "b")] == [None, None]
        asked.may.set()
        assert (await waiting, await later) == ("old", "new")
        assert await found.get("a") == "new"
        assert not found._asked

    run(scene)


def test_strangers_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST", 10)

    async def scene(asked: Asked, watch: Watch, found: Remembered[str, str]) -> None:
        for number in range(35):
            await found.get(str(number))
        assert len(found._kept) <= 10
        assert not found._asked

    run(scene)
