"""The options of every verb that reads a log: one declaration, one name and default in all functions and commands."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

import interleaf
from interleaf.decode.columns import Exclusion
from interleaf.errors import DataError, MethodError
from interleaf.execution.options import LogOptions
from tests.support.log_rows import made_rows, table_of

VERBS: dict[str, Callable[..., Any]] = {
    verb: getattr(interleaf, verb) for verb in ("analyze", "plan", "learn", "caption", "reuse")
}
OPTIONS = {option.name: option for option in fields(LogOptions)}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_names_its_options_in_its_signature(verb: str) -> None:
    parameters = inspect.signature(VERBS[verb]).parameters
    assert all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values())
    names = {name for name, option in OPTIONS.items() if verb in option.metadata.get("arguments", (verb,))}
    assert names == OPTIONS.keys() & parameters.keys()
    assert {name: parameters[name].default for name in names} == {name: OPTIONS[name].default for name in names}


def test_a_tally_has_the_options_of_analyze() -> None:
    tally, analyze = (inspect.signature(call).parameters for call in (interleaf.tally_log, interleaf.analyze))
    assert OPTIONS.keys() == tally.keys() - {"log"}
    # The events of analyze may also be a table.
    assert all(str(tally[name]) == str(analyze[name]) for name in OPTIONS.keys() - {"events"})
    assert tally["events"].default == analyze["events"].default


WRONG = {"events": {"": 1, "purchase": 0}, "dwell": -1, "window": 0, "engine": "cloud", "method": "team_craft"}


@pytest.mark.parametrize("call", [interleaf.analyze, interleaf.tally_log, interleaf.learn, interleaf.caption])
def test_all_problems_are_listed_at_once(call: Callable[..., Any]) -> None:
    with pytest.raises(DataError) as caught:
        call(table_of(made_rows(3)), **WRONG)
    assert len(caught.value.problems) == len(WRONG) + 1
    assert str(caught.value).startswith("6 problems:\n  - ")
    for value in ("''", "'purchase' is 0", "dwell is -1", "window is 0", "'cloud'", "'team_craft'"):
        assert value in str(caught.value)


def test_a_single_problem_keeps_its_type() -> None:
    with pytest.raises(MethodError, match="unknown method 'team_craft'"):
        LogOptions(method="team_craft")
    with pytest.raises(DataError, match="threads is -1"):
        LogOptions(threads=-1)


def test_changed_options_are_those_that_differ_from_their_defaults() -> None:
    assert LogOptions(progress=print, by=[], events="click").changed == []
    options = LogOptions(scheme="click", first=True, exclude=Exclusion(units=["u-1"]), engine="local")
    assert options.changed == ["scheme", "first", "exclude", "engine"]
