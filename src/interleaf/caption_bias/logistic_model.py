"""A logistic model of clicks by position, relevance and caption, and the weights of clicks (H12c, Eq. 1, 4).

    P(click) = 1 / (1 + exp(-(W_r X_r + W_p X_p + W_c X_c)))

X_r is the grade of a result (or that it is not judged), X_p its position (rank 1, 2, 3, 4-5, 6-9, 10 and below), X_c
the features of its caption. A click's weight uses the caption part alone:

    odds          1 / exp(W_c X_c)         the paper's: an odds ratio against a caption without any of the features
    probability   P(click | mean caption) / P(click)      as if all captions were the mean caption

If clicks are rare, the two agree up to a constant. If clicks are likely, odds overstate the effect of captions: a
caption cannot raise a probability of .9 threefold.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from interleaf.caption_bias.features import FIRST, GRADE, GRADES, POSITION, POSITIONS, CaptionFeature
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import kernel
from interleaf.stats.logistic import probability

ODDS, PROBABILITY = "odds", "probability"
FORMAT = 1
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
