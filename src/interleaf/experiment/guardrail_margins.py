"""Guardrails of a live experiment: metrics of arms, each with the largest harm that is acceptable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interleaf.metrics.guardrail_metrics import (
    EXAMPLE,
    MAX_GUARDRAILS,
    REFORMULATION,
    ZERO_RESULTS,
    find_problems,
    kind_of,
)

# Why the service cannot compute a metric, with the remedy.
NOT_LIVE = {
    REFORMULATION: "the service does not join searches to sessions; send an event when a person asks again and watch "
    "'more:KIND', or analyze the exported log with sessions",
    ZERO_RESULTS: "the service shows the list of another ranker in place of an empty one; watch the health check "
    "Fallbacks, or analyze a log of your own that has the empty lists",
}


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
        problems += [f"{name!r}: {NOT_LIVE[name]}" for name in names if name in NOT_LIVE]
        if any(sign in kind for kind in filter(None, map(kind_of, names)) for sign in "=,"):
            problems.append("leave '=' and ',' out of kinds: they cannot be typed into the form")
        if problems:
            raise ValueError("; ".join(problems))
        return {metric: float(margin) for metric, margin in value.items()}
