"""Every metric and label in the alert rules and the Grafana dashboard exists in a real scrape, with such values."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from interleaf.log.schema import FALLBACK
from interleaf.proxy.codes import BypassCode, FailureCode, UpstreamCode
from tests.deploy.test_alerts import DEPLOY, alerts, needs_promtool
from tests.support.proxies import running_proxy
from tests.support.services import click, live
from tests.support.stub_engine import stub_engine

DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
OF_PROMETHEUS = {"up", "job", "instance", "le"}  # names that Prometheus adds
OF_SEVERAL_WORKERS = {"pid"}
WORDS = {
    *("sum", "max", "rate", "increase", "histogram_quantile", "by", "on", "and", "or", "unless", "offset"),
    *("m", "h", "__rate_interval"),  # units of time, and a variable of Grafana
}
SELECTOR = re.compile(r"(\w+)\{(.*?)\}")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"(.*?)"')
Samples = dict[str, list[dict[str, str]]]


def expressions() -> Iterator[str]:
    yield from (alert["expr"] for alert in alerts())
    yield from (target["expr"] for panel in PANELS for target in panel["targets"])


def samples_of(text: str) -> Samples:
    """The labels of each sample by its name; a metric without samples is there, too."""
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        samples.setdefault(family.name + ("_total" if family.type == "counter" else ""), [])
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(sample.labels)
    return samples


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What Prometheus gets from a service with lists, a fallback, a bot, events, and waiting requests."""
    with live(tmp_path_factory.mktemp("scraped"), fold_seconds=0.01) as service:
        service.make(bot_agents=["Googlebot"])
        shown = service.show().json()
        service.show(unit="bot", user_agent="Googlebot/2.1")
        service.show(unit="user-8", rankings={"production": ["a"], "candidate": None})
        service.tell(click(shown))
        metrics = service.client.app.state.service.metrics  # type: ignore[attr-defined]
        metrics.measure(3, 1.0, {"open": 2, "idle": 1, "waiting": 4})  # as PostgreSQL has them
        text: str = service.ask("GET", "/metrics").text
    return text


@pytest.fixture(scope="module")
def proxy_scraped(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What Prometheus gets from a proxy with lists, a bypass, a ranker that failed, and an engine that went away."""
    folder = tmp_path_factory.mktemp("proxy")
    with stub_engine() as engine, running_proxy(engine.url, folder) as proxy:
        assert proxy.search().status == 200
        assert proxy.search({"scroll": "1m"}).status == 200
        metrics = proxy.app.metrics
        for code in FailureCode:
            metrics.count_failure(code.value, "candidate")
            metrics.count_failure(code.value)
        for bypass in BypassCode:
            metrics.count_bypass(bypass.value)
        metrics.count_list(FALLBACK)
        metrics.count_upstream_error(UpstreamCode.REFUSED.value)
        metrics.count_event("browser", "accepted")
        return proxy.ask("GET", "/_interleaf/metrics").body.decode()


def unknown_names(expression: str, samples: Samples) -> Iterator[str]:
    """Metrics and labels that no sample has, and matchers that none matches."""
    labels = {label for many in samples.values() for one in many for label in one}
    known = samples.keys() | labels | OF_PROMETHEUS | OF_SEVERAL_WORKERS | WORDS
    bare = re.sub(r'"[^"]*"|\b[\d.]+(?=[mh]?\b)', "", expression)
    yield from (name for name in re.findall(r"[a-z_]\w*", bare) if name not in known)
    for name, matchers in SELECTOR.findall(expression):
        for label, relation, value in MATCHER.findall(matchers):
            if label in OF_PROMETHEUS or label == "status" or relation in ("!=", "!~"):
                continue
            matching = [one for one in samples[name] if re.fullmatch(value, one.get(label, ""))]
            if not matching:
                yield f'{name}{{{label}{relation}"{value}"}}'


def test_every_name_exists_in_a_scrape(scraped: str, proxy_scraped: str) -> None:
    samples = samples_of(scraped) | samples_of(proxy_scraped)
    problems = {name: expression for expression in expressions() for name in unknown_names(expression, samples)}
    assert problems == {}


def test_every_metric_of_a_scrape_is_on_the_dashboard(scraped: str, proxy_scraped: str) -> None:
    shown = "\n".join(expressions())
    families = [family.name for text in (scraped, proxy_scraped) for family in text_string_to_metric_families(text)]
    assert [name for name in families if name not in shown] == []


@needs_promtool
def test_promtool_likes_the_metrics(scraped: str, proxy_scraped: str) -> None:
    for text in (scraped, proxy_scraped):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_panels_of_the_dashboard_fit() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in PANELS}
    assert len(places) == len(PANELS)
