"""A running experiment goes out as UBI, comes back, and its report is the one that the service gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import interleaf
from interleaf import cli
from tests.support.log_rows import rows_of
from tests.support.services import MINUTE, RANKINGS, Live, live

ROBOT = "Googlebot/2.1"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as running:
        yield running


def visited(service: Live, first: int, last: int) -> None:
    """People and a crawler, clicks with and without a dwell, purchases, a ranker that fails, events told twice."""
    for number in range(first, last):
        rankings: dict[str, Any] = RANKINGS if number % 17 else RANKINGS | {"candidate": None}
        body = {"unit": f"user-{number % 40}", "query": f"größe {number % 9}", "rankings": rankings}
        body |= {"session": f"s-{number % 40}", "attributes": {"device": "phone" if number % 3 else "desktop"}}
        if number % 23 == 0:
            body |= {"user_agent": ROBOT, "unit": "crawler"}
        shown = service.ask("POST", "/v1/experiments/shoes/interleave", body)
        assert shown.status_code == 201, shown.text
        service.clock.now += MINUTE // 60
        event = {"impression": shown.json()["impression"], "rank": 1 + number % 3, "event": f"e-{number}"}
        bought = event | {"event": f"p-{number}", "kind": "purchase", "value": 9.5}
        events = [event | {"dwell": 3.5}] if number % 2 else [event, bought]
        assert service.tell(*events, *events[:1]).json()["repeated"] == 1


def test_a_running_experiment_that_went_out_as_ubi_comes_back_with_the_report_of_the_service(
    service: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"events": {"click": 1.0, "purchase": 5.0}, "planned_units": 300, "holdout": 0.2}
    service.make(**settings, bot_agents=["bot"])
    visited(service, 0, 120)
    service.clock.now += 40 * MINUTE
    assert service.store.fold(service.clock.now) > 0
    visited(service, 120, 180)  # these are still open
    answer = service.report().json()
    assert (answer["folded"], answer["open"]) == (120, 60)
    log, ubi, back = (tmp_path / name for name in ("log.parquet", "log.ndjson.gz", "back.parquet"))
    log.write_bytes(service.ask("GET", "/v1/experiments/shoes/log").content)
    assert cli.main(["export", "ubi", str(log), "--out", str(ubi)]) == 0
    assert cli.main(["import", "ubi", str(ubi), "--out", str(back)]) == 0
    said = capsys.readouterr().out
    assert "×" not in said  # nothing was bent or left out
    assert rows_of(pq.read_table(back)) == rows_of(pq.read_table(log))
    columns = pq.read_table(back, columns=["arm", "excluded", "open"]).to_pydict()
    assert set(columns["arm"]) == {"interleaved", "holdout", "fallback"}
    assert {None, "user agent"} <= set(columns["excluded"])
    assert columns["open"].count(True) == 60
    weights: dict[str, Any] = {"click": "click", "purchase": "purchase", "weighted": settings["events"]}
    for metric, events in weights.items():
        others = 0 if metric == "click" else 2
        options: dict[str, Any] = {"planned_units": 300, "holdout": 0.2, "secondary": others}
        found = interleaf.analyze(back, control="production", events=events, **options)
        assert json.loads(found.to_json()) == answer["reports"][metric]
