"""Rows of small logs, made by hand, and back again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from interleaf import interleave, log
from interleaf.log import schema
from interleaf.report.report import Report

Row = dict[str, Any]
START = datetime(2026, 11, 2, 12, tzinfo=UTC)
RANKINGS = (("a", "b", "c", "d", "e", "f"), ("b", "a", "e", "c", "g", "d"), ("d", "a", "h", "b", "c", "e"))


def made_row(number: int, clicks: Iterable[int] = (1,), method: str = "team_draft", **more: Any) -> Row:
    """An impression with clicks at these ranks, five seconds apart; every seventh is of the same unit."""
    rankers = more.pop("of", 2)
    shown = interleave(RANKINGS[:rankers], method, k=4, key=("row", number))
    time = START + timedelta(minutes=number)
    row = {
        "experiment": "shop",
        "version": 1,
        "impression": f"i-{number}",
        "time": time,
        "unit": f"u-{number % 7}",
        "arm": "interleaved",
        "events": [made_event(rank, time, 5 * place + 5) for place, rank in enumerate(clicks)],
        "attributes": {"device": ("phone", "desk")[number % 2]},
    }
    return shown.to_dict(rankings=True) | row | more


def made_event(rank: int, time: datetime, seconds: float = 5, kind: str = "click", **more: Any) -> Row:
    return {"kind": kind, "rank": rank, "time": time + timedelta(seconds=seconds), **more}


def made_rows(count: int = 60, method: str = "team_draft", **more: Any) -> list[Row]:
    """Impressions of seven units, of which every fifth is not clicked, and some are clicked twice."""
    return [made_row(number, _CLICKS[number % 5], method, **more) for number in range(count)]


_CLICKS = ((1,), (3,), (2, 4), (), (4, 1))


def table_of(rows: Sequence[Row]) -> Any:
    return pa.Table.from_batches([log.rows_to_batch(rows)])


def loose_table_of(rows: Sequence[Row]) -> Any:
    """The same, whatever the rows hold: nothing is checked but the types."""
    return pa.Table.from_pylist(list(rows), pa.schema([field.with_nullable(True) for field in schema.SCHEMA]))


def notes_of(report: Report, code: str) -> list[str]:
    """The notes of a report that have this code."""
    return [note for found, note in zip(report.note_codes, report.notes, strict=True) if found == code]


def rows_of(table: Any) -> list[Row]:
    """A log as dictionaries, attributes too; nulls are left out."""
    return [
        {name: value for name, value in (row | {"attributes": dict(row["attributes"])}).items() if value is not None}
        for row in table.to_pylist()
    ]


def with_column(table: Any, name: str, values: Any, kind: Any = None) -> Any:
    """The table with another content of one column."""
    array = values if isinstance(values, pa.Array) else pa.array(values, kind or table.schema.field(name).type)
    return table.set_column(table.schema.get_field_index(name), name, array)
