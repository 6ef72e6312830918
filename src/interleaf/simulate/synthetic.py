"""Judged queries made up from a seed: features of graded quality, so that every study runs with no data at hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from interleaf.chance import GOLDEN, MIX_1, MIX_2, UNIT, Key, bytes_of, key_of
from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.simulate.data import MOST_GRADE, Judged, frozen

STRONGEST, FEATURES = 0.8, 20
_NEXT_GRADE = 0.4  # each grade is so much rarer than the one below it
_STEP = 0.5  # rounding to half a standard deviation leaves hardly a top ten without a tie


def synthetic(
    queries: int = 1000,
    documents: int | tuple[int, int] = (10, 40),
    features: int = FEATURES,
    grades: int = 5,
    seed: Key = 1,
    *,
    shares: Sequence[float] | None = None,
    strengths: Sequence[float] | None = None,
    correlation: float = 0.2,
    families: int = 1,
    shared_prefix: float = 0.0,
    prefix_length: int = 3,
    ties: float = 0.7,
) -> Judged:
    """Judged queries with features from strong to useless; the same arguments give the same set.

    A query has `documents` documents: so many, or a number from a range, all equally likely. A document's grade g is
    drawn by `shares`, a weight a grade (default: each grade 0.4 times as likely as the one below it). With z the grade
    standardized, z = (g - mean) / deviation, feature j of a document is

        x_j = s_j z + sqrt(1 - s_j^2) e_j,    e_j = sqrt(c) shared + sqrt(1 - c) own_j

    where the noises `shared` (one a document and family) and `own_j` are standard normal, s_j is the feature's strength
    (default: evenly from 0.8 for feature 1 down to 0 for the last) and c the `correlation`. So the quality of feature
    j, its correlation with the grade, is s_j; in a family, corr(x_i, x_j) = s_i s_j + c sqrt((1 - s_i^2) (1 - s_j^2)).
    Feature j (from 0) of F belongs to family j * `families` // F: real sets hold families of features that agree, such
    as one measure on several fields.

    Then, as in real sets: in a share `shared_prefix` of the queries, features 2, 4, 6, ... put the same documents
    first, in the same order, as features 1, 3, 5, ... do, down to `prefix_length` (their values change places, and
    their quality moves towards that of the feature they follow). And with probability `ties`, each feature in each
    query is rounded to halves, which makes its top ten ambiguous, as 60 to 80 % of them are in MSLR and LETOR; that
    costs a little quality (it adds noise of variance 1/48).

    >>> synthetic(queries=50, documents=10, features=5, grades=3, seed=7)
    synthetic, seed 7: 50 queries, 500 documents, 5 features, grades 0 to 2
    """
    fewest, most = (documents, documents) if isinstance(documents, int) else documents
    _check_counts(queries=queries, documents=fewest, features=features, families=families, prefix_length=prefix_length)
    _check_shares(correlation=correlation, shared_prefix=shared_prefix, ties=ties)
    if most < fewest:
        raise DataError(f"documents is {documents!r}; give a number, or a range from fewest to most")
    sizes = fewest + (_uniform(queries, seed, "documents") * (most - fewest + 1)).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    drawn, signal = _graded(int(offsets[-1]), _weights(shares, grades), seed)
    matrix = np.empty((len(drawn), features), np.float32)
    before: Array = np.empty(0)
    for column, values in enumerate(
        _signals(signal, _checked_strengths(strengths, features), correlation, families, seed)
    ):
        if column % 2 and shared_prefix:
            chosen = _uniform(queries, seed, "prefix", column) < shared_prefix
            _follow(before, values, np.repeat(chosen, sizes), np.repeat(np.arange(queries), sizes), prefix_length)
        rounded = np.repeat(_uniform(queries, seed, "ties", column) < ties, sizes)
        matrix[:, column] = np.where(rounded, np.round(values / _STEP) * _STEP, values)
        before = values
    names = tuple(map(str, range(1, queries + 1)))
    return Judged(frozen(matrix), drawn, offsets, names, f"synthetic, seed {seed}")


def with_features(most_feature: int, seed: Key = 1) -> Judged:
    """The default set of a seed, with features up to this id: those after the 20 of `synthetic` are noise.

    A feature is the same whichever other ids there are, so a ranker is the same whatever it is compared with.

    >>> bool((with_features(30).features[:, :20] == synthetic().features).all())
    True
    """
    extra = max(0, most_feature - FEATURES)
    strengths = [*np.linspace(STRONGEST, 0, FEATURES), *[0.0] * extra]
    return synthetic(features=FEATURES + extra, strengths=strengths, seed=seed)


def _signals(signal: Array, strengths: Array, correlation: float, families: int, seed: Key) -> Iterator[Array]:
    """The features one after the other, each with a stream of its own."""
    for column, strength in enumerate(strengths):
        family = column * families // len(strengths)
        shared = np.sqrt(correlation) * _normal(len(signal), seed, "shared", family)
        own = np.sqrt(1 - correlation) * _normal(len(signal), seed, "own", column)
        yield strength * signal + np.sqrt(1 - strength**2) * (shared + own)


def _graded(rows: int, weights: Array, seed: Key) -> tuple[Array, Array]:
    """Grades, and the same standardized by the mean and deviation that the weights imply."""
    bounds = np.cumsum(weights)[:-1]
    drawn = np.searchsorted(bounds, _uniform(rows, seed, "grades"), side="right")
    values = np.arange(len(weights))
    mean = weights @ values
    deviation = np.sqrt(weights @ (values - mean) ** 2)
    return drawn, (drawn - mean) / deviation


def _follow(first: Array, second: Array, chosen: Array, query: Array, length: int) -> None:
    """In chosen rows, give the top documents of the first feature the top values of the second, in the same order."""
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return
    values, groups = second[rows], query[rows]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    sizes = np.diff(starts, append=len(rows))
    places = np.empty(len(rows), np.int64)  # by the first feature, from 0 in each query
    places[np.lexsort((-first[rows], groups))] = np.arange(len(rows)) - np.repeat(starts, sizes)
    wanted = np.lexsort((-values, np.minimum(places, length), groups))
    second[rows[wanted]] = values[np.lexsort((-values, groups))]


def _uniform(count: int, *key: Any) -> Array:
    """The stream of `chance.Keyed` for a key, as numbers in (0, 1)."""
    first, second = np.frombuffer(bytes_of(key_of(("synthetic", *key))), "<u8")
    words = first + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    bits = _mixed(_mixed(words) ^ second)
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * UNIT


def _mixed(words: Array) -> Array:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(MIX_1)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(MIX_2)
    mixed: Array = words ^ (words >> np.uint64(31))
    return mixed


def _normal(count: int, *key: Any) -> Array:
    normal: Array = ndtri(_uniform(count, *key))
    return normal


def _weights(shares: Sequence[float] | None, grades: int) -> Array:
    if not 2 <= grades <= MOST_GRADE + 1:
        raise DataError(f"grades is {grades!r}; give how many grades there are, 2 to {MOST_GRADE + 1}")
    weights = np.array([_NEXT_GRADE**grade for grade in range(grades)] if shares is None else shares, np.float64)
    if len(weights) != grades or not (weights >= 0).all() or np.count_nonzero(weights) < 2:
        raise DataError(f"shares is {shares!r}; give a weight for each of the {grades} grades, at least two above 0")
    normalized: Array = weights / weights.sum()
    return normalized


def _checked_strengths(strengths: Sequence[float] | None, features: int) -> Array:
    if strengths is None:
        return np.linspace(STRONGEST, 0, features)
    values = np.array(strengths, np.float64)
    if len(values) != features or not (np.abs(values) <= 1).all():
        raise DataError(f"strengths is {strengths!r}; give a number from -1 to 1 for each of the {features} features")
    return values


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise DataError(f"{name} is {count!r}; give a whole number from 1 up")


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise DataError(f"{name} is {share!r}; give a number from 0 to 1")
