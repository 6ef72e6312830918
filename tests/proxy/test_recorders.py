"""Impressions and events of the proxy in a real service: delivered in the background, spooled while it is away."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from interleaf import log
from interleaf.experiment import Experiment
from interleaf.server.app import create_app
from interleaf.server.service import ServiceSettings
from interleaf.store import open_store
from tests.support.proxies import BODY, PATCH, Reply, RunningProxy, running_proxy
from tests.support.services import listening
from tests.support.stand_in import until
from tests.support.stub_engine import OLD, StubEngine

Start = Callable[..., RunningProxy]
SETTINGS = {"name": "shop", "rankers": ["production", "candidate"], "browser_events": ["click"]}


@contextmanager
def service(folder: Path, **settings: Any) -> Iterator[tuple[str, Any]]:
    store, now = open_store(folder / "store.sqlite"), time.time_ns() // 1000
    store.create(Experiment.of(SETTINGS | settings), now, "test")
    store.start("shop", now, "test")
    with listening(create_app(store, settings=ServiceSettings(fold_seconds=3600))) as url:
        yield url, store
    store.close()


def wait_for_settings(proxy: RunningProxy) -> None:
    until(lambda: proxy.app.recorder.running() is not None)


def delivered(proxy: RunningProxy) -> bool:
    status = proxy.app.recorder.status()
    return status["waiting"] == 0 and not status["away"] and proxy.app.recorder._thread._waiting == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("windows", [[(0, 10), (10, 10), (20, 10)], [(0, 10), (0, 20), (0, 30)], [(0, 10), (10, 20)]])
def test_the_service_gets_the_lists_that_people_saw(
    engine: StubEngine, tmp_path: Path, windows: list[tuple[int, int]]
) -> None:
    with (
        service(tmp_path) as (url, store),
        running_proxy(engine.url, tmp_path, experiment=f'service = "{url}"') as proxy,
    ):
        wait_for_settings(proxy)
        pages = [proxy.search(BODY | {"from": first, "size": size}) for first, size in windows]
        until(lambda: delivered(proxy))
        row = store.row(pages[0].note["impression"])
        assert len(row["documents"]) == 30
        for page, (first, size) in zip(pages, windows, strict=True):
            assert page.note["impression"] == pages[0].note["impression"]
            assert row["documents"][first : first + size] == page.ids
        assert (row["unit"], row["query"], row["arm"]) == ("user-7", "shoes", "interleaved")
        assert row["latency"] is not None


def test_search_goes_on_while_the_service_is_away(engine: StubEngine, tmp_path: Path) -> None:
    """The settings come from the spool folder; impressions and events are delivered when the service is back."""
    with ExitStack() as stack:
        url, store = stack.enter_context(service(tmp_path))
        experiment = f'service = "{url}"\nspool = "{tmp_path / "spool"}"'
        with running_proxy(engine.url, tmp_path, experiment=experiment) as proxy:
            wait_for_settings(proxy)
    dead = f'service = "{url}"\nspool = "{tmp_path / "spool"}"'
    with running_proxy(engine.url, tmp_path, experiment=dead) as proxy:
        wait_for_settings(proxy)
        reply = proxy.search()
        assert proxy.ask("POST", "/_interleaf/events", click(reply, 3)).status == 202
        until(lambda: proxy.app.recorder.status()["waiting"] == 2 and proxy.app.recorder.status()["away"])
        waiting = b"\ninterleaf_proxy_records_waiting 2.0\n"  # records on their way to the spool may count for a moment
        until(lambda: waiting in proxy.ask("GET", "/_interleaf/metrics").body)
        assert b"\ninterleaf_proxy_service_away 1.0\n" in proxy.ask("GET", "/_interleaf/metrics").body
        assert len(reply.ids) == 10
    store = open_store(tmp_path / "store.sqlite")
    with listening(create_app(store, settings=ServiceSettings(fold_seconds=3600))) as again:
        config = f'service = "{again}"\nspool = "{tmp_path / "spool"}"'
        with running_proxy(engine.url, tmp_path, experiment=config) as proxy:
            until(lambda: delivered(proxy))
            row = store.row(reply.note["impression"])
        assert row is not None
        assert row["documents"] == reply.ids
    store.close()


UNFIT: list[dict[str, Any]] = [
    {"rankers": ["production", "other"]},
    {"control": "candidate"},
    {"mode": "choose", "rankers": ["production", "candidate", "third"]},
]


@pytest.mark.parametrize("settings", UNFIT)
def test_an_experiment_of_the_service_that_the_proxy_cannot_run(
    engine: StubEngine, tmp_path: Path, settings: dict[str, Any]
) -> None:
    with ExitStack() as stack:
        third = '\n[[rankers]]\nname = "third"' if "third" in settings.get("rankers", ()) else ""
        url, _ = stack.enter_context(service(tmp_path, **settings))
        proxy = stack.enter_context(
            running_proxy(engine.url, tmp_path, experiment=f'service = "{url}"', candidate=PATCH + third)
        )
        wait_for_settings(proxy)
        assert proxy.search().ids == OLD[:10]
        assert proxy.failures == {"configuration": 1}


def test_a_service_that_chooses_the_best_of_many(engine: StubEngine, tmp_path: Path) -> None:
    """The proxy would ask all rankers, and mix two of them."""
    rankers = ["production", "candidate", "third"]
    third = '[[rankers]]\nname = "third"\nindex = "other"'
    with ExitStack() as stack:
        url, _ = stack.enter_context(service(tmp_path, rankers=rankers, mode="choose"))
        parts = {"experiment": f'service = "{url}"', "candidate": f"{PATCH}\n{third}"}
        proxy = stack.enter_context(running_proxy(engine.url, tmp_path, **parts))
        wait_for_settings(proxy)
        assert proxy.search().ids == OLD[:10]
        assert (proxy.failures, proxy.bypassed, len(engine.asked)) == ({"configuration": 1}, {}, 1)


def test_bots_do_not_count_in_the_log(engine: StubEngine, tmp_path: Path) -> None:
    """As in a service: by user agent, by unit, and by impressions an hour."""
    rules = 'bot_agents = ["googlebot"]\nbot_units = ["evil"]\nbot_rate = 2'
    with running_proxy(engine.url, tmp_path, experiment=f'log = "{tmp_path / "log"}"\n{rules}') as proxy:
        proxy.search(unit="crawler", User_Agent="Mozilla/5.0 (compatible; Googlebot/2.1)")
        proxy.search(BODY | {"from": 10}, unit="crawler", User_Agent="Mozilla/5.0 (compatible; Googlebot/2.1)")
        proxy.search(unit="evil")
        for text in ("boots", "coats", "hats"):
            proxy.search({"query": {"multi_match": {"query": text, "fields": ["title"]}}}, unit="busy")
            proxy.search({"query": {"multi_match": {"query": text, "fields": ["title"]}}, "from": 10}, unit="busy")
    rows = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    found = {(row["unit"], row["query"]): (row["excluded"], row["page"]) for row in rows}
    assert found == {
        ("crawler", "shoes"): ("user agent", 2),
        ("evil", "shoes"): ("listed unit", 1),
        ("busy", "boots"): (None, 2),
        ("busy", "coats"): (None, 2),
        ("busy", "hats"): ("too many impressions an hour", 2),
    }


def test_a_service_that_hangs_delays_no_search(engine: StubEngine, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hung:
        url = f"http://127.0.0.1:{hung.getsockname()[1]}"
        with running_proxy(engine.url, tmp_path, experiment=f'service = "{url}"') as proxy:
            began = time.monotonic()
            assert [proxy.search().ids for _ in range(5)] == [OLD[:10]] * 5
            assert proxy.bypassed == {"not_running": 5}  # the settings are not known
            assert time.monotonic() - began < 1.5


def test_a_full_spool_is_a_failure(engine: StubEngine, tmp_path: Path) -> None:
    with ExitStack() as stack:
        url, _ = stack.enter_context(service(tmp_path))
        spool = f'service = "{url}"\nspool = "{tmp_path / "spool"}"'
        with running_proxy(engine.url, tmp_path, experiment=spool) as proxy:
            wait_for_settings(proxy)
    with running_proxy(engine.url, tmp_path, experiment=spool) as proxy:  # the service is away
        wait_for_settings(proxy)
        proxy.app.recorder._client._spool._max_records = 1  # type: ignore[attr-defined]
        reply = proxy.search()
        until(lambda: proxy.app.recorder.status()["waiting"] == 1)
        assert proxy.ask("POST", "/_interleaf/events", click(reply, 3)).status == 202
        until(lambda: proxy.failures == {"not_recorded": 1})


def click(reply: Reply, rank: int | None, **more: Any) -> bytes:
    event = {"impression": reply.note["impression"], "rank": rank, "kind": "click"} | more
    return json.dumps({"events": [event], "token": reply.note["token"]}).encode()


def events_of(folder: Path) -> list[tuple[str, int]]:
    rows = [row for batch in log.read(folder / "log") for row in batch.to_pylist()]
    return [(event["kind"], event["rank"]) for row in rows for event in row["events"]]


def test_browsers_report_clicks_with_the_token_of_the_answer(engine: StubEngine, tmp_path: Path) -> None:
    with running_proxy(engine.url, tmp_path) as proxy:
        reply, other = proxy.search(), proxy.search(unit="user-8")
        assert proxy.ask("POST", "/_interleaf/events", click(reply, 2, dwell=3.5)).status == 202
        wrong = json.loads(click(reply, 1)) | {"token": other.note["token"]}
        bodies = [
            json.dumps(wrong).encode(),
            json.dumps(wrong | {"token": None}).encode(),
            click(reply, 1, kind="purchase"),
            click(reply, None),
        ]
        assert [proxy.ask("POST", "/_interleaf/events", body).status for body in bodies] == [403] * 4
        assert proxy.ask("POST", "/_interleaf/events", b"{").status == 400
        assert proxy.ask("POST", "/_interleaf/events", b'{"events": []}').status == 422
        assert proxy.ask("POST", "/_interleaf/events", b" " * 200_000).status == 413
        assert proxy.ask("GET", "/_interleaf/events").status == 404
    assert events_of(tmp_path) == [("click", 2)]
    assert not any("_interleaf" in one.target for one in engine.asked)


def test_the_script_for_result_pages_sends_events_to_the_proxy(proxy: RunningProxy) -> None:
    reply = proxy.ask("GET", "/_interleaf/interleaf.js")
    assert reply.status == 200
    assert b'"/_interleaf/events"' in reply.body
    assert b'"/v1/events"' not in reply.body


def test_links_count_clicks_and_lead_to_the_document_only(engine: StubEngine, tmp_path: Path) -> None:
    with running_proxy(engine.url, tmp_path, clicks='[clicks]\nlink = "/_source/url"') as proxy:
        reply = proxy.search(BODY | {"from": 10})
        reply = proxy.search(BODY | {"from": 0})
        links = reply.note["links"]
        assert len(links) == 10
        followed = proxy.ask("GET", links[3])
        assert (followed.status, followed.header("location")) == (302, f"https://shop.example/{reply.ids[3]}")
        assert (followed.header("cache-control"), followed.header("referrer-policy")) == ("no-store", None)
        assert proxy.ask("HEAD", links[4]).status == 302
        assert proxy.ask("GET", links[5], headers={"Sec-Purpose": "prefetch"}).status == 302
        values = {name: value[0] for name, value in parse_qs(urlsplit(links[3]).query).items()}
        for name, value in [("u", "https://evil.example/"), ("r", "1"), ("i", "other"), ("s", "0" * 32), ("s", "ä")]:
            assert proxy.ask("GET", f"/_interleaf/click?{urlencode(values | {name: value})}").status == 403
        assert proxy.ask("GET", "/_interleaf/click").status == 403
        assert proxy.ask("GET", "/_interleaf/click?i=%ff").status == 400
    assert events_of(tmp_path) == [("click", 4)]


@pytest.mark.parametrize("url", ["javascript:alert(1)", "//evil.example", "/\\evil.example", "https:", "a\r\nb: c", 7])
def test_documents_without_a_proper_url_have_no_link(start: Start, engine: StubEngine, url: Any) -> None:
    proxy = start(clicks='[clicks]\nlink = "/_source/url"')
    hit = {"_id": "a", "_score": 1.0, "_source": {"url": url}}
    engine.search = lambda *arguments: (200, {"hits": {"hits": [hit]}})  # type: ignore[method-assign]
    assert proxy.search().note["links"] == [None]


def test_clicks_on_results_of_no_ranker_do_not_spoil_the_impression(engine: StubEngine, tmp_path: Path) -> None:
    """A page may go on with the control's results behind the mixed list; the log has no such ranks."""
    with running_proxy(engine.url, tmp_path, requests="depth = 2", clicks='[clicks]\nlink = "/_source/url"') as proxy:
        reply = proxy.search()
        assert len(reply.ids) == 10
        for rank in (1, 10):
            assert proxy.ask("POST", "/_interleaf/events", click(reply, rank)).status == 202
        assert proxy.ask("GET", reply.note["links"][8]).status == 302
        counts = dict(proxy.app.metrics.events)
    assert counts == {"browser:taken": 1, "browser:unmatched": 1, "link:unmatched": 1}
    assert events_of(tmp_path) == [("click", 1)]


def ubi(query_id: str, **attributes: Any) -> dict[str, Any]:
    event = {"action_name": "click", "query_id": query_id, "client_id": "c", "timestamp": "2026-01-01T00:00:00Z"}
    return event | {"event_attributes": attributes}


ND = {"Content-Type": "application/x-ndjson"}


def lines_of(*lines: Any) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def search_with_query_id(proxy: RunningProxy, name: str = "q-1") -> Reply:
    return proxy.search(BODY | {"ext": {"ubi": {"query_id": name}}})


def test_ubi_events_on_their_way_to_the_engine_are_read(engine: StubEngine, tmp_path: Path) -> None:
    with running_proxy(engine.url, tmp_path) as proxy:
        reply = search_with_query_id(proxy)
        one = json.dumps(ubi("q-1", object={"object_id": reply.ids[4]}), indent=2).encode()
        here: dict[str, Any] = {"index": {}}
        bulk = lines_of(
            *({"create": {"_index": "ubi_events"}}, ubi("q-1", position={"ordinal": 2})),
            *(here, ubi("q-1", object={"object_id": "elsewhere"})),
            *(here, ubi("unknown", position={"ordinal": 1})),
            *(here, ubi("q-1", position={"ordinal": 1}) | {"action_name": "hover"}),
            *(here, ubi("q-1", position={"ordinal": 1}) | {"action_name": ["click"]}),
            *(here, "not an object"),
        )
        for _ in range(2):  # the same record again counts once
            assert proxy.ask("POST", "/ubi_events/_doc", one).json == {"echo": ["POST", "/ubi_events/_doc"]}
        proxy.ask("POST", "/ubi_events/_bulk", bulk, ND)
        until(lambda: sum(proxy.app.metrics.events.values()) == 7)  # after the answer
        counts = dict(proxy.app.metrics.events)
        assert not proxy.failures
    assert [asked.body for asked in engine.asked[1:]] == [one, one, bulk]
    assert counts == {"ubi:taken": 3, "ubi:unmatched": 2, "ubi:ignored": 2}
    assert sorted(events_of(tmp_path)) == [("click", 2), ("click", 5)]


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_only_ubi_events_that_the_engine_stored_in_their_index_count(
    engine: StubEngine, tmp_path: Path, coding: str
) -> None:
    events = [ubi("q-1", position={"ordinal": rank}) for rank in range(1, 7)]
    bulk = lines_of(
        *({"index": {"_index": "other"}}, events[0]),
        {"delete": {"_index": "ubi_events", "_id": "1"}},
        *({"index": {"_index": "ubi_events"}}, events[1]),
        *({"index": {"_index": "ubi_events"}}, events[2] | {"note": "refused"}),
        *({"update": {"_index": "ubi_events", "_id": "1"}}, events[3]),
        *({"create": {"_index": "ubi_events"}}, events[4]),
        *({"index": {}}, events[5]),
    )
    with running_proxy(engine.url, tmp_path) as proxy:
        search_with_query_id(proxy)
        engine.coding = coding
        answer = proxy.ask("POST", "/_bulk", bulk, ND).body
        engine.coding = ""
        until(lambda: proxy.app.metrics.events == {"ubi:taken": 2})
    assert len(json.loads(gzip.decompress(answer) if coding else answer)["items"]) == 7
    assert sorted(events_of(tmp_path)) == [("click", 2), ("click", 5)]


ACTION = {"index": {"_index": "ubi_events"}}
LARGE = lines_of(*[part for _ in range(8) for part in (ACTION, ubi("q-1", position={"ordinal": 1}))])


@pytest.mark.parametrize(
    ("path", "body", "headers", "count"),
    [
        ("/_bulk", LARGE, ND, 1),
        ("/ubi_events/_bulk", LARGE.replace(b"ubi_events", b""), ND, 1),
        ("/_bulk", LARGE.replace(b"ubi_events", b"products"), ND, 0),  # not about UBI
        ("/_bulk", gzip.compress(LARGE), ND | {"Content-Encoding": "gzip"}, 1),
        ("/_bulk", lines_of(ACTION, ubi("q-1")), ND, 1),  # the answer does not say what is stored
    ],
)
def test_ubi_events_that_cannot_be_read_are_counted(
    start: Start, engine: StubEngine, path: str, body: bytes, headers: dict[str, str], count: int
) -> None:
    proxy = start(proxy="max_body = 1000")
    search_with_query_id(proxy)
    engine.store = lambda body: {"acknowledged": True}  # type: ignore[method-assign]
    assert proxy.ask("POST", path, body, headers).status == 200
    proxy.ask("POST", "/ubi_events/_bulk", LARGE, ND)  # counted after those of the request before
    until(lambda: proxy.failures == {"events_not_read": count + 1})
    assert not proxy.app.metrics.events


def test_a_bulk_request_whose_answer_says_that_all_went_well_only(proxy: RunningProxy, engine: StubEngine) -> None:
    search_with_query_id(proxy)
    engine.store = lambda body: {"errors": False}  # type: ignore[method-assign]
    body = lines_of(ACTION, ubi("q-1", position={"ordinal": 1}))
    proxy.ask("POST", "/_bulk?filter_path=errors", body, ND)
    until(lambda: proxy.app.metrics.events == {"ubi:taken": 1})


def test_only_the_control_s_search_is_written_down_by_ubi(proxy: RunningProxy, engine: StubEngine) -> None:
    proxy.search(BODY | {"ext": {"ubi": {"query_id": "q-1"}, "other": 1}})
    control, candidate = engine.searches()
    assert control["ext"] == {"ubi": {"query_id": "q-1"}, "other": 1}
    assert candidate["ext"] == {"other": 1}


def test_health_and_metrics(proxy: RunningProxy, engine: StubEngine) -> None:
    proxy.search()
    proxy.search(BODY | {"sort": "price"})
    proxy.ask("GET", "/x")
    health = proxy.ask("GET", "/_interleaf/health").json
    assert (health["status"], health["experiment"], health["lists"]) == ("running", "shop", {"interleaved": 1})
    assert health["bypassed"] == {"sort": 1}
    text = proxy.ask("GET", "/_interleaf/metrics").body.decode()
    assert 'interleaf_proxy_bypassed_total{code="sort"} 1.0' in text
    assert "interleaf_proxy_service_away 0.0" in text
    assert 'interleaf_proxy_requests_total{kind="passed",status="200"} 1.0' in text
    assert proxy.ask("GET", "/_interleaf/nothing").status == 404
