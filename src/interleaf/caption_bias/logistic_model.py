"""A logistic model of clicks by position, relevance and caption, and the weights of clicks (H12c, Eq. 1, 4).

    P(click) = 1 / (1 + exp(-(W_r X_r + W_p X_p + W_c X_c)))

X_r is the grade of a result (or that it is not judged), X_p its position (rank 1, 2, 3, 4-5, 6-9, 10 and below), X_c
the features of its caption. A click's weight uses the caption part alone:

    odds          1 / exp(W_c X_c)         the paper's: an odds ratio against a caption without any of the features
    probability   P(click | mean caption) / P(click)      as if all captions were the mean caption

If clicks are rare, the two agree up to a constant. If clicks are likely, odds overstate the effect of captions: a
caption cannot raise a probability of .9 threefold.

The model is fitted to counts of trials and successes, by Newton's method.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from interleaf.caption_bias.features import FIRST, GRADE, GRADES, POSITION, POSITIONS, CaptionFeature
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import kernel

STEPS = 60
TOLERANCE = 1e-12  # stop if a further step would gain less log-likelihood
ROUNDING = 1e-11  # relative rounding error of a log-likelihood
LARGEST = 15.0  # a larger weight is taken to diverge: e^15 is three million
RIDGE = 0.15  # a prior with a standard deviation of 2.6: no click in a hundred trials counts as half a click
HELD = 0.5  # a weight that moves farther with a hundredth of the penalty would diverge without it
_CHUNK = 65_536
ODDS, PROBABILITY = "odds", "probability"
FORMAT = 1


class Fit(NamedTuple):
    """Weights, their covariance, the log-likelihood, and which weights are `diverging` without a penalty."""

    weights: Array
    covariance: Array
    log_likelihood: float
    diverging: Array

    @property
    def is_separated(self) -> bool:
        """Whether some feature separates clicks from no clicks perfectly."""
        return bool(self.diverging.any())


def fit(design: Array, rows: Array, clicks: Array, start: Array | None = None) -> Fit:
    """The maximum likelihood weights; the columns of the design must be linearly independent.

    >>> fit(np.array([[1.0, 0], [1, 1]]), np.array([4, 4]), np.array([1, 3])).weights.tolist()
    [-1.0986, 2.1972]
    """
    plain = _climb(design, rows, clicks, start, 0.0)
    if plain is not None:
        return plain
    firm, loose = (_climb(design, rows, clicks, None, ridge) for ridge in (RIDGE, RIDGE / 100))
    if firm is None or loose is None:  # a penalised likelihood has one maximum, which Newton's steps reach
        raise ArithmeticError("logistic regression did not converge")
    return firm._replace(diverging=np.abs(loose.weights - firm.weights) > HELD)


def _climb(design: Array, rows: Array, clicks: Array, start: Array | None, ridge: float) -> Fit | None:
    weights = np.zeros(design.shape[1]) if start is None else np.array(start, np.float64)
    height = _height(design, rows, clicks, weights, ridge)
    for _ in range(STEPS):
        gradient, information = _sums(design, rows, clicks, weights)
        gradient -= ridge * weights
        information[np.diag_indices_from(information)] += ridge
        try:
            step = np.linalg.solve(information, gradient)
        except np.linalg.LinAlgError:
            return None
        if gradient @ step < TOLERANCE:
            likelihood = height + ridge * float(weights @ weights) / 2
            return Fit(weights, np.linalg.inv(information), likelihood, np.zeros(len(weights), np.bool_))
        size, lost = 2.0, -np.inf
        while size > 1e-9 and lost < height - ROUNDING * max(1.0, abs(height)):
            size /= 2
            lost = _height(design, rows, clicks, weights + size * step, ridge)
        weights, height = weights + size * step, lost
        if not ridge and np.abs(weights).max(initial=0) > LARGEST:
            return None
    return None


def _height(design: Array, rows: Array, clicks: Array, weights: Array, ridge: float) -> float:
    """The log-likelihood, clicks x - rows log(1 + e^x), minus the penalty."""
    total = 0.0
    for part, some in _chunks(design):
        scores = part @ weights
        total += float(clicks[some] @ scores - rows[some] @ np.logaddexp(0, scores))
    return total - ridge * float(weights @ weights) / 2


def _sums(design: Array, rows: Array, clicks: Array, weights: Array) -> tuple[Array, Array]:
    """The gradient and the information matrix, summed over chunks."""
    size = design.shape[1]
    gradient, information = np.zeros(size), np.zeros((size, size))
    for part, some in _chunks(design):
        chances = probability(part @ weights)
        gradient += part.T @ (clicks[some] - rows[some] * chances)
        information += part.T @ (part * (rows[some] * chances * (1 - chances))[:, None])
    return gradient, information


def gram(design: Array, rows: Array) -> Array:
    """X' diag(rows) X."""
    total = np.zeros((design.shape[1], design.shape[1]))
    for part, some in _chunks(design):
        total += part.T @ (part * rows[some][:, None])
    return total


def _chunks(design: Array) -> Iterator[tuple[Array, slice]]:
    """Parts of the design as floats, because it may be stored as bytes."""
    for begin in range(0, len(design), _CHUNK):
        some = slice(begin, begin + _CHUNK)
        yield design[some].astype(np.float64), some


def probability(scores: Array) -> Array:
    """1 / (1 + e^-x), without overflow."""
    chances: Array = np.exp(-np.logaddexp(0, -scores))
    return chances


Count = Annotated[int, msgspec.Meta(ge=0)]
Finite = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Magnitude = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]


@dataclass(frozen=True)
class FeatureWeight:
    """A feature's weight with its standard error, and the likelihood-ratio test against the model without it."""

    name: str
    weight: Finite
    error: Magnitude | None
    chi_square: Magnitude
    p_value: Magnitude


@dataclass(frozen=True)
class CaptionModel:
    """A fitted model. Its parameters are those of position levels, of grade levels except the first, and of features.

    `dropped` says why a feature has no weight. `means` are the mean values of the weighted features in the results that
    the model was fitted to; `unseen` is the mean weight of the grades there.
    """

    name: str
    features: tuple[CaptionFeature, ...]
    position_levels: Sequence[Sequence[Count]]
    grade_levels: Sequence[Sequence[Count]]
    parameters: Sequence[Finite]
    covariance: Sequence[Sequence[Finite]]
    weights: tuple[FeatureWeight, ...]
    means: Sequence[Finite]
    unseen: Finite
    rows: Count
    clicks: Count
    patterns: Count
    log_likelihood: Finite
    dropped: Mapping[str, str]
    separated: bool = False

    @property
    def mean(self) -> float:
        return float(sum(one.weight * mean for one, mean in zip(self.weights, self.means, strict=True)))

    @property
    def is_judged(self) -> bool:
        """Whether it was fitted to judged results."""
        return any(code > 0 for level in self.grade_levels for code in level)

    @cached_property
    def positions(self) -> dict[str, float]:
        """A weight for every position; one without results has that of the nearest position above, else below."""
        levels = zip(self.position_levels, self.parameters, strict=False)
        by_code = {code: float(weight) for level, weight in levels for code in level}
        weights, last = {}, by_code[min(by_code)]
        for code, name in enumerate(POSITIONS):
            last = weights[name] = by_code.get(code, last)
        return weights

    @cached_property
    def grades(self) -> dict[str, float]:
        """A weight for every grade that occurred; 0 for the first."""
        weights = [0.0, *self.parameters[len(self.position_levels) :]]
        levels = zip(self.grade_levels, weights, strict=False)
        return {GRADES[code]: weight for level, weight in levels for code in level}

    @cached_property
    def caption_weights(self) -> Array:
        """W_c, a number for each feature, 0 for those that are not in the model."""
        weights = {one.name: one.weight for one in self.weights}
        return np.array([weights.get(feature.name, 0.0) for feature in self.features])

    def attraction(self, codes: Array) -> Array:
        """W_c X_c of each result."""
        sums, columns = np.zeros(len(codes)), np.flatnonzero(self.caption_weights)
        _add_up(codes, FIRST + columns, self.caption_weights[columns], sums)
        return sums

    def context(self, codes: Array, relevance: bool = True) -> Array:
        """W_r X_r + W_p X_p of each result; a grade that is not in the training data counts as the mean one.

        Without `relevance`, every grade counts as the mean one, as if no result had been judged.
        """
        places = np.array([self.positions[name] for name in POSITIONS])
        grades = np.array([self.grades.get(name, self.unseen) if relevance else self.unseen for name in GRADES])
        return np.asarray(places[codes[:, POSITION]] + grades[codes[:, GRADE]])

    def chances(self, codes: Array, relevance: bool = True) -> Array:
        """P(click) of each result."""
        return probability(self.context(codes, relevance) + self.attraction(codes))

    def click_weights(self, codes: Array, kind: str = ODDS) -> Array:
        """The weight of a click on each result: by odds, 1 / exp(.4 + .7) = .3329 for features of weights .4 and .7."""
        attraction = self.attraction(codes)
        if kind == ODDS:
            return np.asarray(np.exp(-attraction))
        if kind != PROBABILITY:
            raise DataError(f"clicks cannot be weighted by {kind!r}; give {ODDS!r} or {PROBABILITY!r}")
        context = self.context(codes)
        return np.asarray(probability(context + self.mean) / probability(context + attraction))

    def columns(self, codes: Array) -> Array:
        """The design matrix of results: a column for each parameter."""
        names = [feature.name for feature in self.features]
        weighted = [FIRST + names.index(one.name) for one in self.weights]
        return design_matrix(codes, self.position_levels, self.grade_levels, weighted)

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Any) -> CaptionModel:
        """The model from a dictionary that `to_dict` returned."""
        if isinstance(data, dict) and data.get("format", FORMAT) != FORMAT:
            raise DataError(f"a caption model of format {data['format']!r}; this interleaf knows {FORMAT}")
        try:
            model = msgspec.convert({name: value for name, value in data.items() if name != "format"}, cls)
            _check(model)
        except (AttributeError, ValueError) as problem:
            remedy = "interleaf caption --out writes such files"
            raise DataError(f"this is not a caption model: {problem}; {remedy}") from None
        return model

    def save(self, path: str | PathLike[str]) -> None:
        try:
            Path(path).write_text(json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise DataError(f"cannot write {path}: {error.strerror}") from None

    @classmethod
    def load(cls, path: str | PathLike[str]) -> CaptionModel:
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls.from_dict(data["models"][data["main"]] if isinstance(data, dict) and "models" in data else data)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
        except ValueError as error:
            raise DataError(f"{path} is not a caption model: {error}") from None


@kernel
def _add_up(codes: Array, columns: Array, weights: Array, sums: Array) -> None:
    for row in range(len(codes)):
        for place in range(len(columns)):
            sums[row] += weights[place] * codes[row, columns[place]]


def design_matrix(
    codes: Array, positions: Sequence[Sequence[int]], grades: Sequence[Sequence[int]], columns: Sequence[int] | slice
) -> Array:
    """Indicators of the position levels and of the grade levels except the first, then these columns of the codes."""
    blocks = [(POSITION, level) for level in positions] + [(GRADE, level) for level in grades[1:]]
    features = codes[:, columns]
    matrix = np.empty((len(codes), len(blocks) + features.shape[1]), np.int8)
    for column, (block, level) in enumerate(blocks):
        is_member = np.zeros(max(len(POSITIONS), len(GRADES)), np.bool_)
        is_member[list(level)] = True
        matrix[:, column] = is_member[codes[:, block]]
    matrix[:, len(blocks) :] = features
    return matrix


def _check(model: CaptionModel) -> None:
    """Raise a ValueError if the model is invalid."""
    for name, count in (("position_levels", len(POSITIONS)), ("grade_levels", len(GRADES))):
        levels = getattr(model, name)
        codes = [code for level in levels for code in level]
        if not codes or not all(levels) or max(codes) >= count or len(set(codes)) < len(codes):
            raise ValueError(f"{name} is {levels}, not lists of numbers below {count}, each once")
    size = len(model.position_levels) + len(model.grade_levels) - 1 + len(model.weights)
    sizes = len(model.parameters), np.shape(model.covariance), len(model.means)
    if sizes != (size, (size, size), len(model.weights)):
        raise ValueError(f"its numbers are not those of {size} parameters")
    if np.diag(model.covariance).min() < 0:
        raise ValueError("a variance is below 0")
    names = [one.name for one in model.weights]
    if len(set(names)) < len(names) or not set(names) <= {feature.name for feature in model.features}:
        raise ValueError("it weighs features that it does not have, or one twice")
