"""The metrics that a guardrail can watch, each with a margin: the largest harm that is acceptable, in its own unit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from interleaf.errors import suggest

ABANDONMENT, LATENCY, ZERO_RESULTS, REFORMULATION = "abandonment", "latency", "zero_results", "reformulation"
FEWER, MORE = "event:", "more:"  # before a kind of event: fewer of them are harm, or more of them
MEANINGS = {
    ABANDONMENT: "share of searches without an event that counts; more is harm",
    LATENCY: "mean milliseconds until the list was ready; more is harm",
    ZERO_RESULTS: "share of searches with an empty list; more is harm",
    REFORMULATION: "share of searches followed by another search in the same session; more is harm",
    f"{FEWER}KIND": "share of searches with an event of this kind; less is harm",
    f"{MORE}KIND": "share of searches with an event of this kind; more is harm",
}
MAX_GUARDRAILS, MAX_KIND = 20, 100
EXAMPLE = {ABANDONMENT: 0.02, LATENCY: 20, f"{FEWER}purchase": 0.01}


def kind_of(metric: str) -> str | None:
    """The kind of event that a metric is about, if it is about one.

    >>> kind_of("event:purchase"), kind_of("more:complaint"), kind_of("latency")
    ('purchase', 'complaint', None)
    """
    prefix = next((prefix for prefix in (FEWER, MORE) if metric.startswith(prefix)), None)
    return None if prefix is None else metric.removeprefix(prefix)


def harm_sign(metric: str) -> int:
    """1 if more of the metric is harm, -1 if less of it is."""
    return -1 if metric.startswith(FEWER) else 1


def guarded_kinds(metrics: Iterable[str]) -> tuple[str, ...]:
    """The kinds of events that some metrics are about, sorted.

    >>> guarded_kinds(["latency", "event:purchase", "more:complaint"])
    ('complaint', 'purchase')
    """
    kinds = {kind_of(metric) for metric in metrics if isinstance(metric, str)}
    return tuple(sorted(kind for kind in kinds if kind is not None))


def joined_gap(metrics: Iterable[str], sessions: float | None = None) -> float | None:
    """The gap at which searches are joined to sessions for some metrics: 30 minutes; None if none of them needs
    sessions, or if searches are joined anyway.

    >>> joined_gap(["latency"]), joined_gap(["reformulation"]), joined_gap(["reformulation"], sessions=600)
    (None, 1800, None)
    """
    from interleaf.metrics.absolute import GAP

    return GAP if REFORMULATION in metrics and sessions is None else None


def find_problems(guardrails: object) -> Iterator[str]:
    """What is wrong with guardrails, with the remedy.

    >>> list(find_problems({"latancy": 20, "event:purchase": 0}))
    ["there is no metric 'latancy' for a guardrail; there are 'abandonment', 'latency', 'zero_results', \
'reformulation', 'event:KIND' or 'more:KIND'; did you mean 'latency'?", \
"the margin of 'event:purchase' is 0; give the largest harm that is acceptable, a share above 0 and below 1"]
    """
    if not isinstance(guardrails, Mapping):
        yield f"guardrails are {guardrails!r}; give metrics with a margin each, such as {EXAMPLE}"
        return
    if len(guardrails) > MAX_GUARDRAILS:
        yield f"there are {len(guardrails)} guardrails; give at most {MAX_GUARDRAILS}, those that would stop a launch"
    for metric, margin in guardrails.items():
        kind = kind_of(metric) if isinstance(metric, str) else None
        if metric not in MEANINGS and kind is None:
            yield f"there is no metric {metric!r} for a guardrail; there are {suggest(str(metric), MEANINGS)}"
        elif kind is not None and (not 0 < len(kind) <= MAX_KIND or not kind.isprintable()):
            yield f"the guardrail {metric!r} does not name a kind of event; give one, such as '{FEWER}purchase'"
        elif metric in (f"{FEWER}KIND", f"{MORE}KIND"):
            yield f"replace KIND in the guardrail {metric!r} by a kind of event, such as '{FEWER}purchase'"
        else:
            yield from _find_margin_problem(metric, margin)


def _find_margin_problem(metric: str, margin: object) -> Iterator[str]:
    most = math.inf if metric == LATENCY else 1.0
    is_number = isinstance(margin, int | float) and not isinstance(margin, bool)
    if not is_number or not 0 < margin < most:  # type: ignore[operator]
        form = "milliseconds above 0" if metric == LATENCY else "a share above 0 and below 1"
        yield f"the margin of {metric!r} is {margin!r}; give the largest harm that is acceptable, {form}"
