"""Whatever is sent: no answer is a 5xx, none lacks its sentence, and what was stored stays."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from interleaf.experiment import Experiment
from interleaf.server import openapi
from interleaf.server.app import create_app
from interleaf.server.openapi import CALLS, Call
from interleaf.server.service import ServiceSettings
from interleaf.store import open_store
from tests.support.services import RANKINGS, SHOES, START, Live, listening, live


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("hostile"), requests_per_second=1e9) as found:
        found.make()
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = open_store(tmp_path_factory.mktemp("described") / "store.sqlite")
    store.create(Experiment.of(SHOES), START, "test")
    store.start("shoes", START, "test")
    with listening(create_app(store, settings=ServiceSettings(requests_per_second=1e9))) as found:
        yield found
    store.close()


# Hypothesis blames the strategy if a thread of the service uses `random` while it draws.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning")
@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
def test_requests_made_up_from_the_description(call: Call, address: str) -> None:
    """Both such as the description allows and such as it does not, about names that exist and others."""
    import schemathesis  # here, because every process imports every test file, and this takes seconds
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

    checks = [not_a_server_error, status_code_conformance, response_schema_conformance]
    described = schemathesis.openapi.from_dict(openapi.description())

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(described[call.path.replace(":path", "")][call.method].as_strategy(), st.booleans())
    def run(case: schemathesis.Case[Any], known: bool) -> None:
        if known and "name" in case.path_parameters:
            case.path_parameters["name"] = "shoes"
        case.call_and_validate(base_url=address, checks=checks, timeout=120)

    run()


DEEP = "[" * 20_000 + "]" * 20_000
MARKUP = "<script>alert(1)</script>\u202e\x01\x1b[31m'\";--"


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"null", b"[]", b"7", b'"text"', b"\xff\xfe", b'{"rankings": 1}',
        b'{"rankings": {"production": [1.5]}}',
        DEEP.encode(), b'{"rankings": ' + DEEP.encode() + b"}", b'{"k": 1e400}', b'{"k": 99999999999999999999999}',
        b'{"unit": "\\ud800"}', b'{"unit": "\\u0000"}', b'{"time": "yesterday"}', b'{"rankngs": {}}',
        json.dumps({"unit": "x" * 100_000, "rankings": RANKINGS}).encode(),
        json.dumps({"rankings": {"production": ["a", "a"], "candidate": ["b"]}}).encode(),
        json.dumps({"rankings": {"production": [""], "candidate": ["b"]}}).encode(),
        json.dumps({"rankings": {"production": ["a"] * 5000}}).encode(),
        json.dumps({"rankings": RANKINGS, "fixed": {"-1": "x"}}).encode(),
        json.dumps({"name": "big", "rankers": ["a", "b"], "k": 10**400}).encode(),
        json.dumps({"unit": "x" * 251, "rankings": RANKINGS}).encode(),
        json.dumps({"rankings": RANKINGS, "fixed": {"1": "x", "2": "x"}}).encode(),
        json.dumps({"rankings": RANKINGS, "page": 51}).encode(),
        json.dumps({"rankings": {"stranger": ["a"]}}).encode(),
    ],
)  # fmt: skip
def test_what_cannot_be_a_request_is_refused_with_a_sentence(service: Live, body: bytes) -> None:
    for path in ("/v1/experiments/shoes/interleave", "/v1/events", "/v1/experiments"):
        answer = service.ask("POST", path, headers={"Content-Type": "application/json"}, content=body)
        assert answer.status_code in (400, 409, 422), (path, answer.text)
        problem = answer.json()["error"]
        assert problem["message"]
        assert "Traceback" not in answer.text
        assert len(answer.content) < 2000


@pytest.mark.parametrize(
    "text", [MARKUP, "\u00e9\u0301", "\U0001f45f" * 100, " ", "../../etc/passwd", "a" * 240, "' OR 1=1 --"]
)
def test_strange_ids_come_back_as_they_were(service: Live, text: str) -> None:
    rankings = {"production": [text, "b"], "candidate": ["b", text]}
    shown = service.show(unit=text, query=text, rankings=rankings, impression=f"i {text}"[:250], session=text)
    assert shown.status_code in (200, 201), shown.text
    assert set(shown.json()["documents"]) == {text, "b"}
    taken = service.tell(
        {"impression": f"i {text}"[:250], "document": text, "event": f"e {text}"[:250], "kind": text[:100]}
    )
    assert taken.status_code == 202
    row = service.store.row(f"i {text}"[:250])
    assert (row["unit"], row["query"]) == (text, text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=6,  # lists in lists, and objects in objects; test_what_cannot_be_a_request goes deep
)
fields = st.sampled_from(
    [
        "rankings",
        "unit",
        "query",
        "session",
        "impression",
        "k",
        "page",
        "attributes",
        "captions",
        "characters",
        "fixed",
        "time",
        "latency",
    ]
)
rankings = st.dictionaries(
    st.sampled_from(["production", "candidate", "other"]), st.none() | st.lists(st.text(max_size=3), max_size=6)
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(fields, json_values), rankings)
def test_the_hot_route_answers_whatever_it_is_asked(service: Live, body: dict[str, Any], given_rankings: Any) -> None:
    answer = service.ask("POST", "/v1/experiments/shoes/interleave", {"rankings": given_rankings} | body)
    assert answer.status_code in (200, 201, 400, 404, 422), answer.text
    if answer.status_code < 300 and "rankings" not in body:
        shown = answer.json()["documents"]
        assert len(set(shown)) == len(shown)


event_fields = st.sampled_from(["event", "impression", "unit", "rank", "document", "kind", "time", "dwell", "value"])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(event_fields, json_values), max_size=5))
def test_events_are_taken_or_refused_and_never_lost(service: Live, batch: list[dict[str, Any]]) -> None:
    answer = service.ask("POST", "/v1/events", {"events": batch})
    assert answer.status_code in (202, 400, 422), answer.text
    if answer.status_code == 202:
        counts = answer.json()
        assert counts["accepted"] + counts["repeated"] + counts["unmatched"] == len(batch)


def test_after_all_that_the_store_is_whole(service: Live, tmp_path: Path) -> None:
    assert service.ask("GET", "/healthz").status_code == 200
    assert service.report().status_code == 200
    log = service.ask("GET", "/v1/experiments/shoes/log")
    assert log.content[:4] == log.content[-4:] == b"PAR1"
