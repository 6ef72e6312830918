"""Learned credit is honest: refused on what it was learned from, or cross-fitted, and finds nothing in nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from interleaf import DataError, SchemeError, analyze
from interleaf.analysis.analyze import tally_log
from interleaf.click_value import LearnedCredit, gather, learn
from interleaf.click_value.click_features import credit_clicks, matrix
from interleaf.click_value.credit_fitting import GROUPS, Fitting, Moments
from interleaf.decode import Counting, Decoding
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import resolve
from interleaf.simulate import People, World, synthetic
from interleaf.stats.compare import estimate
from interleaf.studies import chapelle2012_learning as study
from interleaf.tally.bucket_sums import ONE
from tests.support.log_rows import made_rows, table_of

DATA = synthetic(queries=60, seed=1)


def world(seed: int, units: int = 400, **more: Any) -> World:
    named, people = {"good": 1, "weak": 12}, People(units=units, clicks="informational")
    return World(DATA, named, people, "team_draft", seed=seed, experiment=f"e{seed}", **more)


def table(seed: int, **more: Any) -> Any:
    return pa.Table.from_batches(list(world(seed, **more).batches(threads=1)))


@pytest.fixture(scope="module")
def log() -> Any:
    return table(1)


@pytest.fixture(scope="module")
def credit(log: Any) -> LearnedCredit:
    return learn(log, resamples=1).credit


def plain_scores(log: Any, credit: LearnedCredit, crossed: bool) -> tuple[Array, Array]:
    """The sum of the first ranker's score less the second's by bucket, page by page, from the weights alone."""
    chosen, sums, counts = resolve("team_draft"), np.zeros(1024), np.zeros(1024)
    for batch in log.to_batches():
        for decoded in Decoding(batch, Counting(), detailed=True):
            clicks, shares = credit_clicks(decoded, ["click"], chosen, chosen.scheme("normalized_deduped", 2))
            values, place = matrix(clicks, credit.features), buckets.buckets(decoded.unit)
            for click, page in enumerate(clicks.page.tolist()):
                fold = int(place[page]) * len(credit.folds) // 1024
                weights = credit.folds[fold] if crossed else credit.weights
                worth = sum(value * weight for value, weight in zip(values[click].tolist(), weights, strict=True))
                sums[place[page]] += worth * (shares[click, 0] - shares[click, 1])
            np.add.at(counts, place[decoded.has_event], 1)
    return sums, counts


def test_on_its_own_experiment_credit_without_folds_is_refused(log: Any, credit: LearnedCredit) -> None:
    bare = learn(log, folds=0, resamples=1).credit
    with pytest.raises(DataError, match=r"learned from 'e1': on experiment 'e1', its intervals would be too short"):
        analyze(log, credit=bare)
    other = analyze(table(2), credit=bare)
    assert other.scheme == f"learned {bare.digest} on normalized_deduped"
    assert other.comparisons[0].first == "good"
    assert analyze(log, credit=credit).scheme == f"learned {credit.digest} on normalized_deduped, cross-fitted"


@pytest.mark.parametrize("own", [True, False])
def test_scores_are_those_of_the_weights_and_on_the_own_experiment_of_the_folds(
    log: Any, credit: LearnedCredit, own: bool
) -> None:
    shown = log if own else table(2)
    tally = tally_log(shown, credit=credit, threads=1)
    sums, counts = plain_scores(shown, credit, own)
    found = (tally.scores.sums[:, 0] - tally.scores.sums[:, 1]) / ONE
    assert found == pytest.approx(sums, abs=len(sums) * 2.0**-24)
    assert tally.scores.clicked.tolist() == counts.tolist()
    assert np.abs(sums).sum() > 1


def test_the_weights_of_a_fold_do_not_know_its_users_nor_those_after(log: Any, credit: LearnedCredit) -> None:
    units = np.array([buckets.bucket_of(unit) for unit in log.column("unit").to_pylist()])
    folds = len(credit.folds)
    assert credit.folds[0] == (1.0, *[0.0] * (len(credit.features) - 1))
    for fold in (1, 5, folds - 1):
        known = log.filter(pa.array(units * folds // 1024 < fold))
        again = learn(known, {"e1": "good"}, resamples=1).credit
        assert again.weights == pytest.approx(credit.folds[fold], rel=1e-6, abs=1e-9)
        assert again.folds[fold] == pytest.approx(credit.folds[fold], rel=1e-6, abs=1e-9)


def test_a_cross_fitted_credit_finds_nothing_where_there_is_nothing() -> None:
    """Level at most nominal + 1.5 points; and scored by weights from all other users, it would not hold."""
    users, repeats = study.users_of(world(3), "normalized_deduped"), 600
    fitting = Fitting(np.arange(users.sums.shape[1]) > 0)
    generator, groups = np.random.default_rng(11), users.buckets.astype(int) * GROUPS // 1024
    found = {"equal": 0, "same": 0, "others": 0, "before": 0}
    for _ in range(repeats):
        sums = users.sums * generator.choice([-1.0, 1.0], len(users.sums))[:, None]
        moments = Moments(users.moments.count, np.zeros_like(users.moments.sums), users.moments.products)
        np.add.at(moments.sums, groups, sums)
        for way, weights in zip(found, study.each_way(moments, fitting), strict=True):
            scores = np.bincount(groups, (sums * weights[groups]).sum(axis=1), GROUPS)
            p_value = estimate(scores, moments.count).p_value
            assert p_value is not None
            found[way] += p_value < 0.05
    bound = binom.isf(1e-6, repeats, 0.05 + 0.015)
    assert found["equal"] <= bound
    assert found["before"] <= bound
    assert found["same"] > 0.9 * repeats
    assert found["others"] > found["before"]


def test_relabelled_worlds_through_the_whole_pipeline_show_nothing() -> None:
    """A coin for each user exchanges the rankers' names; one of them is called better, and credit learned and used."""
    found, repeats = 0, 40
    for seed in range(repeats):
        log = table(100 + seed, units=120, relabel=True)
        learned = learn(log, {f"e{100 + seed}": "good"}, ridge=0.1, resamples=1).credit
        p_value = analyze(log, credit=learned).comparisons[0].p_value
        assert p_value is not None
        found += p_value < 0.05
    assert found <= binom.isf(1e-6, repeats, 0.05 + 0.015)


def test_what_would_be_ignored_is_refused(log: Any, credit: LearnedCredit) -> None:
    with pytest.raises(DataError, match="leave out sessions"):
        tally_log(log, credit=credit, sessions=600)
    with pytest.raises(DataError, match="events that count as click, not click, dwell at least 30 s"):
        tally_log(log, credit=credit, dwell=30)
    with pytest.raises(SchemeError, match="takes a normalized scheme, not 'binary'"):
        tally_log(log, "binary", credit=credit)
    plain = learn(log, scheme="normalized", resamples=1, ridge=0.1).credit
    with pytest.raises(DataError, match="learned on scheme 'normalized', not 'normalized_deduped'"):
        tally_log(log, "normalized_deduped", credit=plain)
    assert tally_log(log, credit=plain).about.scheme.endswith("on normalized, cross-fitted")


def test_learned_credit_scores_many_rankers_and_other_methods() -> None:
    credit = learn(table(1), scheme="normalized", resamples=1, ridge=0.1).credit
    many = tally_log(table_of(made_rows(60, of=3)), credit=credit)
    assert many.scores.sums.shape[1] == 3
    assert np.abs(many.scores.sums).sum() > 0
    balanced = tally_log(table_of(made_rows(60, "balanced")), credit=credit)
    assert balanced.about.scheme.endswith("on normalized")
    equal = replace(credit, weights=credit.folds[0])
    one, other = (
        tally_log(table_of(made_rows(60, of=3)), **how) for how in ({"credit": equal}, {"scheme": "normalized"})
    )
    assert one.scores.sums.tolist() == other.scores.sums.tolist()


def test_tallies_of_one_credit_add_up_and_those_of_two_do_not(credit: LearnedCredit) -> None:
    log = table(2)
    first, second = log.slice(0, 300), log.slice(300)
    added = tally_log(first, credit=credit) + tally_log(second, credit=credit)
    assert added.scores.sums.tolist() == tally_log(log, credit=credit).scores.sums.tolist()
    with pytest.raises(DataError, match="scheme differ"):
        tally_log(first, credit=credit) + tally_log(second, "normalized_deduped")


def test_gathered_moments_are_those_of_the_pages() -> None:
    log = table(1)
    (moments,) = gather(log, ["rank"]).pairs.values()
    equal = LearnedCredit(("click", "rank"), (1.0, 0.0), (), (), Counting(), None, 0.0, "pooled")
    tally = tally_log(log, credit=equal)
    sums = (tally.scores.sums[:, 0] - tally.scores.sums[:, 1]) / ONE
    assert moments.sums[:, 0] == pytest.approx(sums.reshape(GROUPS, -1).sum(axis=1), abs=1e-4)
    assert moments.products[:, 0, 0].sum() == pytest.approx(tally.scores.squares[0] / ONE, abs=1e-3)
