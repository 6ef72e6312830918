"""The files of docs/engines.md, with the engines' own clients and the engines themselves."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.project.test_documentation import blocks
from tests.project.test_engine_examples import PAGE, patient
from tests.support.engines import INDEX, RunningEngine
from tests.support.stand_in import KEY, StandIn

QUERY = "rain shoe"
CLIENTS = {"opensearch": "opensearchpy", "elasticsearch": "elasticsearch", "solr": "pysolr"}


@pytest.fixture
def service() -> Iterator[StandIn]:
    service = StandIn(name="shop")
    yield service
    service.end()


@pytest.fixture
def example(
    engine: RunningEngine, service: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """The page's file for the engine, with the addresses that it reads."""
    pytest.importorskip(CLIENTS[engine.name])
    for block in blocks(PAGE):
        if block.mark == "file" and block.what is not None:
            (tmp_path / block.what).write_text(patient(block.text), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = f"/solr/{INDEX}" if engine.name == "solr" else ""
    monkeypatch.setenv(f"{engine.name.upper()}_URL", engine.url + path)
    monkeypatch.setenv("INTERLEAF_URL", service.url)
    monkeypatch.setenv("INTERLEAF_KEY", KEY)
    importlib.invalidate_caches()
    module = importlib.import_module(f"with_{engine.name}")
    yield module
    comparing = sys.modules.pop("comparing")
    comparing.service.close()
    comparing.threads.shutdown()
    del sys.modules[module.__name__]
    if hasattr(module.engine, "close"):
        module.engine.close()


def ranked(engine: RunningEngine, boost: int) -> list[str]:
    """What the engine returns without a client."""
    if engine.name == "solr":
        fields = f"title^{boost}+text"
        asked = f"/solr/{INDEX}/select?defType=edismax&wt=json&rows=50&qf={fields}&q={QUERY.replace(' ', '+')}"
        documents: list[Any] = engine.ask("GET", asked)["response"]["docs"]
        return [document["id"] for document in documents]
    match = {"multi_match": {"query": QUERY, "fields": [f"title^{boost}", "text"]}}
    hits: list[Any] = engine.ask("POST", f"/{INDEX}/_search", {"query": match, "size": 50})["hits"]["hits"]
    return [hit["_id"] for hit in hits]


def test_the_page_shows_a_mixed_list_of_what_the_engine_returns(
    engine: RunningEngine, example: ModuleType, service: StandIn
) -> None:
    production, candidate = ranked(engine, 1), ranked(engine, 3)
    assert production != candidate
    assert len(production) == len(candidate) == 50
    answer, documents = example.page_of(QUERY, unit="user-7")
    assert (answer.arm, answer.stored) == ("interleaved", True)
    expected = {"production": production, "candidate": candidate}
    assert service.impressions[answer.impression]["rankings"] == expected
    assert [document["id"] for document in documents] == answer.documents
    assert set(answer.documents) <= {*production, *candidate}
