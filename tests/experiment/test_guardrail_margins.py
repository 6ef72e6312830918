"""Guardrails in the settings of an experiment: what is refused, with the remedy, and what makes a new version."""

from __future__ import annotations

from typing import Any

import pytest

from interleaf.errors import ExperimentError
from interleaf.experiment import Experiment

SHOES: dict[str, Any] = {"name": "shoes", "rankers": ["a", "b"]}
RAILS = {
    "abandonment": 0.02,
    "latency": 20,
    "event:purchase": 0.01,
    "more:complaint": 0.005,
    "zero_results": 0.01,
    "reformulation": 0.1,
}


@pytest.mark.parametrize("more", [{"holdout": 0.1}, {"mode": "one_list"}, {"mode": "aa", "holdout": 0.5}])
def test_guardrails_need_two_arms(more: dict[str, Any]) -> None:
    settings = Experiment.of(SHOES | more | {"guardrails": RAILS})
    assert settings.guardrails == RAILS
    assert Experiment.of(settings.to_dict()) == settings
    with pytest.raises(ExperimentError, match="there is one arm only; give a holdout"):
        Experiment.of(SHOES | {"guardrails": RAILS})


@pytest.mark.parametrize(
    ("rails", "remedy"),
    [
        ({"latency": 0}, "the margin of 'latency' is 0; give the largest harm"),
        ({"latancy": 5}, "did you mean 'latency'"),
        ({"event:a,b": 0.1}, "leave '=' and ',' out of kinds"),
        (["latency"], "give metrics with a margin each"),
        ({"latency": -1, "abandonment": 2}, "the margin of 'abandonment' is 2; give"),
    ],
)
def test_wrong_guardrails_are_refused_with_the_remedy(rails: Any, remedy: str) -> None:
    with pytest.raises(ExperimentError) as error:
        Experiment.of(SHOES | {"holdout": 0.1, "guardrails": rails})
    assert error.value.field == "guardrails"
    assert remedy in str(error.value)


@pytest.mark.parametrize("method", ["team_draft(fill=stop)", "balanced(fill=False)"])
def test_zero_results_are_refused_where_an_empty_ranking_is_a_fallback(method: str) -> None:
    settings = SHOES | {"holdout": 0.1, "method": method}
    assert Experiment.of(settings | {"guardrails": {"latency": 20}}).guardrails
    with pytest.raises(ExperimentError, match="no list of the arms is empty; give another value of fill"):
        Experiment.of(settings | {"guardrails": {"zero_results": 0.01}})


def test_the_stop_rule_needs_guardrails() -> None:
    assert Experiment.of(SHOES | {"holdout": 0.1, "guardrails": RAILS, "stop_when": ["guardrail"]}).stop_when
    with pytest.raises(ExperimentError, match="the rule 'guardrail' needs guardrails"):
        Experiment.of(SHOES | {"holdout": 0.1, "stop_when": ["guardrail"]})


def test_other_margins_make_a_new_version() -> None:
    one = Experiment.of(SHOES | {"holdout": 0.1, "guardrails": RAILS})
    assert one.needs_new_version(Experiment.of(one.to_dict() | {"guardrails": RAILS | {"latency": 30}}))
