"""Which requests take part, and whose they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interleaf import log
from interleaf.client.visitors import COOKIE
from tests.support.proxies import BODY, RunningProxy, running_proxy
from tests.support.stub_engine import OLD, StubEngine

Start = Callable[..., RunningProxy]


def units(folder: Path) -> list[str]:
    return [row["unit"] for batch in log.read(folder / "log") for row in batch.to_pylist()]


def test_the_header_comes_before_the_cookie_and_a_cookie_is_hashed(engine: StubEngine, tmp_path: Path) -> None:
    with running_proxy(engine.url, tmp_path, unit='header = "X-User"\ncookie = "sid"') as proxy:
        proxy.search(unit="ann", Cookie="sid=secret")
        reply = proxy.search(unit="", Cookie="a=1; sid=secret; sid=other")
    first, second = units(tmp_path)
    assert first == "ann"
    assert (len(second), second.count("secret")) == (32, 0)
    assert COOKIE not in str([value for name, value in reply.headers if name == "set-cookie"])


def test_a_user_without_an_id_gets_a_cookie(engine: StubEngine, tmp_path: Path) -> None:
    with running_proxy(engine.url, tmp_path) as proxy:
        reply = proxy.search(unit="")
        (cookie,) = [value for name, value in reply.headers if name == "set-cookie" and value.startswith(COOKIE)]
        again = proxy.search(unit="", Cookie=cookie.partition(";")[0])
    assert cookie.endswith("Path=/; SameSite=Lax; HttpOnly; Secure")
    assert COOKIE not in str([value for name, value in again.headers if name == "set-cookie"])
    assert again.ids == reply.ids
    assert units(tmp_path) == [cookie.partition("=")[2].partition(";")[0]]


def test_without_a_cookie_of_its_own_a_user_without_an_id_is_left_out(start: Start) -> None:
    proxy = start(unit="own_cookie = false")
    assert proxy.search(unit="").ids == OLD[:10]
    assert proxy.bypassed == {"no_unit": 1}


@pytest.mark.parametrize("unit", ["x" * 5000, "a\tb", "\xe4\xf6", "'; DROP TABLE", "%00"])
def test_hostile_user_ids(engine: StubEngine, tmp_path: Path, unit: str) -> None:
    with running_proxy(engine.url, tmp_path) as proxy:
        assert proxy.search(unit=unit).note["impression"]
    assert len(units(tmp_path)[0]) <= 250


def test_users_outside_of_the_share_get_the_engine_s_answer(start: Start, tmp_path: Path) -> None:
    log_key = f'log = "{tmp_path / "log"}"'
    proxy = start(experiment=f"{log_key}\nshare = 0.5", unit="")
    replies = [proxy.search(unit="") for _ in range(40)]
    outside = [reply for reply in replies if "ext" not in reply.json]
    assert 5 < len(outside) < 35
    assert all(COOKIE in str(reply.headers) for reply in replies)  # they stay outside
    assert proxy.bypassed == {"outside": len(outside)}


def test_users_outside_of_the_share_stay_outside_if_they_search_by_msearch(start: Start, tmp_path: Path) -> None:
    proxy = start(experiment=f'log = "{tmp_path / "log"}"\nshare = 0.0001', unit="")
    lines = [{"index": "products"}, BODY, {"index": "products"}, BODY]
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    reply = proxy.ask("POST", "/_msearch", body, {"Content-Type": "application/x-ndjson"})
    assert COOKIE in str(reply.headers)
    assert proxy.bypassed == {"outside": 1}


def test_the_holdout_sees_the_control_and_is_logged(engine: StubEngine, tmp_path: Path) -> None:
    log_key = f'log = "{tmp_path / "log"}"'
    with running_proxy(engine.url, tmp_path, experiment=f"{log_key}\nholdout = 0.5") as proxy:
        ids = {tuple(proxy.search(unit=f"user-{number}").ids) for number in range(12)}
    assert tuple(OLD[:10]) in ids
    arms = [row["arm"] for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert set(arms) == {"interleaved", "holdout"}


@pytest.mark.parametrize(
    ("where", "body", "path", "headers", "holds"),
    [
        ('{ pointer = "/ext/page", equals = "results" }', {"ext": {"page": "results"}}, "", {}, True),
        ('{ pointer = "/ext/page", equals = "results" }', {"ext": {"page": "home"}}, "", {}, False),
        ('{ pointer = "/size", equals = 10 }', {"size": 10}, "", {}, True),
        ('{ pointer = "/track_scores", equals = 1 }', {"track_scores": True}, "", {}, False),
        ('{ pointer = "/query/multi_match/fields/1" }', {}, "", {}, True),
        ('{ pointer = "/query/bool" }', {}, "", {}, False),
        ('{ parameter = "channel", equals = "web" }', {}, "?channel=app&channel=web", {}, True),
        ('{ parameter = "channel" }', {}, "", {}, False),
        ('{ header = "X-Page", equals = "results" }', {}, "", {"X_Page": "results"}, True),
        ('{ header = "X-Page" }', {}, "", {}, False),
    ],
)
def test_conditions(
    start: Start, where: str, body: dict[str, Any], path: str, headers: dict[str, str], holds: bool
) -> None:
    proxy = start(requests=f"where = [{where}]")
    reply = proxy.search(BODY | body, path=f"/products/_search{path}", **headers)
    assert ("ext" in reply.json) == holds
    assert proxy.bypassed == ({} if holds else {"condition": 1})


def test_paths_and_methods(start: Start, engine: StubEngine) -> None:
    proxy = start(path="/products-*/_search", requests='methods = ["POST"]')
    assert "ext" in proxy.search(path="/products-de/_search").json
    for method, path in [
        ("GET", "/products-de/_search"),
        ("POST", "/products/_search"),
        ("POST", "/products-de/_count"),
    ]:
        assert "ext" not in proxy.ask(method, path, b"{}", {"Content-Type": "application/json"}).json
    assert not proxy.bypassed


@pytest.mark.parametrize("path", ["/products/_search", "/products/_search/"])
def test_a_get_with_parameters_only_takes_part(start: Start, engine: StubEngine, tmp_path: Path, path: str) -> None:
    proxy = start(candidate='index = "products-v2"')
    reply = proxy.ask("GET", f"{path}?q=shoes&size=5&from=5", headers={"X-User": "u"})
    proxy.app.recorder.close()
    (row,) = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert row["query"] == "shoes"
    assert len(reply.ids) == 5
    assert {one.parameters["q"][0] for one in engine.asked} == {"shoes"}
    assert not proxy.bypassed


def test_a_compressed_body_takes_part(proxy: RunningProxy, engine: StubEngine) -> None:
    import gzip

    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip", "X-User": "user-7"}
    reply = proxy.ask("POST", "/products/_search", gzip.compress(json.dumps(BODY).encode()), headers)
    assert reply.ids == proxy.search().ids
    bomb = gzip.compress(bytes(5_000_000))
    engine.search = lambda *arguments: (200, {})  # type: ignore[method-assign]
    engine.asked.clear()

    async def fault(asked: object, send: Callable[[bytes], Any]) -> bool:
        await send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        return True

    engine.fault = fault
    assert proxy.ask("POST", "/products/_search", bomb, headers).body == b"{}"
    assert engine.asked[0].body == bomb
    assert proxy.bypassed == {"not_json": 1}


def test_a_body_above_the_limit_passes_through(start: Start, engine: StubEngine) -> None:
    proxy = start(proxy="max_body = 1000")
    body = BODY | {"ext": {"padding": "x" * 200_000}}
    assert proxy.search(body).ids == OLD[:10]
    assert proxy.bypassed == {"body_too_large": 1}
