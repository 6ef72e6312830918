"""`make demo-proxy`: a real OpenSearch, `interleaf proxy` in front of it, people who search through it, the dashboard.

The people and the documents are those of `interleaf demo`. They ask the proxy as they would ask OpenSearch.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from interleaf.client import Client
from interleaf.demo.engine import LibraryEntry, leaf, read_entries, words_of
from interleaf.demo.live_demo import LOOK, NAME, RunningLine, address, begin, line_of, listen, read_report, serve_app
from interleaf.demo.searchers import PersonSearch, clicks, searches
from interleaf.report.report import Report
from interleaf.server.app import create_app
from interleaf.store.sql import open_store
from tests.support.engines import RunningEngine, running_engine, why_missing

INDEX, RANKERS = "library", ("equal", "exact")
CONFIG = """\
[proxy]
listen = "127.0.0.1:{port}"

[upstream]
engine = "opensearch"
url = "{engine}"

[experiment]
name = "{experiment}"
service = "{service}"
spool = "spool"

[requests]
paths = ["/{index}/_search"]
where = [{{ pointer = "/query/multi_match/fields" }}]
query = "/query/multi_match/query"

[unit]
header = "X-User"

# The control: the request as it comes.
[[rankers]]
name = "equal"

# The same request, but entries whose name is the query come first.
[[rankers]]
name = "exact"
patch = {{ query.multi_match.fields = ["leaf^20", "name", "title", "text"] }}
"""
FIELDS = ["name", "title", "text"]
PER_SECOND, THREADS = 15.0, 4


def fill_library(engine: RunningEngine, entries: Sequence[LibraryEntry]) -> None:
    """Put the documentation of Python's standard library into an index."""
    shards, text = {"number_of_shards": 1, "number_of_replicas": 0}, {"type": "text", "analyzer": "english"}
    fields = dict.fromkeys(FIELDS, text) | {"leaf": {"type": "keyword", "normalizer": "lowercase"}}
    engine.ask("PUT", f"/{INDEX}", {"settings": shards, "mappings": {"properties": fields}})
    lines = list[str]()
    for entry in entries:
        name = " ".join([leaf(entry.id), *words_of(entry.id)])
        about = {"leaf": leaf(entry.id), "name": name, "title": entry.title, "text": entry.text}
        lines += json.dumps({"index": {"_id": entry.id}}), json.dumps(about)
    assert not engine.ask("POST", f"/{INDEX}/_bulk?refresh=true", "\n".join([*lines, ""]).encode())["errors"]


@contextmanager
def running_proxy(folder: Path, engine: str, service: str) -> Iterator[str]:
    """`interleaf proxy` in a process of its own; its address."""
    with closing(listen()) as place:
        url = address(place)
    port = int(url.rpartition(":")[2])
    text = CONFIG.format(port=port, engine=engine, service=service, experiment=NAME, index=INDEX)
    (folder / "proxy.toml").write_text(text, encoding="utf-8")
    command = [str(Path(sys.executable).with_name("interleaf")), "proxy", str(folder / "proxy.toml")]
    with (
        (folder / "proxy.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True) as process,
    ):
        try:
            if not is_interleaving(url, process):
                raise RuntimeError(f"the proxy does not interleave:\n{(folder / 'proxy.log').read_text()}")
            yield url
        finally:
            process.terminate()


def is_interleaving(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the proxy knows the experiment."""
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        with suppress(urllib.error.URLError), urllib.request.urlopen(f"{url}/_interleaf/health") as answer:
            if json.load(answer)["recording"]["running"]:
                return True
        time.sleep(0.2)
    return False


def post(url: str, body: Any, headers: dict[str, str]) -> Any:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), headers | {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def search(url: str, person: PersonSearch) -> Any:
    """What a person's search page asks."""
    query = {"multi_match": {"query": person.query, "fields": FIELDS}}
    return post(f"{url}/{INDEX}/_search", {"query": query, "_source": ["title"]}, {"X-User": person.unit})


def visit(url: str, person: PersonSearch) -> None:
    """Search through the proxy, and click as the browser script reports clicks."""
    found = search(url, person)
    note = found.get("ext", {}).get("interleaf")
    shown = [hit["_id"] for hit in found["hits"]["hits"]]
    events = [{"rank": rank, "kind": "click", "dwell": dwell} for rank, dwell in clicks(person, shown)]
    if note and note["impression"] and events:
        about = {"impression": note["impression"]}
        post(f"{url}/_interleaf/events", {"token": note["token"], "events": [about | one for one in events]}, {})


class Visitors:
    """Threads in which people search in order, at a limited rate."""

    def __init__(self, url: str, people: Sequence[PersonSearch]) -> None:
        self._url, self._left, self._ended = url, iter(people), threading.Event()
        self._lock, self._threads = threading.Lock(), [threading.Thread(target=self._work) for _ in range(THREADS)]
        for thread in self._threads:
            thread.start()

    @property
    def has_gone(self) -> bool:
        """Whether all people have searched."""
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """End new searches, and wait for those in progress."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while not self._ended.wait(THREADS / PER_SECOND):
            with self._lock:
                person = next(self._left, None)
            if person is None:
                return
            visit(self._url, person)


def watch(client: Client, visitors: Visitors, line: RunningLine, is_short: bool) -> Report | None:
    """Print the current result until Ctrl-C, or until all people have searched and their lists are counted."""
    lists = -1
    while True:
        has_gone, report = visitors.has_gone, read_report(client)
        line.show(line_of(report))
        found = report.totals.impressions if report else 0
        if is_short and has_gone and found == lists:
            return report
        lists = found
        time.sleep(3 * LOOK)  # a report may be some seconds old


def run(people: int, is_short: bool) -> None:
    """Run until Ctrl-C, or until all people have searched."""
    line = RunningLine(sys.stdout)
    with ExitStack() as stack, suppress(KeyboardInterrupt):
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="interleaf-demo-proxy-")))
        line.hint("Starting OpenSearch ...")
        engine = stack.enter_context(running_engine("opensearch", folder))
        line.hint("Reading the documentation of the standard library ...")
        entries = read_entries()
        fill_library(engine, entries)
        store = stack.enter_context(closing(open_store(folder / "demo.sqlite")))
        place = stack.enter_context(listen())
        stack.enter_context(serve_app(create_app(store), place))
        client = Client(address(place), timeout=30)
        stack.callback(client.close)
        line.hint("Starting the experiment; the first time this compiles its methods ...")
        begin(client, RANKERS)
        proxy = stack.enter_context(running_proxy(folder, engine.url, address(place)))
        line.end(f"OpenSearch {engine.version}   {engine.url}/{INDEX}/_search?q=json")
        line.end(f"its proxy           {proxy}/{INDEX}/_search?q=json (not interleaved: it has no fields to change)")
        line.end(f"health of the proxy {proxy}/_interleaf/health")
        line.end(f"the dashboard       {address(place)}/experiments/{NAME}")
        body = json.dumps({"query": {"multi_match": {"query": "json", "fields": FIELDS}}})
        line.end(f"interleaved:        curl -H 'Content-Type: application/json' -d '{body}' {proxy}/{INDEX}/_search")
        line.end("Ctrl-C ends.\n")
        visitors = Visitors(proxy, searches({entry.id: entry for entry in entries}, people))
        stack.callback(visitors.stop)
        report = watch(client, visitors, line, is_short)
        line.end(line_of(report))
    line.end("Ended.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=1000, help="number of simulated people")
    parser.add_argument("--short", action="store_true", help="end when all people have searched")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    if problem := why_missing("opensearch"):
        sys.exit(f"the demo starts a real OpenSearch: {problem}")
    run(options.people, options.short)


if __name__ == "__main__":
    main()
