"""Tallies add up: split a log anyhow, put the parts together in any order, and nothing has changed."""

import random
from collections.abc import Sequence
from functools import cache, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from interleaf import DataError
from interleaf.analysis.analyze import analyze, tally_log
from interleaf.simulate.data import synthetic
from interleaf.simulate.people import People
from interleaf.simulate.world import World
from interleaf.tally import Tally
from interleaf.tally.tally_file import to_bytes
from tests.support.log_rows import Row, made_row, made_rows, table_of
from tests.support.stores import segments_of

WAYS: dict[str, dict[str, Any]] = {
    "team_draft": {},
    "probabilistic": {"scheme": "normalized", "by": ["device", "country"]},
    "pairwise_preference": {"events": {"click": 1, "purchase": 2.5}, "by": ["device"]},
    "team_draft(prefix=True)": {"scheme": "normalized_place"},
}


def world_table(method: str, **more: Any) -> Any:
    """Some two hundred impressions in five arms."""
    rankers = more.pop("rankers", [1, 9, 15])
    people = People(units=60, returning=0.5, purchases=(0.1, 0.5), taste=0.3)
    arms = more.pop("arms", {"holdout": 0.15, "A": 0.1, "B": 0.1, "C": 0.1})
    world = World(synthetic(queries=12, seed=2), rankers, people, method, k=5, seed=3, arms=arms, **more)
    return pa.Table.from_batches(list(world.batches(rankings=True)))


TABLES = {method: world_table(method) for method in WAYS}


def comparable(values: Any) -> tuple[Any, ...]:
    """An array as a value that `==` compares: type, shape and bytes; -0.0 is 0.0, and nothing is NaN."""
    assert (values == values).all()
    return values.dtype.str, values.shape, (values + 0).tobytes()


def contents(tally: Tally) -> dict[str, Any]:
    """All that a tally holds, arms by their names."""
    parts: dict[str, Any] = {"scores": tally.scores, "lists": tally.lists, "exposure": tally.exposure}
    parts |= {f"arm {name}": part for name, part in tally.arms.items()}
    arrays = {f"{name} {field}": values for name, part in parts.items() for field, values in part._asdict().items()}
    arrays |= {"units": tally.units.hashes, "sample": tally.sample.hashes, "slices": tally.slices.clicked}
    arrays |= {"cells": tally.slices.cells.hashes, "cells' sums": tally.slices.cells.values}
    bits = {name: tally.units.values[:, 1] >> place & 1 for place, name in enumerate(tally.arms)}
    arrays |= {f"units in {name}": values for name, values in bits.items()}
    arrays |= {"units' sums": np.delete(tally.units.values, 1, axis=1)}
    arrays |= {f"evidence {name}": values for name, values in tally.evidence.arrays() if not name.startswith("first")}
    arrays |= {f"evidence first {key}": values for key, values in tally.evidence.firsts.items()}
    rest = {name: dict(getattr(tally, name)) for name in ("dropped", "events", "facts")}
    levels = (tally.units.level, tally.sample.level, tally.slices.step, tally.slices.first)
    return {name: comparable(values) for name, values in sorted(arrays.items())} | rest | {
        "about": tally.about, "segments": segments_of(tally), "span": (tally.since, tally.until), "levels": levels,
    }  # fmt: skip


@cache
def whole_tally(method: str) -> Tally:
    return tally_log(TABLES[method], **WAYS[method])


@cache
def whole_report(method: str) -> dict[str, Any]:
    return analyze(whole_tally(method)).to_dict()


def check_whole(found: Tally, method: str) -> None:
    check_same(found, whole_tally(method), whole_report(method))


def check_same(one: Tally, other: Tally, report: dict[str, Any] | None = None) -> None:
    """Equal files are equal tallies; of others the contents are equal, and the reports, whatever the order of arms."""
    if to_bytes(one) == to_bytes(other):
        return
    mine, theirs = contents(one), contents(other)
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        assert value == theirs[name], name
    assert analyze(one).to_dict() == (report or analyze(other).to_dict())


def parts_of(table: Any, places: Sequence[int]) -> list[Any]:
    """Tables of the rows with the same number."""
    chosen = np.resize(places, table.num_rows)
    return [table.filter(pa.array(chosen == place)) for place in sorted(set(chosen.tolist()))]


@pytest.mark.parametrize("method", WAYS)
def test_the_parts_of_a_log_add_up_in_any_grouping(method: str) -> None:
    table = TABLES[method]
    for seed in range(4):
        chance = random.Random(seed)
        places = [chance.randrange(2 + seed) for _ in range(table.num_rows)]
        tallies = [tally_log(part, **WAYS[method]) for part in parts_of(table, places)]
        while len(tallies) > 1:
            one = tallies.pop(chance.randrange(len(tallies)))
            other = tallies.pop(chance.randrange(len(tallies)))
            tallies.append(one + other)
        check_whole(tallies[0], method)


@settings(max_examples=15)
@given(st.lists(st.integers(0, 3), min_size=20, max_size=60), st.sampled_from(sorted(WAYS)))
def test_a_log_may_be_split_anyhow(places: list[int], method: str) -> None:
    """Also so that some part holds nothing but a holdout."""
    tallies = [tally_log(part, **WAYS[method]) for part in parts_of(TABLES[method], places)]
    check_whole(reduce(Tally.__add__, tallies), method)


@pytest.mark.parametrize("method", WAYS)
def test_a_part_with_arms_alone_adds_to_one_with_interleaved_lists(method: str) -> None:
    table = TABLES[method]
    interleaved = pa.compute.equal(table["arm"], "interleaved")
    one, other = table.filter(interleaved), table.filter(pa.compute.invert(interleaved))
    check_whole(tally_log(one, **WAYS[method]) + tally_log(other, **WAYS[method]), method)
    check_whole(tally_log(other, **WAYS[method]) + tally_log(one, **WAYS[method]), method)


@pytest.mark.parametrize("method", WAYS)
def test_the_order_of_rows_does_not_matter(method: str) -> None:
    table = TABLES[method]
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(table.num_rows)
        check_whole(tally_log(table.take(order), **WAYS[method]), method)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_batches_and_threads_do_not_matter(threads: int) -> None:
    table = TABLES["team_draft"]
    batches = table.combine_chunks().to_batches(max_chunksize=17)
    check_same(tally_log(batches, threads=threads), tally_log(table, threads=1))


def test_sessions_add_up_if_units_are_not_split() -> None:
    table = world_table("team_draft", rankers=[1, 9], arms={"holdout": 0.3})
    units = sorted(set(table["unit"].to_pylist()))
    places = [units.index(unit) % 3 for unit in table["unit"].to_pylist()]
    parts = [tally_log(part, "click", sessions=1800) for part in parts_of(table, places)]
    check_same(reduce(Tally.__add__, parts), tally_log(table, "click", sessions=1800))


def test_adding_changes_neither_part() -> None:
    one, other = (tally_log(part) for part in parts_of(TABLES["team_draft"], [0, 1]))
    before = contents(one), contents(other)
    _ = one + other
    assert (contents(one), contents(other)) == before


# Rankers by other names, and in another order.


def turned(row: Row) -> Row:
    """The same impression, told with the rankers the other way round."""
    by_ranker = ("rankers", "ranks", "lengths", "rankings", "unshown_ranks")
    change = {name: row[name][::-1] for name in by_ranker if row.get(name)}
    if row.get("teams"):
        last = len(row["rankers"]) - 1
        change["teams"] = [last - team if team >= 0 else team for team in row["teams"]]
    return row | change


@pytest.mark.parametrize("method", ["team_draft", "probabilistic", "pairwise_preference", "sample_scored_only"])
def test_rows_may_name_the_rankers_in_any_order(method: str) -> None:
    rows = made_rows(40, method, of=3)
    mixed = [turned(row) if number % 3 == 0 else row for number, row in enumerate(rows)]
    check_same(tally_log(table_of(mixed)), tally_log(table_of(rows)))


@pytest.mark.parametrize("scheme", ["binary", "click"])
def test_sessions_go_on_where_rankers_change_their_order(scheme: str) -> None:
    rows = made_rows(40)
    mixed = [turned(row) if number % 3 == 0 else row for number, row in enumerate(rows)]
    found, whole = (tally_log(table_of(one), scheme, sessions=900) for one in (mixed, rows))
    check_same(found, whole)


@pytest.mark.parametrize("method", ["team_draft", "pairwise_preference"])
def test_renaming_the_rankers_permutes_the_result(method: str) -> None:
    rows = made_rows(40, method, of=3)
    names = {"A": "zeta", "B": "beta", "C": "alpha"}
    renamed = [turned(row) | {"rankers": [names[name] for name in reversed(row["rankers"])]} for row in rows]
    found = {(one.first, one.second): one for one in analyze(table_of(renamed)).comparisons}
    for one in analyze(table_of(rows)).comparisons:
        other = found[names[one.second], names[one.first]]
        assert other.estimate == -(one.estimate or 0)
        assert other.error == pytest.approx(one.error, rel=1e-12)
        assert other.p_value == pytest.approx(one.p_value, rel=1e-9)
        assert (other.wins, other.losses, other.ties) == (one.losses, one.wins, one.ties)
        assert (other.unit_wins, other.unit_losses) == (one.unit_losses, one.unit_wins)


# What cannot be added.


def test_too_many_segments_are_refused_however_the_log_comes() -> None:
    rows = [row | {"attributes": {"person": f"p-{number}"}} for number, row in enumerate(made_rows(400))]
    batches = table_of(rows).to_batches(max_chunksize=200)
    for threads in (1, 2):
        with pytest.raises(DataError, match="'person' has too many values"):
            tally_log(batches, by=["person"], threads=threads)
    one, other = (tally_log([batch], by=["person"]) for batch in batches)
    with pytest.raises(DataError, match="'person' has too many values"):
        _ = one + other


@pytest.mark.parametrize(
    ("field", "more", "options"),
    [
        ("experiment", {"experiment": "other"}, {}),
        ("version", {"version": 2}, {}),
        ("rankers", {"rankers": ["A", "C"]}, {}),
        ("composed", {"method": "team_draft(fill=owned)"}, {"method": "team_draft"}),
        ("method", {}, {"method": "probabilistic"}),
        ("scheme", {}, {"scheme": "click"}),
        ("events", {}, {"dwell": 30}),
        ("events", {}, {"events": {"click": 2}}),
        ("sessions", {}, {"sessions": 60}),
    ],
)
def test_tallies_of_different_things_are_not_added(field: str, more: Row, options: dict[str, Any]) -> None:
    one = tally_log(table_of(made_rows(20, version=1)), method="team_draft")
    other = tally_log(table_of([row | more for row in made_rows(20)]), **({"method": "team_draft"} | options))
    with pytest.raises(DataError, match=f"their {field} differ"):
        _ = one + other
    with pytest.raises(DataError, match=f"their {field} differ"):
        _ = other + one


def test_a_tally_added_to_itself_is_seen() -> None:
    one = tally_log(table_of(made_rows(50)))
    other = tally_log(table_of([made_row(number, (1,)) for number in range(45, 80)]))
    for twice, shared in ((one + one, 50), (one + other, 5), (other + (one + one), 55)):
        report = analyze(twice)
        (check,) = [check for check in report.health if check.code == "tallies_overlap"]
        assert check.status == "failed"
        assert f"about {shared} impressions" in check.figure
        assert not report.verdict.trusted
    apart = tally_log(table_of([made_row(number, (1,)) for number in range(50, 80)]))
    assert not [check for check in analyze(one + apart).health if check.code == "tallies_overlap"]


def test_rows_without_an_id_do_not_make_tallies_overlap(tmp_path: Path) -> None:
    tables = []
    for start in (0, 10):
        rows = [made_row(number, (1,)) for number in range(start, start + 10)]
        table = table_of(rows)
        ids = [None, *table["impression"].to_pylist()[1:]]
        tables.append(table.set_column(table.schema.get_field_index("impression"), "impression", pa.array(ids)))
    checks = [check.code for check in analyze(tally_log(tables[0]) + tally_log(tables[1])).health]
    assert "tallies_overlap" not in checks
