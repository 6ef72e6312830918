"""The pages of the dashboard over a real store: the list, an experiment with its numbers, its forms."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interleaf import plots
from interleaf.cli import main
from interleaf.errors import InterleafError
from interleaf.experiment import Experiment
from interleaf.experiment.settings import SETTINGS
from interleaf.report.model import Check, Comparison
from interleaf.server.dashboard import form_pages
from interleaf.server.dashboard.downloads import analysis
from interleaf.server.dashboard.result_summary import WIDTH, scorecard, trials
from interleaf.server.reports import CurrentReports, Reports
from interleaf.store.records import VersionCounts
from tests.support.dashboards import Elements, Visitor, traffic
from tests.support.report_examples import EXAMPLES
from tests.support.services import Live, live

BOTH = {"click": 1.0, "purchase": 5.0}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as found:
        yield found


@pytest.fixture
def visitor(service: Live) -> Visitor:
    return Visitor(service)


def test_an_empty_list_says_how_to_begin(visitor: Visitor) -> None:
    page = visitor.open("/").text
    assert "There is no experiment yet" in page
    assert "curl http://127.0.0.1/v1/experiments" in page
    assert "Authorization" not in page  # without keys, none is asked for


def test_an_unexpected_error_of_a_page_is_logged_once_with_its_route(
    service: Live, visitor: Visitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(service.store, "experiments", fail)
    page = visitor.open("/")
    assert page.status_code == 500
    assert "secret detail" not in page.text
    (record,) = [record for record in caplog.records if record.exc_info and record.name == "interleaf.server"]
    assert vars(record)["route"] == "/"


def test_an_experiment_goes_from_form_to_decision(visitor: Visitor) -> None:
    made = visitor.send("/experiments/new", "/experiments/new", name="shoes", rankers="production\r\ncandidate", k="3")
    assert (made.status_code, made.url.path) == (200, "/experiments/shoes")
    assert "This is a draft" in made.text
    assert "/start" in made.text
    assert "/stop" not in made.text
    started = visitor.send("/experiments/shoes", "/experiments/shoes/start")
    assert "No impressions yet" in started.text
    assert "v1/experiments/shoes/interleave" in started.text
    assert "It is over" not in started.text
    assert "<details" in started.text[: started.text.index("Stop it permanently")]  # in two steps, without a script
    stopped = visitor.send("/experiments/shoes", "/experiments/shoes/stop")
    assert "It is over: only its notes can be edited." in stopped.text
    assert "What was decided" in stopped.text
    decided = visitor.send("/experiments/shoes", "/experiments/shoes/decide", decision="keep production\nfor now")
    assert "keep production for now" in decided.text
    assert all(f"/experiments/shoes/{what}" not in decided.text for what in ("start", "stop", "decide"))
    assert "Edit the notes" in decided.text
    assert [one.what for one in visitor.service.store.experiment("shoes").history] == [
        "created", "started", "stopped", "decided"
    ]  # fmt: skip
    assert "shoes" in visitor.open("/").text


def test_what_is_wrong_comes_back_at_its_field_with_what_was_typed(visitor: Visitor) -> None:
    typed = {"name": "a b", "rankers": "one\ntwo", "events": "click=1", "share": "0.5", "k": "ten"}
    answer = visitor.send("/experiments/new", "/experiments/new", **typed)
    assert answer.status_code == 422
    inputs = {field["name"]: field for field in Elements(answer.text).of("input")}
    assert (inputs["name"]["value"], inputs["name"]["aria-invalid"]) == ("a b", "true")
    assert (inputs["k"]["value"], inputs["share"]["value"]) == ("ten", "0.5")
    assert 'id="name-error"' in answer.text
    assert 'id="k-error">Give a whole number from 1 to 200.</p>' in answer.text  # all that is wrong at once
    typed |= {"name": "ab", "k": "10", "events": "click=x"}
    answer = visitor.send("/experiments/new", "/experiments/new", **typed)
    assert 'id="events-error"' in answer.text
    typed |= {"events": "click=1", "control": "three", "by": "device, country"}
    answer = visitor.send("/experiments/new", "/experiments/new", **typed)
    assert "Give one of the rankers" in Elements(answer.text).text
    assert visitor.send("/experiments/new", "/experiments/new", **typed | {"control": "two"}).status_code == 200
    assert visitor.service.store.experiment("ab").settings.by == ("device", "country")


def test_the_form_of_a_choice_says_what_its_own_settings_need(visitor: Visitor) -> None:
    form = visitor.open("/experiments/new").text
    assert form.index('id="rankers"') < form.index('id="mode"') < form.index("</details>")  # in the group that is open
    typed = {"name": "best", "rankers": "a, b, c", "epoch_minutes": "1440", "mode": "compare"}
    refused = visitor.send("/experiments/new", "/experiments/new", **typed)
    assert refused.status_code == 422
    assert 'id="epoch_minutes-error">This is for the purpose (mode) &#39;choose&#39;' in refused.text
    assert visitor.send("/experiments/new", "/experiments/new", **typed | {"mode": "choose"}).status_code == 200
    assert visitor.service.store.experiment("best").settings.mode == "choose"


def test_a_name_that_is_taken_is_refused_at_its_field(visitor: Visitor) -> None:
    visitor.service.make()
    answer = visitor.send("/experiments/new", "/experiments/new", name="shoes", rankers="one\ntwo")
    assert answer.status_code == 409
    assert 'id="name-error"' in answer.text


def test_an_edit_of_what_runs_is_a_new_version_and_the_old_one_stays_to_be_seen(visitor: Visitor) -> None:
    visitor.service.make(events=BOTH)
    traffic(visitor.service, 5)
    form = visitor.open("/experiments/shoes/edit").text
    assert "Any other change makes a new version" in form
    fields = {str(field["name"]): field["value"] or "" for field in Elements(form).of("input")}
    typed = {name: value for name, value in fields.items() if name != "token"} | {"rankers": "production\ncandidate"}
    edited = visitor.send("/experiments/shoes/edit", "/experiments/shoes/edit", **typed | {"k": "2", "name": "boots"})
    assert (edited.status_code, edited.url.path) == (200, "/experiments/shoes")
    assert "No impressions yet" in edited.text
    assert visitor.service.store.experiment("shoes").settings.k == 2
    old = visitor.open("/experiments/shoes?version=1").text
    assert "This is version 1" in old
    assert "5 impressions are stored" in old
    assert "/experiments/shoes/stop" not in old  # what acts is the latest version's
    assert visitor.open("/experiments/shoes?version=3").status_code == 404


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_is_unknown_or_not_possible_is_a_page_with_a_sentence(visitor: Visitor, method: str) -> None:
    visitor.service.make(start=False)
    if method == "GET":
        answer = visitor.open("/experiments/boots")
        assert (answer.status_code, "there is no experiment" in answer.text.lower()) == (404, True)
    else:
        answer = visitor.send("/experiments/shoes", "/experiments/shoes/stop")
        assert (answer.status_code, "cannot be stopped: it is draft" in Elements(answer.text).text) == (409, True)
        answer = visitor.send("/experiments/shoes", "/experiments/shoes/decide", decision="")
        assert answer.status_code == 422
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_the_page_shows_the_verdict_its_health_and_every_part(visitor: Visitor) -> None:
    visitor.service.make(events=BOTH, holdout=0.1, planned_units=120, by=["device"])
    traffic(visitor.service, 120, attributes={"device": "phone"})
    visitor.service.tell({"impression": "nowhere", "rank": 1})
    page = visitor.open("/experiments/shoes").text
    parts = [attributes["id"] for _, attributes in Elements(page).found if "id" in attributes]
    wanted = ("verdict", "actions", "health", "scorecard", "over_time", "neutrality", "segments", "trials", "examples")
    places = [parts.index(part) for part in (*wanted, "left-out", "setup", "export")]
    assert places == sorted(places)
    text = Elements(page).text
    assert "People prefer candidate to production" in text
    assert "You can check this at any time" in text
    assert "120 of 120 planned units" in text
    assert "1 × click + 5 × purchase" in text
    assert "Among many, some look different by chance alone" in text
    assert "✓ candidate is preferred" in visitor.open("/").text
    assert "1 (unknown impression)" in Elements(visitor.open("/").text).text
    assert len([figure for figure in Elements(page).of("figure") if "id" in figure]) >= 3


def test_the_part_that_lives_is_sent_again_only_when_it_changed(visitor: Visitor) -> None:
    visitor.service.make()
    first = visitor.open("/experiments/shoes/live")
    assert "<html" not in first.text
    again = visitor.open("/experiments/shoes/live", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    visitor.service.ask("POST", "/v1/experiments/shoes/stop")
    changed = visitor.open("/experiments/shoes/live", headers={"If-None-Match": first.headers["etag"]})
    assert changed.status_code == 200


def test_the_list_lives_too(visitor: Visitor) -> None:
    visitor.service.make()
    first = visitor.open("/live")
    assert "<html" not in first.text
    assert first.text.strip() in visitor.open("/").text
    assert visitor.open("/live", headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    visitor.service.ask("POST", "/v1/experiments/shoes/stop")
    changed = visitor.open("/live", headers={"If-None-Match": first.headers["etag"]})
    assert (changed.status_code, "stopped" in changed.text, "stopped" in first.text) == (200, True, False)


def test_rankers_may_be_typed_with_commas_on_one_line_and_have_commas_on_their_own(visitor: Visitor) -> None:
    for name, typed, rankers in (
        ("one-line", "production, candidate,", ("production", "candidate")),
        ("lines", "old, slow\nnew", ("old, slow", "new")),
    ):
        visitor.send("/experiments/new", "/experiments/new", name=name, rankers=typed)
        assert visitor.service.store.experiment(name).settings.rankers == rankers
    alone = visitor.send("/experiments/new", "/experiments/new", name="alone", rankers="production")
    assert (alone.status_code, "Rankers: " in alone.text) == (422, True)


def test_the_command_on_the_page_gives_the_numbers_of_the_page(
    visitor: Visitor, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor.service.make(events=BOTH, holdout=0.1, confidence=0.9, by=["device"], bot_agents=["bot"])
    traffic(visitor.service, 60, attributes={"device": "phone"})
    traffic(visitor.service, 3, attributes={"device": "phone"}, user_agent="Bot/1")
    log = visitor.open("/experiments/shoes/export?version=1")
    assert log.headers["content-disposition"] == 'attachment; filename="shoes-1.parquet"'
    (tmp_path / "shoes-1.parquet").write_bytes(log.content)
    monkeypatch.chdir(tmp_path)
    shown = visitor.service.report().json()["reports"]
    settings = visitor.service.store.experiment("shoes").settings
    page = Elements(visitor.open("/experiments/shoes").text).text
    for metric in ("click", "purchase", "weighted"):
        command = analysis(settings, 1, metric)
        assert command in page
        assert main([*shlex.split(command)[1:], "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out) == shown[metric]


def test_the_command_of_a_choice_names_all_rankers_at_the_start() -> None:
    rankers = [f"r{place}" for place in range(300)]
    settings = Experiment.of({"name": "best", "rankers": rankers, "mode": "choose"})
    words = analysis(settings, 1, "click").split()
    assert words[words.index("--start-rankers") + 1 :] == rankers


def standing_of(report: Any, monkeypatch: pytest.MonkeyPatch, settings: Experiment) -> None:
    made = CurrentReports(1, dict.fromkeys(settings.metrics, report), None, VersionCounts(0, 9, {}))
    monkeypatch.setattr(Reports, "_make", lambda *_: made)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_report_becomes_a_page(visitor: Visitor, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    report = EXAMPLES[name]
    visitor.service.make()
    settings = visitor.service.store.experiment("shoes").settings
    standing_of(report, monkeypatch, settings)
    page = visitor.open("/experiments/shoes")
    assert page.status_code == 200
    tone = "untrusted" if not report.verdict.trusted else "winner" if report.verdict.winner else "even"
    assert f'<div class="verdict {tone}" id="verdict">' in page.text
    assert ('<section id="standing">' in page.text) == (report.standing is not None)
    assert ("DO NOT TRUST THIS" in page.text) == ('class="doubtful"' in page.text) == (name == "broken")
    is_by_owners = '<th scope="col" class="figure">wins / ties / losses, by drawn owners</th><th' in page.text
    assert is_by_owners == (name == "counted_by_owners")


def test_the_page_says_what_the_ranker_would_get_if_it_were_live(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor.service.make()
    settings = visitor.service.store.experiment("shoes").settings
    standing_of(EXAMPLES["healthy"], monkeypatch, settings)
    page = visitor.open("/experiments/shoes").text
    sentence = "If candidate were live in place of production: +2.1 % clicks per search (95 %: +0.4 to +3.8)."
    assert f'<p class="sentence" id="worth">{sentence}</p>' in page.replace("\N{NO-BREAK SPACE}", " ")
    assert page.index('id="worth"') < page.index('<section id="health">') < page.index('<section id="lift">')
    standing_of(EXAMPLES["nothing_computed"], monkeypatch, settings)
    visitor.service.client.app.state.service.reports._cache.clear()  # type: ignore[attr-defined]
    unknown = visitor.open("/experiments/shoes").text
    assert 'id="worth"' not in unknown
    assert "is not known: " in unknown[unknown.index('<section id="lift">') :]


def test_of_many_rankers_the_leaderboard_comes_first_and_the_pairs_are_folded(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor.service.make(events=BOTH)
    settings = visitor.service.store.experiment("shoes").settings
    standing_of(EXAMPLES["with_cycle"], monkeypatch, settings)
    page = visitor.open("/experiments/shoes").text
    assert page.index('<section id="standing">') < page.index('<details id="pairs">') < page.index('class="scores"')
    assert page.count("the verdict is based on this") == 1
    standing_of(EXAMPLES["healthy"], monkeypatch, settings)
    visitor.service.client.app.state.service.reports._cache.clear()  # type: ignore[attr-defined]
    assert '<details id="pairs">' not in visitor.open("/experiments/shoes").text


def test_without_charts_the_page_says_so_and_shows_its_tables(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise InterleafError("drawing charts needs vl-convert")

    visitor.service.make()
    standing_of(EXAMPLES["healthy"], monkeypatch, visitor.service.store.experiment("shoes").settings)
    monkeypatch.setattr(plots, "check_drawing", missing)
    page = visitor.open("/experiments/shoes").text
    assert "There are no charts" in page
    assert not Elements(page).of("figure")
    assert page.index("By device") < page.index('id="left-out"')


def test_metrics_that_surely_disagree_are_said_aloud() -> None:
    settings = Experiment.of({"name": "shoes", "rankers": ["old", "new"], "events": BOTH | {"return": -2.0}})

    def measured(low: float, high: float) -> Comparison:
        return Comparison("new", "old", (low + high) / 2, interval=(low, high))

    def said(**pairs: Comparison) -> tuple[str, ...]:
        healthy = EXAMPLES["healthy"]
        return scorecard(settings, {kind: replace(healthy, comparisons=(pair,)) for kind, pair in pairs.items()}).aloud

    up, down, unsure = measured(0.1, 0.2), measured(-0.4, -0.1), measured(-0.1, 0.3)
    assert said(click=up, purchase=up) == said(click=up, purchase=unsure) == ()
    (sentence,) = said(click=up, purchase=down)
    assert "by click people prefer new, and by purchase old" in sentence
    assert said(click=up, **{"return": down}) == ()  # fewer returns speak for it, too
    (sentence,) = said(click=up, **{"return": up})
    assert "by return old" in sentence


def test_bars_are_on_one_scale_and_never_leave_it() -> None:
    settings = Experiment.of({"name": "shoes", "rankers": ["old", "new"], "events": BOTH})
    pairs = [
        Comparison("new", "old", 0.1, interval=(-9.0, 9.0)),
        Comparison("new", "old", -0.2, interval=(-0.3, -0.1)),
    ]
    reports = {kind: replace(EXAMPLES["healthy"], comparisons=(pair,)) for kind, pair in zip(BOTH, pairs, strict=True)}
    one, other = scorecard(settings, reports).rows
    assert one.bar is not None
    assert other.bar is not None
    assert one.bar.interval == (0.0, WIDTH)
    reach = 4 * 0.3
    assert one.bar.point == round(100 * (1 + 0.1 / reach), 1)
    assert other.bar.interval == (round(100 * (1 - 0.3 / reach), 1), round(100 * (1 - 0.1 / reach), 1))
    assert (one.preferred, other.preferred) == ("neither", "second")


def test_values_have_a_scale_of_their_own_and_say_what_the_cap_cuts_off() -> None:
    settings = Experiment.of({"name": "shoes", "rankers": ["old", "new"], "events": BOTH, "values": ["purchase"]})
    score = Comparison("new", "old", 0.15, interval=(0.05, 0.25))
    value = Comparison("new", "old", 6.8, interval=(0.4, 13.2))
    scores = replace(EXAMPLES["healthy"], comparisons=(score,))
    values = replace(EXAMPLES["healthy"], comparisons=(value,), value_cap=100.0, value_cut=0.16)
    reports: Any = {"click": scores, "purchase": scores, "value of purchase": values}
    click, _, revenue = scorecard(settings, reports).rows
    assert scorecard(settings, {"click": reports["click"]}).rows[0].bar == click.bar
    assert click.bar is not None
    assert revenue.bar is not None
    assert click.bar.interval == (round(100 * (1 + 0.05 / 0.25), 1), WIDTH)
    assert revenue.bar.interval == (round(100 * (1 + 0.4 / 13.2), 1), WIDTH)
    assert (click.note, revenue.note) == (
        "the verdict is based on this",
        "up to 100 a unit, which cuts off 16.0 % of all value",
    )


def test_the_page_says_that_the_intervals_of_other_metrics_are_adjusted(visitor: Visitor) -> None:
    visitor.service.make(events=BOTH)
    traffic(visitor.service, 20)
    assert "The intervals of the 2 other metrics are adjusted" in visitor.open("/experiments/shoes").text
    visitor.service.make(name="boots")
    traffic(visitor.service, 20, name="boots")
    assert "are adjusted" not in visitor.open("/experiments/boots").text


@pytest.mark.parametrize("mode", ["aa", "aa_relabelled", "known_loser"])
def test_a_set_up_on_trial_says_what_it_should_show(mode: str) -> None:
    settings = Experiment.of({"name": "shoes", "rankers": ["production", "candidate"], "mode": mode, "holdout": 0.1})
    report = EXAMPLES["healthy"]  # in which the candidate wins
    trial, holdout = trials(settings, report)
    assert trial.shows in (
        "A difference is shown where there should be none.",
        "The ranker that is worse by design is preferred.",
    )
    assert holdout.title == "Holdout"
    assert trials(settings, None)[0].shows == "There is nothing to see yet."
    assert trials(Experiment.of({"name": "shoes", "rankers": ["a", "b"]}), None) == ()


def test_the_holdout_shows_its_own_checks_whatever_they_are_called() -> None:
    settings = Experiment.of({"name": "shoes", "rankers": ["production", "candidate"], "holdout": 0.1})
    health = (Check("Plain lists", "failed", "60 % more", code="holdout_clicks"), Check("Holdout?", "failed", "no"))
    (holdout,) = trials(settings, replace(EXAMPLES["healthy"], health=health))
    assert holdout.shows == "Plain lists: 60 % more."


def test_a_form_has_a_field_for_every_setting_and_reads_back_what_it_shows() -> None:
    names = [field.name for _, fields, _ in form_pages.groups({}) for field in fields]
    assert sorted(names) == sorted([*SETTINGS, form_pages.PARAMETERS])
    settings = Experiment.of(
        {
            **{"name": "shoes", "rankers": ["a, b", "c"], "control": "c", "method": "probabilistic(tau=1.5)", "k": 7},
            **{"share": 0.125, "lane": "x", "holdout": 0.3, "events": {"click": 1.0, "pur chase": -2.5}, "by": ["os"]},
            **{"attribution": "most_shown", "planned_units": 12345678, "confidence": 0.999, "bot_rate": 20},
        }
    )
    assert Experiment.of(form_pages.data_of(form_pages.typed_of(settings))) == settings
    assert form_pages.data_of(form_pages.defaults()).keys() <= SETTINGS.keys() - {"name", "rankers", "control"}


def test_the_script_for_charts_is_made_by_another_process(tmp_path: Path) -> None:
    """The JavaScript engine that makes it would keep 100 MiB in the serving process."""
    code = "import sys; from interleaf.server.dashboard.static_files import vega; print(len(vega().data), *sys.modules)"
    size, *modules = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"INTERLEAF_CACHE": str(tmp_path)},
    ).stdout.split()
    assert int(size) > 100_000
    assert "vl_convert" not in modules
