"""Sums for guardrails by arm: those of the oracle in fractions, for any log, in any parts, from any place."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from interleaf import Tally, interleave, log, tally_log
from interleaf.errors import DataError
from interleaf.kernels.buckets import bucket_of
from interleaf.report.guardrails import sums_of
from interleaf.tally.bucket_sums import ONE
from tests.oracles import arms as oracle
from tests.support.log_rows import RANKINGS, START, made_event

METRICS = ("abandonment", "latency", "zero_results", "event:purchase", "more:complaint")
RAILS = dict.fromkeys(METRICS, 0.1)
WINDOW = 60.0
UNITS = [f"u-{number}" for number in range(12)]
BUCKETS = {unit: bucket_of(unit) for unit in UNITS}
LATENCIES = st.one_of(st.none(), st.sampled_from([0.0, 0.1, 12.5, 61_000.0, 3e9]), st.floats(0, 5_000, width=32))


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """A search of some arm; its list may be empty, and its events early, late or of any kind."""
    number = draw(st.integers(0, 10**6))
    arm = draw(st.sampled_from(["interleaved", "holdout", "A", "B", "fallback"]))
    method = "team_draft" if arm == "interleaved" else f"single(ranker={'B' if arm == 'B' else 'A'})"
    shown = interleave(RANKINGS[:2], method, k=4, key=("row", number)).to_dict()
    if arm != "interleaved" and draw(st.booleans()):
        empty: dict[str, Any] = {
            "documents": [],
            "teams": [],
            "ranks": [[], []],
            "choices": [],
            "unshown_ranks": [[], []],
        }
        shown |= {name: value for name, value in empty.items() if name in shown}
    time = START + timedelta(minutes=draw(st.integers(0, 500)))
    found = st.tuples(st.sampled_from(["click", "purchase", "complaint", "view"]), st.sampled_from([-5, 0, 5, 60, 61]))
    events = draw(st.lists(found, max_size=4)) if shown["documents"] else []
    row = {
        "experiment": "shop",
        "version": 1,
        "impression": f"i-{number}",
        "time": time,
        "unit": draw(st.sampled_from(UNITS)),
        "arm": arm,
        "events": [made_event(1, time, seconds, kind) for kind, seconds in events],
        "attributes": {},
    }
    if draw(st.booleans()):
        row["latency"] = draw(st.lists(LATENCIES, min_size=2, max_size=2))
    return shown | row


def tallied(some: list[dict[str, Any]], **options: Any) -> Tally:
    return tally_log(pa.Table.from_batches([log.rows_to_batch(some)]), guardrails=RAILS, window=WINDOW, **options)


def stored_latency(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the latencies that a log can hold."""
    each = row.get("latency")
    return row | {"latency": each and pa.array(each, pa.float32()).to_pylist()}


def check(tally: Tally, some: list[dict[str, Any]]) -> None:
    stored = [stored_latency(row) for row in some]
    for metric in METRICS:
        expected = oracle.sums_of(stored, metric, BUCKETS, WINDOW)
        for name, arm in tally.arms.items():
            sums, counts = sums_of(arm, metric, tally.about.guarded)
            found = {
                bucket: (Fraction(round(float(sums[bucket]) * ONE), ONE), int(counts[bucket]))
                for bucket in counts.nonzero()[0].tolist()
            }
            assert found == dict(expected.get(name, {})), (metric, name)


@settings(max_examples=60, deadline=None)
@given(st.lists(rows(), min_size=1, max_size=25, unique_by=lambda row: row["impression"]), st.data())
def test_sums_of_any_log_are_those_of_the_oracle_in_any_parts(some: list[dict[str, Any]], data: st.DataObject) -> None:
    if not any(row["arm"] == "interleaved" for row in some):
        some[0] |= interleave(RANKINGS[:2], "team_draft", k=4, key=1).to_dict() | {"arm": "interleaved", "events": []}
    tally = tallied(some)
    check(tally, some)
    cut = data.draw(st.integers(0, len(some)))
    parts = [tallied(part) for part in (some[:cut], some[cut:]) if part]
    added = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    for name, arm in tally.arms.items():
        assert (added.arms[name].guards == arm.guards).all(), name


def test_a_saved_tally_has_its_guards(tmp_path: Any) -> None:
    one = interleave(RANKINGS[:2], "team_draft", k=4, key=1).to_dict()
    row = one | {"experiment": "shop", "version": 1, "impression": "i", "time": START, "unit": "u-1"}
    row |= {"arm": "interleaved", "latency": [3.0, 5.5], "events": [made_event(1, START, kind="purchase")]}
    tally = tallied([row | {"attributes": {}}])
    tally.save(tmp_path / "a.tally")
    read = Tally.load(tmp_path / "a.tally")
    assert read.about.guarded == ("complaint", "purchase")
    assert (read.arms["interleaved"].guards == tally.arms["interleaved"].guards).all()
    assert read.arms["interleaved"].guards.sum(axis=0).tolist() == [0, 1, round(5.5 * ONE), 0, 1]
    assert read.events == {"guarded": 1}


def test_tallies_that_count_other_kinds_cannot_be_added() -> None:
    one = interleave(RANKINGS[:2], "team_draft", k=4, key=1).to_dict()
    row = one | {"experiment": "shop", "version": 1, "impression": "i", "time": START, "unit": "u-1"}
    table = pa.Table.from_batches([log.rows_to_batch([row | {"arm": "interleaved", "events": [], "attributes": {}}])])
    holdout = pa.Table.from_batches(
        [log.rows_to_batch([row | {"arm": "holdout", "method": "single", "events": [], "attributes": {}}])]
    )
    for other in (table, holdout):
        with pytest.raises(DataError, match="their guarded differ"):
            tally_log(table, guardrails=RAILS) + tally_log(other)
