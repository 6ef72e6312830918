"""What the dashboard says aloud: metrics that disagree, lists that all say the same, events that reach nobody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interleaf.experiment import Experiment
from interleaf.report.model import Comparison
from interleaf.server.dashboard.result_summary import TOO_UNIFORM, Scorecard, scorecard
from interleaf.server.reports import CurrentReports, Reports
from interleaf.store.records import VersionCounts
from tests.support.dashboards import Elements, Visitor, traffic
from tests.support.report_examples import EXAMPLES
from tests.support.services import live

BOTH = {"click": 1.0, "purchase": 5.0}


@pytest.fixture
def visitor(tmp_path: Path) -> Iterator[Visitor]:
    with live(tmp_path) as service:
        yield Visitor(service)


def test_a_metric_without_an_interval_disagrees_if_it_is_unanimous_and_all_together_with_the_first() -> None:
    settings = Experiment.of({"name": "shoes", "rankers": ["old", "new"], "events": BOTH})
    up = Comparison("new", "old", 0.15, interval=(0.1, 0.2))
    down = Comparison("new", "old", -0.15, interval=(-0.2, -0.1))
    all_old = Comparison("new", "old", -1.0, wins=0, losses=40, ties=0, unit_wins=0, unit_losses=30, is_uniform=True)

    def made(**pairs: Comparison) -> Scorecard:
        healthy = EXAMPLES["healthy"]
        return scorecard(settings, {kind: replace(healthy, comparisons=(pair,)) for kind, pair in pairs.items()})

    found = made(click=up, purchase=all_old)
    assert "by click people prefer new, and by purchase old" in found.aloud[0]
    assert (found.rows[1].sentence, found.rows[1].reason) == ("● all favour old", TOO_UNIFORM)
    assert made(click=up, purchase=replace(all_old, losses=2, unit_losses=2)).aloud == ()
    (sentence,) = made(click=up, weighted=down).aloud
    assert "by all kinds together, weighted, old" in sentence
    assert made(purchase=down, weighted=up).aloud == ()


def test_a_conflict_is_in_the_banner_and_on_the_list(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor.service.make(events=BOTH)
    settings, healthy = visitor.service.store.experiment("shoes").settings, EXAMPLES["healthy"]
    pair = healthy.comparisons[0]
    turned = replace(pair, estimate=-0.2, interval=(-0.3, -0.1))
    reports: Any = {"click": healthy, "purchase": replace(healthy, comparisons=(turned,))}
    monkeypatch.setattr(Reports, "_make", lambda *_: CurrentReports(1, reports, None, VersionCounts(0, 9, {})))
    page = visitor.open("/experiments/shoes").text
    assert page.index('id="verdict"') < page.index("Metrics disagree") < page.index('id="health"')
    assert "! metrics disagree" in visitor.open("/").text
    assert settings.primary == "click"


def test_events_that_match_nothing_are_in_the_health_and_nobody_is_said_to_have_clicked_nothing(
    visitor: Visitor,
) -> None:
    visitor.service.make()
    for number in range(20):
        shown = visitor.service.show(unit=f"user-{number}").json()["impression"]
        visitor.service.tell({"impression": shown, "rank": 40}, {"impression": f"not {shown}", "rank": 1})
    (report,) = visitor.service.report().json()["reports"].values()
    (check,) = [check for check in report["health"] if check["code"] == "events_unmatched"]
    assert (check["status"], check["figure"]) == (
        "failed", "40 of 40 events; rank not shown: 20; unknown impression: 20",
    )  # fmt: skip
    assert report["verdict"]["undecided_because"] == "events_unmatched"
    page = Elements(visitor.open("/experiments/shoes").text).text
    assert "DO NOT TRUST THIS" in page
    assert "There are no clicks" not in page


def test_events_of_no_experiment_are_a_warning_where_they_may_be_of_another(visitor: Visitor) -> None:
    visitor.service.make()
    visitor.service.make(name="boots")
    traffic(visitor.service, 20)
    visitor.service.tell(*[{"impression": f"nowhere {number}", "rank": 1} for number in range(20)])
    (report,) = visitor.service.report().json()["reports"].values()
    found = {check["code"]: check["status"] for check in report["health"]}
    assert (found["events_unmatched"], found["events_unplaced"]) == ("ok", "warning")
