"""One deadline for a whole call, whatever the other side does with its bytes, and a breaker on slow answers."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from interleaf.client import AsyncClient, Client, delivery_thread
from interleaf.client.connections import AwayError, Connections
from interleaf.client.delivery_thread import MAX_EVENTS
from interleaf.errors import ClientError
from tests.client.test_outage import RANKINGS, knowing, sent_here, service as service
from tests.support.stand_in import KEY, StandIn, until

DRIP, PATIENCE = 30.0, 10.0  # seconds that a server drips, and that no call may take
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"


@contextmanager
def serving(talk: Callable[[socket.socket, threading.Event], None]) -> Iterator[int]:
    """A server on a port of this machine that talks to each connection this way."""
    is_over, listener = threading.Event(), socket.create_server(("127.0.0.1", 0))
    threads = list[threading.Thread]()

    def accept() -> None:
        while not is_over.is_set():
            connection = listener.accept()[0]
            threads.append(threading.Thread(target=answer, args=(connection,)))
            threads[-1].start()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):  # the client has gone
            talk(connection, is_over)

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        is_over.set()
        socket.create_connection(listener.getsockname()).close()
        for thread in (accepting, *threads):
            thread.join()
        listener.close()


def drip(connection: socket.socket, is_over: threading.Event, head: bytes) -> None:
    """Send a byte every 50 milliseconds, for half a minute."""
    connection.recv(65536)
    connection.sendall(head)
    end = time.monotonic() + DRIP
    while time.monotonic() < end and not is_over.wait(0.05):
        connection.sendall(b" ")


def wait(connection: socket.socket, is_over: threading.Event) -> None:
    is_over.wait(DRIP)


TALKS: dict[str, tuple[str, Callable[[socket.socket, threading.Event], None]]] = {
    "a body in drips": ("http", lambda connection, is_over: drip(connection, is_over, HEAD)),
    "a header in drips": ("http", lambda connection, is_over: drip(connection, is_over, b"HTTP/1.1 200 OK\r\nX: ")),
    "a handshake that never comes": ("https", wait),
    "a handshake in drips": ("https", lambda connection, is_over: drip(connection, is_over, b"\x16\x03\x03\x40\x00")),
    "a request that nobody reads": ("http", wait),
}


@pytest.mark.parametrize(("scheme", "talk"), TALKS.values(), ids=TALKS)
def test_a_call_ends_at_its_deadline_whatever_the_server_does(
    scheme: str, talk: Callable[[socket.socket, threading.Event], None]
) -> None:
    captions = {"a": {"snippet": "x" * 20_000_000}}  # more than the buffers of a connection hold
    with serving(talk) as port, Client(f"{scheme}://127.0.0.1:{port}", KEY, timeout=0.5) as client:
        began = time.monotonic()
        answer = client.interleave("shoes", RANKINGS, captions=captions if talk is wait else None)
        assert time.monotonic() - began < PATIENCE
        assert (answer.documents, answer.stored) == (["a", "b", "c", "d"], False)


def test_a_name_that_is_not_looked_up_in_time_costs_one_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name server of this machine can be made to hang, so the system's call stands still."""
    may, look_up = threading.Event(), socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **more: may.wait(DRIP) and look_up(*given, **more))
    began = time.monotonic()
    with pytest.raises(AwayError, match="TimeoutError"):
        Connections("http://localhost:9", KEY, 0.2).ask("GET", "/", None, ())
    assert time.monotonic() - began < PATIENCE
    may.set()


def test_several_addresses_share_the_time_and_each_is_tried(service: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose first address swallows packets is reached by its second within one deadline."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        places = [full.getsockname(), ("127.0.0.1", int(service.url.rpartition(":")[2]))]
        both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **more: both)
        connections = Connections(service.url, KEY, 4.0)
        assert connections.ask("GET", "/v1/experiments/shoes", None, ()).is_success
        connections.close()
        for one in waiting:
            one.close()


def test_many_events_share_one_deadline_and_the_rest_is_spooled(service: StandIn) -> None:
    """Answers of 0.4 s, and a second for all: whatever the machine, at most three of five requests are sent."""
    with knowing(service, timeout=1.0, slow=None) as client:
        service.trouble = 0.4
        sent, count = sent_here(client), 5 * MAX_EVENTS
        taken = client.events([{"impression": "before", "rank": 1, "event": f"e-{n}"} for n in range(count)])
        assert len(sent) <= 3
        assert taken.spooled >= 2 * MAX_EVENTS
        assert taken.accepted + taken.spooled == count
        service.trouble = None
        until(lambda: len(service.events) == count)


def test_the_client_for_event_loops_counts_the_time_in_its_queue(service: StandIn) -> None:
    """A hundred calls, two threads, answers of 0.4 s: without that, the last would be answered after 20 s."""
    service.trouble = 0.4

    async def search() -> float:
        async with AsyncClient(service.url, KEY, threads=2, timeout=0.6, slow=None) as client:
            began = time.monotonic()
            await asyncio.gather(*(client.interleave("shoes", RANKINGS, unit=f"u{n}") for n in range(100)))
            return time.monotonic() - began

    assert asyncio.run(search()) < PATIENCE


def test_slow_answers_make_pages_local_until_the_service_is_quick_again(
    service: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_thread, "SPOOL_SECONDS", 0.02)
    with knowing(service, timeout=60, slow=(0.005, 4)) as client:  # slow is above 0.3 s
        service.trouble = 0.5
        answered = sent_here(client)
        until(lambda: not client.interleave("shoes", RANKINGS, unit="u", query="q").stored)
        assert 3 <= len(answered) <= 4  # more than half of four, and a quick one may have been before
        assert all(answered)
        for n in range(20):
            answer = client.interleave("shoes", RANKINGS, unit=f"user-{n}", query="q")
            assert (answer.arm, answer.stored) == ("interleaved", False)
        probes = len(service.asked)
        until(lambda: len(service.asked) > probes + 3)  # the thread probes, is answered slowly, and stays away
        assert client.status().away
        assert len(answered) <= 4
        service.trouble = None
        until(lambda: not client.status().away)
        until(lambda: client.status().waiting == 0)
        until(lambda: client.interleave("shoes", RANKINGS, unit="after", query="q").stored)


@pytest.mark.parametrize("slow", [(0, 20), (1.5, 20), (0.5, 0), (0.5, 2.5), (float("nan"), 3)])
def test_a_breaker_that_cannot_be_is_refused(slow: Any) -> None:
    with pytest.raises(ClientError, match=r"slow is .* give a share of the timeout"):
        Client("http://localhost", slow=slow)
