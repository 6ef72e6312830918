"""Optimized interleaving and multileaving (Radlinski and Craswell 2013, Schuth et al. 2014, as in O17, section 4.2).

There is no distribution here: the optimum of the linear programme is not unique, so only its value is the truth.
"""

from fractions import Fraction
from math import log2
from typing import Any

import numpy as np
from scipy.optimize import linprog

from .forms import Clicked, Doc, Preference, Ranking, Rankings, Teams, pairwise, rank_or_end, require, require_two, sign

SCHEMES = ("click", "normalized")
CREDITS = ("inverse", "linear", "binary")
SLACK = 1e-9  # allowance on the total violation in the second stage: the first one is solved in floating point


def allowed(rankings: Rankings, k: int) -> list[Ranking]:
    """All lists in which every next document is some ranking's best unshown one; distinct and sorted."""

    def extend(shown: Ranking) -> set[Ranking]:
        unshown = [[document for document in ranking if document not in shown] for ranking in rankings]
        best = {documents[0] for documents in unshown if documents}
        if len(shown) == k or not best:
            return {shown}
        return {longer for document in best for longer in extend((*shown, document))}

    return sorted(extend(()))


def credit_of(document: Doc, ranking: Ranking, credit: str) -> Fraction:
    """Credit of a ranker for a click on the document: larger when it ranks the document higher."""
    if credit == "inverse":
        return Fraction(1, rank_or_end(document, ranking))
    return Fraction(-rank_or_end(document, ranking))


def credit_difference(rankings: Rankings, document: Doc, i: int, j: int, credit: str) -> Fraction:
    """Credit of ranker i minus credit of ranker j; binary credit exists only as a difference, for two rankers."""
    require(credit, CREDITS, "credit")
    if credit == "binary":
        require_two(rankings)
        return Fraction(sign(rank_or_end(document, rankings[j]) - rank_or_end(document, rankings[i])))
    return credit_of(document, rankings[i], credit) - credit_of(document, rankings[j], credit)


def list_value(rankings: Rankings, shown: Ranking, credit: str = "inverse") -> float | Fraction:
    """Two rankers: the sensitivity s(L), to be maximised. More: the variance of their totals, to be minimised."""
    if len(rankings) == 2:
        return _sensitivity(rankings, shown, credit)
    require(credit, ("inverse", "linear"), "credit for more than two rankers")
    totals = [
        sum(
            (credit_of(document, ranking, credit) / position for position, document in enumerate(shown, 1)), Fraction(0)
        )
        for ranking in rankings
    ]
    mean = sum(totals, Fraction(0)) / len(totals)
    return sum(((total - mean) ** 2 for total in totals), Fraction(0))


def _sensitivity(rankings: Rankings, shown: Ranking, credit: str) -> float:
    """(1 - w_T) H2(w_A / (w_A + w_B)), with click probabilities proportional to 1/rank."""
    normaliser = sum((Fraction(1, position) for position in range(1, len(shown) + 1)), Fraction(0))
    weights = {-1: Fraction(0), 0: Fraction(0), 1: Fraction(0)}
    for position, document in enumerate(shown, 1):
        weights[sign(credit_difference(rankings, document, 0, 1, credit))] += Fraction(1, position) / normaliser
    if not weights[1] or not weights[-1]:
        return 0.0
    share = float(weights[1] / (weights[1] + weights[-1]))
    entropy = -share * log2(share) - (1 - share) * log2(1 - share)
    return float(1 - weights[0]) * entropy


def constraints(rankings: Rankings, lists: list[Ranking], credit: str = "inverse") -> list[list[Fraction]]:
    """One row per rank and pair of neighbouring rankers: the credit difference at that rank in each list."""
    return [
        [credit_difference(rankings, shown[position], x, x + 1, credit) for shown in lists]
        for position in range(len(lists[0]))
        for x in range(len(rankings) - 1)
    ]


def objective_and_violation(rankings: Rankings, k: int, credit: str = "inverse") -> tuple[float, float]:
    """(violation, objective) of the optimum over all allowed lists.

    First the smallest total violation of the constraints, then the best mean list value at that violation.
    Variables: a probability per list, then the positive and the negative part of each row's violation.
    """
    lists = allowed(rankings, k)
    rows = np.array([[float(value) for value in row] for row in constraints(rankings, lists, credit)])
    rows = rows.reshape(-1, len(lists))
    count = len(rows)
    identity = np.eye(count)
    equal = np.vstack([np.hstack([rows, -identity, identity]), np.hstack([np.ones(len(lists)), np.zeros(2 * count)])])
    target = np.append(np.zeros(count), 1.0)
    total_violation = np.append(np.zeros(len(lists)), np.ones(2 * count))
    smallest = _minimum(total_violation, A_eq=equal, b_eq=target)
    direction = -1.0 if len(rankings) == 2 else 1.0
    values = [direction * float(list_value(rankings, shown, credit)) for shown in lists]
    best = _minimum(
        np.append(values, np.zeros(2 * count)),
        A_ub=total_violation[None, :],
        b_ub=[smallest + SLACK],
        A_eq=equal,
        b_eq=target,
    )
    return smallest, direction * best


def _minimum(costs: Any, **limits: Any) -> float:
    solution = linprog(costs, method="highs", **limits)
    if not solution.success:
        raise ArithmeticError(f"linear programme not solved: {solution.message}")
    return float(solution.fun)


def preference(
    rankings: Rankings, shown: Ranking, teams: Teams, clicked: Clicked, scheme: str, *, credit: str = "inverse"
) -> Preference:
    """Difference of the summed credit of clicked documents, as it is or per click."""
    require(scheme, SCHEMES, "scheme")

    def difference(i: int, j: int) -> Fraction:
        gaps = [credit_difference(rankings, shown[position], i, j, credit) for position in clicked]
        divisor = len(clicked) if scheme == "normalized" and clicked else 1
        return sum(gaps, Fraction(0)) / divisor

    return pairwise(len(rankings), difference)
