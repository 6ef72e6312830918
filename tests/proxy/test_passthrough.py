"""Requests that pass through, byte for byte; and what happens when the engine fails."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import resource
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.proxies import BODY, RunningProxy
from tests.support.stub_engine import OLD, Asked, Fault, Send, StubEngine

Start = Callable[..., RunningProxy]
TWO_LENGTHS = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
FAST = "connect_seconds = 0.5\nread_seconds = 0.5"


def exchange(port: int, request: bytes, seconds: float = 5.0) -> bytes:
    """All bytes that come back."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(request)
        parts = list[bytes]()
        while part := connection.recv(65536):
            parts.append(part)
        return b"".join(parts)


def answering(data: bytes, close: bool = False) -> Fault:
    async def fault(asked: Asked, send: Send) -> bool:
        await send(data)
        if not close:
            await asyncio.sleep(0)
        return True

    return fault


def test_targets_headers_and_bodies_are_those_of_the_caller(proxy: RunningProxy, engine: StubEngine) -> None:
    request = (
        b"POST /a%2Fb;c/_doc?q=%20+%C3%A4&q=2&empty= HTTP/1.1\r\nHost: shop.example\r\nX-Two: 1\r\nX-Two: 2\r\n"
        b"Authorization: ApiKey xyz\r\nConnection: close, X-Hop\r\nX-Hop: no\r\nTE: trailers\r\n"
        b"Content-Type: text/plain; charset=latin1\r\nContent-Length: 4\r\n\r\n\x00\xff\r\n"
    )
    exchange(proxy.port, request)
    (asked,) = engine.asked
    assert asked.target == "/a%2Fb;c/_doc?q=%20+%C3%A4&q=2&empty="
    assert asked.body == b"\x00\xff\r\n"
    names = [(name, value) for name, value in asked.headers if name not in ("host", "content-length", "content-type")]
    assert names == [("via", "1.1 interleaf"), ("x-two", "1"), ("x-two", "2"), ("authorization", "ApiKey xyz")]
    assert asked.header("host") == f"127.0.0.1:{engine.port}"


def test_a_chunked_body_that_waits_for_100_continue_is_streamed(proxy: RunningProxy, engine: StubEngine) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as connection:
        head = (
            b"PUT /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
        )
        connection.sendall(head + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 100")
        connection.sendall(b"3\r\nabc\r\n")
        time.sleep(0.05)
        connection.sendall(b"2\r\nde\r\n0\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    assert engine.asked[0].body == b"abcde"
    assert engine.asked[0].header("expect") is None


@pytest.mark.parametrize(
    ("method", "answer", "expected"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", (200, "5", b"")),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nETag: a\r\n\r\n", (304, None, b"")),
        ("DELETE", b"HTTP/1.1 204 No Content\r\n\r\n", (204, None, b"")),
        ("GET", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok", (201, "2", b"ok")),
        ("GET", b"HTTP/1.1 418 I'm a teapot\r\nContent-Length: 0\r\n\r\n", (418, "0", b"")),
        ("GET", b"HTTP/1.0 200 OK\r\n\r\nuntil the end", (200, None, b"until the end")),
        (
            "GET",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            (200, None, b"abc"),
        ),
    ],
)
def test_answers_of_all_forms(
    proxy: RunningProxy, engine: StubEngine, method: str, answer: bytes, expected: tuple[int, str | None, bytes]
) -> None:
    engine.fault = answering(answer, close=b"1.0" in answer)
    reply = proxy.ask(method, "/x")
    assert (reply.status, reply.header("content-length"), reply.body) == expected


@pytest.mark.parametrize("coding", ["", "gzip"])
@pytest.mark.parametrize("chunked", [False, True])
def test_content_codings_are_not_touched(proxy: RunningProxy, engine: StubEngine, coding: str, chunked: bool) -> None:
    engine.coding, engine.is_chunked = coding, chunked
    reply = proxy.ask("GET", "/x")
    assert reply.header("content-encoding") == (coding or None)
    assert (gzip.decompress(reply.body) if coding else reply.body) == b'{"echo":["GET", "/x"]}'
    assert proxy.search().status == 200
    assert not proxy.failures


def test_connections_to_the_engine_are_used_again(proxy: RunningProxy, engine: StubEngine) -> None:
    for _ in range(5):
        assert proxy.ask("GET", "/x").status == 200
    assert engine.connections == 1


def test_a_request_is_sent_again_if_an_idle_connection_was_closed(proxy: RunningProxy, engine: StubEngine) -> None:
    assert proxy.ask("GET", "/x").status == 200
    count = 0

    async def fault(asked: Asked, send: Send) -> bool:
        nonlocal count
        count += 1
        return count == 1  # close without an answer

    engine.fault = fault
    assert proxy.ask("GET", "/x").status == 200
    count = 0
    assert proxy.ask("POST", "/x", b"once").status == 502  # it may have been done
    assert proxy.ask("GET", "/x").status == 200
    count = 0
    assert proxy.search(BODY | {"sort": ["price"]}).status == 200  # a search only reads
    assert count == 2


@pytest.mark.parametrize(
    ("status", "code", "fault"),
    [
        (502, "upstream_broken", answering(b"")),
        (502, "upstream_broken", answering(b"this is not HTTP\r\n\r\n")),
        (502, "upstream_broken", answering(b"HTTP/1.1 200 OK\r\nContent-Le")),
        (502, "upstream_broken", answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")),
        (502, "upstream_broken", answering(TWO_LENGTHS)),
        (502, "upstream_broken", answering(b"HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n")),
        (502, "upstream_broken", answering(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")),
        (502, "upstream_broken", answering(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 140_000 + b"\r\n\r\n")),
    ],
)
def test_an_engine_without_an_answer_gives_a_clear_error(
    proxy: RunningProxy, engine: StubEngine, status: int, code: str, fault: Fault
) -> None:
    engine.fault = fault
    reply = proxy.ask("GET", "/x")
    assert (reply.status, reply.json["error"]["code"]) == (status, code)


def test_a_killed_engine(start: Start, engine: StubEngine) -> None:
    proxy = start(upstream=FAST)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        proxy.app.upstream._port = free.getsockname()[1]
    assert (proxy.ask("GET", "/x").status, proxy.search().status) == (502, 502)
    assert proxy.failures == {"control_failed": 1}
    proxy.app.upstream._port = engine.port  # it is back
    assert (proxy.ask("GET", "/x").status, proxy.search().status) == (200, 200)


def test_a_hung_engine(start: Start, engine: StubEngine) -> None:
    proxy = start(upstream=FAST, requests="time_budget_ms = 100")

    async def fault(asked: Asked, send: Send) -> bool:
        await asyncio.sleep(30)
        return True

    engine.fault = fault
    began = time.monotonic()
    replies = [proxy.ask("GET", "/x"), proxy.search()]
    assert [(reply.status, reply.json["error"]["code"]) for reply in replies] == [(504, "upstream_silent")] * 2
    assert time.monotonic() - began < 2


def test_half_an_answer_is_seen_by_the_caller(proxy: RunningProxy, engine: StubEngine) -> None:
    engine.fault = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    with pytest.raises(http.client.IncompleteRead):
        proxy.ask("GET", "/x")
    engine.fault = answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
    with pytest.raises(http.client.IncompleteRead):
        proxy.ask("GET", "/x")


@pytest.mark.parametrize("chunked", [False, True])
def test_an_answer_of_100_mb_is_streamed_in_flat_memory(proxy: RunningProxy, engine: StubEngine, chunked: bool) -> None:
    piece, count = bytes(range(256)) * 4096, 100  # a MiB each

    async def fault(asked: Asked, send: Send) -> bool:
        framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % (len(piece) * count)
        await send(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n")
        for _ in range(count):
            await send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        await send(b"0\r\n\r\n" if chunked else b"")
        return False

    engine.fault = fault
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
    connection.request("GET", "/big")
    response = connection.getresponse()
    time.sleep(0.3)  # a slow reader must not make the proxy read on
    size = 0
    while part := response.read(1 << 20):
        size += len(part)
        assert len(part) < (1 << 20) or part == piece
    connection.close()
    assert size == len(piece) * count
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # KiB, of proxy, engine and reader


def test_a_body_of_50_mb_is_streamed_to_the_engine(proxy: RunningProxy, engine: StubEngine) -> None:
    body = bytes(50_000_000)
    assert proxy.ask("POST", "/_upload", body).status == 200
    assert len(engine.asked[0].body) == len(body)


def test_the_engine_stops_working_when_the_caller_goes(proxy: RunningProxy, engine: StubEngine) -> None:
    closed = threading.Event()

    async def fault(asked: Asked, send: Send) -> bool:
        try:
            while True:
                await asyncio.sleep(0.02)
                if len(engine.asked) > 1:
                    return True
        except asyncio.CancelledError:
            closed.set()
            raise

    engine.fault = fault
    with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        until = time.monotonic() + 5
        while not engine.asked and time.monotonic() < until:
            time.sleep(0.01)
    while proxy.app.upstream._places._value < 256 and time.monotonic() < until:
        time.sleep(0.01)
    assert proxy.app.upstream._places._value == 256


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_connections_above_the_limit_are_refused_politely(start: Start, count: int) -> None:
    proxy = start(proxy="max_connections = 20")
    busy = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(20)]
    try:
        for one in busy:
            one.sendall(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
        time.sleep(0.1)
        with ThreadPoolExecutor(20) as threads:
            get = b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            answers = list(threads.map(lambda _: try_exchange(proxy.port, get), range(count)))
    finally:
        for one in busy:
            one.close()
    statuses = {answer.split(b" ", 2)[1] for answer in answers if answer}
    assert statuses <= {b"200", b"503"}
    assert all(b"retry-after: 1" in answer.lower() for answer in answers if answer.startswith(b"HTTP/1.1 503"))


def try_exchange(port: int, request: bytes) -> bytes:
    try:
        return exchange(port, request)
    except ConnectionError:
        return b""


def test_too_many_requests_to_the_engine_wait_and_are_refused(start: Start, engine: StubEngine) -> None:
    proxy = start(upstream="connect_seconds = 0.3\nmax_connections = 1")

    async def fault(asked: Asked, send: Send) -> bool:
        await asyncio.sleep(1.5 if asked.path == "/slow" else 0)
        return False

    engine.fault = fault
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(proxy.ask, "GET", "/slow")
        time.sleep(0.1)
        reply = proxy.ask("GET", "/x")
        assert (reply.status, reply.header("retry-after")) == (503, "1")
        slow.result()


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET http://evil.example/x HTTP/1.1",
        b"GET //evil.example/x HTTP/1.1",
        b"GET /../../x HTTP/1.1",
        b"GET /x@evil.example HTTP/1.1",
    ],
)
def test_every_request_goes_to_the_configured_engine(
    proxy: RunningProxy, engine: StubEngine, request_line: bytes
) -> None:
    answer = exchange(proxy.port, request_line + b"\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert engine.asked[0].header("host") == f"127.0.0.1:{engine.port}"


@pytest.mark.parametrize(
    "head",
    [
        b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /y",
        b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
        b"CONNECT evil.example:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: a\r\nX: a\nb: c\r\n\r\n\x00",
    ],
)
def test_requests_that_could_be_smuggled_are_refused(proxy: RunningProxy, engine: StubEngine, head: bytes) -> None:
    answer = exchange(proxy.port, head)
    assert b" 200 " not in answer.partition(b"\r\n")[0] or engine.asked[0].body == b""
    assert not any(b"GET /y" in asked.body or asked.target == "/y" for asked in engine.asked)


@pytest.mark.parametrize("target", ["/products/_search?q=é", "/é/_doc/1", "/x?q=\x01"])
def test_an_error_says_how_to_write_a_url_that_has_other_characters_than_ascii(
    proxy: RunningProxy, engine: StubEngine, target: str
) -> None:
    answer = exchange(proxy.port, f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"such as %C3%A9 for" in answer
    assert not engine.asked


def test_concurrent_requests(proxy: RunningProxy, engine: StubEngine, tmp_path: Path) -> None:
    def ask(number: int) -> Any:
        return proxy.ask("GET", f"/{number}").json["echo"] if number % 2 else set(proxy.search(unit=f"u-{number}").ids)

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(ask, range(200)))
    assert answers[1::2] == [["GET", f"/{number}"] for number in range(1, 200, 2)]
    assert all(len(ids) == 10 for ids in answers[::2])
    assert OLD[0] in answers[0]
