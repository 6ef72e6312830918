"""Whether a caption model from a file can be one: its texts are texts, its numbers finite, its levels apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from interleaf.refine.caption.features import GRADES, POSITIONS

if TYPE_CHECKING:
    from interleaf.refine.caption.model import Model


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
