"""How often n' queries show the right preference, and how much data that saves: C12's Algorithm 3, Table X, Figure 7.

A sample prefers the first of two rankers if the mean of paired scores is positive (interleaving, or differences of a
judged metric), or if the mean of its bucket is larger than the other's. The listing of Algorithm 3 is lost; we follow
the text: draw n' observations with replacement, decide, and repeat many times. A sample that prefers neither counts
half. (C12 leaves such samples out for judged queries, and does not say what it does for clicks. If they were left out,
two coin flips would be more reliable than three.)

C12's Algorithm 4 measures how often a preference is wrong after some time, with queries in their order.

Agreement of two ways to compare rankers is measured by right verdicts, correlation, transitivity and ratios of
z-scores. All differences are of pairs of rankers. They are positive if the first ranker, which is better, is preferred.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np

from interleaf.errors import DataError, join_names
from interleaf.kernels.arrays import Array
from interleaf.stats.signs import z_score

_ROOM = 2**21  # numbers held at a time
TOLERANCE = 1e-12  # relative to the largest value: means that are equal may differ by rounding
REPEATS = 1_000
FARTHEST = 100  # largest sample, as a multiple of the observed data: beyond, it shows the bootstrap, not the data


def resampled_means(values: Array, size: int, repeats: int, generator: np.random.Generator) -> Array:
    """The means of `repeats` samples of `size` values, drawn with replacement; nan if no value of a sample counts.

    If there are few distinct values, the number of times that each is drawn is sampled from a multinomial.

    >>> resampled_means(np.array([1.0, 1.0]), 5, 2, np.random.default_rng(1))
    array([1., 1.])
    """
    _check_sample(values, size)
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    shares = np.append(counts, len(values) - counts.sum()) / len(values)
    by_count = len(distinct) < size
    part = max(1, min(repeats, _ROOM // (len(shares) if by_count else size)))  # repeats that fit into memory
    means = np.empty(repeats)
    for start in range(0, repeats, part):
        some = means[start : start + part]
        if by_count:
            times = generator.multinomial(size, shares, len(some))[:, :-1]
            some[:] = divide_or_nan(times @ distinct, times.sum(axis=1))
        else:
            sample = generator.choice(values, (len(some), size))
            some[:] = divide_or_nan(np.nansum(sample, axis=1), (~np.isnan(sample)).sum(axis=1))
    means[np.abs(means) <= TOLERANCE * np.abs(distinct).max(initial=0)] = 0
    return means


def divide_or_nan(above: Array, below: Array) -> Array:
    """The quotient; nan if the denominator is not above 0."""
    quotients: Array = np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)
    return quotients


def resampled_medians(values: Array, size: int, repeats: int, generator: np.random.Generator) -> Array:
    """The medians of such samples, without drawing them; nan if no value of a sample counts.

    The m-th smallest of n uniform numbers is Beta(m, n + 1 - m), and the smallest of the r above it splits what is left
    as Beta(1, r). As quantiles of the sorted values, they are the order statistics of a sample.

    >>> resampled_medians(np.array([3.0, 3.0, np.nan]), 9, 2, np.random.default_rng(1))
    array([3., 3.])
    """
    _check_sample(values, size)
    ordered = np.sort(values[~np.isnan(values)])
    counted = generator.binomial(size, len(ordered) / len(values), repeats)
    medians = np.full(repeats, np.nan)
    some = np.flatnonzero(counted)
    lower = (counted[some] + 1) // 2
    low = generator.beta(lower, counted[some] + 1 - lower)
    above = np.maximum(counted[some] - lower, 1)  # a single value has none above it, and is the median
    high = np.where(counted[some] % 2, low, low + (1 - low) * generator.beta(1, above))
    places = np.minimum(np.stack([low, high]) * len(ordered), len(ordered) - 1).astype(np.int64)
    medians[some] = ordered[places].mean(axis=0)
    return medians


STATISTICS: dict[str, Callable[[Array, int, int, np.random.Generator], Array]] = {
    "mean": resampled_means,
    "median": resampled_medians,
}


def _check_sample(values: Array, size: int) -> None:
    if not len(values):
        raise DataError("there is nothing to resample; give at least one score")
    if size < 1:
        raise DataError(f"a sample cannot have the size {size}; give a whole number from 1 up")


class Curve(NamedTuple):
    """How many of the repeats at each size prefer the first ranker, and how many the second."""

    sizes: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    repeats: int

    @property
    def probability(self) -> list[float]:
        """P(the first is preferred | n'); ties count half."""
        pairs = zip(self.first, self.second, strict=True)
        return [0.5 + (one - other) / (2 * self.repeats) for one, other in pairs]

    @property
    def without_ties(self) -> list[float | None]:
        """The same among samples that prefer one of the rankers; None if there are none."""
        pairs = zip(self.first, self.second, strict=True)
        return [one / (one + other) if one + other else None for one, other in pairs]


class Equivalent(NamedTuple):
    """`size` observations of one kind prefer the first ranker with this probability, and so do `needed` observations of
    the other kind; None, with the reason, if that cannot be computed.
    """

    size: int
    probability: float | None
    needed: int | None
    reason: str | None = None

    @property
    def ratio(self) -> float | None:
        """n' / n'': how many observations of the one kind are worth one of the other."""
        return None if self.needed is None else self.size / self.needed


def consistency(scores: Array, sizes: Sequence[int], generator: np.random.Generator, repeats: int = REPEATS) -> Curve:
    """Algorithm 3 for paired scores, positive for the first ranker.

    >>> consistency(np.array([1, 1, -1, 0]), [1, 50], np.random.default_rng(1), repeats=10_000).probability
    [0.62..., 0.98...]
    """
    values = np.asarray(scores, np.float64)
    return _curve(sizes, repeats, [resampled_means(values, size, repeats, generator) for size in sizes])


def bucket_consistency(
    first: Array,
    second: Array,
    sizes: Sequence[int],
    generator: np.random.Generator,
    repeats: int = REPEATS,
    statistic: str = "mean",
) -> Curve:
    """Algorithm 3 for two buckets, n' from each; the larger mean or median is preferred.

    There is one value per query, nan if the query does not count. Negate the values if less is better.
    """
    if statistic not in STATISTICS:
        raise DataError(f"cannot resample by {statistic!r}; give {join_names(STATISTICS)}")
    resampled, differences = STATISTICS[statistic], []
    for size in sizes:
        one, other = (resampled(values, size, repeats, generator) for values in (first, second))
        difference = one - other
        difference[np.abs(difference) <= TOLERANCE * np.maximum(np.abs(one), np.abs(other))] = 0
        differences.append(difference)
    return _curve(sizes, repeats, differences)


def _curve(sizes: Sequence[int], repeats: int, differences: Sequence[Array]) -> Curve:
    first, second = (tuple(int((sign * some > 0).sum()) for some in differences) for sign in (1, -1))
    return Curve(tuple(sizes), first, second, repeats)


def count_needed(
    scores: Array, probability: float, generator: np.random.Generator, repeats: int = REPEATS
) -> int | None:
    """The smallest n'' with which paired scores prefer the first ranker with this probability, by bisection.

    None if a hundred times the observed scores are not enough.

    >>> count_needed(np.array([1, 1, 1, -1]), 0.8, np.random.default_rng(1), repeats=10_000)
    3
    """

    def reaches(size: int) -> bool:
        return consistency(scores, [size], generator, repeats).probability[0] >= probability

    most, low, high = FARTHEST * len(scores), 0, 1
    while not reaches(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def equivalents(
    sizes: Sequence[int],
    probabilities: Sequence[float | None],
    scores: Array,
    generator: np.random.Generator,
    repeats: int = REPEATS,
) -> list[Equivalent]:
    """How many paired scores have each of these probabilities: C12's data ratio and value of a click.

    There is no answer for a probability of 1, nor for one within three standard errors of a coin flip: use other sizes
    then.
    """
    rows = []
    for size, probability in zip(sizes, probabilities, strict=True):
        count, reason = None, None
        if probability is None:
            reason = "no sample prefers either ranker"
        elif probability <= 0.5 + 1.5 / math.sqrt(repeats):
            reason = "no better than a coin"
        elif probability == 1:
            reason = "no sample errs"
        elif (count := count_needed(scores, probability, generator, repeats)) is None:
            reason = f"not even {FARTHEST} times the observed scores are that sure"
        rows.append(Equivalent(size, probability, count, reason))
    return rows


class Timed(NamedTuple):
    """Values and when they were observed; nan does not count."""

    times: Array
    values: Array


class Window(NamedTuple):
    """The share of all windows of `steps` steps that prefer the second ranker, and the share that prefer neither."""

    steps: int
    wrong: float
    undecided: float


def windows(scores: Timed, span: tuple[float, float], step: float, lengths: Sequence[int]) -> list[Window]:
    """Slide windows [t, t + length) over paired scores, for every step t of a span; the first ranker should win.

    >>> windows(Timed(np.arange(4), np.array([1.0, -1, 1, 1])), span=(0, 4), step=1, lengths=[1, 2])
    [Window(steps=1, wrong=0.25, undecided=0.0), Window(steps=2, wrong=0.0, undecided=0.66...)]
    """
    sums, _ = _steps(scores, span, step)
    return [_window(length, [_sliding(sums, length)], np.nanmax(np.abs(scores.values))) for length in lengths]


def bucket_windows(
    first: Timed,
    second: Timed,
    queries: int,
    span: tuple[float, float],
    step: float,
    lengths: Sequence[int],
    generator: np.random.Generator,
    repeats: int = 100,
) -> list[Window]:
    """The same for two buckets; the larger mean wins. Each bucket is repeatedly sampled down to `queries` queries, as
    many as the interleaved bucket has.
    """
    for bucket in (first, second):
        if len(bucket.times) < queries:
            raise DataError(f"a bucket has {len(bucket.times)} queries, not the {queries} it should be thinned out to")
    differences: dict[int, list[Array]] = {length: [] for length in lengths}
    for _ in range(repeats):
        steps = []
        for bucket in (first, second):
            rows = generator.permutation(len(bucket.times))[:queries]
            steps.append(_steps(Timed(bucket.times[rows], bucket.values[rows]), span, step))
        for length in lengths:
            (one, ones), (other, others) = ([_sliding(part, length) for part in bucket] for bucket in steps)
            both = (ones > 0) & (others > 0)
            means = one / np.maximum(ones, 1) - other / np.maximum(others, 1)
            differences[length].append(np.where(both, means, 0.0))
    largest = max(float(np.nanmax(np.abs(bucket.values))) for bucket in (first, second))
    return [_window(length, differences[length], largest) for length in lengths]


def _steps(scores: Timed, span: tuple[float, float], step: float) -> tuple[Array, Array]:
    """The sum of the values of each step, and the number of values."""
    start, stop = span
    counts = int(np.ceil((stop - start) / step))
    number = np.floor((scores.times - start) / step).astype(np.int64)
    if len(number) and (number.min() < 0 or number.max() >= counts):
        raise DataError(f"some values were observed outside the span from {start} to {stop}")
    there = ~np.isnan(scores.values)
    sums = np.bincount(number[there], scores.values[there], minlength=counts)
    return sums, np.bincount(number[there], minlength=counts).astype(np.float64)


def _sliding(values: Array, length: int) -> Array:
    """The sums of all windows of `length` steps."""
    if not 1 <= length <= len(values):
        raise DataError(f"a window of {length} steps does not fit into {len(values)}; give 1 to {len(values)}")
    total = np.concatenate([[0.0], np.cumsum(values)])
    sums: Array = total[length:] - total[:-length]
    return sums


def _window(length: int, differences: Sequence[Array], largest: float) -> Window:
    every = np.concatenate(differences)
    wrong, undecided = every < -TOLERANCE * largest, np.abs(every) <= TOLERANCE * largest
    return Window(length, float(wrong.mean()), float(undecided.mean()))


class VerdictCounts(NamedTuple):
    """How many differences have the right and the wrong sign, and how many of these are significant."""

    right: int
    wrong: int
    significantly_right: int
    significantly_wrong: int


class Correlation(NamedTuple):
    """Mean and standard deviation of a correlation over resamples."""

    mean: float
    deviation: float


class Triple(NamedTuple):
    """Three rankers, each preferred to the later ones, and by how much."""

    rankers: tuple[str, str, str]
    first_third: float
    first_second: float
    second_third: float

    @property
    def is_strong(self) -> bool:
        """Strong stochastic transitivity, C12's Eq. 7."""
        return self.first_third >= max(self.first_second, self.second_third)


def verdicts(differences: Sequence[float | None], significant: Sequence[bool]) -> VerdictCounts:
    """C12's Tables VII and IX: a difference that is 0 or could not be computed counts as neither right nor wrong.

    >>> verdicts([0.5, 0.1, -0.2, 0.0], [True, False, True, False])
    VerdictCounts(right=2, wrong=1, significantly_right=1, significantly_wrong=1)
    """
    pairs = list(zip([difference or 0.0 for difference in differences], significant, strict=True))
    right, wrong = ([sure for difference, sure in pairs if sign * difference > 0] for sign in (1, -1))
    return VerdictCounts(len(right), len(wrong), sum(right), sum(wrong))


def correlation(one: Sequence[float] | Array, other: Sequence[float] | Array) -> float | None:
    """Pearson's correlation over pairs of rankers; None for fewer than two pairs, or if one side does not vary.

    >>> correlation([1, 2, 3], [2, 4, 7])
    0.99...
    """
    if len(one) != len(other):
        raise DataError(f"there are {len(one)} differences on one side and {len(other)} on the other; give pairs")
    (value,) = _correlations(np.array([one], float), np.array([other], float))
    return None if np.isnan(value) else float(value)


def bootstrap_correlation(
    judged: Array, scores: Sequence[Array], generator: np.random.Generator, repeats: int = REPEATS
) -> Correlation | None:
    """C12's Table III: the correlation over resamples of the judged queries and of every pair's scored impressions.

    `judged[query, pair]` are differences of a judged metric; a resampled query counts for all pairs. Resamples in which
    one side does not vary are left out. None if none is left.
    """
    queries, pairs = judged.shape
    if pairs != len(scores):
        raise DataError(f"there are judged differences of {pairs} pairs, and scores of {len(scores)}; give both")
    counts = generator.multinomial(queries, np.full(queries, 1 / queries), repeats)
    means = [resampled_means(np.asarray(some, float), len(some), repeats, generator) for some in scores]
    every = _correlations(counts @ judged / queries, np.stack(means, axis=1))
    defined = every[~np.isnan(every)]
    return Correlation(float(defined.mean()), float(defined.std())) if len(defined) else None


def _correlations(one: Array, other: Array) -> Array:
    """The correlation of each row; nan if one side does not vary."""
    one, other = (values - values.mean(axis=1, keepdims=True) for values in (one, other))
    scale = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    return divide_or_nan((one * other).sum(axis=1), scale)


def triples(preferences: Mapping[tuple[str, str], float]) -> list[Triple]:
    """C12's Table IV: all triples of rankers, each preferred to the later ones, from preferences of pairs.

    >>> [triple.is_strong for triple in triples({("a", "b"): 0.04, ("b", "c"): 0.03, ("a", "c"): 0.05})]
    [True]
    """
    both = {**{(other, one): -value for (one, other), value in preferences.items()}, **preferences}
    rankers = dict.fromkeys(ranker for pair in preferences for ranker in pair)
    every = [
        Triple((a, b, c), *(both.get(pair, 0.0) for pair in ((a, c), (a, b), (b, c))))
        for a, b, c in permutations(rankers, 3)
        if (a, c) in both
    ]
    return [triple for triple in every if min(triple.first_second, triple.second_third) > 0]


def z_ratios(scores: Mapping[str, Array], baseline: str) -> dict[str, float | None]:
    """C12's Tables XI to XIII: z-scores of schemes as multiples of the baseline's; None if it cannot be computed.

    >>> z_ratios({"binary": np.array([1, 1, 1, -1]), "click": np.array([2, 1, 1, -1])}, "binary")
    {'binary': 1.0, 'click': 1.20...}
    """
    if baseline not in scores:
        raise DataError(f"there are no scores of the baseline {baseline!r}; give them with the others")
    z_scores = {
        scheme: z_score(float(values.sum()), float((values**2).sum()), len(values)).value
        for scheme, values in scores.items()
    }
    base = z_scores[baseline]
    return {scheme: value / base if value is not None and base else None for scheme, value in z_scores.items()}
