"""Dueling bandits: the exact distribution of the rankers that an algorithm shows next, from the papers' definitions.

Wins are whole numbers here, so the densities of beta distributions are polynomials, and each integral is a fraction.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
from math import factorial, log, sqrt

Wins = Sequence[Sequence[int]]
Polynomial = list[Fraction]  # the coefficients of 1, x, x^2, ...
Batches = tuple[tuple[int, ...], ...]
HALF = Fraction(1, 2)


def multiply(one: Polynomial, other: Polynomial) -> Polynomial:
    """The product of two polynomials."""
    result = [Fraction(0)] * (len(one) + len(other) - 1)
    for (i, a), (j, b) in product(enumerate(one), enumerate(other)):
        result[i + j] += a * b
    return result


def value(polynomial: Polynomial, x: Fraction) -> Fraction:
    """The polynomial at x."""
    return sum((a * x**power for power, a in enumerate(polynomial)), Fraction(0))


def integral(polynomial: Polynomial) -> Polynomial:
    """The integral from 0 to x, as a polynomial in x."""
    return [Fraction(0), *(a / (power + 1) for power, a in enumerate(polynomial))]


def density(won: int, lost: int) -> Polynomial:
    """The density of Beta(1 + won, 1 + lost): x^won (1 - x)^lost (won + lost + 1)! / (won! lost!)."""
    result = [Fraction(0)] * won + [Fraction(factorial(won + lost + 1), factorial(won) * factorial(lost))]
    for _ in range(lost):
        result = multiply(result, [Fraction(1), Fraction(-1)])
    return result


def chance_above_half(won: int, lost: int) -> Fraction:
    """P(theta > 1/2) for theta from Beta(1 + won, 1 + lost)."""
    return 1 - value(integral(density(won, lost)), HALF)


def chances_of_largest(records: Sequence[tuple[int, int]], low: Fraction = Fraction(0)) -> list[Fraction]:
    """P(the draw is above `low` and above all others) for independent draws from Beta(1 + won, 1 + lost)."""
    chances = []
    for one in range(len(records)):
        density_here = density(*records[one])
        for other in range(len(records)):
            if other != one:
                density_here = multiply(density_here, integral(density(*records[other])))
        area = integral(density_here)
        chances.append(value(area, Fraction(1)) - value(area, low))
    return chances


def bounds(wins: Wins, alpha: float, time: float) -> tuple[list[list[float]], list[list[float]]]:
    """Wu & Liu (2016): l_ij and u_ij = W_ij / N_ij -+ sqrt(a log t / N_ij); 0 and 1 where N = 0; 1/2 where i = j."""
    rankers = range(len(wins))
    lower, upper = [[0.0] * len(wins) for _ in rankers], [[1.0] * len(wins) for _ in rankers]
    for i, j in product(rankers, rankers):
        compared = wins[i][j] + wins[j][i]
        if i == j:
            lower[i][j] = upper[i][j] = 0.5
        elif compared:
            radius = sqrt(alpha * log(max(time, 1)) / compared)
            lower[i][j], upper[i][j] = wins[i][j] / compared - radius, wins[i][j] / compared + radius
    return lower, upper


def tournament(wins: Wins, candidates: Sequence[int]) -> dict[int, Fraction]:
    """P(i): of all candidates, i has theta_ij > 1/2 for the most j, ties by chance; theta_ji = 1 - theta_ij."""
    pairs = list(combinations(range(len(wins)), 2))
    chances = dict.fromkeys(candidates, Fraction(0))
    for outcome in product((True, False), repeat=len(pairs)):
        probability, scores = Fraction(1), [0] * len(wins)
        for (i, j), is_above in zip(pairs, outcome, strict=True):
            above = chance_above_half(wins[i][j], wins[j][i])
            probability *= above if is_above else 1 - above
            scores[i if is_above else j] += 1
        best = [i for i in candidates if scores[i] == max(scores[i] for i in candidates)]
        for i in best:
            chances[i] += probability / len(best)
    return chances


def double_thompson(wins: Wins, alpha: float = 0.51) -> dict[tuple[int, int], Fraction]:
    """Wu & Liu (2016): P(first, second); t is the sum of wins, with impressions of one ranker on the diagonal."""
    rankers = range(len(wins))
    lower, upper = bounds(wins, alpha, sum(map(sum, wins)))
    scores = [sum(upper[i][j] > 0.5 for j in rankers) for i in rankers]
    chances: dict[tuple[int, int], Fraction] = {}
    for i, of_first in tournament(wins, [i for i in rankers if scores[i] == max(scores)]).items():
        others = [j for j in rankers if j != i and lower[j][i] <= 0.5]
        seconds = chances_of_largest([(wins[j][i], wins[i][j]) for j in others], HALF)
        for j, of_second in zip([i, *others], [1 - sum(seconds), *seconds], strict=True):
            chances[i, j] = of_first * of_second
    return chances


def self_sparring(wins: Wins) -> list[Fraction]:
    """Sui et al. (2017): P(i) for each of the independent draws, from all wins and losses of each ranker."""
    rankers = range(len(wins))
    won = [sum(wins[i][j] for j in rankers if j != i) for i in rankers]
    lost = [sum(wins[j][i] for j in rankers if j != i) for i in rankers]
    return chances_of_largest(list(zip(won, lost, strict=True)))


def merge_pair(wins: Wins, members: Sequence[int]) -> dict[tuple[int, int], Fraction]:
    """Li et al. (2020): P(first, second) within a batch; the second is the least likely to beat the first."""
    if len(members) == 1:
        return {(members[0], members[0]): Fraction(1)}
    inside = [[wins[i][j] for j in members] for i in members]
    chances: dict[tuple[int, int], Fraction] = {}
    for first, of_first in tournament(inside, range(len(members))).items():
        others = [j for j in range(len(members)) if j != first]
        seconds = chances_of_largest([(inside[first][j], inside[j][first]) for j in others])
        for second, of_second in zip(others, seconds, strict=True):  # the smallest theta_j has the largest 1 - theta_j
            chances[members[first], members[second]] = of_first * of_second
    return chances


def prune(batches: Batches, current: int, upper: Sequence[Sequence[float]]) -> dict[tuple[Batches, int], Fraction]:
    """P(batches, number of the current batch) after all drops, one at a time by chance, and joins of single rankers."""
    members = batches[current]
    if len(members) == 1 and len(batches) > 1:
        following = (current + 1) % len(batches)
        joined = list(batches)
        joined[following] = tuple(sorted((*batches[following], *members)))
        del joined[current]
        return prune(tuple(joined), following - (following > current), upper)
    losers = [i for i in members if any(upper[i][j] < 0.5 for j in members)]
    if not losers:
        return {(batches, current): Fraction(1)}
    chances: dict[tuple[Batches, int], Fraction] = {}
    for loser in losers:
        left = list(batches)
        left[current] = tuple(i for i in members if i != loser)
        for outcome, chance in prune(tuple(left), current, upper).items():
            chances[outcome] = chances.get(outcome, Fraction(0)) + chance / len(losers)
    return chances


def merge(batches: Batches, max_size: float) -> dict[frozenset[tuple[int, ...]], Fraction]:
    """P(batches) after small batches joined large ones, where both together have at most `max_size` rankers."""
    orders = [order for order in permutations(batches) if [*map(len, order)] == sorted(map(len, order))]
    chances: dict[frozenset[tuple[int, ...]], Fraction] = {}
    for order in orders:
        left, merged = list(order), []
        while left:
            large = left.pop()
            small = left.pop(0) if left and len(left[0]) + len(large) <= max_size else ()
            merged.append(tuple(sorted((*large, *small))))
        outcome = frozenset(merged)
        chances[outcome] = chances.get(outcome, Fraction(0)) + Fraction(1, len(orders))
    return chances
