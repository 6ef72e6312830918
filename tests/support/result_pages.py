"""A search site and, under another origin, the service, for tests of the script of result pages."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import interleaf
from tests.support.paths import ROOT
from tests.support.stand_in import until

CLIENT = ROOT / "clients" / "typescript"
needs_node_modules = pytest.mark.skipif(
    shutil.which("node") is None or not (CLIENT / "node_modules").is_dir(),
    reason="no Node on this machine, or no node_modules; make typescript installs them",
)
SCRIPT = Path(interleaf.__file__).parent / "server" / "static" / "interleaf.js"
RESULTS = """<!doctype html><title>results</title>
<link rel="icon" href="data:,">
<script src="{site}/static/interleaf.js" defer {data}></script>{more}
<input id="search" autofocus>
<ol>
  <li data-interleaf-rank="1"><p id="text">no link</p><a id="first" href="/result/1"><b id="bold">one</b></a></li>
  <li><a id="second" href="/result/2" data-interleaf-rank="2" target="_blank" rel="noopener">two</a></li>
  <li data-interleaf-rank="3"><button id="button">save</button><a id="stopped" href="/result/3">three</a></li>
  <li><a id="plain" href="/result/4">not a result</a></li>
  <li id="other"><a id="fifth" href="/result/5" data-interleaf-rank="5">five</a></li>
</ol>"""
SEVERAL = """
const other = document.querySelector("#other");
interleaf.watch(other, {impression: "i-2", token: "t-2", endpoint: "/own"});
const host = document.querySelector("#host"), shadow = host.attachShadow({mode: "open"});
shadow.innerHTML = '<a id="sixth" href="/result/6" data-interleaf-rank="6">six</a>';
interleaf.watch(host, {impression: "i-3", token: "t-3"});
interleaf.report(document.querySelector("#fifth"), {kind: "purchase", rank: 5, value: 2.5});
document.querySelector("#stopped").addEventListener("click", (click) => {
  click.stopImmediatePropagation();
  click.preventDefault();
});
"""


class Site:
    """A search site and, under another origin, the service: pages with a strict policy, and what was reported."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, str, dict[str, Any]]] = []
        self.data, self.more, self.caching = "", "", "no-cache"
        self.pages: dict[str, str] = {}  # by the beginning of their paths
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.get(self)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                site.reported.append((self.path, self.headers["Content-Type"], body))
                self.send_response(202)
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
        self.url, self.service = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)
        self._threads = [threading.Thread(target=server.serve_forever, args=(0.01,)) for server in self._servers]
        for thread in self._threads:
            thread.start()
        self.watches("i-1", "t-1")

    def watches(self, impression: str, token: str) -> None:
        self.data = f'data-impression="{impression}" data-token="{token}"'

    def get(self, request: BaseHTTPRequestHandler) -> None:
        kind, body = "text/html; charset=utf-8", f"<!doctype html><link rel=icon href=data:,><p>{request.path}"
        if request.path.endswith("interleaf.js"):
            kind, body = "text/javascript", SCRIPT.read_text(encoding="utf-8")
        elif request.path == "/several.js":
            kind, body = "text/javascript", SEVERAL
        elif found := [page for start, page in self.pages.items() if request.path.startswith(start)]:
            kind, body = (
                "text/javascript" if request.path.endswith(".js") else kind,
                found[0].replace("SITE", self.service),
            )
        elif request.path == "/":
            body = RESULTS.format(site=self.service, data=self.data, more=self.more) + '<div id="host"></div>'
        request.send_response(200)
        request.send_header("Content-Type", kind)
        request.send_header("Cache-Control", self.caching)
        policy = (
            f"default-src 'none'; script-src 'self' {self.service}; connect-src 'self' {self.service}; img-src data:"
        )
        request.send_header("Content-Security-Policy", policy)
        request.end_headers()
        request.wfile.write(body.encode())

    def wait(self, count: int) -> list[dict[str, Any]]:
        """The events so far, when there are so many of them."""
        until(lambda: len(self.reported) >= count)
        time.sleep(0.05)
        assert len(self.reported) == count, self.reported
        return [event for _, _, body in self.reported for event in body["events"]]

    def close(self) -> None:
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()
