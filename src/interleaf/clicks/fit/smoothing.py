"""Expectation-maximisation with a prior: how it climbs, when it ends, and how strong the prior should be.

A prior of strength s and mean m counts as s observations, of which s * m are clicks: Beta(1 + s m, 1 + s (1 - m)),
of which the mode is taken. Most pairs of a real log are seen a few times only, so that nothing matters more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from interleaf.clicks.fit.fitted import Fitted
from interleaf.clicks.pages import Pages
from interleaf.errors import ClickError
from interleaf.methods.arrays import Array

STRENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
HELD_SHARE, HELD_SEED = 0.2, 0
Tried = tuple[tuple[float, float], ...]
State = TypeVar("State")
Model = TypeVar("Model", bound=Fitted)


@dataclass(frozen=True)
class Report:
    """How a fit went: the prior's strength, and the log-likelihood with the log prior after each round of EM.

    `tried` holds strengths and the log-likelihood a page each reached on sessions held out of the training pages;
    empty where the strength was given. EM never lowers its objective; `converged` says that it ended before the limit.
    """

    strength: float
    tried: Tried
    objectives: tuple[float, ...]
    converged: bool

    @property
    def rounds(self) -> int:
        """Rounds of EM after the start."""
        return len(self.objectives) - 1


def climb(
    step: Callable[[State], tuple[State, float]], start: State, rounds: int, tolerance: float
) -> tuple[State, tuple[float, ...], bool]:
    """Repeat `step`, which gives the next state and the objective of the one it was given, until it gains no more."""
    state = start
    following, objective = step(state)
    reached = [objective]
    for _ in range(rounds):
        state = following
        following, objective = step(state)
        reached.append(objective)
        if objective - reached[-2] <= tolerance:
            return state, tuple(reached), True
    return state, tuple(reached), False


def smoothed(
    pages: Pages, prepare: Callable[[Pages], Callable[[float, Tried], Model]], strength: float | None
) -> Model:
    """The model fitted with this strength, or with the one that foretells held-out sessions of the pages best.

    `prepare(pages)` does once what all strengths share, and gives the function that fits with one.
    """
    if strength is not None:
        return prepare(pages)(_checked(strength), ())
    training, held = pages.split(HELD_SHARE, HELD_SEED)
    fit = prepare(training)
    tried = tuple((strength, fit(strength, ()).log_likelihood(held) / len(held)) for strength in STRENGTHS)
    return prepare(pages)(max(tried, key=lambda pair: pair[1])[0], tried)


def _checked(strength: float) -> float:
    """A prior must weigh something: without one, a pair never clicked would be held impossible to click."""
    if not 0 < strength < float("inf"):
        raise ClickError(f"the strength of the prior cannot be {strength!r}; give a finite number above 0")
    return float(strength)


def log_prior(values: Array, mean: Array | float, strength: float) -> float:
    """The log density of the prior at these values, without its constant."""
    return strength * float(np.sum(mean * np.log(values) + (1 - mean) * np.log1p(-values)))
