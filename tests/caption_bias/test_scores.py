"""Scores with and without caption weights: against plain Python, and their errors against leaving people out."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from interleaf import Interleaving, credit, interleave
from interleaf.caption_bias import CaptionModel, CaptionReport, caption, diagnosis_report as verdicts
from interleaf.caption_bias.diagnosis_report import verdict
from interleaf.caption_bias.logistic_model import ODDS, PROBABILITY
from interleaf.caption_bias.weighted_scores import PLAIN, Rescored
from interleaf.errors import DataError, MethodError
from interleaf.kernels import buckets
from interleaf.methods.registry import METHODS
from interleaf.stats.compare import Estimate
from tests.oracles.captions import captioned_rows, plain_weights
from tests.support.log_rows import table_of

ROWS = captioned_rows(600, seed=3)


@pytest.fixture(scope="module")
def report() -> CaptionReport:
    return caption(table_of(ROWS), held_out=0.2)


def plain_scores(rows: Sequence[Mapping[str, Any]], method: str, model: CaptionModel, kind: str) -> tuple[float, int]:
    """The score of A over B as documented, and how many clicks have a part in it; one click at a time."""
    above = below = 0.0
    clicks = 0
    for row in rows:
        odds, ratios, _ = plain_weights(row, model)
        weights = {PLAIN: [1.0] * len(odds), ODDS: odds, PROBABILITY: ratios}[kind]
        ranks = row["ranks"]
        prefix = next(
            (place for place in range(len(odds)) if ranks[0][place] != place + 1 or ranks[1][place] != place + 1), 99
        )
        for place in {event["rank"] - 1 for event in row["events"]}:
            if method == "team_draft":
                side = {0: 1.0, 1: -1.0, -1: 0.0}[row["teams"][place]] if place >= prefix else 0.0
                counts = bool(side)
            else:
                shares = plain_posterior(row, place)
                side, counts = shares[0] - shares[1], True
            above += weights[place] * side
            below += weights[place] * counts
            clicks += counts
    return above / below, clicks


def plain_posterior(row: Mapping[str, Any], place: int) -> list[float]:
    """Who owns a position, by softmaxes over ranks to the power -3, given those above it."""
    found = []
    for ranking in row["rankings"]:
        union = dict.fromkeys(document for one in row["rankings"] for document in one)
        ranks = {
            document: ranking.index(document) + 1 if document in ranking else len(ranking) + 1 for document in union
        }
        left = [document for document in union if document not in row["documents"][:place]]
        total = sum(Fraction(1, ranks[document] ** 3) for document in left)
        found.append(Fraction(1, ranks[row["documents"][place]] ** 3) / total)
    return [float(share / sum(found)) for share in found]


@pytest.mark.parametrize("method", ["team_draft", "probabilistic"])
@pytest.mark.parametrize("kind", [PLAIN, ODDS, PROBABILITY])
def test_scores_are_those_of_plain_python(report: CaptionReport, method: str, kind: str) -> None:
    (found,) = [one for one in report.rescored if one.method == method]
    value, clicks = plain_scores(ROWS, method, report.model, kind)
    estimate = found.plain if kind == PLAIN else found.weighted[kind]
    assert report.model.weights
    assert estimate.value == pytest.approx(value, abs=1e-12)
    assert (found.clicks, found.first, found.second) == (clicks, "A", "B")


def test_without_weights_clicks_score_as_credit_says(report: CaptionReport) -> None:
    gained = [0.0, 0.0]
    for row in ROWS:
        shown = Interleaving.from_dict(row)
        outcome = credit(shown, [event["rank"] for event in row["events"]], scheme="click_deduped")
        gained = [gained[0] + outcome.credit["A"], gained[1] + outcome.credit["B"]]
    assert report.rescored[0].plain.value == pytest.approx((gained[0] - gained[1]) / sum(gained))


def test_errors_count_what_the_weights_do_not_know(report: CaptionReport) -> None:
    """Leaving out a bucket, with thresholds and features held and weights learned anew, moves the score as said."""
    model = report.model
    features = [feature for feature in model.features if feature.name in {one.name for one in model.weights}]
    fixed: dict[str, Any] = {"features": features, "tune": "none", "held_out": 0.0}
    rows = [row | {"unit": row["unit"][:3]} for row in ROWS]  # ten units
    whole = caption(table_of(rows), **fixed).rescored[0]
    groups = {buckets.bucket_of(row["unit"]) for row in rows}
    for kind in (ODDS, PROBABILITY):
        shifts = []
        for bucket in groups:
            rest = [row for row in rows if buckets.bucket_of(row["unit"]) != bucket]
            left = caption(table_of(rest), **fixed)
            assert {one.name for one in left.model.weights} == {one.name for one in features}
            shifts.append(left.rescored[0].weighted[kind].value - whole.weighted[kind].value)  # type: ignore[operator]
        error = math.sqrt(sum(shift**2 for shift in shifts))
        assert whole.weighted[kind].error == pytest.approx(error, rel=0.06)


def test_a_model_from_elsewhere_brings_its_uncertainty_along(report: CaptionReport) -> None:
    other = table_of(captioned_rows(300, seed=8))
    known = caption(other, report.model).rescored[0]
    sure = caption(other, _with(report.model, covariance=np.zeros_like(report.model.covariance).tolist())).rescored[0]
    doubtful = caption(other, _with(report.model, covariance=(100 * np.array(report.model.covariance)).tolist()))
    errors = [one.weighted[ODDS].error for one in (sure, known, doubtful.rescored[0])]
    assert errors[0] < errors[1] < errors[2]  # type: ignore[operator]
    extra = [error**2 - errors[0] ** 2 for error in errors[1:]]  # type: ignore[operator]
    assert extra[1] == pytest.approx(100 * extra[0])
    assert sure.plain == known.plain


def _with(model: CaptionModel, **changes: Any) -> CaptionModel:
    return CaptionModel.from_dict(model.to_dict() | changes)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.schemes])
def test_credit_is_additive_where_the_table_says_so_and_only_there(name: str) -> None:
    """All click patterns on some lists: the credit of each against the sum of its clicks'."""
    gaps = []
    for key in range(5):
        shown = interleave([list("abcd"), list("bcda")], name, k=4, key=key)
        alone = {rank: credit(shown, [rank], scheme="click").credit["A"] for rank in range(1, 5)}
        for size in range(2, 5):
            for pattern in combinations(alone, size):
                found = credit(shown, pattern, scheme="click").credit["A"]
                gaps.append(abs(found - sum(alone[rank] for rank in pattern)))
    assert (max(gaps) < 1e-9) == METHODS[name].additive


def test_rankers_in_another_order_are_the_same_experiment() -> None:
    rows = captioned_rows(200, seed=5)
    turned = [
        row
        | {name: row[name][::-1] for name in ("rankers", "ranks", "lengths", "rankings")}
        | {"teams": [1 - team if team >= 0 else -1 for team in row["teams"]]}
        for row in rows
    ]
    mixed = [(row, other)[place % 2] for place, (row, other) in enumerate(zip(rows, turned, strict=True))]
    for one, other in zip(caption(table_of(mixed)).rescored, caption(table_of(rows)).rescored, strict=True):
        assert (one.first, one.method, one.clicks) == (other.first, other.method, other.clicks)
        for found, wanted in ((one.plain, other.plain), (one.weighted[ODDS], other.weighted[ODDS])):
            assert [found.value, found.error] == pytest.approx([wanted.value, wanted.error])


def test_other_versions_are_counted_and_other_experiments_refused() -> None:
    old, new = captioned_rows(80, seed=1), [row | {"version": 2} for row in captioned_rows(90, seed=2)]
    both = table_of(old + [row | {"impression": row["impression"] + "-2"} for row in new])
    report = caption(both)
    assert (report.others, report.rescored[0].impressions) == (80, 90)
    assert caption(both, version=1).rescored[0].impressions == 80
    other = [row | {"experiment": "other"} for row in old]
    with pytest.raises(DataError, match="holds 2 experiments; name one of them: 'other' or 'shop'"):
        caption(pa.concat_tables([table_of(old), table_of(other)]))


def test_methods_whose_credit_is_not_a_sum_over_clicks_are_refused() -> None:
    rows = captioned_rows(60, method="balanced")
    with pytest.raises(MethodError, match=r"balanced cannot credit each click alone, .* score by"):
        caption(table_of(rows))
    assert [one.method for one in caption(table_of(rows), method="probabilistic").rescored] == ["probabilistic"]


def made(value: float, p_value: float) -> Estimate:
    return Estimate(value, 0.01, (value - 0.02, value + 0.02), p_value, 50.0, 60)


@pytest.mark.parametrize(
    ("before", "after", "change", "kind"),
    [
        ((0.0062, 1e-9), (0.0001, 0.8), (0.0061, 1e-9), verdicts.EXPLAINED),  # E4, probabilistic: it vanishes
        ((0.0062, 1e-9), (0.001, 0.01), (0.0052, 1e-9), verdicts.EXPLAINED),  # E4, team draft: .5031 to .5005
        ((-0.001, 0.3), (-0.006, 0.001), (0.005, 0.001), verdicts.HIDDEN),  # E6
        ((0.02, 1e-9), (0.018, 1e-9), (0.002, 0.01), verdicts.STANDS),  # E1, E2, E3, E5
        ((0.02, 1e-9), (0.01, 1e-4), (0.01, 0.001), verdicts.PARTLY),
        ((0.02, 0.001), (0.009, 0.1), (0.011, 0.001), verdicts.EXPLAINED),
        ((0.02, 0.001), (0.012, 0.1), (0.008, 0.001), verdicts.PARTLY),
        ((0.02, 0.04), (0.018, 0.06), (0.002, 0.3), verdicts.STANDS),  # two sides of a threshold, and nothing between
        ((0.02, 0.06), (0.022, 0.04), (-0.002, 0.3), verdicts.NONE),
        ((0.02, 0.001), (-0.02, 0.001), (0.04, 1e-9), verdicts.REVERSED),
        ((0.02, 0.001), (-0.01, 0.4), (0.03, 1e-9), verdicts.EXPLAINED),
        ((-0.02, 0.001), (-0.08, 1e-9), (0.06, 1e-9), verdicts.HIDDEN),
        ((0.0, 0.9), (0.0, 0.9), (0.0, 0.9), verdicts.NONE),
    ],
)
def test_verdicts_follow_the_patterns_of_the_paper(
    before: tuple[float, float], after: tuple[float, float], change: tuple[float, float], kind: str
) -> None:
    found = Rescored("A", "B", "team_draft", 9, 9, made(*before), {ODDS: made(*after)}, {ODDS: made(*change)})
    said = verdict(found, ODDS)
    assert said.kind == kind
    assert said.is_clean == (kind in (verdicts.NONE, verdicts.STANDS))
    assert f"{0.5 + before[0] / 2:.4f}" in said.sentence


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (0.2, 0.13, verdicts.NEEDS_JUDGMENTS),  # partly explained, but most of it remains
        (0.2, 0.09, verdicts.PARTLY),
        (0.2, 0.01, verdicts.EXPLAINED),
        (0.04, 0.001, verdicts.NEEDS_JUDGMENTS),  # explained, but by a small change
        (0.2, 0.19, verdicts.STANDS),
        (0.1, -0.1, verdicts.REVERSED),
    ],
)
def test_without_judgments_only_large_changes_are_named(before: float, after: float, kind: str) -> None:
    estimates = made(before, 1e-9), {ODDS: made(after, 1e-4)}, {ODDS: made(before - after, 1e-9)}
    found = Rescored("A", "B", "team_draft", 9, 9, *estimates)
    said = verdict(found, ODDS, is_judged=False)
    assert said.kind == kind
    assert verdict(found, ODDS).kind != verdicts.NEEDS_JUDGMENTS
