"""Outages of the service: the page that people see is the same, nobody waits, and nothing is lost or counted twice."""

from __future__ import annotations

import itertools
import random
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from interleaf.client import Answer, Client, EventCounts
from interleaf.experiment import Request, show
from tests.support.stand_in import KEY, StandIn, until

RANKINGS = {"production": ["a", "b", "c", "d"], "candidate": ["c", "e", "a", "f"]}
QUICK = {"backoff": (0.02, 0.05), "timeout": 0.3}


@pytest.fixture
def service() -> Iterator[StandIn]:
    service = StandIn()
    yield service
    service.end()


def knowing(service: StandIn, **options: object) -> Client:
    """A client that has seen the service."""
    client = Client(service.url, KEY, **(QUICK | options))  # type: ignore[arg-type]
    # Again, should a machine that stands still let it time out; until the thread behind it is done and rests.
    until(lambda: client.interleave("shoes", RANKINGS, unit="before", query="q", impression="before").stored)
    until(lambda: client._known.get("shoes") is not None and rests(client))
    return client


def rests(client: Client) -> bool:
    """Whether nothing is spooled, and its thread waits for something to do."""
    delivery = client._delivery
    return client._spool.is_empty() and delivery._idle() > 0 and bool(delivery._wake._cond._waiters)  # type: ignore[attr-defined]


def sent_here(client: Client) -> list[bool]:
    """Of each request that this thread sends from now on: whether it was answered."""
    here, ask, found = threading.current_thread(), client._connections.ask, list[bool]()

    def asked(*given: Any) -> Any:
        if threading.current_thread() is not here:
            return ask(*given)
        found.append(False)
        reply = ask(*given)
        found[-1] = True
        return reply

    client._connections.ask = asked  # type: ignore[assignment, method-assign]
    return found


def expected(service: StandIn, answer: Answer, unit: str, query: str) -> list[str]:
    return show(service.settings, 1, Request(answer.impression or "", unit, query, RANKINGS)).documents


@pytest.mark.parametrize("folder", [False, True])
def test_an_outage_changes_no_list_and_loses_nothing(service: StandIn, tmp_path: Path, folder: bool) -> None:
    with knowing(service, spool=tmp_path / "spool" if folder else None) as client:
        began = datetime.now(UTC)
        service.stop()
        answers = [client.interleave("shoes", RANKINGS, unit=f"user-{n}", query="q") for n in range(30)]
        for n, answer in enumerate(answers):
            assert answer.documents == expected(service, answer, f"user-{n}", "q")
            assert (answer.arm, answer.token, answer.version, answer.stored) == ("interleaved", None, 1, False)
            assert client.click(answer.impression, 1 + n % 3) == EventCounts(spooled=1)
        assert client.status().waiting == 60
        ended = datetime.now(UTC)
        time.sleep(0.1)
        service.start()
        until(lambda: client.status() == type(client.status())(False, 0, 0, 0))
    assert set(service.impressions) == {"before"} | {answer.impression for answer in answers}
    assert all(service.impressions[one.impression or ""]["documents"] == one.documents for one in answers)
    clicked = {event["impression"]: event["rank"] for event in service.events.values()}
    assert clicked == {answer.impression: 1 + n % 3 for n, answer in enumerate(answers)}
    assert service.unmatched == []
    late = [*list(service.impressions.values())[1:], *service.events.values()]
    assert all(began <= datetime.fromisoformat(one["time"]) <= ended for one in late)


TROUBLES: list[float | bytes | tuple[int, dict[str, str]]] = [
    10.0,
    (500, {}),
    (503, {"Retry-After": "1"}),
    (429, {}),
    (404, {}),
    (302, {}),
    b"<html>hotel</html>",
    b"[]",
]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_whatever_the_trouble_is_the_page_is_the_same_and_only_the_first_waits(
    service: StandIn, trouble: float | tuple[int, dict[str, str]] | bytes
) -> None:
    with knowing(service) as client:
        service.trouble = trouble
        answered = sent_here(client)
        answers = [client.interleave("shoes", RANKINGS, unit=f"user-{n}", query="q") for n in range(20)]
        assert answered.count(False) == 1  # one timeout, and not twenty
        assert not answered[-1]  # and nobody asked again after it
        for n, answer in enumerate(answers):
            assert answer.documents == expected(service, answer, f"user-{n}", "q")
        service.trouble = None
        until(lambda: client.status().waiting == 0)
        until(lambda: client.interleave("shoes", RANKINGS, unit="after", query="q").stored)
    assert {answer.impression for answer in answers} < set(service.impressions)


def test_a_service_that_says_when_to_come_again_is_left_alone_until_then(service: StandIn) -> None:
    with knowing(service, timeout=120) as client:
        service.trouble = (503, {"Retry-After": "1"})
        service.heard.clear()
        client.interleave("shoes", RANKINGS, unit="u", query="q")
        assert client.status().away
        until(lambda: len(service.heard) >= 2)  # of this thread, and of the one behind the client
        service.trouble = None
        until(lambda: client.status().waiting == 0)
    assert service.heard[2] - service.heard[1] >= 0.99


@pytest.mark.parametrize(("queue", "before"), [(0, 4), (128, 0)], ids=["swallows packets", "never answers"])
def test_a_host_that_is_silent_costs_one_timeout(queue: int, before: int) -> None:
    with socket.socket() as full:  # nobody accepts, and the queue is full, or not
        full.bind(("127.0.0.1", 0))
        full.listen(queue)
        waiting = [socket.socket() for _ in range(before)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        took = list[float]()
        while not took or (took[-1] >= 1.0 and len(took) < 20):  # again, should the machine have stood still
            with Client(f"http://127.0.0.1:{full.getsockname()[1]}", KEY, timeout=0.2) as client:
                answered = sent_here(client)
                began = time.monotonic()
                for _ in range(50):
                    client.interleave("shoes", RANKINGS, unit="u", query="q")
                took.append(time.monotonic() - began)
            assert answered == [False]
        assert 0.15 < took[-1] < 1.0
        for one in waiting:
            one.close()


def test_without_any_knowledge_the_first_ranking_is_served_and_nothing_is_logged(service: StandIn) -> None:
    service.stop()
    with Client(service.url, KEY, **QUICK) as client:  # type: ignore[arg-type]
        whole = client.interleave("shoes", {"production": None, "candidate": ["c", "e", "a"]}, fixed={2: "pin"})
        assert whole == Answer(None, ["c", "pin", "e", "a"], "fallback")
        second = client.interleave("shoes", RANKINGS, k=3, page=2)
        assert second.documents == ["d"]
        assert client.click(whole.impression, 1) == EventCounts()
        assert client.status().waiting == 0
    service.start()


def test_a_process_that_starts_in_an_outage_knows_what_the_one_before_knew(service: StandIn, tmp_path: Path) -> None:
    knowing(service, spool=tmp_path).close()
    service.stop()
    with Client(service.url, KEY, spool=tmp_path, **QUICK) as client:  # type: ignore[arg-type]
        answer = client.interleave("shoes", RANKINGS, unit="user-7", query="q")
        assert answer.documents == expected(service, answer, "user-7", "q")
    service.start()
    with Client(service.url, KEY, spool=tmp_path, **QUICK):  # type: ignore[arg-type]
        until(lambda: answer.impression in service.impressions)


def test_events_wait_for_impressions_that_are_still_spooled(service: StandIn, tmp_path: Path) -> None:
    """Also where another process of the folder spooled the impression."""
    with knowing(service, spool=tmp_path) as shows, knowing(service, spool=tmp_path) as hears:
        service.troubled = lambda method, path: path.endswith("/interleave")
        service.trouble = (503, {})
        answer = shows.interleave("shoes", RANKINGS, unit="u", query="q")
        assert hears.click(answer.impression, 1) == EventCounts(spooled=1)
        assert service.unmatched == []
        service.trouble = None
        until(lambda: len(service.events) == 1)
    assert service.unmatched == []


def test_a_further_page_of_a_first_page_that_is_still_spooled_goes_on(service: StandIn) -> None:
    with knowing(service, backoff=(0.3, 0.3)) as client:
        service.trouble = (503, {})
        first = client.interleave("shoes", RANKINGS, unit="u", query="q")
        until(lambda: len(client._spool.names()) == 1)
        service.trouble = None
        client._delivery.away = False
        second = client.interleave("shoes", RANKINGS, unit="u", query="q", page=2, impression=first.impression)
        assert set(first.documents) | set(second.documents) == {"a", "b", "c", "d", "e", "f"}
        until(lambda: client.status().waiting == 0)
        assert client.status().refused == 0


def test_a_list_of_an_older_version_is_delivered_as_such_and_a_new_state_is_noticed(service: StandIn) -> None:
    with knowing(service, refresh=0.1) as client:
        service.stop()
        answers = [client.interleave("shoes", RANKINGS, unit=f"user-{n}", query="q") for n in range(10)]
        service.version = 2
        service.start()
        until(lambda: client.status().waiting == 0)
        for answer in answers:
            stored = service.impressions[answer.impression or ""]
            assert (stored["version"], stored["documents"]) == (1, answer.documents)
        until(lambda: client.interleave("shoes", RANKINGS, unit="u", query="q").version == 2)
        service.state = "stopped"
        until(lambda: getattr(client._known.get("shoes"), "state", "") == "stopped")
        service.stop()
        answer = client.interleave("shoes", RANKINGS, unit="u", query="q")
        assert (answer.documents, answer.arm, answer.version) == (["a", "b", "c"], "outside", 2)
    service.start()


def test_a_record_that_is_refused_does_not_stop_the_others(service: StandIn, tmp_path: Path) -> None:
    with knowing(service, spool=tmp_path) as client:
        service.stop()
        (tmp_path / "0-unknown.json").write_bytes(b'{"experiment": "shose", "body": {}}')
        good = client.interleave("shoes", RANKINGS, unit="u", query="q")
        service.start()
        until(lambda: client.status().waiting == 0)
        assert client.status().refused == 1
    assert good.impression in service.impressions


def test_a_long_backlog_keeps_nobody_from_a_service_that_is_back(service: StandIn) -> None:
    is_served, answer = threading.Event(), service.answer

    def answered(method: str, path: str, body: Any) -> tuple[int, Any]:
        if len(service.impressions) > 100 and "time" in (body or {}):  # of the backlog
            assert is_served.wait(120)
        return answer(method, path, body)

    with knowing(service, timeout=120) as client:
        service.answer = answered  # type: ignore[method-assign]
        service.stop()
        for n in range(2000):
            client.interleave("shoes", RANKINGS, unit=f"user-{n}", query="q")
        service.start()
        until(lambda: client.interleave("shoes", RANKINGS, unit="u", query="q").stored)
        assert client.status().waiting > 500
        is_served.set()
        until(lambda: client.status().waiting == 0)
    assert len(service.impressions) >= 2002


@pytest.mark.parametrize("folder", [False, True])
def test_through_any_number_of_outages_every_list_is_stored_as_it_was_seen_with_its_clicks(
    service: StandIn, tmp_path: Path, folder: bool
) -> None:
    """Eight threads search while the service is cut, slow, broken and back again, in any order."""
    seen: list[Answer] = []
    is_over = threading.Event()
    chance = random.Random(7)

    def search(client: Client, person: int) -> None:
        for visit in itertools.count():
            if is_over.is_set():
                return
            answer = client.interleave("shoes", RANKINGS, unit=f"user-{person}", query=f"q{visit}")
            client.click(answer.impression, 1 + visit % 3)
            seen.append(answer)
            time.sleep(0.002)

    with knowing(service, spool=tmp_path if folder else None, timeout=0.1) as client:
        threads = [threading.Thread(target=search, args=(client, person)) for person in range(8)]
        for thread in threads:
            thread.start()
        for _ in range(12):
            if chance.random() < 0.5:
                service.stop()
                time.sleep(chance.uniform(0.01, 0.1))
                service.start()
            else:
                service.trouble = TROUBLES[chance.randrange(len(TROUBLES))]
                time.sleep(chance.uniform(0.01, 0.2))
                service.trouble = None
            if chance.random() < 0.5:
                until(lambda: bool(seen) and seen[-1].stored)
        until(lambda: len(seen) > 100 and seen[-1].stored)
        is_over.set()
        for thread in threads:
            thread.join()
        until(lambda: client.status().waiting == 0)
        assert (client.status().dropped, client.status().refused) == (0, 0)
    assert len({answer.impression for answer in seen}) == len(seen) > 100
    assert not all(answer.stored for answer in seen)
    assert {one.impression: one.documents for one in seen} == {
        name: stored["documents"] for name, stored in service.impressions.items() if name != "before"
    }
    clicked = sorted(event["impression"] for event in service.events.values())
    assert clicked == sorted(service.impressions.keys() - {"before"})
