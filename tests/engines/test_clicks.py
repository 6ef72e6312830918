"""Clicks on lists of real engines reach the log: by the calls of the browser script, and by links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from interleaf import log
from tests.engines.test_opensearch import QUERY, query
from tests.engines.test_solr import SELECT, TITLE_FIRST
from tests.support.engines import INDEX, RunningEngine, proxy_of
from tests.support.proxies import Reply, RunningProxy

LINKS = {"opensearch": "/_source/url", "elasticsearch": "/_source/url", "solr": "/url"}


def search(proxy: RunningProxy, engine: RunningEngine) -> Reply:
    if engine.name == "solr":
        return proxy.ask("GET", f"{SELECT}?{urlencode({'q': QUERY, 'qf': 'title text'})}", None, {"X-User": "user-7"})
    return proxy.search(query())


def test_a_link_and_the_browser_script_report_clicks(engine: RunningEngine, tmp_path: Path) -> None:
    parts = {"path": SELECT, "candidate": TITLE_FIRST} if engine.name == "solr" else {"path": f"/{INDEX}/_search"}
    link = f'[clicks]\nlink = "{LINKS[engine.name]}"'
    with proxy_of(engine, tmp_path, clicks=link, **parts) as proxy:
        reply = search(proxy, engine)
        followed = proxy.ask("GET", reply.note["links"][2])
        assert (followed.status, followed.header("location")) == (302, f"https://shop.example/{reply.ids[2]}")
        event = {"impression": reply.note["impression"], "rank": 5, "kind": "click", "dwell": 12.5}
        body: dict[str, Any] = {"token": reply.note["token"], "events": [event]}
        assert proxy.ask("POST", "/_interleaf/events", json.dumps(body).encode()).status == 202
    (row,) = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert row["documents"] == reply.ids
    assert sorted((one["kind"], one["rank"]) for one in row["events"]) == [("click", 3), ("click", 5)]
