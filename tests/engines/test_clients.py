"""The engines' own clients work through the proxy as they are, and their searches are interleaved."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.engines.test_opensearch import QUERY, ranking
from tests.support.engines import INDEX, PROGRAMS, RunningEngine, products, proxy_of

MATCH = {"multi_match": {"query": QUERY, "fields": ["title", "text"]}}
USER = {"X-User": "user-7"}
CLIENTS = PROGRAMS / "clients"


def check_pages(engine: RunningEngine, first: list[str], second: list[str]) -> None:
    """Two pages without repeats, of documents of both rankers."""
    rankings = [set(ranking(engine, ranker)[:20]) for ranker in ("production", "candidate")]
    shown = {*first, *second}
    assert (len(first), len(second), len(shown)) == (10, 10, 20)
    assert shown & rankings[0] - rankings[1]
    assert shown & rankings[1] - rankings[0]


def ids_of(answer: Any) -> list[str]:
    return [hit["_id"] for hit in answer["hits"]["hits"]]


def test_opensearch_py(opensearch: RunningEngine, tmp_path: Path) -> None:
    pytest.importorskip("opensearchpy")
    from opensearchpy import NotFoundError, OpenSearch, RequestError, helpers

    with proxy_of(opensearch, tmp_path) as proxy:
        client = OpenSearch(f"http://127.0.0.1:{proxy.port}", timeout=60, headers=USER)
        assert client.info()["version"]["distribution"] == "opensearch"
        pages = [client.search(index=INDEX, body={"query": MATCH, "from": first}) for first in (0, 10)]
        assert pages[0]["ext"]["interleaf"]["impression"]
        check_pages(opensearch, *map(ids_of, pages))
        lines = [{"index": INDEX}, {"query": MATCH}, {"index": "nowhere"}, {}]
        several = client.msearch(body=lines)["responses"]
        assert ids_of(several[0]) == ids_of(pages[0])
        assert several[1]["error"]["type"] == "index_not_found_exception"
        written, _ = helpers.bulk(client, [{"_index": "of-python", **one} for one in products(30)], refresh=True)
        assert (written, client.count(index="of-python")["count"]) == (30, 30)
        scanned = list(helpers.scan(client, index=INDEX, query={"query": MATCH}, size=100))
        assert len(scanned) == pages[0]["hits"]["total"]["value"]
        client.indices.delete(index="of-python")
        with pytest.raises(NotFoundError):
            client.get(index="of-python", id="1")
        with pytest.raises(RequestError):
            client.search(index=INDEX, body={"query": {"no_such_query": {}}})
        client.close()


def test_elasticsearch_py(elasticsearch: RunningEngine, tmp_path: Path) -> None:
    pytest.importorskip("elasticsearch")
    from elasticsearch import BadRequestError, Elasticsearch, NotFoundError, helpers

    with (
        proxy_of(elasticsearch, tmp_path) as proxy,
        Elasticsearch(f"http://127.0.0.1:{proxy.port}", request_timeout=60, headers=USER) as client,
    ):
        pages = [client.search(index=INDEX, query=MATCH, from_=first) for first in (0, 10)]
        assert pages[0]["ext"]["interleaf"]["impression"]
        check_pages(elasticsearch, *map(ids_of, pages))
        several = client.msearch(searches=[{"index": INDEX}, {"query": MATCH}])["responses"]
        assert ids_of(several[0]) == ids_of(pages[0])
        written, _ = helpers.bulk(client, [{"_index": "of-python", **one} for one in products(30)], refresh=True)
        assert (written, client.count(index="of-python")["count"]) == (30, 30)
        scanned = list(helpers.scan(client, index=INDEX, query={"query": MATCH}, size=100))
        assert len(scanned) == pages[0]["hits"]["total"]["value"]
        client.indices.delete(index="of-python")
        with pytest.raises(NotFoundError):
            client.get(index="of-python", id="1")
        with pytest.raises(BadRequestError):
            client.search(index=INDEX, query={"no_such_query": {}})


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node on this machine")
@pytest.mark.skipif(
    not (CLIENTS / "target" / "built").exists(), reason="no clients of Node; make engines installs them"
)
def test_the_opensearch_client_of_node(opensearch: RunningEngine, tmp_path: Path) -> None:
    with proxy_of(opensearch, tmp_path) as proxy:
        command = ["node", str(CLIENTS / "opensearch_client.js"), f"http://127.0.0.1:{proxy.port}", "user-7"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    check_pages(opensearch, answers["first"], answers["second"])
    assert answers["several"] == answers["first"]
    assert answers["note"]["impression"]
    assert answers["written"] == {"title": "a"}
    assert answers["scrolled"] == answers["total"] > 100
