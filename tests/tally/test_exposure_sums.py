"""Probabilities of places and values of clicks against the oracle of exposure, which enumerates all lists."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from benchmarks.exposure import ExposureWorld
from interleaf import Interleaving, tally_log
from interleaf.kernels.arrays import exactly
from interleaf.kernels.jit import plain
from interleaf.methods.registry import METHODS, resolve
from interleaf.tally import Tally
from interleaf.tally.bucket_sums import ONE
from interleaf.tally.exposure_sums import LEFT_OUT, MAX_RANKS, POWERS
from tests.oracles import exposure
from tests.support.worlds import EXACT_SPECS, oracle_of, shown_of, worlds_of

PLACED = [spec for spec in (*EXACT_SPECS, "one_list") if resolve(spec).method.kernels.place is not None]


def test_methods_of_both_kinds_have_probabilities_of_places() -> None:
    assert {resolve(spec).method.name for spec in PLACED} == {"team_draft", "competitive_pairs", "one_list"}


def chances_of(shown: Interleaving, exact: bool) -> dict[Any, dict[int, Any]]:
    """The probability of each document at each rank, by the kernel of the method."""
    chosen = resolve(shown.method)
    kernels, impression = chosen.method.kernels, shown.impression()
    unshown = impression.unshown_ranks.shape[1]
    chances = np.zeros((len(shown.documents) + unshown, len(shown.documents)))
    if exact:
        impression, chances = exactly(impression), np.full(chances.shape, Fraction(0))
    settings = kernels.settings(impression.lengths, chosen.parameters, exact)
    assert kernels.place is not None
    place = plain(kernels.place) if exact else kernels.place
    assert place(impression, chances, settings)
    documents = [*shown.documents, *hidden_documents(shown)]
    return {
        document: {place + 1: row[place] for place in np.flatnonzero(row).tolist()}
        for document, row in zip(documents, chances, strict=True)
        if row.any()
    }


def hidden_documents(shown: Interleaving) -> list[Any]:
    """The unshown documents in the order of their ranks in the log."""
    assert shown.unshown_ranks is not None
    assert shown.rankings is not None
    return [
        next(shown.rankings[ranker][rank - 1] for ranker, rank in enumerate(column) if rank)
        for column in shown.unshown_ranks.T.tolist()
    ]


@pytest.mark.parametrize("spec", PLACED)
def test_documents_are_placed_with_the_oracle_s_probabilities(spec: str) -> None:
    for small in worlds_of(resolve(spec)):
        outcomes = {outcome: chance for outcome, chance in oracle_of(spec).distribution(small).items() if outcome[0]}
        truth = exposure.placement(outcomes)
        lengths = set(map(len, small.rankings))
        if spec == "one_list" and len(lengths) > 1 and small.k >= min(lengths):
            continue  # a log does not say how long the other ranker's list would have been
        for outcome in list(outcomes)[:2]:
            shown = shown_of(small.rankings, outcome, spec)
            if len(outcome[0]) < max(len(documents) for documents, _ in outcomes):
                continue  # `fill=stop` may end lists early, and a log does not say where the others end
            assert chances_of(shown, exact=True) == truth, small
            served = chances_of(shown, exact=False)
            assert served == {doc: pytest.approx({k: float(v) for k, v in at.items()}) for doc, at in truth.items()}


def oracle_values(rankings: Any, shown: tuple[int, ...], clicked: list[int], spec: str, k: int, power: int) -> Any:
    theta = [Fraction(1, (rank + 1) ** power) for rank in range(len(shown))]
    distribution = oracle_of(spec).module.distribution(rankings, k)
    return exposure.value(rankings, shown, frozenset(clicked), theta, exposure.placement(distribution), k)


def table_of(rankings: Any, spec: str, k: int, rows: int) -> Any:
    world = ExposureWorld(np.array([rankings]), np.full((1, 9), 0.5), np.ones(9))
    return world.log(np.random.default_rng(5), rows, spec, k)


@pytest.mark.parametrize("spec", ["team_draft", "competitive_pairs"])
def test_values_of_clicks_are_the_oracle_s(spec: str) -> None:
    rankings, k = ((0, 1, 2, 3, 4), (1, 4, 0, 5, 2)), 4
    log = table_of(rankings, spec, k, 60)
    sums = tally_log(log).exposure
    places = [[event["rank"] - 1 for event in events] for events in log["events"].to_pylist()]
    lists = [tuple(map(int, documents)) for documents in log["documents"].to_pylist()]
    for curve, power in ((0, 0), (2, 1), (4, 2)):
        assert POWERS[curve] == power
        every = [oracle_values(rankings, shown, at, spec, k, power) for shown, at in zip(lists, places, strict=True)]
        truth = np.array(every, float).sum(axis=0)
        np.testing.assert_allclose(sums.values[:, curve].sum(axis=0) / ONE, truth, rtol=1e-6)
        np.testing.assert_allclose(sums.ranked[curve].sum(axis=1), sums.values[:, curve].sum(axis=0), rtol=1e-6)
    assert sums.lists.sum() == 60
    assert not sums.left_out.any()


def test_slopes_are_derivatives_by_log_examination() -> None:
    log = table_of(((0, 1, 2, 3, 4), (1, 4, 0, 5, 2)), "team_draft", 4, 60)
    curve, step = 1 / np.arange(1.0, 5), 1e-2
    slopes = tally_log(log).exposure.slopes[:, POWERS.index(1.0)].sum(axis=0) / ONE
    for rank in range(4):
        ends = []
        for sign in (-1, 1):
            moved = curve * np.exp(sign * step * (np.arange(4) == rank))
            ends.append(tally_log(log, examination=moved.tolist()).exposure.values[:, 0].sum(axis=0) / ONE)
        np.testing.assert_allclose(slopes[:, rank], (ends[1] - ends[0]) / (2 * step), atol=5e-3)


def test_the_share_of_documents_that_can_be_shown_is_counted() -> None:
    """A: 0 1 2, B: 3 4 5 in a list of 2: the round has 0 and 3, so nothing below rank 1 is ever shown."""
    world = ExposureWorld(np.array([[[0, 1, 2], [3, 4, 5]]]), np.ones((1, 6)), np.ones(3))
    tops = tally_log(world.log(np.random.default_rng(1), 10, "competitive_pairs", 2)).exposure.tops
    assert tops[:, :2].tolist() == [[[10, 10], [10, 0]], [[10, 10], [10, 0]]]


def left_out(log: Any, **options: Any) -> dict[str, int]:
    return dict(zip(LEFT_OUT, tally_log(log, **options).exposure.left_out.tolist(), strict=True))


def test_lists_that_are_left_out_are_counted_by_the_reason() -> None:
    rankings = np.arange(2 * (MAX_RANKS + 1)).reshape(1, 2, -1)
    world = ExposureWorld(rankings, np.full((1, 60), 0.5), np.ones(60))
    log = world.log(np.random.default_rng(1), 10, "competitive_pairs", MAX_RANKS + 1)
    assert left_out(log) == {"no_ranks": 0, "too_long": 10, "impossible": 0}
    short = world.log(np.random.default_rng(1), 10, "competitive_pairs", 3)
    assert left_out(short, examination=[1, 0.5]) == {"no_ranks": 0, "too_long": 10, "impossible": 0}
    assert left_out(short) == {"no_ranks": 0, "too_long": 0, "impossible": 0}
    without = short.drop_columns(["unshown_ranks"])
    assert left_out(without) == {"no_ranks": 10, "too_long": 0, "impossible": 0}


def test_tallies_with_other_examination_do_not_add_and_a_file_keeps_it(tmp_path: Any) -> None:
    log = table_of(((0, 1, 2), (1, 2, 0)), "competitive_pairs", 3, 20)
    given, estimated = tally_log(log, examination=[1, 0.5, 0.3]), tally_log(log)
    with pytest.raises(Exception, match="their examination differ"):
        given + estimated
    given.save(tmp_path / "a.tally")
    back = Tally.load(tmp_path / "a.tally")
    assert back.about.examination == (1, 0.5, 0.3)
    assert all((one == other).all() for one, other in zip(back.exposure, given.exposure, strict=True))


def test_a_log_without_ranks_of_unshown_documents_has_no_sums() -> None:
    log = table_of(((0, 1, 2), (1, 2, 0)), "competitive_pairs", 3, 20).drop_columns(["unshown_ranks"])
    assert tally_log(log).exposure.lists.sum() == 0


def test_every_method_without_probabilities_is_left_out() -> None:
    log = table_of(((0, 1, 2), (1, 2, 0)), "balanced", 3, 20)
    assert METHODS["balanced"].kernels.place is None
    assert tally_log(log).exposure.lists.sum() == 0
