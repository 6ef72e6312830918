"""Both stores keep the same promises: each thing once, durable, in the right state, with the same sums."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from interleaf import DataError, log
from interleaf.errors import ExperimentError, StateError
from interleaf.experiment import Experiment, extend_list
from interleaf.log.drop_reasons import EventFate
from interleaf.log.schema import COLUMNS
from interleaf.store import open_store
from interleaf.store.records import ADMIN, INGEST, READ, VersionCounts
from interleaf.store.sql import SqlStore
from tests.support.log_rows import rows_of
from tests.support.stores import (
    HOUR,
    SECOND,
    SHOP,
    START,
    address,
    check_sums,
    click,
    exported,
    impression,
    running,
    store,
)

__all__ = ["address", "store"]


def test_an_impression_goes_in_once_and_comes_back_as_it_was(store: SqlStore) -> None:
    settings = running(store)
    one = impression(settings, 1, captions=[{"title": "T\0"}, None, None, None], latency=[1.5, None], session="s-1")
    assert store.write([one], []) == ([None], [])
    ((again,), _) = store.write([replace(one, time=5, row=dict(one.row) | {"query": "another"})], [])
    assert again is not None
    assert again == store.row(one.id)
    empty = dict.fromkeys(column.name for column in COLUMNS if column.name not in ("open", "events"))
    assert again == empty | dict(one.row) | {"time": one.time}
    assert store.row("nobody") is None
    assert store.write([one, impression(settings, 2)], [])[0] == [again, None]


def test_the_same_impression_twice_in_one_write_is_stored_once(store: SqlStore) -> None:
    one = impression(running(store), 1)
    (first, second), _ = store.write([one, one], [])
    assert first is None
    assert second == store.row(one.id)
    assert store.counts("shop").open == 1


def test_an_export_is_the_native_log(store: SqlStore) -> None:
    settings = running(store)
    captions = [{"title": "A", "highlights": [{"field": "title", "start": 0, "end": 1}]}, None, None, None]
    one = impression(settings, 1, captions=captions, grades=[1, None, 0, 2], latency=[1.5, None], session="s-1")
    event = click(one, 2, dwell=2.5, value=9.5)
    store.write([one], [event])
    store.write([impression(settings, 2, 2 * HOUR, excluded="a crawler")], [])
    store.fold(START + HOUR)
    first, second = rows_of(exported(store, "shop"))
    time = datetime.fromtimestamp(START / 1e6, UTC)
    wanted: dict[str, Any] = {
        name: value for name, value in one.row.items() if name in log.rows_to_batch([]).schema.names
    }
    wanted |= {"time": time, "open": False}
    wanted["events"] = [
        {"event": event.id, "kind": "click", "rank": 2, "time": time + timedelta(seconds=5), "dwell": 2.5, "value": 9.5}
    ]
    wanted["captions"][0] |= dict.fromkeys(("url", "snippet", "deep_links"))
    assert first == {name: value for name, value in wanted.items() if value is not None}
    assert (second["open"], second["excluded"], second["events"]) == (True, "a crawler", [])
    assert exported(store, "shop").schema.equals(log.rows_to_batch([]).schema)


def test_ranks_beyond_16_bits_are_kept_and_exported(store: SqlStore) -> None:
    one = impression(running(store), 1)
    deep = [[rank and rank + 40_000 for rank in ranks] for ranks in one.row["ranks"]]
    row = dict(one.row) | {"ranks": deep, "lengths": [50_000, 50_000], "union": 90_000}
    store.write([replace(one, row=row)], [])
    assert exported(store, "shop").column("ranks").to_pylist() == [deep]
    check_sums(store, "shop")


def test_an_event_goes_in_once_and_a_dwell_may_follow(store: SqlStore) -> None:
    one = impression(running(store), 1)
    event = click(one, 1, id="e")
    later = replace(event, dwell=3.0)
    assert store.write([one], [event, replace(event, rank=2)])[1] == [EventFate.ACCEPTED, EventFate.REPEATED]
    assert store.write([], [later, click(one, 2)])[1] == [EventFate.REPEATED, EventFate.ACCEPTED]
    assert store.write([], [replace(event, dwell=9.0, value=2.0)])[1] == [EventFate.REPEATED]
    assert store.write([], [replace(event, dwell=5.0, value=8.0)])[1] == [EventFate.REPEATED]
    found = store.examples("shop")[0]["events"]
    assert [(event["event"], event["dwell"], event["value"]) for event in found] == [
        ("e", 9.0, 2.0),
        (click(one, 2).id, None, None),
    ]
    both = [click(one, 4, id="f"), click(one, 4, id="f", dwell=7.0), click(one, 3, -SECOND, id="g")]
    assert store.write([], both)[1] == [EventFate.ACCEPTED, EventFate.REPEATED, EventFate.ACCEPTED]
    found = exported(store, "shop").column("events").to_pylist()[0]
    assert [(event["event"], event["rank"], event["dwell"]) for event in found] == [
        *(("g", 3, None), ("e", 1, 9.0), (click(one, 2).id, 2, None), ("f", 4, 7.0)),
    ]
    check_sums(store, "shop")


def test_examples_are_the_latest_with_their_events(store: SqlStore) -> None:
    settings = running(store)
    made = [impression(settings, number, number * SECOND) for number in range(5)]
    store.write(made, [click(made[4], 2), click(made[4], 1)])
    last, *_ = found = store.examples("shop", most=3)
    assert [row["impression"] for row in found] == [one.id for one in reversed(made[2:])]
    assert [event["rank"] for event in last["events"]] == [1, 2]
    assert store.examples("shop", most=0) == []


def test_a_second_page_replaces_the_row_until_it_is_folded(store: SqlStore) -> None:
    one = impression(running(store), 1)
    store.write([one], [])
    row = store.row(one.id)
    assert row is not None
    longer = extend_list(row, 2).row
    assert longer is not None
    assert store.extend(one.id, longer)
    assert store.row(one.id) == longer
    assert len(longer["documents"]) == 6
    assert store.write([], [click(one, 6)])[1] == [EventFate.ACCEPTED]
    check_sums(store, "shop")
    store.fold(START + HOUR)
    assert not store.extend(one.id, one.row)
    assert store.row(one.id) == longer
    check_sums(store, "shop")


def test_an_experiment_goes_from_draft_to_decision(store: SqlStore) -> None:
    draft = Experiment.of(SHOP)
    assert store.create(draft, 1, "ann").state == "draft"
    with pytest.raises(
        StateError, match="there is an experiment 'shop' already, draft; choose another name, or edit it"
    ):
        store.create(draft, 1, "ann")
    with pytest.raises(StateError, match="cannot be stopped: it is draft"):
        store.stop("shop", 2, "ann")
    edited = store.edit(replace(draft, k=7), 2, "bob")
    assert (edited.version, edited.settings.k, edited.state) == (1, 7, "draft")
    started = store.start("shop", 3, "ann")
    assert (started.state, started.started, started.settings.offset) == ("running", 3, 0.0)
    second = store.edit(replace(draft, k=8, holdout=0.1), 4, "ann")
    assert (second.version, second.settings.k, second.versions[1].k) == (2, 8, 7)
    with pytest.raises(StateError, match="is running, version 2; edit it, which makes a new version, or stop it"):
        store.decide("shop", "ship it", 5, "ann")
    assert store.stop("shop", 5, "ann").stopped == 5
    decided = store.decide("shop", "ship it", 6, "eve")
    assert decided == store.experiment("shop") == store.experiments()[0]
    for change in (store.start, store.stop):
        with pytest.raises(StateError, match="is decided, version 2; nothing more"):
            change("shop", 7, "ann")
    with pytest.raises(StateError):
        store.edit(draft, 7, "ann")
    assert [(remark.time, remark.version, remark.what, remark.who, remark.note) for remark in decided.history] == [
        *((1, 1, "created", "ann", ""), (2, 1, "edited", "bob", "k"), (3, 1, "started", "ann", "")),
        *((4, 2, "edited", "ann", "k, holdout"), (5, 2, "stopped", "ann", ""), (6, 2, "decided", "eve", "ship it")),
    ]
    for unknown in (store.experiment, store.tallies, store.counts, store.examples, store.export):
        with pytest.raises(KeyError):
            unknown("nobody")
    with pytest.raises(KeyError):
        store.tallies("shop", 3)


def test_experiments_of_a_lane_run_beside_each_other_and_stay_in_their_places(store: SqlStore) -> None:
    for name, share in (("one", 0.5), ("two", 0.4), ("three", 0.3)):
        store.create(Experiment.of(SHOP | {"name": name, "lane": "lane", "share": share}), 1, "ann")
    assert store.start("one", 2, "ann").settings.offset == 0
    assert store.start("two", 2, "ann").settings.offset == 0.5
    with pytest.raises(ExperimentError, match="no free share of this size next to one, two"):
        store.start("three", 2, "ann")
    assert store.experiment("three").state == "draft"
    store.stop("one", 3, "ann")
    assert store.start("three", 4, "ann").settings.offset == 0
    edited = Experiment.of(SHOP | {"name": "two", "lane": "lane", "share": 0.4, "k": 2})
    assert store.edit(edited, 5, "ann").settings.offset == 0.5


def test_versions_are_summed_up_apart(store: SqlStore) -> None:
    settings = running(store)
    store.write([impression(settings, 1)], [])
    second = store.edit(replace(settings, k=3), START, "ann").settings
    two = impression(second, 2, version=2)
    store.write([two], [click(two)])
    assert store.tallies("shop", 1)["click"].impressions == store.tallies("shop")["click"].impressions == 1
    assert store.tallies("shop")["click"].scores.clicked.sum() == 1
    check_sums(store, "shop", 1)
    check_sums(store, "shop", 2)
    assert [row["version"] for row in store.examples("shop", 1)] == [1]


def test_keys_are_kept_as_hashes_and_can_be_revoked(store: SqlStore, address: str) -> None:
    key, secret = store.add_key(INGEST, "search <b>", 1)
    other, _ = store.add_key(ADMIN, "", 2)
    assert secret.startswith("il_ingest_")
    assert store.keys() == [key, other]
    assert store.key_of(secret) == key
    assert store.key_of(secret + "x") is store.key_of("") is store.key_of("\0\ud800") is None
    again = open_store(address)
    assert again.key_of(secret) == key
    assert store.revoke(key.id, 5)
    assert store.key_of(secret) is None
    assert not store.revoke(key.id, 6)
    assert not store.revoke("nobody", 6)
    assert store.keys()[0] == replace(key, revoked=5)
    again.close()
    with pytest.raises(DataError, match="role is 'king'; give 'ingest', 'read' or 'admin'"):
        store.add_key("king", "", 1)
    assert store.add_key(READ, "", 3)[0].role == READ


def test_a_unit_is_forgotten_with_all_its_rows(store: SqlStore) -> None:
    settings = running(store)
    made = [impression(settings, number, number * SECOND, unit=("ann", "bob")[number % 2]) for number in range(6)]
    store.write(made, [click(one) for one in made] + [click(made[0], 9), click(made[1], 9)])
    assert store.counts("shop").apart == {"rank_not_shown": 2}
    assert store.forget("ann") == 3
    assert {row["unit"] for row in store.examples("shop")} == {"bob"}
    assert store.counts("shop") == VersionCounts(3, 0, {"rank_not_shown": 1})
    assert store.forget("ann") == 0
    check_sums(store, "shop")


def test_old_rows_expire_and_their_sums_stay(store: SqlStore) -> None:
    settings = running(store)
    made = [impression(settings, number, number * HOUR) for number in range(6)]
    store.write(made, [click(one) for one in made])
    store.fold(START + 4 * HOUR)
    before = store.tallies("shop")["click"]
    assert store.expire(START + 2 * HOUR) == 2
    assert store.expire(START + 9 * HOUR) == 2
    assert store.counts("shop") == VersionCounts(2, 4, {})
    assert [row["impression"] for row in store.examples("shop")] == ["shop-5", "shop-4"]
    after = store.tallies("shop")["click"]
    assert after.impressions == before.impressions == 6
    assert after.scores.sums.tolist() == before.scores.sums.tolist()


def test_a_store_answers_until_it_is_closed(store: SqlStore) -> None:
    store.check()
    store.check()
    assert store.experiments() == []
    assert store.tallies(running(store).name) == {}
    assert store.counts("shop") == VersionCounts(0, 0, {})
    assert list(store.export("shop")) == []
    assert store.write([], []) == ([], [])
