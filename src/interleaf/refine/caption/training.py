"""The five models of H12c, fitted to patterns: a feature stays if the model without it is significantly worse.

Features leave one by one, the least telling first, as long as the likelihood-ratio test (chi-square, one degree of
freedom) of the model with and without has p >= .001. The order is found on the quadratic form that the information
gives; what stays is then tested by fits. That test takes results for independent, which those of one query are not:
`confirmed` asks the same of the weights' covariance between queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.refine.caption.design import P_VALUE, Design
from interleaf.refine.caption.features import FIRST, GRADE, GRADES, Feature
from interleaf.refine.caption.logistic import Fit
from interleaf.refine.caption.model import Model, Weight
from interleaf.refine.caption.patterns import Patterns

TINY = 1e-300  # a variance of 0 would be that of a feature whose queries agree to the last digit
BASELINE, HIGHLIGHTING, DOCUMENT_WISE, PAIRWISE, COMBINED = MODELS = (
    "baseline", "highlighting", "document-wise", "pairwise", "combined",
)  # fmt: skip
NOT_SIGNIFICANT = "not significant: p = {:.2g}"
BETWEEN_QUERIES = "not significant between queries: p = {:.2g}"


def features_of(name: str, features: Sequence[Feature]) -> list[str]:
    """The features that a model starts from."""
    found = {
        BASELINE: [],
        HIGHLIGHTING: [one for one in features if one.is_highlighting],
        DOCUMENT_WISE: [one for one in features if not one.neighbour],
        PAIRWISE: [one for one in features if one.neighbour],
        COMBINED: list(features),
    }
    return [one.name for one in found[name]]


def train(patterns: Patterns, features: Sequence[Feature]) -> dict[str, Model]:
    """All five models, by name."""
    rows, clicks = int(patterns.rows.sum()), int(patterns.clicks.sum())
    if not rows:
        raise DataError("all units of the log are held out, so none is left to learn from; give more, or held_out=0")
    if not 0 < clicks < rows:
        seen = f"{rows:,} results, {clicks:,} of them clicked"
        raise DataError(f"clicks cannot be learned from {seen}; give a log with clicks and with results not clicked")
    return {name: train_one(name, patterns, features) for name in MODELS}


def confirmed(models: Mapping[str, Model], patterns: Patterns, between: Mapping[str, Array]) -> dict[str, Model]:
    """The models without features that are not significant by their covariance between queries, where that is known."""
    from scipy.special import chdtrc

    found = dict(models)
    for name in between:
        model = models[name]
        names = [one.name for one in model.weights]
        weak = _eliminated(names, np.array(model.parameters), between[name])
        reasons = {one: BETWEEN_QUERIES.format(float(chdtrc(1, chi))) for one, chi in weak.items()}
        if weak:
            found[name] = train_one(name, patterns, model.features, {**model.dropped, **reasons})
    return found


def train_one(
    name: str, patterns: Patterns, features: Sequence[Feature], left_out: Mapping[str, str] | None = None
) -> Model:
    """One of the five models, its features selected; some may be left out from the start, for a reason."""
    names = [one for one in features_of(name, features) if one not in (left_out or {})]
    whole = Design(patterns, tuple(feature.name for feature in features)).only(names)
    design, chosen, tests, dropped = _select(whole)
    dropped |= left_out or {}
    patterns, start = design.patterns, design.start
    weights = tuple(
        Weight(one, float(chosen.weights[start + place]), _error(chosen, start + place), *tests[one])
        for place, one in enumerate(design.names)
    )
    rows = patterns.rows.sum()
    own = np.zeros(len(GRADES))
    for level, weight in zip(design.grades, [0.0, *chosen.weights[len(design.positions) : start]], strict=True):
        own[list(level)] = weight
    return Model(
        name=name,
        features=tuple(features),
        position_levels=[list(level) for level in design.positions],
        grade_levels=[list(level) for level in design.grades],
        parameters=chosen.weights.tolist(),
        covariance=chosen.covariance.tolist(),
        weights=weights,
        means=(patterns.rows @ patterns.codes[:, FIRST:] / rows).tolist(),
        unseen=float(patterns.rows @ own[patterns.codes[:, GRADE]] / rows),
        rows=int(rows),
        clicks=int(patterns.clicks.sum()),
        patterns=len(patterns),
        log_likelihood=chosen.log_likelihood,
        dropped=dropped,
        separated=chosen.separated,
    )


def _error(chosen: Fit, column: int) -> float | None:
    """The standard error of a weight; that of one that only a penalty holds could not be believed."""
    return None if chosen.held[column] else float(np.sqrt(chosen.covariance[column, column]))


def _select(design: Design) -> tuple[Design, Fit, dict[str, tuple[float, float]], dict[str, str]]:
    """The design with the features that stay, its fit, the test of each, and why the others left."""
    from scipy.special import chdtrc

    dropped = design.useless()
    design = design.only([name for name in design.names if name not in dropped])
    first = design.fit()
    weak = _eliminated(design.names, first.weights, first.covariance, first.held)
    dropped |= {name: NOT_SIGNIFICANT.format(float(chdtrc(1, chi))) for name, chi in weak.items()}
    design = design.only([name for name in design.names if name not in weak])
    while True:
        chosen = design.fit()
        tests = {name: _test(design, chosen, name) for name in design.names}
        least = max(tests, key=lambda name: tests[name][1], default="")
        if not least or tests[least][1] < P_VALUE:
            return design, chosen, tests, dropped
        dropped[least] = NOT_SIGNIFICANT.format(tests[least][1])
        design = design.only([name for name in design.names if name != least])


def _eliminated(names: Sequence[str], weights: Array, covariance: Array, held: Array | None = None) -> dict[str, float]:
    """Features that leave one by one on the quadratic form around the fit, each with its chi-square.

    That says nothing of weights that a penalty holds (`held`): those stay, for a test by fits.
    """
    from scipy.special import chdtri

    start = len(weights) - len(names)
    inside = [column for column in range(start, len(weights)) if held is None or not held[column]]
    out: dict[str, float] = {}
    while inside:
        chi = [weights[column] ** 2 / max(covariance[column, column], TINY) for column in inside]
        if min(chi) >= float(chdtri(1, P_VALUE)):
            break
        column = inside.pop(int(np.argmin(chi)))
        out[names[column - start]] = float(min(chi))
        weights, covariance = _without(weights, covariance, column)
    return out


def _without(weights: Array, covariance: Array, column: int) -> tuple[Array, Array]:
    """The best weights, and their covariance, where that of a column is held at 0, on the quadratic form."""
    slope = covariance[:, column] / max(covariance[column, column], TINY)
    return weights - slope * weights[column], covariance - np.outer(slope, covariance[column])


def _test(design: Design, chosen: Fit, name: str) -> tuple[float, float]:
    """The likelihood-ratio test of the fit with and without a feature: chi-square and p-value."""
    from scipy.special import chdtrc

    column = design.start + design.names.index(name)
    start = np.delete(_without(chosen.weights, chosen.covariance, column)[0], column)
    without = design.only([one for one in design.names if one != name]).fit(start)
    chi = max(0.0, 2 * (chosen.log_likelihood - without.log_likelihood))
    return chi, float(chdtrc(1, chi))
