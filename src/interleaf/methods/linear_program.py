"""The linear programme of `optimized`, and a small simplex solver that is exact when it runs on fractions."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from interleaf.kernels.arrays import Array, EncodedRankings
from interleaf.kernels.jit import inline_kernel, kernel, plain, ready, start
from interleaf.kernels.randomness import Randomness, key_of, pick

PATIENCE = 50  # pivots without progress, after which Bland's rule is used, because it cannot cycle
MAX_PIVOTS = 100_000


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


@inline_kernel
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


@inline_kernel
def _improve(tableau: Array, basis: Array, objective: int, tolerance: Any) -> bool:
    """Pivot until no column lowers the objective: largest improvement first; Bland's rule if stuck."""
    rows = len(basis)
    stalled = 0
    for _ in range(MAX_PIVOTS):
        entering = _entering(tableau, objective, rows, stalled > PATIENCE, tolerance)
        if entering < 0:
            return True
        leaving = _leaving(tableau, basis, entering, tolerance)
        if leaving < 0:
            return False
        stalled = stalled + 1 if tableau[leaving, -1] <= tolerance else 0
        tableau[leaving] /= tableau[leaving, entering]
        for row in range(tableau.shape[0]):
            factor = tableau[row, entering]
            if row != leaving and factor != 0:
                tableau[row] -= factor * tableau[leaving]
        basis[leaving] = entering
    return False


@inline_kernel
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


@inline_kernel
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


CREDITS = ("inverse", "linear", "binary")
INVERSE, LINEAR, BINARY = range(3)
MAX_LISTS_OF_TWO, MAX_LISTS_OF_MANY = 2**14, 1_000
CACHED_SOLUTIONS = 10_000
TOLERANCE = 1e-9


def solution_of(
    encoded: EncodedRankings, ranks: Array, size: int, kind: int, samples: int, exact: bool
) -> tuple[Array, Array, bool]:
    """The lists with a positive probability, the probabilities, and whether fairness had to be relaxed.

    In `ranks[ranker, document]`, a document that a ranking lacks has the rank just below its last.
    """
    # A batch pads to its longest ranking, but the key of the randomness depends on the rankings only.
    tops = encoded.rankings[:, : int(encoded.depths.max())].astype(np.int32)
    places = ranks.astype(np.int32)
    return _solution(tops.tobytes(), places.tobytes(), len(encoded.depths), size, kind, samples, exact)


@lru_cache(maxsize=CACHED_SOLUTIONS)
def _solution(
    rankings: bytes, ranks: bytes, rankers: int, size: int, kind: int, samples: int, exact: bool
) -> tuple[Array, Array, bool]:
    places = np.frombuffer(ranks, np.int32).reshape(rankers, -1)
    numbers = np.frombuffer(rankings, np.int32).reshape(rankers, -1)
    encoded = EncodedRankings(numbers, (numbers >= 0).sum(axis=1), places.shape[1])
    lists = np.empty((min(rankers**size, MAX_LISTS_OF_TWO), size), np.int32)
    count = ready(_all_lists)(encoded, lists) if rankers == 2 or rankers**size <= MAX_LISTS_OF_MANY else -1
    lists = lists[:count]
    if count < 0:
        key = key_of(("optimized", CREDITS[kind], samples, size, rankings.hex(), ranks.hex()))
        lists = np.empty((samples, size), np.int32)
        kernel = ready(_some_lists)
        kernel(encoded, lists, start(key, kernel))
        lists = np.unique(lists, axis=0)
    probabilities, violation = _probabilities(lists, _worth(places, kind, exact), exact)
    positive = probabilities > 0
    return lists[positive], probabilities[positive], bool(violation > (0 if exact else TOLERANCE))


def _worth(places: Array, kind: int, exact: bool) -> Array:
    """`[ranker, document]`: the credit of a ranker for a click on the document, up to a constant for all rankers."""
    one: Any = Fraction(1) if exact else 1.0
    ranks = places.astype(object if exact else np.float64)
    if kind == BINARY:
        return np.where(places < places[::-1], one, 0 * one)
    return one / ranks if kind == INVERSE else -one * ranks


def _probabilities(lists: Array, worth: Array, exact: bool) -> tuple[Array, Any]:
    """Solve with the small simplex for two rankers and in the audit; with HiGHS for more rankers, or if that fails."""
    constraints = programme(lists, worth)
    values = list_values(lists, worth)
    if exact or len(worth) == 2:
        probabilities = np.zeros(len(lists), constraints.dtype)
        zero, tolerance = (Fraction(0), 0) if exact else (0.0, TOLERANCE)
        violation = (plain if exact else ready)(solve)(constraints, values, zero, tolerance, probabilities)
        left = np.abs(constraints @ probabilities).sum()
        if abs(left - violation) <= tolerance and abs(probabilities.sum() - 1) <= tolerance:
            return probabilities, violation
    return highs(constraints, values)


def programme(lists: Array, worth: Array) -> Array:
    """Rows that must be zero: for each rank and pair of neighbouring rankers, the difference of credit there."""
    differences = (worth[:-1] - worth[1:])[:, lists]
    return np.ascontiguousarray(differences.transpose(0, 2, 1).reshape(-1, len(lists)))


def list_values(lists: Array, worth: Array) -> Array:
    """What to maximise: the sensitivity of each list for two rankers, minus its variance for more."""
    if len(worth) == 2:
        values = ready(_sensitivity)(lists, np.sign((worth[0] - worth[1]).astype(np.float64)))
        is_exact = worth.dtype == object
        return np.array([Fraction(value).limit_denominator(10**6) for value in values]) if is_exact else values
    one = Fraction(1) if worth.dtype == object else 1.0
    weights = one / np.arange(1, lists.shape[1] + 1).astype(worth.dtype)
    sums = (worth[:, lists] * weights).sum(axis=2)
    return -((sums - sums.sum(axis=0) / len(worth)) ** 2).sum(axis=0)


@kernel
def _sensitivity(lists: Array, signs: Array) -> Array:
    """s(L) = (1 - w_T) H2(w_A / (w_A + w_B)): how much of the weighted list speaks for one ranker, evenly for both."""
    values = np.zeros(len(lists))
    harmonic = 0.0
    for position in range(lists.shape[1]):
        harmonic += 1.0 / (position + 1)
    for row in range(len(lists)):
        for_a = for_b = 0.0
        for position in range(lists.shape[1]):
            weight = 1.0 / (position + 1) / harmonic
            if signs[lists[row, position]] > 0:
                for_a += weight
            elif signs[lists[row, position]] < 0:
                for_b += weight
        if for_a > 0 and for_b > 0:
            share = for_a / (for_a + for_b)
            entropy = -share * np.log2(share) - (1 - share) * np.log2(1 - share)
            values[row] = (for_a + for_b) * entropy
    return values


@inline_kernel
def _best(encoded: EncodedRankings, in_list: Array, ranker: int) -> int:
    """A ranker's best unshown document, -1 where it has none."""
    for place in range(encoded.depths[ranker]):
        if not in_list[encoded.rankings[ranker, place]]:
            return int(encoded.rankings[ranker, place])
    return -1


@kernel
def _all_lists(encoded: EncodedRankings, lists: Array) -> int:
    """Every allowed list, by walking down each ranker's best unshown document in turn; -1: there is no room for all."""
    size = lists.shape[1]
    in_list = np.zeros(encoded.documents, np.bool_)
    ranker = np.zeros(size + 1, np.int64)
    current = np.zeros(size, np.int64)
    depth = count = 0
    while depth >= 0:
        document = -1
        if depth == size:
            if count == len(lists):
                return -1
            for position in range(size):  # numba takes long to compile the assignment of a whole row
                lists[count, position] = current[position]
            count += 1
        else:
            while ranker[depth] < len(encoded.depths) and document < 0:
                document = _best(encoded, in_list, ranker[depth])
                for earlier in range(ranker[depth]):
                    if document == _best(encoded, in_list, earlier):
                        document = -1
                        break
                ranker[depth] += 1
        if document >= 0:
            current[depth] = document
            in_list[document] = True
            depth += 1
            ranker[depth] = 0
        else:
            depth -= 1
            if depth >= 0:
                in_list[current[depth]] = False
    return count


@kernel
def _some_lists(encoded: EncodedRankings, lists: Array, randomness: Randomness) -> None:
    """Draw lists: at each rank any ranker that still can adds its best unshown document."""
    for row in range(len(lists)):
        in_list = np.zeros(encoded.documents, np.bool_)
        for position in range(lists.shape[1]):
            document = -1
            while document < 0:
                document = _best(encoded, in_list, pick(randomness, len(encoded.depths)))
            lists[row, position] = document
            in_list[document] = True


def highs(constraints: Array, values: Array) -> tuple[Array, float]:
    """The same programme by scipy's HiGHS, in two stages.

    The least violation min sum_i |A_i p| is solved as its dual, max t with (A' y)_j >= t and |y_i| <= 1, which has a
    row for each list instead of one for each constraint. By complementary slackness, y shows which p reach the minimum:
    only lists with (A' y)_j = t, with A_i p = 0 where |y_i| < 1 and the sign of y_i elsewhere. The second stage looks
    for the best value among them.
    """
    from scipy.optimize import linprog

    rows, lists = constraints.shape
    dual = linprog(
        np.r_[np.zeros(rows), -1.0],
        A_ub=np.c_[-constraints.T, np.ones(lists)],
        b_ub=np.zeros(lists),
        bounds=[(-1, 1)] * rows + [(None, None)],
        method="highs",
    )
    signs, shares = dual.x[:rows], -dual.ineqlin.marginals
    alive = dual.ineqlin.residual <= TOLERANCE
    loose = np.abs(signs) >= 1 - TOLERANCE
    best = linprog(
        -values[alive],
        A_ub=-(np.sign(signs)[:, None] * constraints)[np.ix_(loose, alive)],
        b_ub=np.zeros(loose.sum()),
        A_eq=np.r_[constraints[np.ix_(~loose, alive)], np.ones((1, alive.sum()))],
        b_eq=np.r_[np.zeros(rows - loose.sum()), 1.0],
        method="highs",
    )
    if best.x is not None:
        shares[alive] = best.x
    probabilities = np.where(shares > TOLERANCE, shares, 0.0)
    return probabilities / probabilities.sum(), float(-dual.fun)
