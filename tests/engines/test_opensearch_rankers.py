"""What a ranker can be in a real OpenSearch: a search pipeline, a template; and the caller's credentials."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.engines.test_opensearch import QUERY, SEARCH, direct, query
from tests.support.engines import INDEX, RunningEngine, proxy_of
from tests.support.proxies import Reply
from tests.support.stand_in import answering


def test_a_ranker_is_a_search_pipeline(opensearch: RunningEngine, tmp_path: Path) -> None:
    only_alp = {"filter_query": {"query": {"term": {"brand": "Alp"}}}}
    opensearch.ask("PUT", "/_search/pipeline/only_alp", {"request_processors": [only_alp]})
    expected = direct(opensearch, "POST", f"{SEARCH}?search_pipeline=only_alp", query() | {"size": 50}).ids
    with proxy_of(opensearch, tmp_path, candidate='search_pipeline = "only_alp"') as proxy:
        reply = proxy.search(query() | {"size": 30})
        assert proxy.failures == {}
    control = direct(opensearch, "POST", SEARCH, query() | {"size": 50})
    assert set(reply.ids) <= {*control.ids, *expected}
    assert set(reply.ids) & set(expected) - set(control.ids)
    assert reply.json["hits"]["total"] == control.json["hits"]["total"]


def test_the_pipeline_of_the_index_works_on_every_ranker(opensearch: RunningEngine, tmp_path: Path) -> None:
    renamed = {"rename_field": {"field": "title", "target_field": "name"}}
    opensearch.ask("PUT", "/_search/pipeline/renamed", {"response_processors": [renamed]})
    opensearch.ask("PUT", f"/{INDEX}/_settings", {"index.search.default_pipeline": "renamed"})
    try:
        with proxy_of(opensearch, tmp_path) as proxy:
            hits = proxy.search(query()).json["hits"]["hits"]
    finally:
        opensearch.ask("PUT", f"/{INDEX}/_settings", {"index.search.default_pipeline": None})
    assert len(hits) == 10
    assert all("name" in hit["_source"] and "title" not in hit["_source"] for hit in hits)


def test_a_ranker_is_a_template(opensearch: RunningEngine, tmp_path: Path) -> None:
    match = {"multi_match": {"query": "{{words}}", "fields": ["title^3", "text"]}}
    source = {"from": "{{from}}", "size": "{{size}}", "query": match}
    opensearch.ask("PUT", "/_scripts/boosted", {"script": {"lang": "mustache", "source": source}})
    parameters = {"id": "boosted", "params": {"words": QUERY, "from": 0, "size": 50}}
    expected = direct(opensearch, "POST", f"{SEARCH}/template", parameters).ids
    assert expected == direct(opensearch, "POST", SEARCH, query("candidate") | {"size": 50}).ids
    candidate = 'template = "boosted"\ntemplate_parameters = { words = "/query/multi_match/query" }'
    with proxy_of(opensearch, tmp_path, candidate=candidate) as proxy:
        reply = proxy.search(query() | {"size": 30})
        assert proxy.failures == {}
    control = direct(opensearch, "POST", SEARCH, query() | {"size": 50}).ids
    assert set(reply.ids) <= {*control, *expected}
    assert set(reply.ids) & set(expected) - set(control)


OWNER = "Basic " + base64.b64encode(b"owner:secret").decode()


@pytest.fixture
def locked(opensearch: RunningEngine) -> Iterator[tuple[str, list[str | None]]]:
    """The engine behind a door that only one user may pass, and the credentials of all requests that came."""
    credentials: list[str | None] = []

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            credentials.append(self.headers["Authorization"])
            if credentials[-1] != OWNER:
                return self.answer(401, b'{"error": "log in", "status": 401}')
            kind = {"Content-Type": self.headers["Content-Type"]}
            asked = urllib.request.Request(opensearch.url + self.path, body, kind)
            with urllib.request.urlopen(asked) as found:
                return self.answer(200, found.read())

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", "Basic")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with answering(Door) as url:
        yield url, credentials


def test_rankers_are_asked_with_the_credentials_of_the_caller_and_no_others(
    locked: tuple[str, list[str | None]], tmp_path: Path
) -> None:
    url, credentials = locked
    with proxy_of(RunningEngine("opensearch", "", url), tmp_path) as proxy:
        allowed = proxy.search(query(), Authorization=OWNER)
        assert allowed.note["impression"] is not None
        assert len(allowed.ids) == 10
        assert set(credentials) == {OWNER}
        credentials.clear()
        for headers in ({}, {"Authorization": "Basic b3RoZXI6d3Jvbmc="}):
            refused: Reply = proxy.search(query(), **headers)
            assert (refused.status, refused.header("www-authenticate")) == (401, "Basic")
            assert json.loads(refused.body) == {"error": "log in", "status": 401}
        assert set(credentials) == {None, "Basic b3RoZXI6d3Jvbmc="}
