"""Calls a method's kernels for one impression: compiled, or with `exact` in plain Python on fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from interleaf.errors import ListError
from interleaf.interleaving import batch as batch
from interleaf.interleaving.rankings import CheckedRankings, Document
from interleaf.kernels.arrays import Array, Impression, exactly
from interleaf.kernels.jit import compiling as compiling, is_compiled as is_compiled, plain, ready, start
from interleaf.kernels.randomness import Randomness
from interleaf.methods import loops
from interleaf.methods.registry import ResolvedMethod
from interleaf.methods.schemes import TOLERANCE, Scheme


def compose(
    chosen: ResolvedMethod, problem: CheckedRankings, k: int, key: str
) -> tuple[tuple[Document, ...], tuple[int, ...] | None, bool | None, float | None]:
    """The documents of the list for a key and their teams; `relaxed` and the log-probability if the method prepares."""
    kernels = chosen.method.kernels
    work, kernel = Composing(chosen, problem, k, exact=False), ready(kernels.compose)
    documents, teams, shown = work.run(kernel, start(key, kernel))
    if kernels.prepared_probability is None:
        return documents, teams, None, None
    probability = kernels.prepared_probability(work.settings, shown)
    return documents, teams, work.settings.relaxed, math.log(probability)


class Composing:
    """Encoded rankings with the settings of a method, ready to compose any number of lists."""

    def __init__(self, chosen: ResolvedMethod, problem: CheckedRankings, k: int, exact: bool) -> None:
        self.has_teams = chosen.method.has_teams
        self.names, self.encoded = problem.encode(None if chosen.method.whole_rankings else k)
        self.size = min(k, self.encoded.documents)
        kernels = chosen.method.kernels
        if kernels.prepare is not None:
            self.settings = kernels.prepare(problem, self.names, self.encoded, self.size, chosen.parameters, exact)
        else:
            self.settings = kernels.settings(problem.lengths, chosen.parameters, exact)
        if exact:
            self.encoded = exactly(self.encoded)

    def run(self, kernel: Any, randomness: Randomness) -> tuple[tuple[Document, ...], tuple[int, ...] | None, Array]:
        """The shown documents, their teams if the method has any, and the shown documents by number."""
        shown, teams = np.empty(self.size, np.int32), np.empty(self.size, np.int8)
        teams.fill(-1)
        count = kernel(self.encoded, self.size, randomness, shown, teams, self.settings)
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
    credited = form(kernels.credit_of(scheme.variant))(impression, clicked, scheme.variant, credit, settings)
    if credited < 0:
        raise ListError(
            f"{chosen} cannot credit this list by {scheme.name!r}: no draft of these rankings gives it, or there are "
            "too many drafts to average; use a scheme without '_list' or '_place'"
        )
    form(loops.prefer(scheme.form))(credit, credited, 0 if exact else TOLERANCE, preference)
    if scheme.form.takes_expected_sign and kernels.expected_sign is not None:
        form(kernels.expected_sign)(impression, clicked, preference, settings)
    return credit, preference


def probability(chosen: ResolvedMethod, impression: Impression, exact: bool = False) -> Array | None:
    """The probability of each shown document given those above it; None if the method cannot compute it."""
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
