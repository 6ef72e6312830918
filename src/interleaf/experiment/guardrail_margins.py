"""Guardrails of a live experiment: metrics of arms, each with the largest harm that is acceptable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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


class GuardrailMargins:
    """Metrics of arms, each with a margin; empty: no guardrail."""

    schema: dict[str, Any] = {  # noqa: RUF012
        "type": "object",
        "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
        "maxProperties": MAX_GUARDRAILS,
        "examples": [EXAMPLE],
    }

    def check(self, value: Any) -> dict[str, float]:
        problems = list(find_problems(value))
        names = [name for name in value if isinstance(name, str)] if isinstance(value, Mapping) else []
        if any(sign in kind for kind in filter(None, map(kind_of, names)) for sign in "=,"):
            problems.append("leave '=' and ',' out of kinds: they cannot be typed into the form")
        if problems:
            raise ValueError("; ".join(problems))
        return {metric: float(margin) for metric, margin in value.items()}


def check_guardrails(experiment: Experiment) -> None:
    """Raise ExperimentError if the other settings leave guardrails nothing to compare."""
    if not experiment.guardrails:
        return
    if not experiment.holdout and experiment.mode != ONE_LIST:
        remedy = f"they compare arms, and there is one arm only; give a holdout, such as 0.1, or mode {ONE_LIST!r}"
        raise ExperimentError("guardrails", dict(experiment.guardrails), remedy)
    if ZERO_RESULTS in experiment.guardrails and experiment.chosen.stops_early:
        remedy = (
            f"with {experiment.method}, a search with an empty ranking is a fallback, so no list of the arms is empty; "
            f"give another value of fill, or leave {ZERO_RESULTS!r} out"
        )
        raise ExperimentError("guardrails", dict(experiment.guardrails), remedy)
