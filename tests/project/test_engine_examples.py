"""The files of docs/engines.md, with the engines' own clients: against a server that speaks the engines' protocols.

The engines themselves cannot run here. What the server answers is made up; what the clients send and read is real.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.project.test_documentation import blocks
from tests.support.paths import ROOT
from tests.support.stand_in import KEY, StandIn, answering

PRODUCTS = {
    "p1": {"title": "trail runner", "text": "light shoes for the forest"},
    "p2": {"title": "road runner", "text": "not for a trail trail trail trail"},
    "p3": {"title": "socks", "text": "for every trail shoe and every trail"},
    "p4": {"title": "umbrella", "text": "keeps the rain off"},
}
PAGE = ROOT / "docs" / "engines.md"


class Engine(BaseHTTPRequestHandler):
    """Scores products by their words, with the boosts that it is given, and answers as each engine does."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, dict[str, Any]]]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        address = urlsplit(self.path)
        size = int(asked.get("size") or parse_qs(address.query)["size"][0])
        self.asked.append((address.path, asked))
        match = asked["query"]["multi_match"]
        found = [
            {"_index": "products", "_id": name, "_score": score, "_source": PRODUCTS[name]}
            for name, score in self.scores(match["query"], match["fields"])[:size]
        ]
        total = {"value": len(found), "relation": "eq"}
        self.answer({"took": 1, "timed_out": False, "hits": {"total": total, "hits": found}})

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        self.asked.append((address.path, asked))
        assert (asked["defType"], asked["wt"]) == ("edismax", "json")
        found = self.scores(asked["q"], asked["qf"].split())[: int(asked["rows"])]
        documents = [{"id": name} | PRODUCTS[name] for name, _ in found]
        self.answer({"responseHeader": {"status": 0}, "response": {"numFound": len(found), "docs": documents}})

    @staticmethod
    def scores(query: str, fields: list[str]) -> list[tuple[str, float]]:
        boosts = {field.partition("^")[0]: float(field.partition("^")[2] or 1) for field in fields}
        found = {
            name: sum(boost * product[field].split().count(query) for field, boost in boosts.items())
            for name, product in PRODUCTS.items()
        }
        return sorted(((name, score) for name, score in found.items() if score), key=lambda one: -one[1])

    def answer(self, data: dict[str, Any]) -> None:
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Elastic-Product", "Elasticsearch")  # without it, its client talks to nobody
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def patient(text: str) -> str:
    """A page's file for a machine that may stand still for seconds: it waits longer, and says the same."""
    for short, long in (
        ("seconds=0.5", "seconds=60"),
        ("timeout=2)", "timeout=60)"),
        ('spool="spool"', 'spool="spool", timeout=60'),
    ):
        text = text.replace(short, long)
    return text


@pytest.fixture
def engine() -> Iterator[str]:
    Engine.asked = []
    with answering(Engine) as address:
        yield address


@pytest.fixture
def service() -> Iterator[StandIn]:
    service = StandIn(name="shop")
    yield service
    service.end()


@pytest.fixture
def folder(tmp_path: Path, engine: str, service: StandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's files, and the addresses that they read."""
    for block in blocks(PAGE):
        if block.mark == "file" and block.what is not None:
            (tmp_path / block.what).write_text(patient(block.text), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    addresses = {"ELASTICSEARCH": engine, "OPENSEARCH": engine, "SOLR": f"{engine}/solr/products"}
    for name, address in (addresses | {"INTERLEAF": service.url}).items():
        monkeypatch.setenv(f"{name}_URL", address)
    monkeypatch.setenv("INTERLEAF_KEY", KEY)
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        module = sys.modules.pop(path.stem, None)
        if path.stem == "comparing" and module is not None:
            module.service.close()
            module.threads.shutdown()
        if module is not None and hasattr(getattr(module, "engine", None), "close"):
            module.engine.close()


def imported(name: str) -> ModuleType:
    importlib.invalidate_caches()
    return importlib.import_module(name)


@pytest.mark.parametrize("name", ["with_elasticsearch", "with_opensearch", "with_solr"])
def test_the_page_of_each_engine_shows_a_mixed_list_that_the_service_stored(
    name: str, folder: Path, service: StandIn
) -> None:
    pytest.importorskip({"with_opensearch": "opensearchpy", "with_solr": "pysolr"}.get(name, "elasticsearch"))
    module = imported(name)
    assert list(module.RANKERS["production"]("trail")) == ["p2", "p3", "p1"]
    assert list(module.RANKERS["candidate"]("trail")) == ["p2", "p1", "p3"]
    answer, documents = module.page_of("trail", unit="user-7")
    assert (answer.arm, answer.stored) == ("interleaved", True)
    assert service.impressions[answer.impression]["rankings"] == {
        "production": ["p2", "p3", "p1"],
        "candidate": ["p2", "p1", "p3"],
    }
    assert [document["title"] for document in documents] == [PRODUCTS[one]["title"] for one in answer.documents]
    assert len(Engine.asked) == 4
    boosts = [re.findall(r"title\^3", json.dumps(asked)) for _, asked in Engine.asked]
    assert sorted(map(len, boosts)) == [0, 0, 1, 1]


def test_a_ranker_that_fails_or_is_late_leaves_the_other(
    folder: Path, service: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparing = imported("comparing")
    late = threading.Event()

    def fails(query: str) -> dict[str, Any]:
        raise OSError("the engine is away")

    def waits(query: str) -> dict[str, Any]:
        late.wait()
        return {}

    def waited(asked: Iterable[Future[Any]], timeout: float) -> None:
        """As long as that, but until the first one is there, however slow the machine is."""
        first, *others = asked
        first.exception(60)
        wait(others, timeout)

    monkeypatch.setattr(comparing, "wait", waited)
    for broken, seconds in ((fails, 60), (waits, 0.1)):
        rankers = {"production": lambda query: PRODUCTS, "candidate": broken}
        answer, documents = comparing.search(rankers, "trail", "user-7", seconds=seconds)
        assert (answer.arm, answer.documents) == ("fallback", ["p1", "p2", "p3"])
        assert documents == [PRODUCTS[name] for name in answer.documents]
    late.set()


def test_a_search_that_the_service_refuses_shows_production(folder: Path) -> None:
    comparing = imported("comparing")
    rankers = {"production": lambda query: PRODUCTS, "unknown": lambda query: PRODUCTS}
    answer, documents = comparing.search(rankers, "trail", "user-7")
    assert (answer, documents) == (None, list(PRODUCTS.values()))
