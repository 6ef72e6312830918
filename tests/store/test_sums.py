"""The sums of a store are those of its exported log, whatever came, in whatever order, folded or not."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from interleaf.analysis.analyze import tally_log
from interleaf.errors import DataError
from interleaf.report.build import report
from interleaf.store import fold, open_store
from interleaf.store.codec import CLICKED_ALL
from interleaf.store.fold import FoldedSums, Folding, report_settings_of
from interleaf.store.records import VersionCounts
from interleaf.store.sql import SqlStore
from interleaf.tally import Fact
from tests.support.stores import (
    HOUR,
    KINDS,
    SECOND,
    START,
    address,
    address_of,
    check_sums,
    click,
    exported,
    impression,
    running,
    store,
)

__all__ = ["address", "store"]
_WAYS: list[dict[str, Any]] = [
    {},
    {"by": ["device"], "holdout": 0.3, "bot_clicks": 2},
    {"events": {"click": 1.0, "purchase": 5.0}, "by": ["device"]},
    {"rankers": ["a", "b", "c"], "bot_clicks": 3},
    {"method": "probabilistic", "scheme": "click", "events": {"click": 1.0, "purchase": -2.0}},
    {"mode": "aa", "holdout": 0.5},
    {"method": "team_draft", "scheme": "click_place", "bot_clicks": 2},
    {"holdout": 0.3, "guardrails": {"abandonment": 0.1, "event:purchase": 0.1, "more:click": 0.1}},
]


@pytest.fixture(scope="module", params=KINDS)
def shared(request: pytest.FixtureRequest) -> Iterator[SqlStore]:
    """A store for all examples: each has an experiment of its own."""
    with TemporaryDirectory() as folder:
        found = open_store(address_of(request.param, Path(folder)))
        yield found
        found.close()


_STEP = st.one_of(
    st.tuples(st.just("show"), st.integers(0, 30), st.integers(0, 5)),
    st.tuples(st.just("click"), st.integers(0, 30), st.integers(1, 5)),
    st.tuples(st.just("buy"), st.integers(0, 30), st.integers(1, 4)),
    st.tuples(st.just("all"), st.integers(0, 30), st.just(0)),
    st.tuples(st.just("fold"), st.integers(0, 7), st.integers(1, 9)),
)
_numbers = iter(range(10**9))


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(_WAYS), st.lists(st.lists(_STEP, min_size=1, max_size=12), min_size=1, max_size=5))
def test_sums_of_any_traffic_are_those_of_the_log(
    shared: SqlStore, way: dict[str, Any], batches: list[list[tuple[str, int, int]]]
) -> None:
    settings = running(shared, name=f"e{next(_numbers)}", **way)
    for batch in batches:
        shown, events = [], []
        for what, number, other in batch:
            one = impression(settings, number, (number % 6) * HOUR // 2)
            if what == "show":
                shown.append(replace(one, row=dict(one.row) | {"excluded": "a crawler" if other == 5 else None}))
            elif what == "click":
                events.append(click(one, other))
            elif what == "buy":
                events.append(click(one, other, kind="purchase"))
            elif what == "all":
                events += [click(one, rank) for rank in range(1, 5)]
            else:
                shared.write(shown, events)
                shared.fold(START + number * HOUR // 2, other)
                shown, events = [], []
        shared.write(shown, events)
    if shared.tallies(settings.name):
        check_sums(shared, settings.name)
    counts = shared.counts(settings.name)
    table = exported(shared, settings.name) if counts != VersionCounts(0, 0, counts.apart) else None
    if table is not None:
        is_open = table.column("open").to_pylist()
        assert (sum(is_open), len(is_open) - sum(is_open)) == (counts.open, counts.folded)


def test_folding_changes_nothing_and_ends(store: SqlStore) -> None:
    settings = running(store, by=["device"], holdout=0.2)
    made = [impression(settings, number, number * SECOND) for number in range(200)]
    store.write(made, [click(one, 1 + number % 4) for number, one in enumerate(made)])
    wanted = report(store.tallies("shop")["click"], report_settings_of(settings)).to_dict()
    folded = []
    while number := store.fold(START + 2 * HOUR, 30):
        folded.append(number)
        check_sums(store, "shop")
    assert folded == [30] * 6 + [20]
    with store._database.reading() as transaction:
        parts = [count for (count,) in transaction.rows("SELECT impressions FROM sums ORDER BY number")]
    assert parts == [120, 60, 20]  # each larger than the next one: a fold rewrites the small ones
    assert store.counts("shop") == VersionCounts(0, 200, {})
    assert report(store.tallies("shop")["click"], report_settings_of(settings)).to_dict() == wanted


def test_a_report_reads_open_impressions_page_by_page(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their number, so many are in memory at a time; several close in the same microsecond."""
    settings = running(store, by=["device"])
    made = [impression(settings, number, number // 5) for number in range(40)]
    store.write(made, [click(one) for one in made])
    sizes, add = list[int](), fold._try_add

    def count_and_add(sums: FoldedSums, batch: pa.RecordBatch, earlier: None) -> FoldedSums | None:
        sizes.append(batch.num_rows)
        return add(sums, batch, earlier)

    monkeypatch.setattr(fold, "_try_add", count_and_add)
    monkeypatch.setattr(fold, "PAGE", 7)
    check_sums(store, "shop")
    assert sizes == [7] * 5 + [5]


def test_folds_hold_nothing_and_reports_hold_what_the_last_ones_were_made_of(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "MAX_CACHED", 2)
    shop, *others = (running(store, name=name) for name in ("shop", "b", "c"))
    store.write([impression(shop, number, number) for number in range(100)], [])
    store.write([impression(one, 1, HOUR) for one in others], [])
    for number in range(100):
        assert store.fold(START + HOUR + number) == 1
    assert not store._folding._cache
    for name in ("shop", "b", "c", "shop"):
        check_sums(store, name)
    held = store._folding._cache
    assert list(held) == [("c", 1, "click"), ("shop", 1, "click")]
    with store._database.reading() as transaction:
        there = [number for (number,) in transaction.rows("SELECT number FROM sums ORDER BY number")]
    first, second, third = there  # of 64, 32 and 4 impressions: the large ones are held as one
    assert list(held["shop", 1, "click"]) == [(first, second), (third,)]


def test_a_fold_that_breaks_off_has_not_happened(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = running(store)
    made = [impression(settings, number, number * SECOND) for number in range(20)]
    store.write(made, [click(one) for one in made])
    store.fold(START + HOUR + 5 * SECOND)
    before, keep = store.counts("shop"), Folding._keep

    def keep_and_break(*given: Any) -> None:
        keep(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(Folding, "_keep", keep_and_break)
        with pytest.raises(KeyboardInterrupt):
            store.fold(START + 2 * HOUR)
    assert store.counts("shop") == before == VersionCounts(14, 6, {})
    check_sums(store, "shop")
    assert store.fold(START + 2 * HOUR) == 14
    check_sums(store, "shop")


def test_one_experiment_that_cannot_be_folded_does_not_hold_up_the_others(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [impression(running(store, name=name), 1) for name in ("a", "b", "c")]
    store.write(made, [])
    keep = Folding._keep

    def keep_some(self: Folding, transaction: Any, settings: Any, *given: Any) -> None:
        if settings.name == "b":
            raise DataError("b is broken")
        keep(self, transaction, settings, *given)

    monkeypatch.setattr(Folding, "_keep", keep_some)
    with pytest.raises(DataError, match="b is broken"):
        store.fold(START + HOUR)
    assert [store.counts(name).folded for name in ("a", "b", "c")] == [1, 0, 1]


def test_analyze_of_the_exported_log_says_the_same(store: SqlStore) -> None:
    settings = running(store, events={"click": 1.0, "purchase": 5.0}, by=["device"])
    made = [impression(settings, number, number * SECOND) for number in range(50)]
    store.write(made, [click(one, 1 + number % 3) for number, one in enumerate(made)])
    store.write([], [click(one, 2, 9 * SECOND, kind="purchase") for one in made[::7]])
    store.fold(START + HOUR + 20 * SECOND)
    table = exported(store, "shop")
    for metric, tally in store.tallies("shop").items():
        again = tally_log(table, by=["device"], events=settings.metrics[metric], experiment="shop", version=1)
        how = report_settings_of(settings)
        assert report(tally, how).to_dict() == report(again, how).to_dict()


def test_an_impression_with_everything_clicked_is_a_bots(store: SqlStore) -> None:
    settings = running(store, bot_clicks=4)
    made = [impression(settings, number) for number in range(4)]
    events = [click(made[0], rank) for rank in (1, 2, 3, 4)] + [click(made[1], rank) for rank in (1, 2, 3)]
    events += [click(made[2], 4, second * SECOND) for second in (1, 2, 3, 4)]
    events += [click(made[3], rank, kind="seen") for rank in (1, 2, 3, 4)]
    store.write(made, events)
    for _ in range(2):
        found = exported(store, "shop").column("excluded").to_pylist()
        assert found == [CLICKED_ALL, None, None, None]
        tally = store.tallies("shop")["click"]
        assert tally.dropped == {f"excluded:{CLICKED_ALL}": 1}
        assert tally.impressions == 3
        check_sums(store, "shop")
        store.fold(START + 2 * HOUR)


def test_rows_that_all_do_not_count_are_folded_and_told_once_there_is_one_that_counts(store: SqlStore) -> None:
    settings = running(store)
    store.write([impression(settings, 1, excluded="a crawler")], [])
    store.fold(START + HOUR)
    assert store.tallies("shop") == {}
    assert store.counts("shop") == VersionCounts(0, 1, {})
    store.write([impression(settings, 2)], [])
    assert store.tallies("shop")["click"].dropped == {"excluded:a crawler": 1}
    check_sums(store, "shop")


def test_a_list_shorter_than_bots_click_on_is_a_persons(store: SqlStore) -> None:
    one = impression(running(store, bot_clicks=5), 1)
    store.write([one], [click(one, rank) for rank in (1, 2, 3, 4)])
    assert exported(store, "shop").column("excluded").to_pylist() == [None]


def test_what_cannot_be_scored_is_told_after_folding_too(store: SqlStore) -> None:
    settings = running(store)
    store.write([impression(settings, 1), impression(settings, 2, rankers=["twin", "twin"])], [])
    for _ in range(2):
        again = opened_again(store)
        assert again.tallies("shop")["click"].dropped == {"no_design": 1}
        check_sums(again, "shop")
        store.fold(START + HOUR)


def opened_again(store: SqlStore) -> SqlStore:
    """The same store, with nothing in memory."""
    return SqlStore(store._database)


def test_too_many_values_of_an_attribute_end_the_split_and_nothing_else(store: SqlStore) -> None:
    settings = running(store, by=["device"])
    made = [impression(settings, number, number, attributes={"device": f"d{number}"}) for number in range(400)]
    for start in (0, 200):
        store.write(made[start : start + 200], [click(one) for one in made[start : start + 200]])
        store.fold(START + HOUR + 2 * start)
    tally = store.tallies("shop")["click"]
    assert (tally.impressions, list(tally.segments), tally.facts[Fact.UNSPLIT]) == (400, [], 1)
    plain = tally_log(exported(store, "shop"), experiment="shop", version=1)
    assert tally.scores.sums.tolist() == plain.scores.sums.tolist()
    store.write([impression(settings, number, number, id=f"x{number}") for number in range(300)], [])
    assert store.tallies("shop")["click"].impressions == 700


def test_a_metric_that_the_method_cannot_score_is_left_out(store: SqlStore) -> None:
    settings = running(store, method="probabilistic", scheme="binary", events={"click": 1.0, "purchase": 2.0})
    one = impression(settings, 1)
    store.write([one], [click(one)])
    assert list(store.tallies("shop")) == ["click", "purchase"]
    assert store.fold(START + HOUR) == 1
    assert list(store.tallies("shop")) == ["click", "purchase"]
    assert store.counts("shop") == VersionCounts(0, 1, {})
