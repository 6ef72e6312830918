"""The choice of the best of many rankers: its settings, its epochs, and the rankers of a user in an epoch.

Time is divided into epochs, which are numbered from 1970 on, so that the number follows from the time. In an epoch,
the rankers and their shares stay the same. A user belongs to one of the groups of rankers of an epoch, by a hash of the
user and the epoch. Only the rankers of that group are run and mixed for the user.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING

from interleaf.errors import ExperimentError, join_names

if TYPE_CHECKING:
    from interleaf.experiment.settings import Experiment

DOUBLE_THOMPSON, SELF_SPARRING, UNIFORM_PAIRS = "double_thompson", "self_sparring", "uniform_pairs"
ALGORITHM_NAMES = (DOUBLE_THOMPSON, SELF_SPARRING, UNIFORM_PAIRS)  # those of `dueling_bandits` without a state
MIN_CHOSEN, MAX_CHOSEN = 3, 1000  # rankers
MAX_MIXED = 10  # rankers in one list
MAX_OVERLAP = 60.0  # seconds for which a list may still be of the epoch before
OVERLAP_SHARE = 0.1  # of an epoch, if that is less
CHOICE_SETTINGS = ("epoch_minutes", "algorithm", "max_mixed", "planned_days")  # settings that no other mode has
_BY_EVENTS = "rankers are chosen by clicks and other events, not by their values; leave the setting out"
_WITHOUT_EFFECT = {
    "values": _BY_EVENTS,
    "value_margin": _BY_EVENTS,
    "by": "the report of a choice is not split by attributes; leave the setting out",
}
_ALIKE = "alike"  # a stop rule
_MINUTE, _DAY = 60_000_000, 86_400_000_000  # in microseconds


def check_choice(experiment: Experiment, chooses: bool) -> None:
    """Raise ExperimentError if settings do not fit: those of a choice of the best of many, or of another experiment."""
    if not chooses:
        remedy = "this is for the purpose (mode) 'choose', the best of many rankers; give that one, or leave this out"
        _refuse(experiment, dict.fromkeys(CHOICE_SETTINGS, remedy))
        return
    _check_rankers(experiment)
    _check_epochs(experiment)
    _refuse(experiment, _WITHOUT_EFFECT)
    if _ALIKE in experiment.stop_when:
        remedy = f"a choice never finds all rankers alike; leave {_ALIKE!r} out: the rule 'decided' stops a choice"
        raise ExperimentError("stop_when", list(experiment.stop_when), remedy)


def _refuse(experiment: Experiment, remedies: Mapping[str, str]) -> None:
    """Raise ExperimentError if one of these settings differs from its default."""
    for one in fields(experiment):
        if one.name in remedies and one.default_factory is not MISSING:
            value = getattr(experiment, one.name)
            if value != one.default_factory():
                raise ExperimentError(one.name, value, remedies[one.name])


def _check_rankers(experiment: Experiment) -> None:
    """Raise ExperimentError if there are too few or too many rankers, units or rankers in a list."""
    rankers, method, size = experiment.rankers, experiment.resolved_method, experiment.rankers_per_list
    if len(rankers) < MIN_CHOSEN:
        remedy = f"give {MIN_CHOSEN} to {MAX_CHOSEN:,} rankers; compare two rankers with the mode 'compare'"
        raise ExperimentError("rankers", rankers, remedy)
    min_rankers, max_rankers = method.rankers[0], method.rankers[1] or MAX_MIXED
    if not min_rankers <= 2 <= size <= max_rankers:
        sizes = f"{min_rankers} to {max_rankers} rankers"
        remedy = f"{experiment.method} mixes {sizes}, and a choice mixes 2 to max_mixed; give another"
        raise ExperimentError("method" if min_rankers > 2 else "max_mixed", experiment.max_mixed, remedy)
    if experiment.scheme is None and method.scheme(None, 2) != method.scheme(None, size):
        offered = join_names(method.method.schemes_for(size))
        remedy = f"lists of two and of more rankers have different schemes in {experiment.method}; give {offered}"
        raise ExperimentError("scheme", None, remedy)
    if experiment.planned_units is not None and experiment.planned_units <= len(rankers):
        remedy = f"there are {len(rankers)} rankers; plan for many more units than rankers, or give fewer rankers"
        raise ExperimentError("planned_units", experiment.planned_units, remedy)
    if experiment.max_units is not None and experiment.max_units <= len(rankers):
        remedy = f"there are {len(rankers)} rankers; give a budget of many more units, or fewer rankers"
        raise ExperimentError("max_units", experiment.max_units, remedy)


def _check_epochs(experiment: Experiment) -> None:
    """Raise ExperimentError if no result can be used before the planned end."""
    first = -last_known(experiment, 0)  # so many epochs later the results of the first one can be used
    if experiment.planned_days is not None and experiment.planned_days * _DAY <= first * epoch_length(experiment):
        remedy = (
            f"the results of an epoch can be used {first} epochs later, when its attribution window of "
            f"{experiment.window_minutes:g} minutes is over, and {experiment.planned_days:g} planned days have no such "
            "epoch; give shorter epochs, a shorter window (window_minutes), or more planned days"
        )
        raise ExperimentError("epoch_minutes", experiment.epoch_minutes, remedy)


def epoch_length(experiment: Experiment) -> int:
    """The length of an epoch in microseconds."""
    return round(experiment.epoch_minutes * _MINUTE)


def epoch_at(experiment: Experiment, time: int) -> int:
    """The number of the epoch at a time in microseconds since 1970."""
    return time // epoch_length(experiment)


def epoch_start(experiment: Experiment, epoch: int) -> int:
    """When an epoch begins, in microseconds since 1970."""
    return epoch * epoch_length(experiment)


def overlap(experiment: Experiment) -> int:
    """Microseconds after the start of an epoch in which lists may still be of the epoch before.

    A page asks which rankers to run, runs them, and asks for the list; an epoch may begin in between.
    """
    return round(min(MAX_OVERLAP * 1e6, OVERLAP_SHARE * epoch_length(experiment)))


def last_known(experiment: Experiment, epoch: int) -> int:
    """The last epoch whose results are known when this epoch begins: no event of it can arrive any more."""
    wait = experiment.window + overlap(experiment)
    return epoch - 1 - math.ceil(wait / epoch_length(experiment))
