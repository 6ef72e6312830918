"""Guardrails of a live experiment: metrics of arms, each with the largest harm that is acceptable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from interleaf.errors import ExperimentError
from interleaf.methods.registry import ONE_LIST
from interleaf.metrics.guardrail_metrics import (
    EXAMPLE,
    MAX_GUARDRAILS,
    ZERO_RESULTS,
    find_problems,
    kind_of,
)

if TYPE_CHECKING:
    from interleaf.experiment.settings import Experiment


def _check_margins(margins: Mapping[str, Any]) -> dict[str, float]:
    problems = list(find_problems(margins))
    if any(sign in kind for kind in filter(None, map(kind_of, margins)) for sign in "=,"):
        problems.append("leave '=' and ',' out of kinds: they cannot be typed into the form")
    if problems:
        raise ValueError("; ".join(problems))
    return {metric: float(margin) for metric, margin in margins.items()}


_MARGIN = {"type": "number", "exclusiveMinimum": 0}
GuardrailMargins = Annotated[
    Mapping[str, Any],
    Meta(extra_json_schema={"additionalProperties": _MARGIN, "maxProperties": MAX_GUARDRAILS, "examples": [EXAMPLE]}),
    f"give metrics with a margin each, such as {EXAMPLE}",
    _check_margins,
]


def check_guardrails(experiment: Experiment) -> None:
    """Raise ExperimentError if the other settings leave guardrails nothing to compare."""
    if not experiment.guardrails:
        return
    if not experiment.holdout and experiment.mode != ONE_LIST:
        remedy = f"they compare arms, and there is one arm only; give a holdout, such as 0.1, or mode {ONE_LIST!r}"
        raise ExperimentError("guardrails", dict(experiment.guardrails), remedy)
    if ZERO_RESULTS in experiment.guardrails and experiment.resolved_method.stops_early:
        remedy = (
            f"with {experiment.method}, a search with an empty ranking is a fallback, so no list of the arms is empty; "
            f"give another value of fill, or leave {ZERO_RESULTS!r} out"
        )
        raise ExperimentError("guardrails", dict(experiment.guardrails), remedy)
