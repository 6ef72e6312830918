"""Keys of one experiment, keys that expire, when a key was last used; and a form that makes one key when sent twice."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interleaf.cli import main
from interleaf.errors import DataError, StateError
from interleaf.log.drop_reasons import EventFate
from interleaf.server.auth import USE_STEP
from interleaf.server.dashboard.routes import PAGE_ROUTES
from interleaf.server.openapi import CALLS, PUBLIC
from interleaf.store import open_store
from interleaf.store.records import Event
from interleaf.store.sql import SqlStore
from tests.support.dashboards import NEW_ID, TOKEN, Visitor
from tests.support.services import MINUTE, RANKINGS, SHOES, START, Live, live
from tests.support.stand_in import until
from tests.support.stores import SECOND, address, click, impression, running, store  # noqa: F401

DAY = 24 * 60 * MINUTE


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    """With two experiments, keys of all of them, and an admin key of boots."""
    with live(tmp_path) as found:
        found.make(attribution="last_impression")
        found.make(name="boots", attribution="last_impression")
        found.make_keys()
        for role in ("ingest", "read", "admin"):
            _, found.keys[f"boots {role}"] = found.store.add_key(role, f"boots {role}", START, experiment="boots")
        yield found


def ask(service: Live, call: Any, name: str, key: str) -> Any:
    bodies = {"/interleave": {"rankings": RANKINGS}, "/decide": {"decision": "x"}}
    body = next((body for end, body in bodies.items() if call.path.endswith(end)), None)
    if body is None and call.takes is not None:
        body = {"events": [{"impression": "i", "rank": 1}]} if "events" in call.path else SHOES | {"name": name}
    path = call.path.replace("{name}", name).replace("{unit:path}", "user-7")
    return service.ask(call.method, path, body, key)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
def test_a_key_of_one_experiment_makes_no_call_about_another(service: Live, call: Any) -> None:
    before = service.store.experiment("shoes")
    answer = ask(service, call, "shoes", service.keys["boots admin"])
    if call.role == PUBLIC or call.narrows:
        assert answer.status_code < 300
        assert "shoes" not in answer.text
    else:
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "wrong_experiment")
        assert "'boots' only" in answer.json()["error"]["message"]
    assert service.store.experiment("shoes") == before
    if "{name}" in call.path:
        assert ask(service, call, "boots", service.keys["boots admin"]).status_code != 403


@pytest.mark.parametrize("address", PAGE_ROUTES, ids=lambda one: f"{one.method} {one.path}")
def test_who_logs_in_with_a_key_of_one_experiment_opens_no_page_of_another(service: Live, address: Any) -> None:  # noqa: F811
    visitor = Visitor(service)
    visitor.log_in("boots admin")
    token = TOKEN.search(visitor.open("/experiments/boots").text)
    assert token is not None
    path, before = address.path.replace("{name}", "shoes"), service.store.experiment("shoes")
    answer = visitor.client.request(address.method, path, data={"token": token[1]})
    if address.role == PUBLIC or address.narrows:
        assert "shoes" not in answer.text
    else:
        assert (answer.status_code, "&#39;boots&#39; only" in answer.text) == (403, True)
    assert service.store.experiment("shoes") == before
    assert len(service.store.keys()) == 6


def test_the_list_has_the_one_experiment_and_no_way_to_make_others(service: Live) -> None:
    visitor = Visitor(service)
    visitor.log_in("boots admin")
    page = visitor.open("/").text
    assert "/experiments/boots" in page
    assert not any(word in page for word in ("/experiments/shoes", "/experiments/new", 'href="/keys"'))
    assert "boots only" in page
    listed = service.ask("GET", "/v1/experiments", key=service.keys["boots read"]).json()
    assert [one["name"] for one in listed["experiments"]] == ["boots"]


def test_events_with_a_key_of_one_experiment_reach_no_other(service: Live) -> None:
    everything, only = service.keys["ingest"], service.keys["boots ingest"]
    shoes = service.show(key=everything).json()
    boots = service.ask(
        "POST", "/v1/experiments/boots/interleave", {"unit": "user-7", "query": "q", "rankings": RANKINGS}, only
    ).json()
    foreign = service.tell({"impression": shoes["impression"], "rank": 1}, key=only).json()
    assert foreign["apart"] == {EventFate.UNKNOWN_IMPRESSION: 1}
    assert service.tell({"impression": boots["impression"], "rank": 1}, key=only).json()["accepted"] == 1
    assert service.tell({"unit": "user-7", "document": shoes["documents"][0]}, key=only).json()["accepted"] >= 0
    service.store.fold(START + SECOND)
    assert [row["events"] for row in service.store.examples("shoes")] == [[]]


def test_an_event_with_a_scope_is_never_matched_elsewhere_not_even_later(store: SqlStore) -> None:  # noqa: F811
    shop = running(store, attribution="last_impression")
    other = running(store, name="other", attribution="last_impression")
    mine, foreign = impression(shop, 1, unit="ann"), impression(other, 1, unit="ann")
    document = foreign.row["documents"][0]
    early = [
        Event("e1", "click", foreign.time, foreign.time, foreign.id, rank=1, scope="shop"),
        Event("e2", "click", foreign.time, foreign.time, unit="ann", document=document, scope="shop"),
    ]
    assert store.write([], early)[1] == [EventFate.UNKNOWN_IMPRESSION, EventFate.NOT_SHOWN_TO_UNIT]
    store.write([foreign], [])
    store.fold(foreign.time + SECOND)
    store.write([], [click(foreign, id="own")])
    again = click(foreign, id="own", dwell=9.0, scope="shop")
    store.write([], [again])
    assert [(one["event"], one["dwell"]) for one in store.examples("other")[0]["events"]] == [("own", None)]
    store.fold(foreign.closes)
    assert [one["event"] for one in store.examples("other")[0]["events"]] == ["own"]
    assert store.write([mine], [click(mine, scope="shop")])[1] == [EventFate.ACCEPTED]


def test_an_expired_key_opens_nothing_and_ends_its_sessions(service: Live) -> None:
    _, service.keys["short"] = service.store.add_key("read", "short", START, expires=START + DAY)
    visitor = Visitor(service)
    service.clock.now = START + DAY - 60 * MINUTE
    visitor.log_in("short")
    service.clock.now = START + DAY - 1
    assert (service.report(key=service.keys["short"]).status_code, visitor.open("/").status_code) == (200, 200)
    service.clock.now = START + DAY
    refused = service.report(key=service.keys["short"])
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "expired_key")
    assert "expired at 2027-01-16T08:00:00" in refused.json()["error"]["message"]
    assert (visitor.open("/").status_code, visitor.log_in("short").status_code) == (401, 401)


def test_the_last_use_is_written_now_and_then_and_not_by_every_request(
    service: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    note = service.store.note_key_use

    def counted(key: str, now: int) -> None:
        note(key, now)
        written.append(key)

    monkeypatch.setattr(service.store, "note_key_use", counted)
    key = service.store.key_of(service.keys["read"])
    assert key.used is None
    service.clock.now += MINUTE
    for _ in range(20):
        assert service.report(key=service.keys["read"]).status_code == 200
    until(lambda: bool(written))
    assert written == [key.id]
    assert service.store.key_of(service.keys["read"]).used == START + MINUTE
    access = service.client.app.state.service.access  # type: ignore[attr-defined]
    access._last_use[key.id] -= USE_STEP
    service.clock.now += DAY
    service.report(key=service.keys["read"])
    until(lambda: len(written) == 2)
    assert service.store.key_of(service.keys["read"]).used == START + MINUTE + DAY


def test_a_store_keeps_the_scope_and_the_expiry_of_keys(store: SqlStore, address: str) -> None:  # noqa: F811
    running(store)
    key, secret = store.add_key("read", "mine", START, experiment="shop", expires=START + 1, name="0123456789abcdef")
    assert (key.experiment, key.expires, key.used, key.id) == ("shop", START + 1, None, "0123456789abcdef")
    again = open_store(address)
    assert again.key_of(secret) == key
    again.close()
    assert [key.is_valid(START), key.is_valid(START + 1)] == [True, False]
    with pytest.raises(StateError, match="0123456789abcdef already exists"):
        store.add_key("read", "mine", START, name="0123456789abcdef")
    with pytest.raises(DataError, match="'nowhere', and there is no such experiment; create it first"):
        store.add_key("read", "mine", START, experiment="nowhere")
    with pytest.raises(DataError, match="expire at once"):
        store.add_key("read", "mine", START, expires=START)
    assert len(store.keys()) == 1


def test_the_command_line_makes_and_lists_keys_with_scope_and_expiry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path / "store.db")
    made = open_store(place)
    running(made)
    made.close()
    add = ["keys", "add", "read", "--store", place]
    assert main([*add, "--label", "short", "--experiment", "shop", "--days", "30"]) == 0
    assert main([*add, "--label", "long"]) == 0
    capsys.readouterr()
    assert main(["keys", "list", "--store", place]) == 0
    listed = capsys.readouterr().out
    expires = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 30 * 86400))
    assert re.search(rf"read +short +shop +{expires} \d\d:\d\d +never +valid", listed), listed
    assert re.search(r"read +long +all +never +never +valid", listed), listed
    for wrong in (["--days", "0"], ["--days", "nan"], ["--experiment", "nowhere"]):
        assert main([*add, *wrong]) != 0
        assert "Traceback" not in capsys.readouterr().err


def test_a_new_key_that_is_loaded_again_is_not_made_again(service: Live) -> None:
    visitor = Visitor(service)
    visitor.log_in("admin")
    page = visitor.open("/keys").text
    token, new_id = TOKEN.search(page), NEW_ID.search(page)
    assert token is not None
    assert new_id is not None
    data = {"token": token[1], "id": new_id[1], "role": "read", "label": "mine", "experiment": "boots", "days": "7"}
    first = visitor.client.post("/keys", data=data)
    assert (first.status_code, 'id="secret">il_read_' in first.text) == (200, True)
    known = service.store.keys()
    again = visitor.client.post("/keys", data=data)
    assert (again.status_code, 'id="secret"' in again.text, "already exists" in again.text) == (200, False, True)
    assert service.store.keys() == known
    made = next(key for key in known if key.id == new_id[1])
    assert (made.experiment, made.expires) == ("boots", START + 7 * DAY)
    assert all(word in first.text for word in ("boots", "2027-01-22"))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"days": "0"}, "from 1 to 3,650"),
        ({"days": "x"}, "from 1 to 3,650"),
        ({"days": "²"}, "from 1 to 3,650"),
        ({"experiment": "nowhere"}, "there is no such experiment"),
        ({"id": "../x"}, "load the page again"),
        ({"role": "king", "days": "-1"}, "Choose what the key is for. Days until it expires"),
    ],
)
def test_a_key_that_cannot_be_is_refused_with_all_that_is_wrong(
    service: Live, fields: dict[str, str], sentence: str
) -> None:
    visitor = Visitor(service)
    visitor.log_in("admin")
    answer = visitor.send("/keys", "/keys", **{"role": "read", "label": "x"} | fields)
    assert (answer.status_code, sentence in answer.text, len(service.store.keys())) == (422, True, 6)


@pytest.mark.parametrize("more", [{"role": "read"}, {"experiment": "shoes"}, {"days": "3"}])
def test_the_first_key_locks_nobody_out(tmp_path: Path, more: dict[str, str]) -> None:
    with live(tmp_path) as service:
        service.make()
        answer = Visitor(service).send("/keys", "/keys", **{"role": "admin", "label": "x"} | more)
        assert (answer.status_code, "The first key must be" in answer.text) == (422, True)
        assert service.store.keys() == []
