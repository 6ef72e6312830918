"""Commands to copy: the analysis that gives the same numbers, and a first request."""

from __future__ import annotations

import json
import shlex

from interleaf.experiment import Experiment
from interleaf.store.tasks import report_settings_of


def exported(settings: Experiment, version: int) -> str:
    """The name of the exported log."""
    return f"{settings.name}-{version}.parquet"


def analysis(settings: Experiment, version: int, metric: str) -> str:
    """The command that makes the report of a metric from the exported log.

    >>> analysis(Experiment.of({"name": "shoes", "rankers": ["a", "b"], "by": ["device"]}), 1, "click")
    'interleaf analyze shoes-1.parquet --control a --events click --by device'
    """
    read, usual = report_settings_of(settings), Experiment.of({"name": settings.name, "rankers": settings.rankers})
    words = [exported(settings, version), "--control", settings.control, "--events"]
    words += [
        kind if weight == 1 else f"{kind}={weight!r}" for kind, weight in settings.metrics[metric].items() if weight
    ]
    if settings.scored_by is not None:
        words += ["--scheme", settings.scored_by]
    for option, name in (("--confidence", "confidence"), ("--planned-units", "planned_units")):
        if getattr(settings, name) != getattr(usual, name):
            words += [option, str(getattr(settings, name))]
    words += ["--aa"] if read.aa else []
    words += [] if read.holdout is None else ["--holdout", str(read.holdout)]
    words += ["--by", *settings.by] if settings.by else []
    return shlex.join(["interleaf", "analyze", *words])


def first_list(settings: Experiment, address: str, is_open: bool) -> str:
    """A request for a list; where the service is open, without a key."""
    rankings = {
        ranker: ["doc-1", "doc-2", "doc-3"][:: 1 if place % 2 == 0 else -1]
        for place, ranker in enumerate(settings.rankers)
    }
    body = {"unit": "user-7", "query": "trail shoes", "rankings": rankings}
    return _post(f"{address}/v1/experiments/{settings.name}/interleave", json.dumps(body, ensure_ascii=False), is_open)


def first_event(settings: Experiment, address: str, is_open: bool) -> str:
    """A report of an event."""
    event = {"impression": "THE ID FROM THE ANSWER", "rank": 1, "kind": settings.primary}
    return _post(f"{address}/v1/events", json.dumps({"events": [event]}, ensure_ascii=False), is_open)


def first_experiment(address: str, is_open: bool) -> str:
    """A request for a new experiment."""
    body = {"name": "shoes", "rankers": ["production", "candidate"]}
    return _post(f"{address}/v1/experiments", json.dumps(body), is_open)


def _post(address: str, body: str, is_open: bool) -> str:
    key = [] if is_open else ["-H", "Authorization: Bearer KEY"]
    return shlex.join(["curl", address, *key, "-H", "Content-Type: application/json", "-d", body])
