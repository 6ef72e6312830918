"""Limits of a connection, which hold before a key is checked; and clients that ask for another protocol."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from interleaf.server.connection import Connection
from tests.support.stand_in import until
from tests.support.wire import EVENTS, LIST, Served, raw, read, wanted

GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    with ExitStack() as stack:
        yield partial(Served, stack, tmp_path)


def status_of(answers: list[bytes]) -> list[int]:
    return [int(answer[9:12]) for answer in answers]


def flooded(one: Served, start: bytes, piece: bytes, times: int) -> tuple[bytes, int]:
    """What is answered while this is sent again and again, and how many pieces could be sent."""
    with one.connection() as connection:
        connection.sendall(start)
        sent = 0
        with suppress(ConnectionError):
            while sent < times:
                connection.sendall(piece)
                sent += 1
        try:
            return next(read(connection, 1), b""), sent
        except ConnectionError:
            return b"", sent


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /" + b"a" * 8_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 414),
        (b"GET /?" + b"a" * 300_000, 414),
        (GET + b"X-A: " + b"a" * 32_000 + b"\r\n\r\n", 431),
        (GET + b"".join(b"X-%d: 1\r\n" % place for place in range(100)) + b"\r\n", 431),
        (GET + b"X-A: " + b"a" * 600_000, 431),
        (GET + b"X" * 600_000, 431),
        (GET + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X-A: " + b"a" * 33_000 + b"\r\n\r\n", 431),
        (b"\r\n" * 300_000, 431),
        (b"CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n", 501),
        (b"hello\r\n\r\n", 400),
        (b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    ],
)
def test_a_head_that_is_too_large_is_refused(served: Callable[..., Served], request_: bytes, status: int) -> None:
    one = served(key="read")
    (answer,) = one.ask(request_)
    assert status_of([answer]) == [status]
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert b"connection: close" in answer
    assert status_of(one.ask(GET + b"\r\n")) == [200]


@pytest.mark.parametrize("start", [b"GET /", GET + b"X-A: ", b"POST /v1/events HTTP/1.1\r\n\r\n", b""])
def test_who_goes_on_sending_is_cut_off(served: Callable[..., Served], start: bytes) -> None:
    piece, times = b"a" * 100_000 if start else b"\r\n" * 50_000, 1000
    answer, sent = flooded(served(), start, piece, times)
    assert answer[9:12] in (b"", b"414", b"431", b"400", b"403")  # 403: a whole request that names no host
    assert sent < 500  # of a hundred megabytes, most are still in buffers of the system


def test_the_body_of_a_refused_request_is_not_read_without_end(served: Callable[..., Served]) -> None:
    head = b"POST /v1/experiments HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    answer, sent = flooded(served(key="read"), head + b"Content-Length: 1000000000\r\n\r\n", b"a" * 100_000, 1000)
    assert answer[9:12] in (b"", b"401")
    assert sent < 500


def test_trailers_count_as_headers(served: Callable[..., Served]) -> None:
    head = b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    assert status_of(served().ask(head + b"X-A: " + b"a" * 600_000)) == [431]


@pytest.mark.parametrize("half", [b"GET /heal", GET, raw(LIST, wanted(1))[:-5], raw(EVENTS, {})[:-1]])
def test_who_is_too_slow_is_refused(served: Callable[..., Served], half: bytes) -> None:
    one = served(head_seconds=0.3, body_seconds=0.3)
    with one.connection() as connection:
        connection.sendall(half)
        (answer,) = read(connection, 2)  # and then it is closed
    assert status_of([answer]) == [408]
    until(lambda: not one.service.write_queue._busy)
    assert one.store.row("i-1") is None


def test_more_bytes_give_no_more_time(served: Callable[..., Served]) -> None:
    with served(head_seconds=0.5).connection() as connection:
        connection.sendall(GET)
        connection.settimeout(0.05)
        answer = b""
        for _ in range(2000):
            try:
                answer = connection.recv(1000)
                break
            except TimeoutError:
                connection.sendall(b"X-A: 1\r\n" if _ % 20 == 0 else b"")
    assert status_of([answer]) == [408]


@pytest.mark.parametrize("before", [b"", b"\r\n", GET + b"\r\n", GET + b"\r\n\r\n"])
def test_silent_connections_are_closed(served: Callable[..., Served], before: bytes) -> None:
    with served(head_seconds=0.3).connection() as connection:
        connection.sendall(before)
        if before.startswith(b"GET"):
            assert status_of(list(read(connection, 1))) == [200]
            connection.sendall(b"\r\n")
        assert connection.recv(100) == b""


def test_a_client_waits_while_others_are_answered_without_being_refused(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = served(head_seconds=0.2, body_seconds=0.2)
    write, holding = one.store.write, threading.Event()
    monkeypatch.setattr(one.store, "write", lambda *given: holding.wait(120) and write(*given))
    with one.connection() as connection:
        connection.sendall(raw(LIST, wanted(1)) + raw(LIST, wanted(2)))
        until(lambda: one.service.write_queue._busy)
        with one.connection() as other:
            assert other.recv(100) == b""  # that one was too slow meanwhile
        holding.set()
        assert status_of(list(read(connection, 2))) == [201, 201]


def test_a_bad_request_behind_a_good_one_is_answered_after_it(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = served()
    write, holding = one.store.write, threading.Event()
    monkeypatch.setattr(one.store, "write", lambda *given: holding.wait(120) and write(*given))
    with one.connection() as connection:
        connection.sendall(raw(LIST, wanted(1)) + b"GET /" + b"a" * 9000)
        until(lambda: one.service.write_queue._busy)
        holding.set()
        assert status_of(list(read(connection, 3))) == [201, 414]


def test_of_too_many_connections_the_longest_waiting_one_is_closed(served: Callable[..., Served]) -> None:
    one = served(max_connections=5)
    with ExitStack() as stack:
        idle = [stack.enter_context(one.connection()) for _ in range(5)]
        for connection in idle:
            connection.sendall(GET + b"\r\n")
            assert status_of(list(read(connection, 1))) == [200]
        for number in range(3):
            assert status_of(one.ask(raw(LIST, wanted(number)))) == [201]
        assert idle[0].recv(100) == b""
        idle[4].sendall(GET + b"\r\n")
        assert status_of(list(read(idle[4], 1))) == [200]


def test_half_sent_heads_do_not_lock_others_out(served: Callable[..., Served]) -> None:
    one = served(max_connections=5)
    with ExitStack() as stack:
        for number in range(20):
            stack.enter_context(one.connection()).sendall(GET)
            assert status_of(one.ask(raw(LIST, wanted(number)))) == [201]


def test_where_all_connections_are_busy_another_is_refused(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = served(max_connections=3)
    write, holding = one.store.write, threading.Event()
    monkeypatch.setattr(one.store, "write", lambda *given: holding.wait(120) and write(*given))
    with ExitStack() as stack:
        busy = [stack.enter_context(one.connection()) for _ in range(3)]
        for number, connection in enumerate(busy):
            connection.sendall(raw(LIST, wanted(number)))
        until(lambda: answer_to_new(one) == b"503")
        holding.set()
        assert [status_of(list(read(connection, 1))) for connection in busy] == [[201]] * 3


def ask_without_reading(stack: ExitStack, one: Served) -> None:
    """Ask for much more than the buffers of a connection hold."""
    connection = stack.enter_context(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.connect(("127.0.0.1", one.port))
    with suppress(ConnectionError):  # it may be refused
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000)


def test_a_connection_whose_client_reads_nothing_is_aborted(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, lost = served(write_seconds=0.3), threading.Event()
    connection_lost = Connection.connection_lost

    def note_loss(connection: Connection, error: Exception | None) -> None:
        connection_lost(connection, error)
        lost.set()

    monkeypatch.setattr(Connection, "connection_lost", note_loss)
    with ExitStack() as stack:
        ask_without_reading(stack, one)
        assert lost.wait(60)


def test_clients_that_read_nothing_do_not_lock_others_out(served: Callable[..., Served]) -> None:
    one = served(max_connections=3, write_seconds=3600.0)
    with ExitStack() as stack:
        for _ in range(3):
            ask_without_reading(stack, one)
        until(lambda: answer_to_new(one) != b"503")
        for _ in range(10):
            ask_without_reading(stack, one)
        until(lambda: answer_to_new(one) != b"503")


def test_a_client_that_reads_late_gets_all_answers(served: Callable[..., Served]) -> None:
    with served().connection() as connection:
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000)
        assert status_of(list(read(connection, 1000))) == [200] * 1000


def answer_to_new(one: Served) -> bytes:
    """The status that another connection gets without asking; `nothing` if it waits for a request."""
    with one.connection() as connection:
        connection.settimeout(0.3)
        try:
            return connection.recv(1000)[9:12]
        except TimeoutError:
            return b"nothing"


UPGRADES = {
    "h2c": {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2_Settings": "AAMAAABkAAQAoAAAAAIAAAAA"},
    "websocket": {"Connection": "upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13"},
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ExitStack() as stack:
        yield Served(stack, tmp_path_factory.mktemp("upgrades"))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([None, *UPGRADES]), st.booleans()), min_size=1, max_size=5),
    st.lists(st.floats(0, 1), max_size=5),
)
def test_an_upgrade_is_ignored(shared: Served, kinds: list[tuple[str | None, bool]], cuts: list[float]) -> None:
    sent = []
    for kind, is_chunked in kinds:
        body, more = json.dumps(wanted(1)).encode(), dict[str, Any](UPGRADES[kind] if kind else {})
        if is_chunked:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
            more |= {"Transfer_Encoding": "chunked", "Content_Length": None}
        sent.append(raw(LIST, body, **more))
    data = b"".join(sent)
    places = sorted(round(cut * len(data)) for cut in cuts)
    pieces = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    assert set(status_of(shared.ask(*pieces, answers=len(sent)))) <= {200, 201}


def test_many_upgrades_at_once_are_answered(shared: Served) -> None:
    request = GET + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert status_of(shared.ask(request * 2000, answers=2000)) == [200] * 2000


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_that_offers_http2_is_answered(shared: Served) -> None:
    command = ["curl", "--silent", "--http2", "--max-time", "120", "--json", json.dumps(wanted(2))]
    answer = subprocess.run([*command, shared.url + LIST], capture_output=True, timeout=150)
    assert json.loads(answer.stdout)["impression"] == "i-2", answer.stderr


JAVA = """
import java.net.URI;
import java.net.http.*;

class Ask {
    public static void main(String[] given) throws Exception {
        var client = HttpClient.newHttpClient();
        for (var body : java.util.List.of(given[1], given[2])) {
            var request = HttpRequest.newBuilder(URI.create(given[0])).header("Content-Type", "application/json");
            var sent = request.POST(HttpRequest.BodyPublishers.ofString(body)).build();
            System.out.println(client.send(sent, HttpResponse.BodyHandlers.ofString()).statusCode());
        }
    }
}
"""


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
def test_java_s_own_client_is_answered(shared: Served, tmp_path: Path) -> None:
    """It offers HTTP/2 with its first request."""
    (tmp_path / "Ask.java").write_text(JAVA)
    bodies = [json.dumps(wanted(number)) for number in (3, 4)]
    command = ["java", str(tmp_path / "Ask.java"), shared.url + LIST, *bodies]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert answer.stdout.split() == ["201", "201"], answer.stderr
