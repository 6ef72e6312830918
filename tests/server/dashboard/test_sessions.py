"""Sessions of the dashboard: logging in and out, ending sessions elsewhere, and what a reader of the store can do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from interleaf.cli import main
from interleaf.server.dashboard.visit import COOKIE
from interleaf.server.rate_limits import MAX_WRONG
from interleaf.store import open_store
from interleaf.store.sql import SqlStore
from tests.support.dashboards import Visitor
from tests.support.services import MINUTE, START, Live, live
from tests.support.stores import address, store  # noqa: F401

HOUR = 60 * MINUTE


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as found:
        found.make()
        found.make_keys()
        yield found


@pytest.fixture
def visitor(service: Live) -> Visitor:
    return Visitor(service)


def status_with(service: Live, cookie: str) -> int:
    """The status of the list of experiments for a browser that has this cookie and no other."""
    service.client.cookies.clear()
    headers = {b"Cookie": f"{COOKIE}={cookie}".encode("latin-1")}
    return int(service.client.get("/", headers=headers).status_code)


def log_in(visitor: Visitor, role: str) -> str:
    visitor.log_in(role)
    return str(visitor.client.cookies[COOKIE])


def test_logout_ends_the_session_and_not_only_the_cookie(visitor: Visitor) -> None:
    cookie = log_in(visitor, "admin")
    assert visitor.send("/", "/logout").url.path == "/login"
    assert visitor.open("/").status_code == 401
    assert status_with(visitor.service, cookie) == 401


def test_log_out_everywhere_ends_all_sessions_of_the_key_and_no_other(visitor: Visitor) -> None:
    reader, first, second = (log_in(visitor, role) for role in ("read", "admin", "admin"))
    assert visitor.send("/", "/logout/everywhere").url.path == "/login"
    assert [status_with(visitor.service, cookie) for cookie in (reader, first, second)] == [200, 401, 401]


def test_another_login_in_the_same_browser_ends_the_one_before(visitor: Visitor) -> None:
    first = log_in(visitor, "read")
    visitor.client.post("/login", data={"key": visitor.service.keys["admin"]})
    second = visitor.client.cookies[COOKIE]
    assert [status_with(visitor.service, cookie) for cookie in (first, second)] == [401, 200]


def test_admins_end_the_sessions_of_a_key_or_of_all(visitor: Visitor) -> None:
    reader, other = log_in(visitor, "read"), log_in(visitor, "read")
    admin = log_in(visitor, "admin")
    key = visitor.service.store.key_of(visitor.service.keys["read"]).id
    page = visitor.send("/keys", "/keys/sign-out", key=key)
    assert page.status_code == 200
    assert [status_with(visitor.service, cookie) for cookie in (reader, other, admin)] == [401, 401, 200]
    reader, admin = log_in(visitor, "read"), log_in(visitor, "admin")
    assert visitor.send("/keys", "/keys/sign-out").status_code == 401
    assert [status_with(visitor.service, cookie) for cookie in (reader, admin)] == [401, 401]


@pytest.mark.parametrize("wrong", [{"key": "nonsense"}, {"key": ""}, {"token": "nonsense"}])
def test_a_form_with_a_wrong_key_or_token_ends_no_session(visitor: Visitor, wrong: dict[str, str]) -> None:
    reader, admin = log_in(visitor, "read"), log_in(visitor, "admin")
    assert visitor.send("/keys", "/keys/sign-out", **wrong).status_code == (403 if "token" in wrong else 404)
    assert [status_with(visitor.service, cookie) for cookie in (reader, admin)] == [200, 200]


def test_the_command_line_ends_sessions(visitor: Visitor, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader, admin = log_in(visitor, "read"), log_in(visitor, "admin")
    key = visitor.service.store.key_of(visitor.service.keys["read"]).id
    place = str(tmp_path / "store.sqlite")
    assert main(["keys", "sign-out", key, "--store", place]) == 0
    assert "ended 1 session" in capsys.readouterr().out
    assert [status_with(visitor.service, cookie) for cookie in (reader, admin)] == [401, 200]
    assert main(["keys", "sign-out", "nonsense", "--store", place]) != 0
    assert "there is no key 'nonsense'; interleaf keys list shows all" in capsys.readouterr().err
    assert status_with(visitor.service, admin) == 200
    assert main(["keys", "sign-out", "--store", place]) == 0
    assert status_with(visitor.service, admin) == 401


def test_a_session_ends_after_twelve_hours_and_a_revoked_key_ends_its_sessions(visitor: Visitor) -> None:
    reader, admin = log_in(visitor, "read"), log_in(visitor, "admin")
    visitor.service.store.revoke(visitor.service.store.key_of(visitor.service.keys["read"]).id, START)
    assert [status_with(visitor.service, cookie) for cookie in (reader, admin)] == [401, 200]
    visitor.service.clock.now += 12 * HOUR - 1
    assert status_with(visitor.service, admin) == 200
    visitor.service.clock.now += 1
    assert status_with(visitor.service, admin) == 401


@pytest.mark.parametrize("cookie", ["", "....", "\xff.\xff", "x" * 5000, "open", "%00"])
def test_made_up_cookies_open_nothing(visitor: Visitor, cookie: str) -> None:
    assert status_with(visitor.service, cookie) == 401


def test_who_reads_the_whole_store_cannot_forge_a_session(visitor: Visitor, tmp_path: Path) -> None:
    cookie = log_in(visitor, "admin")
    admin = visitor.service.store.key_of(visitor.service.keys["admin"]).id
    values: set[bytes] = set()
    with sqlite3.connect(tmp_path / "store.sqlite") as reader:
        tables = [name for (name,) in reader.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in reader.execute(f"SELECT * FROM {table}"):
                values |= {value if isinstance(value, bytes) else str(value).encode() for value in row}
    assert cookie.encode() not in values
    forged = [value.decode("latin-1") for value in values] + [value.hex() for value in values]
    text = f"{admin}.{(START + HOUR) // 1_000_000}.00"
    for value in values:
        if 16 <= len(value) <= 64:  # as cookies were signed before
            signature = blake2b(f"session\0{text}".encode(), digest_size=18, key=value).digest()
            forged += [f"{text}.{signature.hex()}", f"{text}.{_base64(signature)}"]
    for attempt in forged:
        if not set(attempt) & set(";, \r\n\0"):
            assert status_with(visitor.service, attempt[:4000]) == 401, attempt


def _base64(data: bytes) -> str:
    import base64

    return base64.urlsafe_b64encode(data).decode()


def test_many_wrong_keys_are_told_to_stop_and_a_right_one_still_opens(visitor: Visitor) -> None:
    for _ in range(MAX_WRONG):
        assert visitor.client.post("/login", data={"key": "guess"}).status_code == 401
    refused = visitor.client.post("/login", data={"key": "guess"})
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
    assert visitor.log_in("admin").status_code == 200


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 200),
        ({"Origin": "http://127.0.0.1"}, 200),
        ({"Origin": "https://search.example", "Sec-Fetch-Site": "same-origin"}, 200),  # a proxy changed Host
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1.evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_a_login_from_another_site_is_refused(visitor: Visitor, headers: dict[str, str], expected: int) -> None:
    answer = visitor.client.post("/login", data={"key": visitor.service.keys["admin"]}, headers=headers)
    assert (answer.status_code, COOKIE in visitor.client.cookies) == (expected, expected == 200)


def test_a_page_that_was_reached_from_another_site_says_so(visitor: Visitor) -> None:
    assert "You came from another site" in visitor.open("/", headers={"Sec-Fetch-Site": "cross-site"}).text


@pytest.mark.parametrize("path", ["/experiments/shoes/", "/login/", "/v1/experiments/", "//evil.example/"])
def test_no_address_redirects_to_the_host_that_the_request_names(service: Live, path: str) -> None:
    headers = {"Host": "evil.example"}
    answer = service.client.get(f"http://127.0.0.1{path}", headers=headers, follow_redirects=False)
    assert (answer.status_code, "location" in answer.headers) == (404, False)


def test_a_rotated_secret_refuses_old_tokens_after_the_grace_period(
    service: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = service.show(key=service.keys["ingest"]).json()
    event = {"impression": shown["impression"], "rank": 1}
    service.store.rotate_token_secret(START, START + HOUR)
    assert service.tell(event, token=shown["token"]).status_code == 202
    newer = another_token(service)
    assert service.tell({"impression": newer["impression"], "rank": 1}, token=newer["token"]).status_code == 202
    service.clock.now += HOUR
    refuse_old(service)
    answer = service.tell(event, token=shown["token"])
    assert (answer.status_code, "rotated" in answer.json()["error"]["message"]) == (403, True)
    assert service.tell({"impression": newer["impression"], "rank": 2}, token=newer["token"]).status_code == 202
    assert main(["keys", "rotate-secret", "--grace-hours", "0", "--store", str(tmp_path / "store.sqlite")]) == 0
    assert "accepted for 0 hours" in capsys.readouterr().out
    refuse_old(service)
    assert service.tell({"impression": newer["impression"], "rank": 3}, token=newer["token"]).status_code == 403


def another_token(service: Live) -> Any:
    """A list whose token is signed with the secret that the store has now."""
    refuse_old(service)
    return service.show(query="another", key=service.keys["ingest"]).json()


def refuse_old(service: Live) -> None:
    """Let the service read its secrets at the next token, as it does after some seconds."""
    tokens = service.client.app.state.service.tokens  # type: ignore[attr-defined]
    tokens._since = -1e9
    service.tell({"impression": "none", "rank": 1}, token="wrong")


def test_token_secrets_of_a_store_are_rotated_and_shortened(store: SqlStore, address: str) -> None:  # noqa: F811
    (first,) = store.token_secrets(START)
    store.rotate_token_secret(START, START + 10)
    second, old = store.token_secrets(START)
    assert (old, len(second), second == first) == (first, 32, False)
    assert store.token_secrets(START + 10) == [second]
    store.rotate_token_secret(START, START)  # in an emergency: none of the older ones is accepted any more
    (third,) = store.token_secrets(START)
    assert third not in (first, second)
    again = open_store(address)
    assert again.token_secrets(START) == [third]
    again.close()


def test_sessions_of_a_store(store: SqlStore) -> None:  # noqa: F811
    key, _ = store.add_key("read", "mine", START)
    one, other = (store.begin_session(key.id, START, START + 10) for _ in range(2))
    key = store.keys()[0]
    assert (key.used, store.session_key(one, START + 9)) == (START, key)
    assert store.count_sessions(START) == {key.id: 2}
    assert store.session_key(one, START + 10) is store.session_key("", START) is store.session_key("\0\ud800", START)
    assert (store.end_session(one), store.end_session(one)) == (True, False)
    assert (store.session_key(one, START), store.session_key(other, START)) == (None, key)
    assert (store.end_sessions(key.id), store.end_sessions(key.id)) == (1, 0)
    store.begin_session(key.id, START, START + 10)
    store.begin_session(key.id, START + 10, START + 20)
    assert store.end_sessions() == 1  # the expired one was deleted when another began
    last = store.begin_session(key.id, START, START + 10)
    assert store.revoke(key.id, START)
    assert store.session_key(last, START) is None
    assert store.count_sessions(START) == {}
