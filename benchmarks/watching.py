"""What watching costs: how often a boundary is wrong, and how many users it needs; `python -m benchmarks.watching`.

    users, one after another ──▶ D / se after every user ──▶ deviates ──▶ the first user at whom a rule shows a winner

The worlds are drawn here with numpy alone, not by the simulator. A user comes a heavy-tailed number of times, has a
lasting taste, and each visit scores -1, 0 or 1. A user's mean score is weighted as in a report, by the visits up to a
limit that grows with the number of users. Beside interleaf's boundaries stand the normal mixture (W21) and betting
(W24), whose weights have one limit.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_banded
from scipy.special import expit, nctdtrinc, stdtrit

from benchmarks.people import limits
from interleaf.kernels.arrays import Array
from interleaf.report.weights import MAX_LIMIT, MIN_LIMIT
from interleaf.stats import sequence
from interleaf.stats.compare import deviate
from interleaf.tables import Table

RUNS = 2_000
LEVEL, POWER = 0.05, 0.8
MAX_VISITS = 1_000
FIRST = 30  # users before anybody looks
MAX_MULTIPLE = 2.5  # of the users of one look, to which a preference is looked for
BETS = 0.5 * 1.6 ** -np.arange(12.0)
GROUP = 400  # users
LONG = 10_000  # users of a run, from which on a quarter of the runs must do
CELLS = 1_000_000  # users of all runs that are in memory at a time
PLAN_MULTIPLES = tuple(1.12 + 0.03 * step for step in range(8))
SIZES = (100, 400, 2_000, 10_000, 100_000)
PLANS = (30, 100, 400, 2_000)
NO_PLAN_UNITS = 20_000
ALPHAS = (0.5, 0.2, 0.05, 0.01, 1e-3, 1e-6)


class World(NamedTuple):
    """Users: `tail` of their visits (0: one visit), spread of tastes, share of ties, how much frequent users lean."""

    tail: float
    spread: float
    ties: float
    lean: float = 0.0
    preference: float = 0.0


WORLDS = {
    "one visit": World(0, 0, 0.5),
    "Pareto 1.5, no tastes": World(1.5, 0, 0.5),
    "Pareto 1.5, tastes": World(1.5, 1, 0.5),
    "Pareto 1.05, tastes": World(1.05, 1, 0.5),
    "Pareto 1.05, strong tastes": World(1.05, 3, 0.2),
    "Pareto 1.05, frequent users lean": World(1.05, 0.5, 0.2, lean=1.0),
    "Pareto 1.5, frequent users lean": World(1.5, 0.5, 0.2, lean=1.5),
}


class Users(NamedTuple):
    """Their visits and mean scores, `[run, user]`."""

    visits: Array
    scores: Array


class Seen(NamedTuple):
    """What there is after each user: the number of users, the normal deviate of D / se, and what bets can win.

    `stakes[run, user]` are weighted scores from -1 to 1, less their mean in the world, by weights up to one limit.
    """

    units: Array
    deviates: Array
    stakes: Array


Rule = Callable[[Seen], Array]


def drawn(world: World, shape: tuple[int, int], chance: np.random.Generator) -> Users:
    """Users of a world as they come."""
    if not world.tail:
        signs = np.where(chance.random(shape) < (1 + world.preference) / 2, 1.0, -1.0)
        return Users(np.ones(shape, np.int64), signs * (chance.random(shape) >= world.ties))
    visits = np.minimum((1 - chance.random(shape)) ** (-1 / world.tail), MAX_VISITS).astype(np.int64)
    tastes = world.spread * chance.standard_normal(shape) + world.lean * np.where(visits >= 4, 1, -1)
    decided = chance.binomial(visits, 1 - world.ties)
    scores = (2 * chance.binomial(decided, expit(tastes)) - decided) / visits
    return Users(visits, scores)


def mean_scores(world: World) -> Array:
    """The weighted mean of two million users, by the limit on weights."""
    if not world.lean:
        return np.zeros(MAX_LIMIT + 1)
    users = drawn(world, (2_000_000, 1), np.random.default_rng(0))
    visits = np.arange(MAX_VISITS + 1)
    people = np.bincount(users.visits[:, 0], minlength=len(visits))
    scores = np.bincount(users.visits[:, 0], users.scores[:, 0], minlength=len(visits))
    weights = [np.minimum(visits, limit) for limit in range(1, MAX_LIMIT + 1)]
    return np.array([0.0, *(float((one * scores).sum() / (one * people).sum()) for one in weights)])


def seen(users: Users, centres: Array) -> Seen:
    """The weighted mean less that of the world, over its jackknife error between users, after every user.

    From the user `FIRST` on. `centres` are the means of the world by the limit on weights.
    """
    visits, scores = np.minimum(users.visits, MAX_LIMIT), users.scores
    limit = limits(np.arange(1, visits.shape[1] + 1))
    total, squares, sums, variance = (np.zeros(visits.shape) for _ in range(4))
    alike = np.unique(visits).tolist()
    for number in alike:
        one, weight = visits == number, np.minimum(number, limit)
        count = np.cumsum(one, axis=1)
        total += weight * count
        squares += weight**2 * count
        sums += weight * np.cumsum(one * scores, axis=1)
    mean = sums / total
    for number in alike:
        one, weight = visits == number, np.minimum(number, limit)
        count, first, second = (np.cumsum(part, axis=1) for part in (one, one * scores, one * scores**2))
        with np.errstate(divide="ignore", invalid="ignore"):
            variance += np.nan_to_num((second - 2 * mean * first + mean**2 * count) * (weight / (total - weight)) ** 2)
    degrees = sequence.degrees_of_freedom(total**2 / squares)[:, FIRST - 1 :]
    ratio = (mean - centres[limit])[:, FIRST - 1 :] / np.sqrt(np.maximum(variance[:, FIRST - 1 :], 1e-12))
    bets = np.minimum(users.visits, MIN_LIMIT)
    return Seen(
        np.arange(FIRST, visits.shape[1] + 1),
        deviate(ratio, degrees),
        bets * (scores - centres[MIN_LIMIT]) / bets.max(),
    )


def interleaf_rule(planned: float | None, what: Seen) -> Array:
    """The anytime interval of reports."""
    return np.abs(what.deviates) >= sequence.multiplier(what.units, planned)


def normal_mixture(planned: float, what: Seen) -> Array:
    """|z| of the normal mixture that is narrowest at the planned size (W21)."""
    twice = -2 * math.log(LEVEL)
    clock = what.units * (twice + math.log1p(twice)) / planned
    return np.square(what.deviates) >= (clock + 1) / clock * (np.log1p(clock) + twice)


def betting(what: Seen) -> Array:
    """The hedged capital against "no preference" (W24), with bets of at most c = 3/4; no normal approximation."""
    shares = (1 + what.stakes) / 2
    count = np.arange(1, shares.shape[1] + 1)
    means = (0.5 + np.cumsum(shares, axis=1)) / (count + 1)
    variances = (0.25 + np.cumsum((shares - means) ** 2, axis=1)) / (count + 1)
    past = np.hstack([np.full((len(shares), 1), 0.25), variances[:, :-1]])
    bets = np.minimum(np.sqrt(2 * math.log(2 / LEVEL) / (past * count * np.log1p(count))), 0.75 / 0.5)
    capital = [np.cumsum(np.log1p(side * bets * (shares - 0.5)), axis=1) for side in (1, -1)]
    reached: Array = np.logaddexp(*capital)[:, FIRST - 1 :] >= math.log(2 / LEVEL)
    return reached


def many_bets(what: Seen) -> Array:
    """Capital spread evenly over constant bets, on either side."""
    capital = np.zeros(what.stakes.shape)
    for bet in [*BETS, *-BETS]:
        capital += np.exp(np.cumsum(np.log1p(bet * what.stakes), axis=1)) / (2 * BETS.size)
    return capital[:, FIRST - 1 :] >= 1 / LEVEL


RULES: dict[str, Rule] = {
    "no plan": partial(interleaf_rule, None),
    "normal mixture, 2,000 planned": partial(normal_mixture, 2_000),
    "betting": betting,
    "many bets": many_bets,
}


def first_shown(rules: dict[str, Rule], world: World, units: int, runs: int, seed: int) -> dict[str, Array]:
    """For each rule and run, the users after whom it first shows a winner; infinite where it does not."""
    chance, centres = np.random.default_rng(seed), mean_scores(world)
    found: dict[str, list[Array]] = {name: [] for name in rules}
    runs = runs if units < LONG else runs // 4
    for start in range(0, runs, max(1, CELLS // units)):
        users = drawn(world, (min(max(1, CELLS // units), runs - start), units), chance)
        what = seen(users, centres)
        for name, rule in rules.items():
            reached = rule(what)
            found[name].append(np.where(reached.any(axis=1), what.units[reached.argmax(axis=1)], np.inf))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def level_table(runs: int, seed: int) -> Table:
    """False winners where nothing is preferred, watched after every user to three times the plan."""
    plans = {f"plan of {units:,}": units for units in PLANS}
    rows = []
    for name, world in WORLDS.items():
        cells = []
        for planned in plans.values():
            rules: dict[str, Rule] = {"": partial(interleaf_rule, planned)}
            cells.append(first_shown(rules, world, 3 * planned, runs, seed)[""])
        long = first_shown(RULES, world, NO_PLAN_UNITS, runs, seed)
        rows.append((name, *(percent(np.isfinite(one)) for one in [*cells, *long.values()])))
    columns = (*plans, *RULES)
    return Table("level", "", ("users", *columns), tuple(rows), columns)


def users_table(runs: int, seed: int) -> Table:
    """Users after whom a real preference is shown with 80 %, as a multiple of what one look needs."""
    rows = []
    for size in SIZES:
        last = round(MAX_MULTIPLE * size)
        plans: dict[str, Rule] = {f"{part:.2f}": partial(interleaf_rule, part * size) for part in PLAN_MULTIPLES}
        shown = first_shown(plans | RULES | {"late": partial(interleaf_rule, size)}, preferring(size), last, runs, seed)
        met = [part for part in PLAN_MULTIPLES if (shown[f"{part:.2f}"] <= part * size).mean() >= POWER]
        others = [multiple(shown[name], size) for name in ("late", *RULES)]
        rows.append((f"{size:,}", f"{min(met, default=math.inf):.2f}", *others))
    columns = ("users of one look", "plan for a watched page", "plan for one look", *RULES)
    return Table("users", "", columns, tuple(rows), columns)


def closed_group_table(runs: int, seed: int) -> Table:
    """False winners in a group that everybody has joined and keeps coming, watched after every visit."""
    plans: dict[str, int | None] = {f"plan of {GROUP:,}": GROUP, f"plan of {10 * GROUP:,}": 10 * GROUP, "no plan": None}
    rows = []
    for visits, spread in ((1, 1.0), (10, 0.0), (10, 1.0), (50, 0.0), (50, 1.0)):
        found = closed_group(visits, spread, list(plans.values()), runs // 4, seed)
        rows.append(
            (f"{visits} visit{'s' * (visits > 1)}, {'tastes' if spread else 'no tastes'}", *map(percent, found))
        )
    return Table("group", "", (f"a group of {GROUP:,} users", *plans), tuple(rows), tuple(plans))


def closed_group(
    visits: int, spread: float, plans: Sequence[float | None], runs: int, seed: int, units: int = GROUP
) -> list[Array]:
    """For each plan, in which runs a winner was shown; users come in any order, each so many times."""
    chance, every = np.random.default_rng(seed), np.arange(runs)
    order = chance.permuted(np.tile(np.repeat(np.arange(units), visits), (runs, 1)), axis=1)
    likes = expit(spread * chance.standard_normal((runs, units)))
    counts, sums, moments = np.zeros((runs, units)), np.zeros((runs, units)), np.zeros((runs, 3, MAX_LIMIT + 1))
    edges = [sequence.multiplier(np.arange(1, units + 1), planned) for planned in plans]
    shown, limit = [np.zeros(runs, bool) for _ in plans], limits(np.arange(units + 1))
    for who in order.T:
        _add(moments, counts[every, who], sums[every, who], -1)
        sums[every, who] += np.where(chance.random(runs) < likes[every, who], 1, -1) * (chance.random(runs) >= 0.5)
        counts[every, who] += 1
        _add(moments, counts[every, who], sums[every, who], 1)
        present = (counts > 0).sum(axis=1)
        weight = np.minimum(np.arange(MAX_LIMIT + 1), limit[present][:, None])
        users, first, second = moments.transpose(1, 0, 2)
        total = (users * weight).sum(axis=1, keepdims=True)
        mean = (first * weight).sum(axis=1, keepdims=True) / total
        left = np.where(total > weight, total - weight, np.inf)
        variance = np.maximum((second - 2 * mean * first + mean**2 * users) * (weight / left) ** 2, 0).sum(axis=1)
        effective = np.maximum(total[:, 0] ** 2 / (users * weight**2).sum(axis=1), 2)
        ratio = mean[:, 0] / np.sqrt(np.maximum(variance, 1e-12))
        reached = np.abs(deviate(ratio, sequence.degrees_of_freedom(effective)))
        for one, edge in zip(shown, edges, strict=True):
            one |= (present >= FIRST) & (reached >= edge[present - 1])
    return shown


def _add(moments: Array, counts: Array, sums: Array, sign: int) -> None:
    """Count a user by visits: how many, their mean scores and the squares of these."""
    here = np.flatnonzero(counts)
    places, means = np.minimum(counts[here], MAX_LIMIT).astype(np.int64), sums[here] / counts[here]
    for row, value in enumerate((np.ones_like(means), means, means**2)):
        moments[here, row, places] += sign * value


def one_look(units: int) -> float:
    """Standard errors that one look at this size shows with 80 %, by the t-test."""
    return float(nctdtrinc(units - 1, 1 - POWER, stdtrit(units - 1, 1 - LEVEL / 2)))


def preferring(size: int) -> World:
    """Users of whom half have a preference, which one look at this size shows with 80 %."""
    errors = one_look(size)  # mean / se, where the variance is 1/2 - mean^2, and the mean half the preference
    return World(0, 0, 0.5, preference=errors * math.sqrt(2 / (size + errors**2)))


def reached_probability(confidence: float, planned: float | None, last: float = 1e12) -> float:
    """The exact chance that a motion watched without pause ever reaches the boundary, if nothing is preferred.

    In s = log n the deviate follows dz = -z / 2 ds + dW; the density of y = z / boundary is solved between -1 and 1.
    """
    nodes, step = 800, 0.01
    times = np.arange(math.log(0.01 if planned is None else planned * 1e-4), math.log(last), step)
    edges = np.minimum(sequence.multiplier(np.exp(times), planned, confidence), 9.0)
    grid = np.linspace(-1, 1, nodes + 1)
    width, inside = grid[1] - grid[0], grid[1:-1]
    density = np.exp(-((inside * edges[0]) ** 2) / 2) * edges[0] / math.sqrt(2 * math.pi)
    for before, after in pairwise(edges):
        edge = (before + after) / 2
        speed = -(0.5 + (after - before) / step / edge) * grid / (2 * width)
        spread = 0.5 / edge**2 / width**2
        bands = np.zeros((3, nodes - 1))
        bands[0, 1:], bands[1], bands[2, :-1] = (spread - speed[2:])[:-1], -2 * spread, (spread + speed[:-2])[1:]
        explicit = density * (1 + step / 2 * bands[1])
        explicit[:-1] += step / 2 * bands[0, 1:] * density[1:]
        explicit[1:] += step / 2 * bands[2, :-1] * density[:-1]
        bands *= -step / 2
        bands[1] += 1
        density = solve_banded((1, 1), bands, explicit)
    return 1 - float(density.sum() * width)


def exact_table() -> Table:
    """The chance of ever reaching the boundary, by numerical integration, as a share of alpha."""
    rows = [
        (f"{alpha:g}", *(f"{reached_probability(1 - alpha, planned) / alpha:.2f} alpha" for planned in (1_000, None)))
        for alpha in ALPHAS
    ]
    columns = ("alpha", "plan", "no plan")
    return Table("exact", "", columns, tuple(rows), columns)


def percent(happened: Array) -> str:
    """A share in per cent, with its standard error."""
    share = float(happened.mean())
    return f"{100 * share:.1f} ± {100 * math.sqrt(share * (1 - share) / happened.size):.1f} %"


def multiple(shown: Array, size: int) -> str:
    """The size by which 80 % of runs have shown the winner, as a multiple; with its standard error, from the ranks."""
    spread = math.sqrt(POWER * (1 - POWER) / shown.size)
    low, middle, high = (
        float(np.quantile(shown, POWER + step, method="higher")) / size for step in (-spread, 0, spread)
    )
    return f"over {MAX_MULTIPLE:g}" if math.isinf(middle) else f"{middle:.2f} ± {(high - low) / 2:.2f}"


def tables(runs: int, seed: int) -> Iterator[Table]:
    """All of them, as they are ready."""
    yield users_table(runs, seed)
    yield level_table(runs, seed)
    yield closed_group_table(runs, seed)
    yield exact_table()


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description="What watching costs.")
    options.add_argument("--runs", type=int, default=RUNS, help="experiments in each cell")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    print(f"`python -m benchmarks.watching --runs {given.runs} --seed {given.seed}`")
    print(f"A quarter of the runs for groups, and where a run has {LONG:,} users or more.\n")
    for table in tables(given.runs, given.seed):
        print(table.to_markdown() + "\n", flush=True)


if __name__ == "__main__":
    main()
