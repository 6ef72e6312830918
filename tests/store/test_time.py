"""The time that a store folds and deletes by: a clock that jumps ahead deletes nothing, and closes nothing early."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from interleaf.cli import main
from interleaf.server.service import Service, monotonic
from interleaf.store import open_store
from interleaf.store.sql import SqlStore
from interleaf.store.time_check import StoreTime
from tests.support.services import Live, live
from tests.support.stores import HOUR, SECOND, START, address, click, impression, running, store  # noqa: F401

DAY = 24 * HOUR


def shared(service: Live) -> Service:
    found: Service = service.client.app.state.service  # type: ignore[attr-defined]
    return found


def rows_after(service: Live, served: float = 0.0, jump: float = 0.0) -> int:
    """How many rows are left when the service has run for so many days, and the clock has jumped besides."""
    service.clock.now += round(served * DAY)
    service.clock.jump(round(jump * DAY))
    time = shared(service).read_time()
    while service.store.fold(time):
        pass
    if (days := shared(service).settings.retention_days) is not None:  # as the service does after it has folded
        service.store.expire(time.trusted - round(days * DAY))
    return len(service.store.examples("shoes", most=99))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    """A service with a row that is an hour old and folded."""
    with live(tmp_path, retention_days=30) as found:
        found.make()
        found.show()
        assert rows_after(found, 1 / 24) == 1
        assert found.store.counts("shoes").folded == 1
        yield found


JUMPS = {
    "one": [400.0],
    "two, a second apart": [400.0, 8.0],
    "two, and back between them": [400.0, -200.0, 200.0],
    "forty of 23 hours": [23 / 24] * 40,
    "a thousand of 59 minutes": [59 / 60 / 24] * 1000,
}


@pytest.mark.parametrize("jumps", JUMPS.values(), ids=JUMPS)
def test_a_clock_that_jumps_ahead_deletes_nothing(service: Live, jumps: list[float]) -> None:
    assert {rows_after(service, 1 / 86_400, jump) for jump in jumps} == {1}
    assert {rows_after(service, 1) for _ in range(6)} == {1}
    assert rows_after(service, jump=-sum(jumps)) == 1  # the clock is set right
    assert {rows_after(service, 1) for _ in range(23)} == {1}
    assert rows_after(service, 1) == 0  # and the row goes in its time


def test_a_jump_is_logged_once_with_its_remedy(service: Live, caplog: pytest.LogCaptureFixture) -> None:
    rows_after(service, jump=400)
    service.show()
    assert rows_after(service, 0.1) == 2
    (reason,) = (vars(record)["reason"] for record in caplog.records if record.message == "the clock is in doubt")
    assert "the clock jumped from 2027-01-15 09:00 UTC to 2028-02-19 09:00 UTC, or the service was off" in reason
    assert "until the service has run for 7 days (2028-02-26 09:00 UTC at the earliest)" in reason
    assert "run interleaf store trust-clock" in reason


def test_a_clock_that_nobody_sets_right_is_believed_after_a_week_of_service(service: Live) -> None:
    assert rows_after(service, jump=400) == 1
    assert rows_after(service, 6.9) == 1
    assert rows_after(service, jump=8) == 1  # another week begins
    assert rows_after(service, 6.9) == 1
    assert rows_after(service, 0.2) == 0


def test_rows_go_in_time_while_the_clock_is_in_doubt(service: Live) -> None:
    assert {rows_after(service, 1) for _ in range(26)} == {1}
    assert rows_after(service, 0.9, jump=2) == 1  # the row is 27 days old, and the clock says 29
    assert rows_after(service, 2.9) == 1
    assert rows_after(service, 0.3) == 0


def test_a_jump_closes_no_impression_early_and_keeps_none_open_for_long(tmp_path: Path) -> None:
    with live(tmp_path) as service:  # without retention
        service.make()  # a window of 30 minutes
        rows_after(service)
        service.show(unit="before")
        for jump in (0.02, 0.02, 400.0):  # of half an hour, the first two
            rows_after(service, 1 / 86_400, jump)
            assert service.store.counts("shoes").open == 1
        service.show(unit="after")
        rows_after(service, 29 / 60 / 24)
        assert service.store.counts("shoes").open == 2
        rows_after(service, 2 / 60 / 24)
        assert service.store.counts("shoes").open == 0  # both had their window


def test_without_traffic_rows_go_in_time(tmp_path: Path) -> None:
    with live(tmp_path, retention_days=3) as service:
        service.make()
        service.show()
        assert [rows_after(service, 0.9) for _ in range(5)] == [1, 1, 1, 0, 0]


class Process:
    """Times as the processes of a service read them, which may be off in between."""

    def __init__(self, address: str) -> None:  # noqa: F811
        self.address, self.store, self.now, self.monotonic = address, open_store(address), START, 0

    def read(self, served: float = 0.0, jump: float = 0.0) -> StoreTime:
        self.now += round((served + jump) * DAY)
        self.monotonic += round(served * DAY)
        return self.store.read_time(self.now, self.monotonic)

    def restart(self, off: float, served: float = 0.0) -> StoreTime:
        """Be off for so many days, and run for so many."""
        self.store.close()
        self.store, self.monotonic = open_store(self.address), random.randrange(DAY)  # another boot
        self.read(jump=off)
        return self.read(served)


@pytest.fixture
def process(address: str) -> Iterator[Process]:  # noqa: F811
    found = Process(address)
    found.read()
    yield found
    found.store.close()


def test_a_short_restart_is_no_jump(process: Process) -> None:
    for _ in range(100):
        assert process.restart(off=1 / 24 / 60, served=1 / 24).problem is None
    assert process.read(1 / 24).trusted == process.now


def test_a_service_that_was_off_for_long_is_in_doubt_for_a_week(process: Process) -> None:
    time = process.restart(off=100, served=1)
    assert (time.problem is not None, time.trusted) == (True, START + DAY)
    assert process.read(6).trusted == process.now
    assert process.read(1).problem is None


def test_a_service_that_is_off_every_night_catches_up(process: Process) -> None:
    behind = []
    for _ in range(60):
        time = process.restart(off=16 / 24, served=8 / 24)
        behind.append((process.now - time.trusted) / DAY)
    assert max(behind) < 21 * 16 / 24 + 1
    assert min(behind[30:]) == 0  # the week is over from time to time


def test_no_restart_makes_a_jump_believed(process: Process) -> None:
    for _ in range(40):
        assert process.restart(off=23 / 24, served=1 / 86_400).trusted < START + HOUR


def test_all_workers_have_one_time(process: Process) -> None:
    workers = [process.store, *(open_store(process.address) for _ in range(3))]
    for step in range(7 * 24):
        process.now += HOUR + (400 * DAY if step == 0 else 0)
        process.monotonic += HOUR
        times = [worker.read_time(process.now, process.monotonic) for worker in workers]
        assert all(time.problem is not None for time in times), step
        assert max(time.trusted for time in times) <= START + (step + 1) * HOUR
    process.now += HOUR
    process.monotonic += HOUR
    assert {worker.read_time(process.now, process.monotonic).problem for worker in workers} == {None}
    for worker in workers[1:]:
        worker.close()


def test_the_first_look_at_an_old_store_goes_by_its_newest_row(store: SqlStore, address: str) -> None:  # noqa: F811
    other = open_store(address)
    settings = running(other)
    assert other.read_time(START + 400 * DAY, 0).problem is None  # there is nothing to lose
    with other._database.writing() as transaction:
        transaction.change("DELETE FROM clock")
    other.write([impression(settings, 1)], [])
    other.close()
    assert store.read_time(START + 400 * DAY, 0).problem is not None
    assert store.read_time(START + HOUR, 0).problem is None


def test_the_operator_can_confirm_the_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "store.db"
    with open_store(path)._database.writing() as transaction:
        transaction.change("INSERT INTO clock (one, time) VALUES (1, ?)", START - 10**15)
    other = open_store(path)
    assert other.read_time(START, 0).problem is not None
    for answer in ("from now on rows are deleted by the clock again", "the clock was already trusted"):
        assert main(["store", "trust-clock", "--store", str(path)]) == 0
        assert capsys.readouterr().out == f"{answer}\n"
    with sqlite3.connect(path) as connection:
        ((now,),) = connection.execute("SELECT time FROM clock")
    assert other.read_time(now + SECOND, SECOND) == StoreTime(now + SECOND, now + SECOND, SECOND, None)
    other.close()


def test_the_monotonic_clock_goes_on() -> None:
    before = monotonic()
    assert 0 <= monotonic() - before < HOUR


def test_late_events_find_impressions_that_a_jump_left_open(tmp_path: Path) -> None:
    with live(tmp_path) as service:
        service.make()
        rows_after(service)
        shown = service.show().json()
        rows_after(service, 1 / 86_400, jump=1.0)
        rows_after(service, 1 / 86_400, jump=-1.0)  # the clock is set right
        assert service.tell({"impression": shown["impression"], "rank": 1}).json()["accepted"] == 1
