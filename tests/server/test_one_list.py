"""Experiments in which each unit sees the list of one ranker, by the API, the dashboard, the log and the client."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interleaf
from interleaf.client import Client
from interleaf.report.report import Report
from interleaf.server.app import create_app
from interleaf.server.dashboard import form_pages
from interleaf.server.service import ServiceSettings
from interleaf.store import open_store
from interleaf.store.records import INGEST
from tests.support.dashboards import Visitor
from tests.support.services import MINUTE, NEW, OLD, Live, click, exported, listening, live
from tests.support.stand_in import until

ARMS = {"production": OLD, "candidate": NEW}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as service:
        yield service


def send_traffic(service: Live, requests: int = 240, units: int = 80) -> None:
    """People who click more often on documents that the candidate ranks high."""
    chance = random.Random(5)
    for number in range(requests):
        shown = service.show(f"user-{number % units}", f"query {number}", attributes={"device": "phone"}).json()
        events = [
            click(shown, rank, kind=kind)
            for rank, document in enumerate(shown["documents"], 1)
            for kind, appeal in (("click", 0.6 if document in "hg" else 0.2), ("purchase", 0.1))
            if chance.random() < appeal
        ]
        if events:
            service.tell(*events)


def test_a_unit_sees_one_ranker_for_all_queries_and_pages_and_both_rankings_are_logged(service: Live) -> None:
    service.make(mode="one_list")
    arms = set()
    for unit in (f"user-{number}" for number in range(20)):
        answers = [service.show(unit, query).json() for query in ("trail", "shoes", "")]
        (arm,) = {answer["arm"] for answer in answers}
        assert {tuple(answer["documents"]) for answer in answers} == {tuple(ARMS[arm][:3])}
        second = service.show(unit, "trail", impression=answers[0]["impression"], page=2).json()
        assert (second["arm"], second["documents"]) == (arm, ARMS[arm][3:6])
        arms.add(arm)
    assert arms == {"production", "candidate"}
    for row in exported(service).to_pylist():
        assert (row["method"], row["rankings"]) == ("one_list", [OLD, NEW])
        assert row["documents"] == ARMS[row["arm"]][: len(row["documents"])]
        assert row["unshown_ranks"] is not None


def test_further_pages_go_on_where_units_are_kept_secret(tmp_path: Path) -> None:
    with live(tmp_path, unit_secret=b"0123456789abcdef") as service:
        service.make(mode="one_list")
        for number in range(6):
            first = service.show(f"user-{number}").json()
            second = service.show(f"user-{number}", impression=first["impression"], page=2).json()
            assert second["documents"] == ARMS[first["arm"]][3:6]


def test_report_log_and_tallies_agree_before_and_after_folding(service: Live) -> None:
    service.make(mode="one_list", events={"click": 1.0, "purchase": 5.0}, planned_units=300, holdout=0.1, by=["device"])
    send_traffic(service)
    before = reports(service)
    service.clock.now += 40 * MINUTE
    assert service.store.fold(service.clock.now) == 240
    after, log = reports(service), exported(service)
    events = {"click": {"click": 1.0}, "purchase": {"purchase": 1.0}, "weighted": {"click": 1.0, "purchase": 5.0}}
    for metric, weights in events.items():
        options: dict[str, Any] = {"planned_units": 300, "holdout": 0.1, "by": ["device"]}
        others = 0 if metric == "click" else 2
        ours = interleaf.analyze(log, control="production", events=weights, secondary=others, **options)
        assert before[metric] == after[metric] == ours.to_dict()
        assert ours.method == "one_list"
        assert ours.comparisons[0].estimate == pytest.approx(gap_in(log.to_pylist(), weights))
        assert {arm.name for arm in ours.arms} == {"production", "candidate", "holdout"}


def forget_reports(service: Live) -> None:
    """The next report is computed, however little time has passed."""
    service.client.app.state.service.reports._cache.clear()  # type: ignore[attr-defined]


def reports(service: Live) -> dict[str, Any]:
    forget_reports(service)
    given = service.report().json()["reports"]
    return {name: Report.from_dict(data).to_dict() for name, data in given.items()}


def gap_in(rows: list[dict[str, Any]], weights: dict[str, float]) -> float:
    """Weighted events per search of the candidate minus those of production; a kind counts once per document."""
    means = {}
    for arm in ARMS:
        some = [{(event["kind"], event["rank"]) for event in row["events"]} for row in rows if row["arm"] == arm]
        means[arm] = sum(weights.get(kind, 0.0) for events in some for kind, _ in events) / len(some)
    return means["candidate"] - means["production"]


def test_the_form_of_the_dashboard_creates_such_an_experiment_and_its_page_says_what_it_is(service: Live) -> None:
    visitor = Visitor(service)
    form = form_pages.defaults() | {"name": "shoes", "rankers": "production, candidate", "mode": "one_list", "k": "3"}
    assert visitor.send("/experiments/new", "/experiments/new", **form).status_code == 200
    stored = service.ask("GET", "/v1/experiments/shoes").json()["settings"]
    assert (stored["mode"], stored["method"]) == ("one_list", "one_list")
    edited = form_pages.typed_of(interleaf.Experiment.of(stored)) | {"k": "4"}
    assert visitor.send("/experiments/shoes/edit", "/experiments/shoes/edit", **edited).status_code == 200
    stored = service.ask("GET", "/v1/experiments/shoes").json()["settings"]
    assert (stored["mode"], stored["method"], stored["k"]) == ("one_list", "one_list", 4)
    service.ask("POST", "/v1/experiments/shoes/start")
    assert "There is nothing to see yet." in service.client.get("/experiments/shoes").text
    send_traffic(service)
    forget_reports(service)
    page = " ".join(service.client.get("/experiments/shoes").text.split())
    assert "A/B test of" in page
    assert "units saw candidate" in page
    assert "each person sees the list of one ranker" in page
    assert "Estimates over time are not computed for an A/B test." in page
    assert ">Lift<" in page


def test_the_client_shows_the_same_list_while_the_service_is_away(tmp_path: Path) -> None:
    store, now = open_store(tmp_path / "store.sqlite"), time.time_ns() // 1000
    settings = {"name": "shoes", "rankers": ["production", "candidate"], "k": 3, "mode": "one_list", "holdout": 0.2}
    store.create(interleaf.Experiment.of(settings), now, "test")
    store.start("shoes", now, "test")
    key = store.add_key(INGEST, "test", now)[1]
    units = [f"user-{number}" for number in range(30)]
    with listening(create_app(store, settings=ServiceSettings())) as url:
        client = Client(url, key, timeout=10, spool=tmp_path / "spool")
        served = [client.interleave("shoes", ARMS, unit=unit, query="trail") for unit in units]
        until(lambda: client._known.get("shoes") is not None)
    with client:
        composed = [client.interleave("shoes", ARMS, unit=unit, query="another") for unit in units]
    assert not any(answer.stored for answer in composed)
    assert [(one.arm, one.documents) for one in served] == [(one.arm, one.documents) for one in composed]
    assert {one.arm for one in served} == {"production", "candidate", "holdout"}
    store.close()
