"""Events as the service takes them: where they belong, what becomes of them, and what time does to them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.services import MINUTE, Live, click, exported, live


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as found:
        yield found


def test_events_are_counted_by_what_became_of_them(service: Live) -> None:
    service.make()
    shown = service.show().json()
    taken = service.tell(
        click(shown, event="e-1"), click(shown, event="e-1"), click(shown, 99), click({"impression": "no"})
    )
    assert taken.status_code == 202
    found = taken.json()
    assert (found["accepted"], found["repeated"], found["unmatched"]) == (1, 1, 2)
    assert sum(found["apart"].values()) == 2
    assert sum(service.report().json()["apart"].values()) >= 1


def test_a_click_may_name_its_document(service: Live) -> None:
    service.make()
    shown = service.show().json()
    assert service.tell({"impression": shown["impression"], "document": shown["documents"][1]}).json()["accepted"] == 1
    (row,) = exported(service).to_pylist()
    assert row["events"][0]["rank"] == 2


def test_a_purchase_of_a_unit_finds_the_last_impression_that_showed_it(service: Live) -> None:
    service.make(events={"click": 1.0, "purchase": 5.0}, attribution="last_impression")
    service.show(query="one")
    service.clock.now += MINUTE
    last = service.show(query="two").json()
    document = last["documents"][0]
    assert service.tell({"unit": "user-7", "document": document, "kind": "purchase"}).json()["accepted"] == 1
    rows = {row["impression"]: row["events"] for row in exported(service).to_pylist()}
    assert [event["kind"] for event in rows[last["impression"]]] == ["purchase"]
    assert list(service.report().json()["reports"]) == ["click", "purchase", "weighted"]


@pytest.mark.parametrize(
    "event", [{"rank": 1}, {"impression": "i", "unit": "u", "rank": 1}, {"impression": "i"}, {"unit": "u"}]
)
def test_an_event_says_where_it_belongs(service: Live, event: dict[str, Any]) -> None:
    answer = service.tell(event)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "events[0]")


def test_an_event_of_a_unit_is_on_a_document(service: Live) -> None:
    answer = service.tell({"unit": "user-7", "rank": 1})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "events[0].document")


def test_events_of_a_kind_that_counts_nowhere_are_said_before_those_of_no_list(service: Live) -> None:
    service.make()
    service.make(name="other")
    shown = service.show().json()
    assert service.tell(click(shown, kind="Click"), click({"impression": "nobody's"})).json()["unmatched"] == 1
    found = service.report().json()["reports"]["click"]["verdict"]
    assert found["undecided_because"] == "events_not_counted"
    assert found["sentence"].endswith(": 1 event is of another kind.")


def test_events_of_a_kind_that_counts_nowhere_are_a_warning(service: Live) -> None:
    service.make(events={"click": 1.0, "purchase": 5.0})
    for number in range(20):
        shown = service.show(f"user-{number}").json()
        service.tell(click(shown, kind="click" if number % 2 else "Click"), click(shown, kind="purchase"))
    for found in service.report().json()["reports"].values():
        (check,) = [one for one in found["health"] if one["code"] == "events_idle"]
        assert (check["status"], check["figure"]) == ("warning", "10 of 40 events")


def test_of_a_bad_batch_nothing_is_taken(service: Live) -> None:
    service.make()
    shown = service.show().json()
    assert service.tell(click(shown), {"rank": 1}).status_code == 422
    (row,) = exported(service).to_pylist()
    assert row["events"] == []


def test_dwell_comes_when_the_person_returns(service: Live) -> None:
    service.make()
    shown = service.show().json()
    service.tell(click(shown, event="e-1"))
    assert service.tell(click(shown, event="e-1", dwell=31.0)).json()["repeated"] == 1
    (row,) = exported(service).to_pylist()
    assert [(event["rank"], event["dwell"]) for event in row["events"]] == [(1, 31.0)]


# Time.


def test_events_from_wrong_times_are_kept_apart_and_visible(service: Live) -> None:
    service.make(window_minutes=30)
    shown = service.show().json()
    assert service.tell(click(shown, time="2027-01-15T08:30:00Z")).json()["unmatched"] == 1  # half an hour from now
    assert service.tell(click(shown, time="2026-01-01T00:00:00Z")).json()["unmatched"] == 1  # long before it was shown
    service.clock.now += 31 * MINUTE
    assert service.tell(click(shown)).json()["unmatched"] == 1  # past the window
    assert len(service.report().json()["apart"]) == 3


def test_a_clock_that_jumps_back_loses_nothing(service: Live) -> None:
    service.make()
    shown = service.show().json()
    service.clock.now -= 3 * MINUTE
    assert service.show(query="later").status_code == 201
    assert service.tell(click(shown)).json()["unmatched"] == 1  # three minutes before it was shown: told, not lost
    assert sum(service.report().json()["apart"].values()) == 1
    assert service.report().json()["open"] == 2


def test_an_impression_from_the_future_is_refused_and_a_late_one_is_kept(service: Live) -> None:
    service.clock.now -= 24 * 60 * MINUTE + 10 * MINUTE
    service.make()
    service.clock.now += 24 * 60 * MINUTE + 10 * MINUTE
    assert service.show(time="1971-01-01T00:00:00Z").status_code == 409  # before it was started
    answer = service.show(time="2030-01-01T00:00:00Z")
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "time")
    late = service.show(time="2027-01-14T08:00:00Z")
    assert late.status_code == 201
    event = {"impression": late.json()["impression"], "rank": 1}
    assert service.tell(event | {"time": "2027-01-14T08:00:30Z"}).json()["accepted"] == 1
    assert service.tell(event | {"time": "2027-01-14T18:00:00Z"}).json()["unmatched"] == 1  # past its own window


def test_times_need_a_time_zone(service: Live) -> None:
    service.make()
    assert service.show(time="2027-01-14T08:00:00").status_code == 422
