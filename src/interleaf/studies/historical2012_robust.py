"""An addition to H12h: the doubly robust estimate in the protocol of the study.

Worlds differ in the click model, and in the new pair: another pair (as in the paper), one ranker exchanged, or the old
pair itself. Each estimator is compared with live impressions of the new pair, and with NDCG.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from interleaf.clicks import Cascade
from interleaf.counterfactual.click_model import RankedLists, cells
from interleaf.counterfactual.estimators import DoublyRobust, draw_lists
from interleaf.counterfactual.list_outcomes import log_chances, scorer_of
from interleaf.counterfactual.new_rankings import NewRankings
from interleaf.kernels.arrays import Array
from interleaf.simulate.people import streams, words_of
from interleaf.simulate.run import Stage
from interleaf.stats.compare import quotient
from interleaf.studies.study import Cell, Table

MODEL, ROBUST = "PI+DM", "PI+DR"
FOUR = ("TD", "PI+IS", "PI+MA", "PI+IS+MA")  # the paper's
SHOWN = ("PI+MA", "PI+IS+MA", "PI+IS+MA, self-normalised", MODEL, ROBUST)
MIN_LISTS, MAX_LISTS, EACH = 2_000, 40_000, 4  # lists of the new pair, four for each old one
DISTANCES = {"far": "another pair", "near": "one ranker exchanged", "same": "the old pair itself"}
FIRST = "perfect_linear", "far"  # as in the paper
WORLDS = tuple(world for world in product(("perfect_linear", "navigational"), DISTANCES) if world != FIRST)

ByWorld = Mapping[tuple[str, str], Mapping[str, Array]]  # by clicks and distance of the new pair; by estimator


def targets(chance: np.random.Generator, features: Array, source: Sequence[int], distance: str) -> list[int]:
    """The pair of features to be compared, given the pair that was shown."""
    if distance == "same":
        return list(source)
    if distance == "near":
        return [source[0], int(chance.choice([feature for feature in features.tolist() if feature not in source]))]
    pair: list[int] = chance.choice(features, 2, replace=False).tolist()
    return pair


def robust_track(
    shows: Stage, target: Stage, people: Cascade, points: Sequence[int], lists_of: Any, clicks_of: Any
) -> dict[str, list[float]]:
    """The model's and the doubly robust estimate from the first impressions, at each point."""
    numbers, scorer, ranked = np.arange(points[-1]), scorer_of("probabilistic", "binary", 2), _rank(target)
    queries = np.zeros(len(numbers), np.int64)
    lists = shows.compose(queries, streams(lists_of, numbers), shows.settings(queries[:1]))
    source, grades = shows.look_up(queries, lists)
    clicks = people.sample_batch(grades, lists.counts, streams(clicks_of, numbers))
    by_target = target.look_up(queries, lists)[0]
    of_source, of_target = (log_chances(scorer.chosen, some, lists.counts)[0] for some in (source, by_target))
    weights = np.exp(of_target - of_source)
    outcomes = scorer(by_target, lists.counts, clicks)
    inside = np.arange(lists.shown.shape[1]) < lists.counts[:, None]
    old = RankedLists(by_target, np.where(inside, lists.shown, -1), lists.counts, queries)
    count = _draws(points[-1])
    keys = streams(words_of(("historical2012", "drawn", *map(int, lists_of))), np.arange(count))
    new = draw_lists(scorer.chosen, ranked, np.zeros(count, np.int64), np.full(count, shows.k), keys)
    estimates: dict[str, list[float]] = {MODEL: [], ROBUST: []}
    for point in points:
        first, some, new_lists = slice(point), old.only(slice(point)), new.only(slice(_draws(point)))
        shown = cells(some.entries, clicks[first], some.groups, 1)
        robust = DoublyRobust(scorer, ranked, shown, np.array([point]), some.entries.shape[1])
        sums = robust.empty()
        robust.foresee_lists(sums, new_lists, point / len(new_lists.counts))
        robust.mend(sums, some, weights[first], outcomes[first])
        for name in (MODEL, ROBUST):
            value = robust.estimates(sums, name == ROBUST, 0.95)[0].value
            estimates[name].append(0.0 if value is None or not clicks[first].any() else value)
    return estimates


def _draws(impressions: int) -> int:
    return min(max(MIN_LISTS, EACH * impressions), MAX_LISTS)


def _rank(target: Stage) -> NewRankings:
    """The one query of a stage as new rankings."""
    size, nothing = int(target.sizes[0]), np.zeros(0, np.uint64)
    ranks = np.ascontiguousarray(target.places[0, :, :size].T)
    starts = np.array([0, size])
    return NewRankings(("A", "B"), {}, starts, ranks, nothing, nothing, target.given, target.lengths, target.choices)


def tables(right: ByWorld, errors: ByWorld, points: Sequence[int]) -> tuple[Table, ...]:
    """PI+DR and the best of the four in every world; `right` and `errors` (from live) are `[repeat, point]`."""
    columns = tuple(f"{point:,}" for point in points)
    gains, closer, distances = [], [], []
    for (people, distance), errors_of in errors.items():
        world, right_of = (people, DISTANCES[distance]), right[people, distance]
        gains.append((*world, len(right_of[ROBUST]), *_gains(right_of)))
        closer.append((*world, len(errors_of[ROBUST]), *_closer(errors_of)))
        roots = {name: [f"{value:.3f}" for value in _root_mean_square(errors_of[name])] for name in SHOWN}
        distances += [(*world, name, *values) for name, values in roots.items()]
    by_world = ("people", "new pair", "repeats", *columns)
    of_gains = "Accuracy of PI+DR over the best of the paper's four, in points (standard error), truth untied"
    of_closer = "Root mean square distance from live: PI+DR less the best of the four (standard error)"
    of_distances = "Root mean square distance from the live estimate by old impressions"
    return (
        Table("gains", of_gains, by_world, tuple(gains), by_world[2:]),
        Table("closer", of_closer, by_world, tuple(closer), by_world[2:]),
        Table("worlds", of_distances, ("people", "new pair", "estimator", *columns), tuple(distances), columns),
    )


def _gains(right: Mapping[str, Array]) -> list[Cell]:
    """Paired over repeats; the best of the four is chosen by the same results, which favours it."""
    if not len(right[ROBUST]):
        return [None] * right[ROBUST].shape[-1]
    cells: list[Cell] = []
    for place in range(right[ROBUST].shape[1]):
        theirs = max((right[name][:, place].astype(float) for name in FOUR), key=np.mean)
        gain = 100 * (right[ROBUST][:, place] - theirs)
        cells.append(f"{gain.mean():+.1f} ({gain.std() / np.sqrt(len(gain)):.1f})")
    return cells


def _closer(errors: Mapping[str, Array]) -> list[Cell]:
    """Differences of roots, their errors by the delta method: d sqrt(m) = dm / (2 sqrt(m))."""
    cells: list[Cell] = []
    for place in range(errors[ROBUST].shape[1]):
        theirs = min((errors[name][:, place] for name in FOUR), key=_root_mean_square)
        both = np.stack([errors[ROBUST][:, place], theirs], axis=1)
        roots = _root_mean_square(both)
        (influence,) = np.diff(quotient(both**2, 2 * roots), axis=1).T
        cells.append(f"{roots[0] - roots[1]:+.3f} ({influence.std() / np.sqrt(len(both)):.3f})")
    return cells


def _root_mean_square(values: Array) -> Array:
    return np.asarray(np.sqrt((values**2).mean(axis=0)))
