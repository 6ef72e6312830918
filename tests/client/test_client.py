"""The client while the service answers, and what it does with refusals."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from interleaf.client import Answer, AsyncClient, Client, EventCounts
from interleaf.errors import ClientError, ExperimentError, InterleafError
from interleaf.experiment import Request, show
from tests.support.stand_in import KEY, StandIn, until

RANKINGS = {"production": ["a", "b", "c", "d"], "candidate": ["c", "e", "a", "f"]}


@pytest.fixture
def service() -> Iterator[StandIn]:
    service = StandIn()
    yield service
    service.end()


@pytest.fixture
def client(service: StandIn) -> Iterator[Client]:
    with Client(service.url, KEY, timeout=10) as client:
        yield client


def test_the_list_is_that_of_the_service_and_is_stored_there(service: StandIn, client: Client) -> None:
    answer = client.interleave("shoes", RANKINGS, unit="user-7", query="trail")
    assert answer.impression is not None
    expected = show(service.settings, 1, Request(answer.impression, "user-7", "trail", RANKINGS))
    assert answer == Answer(
        answer.impression, expected.documents, "interleaved", f"token-of-{answer.impression}", 1, True
    )
    assert service.impressions[answer.impression]["unit"] == "user-7"
    assert "time" not in service.impressions[answer.impression]  # it is the service's clock that counts


def test_everything_that_is_given_is_sent(service: StandIn, client: Client) -> None:
    given = {
        "unit": "u",
        "query": "q",
        "session": "s",
        "k": 2,
        "attributes": {"device": "phone"},
        "captions": {"a": {"title": "Über <b>shoes</b>"}},
        "characters": {"a": 812},
        "impression": "i-1",
        "latency": {"production": 3.5},
        "user_agent": "Mozilla",
    }
    answer = client.interleave("shoes", RANKINGS, fixed={1: "ad"}, **given)  # type: ignore[arg-type]
    assert answer.documents[0] == "ad"
    sent = service.impressions["i-1"]
    assert {field: sent[field] for field in given} == given
    assert (sent["fixed"], sent["rankings"], sent["page"]) == ({"1": "ad"}, RANKINGS, 1)


def test_a_repeated_impression_is_stored_once_and_pages_go_on(service: StandIn, client: Client) -> None:
    first = client.interleave("shoes", RANKINGS, unit="u", query="q")
    again = client.interleave("shoes", RANKINGS, unit="u", query="q", impression=first.impression)
    second = client.interleave("shoes", RANKINGS, unit="u", query="q", page=2, impression=first.impression)
    assert again == first
    assert list(service.impressions) == [first.impression]
    assert set(first.documents) | set(second.documents) == {"a", "b", "c", "d", "e", "f"}


def test_a_unit_outside_of_the_experiment_sees_the_control_and_its_clicks_are_left_out(service: StandIn) -> None:
    service.settings = type(service.settings).of(service.settings.to_dict() | {"share": 0.0001})
    with Client(service.url, KEY, timeout=10) as client:
        answer = client.interleave("shoes", RANKINGS, unit="user-7", query="q")
        assert (answer.impression, answer.documents, answer.arm, answer.stored) == (
            None,
            ["a", "b", "c"],
            "outside",
            False,
        )
        assert client.click(answer.impression, 1) == EventCounts()
    assert ("POST", "/v1/events") not in service.asked


def test_events_get_ids_and_are_counted(service: StandIn, client: Client) -> None:
    answer = client.interleave("shoes", RANKINGS, unit="u", query="q")
    assert client.click(answer.impression, 2, dwell=31.5) == EventCounts(accepted=1)
    (event,) = service.events.values()
    assert event == {
        "event": event["event"],
        "impression": answer.impression,
        "rank": 2,
        "kind": "click",
        "dwell": 31.5,
    }
    mine = {"event": "e-1", "impression": answer.impression, "document": "a", "kind": "purchase", "value": 5}
    assert client.events([mine, mine, {"impression": "unknown", "rank": 1, "kind": "click"}]) == EventCounts(1, 1, 1)


def test_many_events_go_in_several_requests(service: StandIn, client: Client) -> None:
    answer = client.interleave("shoes", RANKINGS, unit="u", query="q")
    events = [{"impression": answer.impression, "rank": 1, "kind": "click"}] * 1201
    assert client.events(events) == EventCounts(accepted=1201)
    assert service.asked.count(("POST", "/v1/events")) == 3


@pytest.mark.parametrize(
    ("wrong", "status", "words"),
    [
        ({"experiment": "shose"}, 404, "there is no experiment 'shose'"),
        ({"key": None}, 401, "give a key"),
    ],
)
def test_wrong_use_is_raised_in_the_words_of_the_service(
    service: StandIn, wrong: dict[str, str], status: int, words: str
) -> None:
    with (
        Client(service.url, wrong.get("key", KEY), timeout=10) as client,
        pytest.raises(ClientError, match=words) as raised,
    ):
        client.interleave(wrong.get("experiment", "shoes"), RANKINGS)
    assert isinstance(raised.value, InterleafError)
    assert raised.value.status == status


def test_a_wrong_ranker_raises_the_same_with_and_without_the_service(service: StandIn) -> None:
    with Client(service.url, KEY, timeout=10) as client:
        client.interleave("shoes", RANKINGS, unit="u", query="q")
        until(lambda: client._known.get("shoes") is not None)
        client._delivery.away = True
        with pytest.raises(ExperimentError, match="there is no such ranker"):
            client.interleave("shoes", {"production": ["a"], "candidat": ["b"]})


@pytest.mark.parametrize(
    "url", ["127.0.0.1:80", "ftp://host", "http://", "http://host:port", "http://host?x=1", "http://host:99999"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ClientError, match="give the address of the service"):
        Client(url)


def test_a_timeout_of_nothing_and_what_json_does_not_know_are_refused(client: Client) -> None:
    with pytest.raises(ClientError, match="more than 0"):
        Client("http://localhost", timeout=0)
    attributes, captions = {"device": b"phone"}, {"a": {"title": b"shoe"}}
    assert client.interleave("shoes", RANKINGS, attributes=attributes, captions=captions).documents  # type: ignore[arg-type]
    assert client.status().cleaned > 0
    with pytest.raises(ClientError, match="cannot be written as JSON"):
        client.interleave("shoes", RANKINGS, latency={"production": float("nan")})


@pytest.mark.parametrize("state", ["draft", "stopped"])
def test_an_experiment_that_does_not_run_leaves_the_control_as_it_is(service: StandIn, state: str) -> None:
    service.state = state
    service.settings = type(service.settings).of(service.settings.to_dict() | {"control": "candidate"})
    with Client(service.url, KEY, timeout=10) as client:
        answer = client.interleave("shoes", RANKINGS, unit="u", query="q", fixed={2: "pin"})
    assert (answer.impression, answer.documents, answer.arm) == (None, ["c", "pin", "e"], "outside")


def test_a_key_that_is_revoked_later_breaks_no_search(service: StandIn) -> None:
    with Client(service.url, KEY, timeout=10, backoff=(0.02, 0.05)) as client:
        first = client.interleave("shoes", RANKINGS, unit="u", query="q")
        until(lambda: client._known.get("shoes") is not None)
        service.key = "another"
        second = client.interleave("shoes", RANKINGS, unit="u", query="q")
        assert (second.documents, second.stored) == (first.documents, False)
        assert client.click(second.impression, 1).spooled == 1
        service.key = KEY
        until(lambda: client.status().waiting == 0)
    assert set(service.impressions) == {first.impression, second.impression}
    assert len(service.events) == 1


def test_connections_are_kept_and_a_stale_one_is_replaced(service: StandIn, client: Client) -> None:
    for _ in range(20):
        client.interleave("shoes", RANKINGS, unit="u", query="q")
    until(lambda: client._known.get("shoes") is not None)
    assert service.connections <= 2  # one for requests, one for the thread that asks for settings
    service.stop()
    service.start()
    assert client.interleave("shoes", RANKINGS, unit="u", query="q").stored


def test_threads_share_a_client(service: StandIn, client: Client) -> None:
    answers: list[Answer] = []

    def search(person: int) -> None:
        for visit in range(10):
            answer = client.interleave("shoes", RANKINGS, unit=f"user-{person}", query=f"q{visit}")
            client.click(answer.impression, 1)
            answers.append(answer)

    threads = [threading.Thread(target=search, args=(person,)) for person in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.impression for answer in answers} == set(service.impressions)
    assert (len(service.impressions), len(service.events)) == (80, 80)


def test_other_calls_give_what_the_service_says_and_raise_when_it_does_not(service: StandIn, client: Client) -> None:
    assert client.call("GET", "/v1/experiments/shoes")["state"] == "running"
    with pytest.raises(ClientError, match="there is no experiment 'shose'") as raised:
        client.call("GET", "/v1/experiments/shose")
    assert (raised.value.status, raised.value.code, raised.value.field) == (404, "unknown", "name")
    service.trouble = (503, {})
    with pytest.raises(ClientError, match="the service is away: the service answered 503"):
        client.call("POST", "/v1/experiments/shoes/start")


def test_a_closed_client_says_so_and_closes_twice(service: StandIn) -> None:
    client = Client(service.url, KEY, timeout=10)
    client.close()
    client.close()
    with pytest.raises(ClientError, match="closed"):
        client.interleave("shoes", RANKINGS)


def test_a_closed_client_keeps_no_connection_that_was_in_use(service: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    client, may, answer = Client(service.url, KEY, timeout=120), threading.Event(), service.answer
    monkeypatch.setattr(service, "answer", lambda *given: answer(*given) if may.wait(120) else None)
    asking = threading.Thread(target=client.call, args=("GET", "/v1/experiments/shoes"))
    asking.start()
    until(lambda: bool(service.heard))
    client.close()
    may.set()
    asking.join()
    assert client._connections._idle == []


def test_the_client_for_event_loops_does_the_same(service: StandIn) -> None:
    async def search() -> list[Answer]:
        async with AsyncClient(service.url, KEY, threads=4, timeout=10) as client:
            calls = [client.interleave("shoes", RANKINGS, unit=f"user-{n}", query="q") for n in range(20)]
            answers = await asyncio.gather(*calls)
            assert await client.click(answers[0].impression, 1) == EventCounts(accepted=1)
            assert await client.events([{"impression": answers[1].impression, "rank": 2}]) == EventCounts(accepted=1)
            assert (await client.status()).waiting == 0
            with pytest.raises(ClientError, match="no experiment"):
                await client.call("GET", "/v1/experiments/shose")
            return answers

    answers = asyncio.run(search())
    assert {answer.impression for answer in answers} == set(service.impressions)
    assert len(service.events) == 2
