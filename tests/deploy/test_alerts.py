"""The alert rules, checked and tried by promtool: each fires when it should, alone, and not just below its limit."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # mkdocs brings it

from tests.support.paths import ROOT

DEPLOY = ROOT / "deploy"
RULES = [DEPLOY / "service-alerts.yml", DEPLOY / "proxy-alerts.yml"]
Series = dict[str, str]

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool on this machine; make promtool installs it"
)


def requests(failing: str) -> Series:
    name = 'interleaf_requests_total{job="interleaf", route="/v1/events", status="%s"}'
    return {name % "202": "0+1000x120", name % "500": failing}


def lists(fallbacks: str, shown: str = "0+100x240") -> Series:
    name = 'interleaf_impressions_total{job="interleaf", experiment="shop", arm="%s"}'
    running = 'interleaf_running_experiment_info{job="interleaf", experiment="shop", version="1"}'
    return {name % "interleaved": shown, name % "fallback": fallbacks, running: "1x240"}


def events(accepted: str, late: str = "0x240") -> Series:
    name = 'interleaf_events_total{job="interleaf", fate="%s"}'
    return {name % "accepted": accepted, name % "late": late}


def durations(route: str, fast: str) -> Series:
    """1,000 requests a minute, of which so many took a quarter of a second at most, and all others half a second."""
    name = f'interleaf_request_seconds_bucket{{job="interleaf", route="{route}", le="%s"}}'
    return {name % "0.25": fast, name % "0.5": "0+1000x120", name % "+Inf": "0+1000x120"}


def proxy(engine_errors: str = "0x120", fallbacks: str = "0x120", shown: str = "0+100x120", **more: str) -> Series:
    name = "interleaf_proxy_%s_total{%s}"
    return {
        name % ("requests", 'job="interleaf-proxy", kind="passed", status="200"'): "0+1000x120",
        name % ("upstream_errors", 'job="interleaf-proxy", code="upstream_refused"'): engine_errors,
        name % ("lists", 'job="interleaf-proxy", arm="interleaved"'): shown,
        name % ("lists", 'job="interleaf-proxy", arm="fallback"'): fallbacks,
    } | {name % ("failures", f'job="interleaf-proxy", code="{code}"'): values for code, values in more.items()}


def failed(code: str, ranker: str, values: str = "0+10x120") -> Series:
    return {f'interleaf_proxy_failures_total{{job="interleaf-proxy", code="{code}", ranker="{ranker}"}}': values}


def bypassed(code: str) -> Series:
    return {f'interleaf_proxy_bypassed_total{{job="interleaf-proxy", code="{code}"}}': "0+100x120"}


def answers(fast: str) -> Series:
    name = 'interleaf_proxy_ranker_seconds_bucket{job="interleaf-proxy", ranker="candidate", le="%s"}'
    return {name % "0.4": fast, name % "0.5": "0+1000x120", name % "+Inf": "0+1000x120"}


QUIETLY = "0+100x100 10000x140"  # traffic that ends after 100 minutes
LISTS = "/v1/experiments/{name}/interleave"
# For each alert: when, series that fire it, and series that do not, although they come near.
CASES: dict[str, tuple[str, *tuple[Series, ...]]] = {
    "InterleafServiceDown": ("1h", {'up{job="interleaf"}': "0x120"}, {'up{job="interleaf"}': "1x120"}),
    "InterleafServiceErrors": ("1h", requests("0+11x120"), requests("0+10x120")),
    "InterleafFallbacks": ("1h", lists("0+6x120"), lists("0+5x120")),
    "InterleafNoLists": ("2h", lists("0x240", QUIETLY), lists("0x240", "0+1x240")),
    "InterleafEventsNotCounted": ("1h", events("0+100x120", "0+6x120"), events("0+100x120", "0+5x120")),
    "InterleafFewerEvents": (
        "3h",
        lists("0x240") | events("0+80x120 9600+30x120"),
        lists("0x240") | events("0+80x120 9600+42x120"),
    ),
    "InterleafSlow": ("1h", durations(LISTS, "0+989x120"), durations(LISTS, "0+990x120") | durations("/", "0x120")),
    "InterleafWriteQueue": ("1h", {"interleaf_write_queue": "1001x120"}, {"interleaf_write_queue": "1000x120"}),
    "InterleafFoldBacklog": (
        "1h",
        {"interleaf_fold_backlog_seconds": "61x120"},
        {"interleaf_fold_backlog_seconds": "60x120"},
    ),
    "InterleafStoreConnections": (
        "1h",
        {'interleaf_store_connections{state="waiting"}': "1x120"},
        {'interleaf_store_connections{state="open"}': "9x120"},
    ),
    "InterleafProxyDown": ("1h", {'up{job="interleaf-proxy"}': "0x120"}, {'up{job="interleaf-proxy"}': "1x120"}),
    "InterleafProxyEngineErrors": ("1h", proxy("0+11x120"), proxy("0+10x120")),
    "InterleafProxyFallbacks": ("1h", proxy(fallbacks="0+6x120"), proxy(fallbacks="0+5x120")),
    # The first fault of a process is a new series, for which Prometheus computes no increase.
    "InterleafProxyFaults": ("1h", proxy(internal="_x50 1x70"), proxy(internal="1x120", ranker_slow="0+1x120")),
    "InterleafProxyNothingInterleaved": (
        "1h",
        proxy(fallbacks="_x120", shown="_x120") | bypassed("sort"),
        proxy(shown="0+1x120") | bypassed("sort"),
        proxy(shown="100x120") | bypassed("not_running") | bypassed("outside"),
        proxy(shown="100x120") | failed("ranker_slow", "candidate") | failed("answer_too_large", "", "0+6x120"),
        proxy(shown="0+1x120") | failed("answer_too_large", ""),
    ),
    "InterleafProxySlowRanker": ("1h", answers("0+989x120"), answers("0+990x120")),
    "InterleafProxyRecordsWait": (
        "1h",
        {"interleaf_proxy_records_waiting": "1001x120"},
        {"interleaf_proxy_records_waiting": "1000x120"},
    ),
    "InterleafProxyServiceAway": (
        "1h",
        {"interleaf_proxy_service_away": "1x120"},
        {"interleaf_proxy_service_away": "0x56 1x64"},
    ),
}


def alerts() -> list[dict[str, Any]]:
    files = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in RULES]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, cwd=DEPLOY)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case_a_severity_and_texts() -> None:
    assert [rule["alert"] for rule in alerts()] == list(CASES)
    for rule in alerts():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "remedy"}


@needs_promtool
def test_promtool_accepts_the_files(tmp_path: Path) -> None:
    promtool("check", "rules", *RULES)
    config = (DEPLOY / "prometheus.yml").read_text(encoding="utf-8").replace("/etc/prometheus", str(tmp_path))
    (tmp_path / "interleaf.key").write_text("il_read_test")
    for file in RULES:
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"))
    (tmp_path / "prometheus.yml").write_text(config)
    promtool("check", "config", tmp_path / "prometheus.yml")


@needs_promtool
def test_each_alert_fires_alone_and_not_below_its_limit(tmp_path: Path) -> None:
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    tests = []
    fires_too = ("InterleafProxyNothingInterleaved", ("1h", proxy(shown="100x120") | failed("control_failed", "")))
    for alert, (time, *cases) in [*CASES.items(), fires_too]:
        expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1}]
        for number, series in enumerate(cases):
            samples = expected if number == 0 else []
            test = {
                "name": f"{alert}, case {number}",
                "interval": "1m",
                "input_series": [{"series": one, "values": values} for one, values in series.items()],
                "promql_expr_test": [{"expr": firing, "eval_time": time, "exp_samples": samples}],
            }
            tests.append(test)
    plan = {"rule_files": [str(file) for file in RULES], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "plan.yml").write_text(json.dumps(plan))
    promtool("test", "rules", tmp_path / "plan.yml")


def test_the_page_lists_each_alert() -> None:
    page = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(Interleaf\w+)` \|", page, re.MULTILINE) == [rule["alert"] for rule in alerts()]
