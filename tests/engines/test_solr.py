"""Searches of a real Solr node through the proxy, held against Solr's own answers, and its Python client."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from interleaf import log
from tests.engines.test_opensearch import QUERY, direct, headers_of
from tests.support.engines import INDEX, RunningEngine, proxy_of
from tests.support.proxies import Reply, RunningProxy

SELECT = f"/solr/{INDEX}/select"
FIELDS = {"production": "title text", "candidate": "title^3 text"}
TITLE_FIRST = 'parameters = { qf = "title^3 text" }'
USER = {"X-User": "user-7"}


@pytest.fixture
def proxy(solr: RunningEngine, tmp_path: Path) -> Iterator[RunningProxy]:
    with proxy_of(solr, tmp_path, path=SELECT, candidate=TITLE_FIRST) as proxy:
        yield proxy


def target(**parameters: Any) -> str:
    return f"{SELECT}?{urlencode({'q': QUERY, 'qf': FIELDS['production']} | parameters, doseq=True)}"


def ranking(solr: RunningEngine, ranker: str, rows: int = 50) -> list[str]:
    return direct(solr, "GET", target(qf=FIELDS[ranker], rows=rows)).ids


def without_time(reply: Reply) -> Any:
    data = reply.json
    data["responseHeader"].pop("QTime")
    return data


PASSED = [
    ("GET", f"/solr/{INDEX}/get?id=p7", None),
    ("GET", f"/solr/{INDEX}/get?ids=p7,p8&indent=true&wt=xml", None),
    ("GET", f"/solr/{INDEX}/admin/ping?omitHeader=true", None),
    ("GET", "/solr/nothing/select?q=a", None),
    ("GET", "/nowhere", None),
    ("HEAD", f"/solr/{INDEX}/get?id=p7", None),
]


@pytest.mark.parametrize(("method", "path", "body"), PASSED, ids=[f"{one[0]} {one[1]}" for one in PASSED])
def test_other_requests_are_answered_byte_for_byte(
    solr: RunningEngine, proxy: RunningProxy, method: str, path: str, body: Any
) -> None:
    expected = direct(solr, method, path, body)
    reply = proxy.ask(method, path, body, {"Content-Type": "application/json"})
    assert (reply.status, reply.body) == (expected.status, expected.body)
    mine, own = ([one for one in headers_of(each) if one[0] != "date"] for each in (reply, expected))
    assert mine == own


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_list_has_the_documents_of_both_rankers_and_all_else_from_the_control(
    method: str, solr: RunningEngine, tmp_path: Path
) -> None:
    more = {
        "facet": "true",
        "facet.field": "brand",
        "json.facet": '{"price": "avg(price)"}',
        "hl": "true",
        "hl.fl": "title",
        "stats": "true",
        "stats.field": "price",
        "spellcheck": "true",
        "spellcheck.q": "shae",
        "fl": "id,title,score",
        "rows": 20,
    }
    control = direct(solr, "GET", target(**more))
    rankings = {ranker: ranking(solr, ranker) for ranker in FIELDS}
    with proxy_of(solr, tmp_path, path=SELECT, candidate=TITLE_FIRST) as proxy:
        if method == "GET":
            reply = proxy.ask("GET", target(**more), None, USER)
        else:
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            reply = proxy.ask("POST", SELECT, target(**more).partition("?")[2].encode(), USER | form)
        assert proxy.failures == {}
    (row,) = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert dict(zip(row["rankers"], row["rankings"], strict=True)) == rankings
    assert (row["documents"], row["query"], row["unit"]) == (reply.ids, QUERY, "user-7")
    shown = set(reply.ids)
    assert shown & set(rankings["production"][:10]) - set(rankings["candidate"][:10])
    assert shown & set(rankings["candidate"][:10]) - set(rankings["production"][:10])
    assert reply.note["impression"] == row["impression"] == reply.header("x-interleaf-impression")
    found, own = reply.json, control.json
    for part in ("facet_counts", "facets", "stats", "spellcheck"):
        assert found[part] == own[part]
    assert found["response"]["numFound"] == own["response"]["numFound"]
    scores = [document["score"] for document in found["response"]["docs"]]
    assert all(first > second for first, second in pairwise(scores))
    assert found["response"]["maxScore"] == scores[0]
    assert found["highlighting"].keys() == shown
    assert all(one["title"] for one in found["highlighting"].values())


def test_pages_continue_the_list_to_its_end_without_repeats(solr: RunningEngine, proxy: RunningProxy) -> None:
    control = ranking(solr, "production", 240)
    mixed = {*ranking(solr, "production"), *ranking(solr, "candidate")}
    pages = [proxy.ask("GET", target(start=start, rows=10), None, USER) for start in range(0, 240, 10)]
    shown = [one for page in pages for one in page.ids]
    assert len(shown) == len(set(shown)) == len(control)
    assert set(shown[: len(mixed)]) == mixed
    assert shown[len(mixed) :] == [one for one in control if one not in mixed]
    assert {page.json["response"]["start"] for page in pages} == set(range(0, 240, 10))


HANDLERS = [("shop", {}), ("select", {"useParams": "three"}), ("select", {"rows": 7}), ("shop", {"echoParams": "all"})]


@pytest.mark.parametrize(("handler", "more"), HANDLERS)
def test_parameters_that_the_handler_adds_shape_the_page(
    solr: RunningEngine, tmp_path: Path, handler: str, more: dict[str, Any]
) -> None:
    path = f"/solr/{INDEX}/{handler}"

    def target(start: int) -> str:
        return f"{path}?{urlencode({'q': QUERY, 'start': start} | more)}"

    own = direct(solr, "GET", target(0)).json
    size = len(own["response"]["docs"])
    with proxy_of(solr, tmp_path, path=path, candidate=TITLE_FIRST) as proxy:
        pages = [proxy.ask("GET", target(start), None, USER).json for start in (0, size, 2 * size)]
        assert not proxy.bypassed
    assert [len(page["response"]["docs"]) for page in pages] == [size] * 3
    assert {tuple(document) for page in pages for document in page["response"]["docs"]} == {
        tuple(document) for document in own["response"]["docs"]
    }
    echoed, expected = (dict(one["responseHeader"].get("params", {}), rid="") for one in (pages[0], own))
    assert echoed == expected
    (row,) = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert len(set(row["documents"])) == len(row["documents"]) == 3 * size
    assert row["page"] == 3


def test_a_handler_that_sorts_by_the_price_is_left_alone(solr: RunningEngine, tmp_path: Path) -> None:
    path = f"/solr/{INDEX}/cheapest"
    with proxy_of(solr, tmp_path, path=path, candidate=TITLE_FIRST) as proxy:
        asked = f"{path}?{urlencode({'q': QUERY, 'omitHeader': 'true'})}"
        assert proxy.ask("GET", asked, None, USER).body == direct(solr, "GET", asked).body
        assert proxy.bypassed == {"sort": 1}
        assert "interleaf" in proxy.ask("GET", f"{asked}&sort=score+desc", None, USER).json


@pytest.mark.parametrize("fields", ["i*,title", "score", "title", "", "name:title,number:id"])
def test_documents_have_the_fields_that_solr_gives(solr: RunningEngine, proxy: RunningProxy, fields: str) -> None:
    asked = target(fl=fields, rows=3)
    found, own = proxy.ask("GET", asked, None, USER).json, direct(solr, "GET", asked).json
    assert [set(one) for one in found["response"]["docs"]] == [set(one) for one in own["response"]["docs"]]
    assert "interleaf" in found


BYPASSES: dict[str, dict[str, Any]] = {
    "sort": {"sort": "price asc,id asc"},
    "collapse": {"fq": "{!collapse field=brand}"},
    "explain": {"debugQuery": "true", "debug.explain.structured": "true"},
    "no_hits": {"rows": 0, "facet": "true", "facet.field": "brand"},
    "not_json": {"wt": "xml"},
}


@pytest.mark.parametrize("code", BYPASSES)
def test_what_cannot_be_interleaved_gets_the_answer_of_the_engine(
    code: str, solr: RunningEngine, proxy: RunningProxy
) -> None:
    asked = target(**BYPASSES[code], omitHeader="true")
    reply, expected = proxy.ask("GET", asked, None, USER), direct(solr, "GET", asked)
    if code == "explain":
        assert (reply.ids, reply.json["debug"]["explain"]) == (expected.ids, expected.json["debug"]["explain"])
    else:
        assert reply.body == expected.body
    assert proxy.bypassed == {code: 1}


def test_a_cursor_is_read_to_its_end(proxy: RunningProxy) -> None:
    cursor, ids = "*", list[str]()
    while True:
        reply = proxy.ask("GET", target(sort="score desc,id asc", cursorMark=cursor, rows=100), None, USER)
        ids += reply.ids
        if reply.json["nextCursorMark"] == cursor:
            break
        cursor = reply.json["nextCursorMark"]
    assert len(ids) == len(set(ids)) > 100
    assert proxy.bypassed.keys() == {"scroll"}


def test_an_error_of_solr_is_the_answer(solr: RunningEngine, proxy: RunningProxy) -> None:
    asked = target(fq="no_such_field:1", omitHeader="true")
    expected, reply = direct(solr, "GET", asked), proxy.ask("GET", asked, None, USER)
    assert (reply.status, reply.body) == (expected.status, expected.body)
    assert reply.status == 400
    assert (proxy.bypassed, proxy.failures) == ({"refused": 1}, {})
    latest = proxy.ask("GET", "/_interleaf/health").json["latest"]
    assert latest["refused"].endswith("status 400, undefined field no_such_field")


def test_pysolr(solr: RunningEngine, tmp_path: Path) -> None:
    pysolr = pytest.importorskip("pysolr")
    with proxy_of(solr, tmp_path, path=SELECT, candidate=TITLE_FIRST, unit="own_cookie = true") as proxy:
        address = f"http://127.0.0.1:{proxy.port}/solr/{INDEX}"
        client = pysolr.Solr(address, timeout=60, always_commit=True)
        asked = {"qf": FIELDS["production"], "facet": "true", "facet.field": "brand", "hl": "true", "hl.fl": "title"}
        found = client.search(QUERY, **asked)
        own = pysolr.Solr(f"{solr.url}/solr/{INDEX}", timeout=60).search(QUERY, **asked)
        assert found.raw_response["interleaf"]["impression"]
        assert (found.hits, found.facets) == (own.hits, own.facets)
        assert found.highlighting.keys() == {document["id"] for document in found.docs}
        client.add([{"id": "written", "title": "zebra"}])
        assert [document["id"] for document in client.search("zebra").docs] == ["written"]
        client.delete(id="written")
        assert client.search("zebra").hits == 0
        with pytest.raises(pysolr.SolrError):
            client.search(QUERY, fq="no_such_field:1")
        client.get_session().close()
