"""The short way of plain traffic against the long way: the same answers, byte for byte, whatever is sent and how."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interleaf.errors import StoreError
from interleaf.serve import mixing, remembered
from interleaf.serve.short_way import ShortWay
from tests.services import OLD
from tests.stand_in import until
from tests.wire import EVENTS, LIST, Both, Served, both, clicked, raw, read, remember, stored, wanted


@pytest.fixture(scope="module", autouse=True)
def _remembering() -> Iterator[None]:
    """Experiments and keys are believed for a second: let it be for ever, on a slow machine too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remembered, "SECONDS", math.inf)
        patch.setattr(remembered, "EARLY", math.inf)
        yield


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Both]]:
    with ExitStack() as stack:
        yield partial(both, stack, tmp_path)


def test_plain_traffic_takes_the_short_way_and_is_answered_alike(served: Callable[..., Both]) -> None:
    short, long, _ = served()
    for request in (
        raw(LIST, wanted(1)),
        raw(LIST, wanted(1)),  # again
        raw(EVENTS, clicked(1)),
        raw(EVENTS, clicked(1)),
        raw(EVENTS, clicked(77)),  # of an unknown impression
        raw(LIST, wanted(2, attributes={"device": "phone"}, session="s", k=2, latency={"production": 0.1})),
        raw(LIST, wanted(3, captions={"a": {"title": "A"}}), User_Agent="somebody"),
        raw(LIST, wanted(4, rankings={"production": ["a", "a"], "candidate": ["b"]})),  # refused when it is mixed
    ):
        assert short.ask(request) == long.ask(request)
    assert short.long_way == []
    assert len(long.long_way) == 8
    for number in range(1, 4):
        assert short.store.row(f"i-{number}") == long.store.row(f"i-{number}") is not None
    assert short.store.row("i-4") is None
    assert short.service.metrics.counters == long.service.metrics.counters


UNUSUAL = {
    "another method": b"GET " + LIST.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "HTTP/1.0": raw(LIST, wanted(1), version="1.0"),
    "HTTP/1.0 that would go on": raw(LIST, wanted(1), version="1.0", Connection="keep-alive"),
    "chunks": raw(LIST, b"0\r\n\r\n", Content_Length=None, Transfer_Encoding="chunked"),
    "a further page": raw(LIST, wanted(1, page=2)),
    "fixed documents": raw(LIST, wanted(1, fixed={"1": "z"})),
    "a ranking too late": raw(LIST, wanted(1, rankings={"production": OLD, "candidate": None})),
    "a strange ranker": raw(LIST, wanted(1, rankings={"nobody": OLD})),
    "an unknown experiment": raw("/v1/experiments/boots/interleave", wanted(1)),
    "an escaped path": raw("/v1/experiments/sho%65s/interleave", wanted(1)),
    "a query in the path": raw(LIST + "?x=1", wanted(1)),
    "a fragment in the path": raw(LIST + "#x", wanted(1)),
    "a slash too many": raw("/v1/experiments/sho/es/interleave", wanted(1)),
    "a page of another site": raw(LIST, wanted(1), Origin="https://elsewhere.example"),
    "text": raw(LIST, wanted(1), Content_Type="text/plain"),
    "a charset": raw(LIST, wanted(1), Content_Type="application/json; charset=utf-8"),
    "no JSON": raw(LIST, b"{"),
    "nothing": raw(LIST, b""),
    "no length": raw(LIST, b"", Content_Length=None),
    "unknown fields": raw(LIST, wanted(1, rnkings={})),
    "a null character": raw(LIST, wanted(1, query="a\0b")),
    "half a letter": raw(LIST, wanted(1) | {"query": "\ud800"}),
    "too large": raw(LIST, wanted(1, attributes={f"{place}": "x" * 500 for place in range(12)})),
    "too large to be sent": raw(LIST, b"", Content_Length="1000000000"),
    "the future": raw(LIST, wanted(1, time="2999-01-01T00:00:00Z")),
    "an unknown version": raw(LIST, wanted(1, version=7)),
    "an unknown key": raw(LIST, wanted(1), Authorization="Bearer nobody"),
    "another scheme": raw(LIST, wanted(1), Authorization="Basic bm9ib2R5"),
    "a token": raw(EVENTS, clicked(1, token="forged")),
    "an event of nothing": raw(EVENTS, {"events": [{"kind": "click", "rank": 1}]}),
    "no events": raw(EVENTS, {"events": []}),
    "a length that is none": raw(LIST, wanted(1), Content_Length="-1"),
    "two lengths": raw(LIST, wanted(1), CONTENT_LENGTH="7"),
    "no HTTP": b"hello\r\n\r\n",
    "an upgrade": raw(LIST, wanted(1), Connection="upgrade", Upgrade="h2c"),
    "a length with a space": raw(LIST, wanted(1)).replace(b"\r\n\r\n", b" \r\n\r\n"),
    "a long address": raw("/v1/experiments/" + "x" * 500 + "/interleave", wanted(1)),
    "a strange origin": raw(LIST, wanted(1), Origin="http://["),
    "the last request": raw(LIST, wanted(1), Connection="close"),
}


def test_what_is_unusual_is_answered_as_on_the_long_way(served: Callable[..., Both]) -> None:
    short, long, _ = served()
    for name, request in UNUSUAL.items():
        assert short.ask(request) == long.ask(request), name
    assert len(short.long_way) < len(long.long_way)
    assert short.store.row("i-1") == long.store.row("i-1") is not None
    until(lambda: short.service.metrics._served == long.service.metrics._served)  # counted after they are sent
    with short.connection() as connection:
        connection.sendall(UNUSUAL["the last request"])
        assert len(list(read(connection, 2))) == 1  # and then it is closed


def test_who_may_not_is_refused_alike(served: Callable[..., Both]) -> None:
    short, long, secret = served(key="read")
    for path, body in ((LIST, wanted(1)), (EVENTS, clicked(1))):
        for authorization in (None, "Bearer", "Bearer nobody", f"Bearer {secret}", f"bearer   {secret}"):
            request = raw(path, body, Authorization=authorization)
            found = short.ask(request)
            assert found == long.ask(request)
            assert found[0].startswith((b"HTTP/1.1 401", b"HTTP/1.1 403"))
            if path == LIST:
                assert short.ask(request[:-10]) == found  # before its body is read
    assert len(short.long_way) == 15


def test_keys_have_a_bucket_each(served: Callable[..., Both]) -> None:
    short, long, secret = served(key="ingest", requests_per_second=4.0)
    for one in (short, long):
        one.service.access._watch = lambda: 1000.0
        one.service.access._buckets.clear()
    for number in range(6):
        request = raw(LIST, wanted(number), Authorization=f"Bearer {secret}")
        assert short.ask(request) == long.ask(request)
    assert len(short.long_way) == 2  # those that were one too many
    assert b"too_many" in short.ask(request)[0]


def test_of_other_machines_only_with_keys(served: Callable[..., Both]) -> None:
    short, long, _ = served(loopback_only=True)
    request = raw(LIST, wanted(1), Host="elsewhere.example")
    assert short.ask(request) == long.ask(request)
    assert b"wrong_host" in short.ask(request)[0]


def test_a_store_that_is_away_is_said(
    served: Callable[..., Both], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    short, long, _ = served()

    def away(*_: Any) -> Any:
        raise StoreError("the store is away; try again")

    def broken(*_: Any) -> Any:
        raise RuntimeError("secret detail")

    for failing, status in ((away, b"503"), (broken, b"500")):
        for one in (short, long):
            monkeypatch.setattr(one.store, "write", failing)
        for request in (raw(LIST, wanted(1)), raw(EVENTS, clicked(1))):
            found = short.ask(request)
            assert found == long.ask(request)
            assert found[0].startswith(b"HTTP/1.1 " + status)
            assert b"secret detail" not in found[0]
    assert short.long_way == []
    assert caplog.text.count("a request failed") == 4


def test_a_list_that_breaks_the_mixing_does_not_break_others(
    served: Callable[..., Both], monkeypatch: pytest.MonkeyPatch
) -> None:
    short, long, _ = served()

    def broken(*_: Any) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(mixing, "show", broken)
    repeated = raw(LIST, wanted(1, rankings={"production": ["a", "a"], "candidate": ["b"]}))
    found = short.ask(repeated + raw(LIST, wanted(2)), answers=2)
    assert found == long.ask(repeated + raw(LIST, wanted(2)), answers=2)
    assert [answer[9:12] for answer in found] == [b"500", b"201"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with ExitStack() as stack:
        yield both(stack, tmp_path_factory.mktemp("short"))


ENDING = {
    "a length with a space",
    "HTTP/1.0",
    "HTTP/1.0 that would go on",
    "too large to be sent",
    "no HTTP",
    "the last request",
    "an upgrade",
    "no length",
    "a length that is none",
    "two lengths",
}
GOING_ON = sorted(UNUSUAL.keys() - ENDING)  # after these, the connection can be used further
requests = st.lists(
    st.one_of(
        st.integers(0, 30).map(lambda number: raw(LIST, wanted(number))),
        st.integers(0, 30).map(lambda number: raw(EVENTS, clicked(number))),
        st.sampled_from(GOING_ON).map(lambda name: UNUSUAL[name]),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=100, deadline=None)
@given(requests, st.lists(st.floats(0, 1), max_size=5))
def test_several_at_once_cut_anywhere_are_answered_in_order(pair: Both, sent: list[bytes], cuts: list[float]) -> None:
    data = b"".join(sent)
    places = sorted(round(cut * len(data)) for cut in cuts)
    pieces = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    short, long, _ = pair
    found = short.ask(*pieces, answers=len(sent))
    assert found == long.ask(*pieces, answers=len(sent))
    assert len(found) == len(sent)


def is_more(count: Callable[[], int], than: int) -> bool:
    return count() > than


def is_any(*conditions: Callable[[], Any]) -> bool:
    return any(condition() for condition in conditions)


def test_who_sends_and_never_reads_is_made_to_wait(served: Callable[..., Both]) -> None:
    """One request after the other, and only the system keeps the answers that nobody reads."""
    short, *_ = served(most_body=200_000)
    long_ids = [f"{place:0500}" for place in range(100)]
    with short.connection() as connection:
        answered = short.service.metrics._served.total
        for number in range(1000):
            rankings = {"production": long_ids, "candidate": long_ids[::-1]}
            is_answered = partial(is_more, answered, answered())
            connection.sendall(raw(LIST, wanted(number, rankings=rankings, k=100)))
            until(partial(is_any, is_answered, short.long_way.__len__))
            if short.long_way:
                break
        time.sleep(3)
        assert not is_answered()
        assert 5 < number < 900
        assert len(short.long_way) == 1  # who would be put off there until he reads
        found = list(read(connection, number + 1))
    assert [json.loads(answer.partition(b"\r\n\r\n")[2])["impression"] for answer in found] == [
        f"i-{place}" for place in range(number + 1)
    ]


def test_who_goes_away_before_the_answer_has_its_list_stored(
    served: Callable[..., Both], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    short, *_ = served()
    holding = threading.Event()
    write = short.store.write

    def slow(*given: Any) -> Any:
        holding.wait(120)
        return write(*given)

    monkeypatch.setattr(short.store, "write", slow)
    connection = short.connection()
    connection.sendall(raw(LIST, wanted(1)))
    until(lambda: short.service.writing._busy)
    connection.close()
    holding.set()
    until(lambda: short.store.row("i-1") is not None)
    until(lambda: not short.service.writing._busy)
    assert b" 201 " in short.ask(raw(LIST, wanted(2)))[0]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_the_end_of_the_server_waits_for_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(tmp_path / "store.sqlite")
    holding = threading.Event()
    write = store.write
    with ExitStack() as stack:
        short = Served(stack, store, ShortWay)
        remember(short)
        waiting, idle, *half = [short.connection() for _ in range(4)]
        requests = raw(LIST, wanted(2)), raw(LIST, wanted(3, fixed={"1": "z"}))  # of the second, the way is long
        for connection, request in zip(half, requests, strict=True):
            connection.sendall(request[:-10])
        short.ask(raw(LIST, wanted(4)))  # what was sent before is read when this is answered
        monkeypatch.setattr(store, "write", lambda *given: holding.wait(120) and write(*given))
        waiting.sendall(raw(LIST, wanted(1)))
        until(lambda: short.service.writing._busy)
        ending = threading.Thread(target=stack.close)
        ending.start()
        assert idle.recv(100) == b""  # closed: who is asked nothing need not wait
        holding.set()
        assert [b" 201 " in answer and b"connection: close" in answer for answer in read(waiting, 1)] == [True]
        for connection, request in zip(half, requests, strict=True):
            connection.sendall(request[-10:])
            assert [b" 201 " in answer and b"connection: close" in answer for answer in read(connection, 1)] == [True]
        ending.join(120)
        assert not ending.is_alive()
        for connection in (waiting, idle, *half):
            connection.close()
    assert None not in [store.row(f"i-{number}") for number in (1, 2, 3)]
    store.close()
