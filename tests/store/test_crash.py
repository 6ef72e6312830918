"""A process that writes is killed, again and again: what was acknowledged is there, once, and the sums are right."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import random
import time
from collections import Counter
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from interleaf.log.drop_reasons import EventFate
from interleaf.store import open_store
from interleaf.store.records import Event, StoredImpression
from tests.support.stand_in import until
from tests.support.stores import KINDS, SECOND, START, address_of, check_sums, exported, impression, running

SAMPLES = 50
# Each process is a fork of one that has imported this module; imports take longer than what is tested.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


def write_for_ever(address: str, samples: str, first: int, acknowledged: Connection) -> None:
    """In a process of its own: write, say what was acknowledged, and fold what has closed; never stop by itself."""
    rows = [StoredImpression(**one) for one in json.loads(Path(samples).read_text())]
    store = open_store(address)
    number = first
    while True:
        shown, events = [], []
        for _ in range(random.randrange(1, 30)):
            sample, at = rows[number % SAMPLES], START + number * 60 * SECOND
            shown.append(StoredImpression(f"i{number}", "shop", 1, sample.unit, at, at + 60 * SECOND, sample.row))
            events.append(Event(f"e{number}", "click", at, at, f"i{number}", rank=1 + number % 4))
            number += 1
        _, fates = store.write(shown, events)
        assert fates == [EventFate.ACCEPTED] * len(events)
        if shown[0].id == f"i{first}":
            store.fold(
                START + number * 60 * SECOND
            )  # once before the first word: it loads the kernels, which takes long
        acknowledged.send(range(number - len(shown), number))
        store.fold(START + (number - 15) * 60 * SECOND, 40)


def killed(address: str, samples: Path, first: int, seconds: float) -> list[int]:
    """The numbers that a process acknowledged before it was killed."""
    here, there = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=write_for_ever, args=(address, str(samples), first, there), daemon=True)
    process.start()
    there.close()
    spans: list[range] = [here.recv()]  # the first one, when it has found its feet
    time.sleep(seconds)
    process.kill()
    with here, contextlib.suppress(EOFError):
        while True:
            spans.append(here.recv())
    process.join()
    return [number for span in spans for number in span]


def wait_for_the_end_of(name: str, address: str) -> None:
    """A server goes on with the last words of a process that was killed, such as a commit, and then ends."""
    import psycopg

    alive = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s"
    with psycopg.connect(address, autocommit=True) as connection:
        until(lambda: not connection.execute(alive, (name,)).fetchall())


def check_kills(kind: str, folder: Path, kills: int) -> None:
    address = address_of(kind, folder)
    store = open_store(address)
    settings = running(store, k=4)
    samples = folder / "samples.json"
    samples.write_text(json.dumps([asdict(impression(settings, number)) for number in range(SAMPLES)]))
    acknowledged: list[int] = []
    chance = random.Random(kills)
    for kill in range(kills):
        own = f"{address}&application_name=kill-{kill}" if kind == "postgres" else address
        found = killed(own, samples, 1_000_000 * kill, chance.uniform(0, 0.6))
        assert found
        if kind == "postgres":
            wait_for_the_end_of(f"kill-{kill}", address)
        acknowledged += found
        rows = exported(store, "shop").select(["impression", "events"]).to_pylist()
        stored = Counter(int(row["impression"][1:]) for row in rows)
        assert set(stored.values()) == {1}
        assert set(acknowledged) <= set(stored)
        # A click and its impression were one transaction: also what was not acknowledged is there whole, or not at all.
        assert all([event["event"] for event in row["events"]] == [f"e{row['impression'][1:]}"] for row in rows)
        counts = store.counts("shop")
        assert (counts.open + counts.folded, counts.apart) == (len(rows), {})
        check_sums(store, "shop")
    assert store.counts("shop").folded
    store.close()


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_acknowledged_survives_a_kill(kind: str, tmp_path: Path) -> None:
    check_kills(kind, tmp_path, {"sqlite": 5, "postgres": 2}[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_acknowledged_survives_twenty_kills(kind: str, tmp_path: Path) -> None:
    check_kills(kind, tmp_path, 20)
