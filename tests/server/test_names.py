"""Every address with names that exist, that do not, and that match the body: never a 5xx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings, strategies as st

from interleaf.server.dashboard.routes import PAGE_ROUTES
from interleaf.server.openapi import CALLS
from tests.support.services import RANKINGS, SHOES, Live, live

STATES = ("draft", "shoes", "stopped", "decided")
names = st.one_of(
    st.sampled_from([*STATES, "nope", "new", "Shoes", "shoes ", "a" * 101, "%00", "..", "interleave"]),
    st.text(st.characters(codec="utf-8", exclude_characters="/?#"), min_size=1, max_size=20),
)
EXACT = sorted({(call.method, call.path) for call in (*CALLS, *PAGE_ROUTES)})
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("names"), requests_per_second=1e9) as found:
        for name in STATES:
            found.make(start=name != "draft", name=name)
        for name in ("stopped", "decided"):
            assert found.ask("POST", f"/v1/experiments/{name}/stop").status_code == 200
        assert found.ask("POST", "/v1/experiments/decided/decide", {"decision": "keep"}).status_code == 200
        yield found


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(EXACT), names, st.one_of(st.none(), names), st.booleans())
def test_no_name_breaks_an_address(
    service: Live, address: tuple[str, str], name: str, other: str | None, is_form: bool
) -> None:
    method, path = address
    body = {**SHOES, "name": name if other is None else other}
    place = path.replace("{name}", quote(name, safe="")).replace("{unit:path}", quote(name, safe=""))
    more: dict[str, Any] = {"data": {"name": body["name"]}} if is_form else {"json": body}
    answer = service.ask(method, place, **({} if method in ("GET", "DELETE") else more))
    assert answer.status_code < 500, (address, name, other, answer.text)


@pytest.mark.parametrize(("method", "path"), [(m, p) for m, p in EXACT if "{name}" in p])
def test_what_does_not_exist_is_not_found(service: Live, method: str, path: str) -> None:
    # Not "nope": the test above may have made an experiment of that name.
    bodies: dict[str, Any] = {
        "/interleave": {"rankings": RANKINGS},
        "/decide": {"decision": "keep"},
        "/choose": {"unit": "u"},
    }
    body = next((made for end, made in bodies.items() if path.endswith(end)), {**SHOES, "name": "missing"})
    if path.startswith("/v1"):
        answer = service.ask(method, path.replace("{name}", "missing"), None if method == "GET" else body)
        assert answer.status_code == 404, answer.text
        assert "'missing'" in answer.json()["error"]["message"]
    elif method == "GET":
        assert service.ask(method, path.replace("{name}", "missing")).status_code == 404


@pytest.mark.parametrize("path", sorted({path for _, path in EXACT} | {"/openapi.json", "/static/interleaf.js"}))
def test_another_method_is_refused_with_those_that_are_possible(service: Live, path: str) -> None:
    place = path.replace("{name}", "shoes").replace("{unit:path}", "u/7")
    possible = {method for method, other in EXACT if other == path} or {"GET"}
    possible |= {"HEAD"} if "GET" in possible else set()
    for method in METHODS:
        answer = service.ask(method, place, follow_redirects=False)
        if method in possible:
            assert answer.status_code != 405
        else:
            assert answer.status_code == 405
            assert set(answer.headers["allow"].split(", ")) == possible
