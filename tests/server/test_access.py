"""Who may do what: keys by role, tokens of impressions, the limits, and the door that closes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interleaf.errors import InterleafError
from interleaf.server import auth, service as serve_service
from interleaf.server.launch import Place, is_loopback, serve
from interleaf.server.openapi import CALLS, EITHER, PUBLIC
from interleaf.server.service import ServiceSettings
from interleaf.store import open_store
from tests.support.services import MINUTE, RANKINGS, SHOES, START, Live, live


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as found:
        found.make()
        found.make_keys()
        yield found


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A service that refuses whatever is asked of it, so that nothing in it changes."""
    with live(tmp_path_factory.mktemp("locked"), requests_per_second=1e9) as found:
        found.make()
        found.make_keys()
        yield found


BODIES: dict[str, Any] = {
    "/interleave": {"rankings": RANKINGS},
    "/v1/events": {"events": [{"impression": "i", "rank": 1}]},
    "/v1/experiments": SHOES | {"name": "boots"},
    "/decide": {"decision": "x"},
    "/v1/experiments/shoes": SHOES,
}


def ask(service: Live, method: str, path: str, key: str | None) -> Any:
    path = path.replace("{name}", "shoes").replace("{unit}", "user-7")
    body = next((body for end, body in BODIES.items() if method in ("POST", "PUT") and path.endswith(end)), None)
    return service.ask(method, path, body, key)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
@pytest.mark.parametrize("role", ["ingest", "read", "admin"])
def test_each_call_opens_to_its_role_and_to_admins(service: Live, call: Any, role: str) -> None:
    status = ask(service, call.method, call.path, service.keys[role]).status_code
    allowed = call.role in (PUBLIC, role) or role == "admin" or (call.role == EITHER and role in ("read", "ingest"))
    assert (status != 403) == allowed
    assert status != 401


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
@pytest.mark.parametrize("key", [None, "il_admin_forged", "", "x" * 5000, "\u00fc"])
def test_no_call_opens_without_a_key_that_is_known(locked: Live, call: Any, key: str | None) -> None:
    if call.role == PUBLIC:
        return
    if key is not None and not key.isascii():
        headers = [(b"authorization", f"Bearer {key}".encode("latin-1"))]
        path = call.path.replace("{name}", "shoes").replace("{unit}", "u")
        answer = locked.client.request(call.method, path, headers=headers)
    else:
        answer = ask(locked, call.method, call.path, key)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] in ("no_key", "unknown_key")


def test_a_revoked_key_opens_nothing(service: Live) -> None:
    key = service.store.key_of(service.keys["read"])
    assert service.report(key=service.keys["read"]).status_code == 200
    service.store.revoke(key.id, START)
    service.client.app.state.service.access.forget()  # type: ignore[attr-defined]
    assert service.report(key=service.keys["read"]).status_code == 401


def test_when_the_last_key_is_revoked_the_door_stays_shut(service: Live) -> None:
    for key in service.store.keys():  # noqa: SIM118
        service.store.revoke(key.id, START)
    service.client.app.state.service.access.forget()  # type: ignore[attr-defined]
    assert service.report().status_code == 401


def test_a_token_lets_a_browser_report_events_of_its_impression_only(service: Live) -> None:
    key = service.keys["ingest"]
    mine, other = (service.show(query=query, key=key).json() for query in ("one", "two"))
    event = {"impression": mine["impression"], "rank": 1}
    assert service.tell(event, token=mine["token"]).json()["accepted"] == 1
    for token in (other["token"], "nothing", mine["token"][:-1], mine["token"] + "a", "\u00fc"):
        assert service.tell(event, token=token).status_code == 403, token
    both = [event, {"impression": other["impression"], "rank": 1}]
    assert service.tell(*both, token=mine["token"]).status_code == 403
    assert service.tell({"unit": "user-7", "document": "a"}, token=mine["token"]).status_code == 403


@pytest.mark.parametrize("token", ["", "None", "null", "undefined"])
def test_a_token_that_a_template_left_empty_is_none(service: Live, token: str) -> None:
    """A list that was made while the service was away has no token: its events are taken by key."""
    shown = service.show(key=service.keys["ingest"]).json()
    event = {"impression": shown["impression"], "rank": 1}
    refused = service.tell(event, token=token)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "no_key")
    assert "send its events to your own server" in refused.json()["error"]["message"]
    assert service.tell(event, token=token, key=service.keys["ingest"]).json()["accepted"] == 1


def test_a_token_is_good_for_what_a_person_can_do_in_an_hour(service: Live) -> None:
    mine, other = (service.show(unit, key=service.keys["ingest"]).json() for unit in ("u1", "u2"))

    def told(shown: dict[str, Any], number: int, **who: Any) -> int:
        events = [{"impression": shown["impression"], "rank": 1}] * number
        return int(service.tell(*events, **who).status_code)

    assert told(mine, 999, token=mine["token"]) == 202
    assert told(mine, 2, token=mine["token"]) == 429
    assert told(mine, 1, token=mine["token"]) == 202
    assert told(mine, 1, token=mine["token"]) == 429
    assert told(other, 1, token=other["token"]) == 202
    assert told(mine, 1, key=service.keys["ingest"]) == 202
    service.clock.now += 60 * MINUTE
    assert told(mine, 1, token=mine["token"]) == 202


def test_a_body_that_only_speaks_of_a_token_has_none(service: Live) -> None:
    event = {"impression": "i", "rank": 1, "kind": "token"}
    assert service.tell(event).status_code == 401
    assert service.ask("POST", "/v1/events", {"events": [event], "token": None}).status_code == 401


def test_a_beacon_is_plain_text(service: Live) -> None:
    shown = service.show(key=service.keys["ingest"]).json()
    body = f'{{"token": "{shown["token"]}", "events": [{{"impression": "{shown["impression"]}", "rank": 1}}]}}'
    answer = service.ask("POST", "/v1/events", headers={"Content-Type": "text/plain"}, content=body)
    assert (answer.status_code, answer.json()["accepted"]) == (202, 1)


def test_without_keys_a_form_of_another_page_cannot_reach_in(tmp_path: Path) -> None:
    with live(tmp_path) as service:
        service.make(start=False)
        for path in ("/v1/experiments", "/v1/events", "/v1/experiments/shoes/interleave"):
            answer = service.ask(
                "POST", path, headers={"Content-Type": "text/plain"}, content='{"events": [{"rank": 1}]}'
            )
            assert answer.status_code in (415, 422), path
            assert answer.json()["error"]["code"] in ("not_json", "invalid")


@pytest.mark.parametrize("path", ["/v1/experiments/shoes/stop", "/v1/experiments/shoes/start"])
def test_without_keys_a_button_of_another_page_cannot_press_ours(tmp_path: Path, path: str) -> None:
    with live(tmp_path) as service:
        service.make(start=False)
        headers = {"Origin": "https://evil.example", "Content-Type": "application/x-www-form-urlencoded"}
        answer = service.ask("POST", path, headers=headers, content="a=b")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")
        assert service.ask("DELETE", "/v1/units/u", headers=headers).status_code == 403
        assert (
            service.ask("POST", "/v1/experiments/shoes/start", headers={"Origin": "http://127.0.0.1"}).status_code
            == 200
        )


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", ""])
def test_without_keys_only_this_machine_is_answered(tmp_path: Path, host: str) -> None:
    with live(tmp_path) as service:
        answer = service.ask("GET", "/v1/experiments", headers={"Host": host})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "wrong_host")
        for fine in ("127.0.0.1:8080", "localhost", "[::1]:9"):
            assert service.ask("GET", "/v1/experiments", headers={"Host": fine}).status_code == 200


@pytest.mark.parametrize("has_keys", [True, False])
def test_metrics_behind_a_proxy_are_answered_while_the_store_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_keys: bool
) -> None:
    for name in ("TTL", "REFRESH_AFTER"):
        for module in (auth, serve_service):
            monkeypatch.setattr(module, name, 0.0)  # cached values expire at once
    with live(tmp_path) as service:
        if has_keys:
            service.make_keys()
        proxied: dict[str, Any] = {"headers": {"Host": "search.example"}, "key": service.keys.get("read")}
        local: dict[str, Any] = {"headers": {"Host": "127.0.0.1"}, "key": service.keys.get("read")}
        before = [service.ask("GET", "/metrics", **asked).status_code for asked in (proxied, local)]
        (tmp_path / "store.sqlite").unlink()
        assert service.ask("GET", "/readyz", **local).status_code == 503
        after = [service.ask("GET", "/metrics", **asked).status_code for asked in (proxied, local)]
        assert before == after == [200 if has_keys else 403, 200]
        assert service.ask("GET", "/livez", **proxied).status_code == after[0]
        assert service.ask("GET", "/v1/experiments", **local).status_code == 503


def test_an_address_that_others_reach_needs_keys(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "store.sqlite"), host="0.0.0.0")
    with pytest.raises(InterleafError, match="no keys"):
        serve(place, ServiceSettings())
    with pytest.raises(InterleafError, match="port 99999"):
        serve(Place(str(tmp_path / "store.sqlite"), port=99_999), ServiceSettings())
    for wrong in ({"retention_days": -1.0}, {"requests_per_second": 0.5}, {"queries": "hash"}):
        with pytest.raises(InterleafError):
            ServiceSettings(**wrong)
    with pytest.raises(InterleafError, match="PostgreSQL"):
        serve(Place(str(tmp_path / "store.sqlite"), workers=2), ServiceSettings())
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.1", "example.org")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


def test_too_many_requests_are_told_to_wait(tmp_path: Path) -> None:
    with live(tmp_path, requests_per_second=5.0) as service:
        service.make_keys()
        answers = [service.ask("GET", "/v1/experiments", key=service.keys["read"]) for _ in range(30)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        assert refused[0].headers["retry-after"] == "1"
        assert "5 requests per second" in refused[0].json()["error"]["message"]


def test_a_body_that_is_too_large_is_refused_by_its_word_and_by_its_length(tmp_path: Path) -> None:
    with live(tmp_path, max_body=1000) as service:
        service.make()
        said = service.show(query="x" * 1000)
        assert (said.status_code, said.json()["error"]["code"]) == (413, "too_large")
        assert "1,000" in said.json()["error"]["message"]

        def pieces() -> Iterator[bytes]:
            for _ in range(100):
                yield b"x" * 100

        answer = service.ask("POST", "/v1/events", content=pieces(), headers={"Content-Type": "application/json"})
        assert answer.status_code == 413


def test_secrets_are_not_in_the_store(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.sqlite")
    _, secret = store.add_key("admin", "mine", START)
    store.close()
    for file in tmp_path.iterdir():
        assert secret.encode() not in file.read_bytes()
