"""Changes of running experiments are noted, stop rules act, and webhooks are delivered, by the real service."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from interleaf.experiment import Experiment
from interleaf.report.choice_result import ChoiceResult
from interleaf.report.guardrails import add_broken
from interleaf.report.model import FAILED, Check, Guardrail, ReportData, Totals, Verdict, VerdictCode
from interleaf.server import automation, webhooks
from interleaf.server.automation import Automation, find_changes, find_stop_reason
from interleaf.server.webhooks import WebhookSettings
from interleaf.store import open_store
from interleaf.store.experiments import Watched
from interleaf.store.history import LEASE
from interleaf.store.records import Recorded
from tests.server.test_serve import ask, serving
from tests.support.dashboards import Visitor, traffic
from tests.support.receivers import SECRET, Receiver, answered, receiving
from tests.support.services import MINUTE, START, Live, live
from tests.support.stand_in import until
from tests.support.stores import address_of

HOUR = 60 * MINUTE
URL = "https://interleaf.example"


@contextmanager
def automated(folder: Path, receiver: Receiver | None = None, **more: Any) -> Iterator[Live]:
    """A service with a receiver, whose background tasks run when the test says so."""
    urls = () if receiver is None else (receiver.url,)
    settings = WebhookSettings(urls, (SECRET,), allow_private=True, public_url=f"{URL}/")
    with live(folder, webhooks=settings, watch_seconds=600.0, **more) as service:
        yield service


def automation_of(service: Live) -> Automation:
    found: Automation = service.client.app.state.automation  # type: ignore[attr-defined]
    return found


def look(service: Live, minutes: float = 11) -> None:
    """Look at running experiments, after so many minutes."""
    service.clock.now += round(minutes * MINUTE)
    service.client.app.state.service.reports._cache.clear()  # type: ignore[attr-defined]  # it goes by another clock
    run(service, automation_of(service).look)


def send(service: Live, seconds: float = 0) -> None:
    """Send what is due after so many seconds."""
    service.clock.now += round(seconds * 1e6)
    run(service, automation_of(service).send)


def run(service: Live, work: Any) -> None:
    assert service.client.portal is not None
    service.client.portal.call(work)


def history(service: Live, *kinds: str) -> list[Recorded]:
    """The entries of these kinds, or all that no person wrote."""
    entries = service.store.experiment("shoes").history
    own = ("verdict", "health", "guardrail", "webhook", automation.HELD_BACK, "stopped")
    return [one for one in entries if one.what in (kinds or own)]


def break_health(service: Live, units: int = 60) -> None:
    """Events that match no list, so many that a health check fails."""
    events = [{"impression": f"lost-{number}", "rank": 1, "event": f"lost-{number}"} for number in range(units * 3)]
    assert service.tell(*events).status_code == 202


# Changes.


def test_a_new_verdict_is_noted_once_and_told_with_a_signature(tmp_path: Path) -> None:
    with receiving() as receiver, automated(tmp_path, receiver) as service:
        service.make()
        look(service)
        assert history(service) == []
        traffic(service, 150)
        look(service)
        verdict = service.report().json()["reports"]["click"]["verdict"]
        assert verdict["code"] == "preferred"
        look(service)
        look(service, 100)
        (noted,) = history(service)
        assert (noted.what, noted.who, noted.version) == ("verdict", "service", 1)
        assert noted.note == f"from undecided to preferred: {verdict['sentence']}"
        send(service)
        send(service)
        (one,) = receiver.received
        assert one.is_signed()
        assert one.headers["webhook-timestamp"] == str(service.clock.now // 10**6)
        assert one.event == {
            "type": "verdict",
            "timestamp": "2027-01-15T08:22:00+00:00",
            "data": {
                "experiment": "shoes",
                "version": 1,
                "verdict": "preferred",
                "codes": ["preferred", "no_worse"],
                "winner": "candidate",
                "leader": None,
                "previous": "undecided",
                "sentence": verdict["sentence"],
                "failed": [],
                "broken_guardrails": [],
                "reason": noted.note,
                "page": f"{URL}/experiments/shoes?version=1",
            },
        }
        host = receiver.url.split("/")[2]
        assert history(service)[1:] == [
            Recorded(service.clock.now, 1, "webhook", "service", f"verdict webhook to {host}: delivered after 1 try")
        ]
        service.client.app.state.service.experiments.clear()  # type: ignore[attr-defined]
        page = Visitor(service).open("/experiments/shoes").text
        assert f"verdict webhook to {host}: delivered after 1 try" in page
        assert "from undecided to preferred" in page
        whats = [entry["what"] for entry in service.ask("GET", "/v1/experiments/shoes").json()["history"]]
        assert whats == ["created", "started", "verdict", "webhook"]


def test_a_failed_health_check_is_told_and_then_that_it_is_over(tmp_path: Path) -> None:
    with receiving() as receiver, automated(tmp_path, receiver) as service:
        service.make()
        traffic(service, 60)
        break_health(service)
        look(service)
        health = service.report().json()["reports"]["click"]["health"]
        failed = {check["code"]: check["name"] for check in health if check["status"] == "failed"}
        assert failed
        assert history(service, "health")[0].note == f"failed: {', '.join(failed.values())}"
        with service.store._database.writing() as transaction:  # as if the events had never come
            transaction.change("DELETE FROM apart")
        look(service)
        assert len(history(service, "health")) == 1  # the hour is not over
        look(service, 61)
        assert [one.note for one in history(service, "health")][1:] == ["no health check fails any more"]
        send(service)
        told = sorted((one.event for one in receiver.received), key=lambda event: str(event["timestamp"]))
        assert [one["data"]["failed"] for one in told if one["type"] == "health"] == [sorted(failed), []]
        first = told[0]["timestamp"]
        assert [one["data"]["verdict"] for one in told if one["timestamp"] == first] == ["broken", "broken"]
        assert len(set(receiver.ids)) == len(told)


def made_report(
    code: str,
    failed: tuple[str, ...] = (),
    units: int = 0,
    codes: tuple[str, ...] = (),
    winner: str | None = None,
) -> ReportData:
    """A report with this verdict and these failed checks; if it says so, a guardrail is broken."""
    checks = tuple(Check(f"name of {one}", FAILED, "", code=one) for one in failed)
    kept = tuple(one for one in codes or (code,) if one != VerdictCode.GUARDRAIL.value)
    verdict = Verdict("S.", winner, code != VerdictCode.BROKEN.value, failed, (kept or ("undecided",))[0], "", kept)
    guardrails: tuple[Guardrail, ...] = ()
    if VerdictCode.GUARDRAIL.value in (codes or (code,)):
        slow = Guardrail("latency", 20.0, "broken", "interleaved", "holdout", harm=40.0, interval=(30.0, 50.0))
        guardrails = (slow,)
        verdict = add_broken(verdict, guardrails, None)
    parts: dict[str, Any] = dict.fromkeys(ReportData.__dataclass_fields__, "")
    totals = Totals(0, 0, units, True, None, None)
    parts |= {"verdict": verdict, "health": checks, "totals": totals, "choice": None, "guardrails": guardrails}
    return ReportData(**parts)


def test_a_decision_is_noted_and_told_while_a_guardrail_is_broken(tmp_path: Path) -> None:
    with automated(tmp_path) as service:
        service.make()
        notes = []
        for hour, (codes, winner) in enumerate(
            [
                (("guardrail",), None),
                (("guardrail", "preferred", "no_worse"), None),
                (("guardrail", "preferred", "no_worse"), "candidate"),
                (("guardrail", "preferred", "no_worse"), "candidate"),
                (("guardrail",), None),
            ]
        ):
            now = START + hour * HOUR
            (watched,) = service.store.claim_looks(now, 1, 5)
            report = made_report("guardrail", codes=codes, winner=winner)
            changes = [one for one in find_changes(watched, report, now) if one.kind == "verdict"]
            notes += [one.note.removesuffix(": A guardrail is broken (latency). S.") for one in changes]
            service.store.note_changes(watched, changes, {}, now)
        assert notes == [
            "from undecided to guardrail",
            "from guardrail to guardrail, preferred, no_worse",
            "guardrail, from no winner to candidate",
            "from guardrail, preferred, no_worse to guardrail",
        ]


def test_a_verdict_that_changes_back_and_forth_is_noted_at_most_once_an_hour(tmp_path: Path) -> None:
    with automated(tmp_path) as service:
        service.make()
        noted = []
        for minute in range(0, 300, 10):
            now = START + minute * MINUTE
            (watched,) = service.store.claim_looks(now, 1, 5) or [None]
            assert watched is not None
            code = ("preferred", "undecided")[minute // 10 % 2]
            changes = list(find_changes(watched, made_report(code), now))
            if changes:
                noted.append((minute, code))
                assert service.store.note_changes(watched, changes, {}, now) == service.store.experiment("shoes")
        # Each time at the first look after the hour whose verdict is not the last one noted.
        assert noted == [
            (0, "preferred"),
            (70, "undecided"),
            (140, "preferred"),
            (210, "undecided"),
            (280, "preferred"),
        ]


def test_a_new_version_begins_without_a_verdict(tmp_path: Path) -> None:
    with automated(tmp_path) as service:
        service.make()
        traffic(service, 150)
        look(service)
        edited = service.ask(
            "PUT", "/v1/experiments/shoes", {**service.store.experiment("shoes").settings.to_dict(), "k": 4}
        )
        assert edited.json()["version"] == 2
        traffic(service, 150)
        look(service, 61)
        notes = [(one.version, one.note.split(":")[0]) for one in history(service, "verdict")]
        assert notes == [(1, "from undecided to preferred"), (2, "from undecided to preferred")]


# Stop rules.


@pytest.mark.parametrize(
    ("code", "codes", "rules", "stops"),
    [
        ("preferred", (), ("decided",), "rule decided: S."),
        ("worse", (), ("decided",), "rule decided: S."),
        ("preferred", (), ("alike", "broken"), ""),
        ("alike", (), ("alike",), "rule alike: S."),
        ("alike", (), ("decided",), ""),
        ("alike", ("alike", "preferred"), ("decided",), "rule decided: S."),
        ("no_worse", (), ("decided", "alike", "broken"), ""),
        ("undecided", (), ("decided", "alike", "broken"), ""),
        ("disagree", (), ("decided", "alike", "broken"), ""),
        ("broken", ("broken", "preferred", "alike"), ("decided", "alike"), ""),
        ("broken", ("broken", "preferred"), ("broken",), "rule broken: these health checks failed: name of a"),
        ("guardrail", ("guardrail", "preferred"), ("decided",), "rule decided: S."),
        ("guardrail", ("guardrail", "alike"), ("alike",), "rule alike: S."),
        ("guardrail", ("guardrail",), ("decided", "alike", "broken"), ""),
    ],
)
def test_which_verdicts_stop_an_experiment(
    code: str, codes: tuple[str, ...], rules: tuple[str, ...], stops: str
) -> None:
    settings = Experiment.of({"name": "x", "rankers": ["a", "b"], "stop_when": rules})
    failed = ("a",) if code == "broken" else ()
    assert find_stop_reason(settings, made_report(code, failed, codes=codes)) == stops


@pytest.mark.parametrize(
    ("code", "decided", "stops"),
    [("undecided", False, ""), ("no_best", False, ""), ("no_worse", True, "rule decided: S.")],
)
def test_a_choice_is_stopped_when_it_is_decided_and_not_when_the_leader_beats_the_control(
    code: str, decided: bool, stops: str
) -> None:
    settings = Experiment.of({"name": "x", "rankers": ["a", "b", "c"], "mode": "choose", "stop_when": ["decided"]})
    made = made_report(code, codes=(code, "preferred", "no_worse"))
    assert find_stop_reason(settings, replace(made, choice=ChoiceResult("a", decided, 3, 0, ()))) == stops


@pytest.mark.parametrize(("units", "stops"), [(99, ""), (100, "rule budget: 100 units took part")])
def test_the_budget_is_the_number_of_units_that_took_part(units: int, stops: str) -> None:
    settings = Experiment.of({"name": "x", "rankers": ["a", "b"], "stop_when": ["budget", "decided"], "max_units": 100})
    assert find_stop_reason(settings, made_report("undecided", units=units)) == stops


def test_nothing_stops_by_default(tmp_path: Path) -> None:
    with automated(tmp_path) as service:
        service.make()
        traffic(service, 150)
        look(service)
        assert service.store.experiment("shoes").state == "running"


def test_a_decided_experiment_is_stopped_with_its_reason(tmp_path: Path) -> None:
    with receiving() as receiver, automated(tmp_path, receiver) as service:
        service.make(stop_when=["decided", "budget"], max_units=100_000)
        traffic(service, 20)
        look(service)
        assert service.store.experiment("shoes").state == "running"
        traffic(service, 150)
        look(service)
        sentence = service.report().json()["reports"]["click"]["verdict"]["sentence"]
        stored = service.store.experiment("shoes")
        assert (stored.state, stored.stopped) == ("stopped", service.clock.now)
        stopped = history(service, "stopped")
        assert [(one.who, one.note) for one in stopped] == [("automatic rule", f"rule decided: {sentence}")]
        assert service.show().status_code == 409
        look(service, 100)
        assert len(history(service, "stopped")) == 1
        send(service)
        assert sorted(receiver.kinds) == ["stop", "verdict"]
        data = next(one.event["data"] for one in receiver.received if one.event["type"] == "stop")
        assert (data["verdict"], data["by"], data["reason"]) == (
            "preferred",
            "automatic rule",
            f"rule decided: {sentence}",
        )


def test_the_budget_stops_an_experiment_without_a_verdict(tmp_path: Path) -> None:
    with automated(tmp_path) as service:
        service.make(stop_when=["budget"], max_units=10)
        for unit in range(9):
            service.show(unit=f"user-{unit}")
        look(service)
        assert service.store.experiment("shoes").state == "running"
        service.show(unit="user-9")
        look(service)
        assert [one.note for one in history(service, "stopped")] == ["rule budget: 10 units took part"]


def test_a_broken_experiment_is_stopped(tmp_path: Path) -> None:
    with automated(tmp_path) as service:
        service.make(stop_when=["broken"])
        traffic(service, 60)
        look(service)
        assert service.store.experiment("shoes").state == "running"
        break_health(service)
        look(service)
        (stopped,) = history(service, "stopped")
        assert stopped.note.startswith("rule broken: these health checks failed: ")
        assert stopped.note.endswith(history(service, "health")[0].note.removeprefix("failed: "))


def test_nothing_is_stopped_while_the_clock_is_in_doubt(tmp_path: Path) -> None:
    with automated(tmp_path) as service:
        service.make(stop_when=["budget"], max_units=5)
        for unit in range(5):
            service.show(unit=f"user-{unit}")
        service.client.app.state.service.read_time()  # type: ignore[attr-defined]
        service.clock.jump(50 * HOUR)
        look(service)
        look(service)
        assert service.store.experiment("shoes").state == "running"
        (held,) = history(service)
        assert held.what == "automatic stop postponed"
        assert held.note.startswith(
            "rule budget: 5 units took part; but the system clock is not trusted, so it continues: the clock jumped"
        )
        assert held.note.endswith("if it is right, run interleaf store trust-clock")
        service.store.trust_clock(service.clock())
        look(service)
        assert service.store.experiment("shoes").state == "stopped"


def test_rules_are_edited_while_it_runs_without_a_new_version(tmp_path: Path) -> None:
    with automated(tmp_path) as service:
        service.make()
        service.show()
        settings = service.store.experiment("shoes").settings.to_dict()
        edited = service.ask("PUT", "/v1/experiments/shoes", settings | {"stop_when": ["budget"], "max_units": 1})
        assert (edited.json()["version"], edited.json()["history"][-1]["note"]) == (1, "stop_when, max_units")
        look(service)
        assert service.store.experiment("shoes").state == "stopped"


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        (
            {"stop_when": ["budget"]},
            "max_units: the rule 'budget' of stop_when and max_units need each other; give both",
        ),
        ({"max_units": 5}, "max_units is 5: the rule 'budget' of stop_when and max_units need each other"),
        ({"stop_when": ["budget"], "max_units": 0}, "max_units is 0: give a whole number from 1 to 1"),
        (
            {"stop_when": ["tired"]},
            "stop_when is ['tired']: give 'decided', 'alike', 'broken', 'guardrail' or 'budget'",
        ),
        ({"stop_when": ["alike", "alike"]}, "stop_when is ['alike', 'alike']: give each of them once"),
        ({"stop_when": "alike"}, "stop_when is 'alike': give a list of 0 to 5"),
    ],
)
def test_wrong_rules_are_refused_with_the_remedy(tmp_path: Path, settings: dict[str, Any], remedy: str) -> None:
    with live(tmp_path) as service:
        answer = service.ask("POST", "/v1/experiments", {"name": "x", "rankers": ["a", "b"], **settings})
        assert answer.status_code == 422
        assert answer.json()["error"]["message"].startswith(remedy)


def test_the_form_has_the_rules(tmp_path: Path) -> None:
    with live(tmp_path) as service:
        visitor = Visitor(service)
        fields = {"name": "x", "rankers": "a, b", "stop_when": "decided\nbudget", "max_units": "100"}
        visitor.send("/experiments/new", "/experiments/new", **fields)
        settings = service.store.experiment("x").settings
        assert (settings.stop_when, settings.max_units) == (("decided", "budget"), 100)
        page = visitor.send("/experiments/new", "/experiments/new", **fields | {"name": "y", "stop_when": "tired"}).text
        assert (
            "Give &#39;decided&#39;, &#39;alike&#39;, &#39;broken&#39;, &#39;guardrail&#39; or &#39;budget&#39;."
            in page
        )
        schema = service.ask("GET", "/openapi.json").text
        assert '"enum":["decided","alike","broken","guardrail","budget"]' in schema


def test_a_stop_by_a_person_is_told_too_and_archiving_stops(tmp_path: Path) -> None:
    with receiving() as receiver, automated(tmp_path, receiver) as service:
        for name, action in (("shoes", "stop"), ("boots", "archive")):
            service.make(name=name)
            assert service.ask("POST", f"/v1/experiments/{name}/{action}").status_code == 200
        send(service)
        told = {one.event["data"]["experiment"]: one.event["data"] for one in receiver.received}
        assert receiver.kinds == ["stop", "stop"]
        assert told.keys() == {"shoes", "boots"}
        assert (told["shoes"]["by"], told["shoes"]["verdict"]) == ("someone on this machine", None)


# Delivery.


def test_a_webhook_is_tried_ten_times_in_a_day_with_one_id(tmp_path: Path) -> None:
    with receiving() as receiver, automated(tmp_path, receiver) as service:
        receiver.answer = answered(500)
        service.make()
        service.ask("POST", "/v1/experiments/shoes/stop")
        begin, tries = service.clock.now, []
        while service.clock.now < begin + 48 * HOUR:
            before = len(receiver.received)
            send(service, 10 if service.clock.now < begin + HOUR else 60)
            if len(receiver.received) > before:
                tries.append((service.clock.now - begin) / 1e6)
        assert len(tries) == 10
        assert 60_000 < tries[-1] < 100_000
        pauses = [later - earlier for earlier, later in pairwise(tries)]
        for pause, expected in zip(pauses, [30, 90, 270, 810, 2430, 7290, 21600, 21600, 21600], strict=True):
            assert 0.8 * expected <= pause <= 1.2 * expected + (10 if expected < 2430 else 60)
        assert len(set(receiver.ids)) == 1
        assert len({one.body for one in receiver.received}) == 1
        assert all(one.is_signed() for one in receiver.received)
        host = receiver.url.split("/")[2]
        assert [one.note for one in history(service, "webhook")] == [
            f"stop webhook to {host}: not delivered yet: the answer was 500; up to 9 further tries",
            f"stop webhook to {host}: failed after 10 tries: the answer was 500",
        ]


def test_a_receiver_that_comes_back_gets_the_webhook(tmp_path: Path) -> None:
    with receiving() as receiver, automated(tmp_path, receiver) as service:
        receiver.answer = answered(503)
        service.make()
        service.ask("POST", "/v1/experiments/shoes/stop")
        send(service)
        receiver.answer = answered(200)
        send(service)
        assert len(receiver.received) == 1  # it is not due yet
        send(service, 60)
        assert len(set(receiver.ids)) == 1
        assert [one.note.split(": ", 1)[1] for one in history(service, "webhook")][1:] == ["delivered after 2 tries"]


def test_a_receiver_that_hangs_does_not_delay_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MAX_SECONDS", 2.0)
    with receiving() as slow, receiving() as receiver:
        slow.answer = lambda _: slow.ended.wait(20)
        settings = WebhookSettings((slow.url, receiver.url), (SECRET,), allow_private=True)
        with live(tmp_path, webhooks=settings) as service:
            service.make()
            service.ask("POST", "/v1/experiments/shoes/stop")
            sending = threading.Thread(target=send, args=(service,))
            sending.start()
            begin = time.monotonic()
            until(lambda: bool(receiver.received), 1.5)
            assert time.monotonic() - begin < 1.9
            assert service.report().status_code == 200  # the service answers meanwhile
            sending.join()
            assert slow.ids == receiver.ids
            reasons = sorted(one.note.split(": ", 1)[1].partition(":")[0] for one in history(service, "webhook"))
            assert reasons == ["delivered after 1 try", "not delivered yet"]


def test_a_private_address_is_refused_and_the_history_says_how_to_allow_it(tmp_path: Path) -> None:
    with receiving() as receiver:
        url = receiver.url.replace("127.0.0.1", "127.1")  # not known to be private before it is looked up
        with live(tmp_path, webhooks=WebhookSettings((url,), (SECRET,))) as service:
            service.make()
            service.ask("POST", "/v1/experiments/shoes/stop")
            send(service)
            (noted,) = history(service, "webhook")
            assert "127.1 is not public (127.0.0.1); the operator can allow that with --webhook-allow-pr" in noted.note
            assert receiver.received == []


def test_a_webhook_of_a_worker_that_died_is_sent_after_the_lease(tmp_path: Path) -> None:
    with receiving() as receiver, automated(tmp_path, receiver) as service:
        service.make()
        service.ask("POST", "/v1/experiments/shoes/stop")
        (claimed,) = service.store.claim_webhooks(service.clock(), 4)  # by a worker that is killed now
        send(service, LEASE / 1e6 - 1)
        assert receiver.received == []
        send(service, 2)
        assert receiver.ids == [claimed.id]
        service.store.settle_webhook(claimed, service.clock(), None, "too late")
        assert [one.note.split(": ", 1)[1] for one in history(service, "webhook")] == ["delivered after 2 tries"]


def test_a_webhook_whose_every_try_ends_the_service_is_given_up(tmp_path: Path) -> None:
    with receiving() as receiver, automated(tmp_path, receiver) as service:
        service.make()
        service.ask("POST", "/v1/experiments/shoes/stop")
        for _ in range(automation.MAX_TRIES):
            assert service.store.claim_webhooks(service.clock(), 4)
            service.clock.now += LEASE
        send(service)
        assert receiver.received == []
        (noted,) = history(service, "webhook")
        assert noted.note.endswith("failed after 10 tries: the service ended during the last try")


def test_a_service_that_is_killed_before_delivery_delivers_after_its_start(tmp_path: Path) -> None:
    secret = tmp_path / "webhook.secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    with receiving() as receiver:
        receiver.answer = answered(500)
        options = ("--webhook-url", receiver.url, "--webhook-secret-file", str(secret), "--webhook-allow-private")
        with serving(tmp_path, *options) as (process, address):
            assert ask(address, "POST", "/v1/experiments", {"name": "shoes", "rankers": ["a", "b"]})[0] == 201
            assert ask(address, "POST", "/v1/experiments/shoes/start", {})[0] == 200
            assert ask(address, "POST", "/v1/experiments/shoes/stop", {})[0] == 200
            process.send_signal(signal.SIGKILL)
        before = list(receiver.ids)
        receiver.answer = answered(204)
        store = open_store(tmp_path / "interleaf.sqlite")
        clock = int(time.time() * 1e6) + HOUR
        (claimed,) = store.claim_webhooks(clock, 5)
        store.settle_webhook(claimed, clock, 0, "")
        store.close()
        with serving(tmp_path, *options):
            until(lambda: len(receiver.ids) > len(before), 60)
        assert set(receiver.ids) == {claimed.id}
        event = receiver.received[-1].event
        assert (event["type"], event["data"]["experiment"]) == ("stop", "shoes")
        assert event["data"]["page"].startswith("http://127.0.0.1:")


def test_workers_that_share_a_store_deliver_each_event_once(tmp_path: Path) -> None:
    secret = tmp_path / "webhook.secret"
    secret.write_text(f"{SECRET}\n")
    names = {f"shop-{number}" for number in range(12)}
    with receiving() as receiver:
        place = ("--store", address_of("postgres", tmp_path), "--workers", "3")
        options = ("--webhook-url", receiver.url, "--webhook-secret-file", str(secret), "--webhook-allow-private")
        with serving(tmp_path, *place, *options) as (_, address):
            for name in names:
                assert ask(address, "POST", "/v1/experiments", {"name": name, "rankers": ["a", "b"]})[0] == 201
                assert ask(address, "POST", f"/v1/experiments/{name}/archive", {})[0] == 200
            assert receiver.ids == []  # drafts were not stopped
            for name in names:
                assert ask(address, "POST", f"/v1/experiments/{name}/unarchive", {})[0] == 200
                assert ask(address, "POST", f"/v1/experiments/{name}/start", {})[0] == 200
                assert ask(address, "POST", f"/v1/experiments/{name}/stop", {})[0] == 200

            def is_done() -> bool:
                experiments = ask(address, "GET", "/v1/experiments")[1]["experiments"]
                return all(one["history"][-1]["what"] == "webhook" for one in experiments)

            until(is_done, 120)
    assert len(receiver.ids) == len(set(receiver.ids)) == len(names)
    assert {one.event["data"]["experiment"] for one in receiver.received} == names
    assert all(one.is_signed() for one in receiver.received)


def test_the_background_tasks_run_by_themselves(tmp_path: Path) -> None:
    with receiving() as receiver:
        settings = WebhookSettings((receiver.url,), (SECRET,), allow_private=True)
        with live(tmp_path, webhooks=settings, watch_seconds=0.2, send_seconds=0.2) as service:
            service.make(stop_when=["decided"])
            traffic(service, 150)

            def is_told() -> bool:
                service.clock.now += MINUTE
                return "stop" in receiver.kinds

            until(is_told, 120)
            assert service.store.experiment("shoes").state == "stopped"


def test_a_report_that_fails_does_not_keep_others_from_being_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with automated(tmp_path) as service:
        for name in ("boots", "shoes"):
            service.make(name=name, stop_when=["budget"], max_units=1)
            body = {"unit": "u", "rankings": {"production": ["a"], "candidate": ["b"]}}
            service.ask("POST", f"/v1/experiments/{name}/interleave", body)
        shared = service.client.app.state.service  # type: ignore[attr-defined]
        whole = shared.current_reports

        async def current(name: str, version: int) -> Any:
            if name == "boots":
                raise RuntimeError("no report")
            return await whole(name, version)

        monkeypatch.setattr(shared, "current_reports", current)
        look(service)
        assert [service.store.experiment(name).state for name in ("boots", "shoes")] == ["running", "stopped"]


def test_of_two_workers_that_see_the_same_one_notes_it(tmp_path: Path) -> None:
    with automated(tmp_path) as service:
        service.make()
        (watched,) = service.store.claim_looks(START, 1, 5)
        assert isinstance(watched, Watched)
        changes = list(find_changes(watched, made_report("preferred"), START))
        assert service.store.note_changes(watched, changes, {}, START, "a rule") is not None
        assert service.store.note_changes(watched, changes, {}, START, "a rule") is None
        assert [one.what for one in history(service)] == ["verdict", "stopped"]


# Guardrails.


SLOW = {"production": 50.0, "candidate": 140.0}  # milliseconds; mixed lists wait for both


def test_a_broken_guardrail_is_noted_told_and_stops_the_experiment(tmp_path: Path) -> None:
    with receiving() as receiver, automated(tmp_path, receiver) as service:
        service.make(holdout=0.3, guardrails={"latency": 20, "event:purchase": 0.9}, stop_when=["guardrail"])
        traffic(service, 150, latency=SLOW)
        report = service.report().json()["reports"]["click"]
        assert [(one["metric"], one["code"]) for one in report["guardrails"]] == [
            ("latency", "broken"),
            ("event:purchase", "ok"),
        ]
        look(service)
        (sentence,) = report["verdict"]["broken_guardrails"]
        notes = {one.what: one.note for one in history(service)}
        assert notes["guardrail"] == sentence
        assert notes["stopped"] == f"rule guardrail: {sentence}"
        assert notes["verdict"].startswith(
            "from undecided to guardrail: A guardrail is broken (latency). People prefer"
        )
        send(service)
        told = {one.event["type"]: one.event["data"] for one in receiver.received}
        assert set(told) == {"verdict", "guardrail", "stop"}
        assert all(one["broken_guardrails"] == ["latency of interleaved"] for one in told.values())
        assert all(one["codes"] == ["guardrail", "preferred", "no_worse"] for one in told.values())
        assert all(one["winner"] == "candidate" for one in told.values())
        page = Visitor(service).open("/experiments/shoes").text
        assert 'class="verdict harmful"' in page
        assert "✗ broken" in page
        assert "--guardrails latency=20.0 event:purchase=0.9" in page
        assert (
            ",latency,20.0,broken,interleaved,holdout,"
            in Visitor(service).open("/experiments/shoes/tables/guardrails.csv").text
        )
        assert "harmful" in Visitor(service).open("/").text


def test_a_guardrail_alone_stops_nothing(tmp_path: Path) -> None:
    with automated(tmp_path) as service:
        service.make(holdout=0.3, guardrails={"latency": 20})
        traffic(service, 150, latency=SLOW)
        look(service)
        assert [one.what for one in history(service, "guardrail")] == ["guardrail"]
        assert service.store.experiment("shoes").state == "running"


def test_the_form_has_guardrails(tmp_path: Path) -> None:
    with live(tmp_path) as service:
        visitor = Visitor(service)
        fields = {"name": "x", "rankers": "a, b", "holdout": "0.1", "guardrails": "latency=20, event:purchase=0.01"}
        visitor.send("/experiments/new", "/experiments/new", **fields)
        assert service.store.experiment("x").settings.guardrails == {"latency": 20.0, "event:purchase": 0.01}
        assert "latency=20, event:purchase=0.01" in visitor.open("/experiments/x/edit").text
        page = visitor.send(
            "/experiments/new", "/experiments/new", **fields | {"name": "y", "guardrails": "latency"}
        ).text
        assert "The margin of &#39;latency&#39; is &#39;&#39;; give the largest harm" in page
        page = visitor.send(
            "/experiments/new", "/experiments/new", **fields | {"name": "y", "guardrails": "latency=20, latency=30"}
        ).text
        assert "The margin of &#39;latency&#39; is &#39;20, 30&#39;; give the largest harm" in page
        assert '"exclusiveMinimum":0' in service.ask("GET", "/openapi.json").text
