"""People get the control's answer when a ranker fails, is slow or answers nonsense; each failure is counted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interleaf import log
from interleaf.proxy.fan_out import find_reason
from interleaf.proxy.opensearch import OpenSearchSearch
from tests.support.proxies import BODY, PATCH, RunningProxy, running_proxy
from tests.support.stand_in import until
from tests.support.stub_engine import NEW, OLD, Asked, Fault, Send, StubEngine

Start = Callable[..., RunningProxy]


def is_candidate(body: Any) -> bool:
    return "title^3" in json.dumps(body)


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for batch in log.read(folder / "log") for row in batch.to_pylist()]


@pytest.mark.parametrize("msearch", [True, False])
def test_a_ranker_that_fails_is_a_fallback(engine: StubEngine, tmp_path: Path, msearch: bool) -> None:
    engine.takes_msearch = msearch
    candidate = "patch = { query = { boom = true } }"
    with running_proxy(engine.url, tmp_path, candidate=candidate) as proxy:
        reply = proxy.search()
        further = proxy.search(BODY | {"from": 10})
    assert (reply.ids, further.ids) == (OLD[:10], OLD[10:20])
    assert proxy.failures == {"ranker_failed": 2}
    (row,) = rows(tmp_path)
    assert (row["arm"], row["fallback_reason"], row["page"]) == ("fallback", "no ranking of candidate", 2)


def test_a_slow_ranker_is_a_fallback_within_the_time_budget(engine: StubEngine, tmp_path: Path) -> None:
    engine.delay = lambda body: 0.6 if is_candidate(body) else 0.0
    with running_proxy(engine.url, tmp_path, requests="time_budget_ms = 200") as proxy:
        times = list[float]()
        for number in range(3):
            began = time.monotonic()
            assert proxy.search(unit=f"user-{number}").ids == OLD[:10]
            times.append(time.monotonic() - began)
    assert max(times) < 0.45
    assert proxy.failures == {"ranker_slow": 3}
    assert engine.asked[0].path == "/_msearch"
    assert "/_msearch" not in [one.path for one in engine.asked[1:]]  # now one by one: the control is there in time
    assert [row["arm"] for row in rows(tmp_path)] == ["fallback"] * 3


def test_rankers_may_take_as_long_as_a_slow_control(start: Start, engine: StubEngine) -> None:
    engine.takes_msearch = False
    engine.delay = lambda body: 0.25 if is_candidate(body) else 0.3
    proxy = start(requests="time_budget_ms = 100")
    assert set(proxy.search().ids) - set(OLD[:10])
    assert not proxy.failures


@pytest.mark.parametrize(
    "answer",
    [
        b"not json",
        b"{}",
        b"[]",
        b'{"hits": 7}',
        b'{"hits": {"hits": [{}]}}',
        b'{"hits": {"hits": [{"_id": 7}]}}',
        b'{"hits":' * 3000 + b"1" + b"}" * 3000,
        b'\xff\xfe{"hits": {"hits": []}',
        b'{"hits": {"hits": [{"_id": "\xff"}]}}',
    ],
)
@pytest.mark.parametrize("of", ["candidate", "control"])
def test_an_answer_that_is_none(proxy: RunningProxy, engine: StubEngine, answer: bytes, of: str) -> None:
    asked_again = list[bytes]()

    async def fault(asked: Asked, send: Send) -> bool:
        if asked.path.endswith("_msearch"):
            await send(b"HTTP/1.1 405 Not Allowed\r\nContent-Length: 0\r\n\r\n")
            return True
        asked_again.append(asked.body)
        if is_candidate(json.loads(asked.body)) == (of == "candidate"):
            await send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)
            return True
        return False

    engine.fault = fault
    proxy.search()  # the combined request failed: from now on, requests are sent one by one
    asked_again.clear()
    proxy.app.metrics.failures.clear()
    reply = proxy.search(unit="user-8")
    if of == "candidate":
        assert reply.ids == OLD[:10]
        assert proxy.failures == {"answer_not_understood": 1}
    else:
        assert reply.body == answer  # the engine's own answer to the caller's own request
        assert asked_again[-1] == json.dumps(BODY).encode()
        assert proxy.failures == {"answer_not_understood": 1}


def test_an_answer_that_is_too_large(start: Start, engine: StubEngine) -> None:
    proxy = start(upstream="max_answer = 12_000")
    engine.takes_msearch = False
    assert proxy.search().status == 200
    proxy.app.metrics.failures.clear()
    engine.found = lambda is_new: [f"{name}{'x' * 400 * is_new}" for name in (NEW if is_new else OLD)]
    assert proxy.search(unit="user-8").ids == OLD[:10]
    assert proxy.failures == {"answer_too_large": 1}


def test_a_control_s_answer_that_is_too_large(start: Start, engine: StubEngine) -> None:
    """Nothing is interleaved, and the code says why."""
    proxy = start(upstream="max_answer = 5000")
    for number in range(3):
        assert proxy.search(unit=f"user-{number}").ids == OLD[:10]
    assert (proxy.failures, proxy.bypassed, proxy.app.metrics.lists) == ({"answer_too_large": 3}, {}, {})
    assert 'failures_total{code="answer_too_large",ranker=""} 3.0' in metrics_of(proxy)


def refusing(status: int, answer: dict[str, Any], of: str) -> Fault:
    """The engine's answer to the searches of a ranker; the answers of `_msearch` have a status each."""

    async def fault(asked: Asked, send: Send) -> bool:
        lines = [json.loads(line) for line in asked.body.splitlines()]
        bodies = lines[1::2] if asked.path.endswith("_msearch") else lines
        replies = [
            answer | {"status": status}
            if of == ("candidate" if is_candidate(body) else "control")
            else StubEngine().search("products", body, {})[1] | {"status": 200}
            for body in bodies
        ]
        own = status if len(replies) == 1 and "error" in replies[0] else 200
        text = json.dumps({"took": 3, "responses": replies} if asked.path.endswith("_msearch") else replies[0])
        await send(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (own, len(text), text.encode()))
        return True

    return fault


REASON = {
    "error": {
        "root_cause": [{"type": "query_shard_exception", "reason": f"failed to create query: {'x' * 1000}"}],
        "type": "search_phase_execution_exception",
        "reason": "all shards failed",
    }
}


@pytest.mark.parametrize("msearch", [True, False])
@pytest.mark.parametrize(
    ("status", "failures", "bypassed"),
    [
        (400, {}, {"refused": 1}),
        (404, {}, {"refused": 1}),
        (429, {"control_failed": 1}, {}),
        (500, {"control_failed": 1}, {}),
    ],
)
def test_an_error_of_the_caller_is_no_failure(
    start: Start,
    engine: StubEngine,
    caplog: pytest.LogCaptureFixture,
    msearch: bool,
    status: int,
    failures: dict[str, int],
    bypassed: dict[str, int],
) -> None:
    proxy = start(candidate="" if msearch else 'parameters = { pretty = "true", x = "1" }')
    engine.fault = refusing(status, REASON, "control")
    reply = proxy.search()
    assert (reply.status, reply.json["error"]) == (status, REASON["error"])
    assert (proxy.failures, proxy.bypassed) == (failures, bypassed)
    assert [record.getMessage()[:60] for record in caplog.records] == [
        "the engine could not answer the control's search: status " + str(status)
    ] * len(failures)
    assert "query_shard_exception" in str(proxy.ask("GET", "/_interleaf/health").json["latest"])


@pytest.mark.parametrize("msearch", [True, False])
def test_the_engine_s_reason_is_logged_and_shown(
    start: Start, engine: StubEngine, caplog: pytest.LogCaptureFixture, msearch: bool
) -> None:
    proxy = start(candidate=PATCH if msearch else f'{PATCH}\nparameters = {{ x = "1" }}')
    engine.fault = refusing(400, REASON, "candidate")
    for number in range(3):
        assert proxy.search(unit=f"user-{number}").ids == OLD[:10]
    (record,) = caplog.records
    cause = "ranker candidate: the engine answered another ranker's search with an error, or not at all: "
    cause += "status 400, query_shard_exception: failed to create query: x"
    assert record.getMessage().startswith(cause)
    assert len(record.getMessage()) < 450
    (latest,) = proxy.ask("GET", "/_interleaf/health").json["latest"].items()
    assert latest[0] == "ranker_failed candidate"
    assert latest[1].startswith(cause)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"nginx", b"[]", b'{"error": null}', b'{"error": {"root_cause": 7}}', b"\xff"),
        *(b'{"error": {"root_cause": [], "reason": 7}}', b'{"error": {"root_cause": [7]}}', b'{"error":' * 3000),
    ],
)
def test_an_error_without_a_reason(body: bytes) -> None:
    assert find_reason(body) == ""
    assert find_reason(b'{"error": "Incorrect HTTP method"}') == "Incorrect HTTP method"


def test_late_answers_are_timed(start: Start, engine: StubEngine) -> None:
    engine.delay = lambda body: 0.6 if is_candidate(body) else 0.0
    proxy = start(requests="time_budget_ms = 200")
    for number in range(3):
        proxy.search(unit=f"user-{number}")
    text = metrics_of(proxy)
    assert 'interleaf_proxy_ranker_seconds_count{ranker="candidate"} 3.0' in text
    assert 'interleaf_proxy_ranker_seconds_bucket{le="0.1",ranker="candidate"} 0.0' in text
    assert 'interleaf_proxy_ranker_seconds_count{ranker="production"} 3.0' in text


@pytest.mark.parametrize("msearch", [True, False])
def test_the_time_of_an_answer_is_what_the_engine_says(
    start: Start, engine: StubEngine, tmp_path: Path, msearch: bool
) -> None:
    """Also if the request is slower, because of the network or of another search of one request."""
    engine.takes_msearch, engine.delay = msearch, lambda body: 0.1
    proxy = start()
    assert proxy.search().status == 200
    assert 'interleaf_proxy_ranker_seconds_sum{ranker="candidate"} 0.005\n' in metrics_of(proxy)
    until(lambda: proxy.app.recorder.status()["waiting"] == 0)
    assert [row["latency"] for row in rows(tmp_path)] == [[5.0, 5.0]]


def metrics_of(proxy: RunningProxy) -> str:
    return proxy.ask("GET", "/_interleaf/metrics").body.decode()


def test_a_compressed_answer_that_grows_too_large(start: Start, engine: StubEngine) -> None:
    proxy = start(upstream="max_answer = 20_000")
    engine.takes_msearch, engine.coding = False, "gzip"
    engine.found = lambda is_new: [f"{name}{'x' * 400 * is_new}" for name in (NEW if is_new else OLD)]
    assert proxy.search().ids == OLD[:10]
    assert proxy.failures == {"answer_not_understood": 1}


def test_a_ranking_with_a_document_twice(proxy: RunningProxy, engine: StubEngine) -> None:
    engine.found = lambda is_new: ["d1", "d1", "d2"] if is_new else OLD
    assert proxy.search().ids == OLD[:10]
    engine.found = lambda is_new: NEW if is_new else ["d1", "d1"]
    assert proxy.search(unit="user-8").ids == ["d1", "d1"]
    assert proxy.failures == {"repeated_document": 2}


def test_a_list_of_the_control_alone_has_the_control_s_total(proxy: RunningProxy, engine: StubEngine) -> None:
    engine.found = lambda is_new: [NEW[0], *NEW] if is_new else OLD[:3]  # one document twice
    reply = proxy.search()
    assert (reply.ids, reply.json["hits"]["total"]["value"]) == (OLD[:3], 3)


def test_a_list_that_could_not_be_built_is_not_remembered(
    engine: StubEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_proxy(engine.url, tmp_path) as proxy:
        with monkeypatch.context() as changed:
            changed.delattr(OpenSearchSearch, "build")
            assert proxy.search().ids == OLD[:10]
        reply = proxy.search()
    assert [row["impression"] for row in rows(tmp_path)] == [reply.note["impression"]]
    assert proxy.failures == {"internal": 1}


def test_a_search_without_results_of_the_control_gets_the_engine_s_answer(engine: StubEngine, tmp_path: Path) -> None:
    """Its total and facets say that there is nothing, so hits of another ranker would not fit."""
    with running_proxy(engine.url, tmp_path) as proxy:
        for new in ([], NEW):
            engine.found = lambda is_new, new=new: new if is_new else []  # type: ignore[misc]
            reply = proxy.search()
            assert (reply.json["hits"]["hits"], reply.json["hits"]["total"]["value"]) == ([], 0)
            assert "ext" not in reply.json
        assert proxy.bypassed == {"no_results": 2}
        assert not proxy.failures
    assert not list((tmp_path / "log").iterdir())


def test_a_ranker_that_finds_nothing_leaves_the_list_to_the_control(engine: StubEngine, tmp_path: Path) -> None:
    with running_proxy(engine.url, tmp_path) as proxy:
        engine.found = lambda is_new: [] if is_new else OLD
        assert proxy.search().ids == OLD[:10]
    (row,) = rows(tmp_path)
    assert (row["arm"], row["fallback_reason"]) == ("interleaved", None)


def test_an_unexpected_error_of_the_proxy(
    proxy: RunningProxy, engine: StubEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(type(proxy.app.searches), "_mix", fail)
    assert proxy.search().ids == OLD[:10]
    assert proxy.failures == {"internal": 1}


def test_an_error_of_the_engine_is_the_caller_s(start: Start, engine: StubEngine) -> None:
    proxy = start(path="/*/_search")
    reply = proxy.search(path="/missing/_search")
    assert reply.json == {"error": {"type": "index_not_found_exception"}, "status": 404}
    assert proxy.search(path="/others/_search").status == 200
    assert [one.path for one in engine.asked] == ["/_msearch", "/missing/_search", "/_msearch"]


def test_a_log_that_cannot_be_written_does_not_break_search(
    proxy: RunningProxy, engine: StubEngine, tmp_path: Path
) -> None:
    for file in (tmp_path / "log").glob("*"):
        file.unlink()
    (tmp_path / "log").rmdir()
    assert proxy.search().status == 200
    until = time.monotonic() + 5
    while not proxy.failures and time.monotonic() < until:
        time.sleep(0.01)
    assert proxy.failures == {"not_recorded": 1}
