"""The choice of the best of many in simulated worlds: a part of `python -m benchmarks.choose`."""

import pytest

from benchmarks import choose


@pytest.mark.parametrize("algorithm", ["double_thompson", "self_sparring"])
def test_no_winner_is_named_among_rankers_that_beat_each_other_in_a_cycle(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "EPOCHS", 60)
    monkeypatch.setattr(choose, "IMPRESSIONS", 6000)
    world = choose.three_in_a_cycle(5)
    outcomes = [choose.run(world, algorithm, seed) for seed in range(6)]
    assert [one.verdict.winner for one in outcomes] == [None] * 6
    assert any(len(one.exits) == 4 for one in outcomes)  # all others left, so a winner could have been named
    assert "no_best" in {one.verdict.code for one in outcomes}
