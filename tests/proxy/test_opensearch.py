"""Searches of OpenSearch through the proxy, against a stub engine that speaks its protocol."""

import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from interleaf import log
from interleaf.experiment import Experiment, Request, show
from tests.support.proxies import BODY, Reply, RunningProxy, running_proxy
from tests.support.stub_engine import COUNT, NEW, OLD, Asked, Send, StubEngine

Start = Callable[..., RunningProxy]


def test_a_search_is_interleaved_in_the_form_of_the_engine(proxy: RunningProxy, engine: StubEngine) -> None:
    reply = proxy.search(BODY | {"aggs": {"colours": {}}, "suggest": {}, "highlight": {}})
    data = reply.json
    assert reply.status == 200
    assert set(reply.ids) <= set(OLD[:10]) | set(NEW[:10])
    assert set(reply.ids) - set(OLD[:10])
    scores = [hit["_score"] for hit in data["hits"]["hits"]]
    assert all(first > second for first, second in pairwise(scores))
    assert data["hits"]["max_score"] == scores[0]
    assert data["hits"]["total"] == {"value": COUNT, "relation": "eq"}
    assert data["aggregations"]["colours"]["buckets"] == [{"key": "red", "doc_count": COUNT}]
    assert data["suggest"]["words"][0]["options"] == [{"text": "shoe"}]
    assert (data["took"], data["timed_out"]) == (5, False)
    assert reply.header("x-interleaf-impression") == reply.note["impression"]
    assert reply.header("x-interleaf-token") == reply.note["token"]
    assert reply.header("x-elastic-product") == "Elasticsearch"
    assert [one.path for one in engine.asked] == ["/_msearch"]


def test_the_list_is_that_of_the_library(proxy: RunningProxy) -> None:
    settings = Experiment.of({"name": "shop", "rankers": ["production", "candidate"]})
    for unit in ("user-1", "user-2", "user-3"):
        rankings = {"production": OLD[:50], "candidate": NEW[:50]}
        expected = show(settings, 1, Request("any", unit, "shoes", rankings, 10))
        assert proxy.search(unit=unit).ids == expected.documents


def test_people_see_a_document_as_the_control_shows_it(proxy: RunningProxy) -> None:
    for hit in proxy.search(BODY | {"highlight": {}, "size": 30}).json["hits"]["hits"]:
        by_control = hit["_id"] in OLD[:50]
        assert hit["highlight"]["title"][0].endswith("old" if by_control else "new")


def test_rankers_get_the_caller_s_search_with_their_changes(proxy: RunningProxy, engine: StubEngine) -> None:
    proxy.search(BODY | {"from": 0, "size": 5, "aggs": {"a": {}}, "suggest": {"s": {}}, "post_filter": {"x": 1}})
    control, candidate = engine.searches()
    assert control == BODY | {"from": 0, "size": 50, "aggs": {"a": {}}, "suggest": {"s": {}}, "post_filter": {"x": 1}}
    changed = {"query": {"multi_match": {"query": "shoes", "fields": ["title^3", "text"]}}, "post_filter": {"x": 1}}
    assert candidate == changed | {"from": 0, "size": 50, "track_total_hits": False}


def test_the_caller_s_credentials_are_sent_and_no_others(proxy: RunningProxy, engine: StubEngine) -> None:
    proxy.search(Authorization="Basic abc", Cookie="session=1", Connection="x-own", X_Own="1")
    proxy.search(unit="user-8")
    first, second = engine.asked
    assert (first.header("authorization"), first.header("cookie")) == ("Basic abc", "session=1")
    assert first.header("x-own") is None
    assert second.header("authorization") is None
    assert first.header("content-type") == "application/x-ndjson"


@pytest.mark.parametrize(
    ("ranker", "path", "parameters"),
    [
        ('index = "products-v2"', "/products-v2/_search", {}),
        ('search_pipeline = "ltr"', "/products/_search", {"search_pipeline": ["ltr"]}),
        ('parameters = { preference = "_local", routing = false }', "/products/_search", {"preference": ["_local"]}),
    ],
)
def test_a_ranker_may_have_its_own_index_pipeline_and_parameters(
    start: Start, engine: StubEngine, ranker: str, path: str, parameters: dict[str, list[str]]
) -> None:
    proxy = start(candidate=ranker)
    engine.takes_msearch = False
    reply = proxy.search(path="/products/_search?routing=eu&timeout=1s")
    assert reply.status == 200
    by_path = {one.path: one.parameters for one in engine.asked if one.parameters != {"routing": ["eu"]}}
    assert by_path[path].items() >= parameters.items()
    assert {"timeout": ["1s"], "routing": ["eu"]} in [one.parameters for one in engine.asked]
    assert ("routing" in by_path[path]) == ("routing = false" not in ranker)


def test_a_ranker_may_be_a_search_template(start: Start, engine: StubEngine) -> None:
    proxy = start(candidate='template = "shoes"\ntemplate_parameters = { text = "/query/multi_match/query" }')
    assert proxy.search().status == 200
    (asked,) = [one for one in engine.asked if one.path.endswith("/template")]
    assert json.loads(asked.body) == {"id": "shoes", "params": {"text": "shoes", "from": 0, "size": 50}}


def test_impressions_and_their_pages_are_in_the_log(engine: StubEngine, tmp_path: Path) -> None:
    with running_proxy(engine.url, tmp_path) as proxy:
        pages = [proxy.search(BODY | {"from": first}) for first in (0, 10, 20)]
        again = proxy.search(BODY | {"from": 10})
    assert {page.note["impression"] for page in [*pages, again]} == {pages[0].note["impression"]}
    (row,) = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert row["documents"] == [name for page in pages for name in page.ids]
    assert (row["unit"], row["query"], row["arm"], row["page"]) == ("user-7", "shoes", "interleaved", 3)
    assert all(milliseconds > 0 for milliseconds in row["latency"])


@pytest.mark.parametrize("size", [7, 10, 50])
def test_pages_continue_one_list_without_repeats(proxy: RunningProxy, size: int) -> None:
    """Within the depth of 50, beyond it, and on to the last document of the control."""
    pages = [proxy.search(BODY | {"from": first, "size": size}).json["hits"] for first in range(0, COUNT + size, size)]
    ids = [hit["_id"] for page in pages for hit in page["hits"]]
    assert sorted(ids) == sorted(OLD)
    assert {page["total"]["value"] for page in pages} == {COUNT}
    scores = [hit["_score"] for page in pages for hit in page["hits"]]
    assert all(first > second for first, second in pairwise(scores))


def test_pages_are_the_same_whatever_their_size(proxy: RunningProxy) -> None:
    whole = proxy.search(BODY | {"size": 60}).ids
    for first, size in [(0, 10), (10, 20), (5, 10), (33, 3), (50, 10)]:
        assert proxy.search(BODY | {"from": first, "size": size}).ids == whole[first : first + size]


def test_a_further_page_without_its_first_is_an_impression_of_its_own(engine: StubEngine, tmp_path: Path) -> None:
    with running_proxy(engine.url, tmp_path) as proxy:
        reply = proxy.search(BODY | {"from": 10})
        far = proxy.search(BODY | {"from": 110})
    (row,) = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert (row["documents"][10:], row["page"]) == (reply.ids, 1)
    assert far.note["impression"] is None  # only documents that belong to no ranker


def test_a_page_is_not_joined_to_a_list_that_has_changed(engine: StubEngine, tmp_path: Path) -> None:
    with running_proxy(engine.url, tmp_path) as proxy:
        first = proxy.search()
        engine.found = lambda is_new: NEW[::-1] if is_new else OLD[::-1]
        second = proxy.search(BODY | {"from": 10})
    assert first.note["impression"] != second.note["impression"]


OF_THE_PAGE: list[tuple[dict[str, Any], str]] = [  # what one request for a page has, and another one does not
    ({"suggest": {"s": {}}}, ""),
    ({"highlight": {"fields": {"title": {}}}, "aggs": {"a": {}}}, ""),
    ({"_source": ["title"], "fields": ["price"], "track_total_hits": False}, "request_cache=true"),
    ({"sort": ["_score"], "ext": {"ubi": {"query_id": "q"}}}, "_source_includes=title&track_total_hits=true"),
]


@pytest.mark.parametrize(("fields", "query"), OF_THE_PAGE)
def test_pages_of_one_search_may_ask_for_different_sections(
    engine: StubEngine, tmp_path: Path, fields: dict[str, Any], query: str
) -> None:
    with running_proxy(engine.url, tmp_path) as proxy:
        body = {"query": {"match": {"title": "shoes"}}}  # its text is not where the configuration says
        pages = [
            proxy.search(body | fields, path=f"/products/_search?{query}"),
            proxy.search(body | {"from": 10}),
            proxy.search(body | {"from": 20} | fields),
        ]
    shown = [name for page in pages for name in page.ids]
    assert len(shown) == len(set(shown)) == 30
    (row,) = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert (row["documents"], row["page"]) == (shown, 3)


def test_searches_that_rank_in_another_way_are_other_searches(proxy: RunningProxy) -> None:
    searches = [proxy.search(), proxy.search(BODY | {"min_score": 1}), proxy.search(BODY | {"post_filter": {}})]
    assert len({one.note["impression"] for one in searches}) == 3


def test_a_list_that_grows_with_its_size_is_one_impression(engine: StubEngine, tmp_path: Path) -> None:
    with running_proxy(engine.url, tmp_path) as proxy:
        replies = [proxy.search(BODY | {"size": size}) for size in (10, 20, 20, 40, 10)]
        other = proxy.search(BODY | {"size": 25})
    longest = replies[3].ids
    assert [reply.ids for reply in replies] == [longest[: len(reply.ids)] for reply in replies]
    assert len({reply.note["impression"] for reply in replies}) == 1
    rows = {row["impression"]: row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()}
    first, second = (rows[one.note["impression"]] for one in (replies[0], other))
    assert (first["documents"], first["page"]) == (longest, 4)
    assert second["documents"] == other.ids == longest[:25]  # 25 are not whole pages of 10


BYPASSED: list[tuple[str, dict[str, Any], str]] = [
    ("sort", {"sort": [{"price": "asc"}]}, ""),
    ("sort", {"sort": ["_score", {"price": "asc"}]}, ""),
    ("sort", {"sort": {"_score": "asc"}}, ""),
    ("sort", {"sort": "_doc"}, ""),
    ("sort", {}, "sort=price:asc"),
    ("scroll", {}, "scroll=1m"),
    ("search_after", {"search_after": [1]}, ""),
    ("pit", {"pit": {"id": "x"}}, ""),
    ("collapse", {"collapse": {"field": "group"}}, ""),
    ("explain", {"explain": True}, ""),
    ("explain", {}, "explain=true"),
    ("explain", {"profile": True}, ""),
    ("slice", {"slice": {"id": 0, "max": 2}}, ""),
    ("no_hits", {"size": 0}, ""),
    ("no_hits", {}, "size=0"),
    ("page_too_large", {"size": 201}, ""),
    ("page_too_far", {"from": 995}, ""),
    ("filter_path", {}, "filter_path=hits.hits._id"),
    ("not_json", {}, "format=yaml"),
    ("not_understood", {"from": -1}, ""),
    ("not_understood", {"size": "ten"}, ""),
    ("not_understood", {"size": 1.5}, ""),
    ("not_understood", {}, "source=%7B%7D"),
]


@pytest.mark.parametrize(("code", "fields", "query"), BYPASSED)
def test_what_cannot_be_interleaved_passes_through(
    proxy: RunningProxy, engine: StubEngine, code: str, fields: dict[str, Any], query: str
) -> None:
    if any(not isinstance(fields.get(name, 0), int) for name in ("from", "size")) or fields.get("from", 0) < 0:
        engine.search = lambda *arguments: (400, {"error": "bad"})  # type: ignore[method-assign]
    reply = proxy.search(BODY | fields, path="/products/_search" + ("?" + query if query else ""))
    (asked,) = engine.asked
    assert asked.target == "/products/_search" + ("?" + query if query else "")
    assert json.loads(asked.body) == BODY | fields
    assert "ext" not in reply.json
    assert proxy.bypassed == {code: 1}


@pytest.mark.parametrize(
    "fields", [{"sort": ["_score"]}, {"sort": "_score"}, {"sort": [{"_score": {"order": "desc"}}]}, {"sort": []}]
)
def test_the_order_of_scores_is_interleaved_however_it_is_asked_for(
    proxy: RunningProxy, fields: dict[str, Any]
) -> None:
    hits = proxy.search(BODY | fields).json["hits"]["hits"]
    assert all(hit["sort"] == [hit["_score"]] for hit in hits)
    assert not proxy.bypassed


@pytest.mark.parametrize("body", [b"{", b"[1]", b"\xff", b'{"a":' * 5000 + b"1" + b"}" * 5000, b"1e999"])
def test_bodies_that_are_no_json_object_pass_through(proxy: RunningProxy, engine: StubEngine, body: bytes) -> None:
    async def fault(asked: Any, send: Any) -> bool:
        await send(b"HTTP/1.1 400 Bad\r\nContent-Length: 3\r\n\r\nbad")
        return False

    engine.fault = fault
    reply = proxy.ask("POST", "/products/_search", body, {"Content-Type": "application/json", "X-User": "u"})
    assert (reply.status, reply.body) == (400, b"bad")
    assert engine.asked[0].body == body
    assert proxy.bypassed == {"not_json": 1}


def test_the_control_s_total_is_raised_to_the_documents_that_one_can_page_to(
    proxy: RunningProxy, engine: StubEngine
) -> None:
    engine.found = lambda is_new: NEW if is_new else ["d3", "d999"]
    reply = proxy.search(BODY | {"size": 20})
    assert len(reply.ids) == 20
    assert reply.json["hits"]["total"]["value"] == 51


def msearch(proxy: RunningProxy, *lines: Any) -> tuple[Reply, bytes]:
    """The answer to an _msearch, and the body that was sent."""
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return proxy.ask("POST", "/_msearch", body, {"Content-Type": "application/x-ndjson", "X-User": "user-7"}), body


def test_searches_of_one_msearch_are_interleaved_where_they_can_be(proxy: RunningProxy, engine: StubEngine) -> None:
    lines = [{"index": "products"}, BODY, {"index": "products"}, BODY | {"size": 0}, {"index": "others"}, BODY]
    reply, _ = msearch(proxy, *lines)
    mixed, facets, others = reply.json["responses"]
    assert [hit["_id"] for hit in mixed["hits"]["hits"]] == proxy.search().ids
    assert (mixed["status"], facets["hits"]["hits"]) == (200, [])
    assert [hit["_id"] for hit in others["hits"]["hits"]] == OLD[:10]
    assert reply.header("x-interleaf-impression") == mixed["ext"]["interleaf"]["impression"]
    assert proxy.bypassed == {"no_hits": 1}


def test_an_msearch_without_a_search_that_takes_part_passes_through(proxy: RunningProxy, engine: StubEngine) -> None:
    reply, body = msearch(proxy, {"index": "others"}, {"size": 1})
    assert [hit["_id"] for hit in reply.json["responses"][0]["hits"]["hits"]] == ["d0"]
    assert engine.asked[0].body == body
    assert not proxy.bypassed
    assert 'kind="passed",status="200"} 1.0' in proxy.app.metrics.text().decode()


def test_an_msearch_whose_searches_cannot_be_interleaved_passes_through(
    proxy: RunningProxy, engine: StubEngine
) -> None:
    lines = [{"index": "products"}, BODY | {"sort": "price"}, {"index": "products"}, BODY | {"size": 0}]
    _, body = msearch(proxy, *lines)
    assert [asked.body for asked in engine.asked] == [body]
    assert proxy.bypassed == {"sort": 1, "no_hits": 1}


def test_an_msearch_takes_as_long_as_its_slowest_search(proxy: RunningProxy, engine: StubEngine) -> None:
    proxy.search()  # the first search takes longer
    engine.delay = lambda body: 1.0 if body.get("size") == 0 else 0.4
    began = time.monotonic()
    msearch(proxy, {"index": "products"}, BODY, {"index": "products"}, BODY | {"size": 0}, {"index": "others"}, BODY)
    assert 1.0 <= time.monotonic() - began < 1.35


@pytest.mark.parametrize("index", ["others", "products"])
def test_lists_of_an_msearch_that_the_engine_refuses_are_not_recorded(
    engine: StubEngine, tmp_path: Path, index: str
) -> None:
    async def fault(asked: Asked, send: Send) -> bool:
        is_refused = b'"refuse"' in asked.body
        if is_refused:
            await send(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nbusy")
        return is_refused

    engine.fault = fault
    lines = [{"index": "products"}, BODY, {"index": index}, BODY | {"size": 0, "preference": "refuse"}]
    with running_proxy(engine.url, tmp_path) as proxy:
        reply, _ = msearch(proxy, *lines)
        assert (reply.status, reply.body) == (429, b"busy")
        shown = proxy.search()
        assert proxy.app.metrics.lists == {"interleaved": 1}
    (row,) = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert row["impression"] == shown.note["impression"]


def test_a_search_of_an_msearch_that_turns_out_to_find_nothing_is_answered_by_the_engine(
    proxy: RunningProxy, engine: StubEngine
) -> None:
    found = engine.search

    def search(index: str, body: dict[str, Any], parameters: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        engine.found = lambda is_new: [] if "min_score" in body else OLD
        return found(index, body, parameters)

    engine.search = search  # type: ignore[method-assign]
    lines = [{"index": "products"}, BODY | {"min_score": 9}, {"index": "others"}, BODY, {"index": "products"}, BODY]
    reply, _ = msearch(proxy, *lines)
    nothing, others, mixed = reply.json["responses"]
    assert (nothing["hits"]["hits"], len(others["hits"]["hits"])) == ([], 10)
    assert "interleaf" in mixed["ext"]
    assert proxy.bypassed == {"no_results": 1}


def test_rankers_are_asked_one_by_one_where_msearch_cannot_carry_their_parameters(
    proxy: RunningProxy, engine: StubEngine
) -> None:
    together = proxy.search().ids
    apart = proxy.search(path="/products/_search?batched_reduce_size=5", unit="user-7").ids
    assert together == apart
    assert [one.path for one in engine.asked] == ["/_msearch", "/products/_search", "/products/_search"]


def test_options_of_the_engine_s_answer_are_kept(proxy: RunningProxy, engine: StubEngine) -> None:
    found = {"took": 1, "hits": {"total": 3, "max_score": None, "hits": [{"_id": "a", "_score": None, "_ignored": []}]}}
    engine.search = lambda *arguments: (200, found)  # type: ignore[method-assign]
    reply = proxy.search(path="/products/_search?rest_total_hits_as_int=true&pretty")
    assert reply.json["hits"] == found["hits"]
    assert reply.body.startswith(b'{\n  "took"')
    assert engine.asked[0].parameters == {"rest_total_hits_as_int": ["true"], "pretty": [""]}


@pytest.mark.parametrize("index", ["products,others", "%3Cproducts-%7Bnow%2Fd%7D%3E", "products&x", "a+b", "*", ""])
def test_an_msearch_names_the_indices_of_the_path(start: Start, engine: StubEngine, index: str) -> None:
    proxy = start(path=f"{'/*' if index else ''}/_search")
    assert proxy.search(path=f"{'/' if index else ''}{index}/_search").status == 200
    (asked,) = engine.asked
    names = [json.loads(line).get("index") for line in asked.body.splitlines()[::2]]
    assert names == [unquote(index).split(",") if index else None] * 2
