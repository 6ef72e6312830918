"""The same with a client of the real service: lists, fallbacks and citations are in its log."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from interleaf import AsyncClient, Client
from interleaf.integrations import FallbackCode, log_citations, log_citations_async
from interleaf.integrations.passage_mixer import PassageMixer
from interleaf.server.app import create_app
from interleaf.store import open_store
from tests.support.passages import FakeModel, Text, find_texts
from tests.support.services import listening

NAMES = ("dense", "sparse")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return open_store(tmp_path_factory.mktemp("service") / "passages.sqlite")


@pytest.fixture(scope="module")
def address(store: Any) -> Iterator[str]:
    settings: dict[str, Any] = {"name": "passages", "rankers": NAMES, "control": "dense", "k": 5, "primary": "citation"}
    settings["events"] = {"citation": 1}
    with listening(create_app(store)) as url, closing(Client(url, timeout=120)) as owner:
        owner.call("POST", "/v1/experiments", settings)
        owner.call("POST", "/v1/experiments/passages/start")
        yield url


def calls_of(question: str, skills: tuple[float, float] = (0.2, 0.8)) -> dict[str, Any]:
    found = {name: find_texts(question, name, skill) for name, skill in zip(NAMES, skills, strict=True)}
    return {name: lambda texts=texts: texts for name, texts in found.items()}


def shown(passages: list[Any]) -> list[Any]:
    return [SimpleNamespace(metadata=passage.metadata) for passage in passages]


def test_lists_and_citations_reach_the_report(address: str) -> None:
    model = FakeModel(by_content=3.0, by_rank=(0.3,) * 5)
    with closing(Client(address, timeout=120)) as client:
        mixer = PassageMixer(dict.fromkeys(NAMES), client, experiment="passages", timeout=60)
        for number in range(300):
            passages = mixer.retrieve(f"q{number}", f"user-{number}", None, calls_of(f"q{number}", (0.0, 1.0)))
            answer = model.answer(f"q{number}", [passage.document.text for passage in passages])
            citations = log_citations(client, answer, shown(passages))
            assert citations.logged == len(citations.numbers)
        assert mixer.counts == {}
        report = client.call("GET", "/v1/experiments/passages/report")["reports"]["citation"]
    assert report["totals"]["impressions"] == 300
    assert [row["mean_characters"] for row in report["neutrality"]] == [100.0, 100.0]
    assert {check["code"]: check["status"] for check in report["health"]}["passage_lengths"] == "ok"
    assert report["verdict"]["winner"] == "sparse", report["verdict"]


def test_lengths_are_stored_page_by_page(address: str, store: Any) -> None:
    rankings = {"dense": ["a", "b", "c"], "sparse": ["b", "d", "a"]}
    with closing(Client(address, timeout=120)) as client:
        asked: Any = {"unit": "user-9", "query": "pages", "k": 2}
        first = client.interleave("passages", rankings, **asked, characters={"a": 1, "b": 2, "c": 3, "d": 4})
        more: Any = {"impression": first.impression, "page": 2, "characters": {"c": 30}}
        second = client.interleave("passages", rankings, **asked, **more)
        odd: Any = {"a": -1, "b": "many", "c": 10**9, "d": 7, "": 1}
        other = client.interleave("passages", rankings, unit="user-9", query="odd lengths", k=4, characters=odd)
    row = store.row(first.impression)
    lengths = [{"a": 1, "b": 2, "c": 3, "d": 4}[name] for name in first.documents]
    assert row["documents"] == [*first.documents, *second.documents]
    assert row["characters"] == lengths + [30 if name == "c" else None for name in second.documents]
    usable = [7 if name == "d" else None for name in other.documents]  # what the service would refuse is left out
    assert store.row(other.impression)["characters"] == usable


def test_event_loops_and_fallbacks(address: str) -> None:
    async def ask(client: Any) -> tuple[list[Any], dict[str, int]]:
        mixer = PassageMixer(dict.fromkeys(NAMES), client, experiment="passages", timeout=60)
        calls = calls_of("q") | {"sparse": lambda: 1 / 0}
        passages = await mixer.retrieve_async("q", "user-a", None, calls)
        citations = await log_citations_async(client, "Yes [2].", shown(passages))
        assert citations.logged == 1
        return passages, mixer.counts

    async def ask_both() -> None:
        async with AsyncClient(address, timeout=120) as client:
            passages, counts = await ask(client)
            assert [passage.document for passage in passages] == find_texts("q", "dense", 0.2)
            assert counts == {FallbackCode.FAILED.of("sparse"): 1}
            mixer = PassageMixer(dict.fromkeys(NAMES), client, experiment="passages", timeout=60)
            assert {one.impression for one in mixer.retrieve("q", None, None, calls_of("q"))} == {None}
            assert mixer.counts == {FallbackCode.NOT_MIXED: 1}  # an AsyncClient has no synchronous methods
        with closing(Client(address, timeout=120)) as client:
            assert len((await ask(client))[0]) == 5

    asyncio.run(ask_both())


def test_an_unknown_experiment_shows_the_control(address: str) -> None:
    with closing(Client(address, timeout=120)) as client:
        mixer = PassageMixer(dict.fromkeys(NAMES), client, experiment="other", timeout=60)
        passages = mixer.retrieve("q", None, None, calls_of("q"))
    assert [passage.document for passage in passages] == find_texts("q", "dense", 0.2)
    assert {passage.impression for passage in passages} == {None}
    assert mixer.counts == {FallbackCode.NOT_MIXED: 1}
    assert isinstance(passages[0].document, Text)


def test_an_outage_of_the_service_changes_nothing_for_users() -> None:
    with closing(Client("http://127.0.0.1:9", timeout=0.5)) as client:
        mixer = PassageMixer(dict.fromkeys(NAMES), client, experiment="passages", timeout=60)
        passages = mixer.retrieve("q", None, None, calls_of("q"))
    assert [passage.document for passage in passages] == find_texts("q", "dense", 0.2)
