"""Whatever visitors send, search goes on: with the real service, and in an outage."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from interleaf.client import Answer, AsyncClient, Client, EventCounts
from interleaf.errors import ClientError
from interleaf.experiment import Experiment
from interleaf.server.app import create_app
from interleaf.store import open_store
from tests.support.services import RANKINGS, SHOES, listening
from tests.support.stand_in import until

TEXTS = st.text(st.characters(exclude_categories=()), max_size=30) | st.sampled_from(
    [
        "",
        "\0",
        "a\0b",
        "\ud800",
        "q" * 2001,
        "u" * 251,
        "\U0001f45f" * 1001,
        " 2 ",
        "None",
        "9" * 5000,
        "-1",
        "2e3",
        "٣",
    ]
)
NUMBERS = (
    st.integers()
    | st.floats()
    | st.sampled_from([0, -1, 1, 2, 50, 51, 201, 10_001, 2**31, 2**63, 2**64, 10**400, 1e308, float("nan"), True])
)
VALUES = TEXTS | NUMBERS
ODD = VALUES | st.binary(max_size=5) | st.lists(VALUES, max_size=2) | st.sampled_from([{"a": 1}, UUID(int=7), None])
HIGHLIGHT = st.fixed_dictionaries({"field": ODD, "start": ODD}, optional={"end": ODD, "\ud800": ODD}) | ODD
CAPTION = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("title", "url", "snippet", "deep_links", "highlights", "colour", "\ud800"), ODD),
        "highlights": ODD | st.lists(HIGHLIGHT, max_size=3),
    },
)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("unit", "query", "session", "impression", "user_agent", "page", "k"), ODD),
        "attributes": st.dictionaries(TEXTS, ODD, max_size=4),
        "captions": st.dictionaries(VALUES, CAPTION | ODD, max_size=4),
        "characters": st.dictionaries(VALUES, ODD, max_size=4),
    },
)
FIELDS = ("event", "impression", "unit", "rank", "document", "kind", "time", "dwell", "value", "else")
EVENTS = st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, VALUES | st.none())) | VALUES, max_size=4)
QUICKLY = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = open_store(tmp_path_factory.mktemp("visitors") / "store.sqlite")
    now = time.time_ns() // 1000
    for more in ({}, {"name": "boots"}, {"name": "whole", "method": "optimized"}):
        made = Experiment.of(SHOES | more)
        store.create(made, now, "test")
        store.start(made.name, now, "test")
    with listening(create_app(store)) as url:
        yield url
    store.close()


@pytest.fixture(scope="module", params=["service", "outage"])
def client(request: pytest.FixtureRequest, url: str) -> Iterator[Client]:
    with Client(url, timeout=120, max_spooled=10**6, backoff=(600, 600)) as client:
        for name in ("shoes", "boots", "whole"):
            client.interleave(name, RANKINGS, unit="first", query="q")
        until(lambda: all(client._known.get(name) is not None for name in ("shoes", "boots", "whole")))
        if request.param == "outage":
            client._delivery._thread, client._delivery.away = object(), True  # type: ignore[assignment]
        yield client
        client._delivery._thread = None


@QUICKLY
@given(REQUESTS, EVENTS, VALUES, VALUES, VALUES)
@example({"query": "q" * 2001}, [], "i", 1, 1.0)
@example({"user_agent": "x" * 1001, "unit": "\ud800"}, [], "i", "1", None)
@example({"page": 10**12, "k": 10**12}, [{"impression": "i", "rank": 0}], "\0", -1, float("inf"))
def test_nothing_that_visitors_send_makes_a_call_raise(
    client: Client, request: dict[str, Any], events: list[Any], impression: Any, rank: Any, dwell: Any
) -> None:
    answer = client.interleave("shoes", RANKINGS, **request)
    assert set(answer.documents) <= set(RANKINGS["production"])
    assert answer.documents or "page" in request
    assert isinstance(client.click(impression, rank, dwell), EventCounts)
    client.click(answer.impression, rank)
    client.events(events)
    client.events(rank)


@QUICKLY
@given(REQUESTS, EVENTS, VALUES, VALUES)
def test_nor_a_call_of_the_client_for_event_loops(
    url: str, request: dict[str, Any], events: list[Any], impression: Any, rank: Any
) -> None:
    async def search() -> None:
        async with AsyncClient(url, threads=1, timeout=120) as client:
            answer = await client.interleave("shoes", RANKINGS, **request)
            await client.click(impression, rank)
            await client.click(answer.impression, rank)
            await client.events(events)

    asyncio.run(search())


def test_what_is_cleaned_is_counted_and_each_field_is_warned_of_once(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(url, timeout=120) as client:
        for _ in range(3):
            answer = client.interleave("shoes", RANKINGS, unit="u" * 300, query="secret " * 300, user_agent="x" * 1001)
            assert (answer.stored, answer.arm) == (True, "interleaved")
        assert client.status().cleaned == 9
        for field in ("unit", "query", "user_agent"):
            assert caplog.text.count(f"{field} holds a value") == 1
        assert "secret" not in caplog.text


def test_values_of_other_types_become_texts(url: str) -> None:
    with Client(url, timeout=120) as client:
        expected = client.interleave("shoes", RANKINGS, unit="u", query="q").documents
        for unit, query in ((b"u", ["q"]), (["u"], b"q"), (("u",), "q")):
            assert client.interleave("shoes", RANKINGS, unit=unit, query=query).documents == expected  # type: ignore[arg-type]
        assert client.interleave("shoes", RANKINGS, unit=UUID(int=7), query={"a": 1}).stored  # type: ignore[arg-type]
        assert client.status().cleaned == 7


def test_captions_are_cleaned_and_the_list_is_stored(url: str) -> None:
    highlights = [{"field": "title", "start": 0, "end": 3}, {"field": "title", "start": -1, "end": 3}]
    captions = {
        "a": {"title": "red\0 shoes", "snippet": "\ud800" * 20_001, "highlights": highlights, "deep_links": 2},
        "b": {"title": "x", "colour": "red"},
        "c": "no caption",
    }
    with Client(url, timeout=120) as client:
        shown = client.interleave("shoes", RANKINGS, unit="u", query="q", captions=captions)  # type: ignore[arg-type]
        assert shown.stored
        assert client.status().cleaned == 5
        assert client._visitors.captions(captions) == {  # type: ignore[arg-type]
            "a": {
                "title": "red shoes",
                "snippet": "\ufffd" * 20_000,
                "highlights": [{"field": "title", "start": 0, "end": 3}],
                "deep_links": 2,
            },
            "b": {"title": "x"},
        }


def test_a_refusal_of_nul_names_the_field(url: str) -> None:
    def refused(path: str, body: dict[str, Any]) -> str | None:
        with Client(url, timeout=120) as client, pytest.raises(ClientError, match="character NUL") as error:
            client.call("POST", path, body)
        return error.value.field

    path = "/v1/experiments/shoes/interleave"
    assert refused(path, {"rankings": RANKINGS, "captions": {"a": {"title": "x\0"}}}) == "captions.a.title"
    assert refused(path, {"rankings": RANKINGS, "attributes": {"\0": "x"}}) == "attributes"
    events = [{"impression": "i", "rank": 1}, {"unit": "\0", "document": "a"}]
    assert refused("/v1/events", {"events": events}) == "events[1].unit"


def test_ids_that_are_too_long_stay_different_people(url: str) -> None:
    with Client(url, timeout=120) as client:
        same = "eyJhbGciOi" * 30  # tokens of different people begin alike
        lists = {tuple(client.interleave("shoes", RANKINGS, unit=f"{same}{n}", query="q").documents) for n in range(20)}
        again = {client.interleave("shoes", RANKINGS, unit=same, query="q").documents[0] for _ in range(3)}
    assert len(lists) > 1
    assert len(again) == 1


def test_an_impression_of_another_experiment_or_query_shows_the_control(url: str) -> None:
    with Client(url, timeout=120) as client:
        other = client.interleave("boots", RANKINGS, unit="u", query="q")
        client.interleave("shoes", RANKINGS, unit="u", query="q")
        until(lambda: client._known.get("shoes") is not None)  # its settings are fetched in the background
        for more in ({}, {"page": 2}):
            answer = client.interleave("shoes", RANKINGS, unit="u", query="q", impression=other.impression, **more)  # type: ignore[arg-type]
            start = 3 if more else 0
            expected = Answer(None, RANKINGS["production"][start : start + 3], "outside", None, 1)
            assert answer == expected


@pytest.mark.parametrize("away", [False, True])
def test_a_second_page_of_a_method_that_has_none_shows_the_control(url: str, away: bool) -> None:
    with Client(url, timeout=120) as client:
        first = client.interleave("whole", RANKINGS, unit="u", query="q")
        until(lambda: client._known.get("whole") is not None)
        client._delivery.away = away
        second = client.interleave("whole", RANKINGS, unit="u", query="q", page=2, impression=first.impression)
        assert (second.documents, second.impression) == (["d", "e", "f"], None)
        assert client.status().cleaned == 1


def test_what_browsers_send_is_passed_on_as_far_as_it_can_be_used(url: str) -> None:
    """A page whose endpoint is the searcher's own server hands over whatever JSON came."""
    with Client(url, timeout=120) as client:
        shown = client.interleave("shoes", RANKINGS, unit="u", query="q").impression
        sent = [
            {"impression": shown, "rank": "2", "kind": "click", "dwell": -5, "time": "yesterday", "colour": "red"},
            {"impression": shown, "rank": 1.0, "time": "2026-01-01T00:00:00Z"},
            {"impression": shown, "rank": 0},
            {"impression": shown, "rank": 1, "kind": ""},
            {"impression": shown, "unit": "u", "document": "a"},
            {"unit": "u", "rank": 1},
            {"impression": shown},
            {"impression": [shown], "rank": 1},
            "click",
        ]
        taken = client.events(json.loads(json.dumps(sent)))
        assert (taken.accepted + taken.unmatched, taken.unusable) == (2, 7)
        assert client.events({"impression": shown}) == EventCounts(unusable=1)  # type: ignore[dict-item]
        assert client.events([{"impression": None, "rank": 0}]) == EventCounts()


def test_what_only_a_caller_can_do_wrong_still_raises(url: str, tmp_path: Path) -> None:
    with Client(url, timeout=120, spool=tmp_path) as client:
        with pytest.raises(ClientError, match="twice"):
            client.interleave("shoes", {"production": ["a", "a"], "candidate": ["b"]})
        for field in ("attributes", "captions"):
            with pytest.raises(ClientError, match=f"{field} are 'phone'; give a mapping"):
                client.interleave("shoes", RANKINGS, **{field: "phone"})  # type: ignore[arg-type]
        with pytest.raises(ClientError, match="give it a time zone"):
            client.events([{"impression": "i", "rank": 1, "time": datetime.now(UTC).replace(tzinfo=None)}])
