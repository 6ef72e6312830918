"""Calling a method's kernels on one problem or one impression: compiled to serve, exact to prove.

`exact` runs the very same kernels in plain Python on fractions; everything else in the package goes through here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from interleaf.interleaving.rankings import CheckedRankings, Document
from interleaf.kernels.arrays import Array, Impression, exactly
from interleaf.kernels.jit import compiling as compiling
from interleaf.kernels.jit import plain, ready, start
from interleaf.kernels.randomness import Randomness
from interleaf.methods import schemes
from interleaf.methods.registry import ResolvedMethod, Scheme


class Composed(NamedTuple):
    """A list as composing left it; `relaxed` and `log_probability` where composing is what tells them."""

    documents: tuple[Document, ...]
    teams: tuple[int, ...] | None
    relaxed: bool | None
    log_probability: float | None


def compose(chosen: ResolvedMethod, problem: CheckedRankings, k: int, key: str) -> Composed:
    """The list for a key, by the form of the kernel that can answer now."""
    kernels = chosen.method.kernels
    work, kernel = Composing(chosen, problem, k, exact=False), ready(kernels.compose)
    documents, teams, shown = work.run(kernel, start(key, kernel))
    if kernels.prepared_probability is None:
        return Composed(documents, teams, None, None)
    probability = kernels.prepared_probability(work.settings, shown)
    return Composed(documents, teams, work.settings.relaxed, math.log(probability))


class Composing:
    """One problem encoded and its settings made, to be composed from as often as chance asks."""

    def __init__(self, chosen: ResolvedMethod, problem: CheckedRankings, k: int, exact: bool) -> None:
        self.has_teams = chosen.method.has_teams
        self.names, self.given = problem.encode(None if chosen.method.whole_rankings else k)
        self.size = min(k, self.given.documents)
        kernels = chosen.method.kernels
        if kernels.prepare is not None:
            self.settings = kernels.prepare(problem, self.names, self.given, self.size, chosen.parameters, exact)
        else:
            self.settings = kernels.settings(problem.lengths, chosen.parameters, exact)
        if exact:
            self.given = exactly(self.given)

    def run(self, kernel: Any, chance: Randomness) -> tuple[tuple[Document, ...], tuple[int, ...] | None, Array]:
        """The shown documents, their teams if the method has any, and the shown documents by number."""
        shown, teams = np.empty(self.size, np.int32), np.empty(self.size, np.int8)
        teams.fill(-1)
        count = kernel(self.given, self.size, chance, shown, teams, self.settings)
        shown = shown[:count]
        documents = tuple(map(self.names.__getitem__, shown.tolist()))
        return documents, tuple(teams[:count].tolist()) if self.has_teams else None, shown


def credit(
    chosen: ResolvedMethod, scheme: Scheme, impression: Impression, clicks: Sequence[bool], exact: bool = False
) -> tuple[Array, Array]:
    """Each ranker's credit, and the preference of each pair, in floats or in fractions."""
    kernels = chosen.method.kernels
    form = plain if exact else ready
    rankers = len(impression.lengths)
    settings = kernels.settings(impression.lengths, chosen.parameters, exact)
    credit, preference = _zeros(rankers, exact), _zeros((rankers, rankers), exact)
    impression = exactly(impression) if exact else impression
    clicked = np.array(clicks, np.bool_)
    credited = form(kernels.credit)(impression, clicked, scheme.variant, credit, settings)
    form(schemes.prefer)(credit, credited, scheme.form, 0 if exact else schemes.TOLERANCE, preference)
    if scheme.form == schemes.BINARY and kernels.expected_sign is not None:
        form(kernels.expected_sign)(impression, clicked, preference, settings)
    return credit, preference


def probability(chosen: ResolvedMethod, impression: Impression, exact: bool = False) -> Array | None:
    """The probability of each shown document given those above it; None where the method cannot tell."""
    kernels = chosen.method.kernels
    if kernels.probability is None:
        return None
    if not impression.ranks.size:
        return _zeros(0, exact)
    factors = _zeros(impression.ranks.shape[1], exact)
    impression = exactly(impression) if exact else impression
    settings = kernels.settings(impression.lengths, chosen.parameters, exact)
    return factors if (plain if exact else ready)(kernels.probability)(impression, factors, settings) else None


def _zeros(shape: int | tuple[int, ...], exact: bool) -> Array:
    return np.full(shape, Fraction(0), object) if exact else np.zeros(shape)
