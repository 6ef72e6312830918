"""False winners by scheme: real rankings are interleaved, people with lasting tastes click, and a scheme scores.

People come N times, N from a Pareto law. Each person has a lasting taste for the documents that one of the rankers puts
higher, and the two rankers exchange their names by a coin for each person, so nobody is preferred on average, at any
time and with any weights. People and clicks are plain numpy; lists and credit are those of interleaf, which are what is
measured; estimates are those of a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks import people
from benchmarks.people import BOUNDED, LEVEL, WEIGHTS
from benchmarks.world import QUERIES, impressions, noisy_orders, world_of
from interleaf.interleaving import batch
from interleaf.kernels.arrays import Array
from interleaf.methods.loops import score_columns
from interleaf.stats import sequence

SCHEMES = {
    "team_draft": ("click_list", "normalized_list", "click_place", "normalized_place"),
    "competitive_pairs": ("binary", "click", "normalized"),
}
LOOKS = 50
K, DOCUMENTS = 6, 10
TASTES = 1.0  # standard deviation of what a taste adds to the log-odds of a click
MOST = 200  # visits of a person
AT_ONCE = 1_000_000  # visits that are scored together
EXAMINATION = np.arange(1, K + 1) ** -0.7
APPEAL = 0.5 - 0.3 * np.arange(DOCUMENTS)  # log-odds of a click on a document that is examined


def visits_of(chance: np.random.Generator, tail: float, units: int, runs: int) -> Array:
    """How often each person comes, `[experiment, person]`."""
    return np.minimum(people.World(tail).visits(chance, (runs, units)), MOST)


class Experiments(NamedTuple):
    """How many experiments, the person of each of their visits with a click, and by scheme the score of that visit."""

    number: int
    person: Array
    scores: dict[str, Array]


def score_visits(chance: np.random.Generator, method: str, visits: Array) -> tuple[Array, dict[str, Array]]:
    """The person of each visit with a click, and by scheme its score; person n comes `visits[n]` times.

    Half of the queries are the other half with the rankings exchanged; the coin of a person says which half they ask.
    """
    orders = noisy_orders(chance, QUERIES, 2, DOCUMENTS)
    orders = np.concatenate([orders, orders[:, ::-1]])
    coins, tastes = chance.integers(0, 2, len(visits)), chance.normal(0, TASTES, len(visits))
    person = np.repeat(np.arange(len(visits)), visits)
    asked = chance.integers(0, QUERIES, len(person)) + QUERIES * coins[person]
    keys = chance.integers(0, 2**63, (len(person), 2)).astype(np.uint64)
    made = world_of(method, orders, asked, keys, np.zeros((0, K), np.bool_), K)
    lists = batch.compose(made.chosen, made.given, made.settings, asked, keys, K)
    shown = impressions(made, lists, unshown=True)
    first, second = shown.ranks[:, 0].astype(np.int64), shown.ranks[:, 1]
    appeal = APPEAL[np.take_along_axis(orders[asked, 0], first - 1, axis=1)]
    likes = (tastes * (1 - 2 * coins))[person]  # above 0: what the first ranker puts higher
    chances = EXAMINATION / (1 + np.exp(-appeal - likes[:, None] * np.sign(second - first)))
    clicks = chance.random(chances.shape) < chances
    scores = {}
    for name in SCHEMES[method]:
        scheme = made.chosen.scheme(name, 2)
        columns = score_columns(scheme.form, *batch.credit_known(made.chosen, scheme, shown, lists.counts, clicks))
        scores[name] = columns[:, 0] - columns[:, 1] if scheme.form.linear else columns[:, 0]
    clicked = clicks.any(axis=1)
    return person[clicked], {name: values[clicked] for name, values in scores.items()}


def experiments(chance: np.random.Generator, method: str, visits: Array) -> Iterator[Experiments]:
    """All experiments, some at a time; `visits[experiment, person]`."""
    ends = np.flatnonzero(np.diff(visits.sum(axis=1).cumsum() // AT_ONCE, append=-1)) + 1
    for part in np.split(visits, ends[:-1]):
        yield Experiments(len(part), *score_visits(chance, method, part.ravel()))


def wrong_at_one_look(method: str, tail: float, units: int, runs: int, seed: int) -> dict[str, int]:
    """By scheme, in how many experiments the interval of one look leaves out 0."""
    chance, wrong = np.random.default_rng(seed), dict.fromkeys(SCHEMES[method], 0)
    for some, person, scores in experiments(chance, method, visits_of(chance, tail, units, runs)):
        for scheme, values in scores.items():
            visits, sums = _by_person(person, (some, units)), _by_person(person, (some, units), values)
            wrong[scheme] += int(people.leaves_out(people.estimates(visits, sums, WEIGHTS[BOUNDED])).sum())
    return wrong


def wrong_when_watched(
    method: str, tail: float, units: int, runs: int, plans: Sequence[int | None], seed: int
) -> dict[str, list[int]]:
    """By scheme and plan, in how many experiments the anytime interval ever leaves out 0, in 50 looks over the time."""
    chance = np.random.default_rng(seed)
    wrong = {scheme: [0 for _ in plans] for scheme in SCHEMES[method]}
    for some, person, scores in experiments(chance, method, visits_of(chance, tail, units, runs)):
        look = chance.integers(0, LOOKS, len(person))
        for scheme, values in scores.items():
            for place, marked in enumerate(_ever_wrong(person, look, values, (some, units), plans)):
                wrong[scheme][place] += int(marked.sum())
    return wrong


def _ever_wrong(
    person: Array, look: Array, values: Array, shape: tuple[int, int], plans: Sequence[int | None]
) -> list[Array]:
    wrong = [np.zeros(shape[0], np.bool_) for _ in plans]
    visits, sums = np.zeros(shape[::-1], np.int64), np.zeros(shape[::-1])
    for number in range(LOOKS):
        rows = look == number
        visits += _by_person(person[rows], shape)
        sums += _by_person(person[rows], shape, values[rows])
        found = people.estimates(visits, sums, WEIGHTS[BOUNDED])
        present = np.maximum((visits > 0).sum(axis=0), 1)
        for one, planned in zip(wrong, plans, strict=True):
            one |= people.leaves_out(sequence.anytimes(found, present, planned, 1 - LEVEL))
    return wrong


def _by_person(person: Array, shape: tuple[int, int], values: Array | None = None) -> Array:
    """The number of visits, or the sum of their values, `[person, experiment]`."""
    return np.bincount(person, values, shape[0] * shape[1]).reshape(shape).T
