"""Several workers note the changes of an experiment once, and deliver its webhooks one at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from interleaf.errors import StateError
from interleaf.experiment import Experiment
from interleaf.store import open_store
from interleaf.store.experiments import Change
from interleaf.store.history import LEASE, Webhook
from interleaf.store.sql import SqlStore
from interleaf.store.sql_tables import STEPS
from tests.support.stores import HOUR, SECOND, SHOP, START, address, running

__all__ = ["address"]
URLS = ("https://one.example/", "https://two.example/hook")
PAGES = "https://interleaf.example"
FACTS = {"verdict": "preferred", "codes": ["preferred"], "winner": "new"}
VERDICT = Change("verdict", FACTS, "from undecided to preferred")
PERIOD = 60 * SECOND


@pytest.fixture
def workers(address: str) -> Iterator[list[SqlStore]]:
    """Stores of several workers over the same database."""
    stores = [open_store(address) for _ in range(4)]
    for store in stores:
        store.use_webhooks(URLS, PAGES)
    yield stores
    for store in stores:
        store.close()


def at_once(workers: list[SqlStore], work: Callable[[SqlStore], Any]) -> list[Any]:
    """What the same work gives in all workers at the same time, twice in each."""
    with ThreadPoolExecutor(2 * len(workers)) as threads:
        return list(threads.map(work, [*workers, *workers]))


def whats(store: SqlStore, name: str = "shop") -> list[str]:
    return [one.what for one in store.experiment(name).history]


@pytest.mark.parametrize("reason", ["", "rule decided"])
def test_a_change_that_all_workers_saw_is_noted_once(workers: list[SqlStore], reason: str) -> None:
    running(workers[0])
    (watched,) = workers[0].claim_looks(START, PERIOD, 10)
    noted = at_once(workers, lambda store: store.note_changes(watched, [VERDICT], FACTS, START, reason))
    assert sum(one is not None for one in noted) == 1
    assert whats(workers[0]) == ["created", "started", "verdict", *(["stopped"] if reason else [])]
    webhooks = workers[1].claim_webhooks(START, 10)
    told = [(kind, url) for kind in (("stop", "verdict") if reason else ("verdict",)) for url in URLS]
    assert sorted((one.kind, one.url) for one in webhooks) == told


def test_an_experiment_is_looked_at_by_one_worker_in_each_period(workers: list[SqlStore]) -> None:
    names = [f"shop-{number}" for number in range(5)]
    for name in names:
        running(workers[0], name=name)
    workers[0].create(Experiment.of(SHOP | {"name": "draft"}), START, "test")
    for now in (START, START + PERIOD):
        looks = at_once(workers, partial(SqlStore.claim_looks, now=now, period=PERIOD, most=2))
        assert sorted(one.stored.settings.name for some in looks for one in some) == names
    assert workers[0].claim_looks(START + 2 * PERIOD - 1, PERIOD, 10) == []
    assert len(workers[0].claim_looks(START - HOUR, PERIOD, 10)) == 5  # the clock was set back


def test_a_look_at_what_has_changed_meanwhile_notes_nothing(workers: list[SqlStore]) -> None:
    store, other, *_ = workers
    settings = running(store)
    (watched,) = store.claim_looks(START, PERIOD, 10)
    rules = Experiment.of({**settings.to_dict(), "stop_when": ["alike"]})
    assert other.edit(rules, START, "test").version == 1
    assert store.note_changes(watched, [VERDICT], FACTS, START, "a rule that was removed") is None
    (watched,) = store.claim_looks(START + HOUR, PERIOD, 10)
    other.edit(Experiment.of({**settings.to_dict(), "k": 3}), START, "test")
    assert store.note_changes(watched, [VERDICT], FACTS, START) is None
    (watched,) = store.claim_looks(START + 2 * HOUR, PERIOD, 10)
    other.stop("shop", START, "test")
    assert store.note_changes(watched, [VERDICT], FACTS, START, "a rule") is None
    assert whats(store) == ["created", "started", "edited", "edited", "stopped"]


def test_what_was_noted_is_read_back_and_belongs_to_its_version(workers: list[SqlStore]) -> None:
    store, other, *_ = workers
    settings = running(store)
    (watched,) = store.claim_looks(START, PERIOD, 10)
    assert (watched.revision, watched.values, watched.times) == (0, {}, {})
    store.note_changes(watched, [VERDICT], FACTS, START)
    (watched,) = other.claim_looks(START + PERIOD, PERIOD, 10)
    assert (watched.revision, watched.values, watched.times) == (1, {"verdict": FACTS}, {"verdict": START})
    other.note_changes(watched, [Change("health", ["a"], "failed: a")], FACTS, START + PERIOD)
    (watched,) = other.claim_looks(START + 2 * PERIOD, PERIOD, 10)
    assert watched.values == {"verdict": FACTS, "health": ["a"]}
    store.edit(Experiment.of({**settings.to_dict(), "k": 3}), START, "test")
    (watched,) = other.claim_looks(START + 3 * PERIOD, PERIOD, 10)
    assert (watched.values, watched.times) == ({}, {"verdict": START, "health": START + PERIOD})


def test_a_stop_by_a_person_has_the_verdict_that_was_noted_last(workers: list[SqlStore]) -> None:
    store = workers[0]
    running(store)
    (watched,) = store.claim_looks(START, PERIOD, 10)
    store.note_changes(watched, [VERDICT], FACTS, START)
    store.stop("shop", START + HOUR, "Ann (admin key 1)")
    bodies = [json.loads(one.body) for one in store.claim_webhooks(START + HOUR, 10) if one.kind == "stop"]
    assert bodies == [
        {
            "type": "stop",
            "timestamp": "2027-01-15T09:00:00+00:00",
            "data": {
                "experiment": "shop",
                "version": 1,
                **FACTS,
                "reason": "",
                "by": "Ann (admin key 1)",
                "page": f"{PAGES}/experiments/shop?version=1",
            },
        }
    ] * len(URLS)
    with pytest.raises(StateError):
        store.stop("shop", START + HOUR, "Ann (admin key 1)")


def ids_of(store: SqlStore, **settings: Any) -> set[str]:
    """The ids of the webhooks of a new experiment that has a verdict, and is stopped."""
    created = settings.pop("created", START)
    store.create(Experiment.of(SHOP | settings), created, "test")
    store.start(settings["name"], created, "test")
    (watched,) = store.claim_looks(created, PERIOD, 10)
    store.note_changes(watched, [VERDICT], FACTS, created, "a rule")
    webhooks = store.claim_webhooks(created, 10)
    for one in webhooks:
        store.settle_webhook(one, created, None, "")
    return {one.id for one in webhooks}


def test_ids_are_those_of_events_whatever_the_worker_and_the_address(workers: list[SqlStore]) -> None:
    store = workers[0]
    first = ids_of(store, name="shop")
    assert len(first) == 2  # two events, each for two addresses
    assert all(one.startswith("evt_") and len(one) == 36 for one in first)
    other = ids_of(store, name="other")
    store.delete("shop", START)
    again = ids_of(store, name="shop", created=START + SECOND)
    assert len(first | other | again) == 6


def test_the_same_event_has_the_same_id_in_a_store_that_was_restored(tmp_path: Any) -> None:
    ids = []
    for name in ("first", "second"):
        store = open_store(tmp_path / name)
        store.use_webhooks(URLS, PAGES)
        ids.append(ids_of(store, name="shop"))
        store.close()
    assert ids[0] == ids[1]


def test_workers_claim_different_webhooks(workers: list[SqlStore]) -> None:
    for number in range(10):
        running(workers[0], name=f"shop-{number}")
        workers[0].stop(f"shop-{number}", START, "test")
    assert workers[0].claim_webhooks(START - 1, 10) == []
    claimed: list[Webhook] = []
    while some := [one for few in at_once(workers, lambda store: store.claim_webhooks(START, 2)) for one in few]:
        claimed += some
    assert len(claimed) == len({(one.id, one.url) for one in claimed}) == 20
    assert {one.tries for one in claimed} == {1}
    assert workers[0].claim_webhooks(START + LEASE - 1, 50) == []
    assert {one.tries for one in workers[0].claim_webhooks(START + LEASE, 50)} == {2}


def test_only_the_last_claim_of_a_webhook_can_settle_it(workers: list[SqlStore]) -> None:
    store, other, *_ = workers
    running(store)
    store.stop("shop", START, "test")
    first, _ = store.claim_webhooks(START, 2)
    second = next(one for one in other.claim_webhooks(START + LEASE, 2) if one.url == first.url)
    store.settle_webhook(first, START, None, "by a worker that was too slow")
    other.settle_webhook(second, START, START + HOUR, "tried twice")
    assert [one.note for one in store.experiment("shop").history if one.what == "webhook"] == ["tried twice"]
    assert first.url not in [one.url for one in store.claim_webhooks(START + HOUR - 1, 2)]
    third = next(one for one in store.claim_webhooks(START + 2 * HOUR, 2) if one.url == first.url)
    at_once(workers, lambda one: one.settle_webhook(third, START, None, "delivered"))
    assert [one.note for one in store.experiment("shop").history][-1] == "delivered"
    assert whats(store).count("webhook") == 2


def test_a_deleted_experiment_leaves_no_webhooks(workers: list[SqlStore]) -> None:
    store = workers[0]
    running(store)
    (watched,) = store.claim_looks(START, PERIOD, 10)
    store.note_changes(watched, [VERDICT], FACTS, START, "a rule")
    claimed = store.claim_webhooks(START, 1)
    store.delete("shop", START)
    store.settle_webhook(claimed[0], START, START, "not delivered yet")
    assert store.claim_webhooks(START + HOUR, 10) == []
    assert store.note_changes(watched, [VERDICT], FACTS, START) is None
    with store._database.reading() as transaction:
        for table in ("watched", "webhooks", "history"):
            assert transaction.rows(f"SELECT * FROM {table}") == []


def test_nothing_is_queued_without_addresses(workers: list[SqlStore]) -> None:
    store = workers[0]
    store.use_webhooks((), PAGES)
    running(store)
    store.stop("shop", START, "test")
    assert store.claim_webhooks(START + HOUR, 10) == []


def test_an_experiment_that_an_earlier_release_started_is_watched_and_told(address: str) -> None:
    place = next(number for number, step in enumerate(STEPS) if "CREATE TABLE webhooks" in str(step))
    with closing(open_store(address)) as store:
        running(store)
        with store._database.writing() as transaction:  # as the steps before left it
            for table in ("watched", "webhooks", "epoch_plans"):
                transaction.change(f"DROP TABLE {table}")
            transaction.change("UPDATE schema_version SET version = ?", place)
    with closing(open_store(address)) as store:
        store.use_webhooks(URLS, PAGES)
        (watched,) = store.claim_looks(START, PERIOD, 10)
        store.note_changes(watched, [VERDICT], FACTS, START, "a rule")
        assert len(store.claim_webhooks(START, 10)) == 4


def test_a_verdict_that_an_earlier_release_noted_is_noted_anew(address: str) -> None:
    place = next(number for number, step in enumerate(STEPS) if "UPDATE watched" in str(step))
    with closing(open_store(address)) as store:
        running(store)
        (watched,) = store.claim_looks(START, PERIOD, 10)
        store.note_changes(watched, [Change("verdict", "preferred", "from undecided to preferred")], {}, START)
        with store._database.writing() as transaction:
            transaction.change("UPDATE schema_version SET version = ?", place)
    with closing(open_store(address)) as store:
        (watched,) = store.claim_looks(START + PERIOD, PERIOD, 10)
        assert (watched.values, watched.times) == ({}, {})
