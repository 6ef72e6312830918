"""Browsers send events without a key: limits by address and impression, and only kinds that are allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from interleaf.errors import InterleafError
from interleaf.server import rate_limits
from interleaf.server.launch import Place, serve
from interleaf.server.rate_limits import Rates, network_of
from interleaf.server.service import ServiceSettings
from tests.support.services import Live, live
from tests.support.wire import EVENTS, LIST, Served, clicked, raw, wanted


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as found:
        found.make(events={"click": 1.0, "purchase": 5.0})
        found.make(name="shop", browser_events=["click", "add to cart"])
        found.make_keys()
        yield found


def test_one_address_that_floods_does_not_stop_others(tmp_path: Path) -> None:
    with ExitStack() as stack:
        one = Served(stack, tmp_path, "ingest", browser_requests_per_second=3.0)
        one.service.addresses._watch = lambda: 1000.0
        (answer,) = one.ask(raw(LIST, wanted(1), Authorization=f"Bearer {one.secret}"))
        token = json.loads(answer.partition(b"\r\n\r\n")[2])["token"]

        def sent(address: str, body: Any) -> bytes:
            return one.ask(raw(EVENTS, body, X_Forwarded_For=address))[0][9:12]

        assert [sent("192.0.2.1", clicked(1, token="forged")) for _ in range(5)] == [b"403"] * 3 + [b"429"] * 2
        assert sent("192.0.2.2", clicked(1, token=token)) == b"202"
        assert sent("2001:db8::1", clicked(2)) == b"401"
        assert [sent(f"2001:db8::{place}", clicked(2)) for place in (2, 3, 4)] == [b"401", b"401", b"429"]
        assert sent("6.6.6.6, 192.0.2.1", clicked(1, token=token)) == b"429"  # what the client says itself is ignored


def test_a_proxy_that_is_not_trusted_is_warned_about_once(
    service: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        service.ask("GET", "/livez", headers={"X-Forwarded-For": "192.0.2.1"})
    assert [record.message for record in caplog.records if "X-Forwarded-For" in record.message] == [
        "X-Forwarded-For of testclient is ignored; if this is your proxy, give --trusted-proxies testclient; "
        "else all its clients share a rate limit"
    ]
    caplog.clear()
    (folder := tmp_path / "trusted").mkdir()
    with ExitStack() as stack:
        one = Served(stack, folder)
        for address in ("192.0.2.1", "6.6.6.6, 192.0.2.1:4711", "2001:db8::1", "127.0.0.1"):
            one.ask(raw(LIST, wanted(1), X_Forwarded_For=address))
    assert "X-Forwarded-For" not in caplog.text


def test_who_is_no_trusted_proxy_cannot_choose_its_address(service: Live) -> None:
    with pytest.raises(InterleafError, match="'nobody' is not an address or network"):
        serve(Place("store.sqlite", trusted_proxies=("10.0.0.0/8", "nobody")), ServiceSettings())
    with pytest.raises(InterleafError, match="at least 1 request per second"):
        ServiceSettings(browser_requests_per_second=0.0)
    with pytest.raises(InterleafError, match="the maximum number of connections is 0; give at least 1"):
        ServiceSettings(max_connections=0)


@pytest.mark.parametrize(
    ("experiment", "kind", "status"),
    [
        ("shoes", "click", 202),
        ("shoes", "purchase", 403),
        ("shoes", "anything", 403),
        ("shop", "click", 202),
        ("shop", "add to cart", 202),
        ("shop", "purchase", 403),
    ],
)
def test_browsers_send_only_kinds_that_the_experiment_allows(
    service: Live, experiment: str, kind: str, status: int
) -> None:
    body = {"rankings": {"production": ["a", "b"], "candidate": ["b", "a"]}, "unit": "u"}
    key = service.keys["ingest"]
    shown = service.ask("POST", f"/v1/experiments/{experiment}/interleave", body, key).json()
    event = {"impression": shown["impression"], "rank": 1, "kind": kind}
    answer = service.tell(event, token=shown["token"])
    assert answer.status_code == status
    if status == 403:
        assert (answer.json()["error"]["code"], answer.json()["error"]["field"]) == ("wrong_kind", "events[0].kind")
        assert "browser_events" in answer.json()["error"]["message"]
    assert service.tell(event, key=key).status_code == 202
    other = shown["token"].partition(".")[0] + ".shop" * (experiment != "shop")
    assert service.tell(event, token=other).status_code == 403  # the token of another experiment is not this one's


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.floats(0, 3)), max_size=50))
def test_a_bucket_holds_what_is_left(steps: list[tuple[str, int, float]]) -> None:
    """Against a plain list of what was taken and when, for a limit of 2 a second and 5 at once."""
    now, left = [0.0], dict[str, tuple[float, float]]()
    limits = Rates(2.0, 5.0, lambda: now[0])
    for key, amount, pause in steps:
        now[0] += pause
        before, then = left.get(key, (5.0, now[0]))
        there = min(5.0, before + (now[0] - then) * 2)
        if abs(there - amount) < 1e-9:
            continue
        assert limits.take(key, amount) == (there >= amount)
        left[key] = (there - amount if there >= amount else there), now[0]


def test_there_are_never_too_many_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "MAX_BUCKETS", 100)
    limits = Rates(1.0, 1.0, lambda: 0.0)
    for place in range(1000):
        assert limits.take(network_of(f"10.0.{place // 250}.{place % 250}"))
        assert not limits.take(network_of(f"10.0.{place // 250}.{place % 250}"))
        assert len(limits) <= 100
