"""Searches of Solr through the proxy, against a stub engine that speaks its protocol."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from interleaf import log
from interleaf.proxy.search import KEEP_DEFAULTS
from tests.support.proxies import Reply, RunningProxy, running_proxy
from tests.support.stub_engine import COUNT, NEW, OLD, Asked, Send, StubEngine, no_fault

Start = Callable[..., RunningProxy]
SOLR = {"engine": "solr", "path": "/solr/products/select", "candidate": 'parameters = { qf = "title^3" }'}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def solr(start: Start) -> RunningProxy:
    return start(**SOLR)


def select(proxy: RunningProxy, method: str = "GET", **parameters: str) -> Reply:
    text = urlencode({"q": "shoes", **{name.replace("__", "."): value for name, value in parameters.items()}})
    if method == "POST":
        return proxy.ask("POST", "/solr/products/select", text.encode(), {"X-User": "user-7", **FORM})
    return proxy.ask("GET", f"/solr/products/select?{text}", headers={"X-User": "user-7"})


def searches(engine: StubEngine) -> list[Asked]:
    """What the engine was asked, without the request for its defaults."""
    return [one for one in engine.asked if not one.is_for_defaults]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_search_is_interleaved_in_the_form_of_solr(solr: RunningProxy, engine: StubEngine, method: str) -> None:
    reply = select(solr, method, fl="id,title,score", facet="true", hl="true", wt="json", rows="8")
    data = reply.json
    ids = [document["id"] for document in data["response"]["docs"]]
    assert len(ids) == 8
    assert set(ids) <= set(OLD[:8]) | set(NEW[:8])
    assert set(ids) - set(OLD[:8])
    scores = [document["score"] for document in data["response"]["docs"]]
    assert all(first > second for first, second in pairwise(scores))
    assert (data["response"]["numFound"], data["response"]["start"]) == (COUNT, 0)
    assert data["facet_counts"]["facet_fields"]["colour"] == ["red", COUNT]
    assert list(data["highlighting"]) == ids
    assert data["interleaf"]["impression"] == reply.header("x-interleaf-impression")
    assert data["responseHeader"]["params"]["rows"] == "8"
    assert "start" not in data["responseHeader"]["params"]
    assert data["responseHeader"]["QTime"] == 4
    assert {one.method for one in searches(engine)} == {method}


def test_rankers_get_the_caller_s_parameters_with_their_changes(solr: RunningProxy, engine: StubEngine) -> None:
    solr.ask(
        "GET",
        "/solr/products/select?q=shoes&fq=a&fq=b&qf=title&facet=true&json.facet=%7B%7D",
        headers={"Authorization": "Basic abc"},
    )
    control, candidate = sorted((one.parameters for one in searches(engine)), key=lambda one: one["qf"])
    shared = {"q": ["shoes"], "fq": ["a", "b"], "start": ["0"], "rows": ["50"], "wt": ["json"]}
    assert control == {**shared, "qf": ["title"], "facet": ["true"], "json.facet": ["{}"]}
    switched_off = {name: ["false"] for name in ("facet", "stats", "spellcheck", "ubi")}
    assert candidate == {**shared, "qf": ["title^3"], **switched_off}
    assert {one.header("authorization") for one in engine.asked} == {"Basic abc"}


def test_a_ranker_may_have_a_collection_of_its_own(start: Start, engine: StubEngine) -> None:
    proxy = start(**SOLR | {"candidate": 'index = "products-v2"'})
    assert set(select(proxy).ids) - set(OLD[:10])
    ids = proxy.ask("GET", "/solr/products/select/?q=shoes", headers={"X-User": "user-7"}).ids  # as pysolr asks
    assert ids == select(proxy).ids
    assert {one.path.rstrip("/") for one in engine.asked} == {"/solr/products/select", "/solr/products-v2/select"}


def test_documents_have_the_fields_that_were_asked_for(solr: RunningProxy) -> None:
    assert [set(one) for one in select(solr, fl="title", rows="3").json["response"]["docs"]] == [{"title"}] * 3
    assert [set(one) for one in select(solr, fl="*", rows="1").json["response"]["docs"]] == [{"id", "title", "url"}]


@pytest.mark.parametrize("fields", ["i*,title", "?d title", "id,i*", "name:title,id"])
def test_an_id_that_a_pattern_of_fields_asks_for_is_kept(solr: RunningProxy, engine: StubEngine, fields: str) -> None:
    select(solr, fl=fields)
    assert {one.parameters["fl"][0] for one in searches(engine)} == {fields}


def test_parameters_that_solr_adds_count_as_if_the_caller_had_sent_them(
    solr: RunningProxy, engine: StubEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.defaults = {"rows": "4", "fl": "title", "facet": "true", "sort": "score desc", "fq": ["a", "b"]}
    first, second = select(solr), select(solr, start="4")
    assert [set(one) for one in first.json["response"]["docs"]] == [{"title"}] * 4
    assert first.note["impression"] == second.note["impression"]
    assert {one.parameters["fl"][0] for one in searches(engine)} == {"title,id"}
    assert all("sort" not in one.parameters for one in searches(engine))  # Solr adds it
    assert len(select(solr, rows="6").json["response"]["docs"]) == 6
    asked = [one for one in engine.asked if one.is_for_defaults]
    assert [one.target for one in asked] == ["/solr/products/select?echoParams=all&omitHeader=false"]
    engine.defaults = {"rows": "5"}
    assert len(select(solr).json["response"]["docs"]) == 4  # they are kept for a minute
    monkeypatch.setattr("time.monotonic", lambda now=time.monotonic: now() + KEEP_DEFAULTS)
    assert len(select(solr).json["response"]["docs"]) == 5


@pytest.mark.parametrize(
    ("code", "defaults"),
    [
        ("sort", {"sort": "price asc"}),
        ("no_hits", {"rows": "0"}),
        ("collapse", {"group": "true"}),
        ("collapse", {"fq": ["a", "{!collapse field=group}"]}),
        ("explain", {"debugQuery": "true"}),
        ("not_json", {"wt": "xml"}),
        ("not_understood", {"rows": "many"}),
    ],
)
def test_what_solr_adds_may_keep_a_search_from_being_interleaved(
    solr: RunningProxy, engine: StubEngine, code: str, defaults: dict[str, Any]
) -> None:
    engine.defaults = defaults
    assert select(solr, fq="c").ids == OLD[:10]
    assert solr.bypassed == {code: 1}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<response/>"),
        (200, b'{"responseHeader":{"status":0}}'),
        (200, b'{"responseHeader":{"params":{"echoParams":"explicit"}}}'),  # it says only what it was sent
        (200, b"\xff"),
        (503, b"{}"),
        (401, b""),
    ],
)
def test_without_the_parameters_that_solr_adds_a_search_passes_through(
    solr: RunningProxy, engine: StubEngine, status: int, body: bytes
) -> None:
    async def fault(asked: Asked, send: Send) -> bool:
        if asked.is_for_defaults:
            await send(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
        return asked.is_for_defaults

    engine.fault = fault
    assert select(solr).ids == OLD[:10]
    assert solr.bypassed == {"unknown_defaults": 1}
    engine.fault = no_fault
    assert "interleaf" in select(solr).json  # it asks again


def test_defaults_are_asked_for_with_the_caller_s_credentials(solr: RunningProxy, engine: StubEngine) -> None:
    path = "/solr/products/select?useParams=a&rows=3"
    solr.ask("POST", path, b"q=shoes&wt=json", {"X-User": "u", "Authorization": "Basic abc", **FORM})
    (asked,) = [one for one in engine.asked if one.is_for_defaults]
    assert asked.parameters == {
        "useParams": ["a"],
        "wt": ["json"],
        "echoParams": ["all"],
        "omitHeader": ["false"],
    }
    assert (asked.method, asked.body, asked.header("authorization")) == ("GET", b"", "Basic abc")
    assert asked.header("content-length") is None


@pytest.mark.parametrize("rows", [9, 40])
def test_pages_of_solr_continue_one_list_without_repeats(solr: RunningProxy, rows: int) -> None:
    pages = [select(solr, start=str(start), rows=str(rows)) for start in range(0, COUNT + rows, rows)]
    assert sorted(name for page in pages for name in page.ids) == sorted(OLD)


def test_solr_s_impressions_are_in_the_log(engine: StubEngine, tmp_path: Path) -> None:
    with running_proxy(engine.url, tmp_path, **SOLR) as proxy:
        pages = [select(proxy), select(proxy, start="10")]
    (row,) = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert (row["documents"], row["query"]) == ([name for page in pages for name in page.ids], "shoes")


OF_THE_PAGE = [  # what one request for a page has, and another one does not
    {"facet": "true", "facet__field": "colour", "f__colour__facet__limit": "5"},
    {"hl": "true", "hl__fl": "title", "_": "1700000000"},
    {"fl": "id", "wt": "json", "indent": "true", "echoParams": "none"},
]


@pytest.mark.parametrize("parameters", OF_THE_PAGE)
def test_pages_of_one_search_of_solr_may_ask_for_different_sections(
    engine: StubEngine, tmp_path: Path, parameters: dict[str, str]
) -> None:
    with running_proxy(engine.url, tmp_path, **SOLR) as proxy:
        pages = [select(proxy, q="", **parameters), select(proxy, q="", start="10"), select(proxy, q="", rows="30")]
    shown = [name for page in pages[:2] for name in page.ids]
    assert pages[2].ids[:20] == shown
    assert len(set(pages[2].ids)) == 30
    (row,) = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert (row["documents"], row["page"]) == (pages[2].ids, 3)


def test_searches_of_solr_that_rank_in_another_way_are_other_searches(solr: RunningProxy) -> None:
    searches = [select(solr), select(solr, fq="a"), select(solr, f__name__qf="title"), select(solr, bq="a")]
    assert len({one.note["impression"] for one in searches}) == 4


BYPASSED = [
    ("sort", {"sort": "price asc"}),
    ("sort", {"sort": "price asc, score desc"}),
    ("sort", {"sort": "score asc, price asc"}),
    ("scroll", {"cursorMark": "*", "sort": "score desc,id asc"}),
    ("sort", {"sort": "score descending"}),
    ("collapse", {"group": "true"}),
    ("collapse", {"fq": "{!collapse field=group}"}),
    ("explain", {"debugQuery": "true"}),
    ("explain", {"debug": "timing"}),
    ("explain", {"fl": "id,[explain]"}),
    ("no_hits", {"rows": "0"}),
    ("not_json", {"wt": "xml"}),
    ("not_understood", {"rows": "-1"}),
    ("not_understood", {"json": "{}"}),
    ("not_understood", {"json__query": "x"}),
    ("not_understood", {"fl": "title, id:title"}),
    ("page_too_far", {"start": "1000"}),
]


@pytest.mark.parametrize(("code", "parameters"), BYPASSED)
def test_what_solr_cannot_interleave_passes_through(
    solr: RunningProxy, engine: StubEngine, code: str, parameters: dict[str, str]
) -> None:
    engine.select = lambda *arguments: {}  # type: ignore[method-assign]
    assert select(solr, **parameters).body == b"{}"
    (asked,) = engine.asked
    assert asked.target.startswith("/solr/products/select?q=shoes&")
    assert solr.bypassed == {code: 1}


@pytest.mark.parametrize("sort", ["score desc", "Score  DESC, id asc", "score desc,price asc,id desc", " "])
def test_an_order_that_begins_with_the_score_is_interleaved(solr: RunningProxy, engine: StubEngine, sort: str) -> None:
    assert "interleaf" in select(solr, sort=sort).json
    assert {one.parameters["sort"][0] for one in searches(engine)} == {sort}


def test_a_request_in_json_passes_through(solr: RunningProxy) -> None:
    body = b'{"query": "shoes"}'
    headers = {"Content-Type": "application/json", "X-User": "user-7"}
    assert "interleaf" not in solr.ask("POST", "/solr/products/select", body, headers).json
    assert solr.bypassed == {"not_understood": 1}


def test_a_slow_ranker_of_solr_is_a_fallback(start: Start, engine: StubEngine) -> None:
    proxy = start(**SOLR, requests="time_budget_ms = 100")
    engine.delay = lambda body: 1.0 if "title^3" in str(body) else 0.0
    assert select(proxy).ids == OLD[:10]
    assert proxy.failures == {"ranker_slow": 1}


def test_whole_numbers_as_ids(solr: RunningProxy, engine: StubEngine) -> None:
    answer = {"responseHeader": {}, "response": {"numFound": 2, "start": 0, "docs": [{"id": 7}, {"id": 8}]}}
    engine.select = lambda *arguments: answer  # type: ignore[method-assign]
    assert [one["id"] for one in select(solr).json["response"]["docs"]] == [7, 8]
