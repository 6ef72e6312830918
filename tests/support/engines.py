"""Real engines for tests: nodes of OpenSearch, Elasticsearch and Solr on this machine, with products to search.

`make engines` builds the programs in tests/engines that run a node.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT
from tests.support.proxies import RunningProxy, running_proxy

PROGRAMS = ROOT / "tests" / "engines"
MAIN = {"opensearch": "OpenSearchNode", "elasticsearch": "ElasticsearchNode", "solr": "SolrNode"}
QUICK_START = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
INDEX = "products"


@dataclass(frozen=True)
class RunningEngine:
    """A node that runs: its name, its version, and its address."""

    name: str
    version: str
    url: str

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What the engine itself answers, as plain data."""
        content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
        request = urllib.request.Request(self.url + path, content, {"Content-Type": kind}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


def why_missing(name: str) -> str | None:
    """Why this engine cannot be started here; None if it can."""
    if shutil.which("java") is None:
        return "no Java on this machine"
    if not (PROGRAMS / name / "target" / "classes" / f"{MAIN[name]}.class").exists():
        return f"the program that runs {name} is not built; make engines builds it"
    return None


@contextmanager
def running_engine(name: str, folder: Path) -> Iterator[RunningEngine]:
    """A node with its data in this folder; it ends when its standard input does, so also when the tests are killed."""
    target = PROGRAMS / name / "target"
    classes = f"{target / 'classes'}:{(target / 'classpath').read_text().strip()}"
    logs = f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.xml'}"
    settings = [str(PROGRAMS / name / "home")] if name == "solr" else []
    command = ["java", *QUICK_START, logs, "-cp", classes, MAIN[name], str(folder), *settings]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=folder) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} did not start:\n{(folder / 'log').read_text()[-4000:]}")
        about = json.loads(line)
        try:
            yield RunningEngine(name, about["version"], f"http://127.0.0.1:{about['port']}")
        finally:
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


KINDS = ("trail shoe", "road shoe", "winter boot", "hiking boot", "wool sock", "rain jacket")
BRANDS = ("Alp", "Birch", "Cedar", "Dune")
COLOURS = ("red", "blue", "green")


def products(amount: int = 240) -> list[dict[str, Any]]:
    """Products of a shop, always the same; the words of titles and texts differ, so that rankers do, too."""
    found = []
    for number in range(1, amount + 1):
        kind, other = KINDS[number % len(KINDS)], KINDS[number * 5 % 7 % len(KINDS)]
        brand, colour = BRANDS[number * 3 % 11 % len(BRANDS)], COLOURS[number * 2 % 5 % len(COLOURS)]
        text = f"A {colour} {kind} by {brand}. " + f"Goes well with a {other}. " * (number * 7 % 5)
        about = {"id": f"p{number}", "title": f"{brand} {kind} {number}", "text": text.strip()}
        about |= {"brand": brand, "colour": colour, "url": f"https://shop.example/p{number}"}
        found.append({**about, "price": 20 + number * 37 % 180})
    return found


_TEXT = {"type": "text", "analyzer": "english"}
_FIELDS = {name: {"type": "keyword"} for name in ("id", "brand", "colour", "url")} | {"price": {"type": "integer"}}


def fill(engine: RunningEngine, index: str = INDEX, documents: list[dict[str, Any]] | None = None) -> None:
    """Put the products into an index; the index of Solr is there already."""
    documents = products() if documents is None else documents
    if engine.name == "solr":
        engine.ask("POST", f"/solr/{index}/update?commit=true&wt=json", documents)
        return
    text = _TEXT if engine.name == "opensearch" else {"type": "text"}  # the stemmers of Elasticsearch are in a module
    fields = _FIELDS | {"title": text, "text": text}
    shards = {"number_of_shards": 1, "number_of_replicas": 0}
    engine.ask("PUT", f"/{index}", {"settings": shards, "mappings": {"properties": fields}})
    lines = [json.dumps(line) for one in documents for line in ({"index": {"_id": one["id"]}}, one)]
    assert not engine.ask("POST", f"/{index}/_bulk?refresh=true", "\n".join([*lines, ""]).encode())["errors"]


@contextmanager
def proxy_of(engine: RunningEngine, folder: Path, **parts: str) -> Iterator[RunningProxy]:
    """A proxy in front of the engine, that waits for every ranker, because a busy machine is slow."""
    budget = "time_budget_ms = 60000\n" + parts.pop("requests", "")
    with running_proxy(engine.url, folder, engine=engine.name, requests=budget, **parts) as proxy:
        yield proxy
