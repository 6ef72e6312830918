"""The best of many rankers through a real service: who is run, what is logged, which plans are made, by whom."""

from __future__ import annotations

import json
import random
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import interleaf
from interleaf.clicks import find_cascade, scale_of
from interleaf.client import Client, clients
from interleaf.experiment import Experiment
from interleaf.experiment.choose import epoch_at, epoch_start
from interleaf.experiment.epochs import EpochPlan
from interleaf.report.choice import plan_from_results
from interleaf.server import choosing
from interleaf.server.app import create_app
from interleaf.server.dashboard.experiment_pages import example, teams
from interleaf.simulate.data import synthetic
from interleaf.simulate.rankers import rank, scores_of
from interleaf.store import open_store
from interleaf.tally import Tally
from interleaf.tally.choice_sums import ChoiceSums
from tests.server.test_automation import look
from tests.support.epoch_plans import shares_of
from tests.support.services import MINUTE, START, Live, click, exported, listening, live
from tests.support.stores import KINDS, address_of

RANKERS = [f"r{place}" for place in range(6)]
DOCUMENTS = [f"d{place}" for place in range(12)]
GOOD = set(DOCUMENTS[:4])


def ranking(ranker: str) -> list[str]:
    """The first ranker has the good documents first; the last one has them last."""
    place = RANKERS.index(ranker)
    rest = DOCUMENTS[4:]
    return rest[:place] + DOCUMENTS[:4] + rest[place:]


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.setattr(choosing, "MAX_WAIT", 60.0)  # a busy machine may stand still for seconds
    with live(tmp_path) as service:
        yield service


def make(service: Live, **settings: Any) -> None:
    service.make(**{"rankers": RANKERS, "mode": "choose", "k": 5, "window_minutes": 5, **settings})


def choose(service: Live, unit: str) -> Any:
    answer = service.ask("POST", "/v1/experiments/shoes/choose", {"unit": unit})
    assert answer.status_code == 200, answer.text
    return answer.json()


def search(service: Live, unit: str, query: str, chance: random.Random) -> Any:
    """One search: ask whom to run, run them, show the list, report clicks on good documents."""
    chosen = choose(service, unit)
    shown = service.show(unit, query, rankings={name: ranking(name) for name in chosen["rankers"]}).json()
    events = [
        click(shown, rank)
        for rank, document in enumerate(shown["documents"], 1)
        if shown["impression"] and chance.random() < (0.5 if document in GOOD else 0.05)
    ]
    if events:
        service.tell(*events)
    return chosen, shown


def send_epochs(service: Live, epochs: int, searches: int = 60, units: int = 25) -> None:
    chance = random.Random(4)
    for _ in range(epochs):
        for number in range(searches):
            search(service, f"user-{chance.randrange(units)}", f"query {number}", chance)
        service.clock.now += 60 * MINUTE


def plans(service: Live) -> list[EpochPlan]:
    answer = service.ask("GET", "/v1/experiments/shoes/plans").json()
    return [EpochPlan.of(plan) for plan in answer["plans"]]


def settings_of(service: Live) -> Experiment:
    settings: Experiment = service.store.experiment("shoes").settings
    return settings


def tally_of(path: Path, service: Live) -> Tally:
    pq.write_table(exported(service), path)
    return interleaf.tally_log(path)


def test_only_the_rankers_of_a_users_group_are_run_and_logged(service: Live) -> None:
    make(service)
    chance, groups = random.Random(1), Counter[tuple[str, ...]]()
    for number in range(60):
        chosen, shown = search(service, f"user-{number}", "trail", chance)
        again, _ = search(service, f"user-{number}", "shoes", chance)
        assert again == chosen
        assert shown["arm"] == ("interleaved" if len(chosen["rankers"]) == 2 else "alone")
        groups[tuple(chosen["rankers"])] += 1
    (plan,) = plans(service)
    assert set(groups) <= {group.rankers for group in plan.groups}
    for row in exported(service).to_pylist():
        assert row["epoch"] == plan.epoch == epoch_at(settings_of(service), START)
        assert tuple(row["rankers"]) in groups


def test_plans_follow_from_the_exported_log_bit_for_bit(service: Live, tmp_path: Path) -> None:
    make(service)
    send_epochs(service, 5)
    made = plans(service)
    assert len(made) == 5
    assert len({plan.groups for plan in made}) == 5
    assert [plan.known for plan in made] == [plan.epoch - 2 for plan in made]
    tally = tally_of(tmp_path / "log.parquet", service)
    for plan in made:
        assert plan_from_results(settings_of(service), 1, plan.epoch, tally.choice) == plan
    assert made[-1].results != made[0].results
    by_ranker = Counter[str]()
    for plan in made[3:]:
        by_ranker.update(shares_of(plan))
    assert by_ranker["r0"] > by_ranker["r5"]


@pytest.mark.parametrize("kind", KINDS)
def test_all_processes_read_the_plan_that_was_written_first(kind: str, tmp_path: Path) -> None:
    address = address_of(kind, tmp_path)
    stores = [open_store(address) for _ in range(3)]
    settings = Experiment.of({"name": "shoes", "rankers": RANKERS, "mode": "choose"})
    stores[0].create(settings, START, "test")
    stores[0].start("shoes", START, "test")
    epoch, time = epoch_at(settings, START), stores[0].read_time(START, 0)
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda store: store.make_epoch_plan(settings, 1, epoch, time), stores * 3))
    assert made == [plan_from_results(settings, 1, epoch, ChoiceSums())] * 9
    assert [store.epoch_plans("shoes", 1) for store in stores] == [made[:1]] * 3
    for store in stores:
        store.close()


def test_a_list_shortly_after_an_epoch_may_be_of_the_epoch_before(service: Live) -> None:
    make(service)
    epoch = epoch_at(settings_of(service), START) + 1
    start = epoch_start(settings_of(service), epoch)
    service.clock.now = start - 1
    unit, before = next(
        (unit, chosen)
        for unit, chosen in ((f"user-{number}", choose(service, f"user-{number}")) for number in range(50))
        if len(chosen["rankers"]) == 2
    )
    rankings = {name: ranking(name) for name in before["rankers"]}
    service.clock.now = start + MINUTE // 2
    shown = service.show(unit, "trail", rankings=rankings).json()
    assert shown["arm"] == "interleaved"
    after = choose(service, unit)
    assert after["epoch"] == epoch
    rows = exported(service).to_pylist()
    same = set(after["rankers"]) <= set(before["rankers"])
    assert [row["epoch"] for row in rows] == [epoch if same else epoch - 1]


def test_a_ranker_that_found_nothing_is_mixed_with_the_others(service: Live) -> None:
    make(service)
    for number in range(20):
        chosen = choose(service, f"user-{number}")
        first, *rest = chosen["rankers"]
        rankings: dict[str, list[str]] = {first: []} | {name: ranking(name) for name in rest}
        shown = service.show(f"user-{number}", "trail", rankings=rankings).json()
        assert shown["arm"] == ("interleaved" if rest else "alone")
        assert shown["documents"] == (ranking(rest[0])[:5] if rest else [])
    assert {row["arm"] for row in exported(service).to_pylist()} <= {"interleaved", "alone"}
    report = service.report().json()["reports"]["click"]
    assert sum(arm["impressions"] for arm in report["arms"]) == 20


def test_a_missing_ranking_shows_what_is_there_and_is_logged_as_a_fallback(service: Live) -> None:
    make(service)
    chosen = choose(service, "user-1")
    shown = service.show("user-1", "trail", rankings={"r0": ranking("r0")}).json()
    assert shown["documents"] == ranking("r0")[:5]
    assert shown["arm"] == ("fallback" if set(chosen["rankers"]) - {"r0"} else "alone")


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "unit"), ({"unit": "u", "rankings": {"nobody": ["d1"]}}, "rankings")],
)
def test_requests_that_cannot_be_are_refused(service: Live, body: dict[str, Any], field: str) -> None:
    make(service)
    whole = {"query": "trail", "rankings": {"r0": ["d1"]}} | body
    answer = service.ask("POST", "/v1/experiments/shoes/interleave", whole)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)


def test_other_experiments_run_all_rankers_and_drafts_none(service: Live) -> None:
    service.make(start=False)
    assert service.ask("POST", "/v1/experiments/shoes/choose", {"unit": "u"}).status_code == 409
    service.ask("POST", "/v1/experiments/shoes/start")
    assert choose(service, "u")["rankers"] == ["production", "candidate"]


def test_the_commands_on_the_page_name_no_ranker_that_may_not_be_in_the_group(service: Live) -> None:
    make(service)
    page = service.client.get("/experiments/shoes").text
    ask, show, _ = (shlex.split(unescape(one)) for one in re.findall("<code>(curl .*)</code>", page))
    assert ask[1].endswith("/v1/experiments/shoes/choose")
    assert show[1].endswith("/v1/experiments/shoes/interleave")
    body = json.loads(show[-1])
    assert list(body["rankings"]) == ["RANKER 1 FROM THE ANSWER", "RANKER 2 FROM THE ANSWER"]
    assert service.ask("POST", "/v1/experiments/shoes/interleave", body).status_code == 422
    chosen = choose(service, json.loads(ask[-1])["unit"])["rankers"]
    body["rankings"] = dict(zip(chosen, body["rankings"].values(), strict=False))
    assert service.ask("POST", "/v1/experiments/shoes/interleave", body).json()["arm"] in ("interleaved", "alone")


def test_the_page_names_the_rankers_of_each_list(service: Live) -> None:
    make(service)
    chance = random.Random(1)
    for number in range(30):
        search(service, f"user-{number}", "trail", chance)
    rows = service.store.examples("shoes", 1, 8)
    groups = {tuple(row["rankers"]) for row in rows}
    assert any("r0" not in group for group in groups)
    marks = teams(RANKERS)
    for row in rows:
        for place, shown in enumerate(example(row, marks)["documents"]):
            owner = row["teams"][place]
            expected = None if owner < 0 else row["rankers"][owner]
            assert (shown["team"] and shown["team"].name) == expected
            ranks = zip(row["rankers"], row["ranks"], strict=True)
            assert shown["ranks"] == ", ".join(f"{marks[one].letter} {own[place] or 'not'}" for one, own in ranks)


def test_the_page_has_a_row_for_each_metric(service: Live) -> None:
    make(service, events={"click": 1.0, "purchase": 5.0})
    send_epochs(service, 3)
    page = service.client.get("/experiments/shoes").text
    table = page[page.index('<section id="metrics">') :].partition("</section>")[0]
    reports = service.report().json()["reports"]
    assert list(reports) == ["click", "purchase", "weighted"]
    expected = [("click", reports["click"]["verdict"]["sentence"])]
    for metric in ("purchase", "weighted"):
        report = reports[metric]
        states = Counter(one["state"] for one in report["choice"]["rankers"][1:])
        shown = f"{states['worse']} are shown to be worse, and {states['no_gain']} to be no better by the margin."
        expected.append((metric, f"{report['choice']['leader']} leads: of the 5 other rankers, {shown}"))
    assert re.findall(r"<td>(.*)</td>\s*<td>(.*)</td>", table) == expected
    assert "Only click decides which rankers leave and how traffic is divided." in table


def test_what_the_service_notes_of_a_choice_has_the_leader(service: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    make(service, stop_when=["budget"], max_units=7)
    send_epochs(service, 2)
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(service.store, "note_changes", lambda *arguments: told.append(arguments[2]))
    look(service)
    choice = service.report().json()["reports"]["click"]["choice"]
    assert [(one["leader"], one["winner"]) for one in told] == [(choice["leader"], None)]


def test_who_is_held_out_or_outside_runs_the_control_only(service: Live) -> None:
    make(service, share=0.5, holdout=0.5)
    arms = Counter[str]()
    for number in range(60):
        chosen = choose(service, f"user-{number}")
        arms[chosen["arm"]] += 1
        if chosen["arm"] != "interleaved":
            assert chosen["rankers"] == ["r0"]
            shown = service.show(f"user-{number}", "trail", rankings={"r0": ranking("r0")}).json()
            assert (shown["documents"], shown["arm"]) == (ranking("r0")[:5], chosen["arm"])
    assert set(arms) == {"interleaved", "holdout", "outside"}


def test_the_client_runs_the_control_while_the_service_is_away(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.sqlite")
    with listening(create_app(store)) as address, Client(address, timeout=20) as client:
        client.call("POST", "/v1/experiments", {"name": "shoes", "rankers": RANKERS, "mode": "choose"})
        assert client.choose("shoes", unit="user-1", control="r2").rankers == ("r2",)  # it is a draft
        client.call("POST", "/v1/experiments/shoes/start")
        chosen = client.choose("shoes", unit="user-1", control="r2")
        assert chosen.epoch is not None
        answer = client.interleave("shoes", {name: ranking(name) for name in chosen.rankers}, unit="user-1", query="q")
        assert answer.stored
        assert client.choose("shoes", unit=None, control="r2").arm == "fallback"
    store.close()
    with Client("http://127.0.0.1:9", timeout=0.2) as away:
        assert away.choose("shoes", unit="user-1", control="r3").rankers == ("r3",)
        answer = away.interleave("shoes", {"r3": ranking("r3")}, unit="user-1", query="q", k=5)
        assert (answer.documents, answer.impression) == (ranking("r3")[:5], None)


def test_the_client_logs_once_a_minute_that_an_experiment_does_not_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "store.sqlite")
    with listening(create_app(store)) as address, Client(address, timeout=20) as client:

        def search(experiment: str) -> None:
            client.choose(experiment, unit="user-1", control="r2")
            client.interleave(experiment, {"r2": ranking("r2")}, unit="user-1", query="q")

        said = "(logged once a minute): the experiment is draft"
        for name in ("shoes", "hats"):
            client.call("POST", "/v1/experiments", {"name": name, "rankers": RANKERS, "mode": "choose"})
            for _ in range(20):
                search(name)
            assert caplog.text.count(f"experiment '{name}': the control is run {said}") == 1
        assert len([one for one in caplog.records if one.name == "interleaf.client"]) == 2
        monkeypatch.setattr(clients, "WARN_AGAIN", 0.0)
        search("shoes")
        assert caplog.text.count(f"experiment 'shoes': the control is run {said}") == 2
    store.close()


def make_searches() -> Any:
    """Forty features of judged queries as rankers; their strength falls from the first to the last."""
    data = synthetic(queries=40, documents=12, features=40, seed=3)
    names = [f"feature-{number:02d}" for number in range(1, 41)]
    rankings = rank(data, [scores_of(data, number) for number in range(1, 41)], "test")
    return data, {name: rankings[:, place] for place, name in enumerate(names)}


def test_forty_feature_rankers_through_the_service(service: Live, tmp_path: Path) -> None:
    data, rankings = make_searches()
    grades = {
        (query, f"d{document}"): int(grade)
        for query in range(len(data))
        for document, grade in enumerate(data.grades[data.rows(query)])
    }
    people, chance = find_cascade("navigational", scale_of(data.max_grade), judged=grades), random.Random(2)
    make(service, rankers=list(rankings), algorithm="double_thompson")
    runs = 0
    for epoch in range(8):
        for number in range(120):
            unit, query = f"user-{chance.randrange(150)}", chance.randrange(len(data))
            chosen = choose(service, unit)
            runs += len(chosen["rankers"])
            lists = {name: [f"d{document}" for document in rankings[name][query]] for name in chosen["rankers"]}
            shown = service.show(unit, f"query {query}", rankings=lists).json()
            clicks = people.sample([(query, document) for document in shown["documents"]], f"{epoch} {number}")
            if clicks:
                service.tell(*(click(shown, place) for place in clicks))
            service.clock.now += MINUTE // 4
        service.clock.now += 30 * MINUTE
    assert runs <= 2 * 8 * 120  # not 40 for each search
    made, current = plans(service), service.report().json()["reports"]["click"]
    choice = current["choice"]
    assert choice["epochs"] == len(made) == 8
    assert choice["leader"] in list(rankings)[:10]
    assert choice["regret_saved"] > 0
    names = list(rankings)  # the best first
    assert sum(share * names.index(name) for name, share in shares_of(made[-1]).items()) < 18  # 19.5 with equal shares
    tally = tally_of(tmp_path / "log.parquet", service)
    assert [plan_from_results(settings_of(service), 1, plan.epoch, tally.choice) for plan in made] == made
    again = interleaf.analyze(tally, control="feature-01").to_dict()["choice"]
    assert again["shares"] == choice["shares"]
    page = service.client.get("/experiments/shoes").text
    assert "The choice" in page
    assert choice["leader"] in page
    assert "Scorecard" not in page
