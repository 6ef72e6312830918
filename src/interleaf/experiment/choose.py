"""The choice of the best of many rankers: its settings, its epochs, and the rankers of a user in an epoch.

Time is divided into epochs, which are numbered from 1970 on, so that the number follows from the time. In an epoch,
the rankers and their shares stay the same. A user belongs to one of the groups of rankers of an epoch, by a hash of the
user and the epoch. Only the rankers of that group are run and mixed for the user.
"""

from __future__ import annotations

import math
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
_MINUTE, _DAY = 60_000_000, 86_400_000_000  # in microseconds


def check_choice(experiment: Experiment) -> None:
    """Raise ExperimentError if the settings do not fit a choice of the best of many rankers."""
    rankers, least_most = experiment.rankers, experiment.chosen.rankers
    if len(rankers) < MIN_CHOSEN:
        remedy = f"give {MIN_CHOSEN} to {MAX_CHOSEN:,} rankers; compare two rankers with the mode 'compare'"
        raise ExperimentError("rankers", rankers, remedy)
    least, most = least_most[0], least_most[1] or MAX_MIXED
    if not least <= 2 <= experiment.mixed <= most:
        remedy = f"{experiment.method} mixes {least} to {most} rankers, and a choice mixes 2 to max_mixed; give another"
        raise ExperimentError("method" if least > 2 else "max_mixed", experiment.max_mixed, remedy)
    if experiment.scheme is None and experiment.chosen.scheme(None, 2) != experiment.chosen.scheme(
        None, experiment.mixed
    ):
        offered = join_names(experiment.chosen.method.schemes_for(experiment.mixed))
        remedy = f"lists of two and of more rankers have different schemes in {experiment.method}; give {offered}"
        raise ExperimentError("scheme", None, remedy)
    if experiment.planned_units is not None and experiment.planned_units <= len(rankers):
        remedy = f"there are {len(rankers)} rankers; plan for many more units than rankers, or give fewer rankers"
        raise ExperimentError("planned_units", experiment.planned_units, remedy)
    if experiment.max_units is not None and experiment.max_units <= len(rankers):
        remedy = f"there are {len(rankers)} rankers; give a budget of many more units, or fewer rankers"
        raise ExperimentError("max_units", experiment.max_units, remedy)
    if experiment.planned_days is not None and 2 * epoch_length(experiment) > experiment.planned_days * _DAY:
        remedy = (
            f"the experiment of {experiment.planned_days:g} days has no two epochs, so nothing would be learned from "
            "the first; give shorter epochs, or more planned days"
        )
        raise ExperimentError("epoch_minutes", experiment.epoch_minutes, remedy)
    if experiment.values:
        remedy = "rankers are chosen by clicks and other events, not by their values; leave the setting out"
        raise ExperimentError("values", experiment.values, remedy)


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
