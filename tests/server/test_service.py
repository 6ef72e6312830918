"""The service as its callers meet it: experiments, lists, reports, the log."""

import gc
import platform
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import interleaf
from interleaf.report.report import Report
from interleaf.server.reports import CurrentReports, Reports
from tests.support.services import MINUTE, NEW, OLD, RANKINGS, SHOES, Live, click, exported, live
from tests.support.stand_in import until


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as found:
        yield found


# Experiments.


def test_an_experiment_goes_from_draft_to_decision(service: Live) -> None:
    made = service.ask("POST", "/v1/experiments", SHOES)
    assert (made.status_code, made.json()["state"], made.json()["version"]) == (201, "draft", 1)
    for action, state in (("start", "running"), ("stop", "stopped")):
        answer = service.ask("POST", f"/v1/experiments/shoes/{action}")
        assert (answer.status_code, answer.json()["state"]) == (200, state)
    answer = service.ask("POST", "/v1/experiments/shoes/decide", {"decision": "ship the candidate"})
    assert answer.status_code == 200
    history = service.ask("GET", "/v1/experiments/shoes").json()["history"]
    assert [line["what"] for line in history] == ["created", "started", "stopped", "decided"]
    assert history[-1]["note"] == "ship the candidate"
    assert [one["name"] for one in service.ask("GET", "/v1/experiments").json()["experiments"]] == ["shoes"]


def test_what_is_not_possible_in_a_state_says_the_state(service: Live) -> None:
    service.make(start=False)
    for path, body in (("stop", None), ("decide", {"decision": "?"}), ("interleave", {"rankings": RANKINGS})):
        answer = service.ask("POST", f"/v1/experiments/shoes/{path}", body)
        assert answer.status_code == 409, path
        assert "draft" in answer.json()["error"]["message"]
    assert service.ask("POST", "/v1/experiments", SHOES).status_code in (409, 422)


def test_an_edit_of_what_runs_is_a_new_version_with_a_fresh_analysis(service: Live) -> None:
    service.make()
    first = service.show().json()
    edited = service.ask("PUT", "/v1/experiments/shoes", SHOES | {"k": 2}).json()
    assert (edited["version"], edited["state"]) == (2, "running")
    second = service.show().json()
    assert (first["version"], second["version"], len(second["documents"])) == (1, 2, 2)
    assert service.report().json()["open"] == 1
    assert service.report(params={"version": 1}).json()["open"] == 1
    assert service.report(params={"version": 3}).status_code == 404


def test_settings_that_cannot_be_are_refused_by_field(service: Live) -> None:
    answer = service.ask("POST", "/v1/experiments", SHOES | {"holdout": 7})
    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == "holdout"
    assert "from 0 to 0.9" in answer.json()["error"]["message"]


def test_an_experiment_keeps_its_name(service: Live) -> None:
    service.make(start=False)
    answer = service.ask("PUT", "/v1/experiments/shoes", SHOES | {"name": "boots"})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "name")


@pytest.mark.parametrize("path", ["", "/report", "/log", "/interleave", "/start", "/stop", "/decide"])
def test_an_unknown_experiment_is_404(service: Live, path: str) -> None:
    method = "GET" if path in ("", "/report", "/log") else "POST"
    body = {"/interleave": {"rankings": RANKINGS}, "/decide": {"decision": "x"}}.get(path)
    answer = service.ask(method, f"/v1/experiments/nothing{path}", body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown")


# Lists.


def test_the_list_is_the_one_that_its_key_gives(service: Live) -> None:
    service.make()
    answer = service.show()
    assert answer.status_code == 201
    shown = answer.json()
    expected = interleaf.interleave(RANKINGS, k=3, key=("shoes", 1, "user-7", "trail"))
    assert (shown["documents"], shown["arm"]) == (list(expected.documents), "interleaved")


def test_the_same_impression_id_gives_the_same_list_and_is_stored_once(service: Live) -> None:
    service.make()
    first = service.show(impression="i-1")
    again = service.show(impression="i-1", unit="another", rankings={"production": NEW, "candidate": OLD})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert service.report().json()["open"] == 1


def test_an_impression_id_of_another_experiment_is_refused(service: Live) -> None:
    service.make()
    service.make(name="boots")
    service.show(impression="i-1")
    answer = service.ask("POST", "/v1/experiments/boots/interleave", {"rankings": RANKINGS, "impression": "i-1"})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "impression")


def test_page_two_goes_on_in_the_same_impression(service: Live) -> None:
    service.make()
    first = service.show(impression="i-1").json()
    second = service.show(impression="i-1", page=2, rankings={}).json()
    whole = interleaf.interleave(RANKINGS, k=6, key=("shoes", 1, "user-7", "trail")).documents
    assert first["documents"] + second["documents"] == list(whole)
    assert service.show(impression="i-1", page=2, rankings={}).json() == second
    assert service.tell({"impression": "i-1", "rank": 5}).json()["accepted"] == 1
    (row,) = exported(service).to_pylist()
    assert (row["page"], row["documents"], [event["rank"] for event in row["events"]]) == (2, list(whole), [5])


def test_without_a_page_one_the_control_goes_on_and_nothing_is_logged(service: Live) -> None:
    service.make()
    for more in ({}, {"impression": "never"}):
        shown = service.show(page=2, **more).json()
        assert (shown["documents"], shown["arm"], shown["impression"]) == (OLD[3:6], "outside", None)
    assert service.show(page=2, impression="never", rankings={}).status_code == 404
    assert service.report().json()["open"] == 0


def test_optimized_has_one_page(service: Live) -> None:
    service.make(method="optimized")
    service.show(impression="i-1")
    answer = service.show(impression="i-1", page=2)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "page")


def test_a_ranking_that_came_too_late_makes_a_fallback(service: Live) -> None:
    service.make()
    shown = service.show(rankings={"production": OLD, "candidate": None}).json()
    assert (shown["arm"], shown["documents"]) == ("fallback", OLD[:3])
    (row,) = exported(service).to_pylist()
    assert (row["arm"], row["fallback_reason"]) == ("fallback", "no ranking of candidate")


def test_a_ranker_that_found_nothing_has_answered(service: Live) -> None:
    service.make(holdout=0.5, guardrails={"zero_results": 0.1, "reformulation": 0.2})
    found = dict[str, int]()
    for number in range(60):
        rankings = {"production": [], "candidate": NEW if number % 2 else []}
        shown = service.show(f"user-{number % 30}", f"query {number}", rankings=rankings).json()
        assert shown["impression"]
        assert shown["token"]
        assert shown["documents"] == (NEW[:3] if number % 2 and shown["arm"] == "interleaved" else [])
        found[shown["arm"]] = found.get(shown["arm"], 0) + 1
        more = {"impression": shown["impression"], "page": 2}
        second = service.show(f"user-{number % 30}", f"query {number}", **more).json()
        assert second["documents"] == (NEW[3:6] if shown["documents"] else [])
    assert set(found) == {"interleaved", "holdout"}
    rows = exported(service).to_pylist()
    assert {row["arm"]: sum(one["arm"] == row["arm"] for one in rows) for row in rows} == found
    empty, follow_ups = service.report().json()["reports"]["click"]["guardrails"]
    assert (empty["metric"], empty["base_value"]) == ("zero_results", 1.0)
    assert (
        empty["value"]
        == sum(not row["documents"] for row in rows if row["arm"] == "interleaved") / found["interleaved"]
    )
    assert (follow_ups["metric"], follow_ups["value"], follow_ups["base_value"]) == ("reformulation", 0.5, 0.5)
    page = service.client.get("/experiments/shoes")
    assert page.status_code == 200
    assert "zero_results" in page.text


def test_units_outside_are_served_and_not_stored(service: Live) -> None:
    service.make(share=0.0001)
    shown = service.show().json()
    assert shown == {"impression": None, "documents": OLD[:3], "arm": "outside", "version": 1, "token": None}
    assert service.report().json()["open"] == 0


def test_what_came_along_is_in_the_log(service: Live) -> None:
    service.make()
    caption = {"title": "A shoe", "highlights": [{"field": "title", "start": 2, "end": 6}]}
    more: dict[str, Any] = {
        "attributes": {"device": "phone"},
        "captions": {"a": caption},
        "latency": {"candidate": 12.5},
        "session": "s",
    }
    service.show(**more)
    (row,) = exported(service).to_pylist()
    assert row["attributes"] == [("device", "phone")]
    assert (row["session"], row["query"], row["unit"]) == ("s", "trail", "user-7")
    assert row["latency"] == [None, 12.5]
    assert row["captions"][row["documents"].index("a")]["title"] == "A shoe"
    assert row["open"] is True


# The same numbers everywhere.


def test_page_log_and_tallies_agree_before_and_after_folding(service: Live) -> None:
    service.make(events={"click": 1.0, "purchase": 5.0}, planned_units=300, holdout=0.1)
    for number in range(200):
        shown = service.show(f"user-{number % 60}", f"query {number}").json()
        rank = shown["documents"].index("a") + 1 if "a" in shown["documents"] else 1
        kind = "purchase" if number % 7 == 0 else "click"
        service.tell(click(shown, rank, kind=kind), click(shown, 1 + number % 3))
    before = reports(service)
    service.clock.now += 40 * MINUTE
    assert service.store.fold(service.clock.now) == 200
    after = reports(service)
    log = exported(service)
    events = {"click": {"click": 1.0}, "purchase": {"purchase": 1.0}, "weighted": {"click": 1.0, "purchase": 5.0}}
    for metric, weights in events.items():
        options: dict[str, Any] = {"planned_units": 300, "holdout": 0.1, "secondary": 0 if metric == "click" else 2}
        ours = interleaf.analyze(log, control="production", events=weights, **options)
        assert before[metric] == after[metric] == plain(ours)
    assert service.ask("GET", "/v1/experiments/shoes/report").json()["folded"] == 200


def reports(service: Live) -> dict[str, Any]:
    service.client.app.state.service.reports._cache.clear()  # type: ignore[attr-defined]
    return {name: plain(Report.from_dict(data)) for name, data in service.report().json()["reports"].items()}


def plain(report: Report) -> Any:
    return report.to_dict()


def test_a_report_without_impressions_says_so(service: Live) -> None:
    service.make()
    answer = service.report().json()
    assert (answer["reports"], answer["reason"]) == ({}, "no impressions yet")


# Bots, privacy, plumbing.


@pytest.mark.parametrize(
    ("settings", "request_", "rule"),
    [
        ({"bot_agents": ["GoogleBot"]}, {"user_agent": "Mozilla (googlebot/2.1)"}, "user agent"),
        ({"bot_units": ["user-7"]}, {}, "listed unit"),
        ({"bot_rate": 1}, {}, "too many impressions an hour"),
        ({"bot_rate": 1}, {"impression": "i-1"}, "too many impressions an hour"),
    ],
)
def test_bots_are_served_and_do_not_count(
    service: Live, settings: dict[str, Any], request_: dict[str, Any], rule: str
) -> None:
    service.make(**settings)
    service.show("user-7", "first")
    shown = service.show("user-7", "second", **request_)
    assert len(shown.json()["documents"]) == 3
    rows = exported(service).to_pylist()
    assert rule in {row["excluded"] for row in rows}
    report = next(iter(service.report().json()["reports"].values()), None)
    if report is not None:
        assert f"excluded:{rule}" in report["totals"]["dropped"]


def test_units_and_queries_can_be_stored_as_hashes(tmp_path: Path) -> None:
    with live(tmp_path, unit_secret=b"0123456789abcdef", queries="hash") as service:
        service.make()
        expected = interleaf.interleave(RANKINGS, k=3, key=("shoes", 1, "user-7", "trail"))
        assert service.show().json()["documents"] == list(expected.documents)
        (row,) = exported(service).to_pylist()
        assert "user-7" not in str(row)
        assert "trail" not in str(row)
        assert row["key"] is None
        whole = interleaf.interleave(RANKINGS, k=6, key=("shoes", 1, "user-7", "trail")).documents
        wrong = service.show(query="other words", impression=row["impression"], page=2, rankings={})
        assert (wrong.status_code, wrong.json()["error"]["field"]) == (422, "query")
        further = service.show(impression=row["impression"], page=2, rankings={})
        assert further.json()["documents"] == list(whole[3:])
        assert exported(service).to_pylist()[0]["key"] is None
        assert service.ask("DELETE", "/v1/units/user-7").json() == {"impressions": 1}
        service.show(unit="a/b")
        assert service.ask("DELETE", "/v1/units/a%2Fb").json() == {"impressions": 1}
        assert exported(service).num_rows == 0


def test_queries_can_be_left_out(tmp_path: Path) -> None:
    with live(tmp_path, queries="drop") as service:
        service.make()
        service.show()
        assert exported(service).to_pylist()[0]["query"] is None


def test_metrics_count_requests_and_events(service: Live) -> None:
    service.make()
    service.tell(click(service.show().json()))
    text = service.ask("GET", "/metrics").text
    values = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert values["interleaf_impressions_total", "interleaved", "shoes"] == 1
    assert values["interleaf_events_total", "accepted"] == 1
    assert values["interleaf_requests_total", "/v1/events", "202"] == 1
    assert values["interleaf_request_seconds_count", "/v1/events"] == 1
    assert values["interleaf_write_queue",] == 0
    assert values["interleaf_fold_backlog_seconds",] >= 0
    assert values["interleaf_resident_memory_bytes",] > 10_000_000
    assert values["interleaf_running_experiment_info", "1", "competitive_pairs", "shoes"] == 1
    assert values["interleaf_build_info", *sorted((version("interleaf"), platform.python_version()))] == 1


def test_the_service_is_ready_until_its_store_is_away_and_lives_on(service: Live) -> None:
    for path in ("/livez", "/readyz", "/healthz"):
        assert service.ask("GET", path).json() == {"status": "ok"}
    service.store.close()
    for path in ("/readyz", "/healthz"):
        answer = service.ask("GET", path)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["error"]["code"] == "store_away"
    assert service.ask("GET", "/livez").json() == {"status": "ok"}


def test_metrics_are_answered_while_the_store_is_away(service: Live) -> None:
    service.make()
    service.make_keys()
    read = service.keys["read"]
    assert "interleaf_running_experiment_info{" in service.ask("GET", "/metrics", key=read).text
    service.store.close()
    until(lambda: "running_experiment" not in service.ask("GET", "/metrics", key=read).text)
    until(lambda: service.ask("GET", "/v1/experiments/shoes", key=read).status_code == 503)
    answer = service.ask("GET", "/metrics", key=read)
    assert answer.status_code == 200
    assert 'interleaf_requests_total{route="/metrics",status="200"}' in answer.text
    assert service.ask("GET", "/metrics", key="il_read_unknown").status_code == 503
    assert service.ask("GET", "/metrics", key=service.keys["ingest"]).status_code in (403, 503)


def test_a_store_that_hangs_is_not_ready_after_a_second(service: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(service.store, "check", lambda: hangs.wait(600))
    try:
        for _ in range(3):  # however often it is asked
            answer = service.ask("GET", "/readyz")
            assert answer.status_code == 503
            assert "did not answer within 1 s" in answer.text
        assert service.ask("GET", "/livez").status_code == 200
    finally:
        hangs.set()


def test_everything_is_described(service: Live) -> None:
    document = service.ask("GET", "/openapi.json").json()
    routes = {route.path for route in service.client.app.routes if route.path.startswith("/v1")}  # type: ignore[attr-defined]
    assert {path.replace(":path", "") for path in routes} <= set(document["paths"])
    assert set(document["components"]["schemas"]["Experiment"]["properties"]) >= set(SHOES)


def test_an_unknown_address_and_a_wrong_method_are_refused_as_json(service: Live) -> None:
    assert service.ask("GET", "/v1/nothing").json()["error"]["code"] == "unknown"
    assert service.ask("DELETE", "/v1/events").json()["error"]["code"] == "wrong_method"


def test_a_list_that_is_told_late_belongs_to_the_version_and_the_time_it_had(service: Live) -> None:
    service.make()
    service.ask("PUT", "/v1/experiments/shoes", SHOES | {"k": 2})
    service.clock.now += 10 * MINUTE
    service.ask("POST", "/v1/experiments/shoes/stop")
    service.clock.now += 10 * MINUTE
    late: dict[str, Any] = {"time": "2027-01-15T08:05:00Z", "version": 1, "impression": "late"}
    answer = service.show(**late)
    assert (answer.status_code, answer.json()["version"], len(answer.json()["documents"])) == (201, 1, 3)
    assert service.show(time="2027-01-15T08:15:00Z").status_code == 409  # it was stopped by then
    assert service.show(**late | {"version": 9}).status_code == 422


def test_a_further_page_of_a_unit_outside_is_the_control_s(service: Live) -> None:
    service.make(share=0.0001)
    assert service.show(page=2).json()["documents"] == OLD[3:6]


def test_while_the_store_is_away_nothing_is_acknowledged(service: Live) -> None:
    service.make()
    shown = service.show().json()
    service.store.close()
    for answer in (service.show(query="another"), service.tell(click(shown))):
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["error"]["code"] == "store_away"


def test_an_impression_that_is_sent_again_is_no_sign_of_a_bot(service: Live) -> None:
    service.make(bot_rate=2)
    for _ in range(4):
        service.show(impression="i-1")
    service.show(query="another")
    assert {row["excluded"] for row in exported(service).to_pylist()} == {None}


def test_captions_of_a_further_page_are_kept(service: Live) -> None:
    service.make()
    first = service.show(impression="i-1", captions={"a": {"title": "A"}}).json()
    captions = {document: {"title": document.upper()} for document in "abcdefgh"}
    second = service.show(impression="i-1", page=2, rankings={}, captions=captions).json()
    (row,) = exported(service).to_pylist()
    titles = [caption and caption["title"] for caption in row["captions"]]
    assert titles == ["A" if one == "a" else None for one in first["documents"]] + [
        one.upper() for one in second["documents"]
    ]


def test_a_slow_report_keeps_no_request_waiting(service: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    service.make()
    service.show()
    inside = service.client.app.state.service  # type: ignore[attr-defined]
    slow, calls, shown = service.store.tallies, [], threading.Event()
    wait, viewing = inside.reports.get, list[str]()

    async def waited(name: str, version: int) -> Any:
        viewing.append(name)
        return await wait(name, version)

    def tallies(name: str, version: int) -> Any:
        calls.append(name)
        assert shown.wait(300)  # a report that ends after the request that came later
        return slow(name, version)

    monkeypatch.setattr(service.store, "tallies", tallies)
    monkeypatch.setattr(inside.reports, "get", waited)
    with ThreadPoolExecutor(12) as viewers:
        waiting = [viewers.submit(service.report) for _ in range(12)]
        until(lambda: bool(calls) and len(viewing) == 12)
        assert service.show(query="meanwhile").status_code == 201
        shown.set()
        assert [one.result().status_code for one in waiting] == [200] * 12
    assert len(calls) == 1  # all of them wait for the same one


def test_a_report_that_took_long_does_not_stand_for_long(service: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one of a process compiles for many seconds; the page must not stand still for minutes after it."""
    service.make()
    now, tallies = 0.0, service.store.tallies

    def slow_tallies(name: str, version: int) -> Any:
        nonlocal now
        now = 30.0
        return tallies(name, version)

    reports = Reports(service.store, clock=lambda: now)
    with monkeypatch.context() as patched:
        patched.setattr(service.store, "tallies", slow_tallies)
        first = reports.get_blocking("shoes", 1)
    now = 34.9
    assert reports.get_blocking("shoes", 1) is first
    now = 35.0
    assert reports.get_blocking("shoes", 1) is not first


def test_only_the_latest_reports_are_held_in_memory(service: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interleaf.server.reports.MAX_REPORTS", 3)
    reports = Reports(service.store)
    made: list[weakref.ref[CurrentReports]] = []
    for number in range(12):
        service.make(name=f"shoes-{number}")
        made.append(weakref.ref(reports.get_blocking(f"shoes-{number}", 1)))
        gc.collect()
        assert sum(one() is not None for one in made) == min(number + 1, 3)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/events", 405),
        ("GET", "/v1/experiments/shop/interleave", 405),
        ("POST", "/v1/experiments//interleave", 404),
        ("POST", "/v1/experiments/interleave", 405),  # an experiment of that name, which takes GET and PUT
        ("POST", "/v1/experiments/a%2Fb/interleave", 404),
        ("POST", "/v1/experiments/shop/interleave/more", 404),
        ("POST", "/v1/experiments/nothing/interleave", 404),
    ],
)
def test_addresses_beside_those_of_traffic_are_told_apart(service: Live, method: str, path: str, status: int) -> None:
    service.make()
    assert service.ask(method, path, {"rankings": {}} if method == "POST" else None).status_code == status
