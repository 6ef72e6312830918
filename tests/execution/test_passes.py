"""Sums of parts of a log make those of the whole, without any Spark to cut it."""

import numpy as np
import pyarrow as pa
import pytest

from interleaf import tally_log
from interleaf.counterfactual.estimators import WeightedSums
from interleaf.counterfactual.old_log import LoggedRankings
from interleaf.decode import Design
from interleaf.errors import DataError
from interleaf.execution.passes import Groups, group_rows
from interleaf.log.drop_reasons import DropReason
from tests.support.log_rows import made_rows, table_of


def test_groups_are_the_same_however_their_rows_came() -> None:
    chance = np.random.default_rng(1)
    keys, values = chance.integers(0, 50, (2, 400)), chance.integers(-9, 9, (2, 400))
    columns = [*keys, *values]
    one, other = Groups(2, ["sum", "max"]), Groups(2, ["sum", "max"])
    for place, start in enumerate(range(0, 400, 25)):
        (one, other)[place % 2].add([column[start : start + 25] for column in columns])
    one.merge(other)
    whole = group_rows(columns[:2], [(columns[2], "sum"), (columns[3], "max")])
    order = np.lexsort(whole[:2])
    assert [mine.tolist() for mine in one.columns] == [column[order].tolist() for column in whole]


def test_weighted_sums_of_parts_lose_nothing_beside_large_weights() -> None:
    whole, one, other = WeightedSums(1), WeightedSums(1), WeightedSums(1)
    weights, outcomes = np.array([1e17, 3.0, 1.0, 1e17]), np.array([[1.0], [0.5], [0.25], [-1.0]])
    for sums, rows in ((whole, slice(None)), (one, slice(2)), (other, slice(2, None))):
        sums.add(np.zeros(4, np.int64)[rows], weights[rows], outcomes[rows], clip=1e17)
    one.merge(other)
    assert one.outcomes.sum() == whole.outcomes.sum() == 1.75
    assert one.statistics == whole.statistics


def test_sessions_do_not_mind_rows_of_which_all_came_before() -> None:
    rows = made_rows(30)
    again = [row | {"method": "probabilistic"} for row in rows]
    found = tally_log(table_of(rows + again), sessions=1800)
    assert found.dropped[DropReason.REPEATED_IMPRESSION] == 30
    assert found.scores.sums.tolist() == tally_log(table_of(rows), sessions=1800).scores.sums.tolist()


def borrowed(*rows: tuple[int, str]) -> LoggedRankings:
    """The rankings of ranker A for query q, by version, row by row."""
    made = LoggedRankings(["A"])
    for version, ranking in rows:
        array = pa.array([[list(ranking), ["z"]]], pa.list_(pa.list_(pa.string())))
        made.add(array, Design("shop", version, "interleaved", "probabilistic", ("A", "B")), np.array([0]), ["q"])
    return made


def merged(first: LoggedRankings, *others: LoggedRankings) -> LoggedRankings:
    for other in others:
        first.merge(other)
    return first


def test_of_a_rankers_rankings_the_first_is_kept_and_a_change_is_told_in_whatever_part_it_is() -> None:
    same = merged(borrowed((1, "ab")), borrowed((1, "ab")), borrowed((2, "ab")))
    assert same.rankings == {"A": {"q": ["a", "b"]}}
    assert same.changed == {"A": set()}
    for parts in (
        [borrowed((1, "ab")), borrowed((1, "ba"))],
        [borrowed((1, "ab")), borrowed((1, "ab"), (1, "ba"))],
        [borrowed((1, "ab"), (1, "ba")), borrowed((1, "ab"))],
        [LoggedRankings(["A"]), borrowed((1, "ab"), (1, "ba"))],
    ):
        found = merged(*parts)
        assert found.rankings == {"A": {"q": ["a", "b"]}}
        assert found.changed == {"A": {"q"}}
    for parts in ([borrowed((1, "ab")), borrowed((2, "ba"))], [borrowed((1, "ab")), borrowed((2, "ab"), (2, "ba"))]):
        with pytest.raises(DataError, match="version 1 of 'shop' and in version 2"):
            merged(*parts)
