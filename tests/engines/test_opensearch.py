"""Searches of real OpenSearch and Elasticsearch nodes through the proxy, held against the engine's own answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from interleaf import log
from tests.support.engines import INDEX, RunningEngine, proxy_of
from tests.support.proxies import Reply, RunningProxy

SEARCH = f"/{INDEX}/_search"
FIELDS = {"production": ["title", "text"], "candidate": ["title^3", "text"]}
QUERY = "rain shoe"


@pytest.fixture(scope="session", params=["elasticsearch", "opensearch"])
def engine(request: pytest.FixtureRequest) -> RunningEngine:
    engine: RunningEngine = request.getfixturevalue(request.param)
    return engine


@pytest.fixture
def proxy(engine: RunningEngine, tmp_path: Path) -> Iterator[RunningProxy]:
    with proxy_of(engine, tmp_path) as proxy:
        yield proxy


def query(ranker: str = "production", text: str = QUERY) -> dict[str, Any]:
    return {"query": {"multi_match": {"query": text, "fields": FIELDS[ranker]}}}


def direct(engine: RunningEngine, method: str, target: str, body: Any = None) -> Reply:
    """The engine's own answer, byte for byte."""
    port = int(engine.url.rpartition(":")[2])
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request(method, target, content, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return Reply(response.status, response.getheaders(), response.read())
    finally:
        connection.close()


def ranking(engine: RunningEngine, ranker: str, size: int = 50, **more: Any) -> list[str]:
    return direct(engine, "POST", SEARCH, query(ranker) | {"size": size} | more).ids


def without_took(reply: Reply) -> Any:
    return {name: value for name, value in reply.json.items() if name != "took"}


def headers_of(reply: Reply) -> list[tuple[str, str]]:
    return sorted((name.lower(), value) for name, value in reply.headers)


BULK = b'{"index": {"_id": "1"}}\n{"title": "a"}\n'
PASSED = [
    ("GET", f"/{INDEX}/_doc/p7", None),
    ("GET", f"/{INDEX}/_doc/nothing", None),
    ("HEAD", f"/{INDEX}/_doc/p7", None),
    ("GET", f"/{INDEX}/_mapping?pretty", None),
    ("GET", "/_cat/indices?v&h=index,docs.count&s=index", None),
    ("POST", f"/{INDEX}/_count", query()),
    ("POST", f"/{INDEX}/_mget", {"ids": ["p1", "p2"]}),
    ("GET", f"/{INDEX}/_analyze", {"analyzer": "standard", "text": "Rain shoes"}),
    ("POST", "/_all/_search?filter_path=hits", query()),
    ("POST", "/nowhere/_search", query()),
    ("POST", "/_msearch?filter_path=responses.hits", b'{"index": "written"}\n{"size": 2}\n'),
    ("PATCH", "/", None),
    ("GET", f"/{INDEX}/_doc/%C3%A9%2F?routing=a%20b", None),
]


@pytest.mark.parametrize(("method", "target", "body"), PASSED, ids=[f"{one[0]} {one[1]}" for one in PASSED])
def test_other_requests_are_answered_byte_for_byte(
    engine: RunningEngine, proxy: RunningProxy, method: str, target: str, body: Any
) -> None:
    expected = direct(engine, method, target, body)
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    reply = proxy.ask(method, target, content, {"Content-Type": "application/json"})
    assert (reply.status, reply.body) == (expected.status, expected.body)
    assert headers_of(reply) == headers_of(expected)
    assert not proxy.bypassed


def test_documents_are_written_through_the_proxy(engine: RunningEngine, proxy: RunningProxy) -> None:
    made = proxy.ask("POST", "/written/_bulk?refresh=true", BULK, {"Content-Type": "application/x-ndjson"})
    assert (made.status, made.json["errors"]) == (200, False)
    assert direct(engine, "GET", "/written/_doc/1").json["_source"] == {"title": "a"}
    assert proxy.ask("DELETE", "/written").status == 200
    assert direct(engine, "GET", "/written").status == 404


def test_a_list_has_the_hits_of_both_rankers_and_all_else_from_the_control(
    engine: RunningEngine, tmp_path: Path
) -> None:
    more: dict[str, Any] = {
        "aggs": {"brands": {"terms": {"field": "brand"}}, "price": {"stats": {"field": "price"}}},
        "highlight": {"fields": {"title": {}}},
        "suggest": {"typo": {"text": "shae", "term": {"field": "title"}}},
        "_source": ["id", "title"],
        "size": 20,
    }
    control = direct(engine, "POST", SEARCH, query() | more)
    rankings = {ranker: ranking(engine, ranker) for ranker in FIELDS}
    with proxy_of(engine, tmp_path) as proxy:
        reply = proxy.search(query() | more)
    assert rankings["production"][:20] != rankings["candidate"][:20]
    (row,) = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert dict(zip(row["rankers"], row["rankings"], strict=True)) == rankings
    assert row["documents"] == reply.ids
    assert reply.note["impression"] == row["impression"]
    for ranker in FIELDS:  # each gave documents that the other has not in its first 20
        assert set(reply.ids) & set(rankings[ranker][:20])
    found, own = reply.json, control.json
    for part in ("aggregations", "suggest", "_shards", "timed_out"):
        assert found[part] == own[part]
    assert found["hits"]["total"] == own["hits"]["total"]
    scores = [hit["_score"] for hit in found["hits"]["hits"]]
    assert all(first > second for first, second in pairwise(scores))
    assert found["hits"]["max_score"] == scores[0]
    every = direct(engine, "POST", SEARCH, query() | more | {"size": 240}).json["hits"]["hits"]
    known = {hit["_id"]: {name: hit[name] for name in hit if name != "_score"} for hit in every}
    for hit in found["hits"]["hits"]:
        assert {name: hit[name] for name in hit if name != "_score"} == known[hit["_id"]]
        assert hit["highlight"]["title"]


def test_pages_continue_the_list_to_its_end_without_repeats(
    engine: RunningEngine, proxy: RunningProxy, tmp_path: Path
) -> None:
    control = ranking(engine, "production", 240)
    rankings = {ranker: ranking(engine, ranker) for ranker in FIELDS}
    pages = [proxy.search(query() | {"from": first, "size": 10}) for first in range(0, 240, 10)]
    shown = [one for page in pages for one in page.ids]
    assert len(shown) == len(set(shown)) == len(control)
    assert set(shown) == set(control)
    mixed = len({*rankings["production"], *rankings["candidate"]})
    assert set(shown[:mixed]) == {*rankings["production"], *rankings["candidate"]}
    assert shown[mixed:] == [one for one in control if one not in set(shown[:mixed])]
    impressions = [page.note["impression"] for page in pages]
    assert len(set(impressions[: mixed // 10])) == 1
    scores = [hit["_score"] for page in pages[: mixed // 10] for hit in page.json["hits"]["hits"]]
    assert all(first > second for first, second in pairwise(scores))
    assert {page.json["hits"]["total"]["value"] for page in pages} == {len(control)}
    assert proxy.search(query() | {"from": 240}).ids == []


BYPASSES: dict[str, dict[str, Any]] = {
    "sort": {"sort": [{"price": "asc"}, {"id": "asc"}]},
    "search_after": {"sort": [{"price": "asc"}, {"id": "asc"}], "search_after": [30, "p1"]},
    "collapse": {"collapse": {"field": "brand"}},
    "explain": {"explain": True},
    "no_hits": {"size": 0, "aggs": {"brands": {"terms": {"field": "brand"}}}},
    "page_too_far": {"from": 995, "size": 10},
}


@pytest.mark.parametrize("code", BYPASSES)
def test_what_cannot_be_interleaved_gets_the_answer_of_the_engine(
    code: str, engine: RunningEngine, proxy: RunningProxy
) -> None:
    body = query() | BYPASSES[code]
    reply = proxy.search(body)
    assert without_took(reply) == without_took(direct(engine, "POST", SEARCH, body))
    assert proxy.bypassed == {code: 1}
    assert proxy.failures == {}


def test_a_scroll_is_read_to_its_end(proxy: RunningProxy) -> None:
    reply = proxy.search(query() | {"size": 100}, path=f"{SEARCH}?scroll=1m")
    ids = reply.ids
    while reply.ids:
        again = json.dumps({"scroll": "1m", "scroll_id": reply.json["_scroll_id"]}).encode()
        reply = proxy.ask("POST", "/_search/scroll", again, {"Content-Type": "application/json"})
        ids += reply.ids
    assert len(ids) == len(set(ids)) > 100
    assert proxy.bypassed == {"scroll": 1}


@pytest.mark.parametrize("body", [b'{"query": {"no_such_query": {}}}', b'{"query": ', b"[]"])
def test_an_error_of_the_engine_is_the_answer(body: bytes, engine: RunningEngine, proxy: RunningProxy) -> None:
    expected = direct(engine, "POST", SEARCH, body)
    reply = proxy.ask("POST", SEARCH, body, {"Content-Type": "application/json", "X-User": "user-7"})
    assert (reply.status, reply.body) == (expected.status, expected.body)
    assert reply.status == 400
    code = "refused" if b"no_such_query" in body else "not_json"  # the caller's mistake is no failure
    assert (proxy.bypassed, proxy.failures) == ({code: 1}, {})
    latest = proxy.ask("GET", "/_interleaf/health").json["latest"]
    assert code == "not_json" or "unknown query [no_such_query]" in latest["refused"]


def test_a_ranker_that_fails_leaves_the_control(engine: RunningEngine, tmp_path: Path) -> None:
    with proxy_of(engine, tmp_path, candidate='index = "nowhere"') as proxy:
        reply = proxy.search(query() | {"size": 20})
        assert proxy.failures == {"ranker_failed": 1}
        latest = proxy.ask("GET", "/_interleaf/health").json["latest"]["ranker_failed candidate"]
    assert "status 404, index_not_found_exception: no such index [nowhere]" in latest
    assert reply.ids == ranking(engine, "production", 20)


def test_a_ranker_has_an_index_of_its_own(engine: RunningEngine, tmp_path: Path) -> None:
    for number in range(1, 13):
        engine.ask("PUT", f"/newer/_doc/n{number}", {"id": f"n{number}", "title": f"rain shoe {number}", "text": "new"})
    engine.ask("POST", "/newer/_refresh")
    with proxy_of(engine, tmp_path, candidate='index = "newer"') as proxy:
        hits = proxy.search(query()).json["hits"]["hits"]
    assert {hit["_index"] for hit in hits} == {INDEX, "newer"}
    assert all(hit["_index"] == ("newer" if hit["_id"].startswith("n") else INDEX) for hit in hits)


def test_get_searches_and_compression(engine: RunningEngine, tmp_path: Path) -> None:
    with proxy_of(engine, tmp_path, candidate='parameters = { df = "text" }') as proxy:
        headers = {"X-User": "user-7", "Accept-Encoding": "gzip"}
        reply = proxy.ask("GET", f"{SEARCH}?q=jacket&df=title&size=30", None, headers)
        expected = [direct(engine, "GET", f"{SEARCH}?q=jacket&df={field}&size=50").ids for field in ("title", "text")]
    assert expected[0] != expected[1]
    assert set(reply.ids) <= {*expected[0], *expected[1]}
    (row,) = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert (row["query"], row["rankings"]) == ("jacket", expected)
