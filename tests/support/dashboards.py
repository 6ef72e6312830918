"""Someone at the dashboard, without a browser: opens pages, fills in forms; and traffic to look at."""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser
from typing import Any

from tests.support.services import Live

TOKEN = re.compile(r'name="token" value="([^"]+)"')
NEW_ID = re.compile(r'name="id" value="([^"]+)"')


class Visitor:
    """A browser's cookies and forms; redirects are followed, as people do."""

    def __init__(self, service: Live) -> None:
        self.service, self.client = service, service.client

    def open(self, path: str, **more: Any) -> Any:
        return self.client.get(path, **more)

    def send(self, page: str, path: str, **fields: str) -> Any:
        """Open a page, and send a form with its token; the form of a new key has an id, too."""
        text = self.open(page).text
        found = TOKEN.search(text)
        assert found is not None, page
        new = NEW_ID.search(text)
        return self.client.post(path, data={"token": found[1], "id": new[1] if new else ""} | fields)

    def log_in(self, role: str) -> Any:
        self.client.cookies.clear()
        return self.client.post("/login", data={"key": self.service.keys[role], "next": "/"})


class Elements(HTMLParser):
    """All elements of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def traffic(service: Live, units: int, name: str = "shoes", key: str | None = None, **more: Any) -> None:
    """People who want three of eight documents, which the candidate ranks at the top: it should win."""
    chance = random.Random(7)
    documents = [f"document-{number}" for number in range(8)]
    events: list[dict[str, Any]] = []
    for unit in range(units):
        wanted = set(chance.sample(documents, 3))
        shuffled = chance.sample(documents, 8)
        rankings = {"production": shuffled, "candidate": sorted(shuffled, key=lambda document: document not in wanted)}
        body = {"unit": f"user-{unit}", "query": f"query {unit % 9}", "rankings": rankings} | more
        shown = service.ask("POST", f"/v1/experiments/{name}/interleave", body, key).json()
        for rank, document in enumerate(shown["documents"], 1):
            if document in wanted and chance.random() < 0.6:
                events.append({"impression": shown["impression"], "rank": rank})
                if chance.random() < 0.3:
                    events.append({"impression": shown["impression"], "rank": rank, "kind": "purchase"})
    for start in range(0, len(events), 500):
        assert service.tell(*events[start : start + 500], key=key).status_code == 202
