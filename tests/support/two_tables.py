"""A log as two tables, in each shape that a warehouse may have: what the import of two tables must give back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from random import Random
from typing import Any

import pyarrow as pa

from interleaf import analyze
from tests.support.log_rows import Row


def impressions_of(rows: Sequence[Row]) -> list[Row]:
    """Impressions with the columns of a log, without events."""
    return [{name: value for name, value in row.items() if name != "events"} for row in rows]


def events_of(rows: Sequence[Row], by: str = "document") -> list[Row]:
    """One row for each event, with the document or the rank that it happened to; ranks start at 1 or at 0."""
    return [
        {"request_id": row["impression"], "ts": event["time"], "action": event["kind"]}
        | {name: event[name] for name in ("value", "dwell") if name in event}
        | (
            {"doc_id": row["documents"][event["rank"] - 1]}
            if by == "document"
            else {"position": event["rank"] - (by == "rank from 0")}
        )
        for row in rows
        for event in row["events"]
    ]


def owners_of(row: Row) -> list[str | None]:
    return [None if team < 0 else row["rankers"][team] for team in row["teams"]]


def _as_names(row: Row) -> Row:
    """Owners by name, under names that warehouses use."""
    owners = {"ranker": owners_of(row)} if row.get("teams") else {}
    rest = {
        name: value for name, value in row.items() if name not in ("documents", "teams", "impression", "time", "unit")
    }
    return {
        **{"Request_ID": row["impression"], "ts": row["time"], "visitorId": row["unit"], "shown": row["documents"]},
        **rest,
        **owners,
    }


def _as_objects(row: Row) -> Row:
    """One list of objects, in any order, with the rank of each."""
    owners = owners_of(row) if row.get("teams") else [None] * len(row["documents"])
    results = [
        {"doc_id": document, "position": rank} | ({"team": owner} if row.get("teams") else {})
        for rank, (document, owner) in enumerate(zip(row["documents"], owners, strict=True), 1)
    ]
    Random(row["impression"]).shuffle(results)
    return {name: value for name, value in row.items() if name not in ("documents", "teams")} | {"results": results}


def with_json(row: Row) -> Row:
    """Lists and objects as JSON text."""
    return {name: json.dumps(value) if isinstance(value, list | tuple | dict) else value for name, value in row.items()}


def _as_rankings(row: Row) -> Row:
    """Rankings as an object from ranker to ranking, which names the rankers; ranks follow from it."""
    rankings = dict(zip(row["rankers"], map(list, row["rankings"]), strict=True))
    derived = ("rankers", "rankings", "ranks", "unshown_ranks", "lengths", "union", "choices")
    return {name: value for name, value in row.items() if name not in derived} | {"rankings": json.dumps(rankings)}


def _as_key(row: Row) -> Row:
    """Rankings and key, without the list that was shown."""
    return {name: value for name, value in row.items() if name not in ("documents", "teams")} | {
        "k": len(row["documents"])
    }


SHAPES: dict[str, Callable[[Row], Row]] = {
    "columns of a log": lambda row: row,
    "owners by name": _as_names,
    "objects": _as_objects,
    "JSON": with_json,
    "rankings by ranker": _as_rankings,
    "rankings and key": _as_key,
}
RESULTS = "a row for each result"


def results_of(rows: Sequence[Row]) -> list[Row]:
    """One row for each result, with the columns of its impression."""
    return [
        {name: value for name, value in row.items() if name not in ("documents", "teams")}
        | {"item_id": document, "position": rank}
        | ({"team": row["teams"][rank - 1]} if row.get("teams") else {})
        for row in rows
        for rank, document in enumerate(row["documents"], 1)
    ]


def in_shape(rows: Sequence[Row], shape: str) -> list[Row]:
    """The impressions in this shape."""
    impressions = impressions_of(rows)
    return results_of(impressions) if shape == RESULTS else list(map(SHAPES[shape], impressions))


def as_table(rows: Sequence[Row]) -> pa.Table:
    """An Arrow table of these rows, whatever their types; attributes are objects."""
    return pa.Table.from_pylist([_plain(row) for row in rows]) if rows else pa.table({})


def _plain(row: Row) -> Row:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}


def as_lines(rows: Sequence[Row]) -> str:
    return "".join(json.dumps(row, default=datetime.isoformat) + "\n" for row in rows)


def numbers_of(*arguments: Any, **options: Any) -> dict[str, Any]:
    """The report as data, without the notes on how the tables were read."""
    report = analyze(*arguments, **options).to_dict()
    return {name: value for name, value in report.items() if name not in ("notes", "note_codes")}
