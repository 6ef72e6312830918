"""How an experiment is scored and reported: the service, the dashboard and `analyze` of its exported log agree."""

from __future__ import annotations

from interleaf.decode import Counting
from interleaf.engines.work import Task
from interleaf.experiment import Experiment
from interleaf.experiment.settings import AA, RELABELLED
from interleaf.report.rule import Settings
from interleaf.score import Scoring


def task_of(settings: Experiment, version: int, metric: str) -> Task:
    """What to make of the impressions of a version, for one of its metrics.

    >>> shoes = Experiment.of({"name": "shoes", "rankers": ["a", "b"], "events": {"click": 1, "purchase": 5}})
    >>> print(task_of(shoes, 1, "weighted").scoring.counting)
    click + 5 purchase
    """
    weights = {kind: weight for kind, weight in settings.metrics[metric].items() if weight}
    scoring = Scoring(settings.scored_by, counting=Counting(weights))
    return Task(scoring, settings.by, experiment=settings.name, version=version)


def report_settings_of(settings: Experiment) -> Settings:
    """How its tally is read.

    >>> report_settings_of(Experiment.of({"name": "shoes", "rankers": ["a", "b"], "holdout": 0.1})).holdout
    0.1
    """
    return Settings(
        control=settings.control,
        confidence=settings.confidence,
        planned_units=settings.planned_units,
        aa=settings.mode in (AA, RELABELLED),
        holdout=settings.holdout or None,
    )
