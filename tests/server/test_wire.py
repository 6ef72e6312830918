"""Requests byte by byte on a real socket: what is answered, whatever is sent and how."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from interleaf.errors import StoreError
from interleaf.experiment import Experiment, Request, serving, show
from interleaf.experiment.serving import draw_lists, plan_list
from interleaf.interleaving.api import draw_all
from interleaf.server import ingest
from interleaf.server.write_queue import WriteQueue
from interleaf.store import impression_rows, open_store
from interleaf.store.records import StoredImpression
from tests.support.services import OLD, RANKINGS, SHOES, START
from tests.support.stand_in import until
from tests.support.wire import EVENTS, LIST, Served, clicked, raw, read, wanted


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    with ExitStack() as stack:
        yield partial(Served, stack, tmp_path)


def test_lists_and_events_are_answered_and_stored_once(served: Callable[..., Served]) -> None:
    one = served()
    (first,), (again,) = one.ask(raw(LIST, wanted(1))), one.ask(raw(LIST, wanted(1)))
    assert (first[9:12], again[9:12]) == (b"201", b"200")
    assert body_of(first) == body_of(again)
    assert body_of(one.ask(raw(EVENTS, clicked(1)))[0])["accepted"] == 1
    assert body_of(one.ask(raw(EVENTS, clicked(1)))[0])["repeated"] == 1
    assert body_of(one.ask(raw(EVENTS, clicked(77)))[0])["apart"] == {"unknown_impression": 1}
    repeats = raw(LIST, wanted(4, rankings={"production": ["a", "a"], "candidate": ["b"]}))
    assert one.ask(repeats)[0].startswith(b"HTTP/1.1 422")  # refused when it is mixed
    assert one.store.row("i-4") is None


def body_of(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


UNUSUAL: dict[str, tuple[int, bytes]] = {
    "another method": (405, b"GET " + LIST.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
    "HTTP/1.0": (200, raw(LIST, wanted(1), version="1.0")),
    "HTTP/1.0 that would go on": (200, raw(LIST, wanted(1), version="1.0", Connection="keep-alive")),
    "chunks": (400, raw(LIST, b"0\r\n\r\n", Content_Length=None, Transfer_Encoding="chunked")),
    "a further page": (200, raw(LIST, wanted(1, page=2))),
    "fixed documents": (200, raw(LIST, wanted(1, fixed={"1": "z"}))),
    "a ranking too late": (200, raw(LIST, wanted(1, rankings={"production": OLD, "candidate": None}))),
    "a strange ranker": (422, raw(LIST, wanted(1, rankings={"nobody": OLD}))),
    "an unknown experiment": (404, raw("/v1/experiments/boots/interleave", wanted(1))),
    "an escaped path": (200, raw("/v1/experiments/sho%65s/interleave", wanted(1))),
    "a query in the path": (200, raw(LIST + "?x=1", wanted(1))),
    "a fragment in the path": (200, raw(LIST + "#x", wanted(1))),
    "a slash too many": (404, raw("/v1/experiments/sho/es/interleave", wanted(1))),
    "a page of another site": (403, raw(LIST, wanted(1), Origin="https://elsewhere.example")),
    "text": (415, raw(LIST, wanted(1), Content_Type="text/plain")),
    "a charset": (200, raw(LIST, wanted(1), Content_Type="application/json; charset=utf-8")),
    "no JSON": (400, raw(LIST, b"{")),
    "nothing": (400, raw(LIST, b"")),
    "no length": (400, raw(LIST, b"", Content_Length=None)),
    "unknown fields": (422, raw(LIST, wanted(1, rnkings={}))),
    "a null character": (422, raw(LIST, wanted(1, query="a\0b"))),
    "half a letter": (400, raw(LIST, wanted(1) | {"query": "\ud800"})),
    "too large": (413, raw(LIST, wanted(1, attributes={f"{place}": "x" * 500 for place in range(12)}))),
    "too large to be sent": (413, raw(LIST, b"", Content_Length="1000000000")),
    "the future": (422, raw(LIST, wanted(1, time="2999-01-01T00:00:00Z"))),
    "an unknown version": (422, raw(LIST, wanted(1, version=7))),
    "an unknown key": (401, raw(LIST, wanted(1), Authorization="Bearer nobody")),
    "another scheme": (200, raw(LIST, wanted(1), Authorization="Basic bm9ib2R5")),
    "a token": (403, raw(EVENTS, clicked(1, token="forged"))),
    "an event of nothing": (422, raw(EVENTS, {"events": [{"kind": "click", "rank": 1}]})),
    "no events": (422, raw(EVENTS, {"events": []})),
    "a length that is none": (400, raw(LIST, wanted(1), Content_Length="-1")),
    "two lengths": (400, raw(LIST, wanted(1), CONTENT_LENGTH="7")),
    "no HTTP": (400, b"hello\r\n\r\n"),
    "an upgrade": (200, raw(LIST, wanted(1), Connection="upgrade", Upgrade="h2c")),
    "a length with a space": (200, raw(LIST, wanted(1)).replace(b"\r\n\r\n", b" \r\n\r\n")),
    "a long address": (404, raw("/v1/experiments/" + "x" * 500 + "/interleave", wanted(1))),
    "a strange origin": (403, raw(LIST, wanted(1), Origin="http://[")),
    "the last request": (200, raw(LIST, wanted(1), Connection="close")),
}


def test_what_is_unusual_is_answered(served: Callable[..., Served]) -> None:
    one = served()
    one.ask(raw(LIST, wanted(1)))
    for name, (status, request) in UNUSUAL.items():
        assert [int(answer[9:12]) for answer in one.ask(request)] == [status], name
    with one.connection() as connection:
        connection.sendall(UNUSUAL["the last request"][1])
        assert len(list(read(connection, 2))) == 1  # and then it is closed


def test_without_the_right_key_a_request_is_refused_before_its_body_is_read(served: Callable[..., Served]) -> None:
    one = served(key="read")
    for path, body in ((LIST, wanted(1)), (EVENTS, clicked(1))):
        for authorization in (None, "Bearer", "Bearer nobody", f"Bearer {one.secret}", f"bearer   {one.secret}"):
            request = raw(path, body, Authorization=authorization)
            (answer,) = one.ask(request)
            assert answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 403"))
            if path == LIST:
                assert one.ask(request[:-10]) == [answer]
    assert one.store.row("i-1") is None


def test_each_key_has_a_rate_limit(served: Callable[..., Served]) -> None:
    one = served(key="ingest", requests_per_second=4.0)
    one.service.access._rates._watch = lambda: 1000.0
    answers = [one.ask(raw(LIST, wanted(place), Authorization=f"Bearer {one.secret}"))[0] for place in range(6)]
    assert [answer[9:12] for answer in answers] == [b"201"] * 4 + [b"429"] * 2


def test_other_machines_are_answered_only_with_keys(served: Callable[..., Served]) -> None:
    assert b"wrong_host" in served(loopback_only=True).ask(raw(LIST, wanted(1), Host="elsewhere.example"))[0]


def test_a_store_that_fails_is_reported_without_details(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = served()

    def away(*_: Any) -> Any:
        raise StoreError("the store is away; try again")

    def broken(*_: Any) -> Any:
        raise RuntimeError("secret detail")

    for failing, status in ((away, b"503"), (broken, b"500")):
        monkeypatch.setattr(one.store, "write", failing)
        for request in (raw(LIST, wanted(1)), raw(EVENTS, clicked(1))):
            (answer,) = one.ask(request)
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert b"secret detail" not in answer
    assert caplog.text.count("a request failed") == 2


def test_responses_without_a_body_are_sent_in_order(served: Callable[..., Served]) -> None:
    one, head = served(), b"HEAD /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    for rest, statuses in ((b"\r\nnonsense\r\n\r\n", [b"200", b"400"]), (b"Connection: close\r\n\r\n", [b"200"])):
        with one.connection() as connection:
            connection.sendall(head + rest)
            answer = b"".join(iter(partial(connection.recv, 65536), b""))
        assert re.findall(rb"HTTP/1.1 (\d+)", answer) == statuses


def test_a_request_that_cannot_be_planned_does_not_break_others(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan_all_but_one(experiment: Experiment, version: int, request: Request, *more: Any) -> Any:
        if request.impression == "i-2":
            raise RuntimeError("secret detail")
        return plan_list(experiment, version, request, *more)

    monkeypatch.setattr(ingest, "plan_list", plan_all_but_one)
    repeated = raw(LIST, wanted(1, rankings={"production": ["a", "b", "a"], "candidate": ["b"]}))
    answers = served().ask(repeated + raw(LIST, wanted(2)) + raw(LIST, wanted(3)), answers=3)
    assert [answer[9:12] for answer in answers] == [b"422", b"500", b"201"]
    assert b"holds document 'a' twice, at ranks 1 and 3" in answers[0]
    assert b"secret detail" not in answers[1]


def test_a_list_that_cannot_be_drawn_does_not_break_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def draw_all_but_one(rankings: Any, chosen: Any, k: int, keys: list[str]) -> Any:
        calls.append(len(keys))
        if any("bad" in ranking for one in rankings for ranking in one.values()):
            raise RuntimeError("this list cannot be drawn")
        return draw_all(rankings, chosen, k, keys)

    monkeypatch.setattr(serving, "draw_all", draw_all_but_one)
    store, shoes = open_store(tmp_path / "store.sqlite"), Experiment.of(SHOES)
    store.create(shoes, START, "test")

    def planned(number: int) -> StoredImpression:
        rankings = RANKINGS | {"candidate": ["bad"] if number == 2 else RANKINGS["candidate"]}
        request = Request(f"i-{number}", f"u-{number}", "trail", rankings)
        return StoredImpression(
            request.impression, "shoes", 1, request.unit, START, START, {}, shown=plan_list(shoes, 1, request)
        )

    async def written(impressions: list[StoredImpression]) -> list[Any]:
        queue = WriteQueue(store)
        results = await asyncio.gather(*map(queue.put, impressions), return_exceptions=True)
        await queue.close()
        return results

    with closing(store):
        lists = [planned(number) for number in range(5)]
        results = asyncio.run(written(lists))
        assert calls[0] == 5  # together
        assert [str(result) for result in results] == ["None", "None", "this list cannot be drawn", "None", "None"]
        for number in (0, 1, 3, 4):
            expected = show(shoes, 1, Request(f"i-{number}", f"u-{number}", "trail", RANKINGS))
            row, shown = store.row(f"i-{number}"), lists[number].shown
            assert row is not None
            assert shown is not None
            assert row["documents"] == shown.documents == expected.documents
        assert store.row("i-2") is None


def test_lists_of_long_rankings_are_drawn_in_a_thread(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def draw_and_note(lists: Any) -> None:
        if lists:
            threads.append(threading.current_thread())
        draw_lists(lists)

    monkeypatch.setattr(impression_rows, "draw_lists", draw_and_note)
    monkeypatch.setattr(ingest, "MAX_DOCUMENTS_IN_LOOP", 20)
    one, long = served(), [f"d{number}" for number in range(11)]
    rankings = {"production": long, "candidate": long[::-1]}
    answers = one.ask(raw(LIST, wanted(1)) + raw(LIST, wanted(2)) + raw(LIST, wanted(3, rankings=rankings)), answers=3)
    assert len(threads) == 3
    assert threads[0] is threads[1] is not threads[2]
    expected = show(one.store.experiment("shoes").settings, 1, Request("i-3", "u-3", "trail", rankings))
    assert body_of(answers[2])["documents"] == expected.documents


def test_rankings_too_long_for_the_method_are_refused_and_others_are_not(served: Callable[..., Served]) -> None:
    one, long = served(max_body=500_000), [f"d{number}" for number in range(1000)]
    steep = Experiment.of({"name": "steep", "rankers": ["production", "candidate"], "method": "probabilistic(tau=100)"})
    one.store.create(steep, START, "test")
    one.store.start("steep", START, "test")
    path = "/v1/experiments/steep/interleave"
    refused = raw(path, wanted(1, rankings={"production": long, "candidate": long}))
    answers = one.ask(refused + raw(path, wanted(2)), answers=2)
    assert [answer[9:12] for answer in answers] == [b"422", b"201"]
    assert b"too steep for rankings of 1000 documents" in answers[0]


def test_what_the_store_refuses_is_freed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path / "store.sqlite")

    def away(*_: Any) -> Any:
        raise StoreError("the store is away; try again")

    monkeypatch.setattr(store, "write", away)

    async def refused() -> int:
        queue = WriteQueue(store)
        lists = [StoredImpression(f"i-{number}", "shoes", 1, None, 0, 0, {}) for number in range(5)]
        results = await asyncio.gather(*map(queue.put, lists), return_exceptions=True)
        await queue.close()
        return sum(isinstance(result, StoreError) for result in results)

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(refused()) == 5
        assert not [one for one in gc.get_objects() if type(one) is StoredImpression]  # and ask no proxy
    finally:
        gc.enable()
        store.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ExitStack() as stack:
        one = Served(stack, tmp_path_factory.mktemp("wire"))
        one.ask(b"".join(raw(LIST, wanted(number)) for number in range(31)), answers=31)
        yield one


ENDING = {
    "HTTP/1.0",
    "HTTP/1.0 that would go on",
    "too large to be sent",
    "no HTTP",
    "the last request",
    "no length",
    "a length that is none",
    "two lengths",
}
GOING_ON = [request for name, request in UNUSUAL.items() if name not in ENDING]  # the connection can be used further
requests = st.lists(
    st.one_of(
        st.integers(0, 30).map(lambda number: (200, raw(LIST, wanted(number)))),
        st.integers(0, 30).map(lambda number: (202, raw(EVENTS, clicked(number)))),
        st.sampled_from(GOING_ON),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=100, deadline=None)
@given(requests, st.lists(st.floats(0, 1), max_size=5))
def test_several_at_once_cut_anywhere_are_answered_in_order(
    shared: Served, sent: list[tuple[int, bytes]], cuts: list[float]
) -> None:
    data = b"".join(request for _, request in sent)
    places = sorted(round(cut * len(data)) for cut in cuts)
    pieces = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    answers = shared.ask(*pieces, answers=len(sent))
    assert [int(answer[9:12]) for answer in answers] == [status for status, _ in sent]


def test_who_sends_and_never_reads_is_made_to_wait(served: Callable[..., Served]) -> None:
    """One request after the other, and only the system keeps the answers that nobody reads."""
    one = served(max_body=200_000)
    long_ids = [f"{place:0500}" for place in range(100)]
    rankings = {"production": long_ids, "candidate": long_ids[::-1]}
    stopped = threading.Event()

    def send(connection: Any) -> None:
        for number in range(2000):
            if stopped.is_set():
                return
            try:
                connection.sendall(raw(LIST, wanted(number, rankings=rankings, k=100)))
            except OSError:  # the test may close the connection in the middle of the last request
                assert stopped.is_set()
                return

    def written() -> int:
        return sum(one.store.row(f"i-{number}") is not None for number in range(2000))

    with one.connection() as connection:
        sender = threading.Thread(target=send, args=(connection,))
        sender.start()
        seen = -1
        while seen != (seen := written()) or seen == 0:  # until no more are taken
            time.sleep(1)
        assert seen < 1900
        stopped.set()
        answers = list(read(connection, seen))
    sender.join(120)
    assert [body_of(answer)["impression"] for answer in answers] == [f"i-{place}" for place in range(seen)]


def test_who_goes_away_before_the_answer_has_its_list_stored(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = served()
    holding = threading.Event()
    write = one.store.write

    def slow(*given: Any) -> Any:
        holding.wait(120)
        return write(*given)

    monkeypatch.setattr(one.store, "write", slow)
    connection = one.connection()
    connection.sendall(raw(LIST, wanted(1)))
    until(lambda: one.service.write_queue._busy)
    connection.close()
    holding.set()
    until(lambda: one.store.row("i-1") is not None)
    until(lambda: not one.service.write_queue._busy)
    assert b" 201 " in one.ask(raw(LIST, wanted(2)))[0]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_the_end_of_the_server_waits_for_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holding = threading.Event()
    with ExitStack() as stack:
        one = Served(stack, tmp_path)
        store, write = one.store, one.store.write
        one.ask(raw(LIST, wanted(0)))
        waiting, idle, half = [one.connection() for _ in range(3)]
        request = raw(LIST, wanted(2))
        half.sendall(request[:-10])
        one.ask(raw(LIST, wanted(4)))  # what was sent before is read when this is answered
        monkeypatch.setattr(store, "write", lambda *given: holding.wait(120) and write(*given))
        waiting.sendall(raw(LIST, wanted(1)))
        until(lambda: one.service.write_queue._busy)
        ending = threading.Thread(target=stack.close)
        ending.start()
        assert idle.recv(100) == b""  # closed: who is asked nothing need not wait
        holding.set()
        assert [b" 201 " in answer and b"connection: close" in answer for answer in read(waiting, 1)] == [True]
        half.sendall(request[-10:])
        assert [b" 201 " in answer and b"connection: close" in answer for answer in read(half, 1)] == [True]
        ending.join(120)
        assert not ending.is_alive()
        for connection in (waiting, idle, half):
            connection.close()
    with closing(open_store(tmp_path / "store.sqlite")) as store:
        assert None not in [store.row(f"i-{number}") for number in (1, 2)]
