"""Assigns users to an experiment by hashing: interleaved lists, holdout, or outside."""

from __future__ import annotations

from collections.abc import Iterable

from interleaf.errors import ExperimentError
from interleaf.experiment.settings import Experiment
from interleaf.kernels.buckets import hash_of
from interleaf.log.schema import HOLDOUT, INTERLEAVED

OUTSIDE = "outside"
_LANE, _HOLDOUT = "interleaf-lane", "interleaf-holdout"


def assign(experiment: Experiment, unit: str) -> str:
    """Whether a unit sees interleaved lists, is held out, or is outside of the experiment.

    >>> shoes = Experiment.of({"name": "shoes", "rankers": ["production", "candidate"], "holdout": 0.05})
    >>> assign(shoes, "user-7")
    'interleaved'
    """
    if experiment.share < 1:
        start = experiment.offset or 0.0
        if not start <= _place(f"{_LANE} {experiment.lane or experiment.name}", unit) < start + experiment.share:
            return OUTSIDE
    is_held_out = experiment.holdout > 0 and _place(f"{_HOLDOUT} {experiment.name}", unit) < experiment.holdout
    return HOLDOUT if is_held_out else INTERLEAVED


def free_place(experiment: Experiment, running: Iterable[Experiment]) -> float:
    """A free offset in the lane of an experiment, next to the experiments that run there."""
    if experiment.lane is None:
        return 0.0
    places = sorted((one.offset or 0.0, one.share, one.name) for one in running if one.lane == experiment.lane)
    start = 0.0
    if experiment.offset is not None:
        end = experiment.offset + experiment.share
        for begin, share, name in places:
            if begin < end - 1e-9 and experiment.offset < begin + share - 1e-9:
                remedy = f"{name!r} has {begin:g} to {begin + share:g} of the lane"
                raise ExperimentError("offset", experiment.offset, remedy)
        return experiment.offset
    for begin, share, _ in places:
        if start + experiment.share <= begin + 1e-9:
            break
        start = max(start, begin + share)
    if start + experiment.share > 1 + 1e-9:
        names = ", ".join(name for _, _, name in places)
        remedy = f"lane {experiment.lane!r} has no free share of this size next to {names}"
        raise ExperimentError("share", experiment.share, remedy)
    return min(start, 1 - experiment.share)


def _place(salt: str, unit: str) -> float:
    return hash_of(salt, unit) / 2**64
