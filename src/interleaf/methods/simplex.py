"""A small simplex for optimized interleaving: list probabilities that are fair, and of those the most telling.

Minimise first the total violation sum_i |A_i p|, then maximise c p among the p that reach that minimum, over p >= 0
with sum p = 1. The problem is never infeasible. One dense tableau serves both stages: on the face of least violation
lie exactly the columns whose first reduced cost is zero, so the second stage lets no other column in. Plain and with
fractions the answer is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from interleaf.compiled import kernel, part
from interleaf.methods.arrays import Array

PATIENCE = 50  # pivots that change nothing before the rule that cannot cycle takes over
MOST_PIVOTS = 100_000


@kernel
def solve(constraints: Array, values: Array, zero: Any, tolerance: Any, probabilities: Array) -> Any:
    """Write the optimal probabilities and return the violation that is left; below zero: it did not finish."""
    rows, lists = constraints.shape
    slacks = 2 * rows
    tableau = np.zeros((rows + 3, lists + slacks + 1), values.dtype)
    basis = np.zeros(rows + 1, np.int64)
    _fill(tableau, basis, constraints, values, zero)
    if not (_improve(tableau, basis, rows + 1, tolerance) and _improve(tableau, basis, rows + 2, tolerance)):
        return zero - 1
    for column in range(lists):
        probabilities[column] = zero
    violation = zero
    for row in range(rows + 1):
        if basis[row] < lists:
            probabilities[basis[row]] = tableau[row, -1]
        else:
            violation += tableau[row, -1]
    return violation


@part
def _fill(tableau: Array, basis: Array, constraints: Array, values: Array, zero: Any) -> None:
    """Begin with the first list for sure, and slack that pays for whatever it violates.

    Rows: the constraints, sum p = 1, the reduced costs of the violation, those of the value. Columns: lists, what
    each constraint lacks, what it has too much, the right-hand side.
    """
    rows, lists = constraints.shape
    tableau[:, :] = zero
    for row in range(rows):
        flip = -1 if constraints[row, 0] > 0 else 1
        for column in range(lists):
            tableau[row, column] = flip * (constraints[row, column] - constraints[row, 0])
        tableau[row, lists + row] = zero + flip
        tableau[row, lists + rows + row] = zero - flip
        tableau[row, -1] = -flip * constraints[row, 0]
        basis[row] = lists + row if flip == 1 else lists + rows + row
    for column in range(lists):
        tableau[rows, column] = zero + 1
        tableau[rows + 2, column] = values[0] - values[column]
    tableau[rows, -1] = zero + 1
    for column in range(lists, lists + 2 * rows):
        tableau[rows + 1, column] = zero + 1
    for row in range(rows):
        tableau[rows + 1] -= tableau[row]


@part
def _improve(tableau: Array, basis: Array, objective: int, tolerance: Any) -> bool:
    """Pivot until no column lowers the objective: the steepest first, the first one once that gets nowhere."""
    rows = len(basis)
    stalled = 0
    for _ in range(MOST_PIVOTS):
        entering = _entering(tableau, objective, rows, stalled > PATIENCE, tolerance)
        if entering < 0:
            return True
        leaving = _leaving(tableau, basis, entering, tolerance)
        if leaving < 0:
            return False
        stalled = stalled + 1 if tableau[leaving, -1] <= tolerance else 0
        _pivot(tableau, basis, leaving, entering)
    return False


@part
def _entering(tableau: Array, objective: int, rows: int, first: bool, tolerance: Any) -> int:
    entering = -1
    best = -tolerance
    for column in range(tableau.shape[1] - 1):
        cost = tableau[objective, column]
        if cost < best and (objective == rows or tableau[rows, column] <= tolerance):
            entering = column
            best = cost
            if first:
                break
    return entering


@part
def _leaving(tableau: Array, basis: Array, entering: int, tolerance: Any) -> int:
    """The row that reaches zero first; of several, the one whose variable comes first."""
    leaving = -1
    best = tableau[0, -1]
    for row in range(len(basis)):
        if tableau[row, entering] > tolerance:
            ratio = tableau[row, -1] / tableau[row, entering]
            if leaving < 0 or ratio < best or (ratio == best and basis[row] < basis[leaving]):
                leaving = row
                best = ratio
    return leaving


@part
def _pivot(tableau: Array, basis: Array, leaving: int, entering: int) -> None:
    tableau[leaving] /= tableau[leaving, entering]
    for row in range(tableau.shape[0]):
        factor = tableau[row, entering]
        if row != leaving and factor != 0:
            tableau[row] -= factor * tableau[leaving]
    basis[leaving] = entering
