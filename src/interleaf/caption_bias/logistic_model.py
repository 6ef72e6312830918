"""A model of clicks by position, relevance and caption, and what its caption part says of a result (H12c, Eq. 1, 4).

    P(click) = 1 / (1 + exp(-(W_r X_r + W_p X_p + W_c X_c)))

X_r says which grade a result has (or that nobody judged it), X_p where it stands (rank 1, 2, 3, 4-5, 6-9, 10 and
below), X_c what its caption is like. A click's weight uses the caption part alone:

    odds          1 / exp(W_c X_c)         the paper's: an odds ratio against a caption without any of the features
    probability   P(click | mean caption) / P(click)      what a click would count for had all captions been alike

Where clicks are rare the two agree but for a constant. Where they are likely, odds overstate what captions do: a
caption cannot raise a probability of .9 threefold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from interleaf.caption_bias.features import FIRST, GRADE, GRADES, POSITION, POSITIONS, Encoder, Feature
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import kernel
from interleaf.stats.logistic import probability

ODDS, PROBABILITY = "odds", "probability"
FORMAT = 1


@dataclass(frozen=True)
class Weight:
    """A feature's weight with its standard error, and the likelihood-ratio test of the model without it."""

    name: str
    weight: float
    error: float | None
    chi_square: float
    p_value: float


@dataclass(frozen=True)
class Model:
    """What was learned: a parameter a level of position, then a level of grade but the first, then a feature.

    `dropped` says why features are not among the weights. Of the results it was fitted to, `means` has the mean of each
    weighted feature, and `unseen` the mean weight of their grades.
    """

    name: str
    features: tuple[Feature, ...]
    position_levels: Sequence[Sequence[int]]
    grade_levels: Sequence[Sequence[int]]
    parameters: Sequence[float]
    covariance: Sequence[Sequence[float]]
    weights: tuple[Weight, ...]
    means: Sequence[float]
    unseen: float
    rows: int
    clicks: int
    patterns: int
    log_likelihood: float
    dropped: Mapping[str, str]
    separated: bool = False

    @property
    def encoder(self) -> Encoder:
        """What makes codes of captions for it."""
        return Encoder(self.features)

    @property
    def mean(self) -> float:
        """The attraction of the mean caption."""
        return float(sum(one.weight * mean for one, mean in zip(self.weights, self.means, strict=True)))

    @property
    def is_judged(self) -> bool:
        """Whether relevance had a part in it."""
        return any(code > 0 for level in self.grade_levels for code in level)

    @cached_property
    def positions(self) -> dict[str, float]:
        """A weight for every position: where results were never shown, that of the nearest one above, else below."""
        levels = zip(self.position_levels, self.parameters, strict=False)
        known = {code: float(weight) for level, weight in levels for code in level}
        found, last = {}, known[min(known)]
        for code, name in enumerate(POSITIONS):
            last = found[name] = known.get(code, last)
        return found

    @cached_property
    def grades(self) -> dict[str, float]:
        """A weight for every grade that occurred; 0 for the first."""
        own = [0.0, *self.parameters[len(self.position_levels) :]]
        return {GRADES[code]: weight for level, weight in zip(self.grade_levels, own, strict=False) for code in level}

    @cached_property
    def caption_weights(self) -> Array:
        """W_c, a number a feature, 0 for those that are not in the model."""
        found = {one.name: one.weight for one in self.weights}
        return np.array([found.get(feature.name, 0.0) for feature in self.features])

    def attraction(self, codes: Array) -> Array:
        """W_c X_c of each result."""
        found = np.zeros(len(codes))
        columns = np.flatnonzero(self.caption_weights)
        _add_up(codes, FIRST + columns, self.caption_weights[columns], found)
        return found

    def context(self, codes: Array, relevance: bool = True) -> Array:
        """W_r X_r + W_p X_p of each result; a grade that training never saw counts as the mean one.

        Without `relevance`, all grades do: what can be said where nobody judges.
        """
        places = np.array([self.positions[name] for name in POSITIONS])
        grades = np.array([self.grades.get(name, self.unseen) if relevance else self.unseen for name in GRADES])
        found: Array = places[codes[:, POSITION]] + grades[codes[:, GRADE]]
        return found

    def chances(self, codes: Array, relevance: bool = True) -> Array:
        """P(click) of each result."""
        return probability(self.context(codes, relevance) + self.attraction(codes))

    def click_weights(self, codes: Array, kind: str = ODDS) -> Array:
        """What a click on each result counts for: by odds, 1 / exp(.4 + .7) = .3329 with features of such weights."""
        attraction = self.attraction(codes)
        if kind == ODDS:
            found: Array = np.exp(-attraction)
            return found
        if kind != PROBABILITY:
            raise DataError(f"clicks cannot be weighted by {kind!r}; give {ODDS!r} or {PROBABILITY!r}")
        context = self.context(codes)
        ratio: Array = probability(context + self.mean) / probability(context + attraction)
        return ratio

    def columns(self, codes: Array) -> Array:
        """The design of results: what the score of each is by parameter."""
        blocks = [(POSITION, level) for level in self.position_levels]
        blocks += [(GRADE, level) for level in self.grade_levels[1:]]
        names = [feature.name for feature in self.features]
        inside = [FIRST + names.index(one.name) for one in self.weights]
        made = np.empty((len(codes), len(blocks) + len(inside)), np.int8)
        for column, (block, level) in enumerate(blocks):
            made[:, column] = np.isin(codes[:, block], level)
        made[:, len(blocks) :] = codes[:, inside]
        return made

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Any) -> Model:
        """The model of a dictionary that `to_dict` made."""
        if isinstance(data, dict) and data.get("format", FORMAT) != FORMAT:
            raise DataError(f"a caption model of format {data['format']!r}; this interleaf knows {FORMAT}")
        try:
            values = {name: value for name, value in data.items() if name != "format"}
            values["features"] = tuple(Feature(**one) for one in data["features"])
            made = cls(**values | {"weights": tuple(Weight(**one) for one in data["weights"])})
            check(made)
            return made
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise DataError(f"this is no caption model: {problem}; interleaf caption --out writes such files") from None

    def save(self, path: str | PathLike[str]) -> None:
        """Write it as JSON."""
        try:
            Path(path).write_text(json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise DataError(f"cannot write {path}: {error.strerror}") from None

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Model:
        """Read a file that `save` or `interleaf caption --out` wrote."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls.from_dict(data["models"][data["main"]] if isinstance(data, dict) and "models" in data else data)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
        except ValueError as error:
            raise DataError(f"{path} is no caption model: {error}") from None


@kernel
def _add_up(codes: Array, columns: Array, weights: Array, found: Array) -> None:
    for row in range(len(codes)):
        for place in range(len(columns)):
            found[row] += weights[place] * codes[row, columns[place]]


def check(model: Model) -> None:
    """Raise a ValueError that says what is wrong, if anything is."""
    _check_texts(model)
    _check_levels("position_levels", model.position_levels, len(POSITIONS))
    _check_levels("grade_levels", model.grade_levels, len(GRADES))
    _check_sizes(model)
    _check_numbers(model)
    for name in ("rows", "clicks", "patterns"):
        _expect(_is_count(getattr(model, name)), name, getattr(model, name), "a count")
    for feature in model.features:
        for bound in (feature.least, feature.most):
            _expect(_is_count(bound), f"a bound of {feature.name!r}", bound, "a whole number from 0")


def _check_texts(model: Model) -> None:
    _expect(isinstance(model.separated, bool), "separated", model.separated, "true or false")
    _expect(isinstance(model.dropped, Mapping), "dropped", model.dropped, "an object of features and reasons")
    named = [("name", model.name), *(("a reason", reason) for reason in model.dropped.values())]
    for one in model.features:
        texts = {"name": one.name, "measure": one.measure, "meaning": one.meaning}
        named += [(f"a feature's {kind}", text) for kind, text in texts.items()]
    for what, text in [*named, *(("a weight's name", one.name) for one in model.weights)]:
        _expect(isinstance(text, str), what, text, "a text")


def _check_levels(name: str, levels: Sequence[Sequence[int]], size: int) -> None:
    codes = [code for level in levels for code in level]
    right = all(_is_count(code) and code < size for code in codes) and len(set(codes)) == len(codes)
    _expect(right and bool(codes) and all(map(len, levels)), name, levels, f"lists of numbers below {size}, each once")


def _check_sizes(model: Model) -> None:
    size = len(model.position_levels) + len(model.grade_levels) - 1 + len(model.weights)
    found = len(model.parameters), np.shape(model.covariance), len(model.means)
    if found != (size, (size, size), len(model.weights)):
        raise ValueError(f"its numbers are not those of {size} parameters")
    names = [one.name for one in model.weights]
    if len(set(names)) < len(names) or not set(names) <= {feature.name for feature in model.features}:
        raise ValueError("it weighs features that it does not have, or one twice")


def _check_numbers(model: Model) -> None:
    of_weights = {kind: [getattr(one, kind) for one in model.weights] for kind in ("weight", "chi_square", "p_value")}
    known = [one.error for one in model.weights if one.error is not None]
    lists: dict[str, Iterable[Any]] = {
        "parameters": model.parameters,
        "covariance": [value for row in model.covariance for value in row],
        "means": model.means,
        "unseen": [model.unseen],
        "log_likelihood": [model.log_likelihood],
        "error": known,
    }
    for name, values in (lists | of_weights).items():
        for value in values:
            _expect(_is_number(value), name, value, "a finite number")
    least = [*known, *of_weights["chi_square"], *of_weights["p_value"], *np.diag(np.asarray(model.covariance, float))]
    for value in least:
        _expect(value >= 0, "an error, chi-square, p-value or variance", value, "a number from 0")


def _expect(right: bool, what: str, value: Any, remedy: str) -> None:
    if not right:
        raise ValueError(f"{what} is {str(value)[:60]!s}, not {remedy}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
