"""What the page says besides the numbers: days left, what to do without a winner, notes; and its tables as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interleaf.experiment import Experiment
from interleaf.report.choice_result import ChoiceResult
from interleaf.report.model import Comparison, Totals, Verdict
from interleaf.server.dashboard.downloads import csv_of
from interleaf.server.dashboard.result_summary import Outlook, outlook
from interleaf.store.records import Stored
from tests.support.dashboards import Elements, Visitor, traffic
from tests.support.report_examples import EXAMPLES
from tests.support.services import MINUTE, Live, live

SINCE = datetime(2026, 11, 1, tzinfo=UTC)
SETTINGS = Experiment.of({"name": "shoes", "rankers": ["production", "candidate"]})


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as found:
        yield found


def looked(
    hours: float,
    units: int,
    planned: int | None = 2000,
    state: str = "running",
    code: str = "undecided",
    codes: tuple[str, ...] = (),
    seen: int | None = None,
    choice: ChoiceResult | None = None,
    **pair: Any,
) -> Outlook:
    """The outlook of an experiment with so many units after so many hours, `seen` of them with an event."""
    until = SINCE + timedelta(hours=hours)
    report = replace(
        EXAMPLES["healthy"],
        totals=Totals(units, units, units, True, SINCE, until),
        planned_units=planned,
        verdict=Verdict(
            "",
            "candidate" if code == "preferred" else None,
            code != "broken",
            code=code,
            codes=codes,
            next_step="Do something.",
            broken_guardrails=("latency",) if code == "guardrail" else (),
        ),
        margin=0.01,
        choice=choice,
        look=None,
        comparisons=(Comparison("production", "candidate", units=seen, **pair),),
        rankers=("production", "candidate"),
    )
    stored = Stored(SETTINGS, 1, state, 0, 0, None, (), {1: SETTINGS})
    return outlook(stored, SETTINGS, report, round(until.timestamp() * 1e6))


def test_days_left_follow_from_the_rate_so_far() -> None:
    assert looked(48, 500).left.startswith("About 6 days left, at the average of 250 new units a day")
    assert looked(24, 1000).left.startswith("About 1 day left")
    assert looked(48, 1900).left.startswith("Less than a day left, at")
    assert "after an hour" in looked(0.5, 10).left
    assert looked(48, 2000).left == looked(48, 500, state="stopped").left == ""


def test_a_winner_of_the_first_day_is_early() -> None:
    assert "less than a day of traffic" in looked(23.9, 500, code="preferred").early
    assert looked(24, 500, code="preferred").early == looked(1, 500).early == ""


def test_the_page_says_what_to_do_next_unless_it_advises_something_else() -> None:
    step = "Do something."
    assert looked(48, 500).step == looked(48, 500, code="preferred", state="stopped").step == step
    assert looked(48, 500, state="stopped").step == looked(48, 500, state="decided", code="preferred").step == ""
    for decided in (True, False):  # the leader may be no better than others by the margin, so nobody is the winner
        choice = ChoiceResult("production", decided, 9, 1, (), ())
        assert looked(48, 500, state="stopped", choice=choice).step == (step if decided else "")
    assert looked(12, 500, code="preferred").step == ""  # the warning says to wait
    assert looked(240, 2000).step == ""  # other advice is there
    for code in ("guardrail", "broken"):
        assert looked(12, 2000, code=code).step == looked(12, 500, code=code, state="stopped").step == step


def test_the_verdict_has_what_to_do_next(service: Live) -> None:
    service.make()
    traffic(service, 20)
    service.clock.now += 120 * MINUTE
    page = Visitor(service).open("/experiments/shoes").text
    step = service.report().json()["reports"]["click"]["verdict"]["next_step"]
    assert step
    verdict = page[page.index('id="verdict"') : page.index('id="actions"')]
    assert f'<p class="note" id="next"><b>What to do next.</b> {step}</p>' in verdict


def test_when_the_plan_is_reached_without_a_winner_it_says_what_to_do() -> None:
    keep, further = looked(240, 2000, estimate=0.02, interval=(-0.02, 0.06)).advice
    assert "If a difference from -0.020 to +0.060 would not matter" in keep
    assert "stop the experiment and keep production" in keep
    assert "let the experiment run" in further
    assert looked(240, 1999, estimate=0.02, interval=(-0.02, 0.06)).advice == ()
    for code in ("preferred", "alike", "no_worse"):
        assert looked(240, 2000, code=code, estimate=0.02, interval=(0.01, 0.03)).advice == ()
    for codes, lines in ((("guardrail",), 2), (("guardrail", "disagree"), 2), (("guardrail", "preferred"), 0)):
        assert len(looked(240, 2000, code="guardrail", codes=codes).advice) == lines
    assert len(looked(240, 2000).advice) == 2  # without an estimate, too


def test_an_undecided_pair_has_a_date_of_decision_with_an_interval() -> None:
    clear = partial(looked, 240, 1000, None, seen=1000, estimate=0.1)
    said = clear(error=0.045).decision
    assert said.startswith("A decision is expected about 2026-11-")
    expected, low, high = (date.fromisoformat(word) for word in re.findall(r"\d{4}-\d\d-\d\d", said))
    assert date(2026, 11, 11) <= low < expected < high
    sooner = looked(120, 1000, None, seen=1000, estimate=0.1, error=0.045).decision
    assert sooner.split()[5] < said.split()[5]  # twice the traffic a day takes half of the days
    assert "or never" in clear(estimate=0.001, error=0.045).decision
    undecided = (clear(error=0.045, state="stopped"), clear(error=0.045, code="preferred"), clear(error=None))
    assert [one.decision for one in undecided] == ["", "", ""]
    assert (
        clear(error=0.045, code="guardrail", codes=("guardrail",)).decision == said
    )  # guardrails change no preference
    assert clear(error=0.045, code="guardrail", codes=("guardrail", "no_worse")).decision == said
    assert clear(error=0.045, code="guardrail", codes=("guardrail", "alike")).decision == ""
    assert looked(0.5, 1000, None, seen=1000, estimate=0.1, error=0.045).decision == ""  # no rate yet


def test_without_a_plan_nothing_is_left_and_nothing_is_due(service: Live) -> None:
    undecided = looked(240, 5000, None, estimate=0.02, interval=(-0.02, 0.06))
    assert (undecided.left, undecided.advice) == ("", ())
    service.make()
    traffic(service, 20)
    service.clock.now += 120 * MINUTE
    visitor = Visitor(service)
    page = visitor.open("/experiments/shoes").text
    assert "No size was planned" in page
    assert "planned units" not in page[page.index("<h3>Progress</h3>") :][:600]
    assert "units of the planned size" not in page + visitor.open("/").text


def test_the_page_and_the_list_warn_of_an_early_winner(service: Live) -> None:
    service.make(planned_units=200)
    traffic(service, 150)
    service.clock.now += 120 * MINUTE
    visitor = Visitor(service)
    page = visitor.open("/experiments/shoes").text
    assert page.count("less than a day of traffic") == 2  # at the verdict, and before it is stopped
    assert "! less than a day of traffic" in visitor.open("/").text
    assert '<li id="left">Less than a day left</li>' in page


def test_notes_are_shown_edited_in_any_state_and_never_make_a_version(service: Live) -> None:
    visitor = Visitor(service)
    notes = {"owner": "Ann", "hypothesis": "More\r\nclicks.", "description": "One.\r\n\r\nTwo.", "tags": "q3, rank"}
    made = visitor.send("/experiments/new", "/experiments/new", name="shoes", rankers="production\ncandidate", **notes)
    assert made.status_code == 200
    stored = service.store.experiment("shoes")
    assert (stored.settings.tags, stored.settings.description) == (("q3", "rank"), "One.\n\nTwo.")
    shown = Elements(made.text)
    assert all(words in shown.text for words in ("Owner: Ann", "More clicks.", "One.", "Two.", "q3"))
    visitor.send("/experiments/shoes", "/experiments/shoes/start")
    form = visitor.open("/experiments/shoes/edit").text
    assert "Results per page" in form
    visitor.send("/experiments/shoes", "/experiments/shoes/stop")
    form = visitor.open("/experiments/shoes/edit").text
    fields = [field["name"] for field in Elements(form).of("textarea")]
    assert ("Results per page" in form, fields) == (False, ["hypothesis", "description", "tags"])
    edited = visitor.send("/experiments/shoes/edit", "/experiments/shoes/edit", owner="Bea", k="2")
    assert edited.status_code == 200
    stored = service.store.experiment("shoes")
    assert (stored.version, stored.settings.owner, stored.settings.k, stored.settings.tags) == (1, "Bea", 10, ())


def test_labels_are_words(service: Live) -> None:
    visitor = Visitor(service)
    form = visitor.open("/experiments/new").text
    for label in ("Results per page", "Attribution window in minutes", "Planned units", "compare the rankers"):
        assert label in form, label
    wrong = visitor.send("/experiments/new", "/experiments/new", name="x", rankers="a\nb", k="ten")
    assert "Results per page: Give a whole number" in wrong.text
    service.make(start=False)
    assert "Results per page" in visitor.open("/experiments/shoes").text


def test_tables_can_be_had_as_csv(service: Live) -> None:
    service.make(events={"click": 1.0, "purchase": 5.0})
    traffic(service, 60)
    visitor = Visitor(service)
    links = [str(link["href"]) for link in Elements(visitor.open("/experiments/shoes").text).of("a")]
    tables = [link for link in links if ".csv" in link]
    assert "/experiments/shoes/tables/comparisons.csv?version=1" in tables
    report = service.report().json()["reports"]["click"]
    for link in tables:
        answer = visitor.open(link)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/csv; charset=utf-8")
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert {row["metric"] for row in rows} <= {"click", "purchase", "weighted"}
        if "comparisons" in link:
            assert 'filename="shoes-1-comparisons.csv"' in answer.headers["content-disposition"]
            assert float(rows[0]["estimate"]) == report["comparisons"][0]["estimate"]
            assert len(rows) == 3
    assert visitor.open("/experiments/shoes/tables/nothing.csv").status_code == 404


def test_no_text_of_a_csv_is_a_formula() -> None:
    report = EXAMPLES["healthy"]
    name = "=HYPERLINK(1)"
    pairs = (Comparison(name, "@b", estimate=-0.5, reasons={"p_value": "none"}),)
    text = csv_of({"-1+click": replace(report, comparisons=pairs)}, "comparisons")
    (row,) = csv.DictReader(io.StringIO(text or ""))
    assert (row["metric"], row["first"], row["second"]) == ("'-1+click", f"'{name}", "'@b")
    assert (row["estimate"], row["reasons"]) == ("-0.5", "p_value: none")
