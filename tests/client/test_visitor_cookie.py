"""A lasting id for visitors who are not logged in, by cookie; and the warning where ids do not last."""

from __future__ import annotations

import random
from http.cookies import SimpleCookie
from typing import Any

import pytest
from hypothesis import given, strategies as st

import interleaf
from interleaf.errors import ClientError
from tests.support.log_rows import made_rows, table_of

KNOWN = "0123456789abcdef" * 2


def test_the_cookie_that_is_set_gives_the_same_id_again() -> None:
    fresh = interleaf.visitor_id(None)
    assert fresh.set_cookie is not None
    (cookie,) = SimpleCookie(fresh.set_cookie).values()
    assert (cookie.key, cookie.value, cookie["samesite"], cookie["path"]) == ("interleaf_visitor", fresh.id, "Lax", "/")
    assert (cookie["secure"], cookie["httponly"], cookie["max-age"]) == (True, True, str(90 * 86_400))
    for cookies in ({cookie.key: cookie.value}, f'theme={{"a": "b;"}}; {cookie.key}={cookie.value}; lang=de'):
        assert interleaf.visitor_id(cookies) == (fresh.id, None)
    other = interleaf.visitor_id({}, name="my_id", days=7, secure=False)
    assert other.id != fresh.id
    assert other.set_cookie == f"my_id={other.id}; Max-Age=604800; Path=/; SameSite=Lax; HttpOnly"


@given(st.text(st.characters(exclude_categories=())) | st.dictionaries(st.text(), st.text() | st.none()))
def test_whatever_cookies_a_visitor_sends_there_is_an_id(cookies: Any) -> None:
    visitor = interleaf.visitor_id(cookies)
    assert len(visitor.id) == 32
    assert interleaf.visitor_id({"interleaf_visitor": KNOWN[:-1] + "\n"}).id != KNOWN


@pytest.mark.parametrize("wrong", [{"name": "a=b"}, {"name": ""}, {"name": "a; Domain=x"}, {"days": 0}, {"days": 1.5}])
def test_a_cookie_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ClientError, match="give"):
        interleaf.visitor_id({}, **wrong)


def warns(log: Any) -> bool:
    report = interleaf.analyze(log)
    return "units_come_back" in [check.code for check in report.health]


@pytest.mark.parametrize(("count", "units", "expected"), [(1000, 1000, True), (1000, 991, True), (1000, 990, False)])
def test_ids_that_do_not_last_are_warned_of(count: int, units: int, expected: bool) -> None:
    rows = [row | {"unit": f"u-{number % units}"} for number, row in enumerate(made_rows(count))]
    assert warns(table_of(rows)) == expected


def test_a_small_log_and_one_without_units_are_not_warned_of() -> None:
    rows = made_rows(1000)
    assert not warns(table_of([row | {"unit": row["impression"]} for row in rows[:999]]))
    assert not warns(table_of([row | {"unit": None} for row in rows]))  # which another check says


@pytest.mark.parametrize("seed", range(5))
def test_people_of_whom_few_come_back_are_not_warned_of(seed: int) -> None:
    """Of visits, one in twenty is by somebody who was here before; that it is fewer than 1 % has a chance of 1e-8."""
    chance, units = random.Random(seed), ["u-0"]
    for number in range(1, 1000):
        units.append(chance.choice(units) if chance.random() < 0.05 else f"u-{number}")
    rows = [row | {"unit": unit} for unit, row in zip(units, made_rows(1000), strict=True)]
    assert not warns(table_of(rows))
