"""The demo's search page, over HTTP: what it shows and tells the browser, and that nothing gets out of its text."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from html.parser import HTMLParser
from http.client import HTTPResponse
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from hypothesis import given, settings, strategies as st
from starlette.applications import Starlette

from interleaf import interleave
from interleaf.client import Answer, Client
from interleaf.demo.engine import Engine, LibraryEntry
from interleaf.demo.live_demo import Site, address, listen, pieces, serve_app
from interleaf.errors import InterleafError

HOSTILE = '<script>alert("1")</script> & <b>'
ENTRIES = [
    LibraryEntry("json", "module", "json", "json", "Read and write JSON."),
    LibraryEntry("json.dumps", "function", "json", "json.dumps(obj)", "Serialize an object to JSON text."),
    LibraryEntry("json.loads", "function", "json", "json.loads(s)", "An object from JSON text."),
    LibraryEntry("json.odd", "function", "json", f"json.odd({HOSTILE})", f"JSON {HOSTILE} text"),
]


class Recorder(Client):
    """Mixes in this process, and remembers who asked what; what it answers can be set."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self.asked: list[dict[str, Any]] = []
        self.is_logged = True

    def interleave(self, experiment: str, rankings: Any, **request: Any) -> Answer:
        self.asked.append({"experiment": experiment, "rankings": rankings, **request})
        shown = interleave(rankings, key=(request["unit"], request["query"]))
        documents = [str(one) for one in shown.documents]
        name, token = ('i-"7"', "tok<en") if self.is_logged else (None, None)
        return Answer(name, documents, "interleaved", token)


class Tags(HTMLParser):
    """Every tag of a page, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [found for name, found in self.tags if name == tag]


@contextmanager
def pages(entries: list[LibraryEntry]) -> Iterator[tuple[str, Recorder]]:
    with closing(Engine(entries)) as engine, Recorder() as client, listen() as place:
        site = Site(engine, client, "shoes", ("equal", "exact"))
        with serve_app(Starlette(routes=site.routes()), place):
            yield address(place), client


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[str, Recorder]]:
    with pages(ENTRIES) as found:
        yield found


def get(url: str, **headers: str) -> tuple[HTTPResponse, str]:
    with urlopen(Request(url, headers=headers), timeout=20) as reply:
        return reply, reply.read().decode()


def test_results_are_the_interleaved_list_with_captions_and_ranks(place: tuple[str, Recorder]) -> None:
    url, client = place
    _, page = get(f"{url}/search?q=JSON%20text")
    asked, tags = client.asked[-1], Tags(page)
    assert asked["experiment"] == "shoes"
    assert asked["query"] == "JSON text"
    assert set(asked["rankings"]) == {"equal", "exact"}
    assert set(asked["captions"]) == {one.id for one in ENTRIES}
    results = [found for found in tags.of("a") if "data-interleaf-rank" in found]
    shown = interleave(asked["rankings"], key=(asked["unit"], "JSON text")).documents
    assert [found["data-interleaf-rank"] for found in results] == ["1", "2", "3", "4"]
    assert [found["href"] for found in results] == [f"/library/{name}?q=JSON%20text" for name in shown]
    assert tags.of("script") == [
        {
            "defer": None,
            "src": "/static/interleaf.js",
            "data-endpoint": "/v1/events",
            "data-impression": 'i-"7"',
            "data-token": "tok<en",
        }
    ]
    assert "<b>JSON</b> <b>text</b>" in page
    assert tags.of("input")[0]["value"] == "JSON text"


def test_what_is_not_logged_reports_no_clicks(place: tuple[str, Recorder]) -> None:
    url, client = place
    client.is_logged = False
    try:
        assert Tags(get(f"{url}/search?q=json")[1]).of("script") == []
    finally:
        client.is_logged = True


def test_without_words_nobody_is_asked(place: tuple[str, Recorder]) -> None:
    url, client = place
    before = len(client.asked)
    assert "4 entries" in get(f"{url}/search")[1]
    assert "Nothing matches" in get(f"{url}/search?q=zebra")[1]
    assert "Nothing matches" in get(f"{url}/search?q=%22**")[1]
    assert len(client.asked) == before


def test_who_searches_again_is_the_same_unit(place: tuple[str, Recorder]) -> None:
    url, client = place
    reply, _ = get(f"{url}/search?q=json")
    cookie = str(reply.headers["Set-Cookie"])
    assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
    first = client.asked[-1]["unit"]
    get(f"{url}/search?q=json", Cookie=cookie.partition(";")[0])
    assert client.asked[-1]["unit"] == first
    get(f"{url}/search?q=json", Cookie="interleaf-demo=you-<script>")
    assert re.fullmatch("you-[0-9a-f]{16}", client.asked[-1]["unit"])
    assert client.asked[-1]["unit"] != first


def test_an_entry_shows_its_text_its_owner_and_what_is_inside(place: tuple[str, Recorder]) -> None:
    url, _ = place
    page = Tags(get(f"{url}/library/json.dumps?q=a%26b")[1])
    assert "Serialize an object to JSON text." in page.text
    assert {"/library/json", "/search?q=a%26b"} <= {found.get("href") for found in page.of("a")}
    inside = [found["href"] for found in Tags(get(f"{url}/library/json")[1]).of("a")]
    assert inside[-3:] == ["/library/json.dumps", "/library/json.loads", "/library/json.odd"]
    with pytest.raises(HTTPError, match="404") as missing:
        get(f"{url}/library/%3Cscript%3E")
    with missing.value as answer:
        assert "no such entry" in answer.read().decode()


def test_every_page_has_a_policy_that_allows_nothing_from_elsewhere_and_no_inline_script(
    place: tuple[str, Recorder],
) -> None:
    url, _ = place
    for path in ("/search", "/search?q=json", "/library/json", "/search.css"):
        reply, page = get(url + path)
        policy = str(reply.headers["Content-Security-Policy"])
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        for tag, found in Tags(page).tags:
            assert not [name for name in found if name.startswith("on") or name == "style"]
            assert tag != "style"
            links = [str(found[name]) for name in ("src", "href", "action") if name in found]
            assert all(re.match("/[a-z]?", link) or link == "data:," for link in links)
            assert not [link for link in links if link.startswith("//")]


@settings(max_examples=60)
@given(st.one_of(st.just(HOSTILE), st.text(max_size=300)))
def test_no_query_gets_out_of_its_text(place: tuple[str, Recorder], query: str) -> None:
    url, client = place
    path = f"{url}/search?q=" + quote(query.encode("utf-8", "surrogatepass"))
    plain, page = Tags(get(f"{url}/search?q=json")[1]), Tags(get(path + "%20json")[1])
    allowed = {tag for tag, _ in plain.tags} | {"p", "b", "ul"}
    assert {tag for tag, _ in page.tags} <= allowed
    assert [found["src"] for found in page.of("script")] in ([], ["/static/interleaf.js"])
    assert len(str(page.of("input")[0]["value"])) <= 200
    assert all(one["query"].isprintable() for one in client.asked[-2:])


def test_hostile_entries_are_escaped(place: tuple[str, Recorder]) -> None:
    url, _ = place
    for path in ("/search?q=alert", "/library/json.odd"):
        page = get(url + path)[1]
        assert "<script>alert" not in page
        assert "alert" in Tags(page).text


def test_pieces_put_together_are_the_text() -> None:
    assert pieces("abc", []) == [("abc", False)]
    sections = [{"start": 0, "end": 1}, {"start": 1, "end": 2}, {"start": 3, "end": 5}]
    assert pieces("abcde", sections) == [("a", True), ("b", True), ("c", False), ("de", True)]


def test_a_port_that_is_taken_is_named() -> None:
    with listen() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InterleafError, match=f"port {port} cannot be used"):
            listen(port)
    with pytest.raises(InterleafError, match="port 99999 cannot be used"):
        listen(99_999)
