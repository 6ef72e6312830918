"""Our columns as texts of a UBI query's attributes, whose plugin keeps texts only: and back.

A column of text is that text, any other is JSON. Attributes of the impression keep their names; one that is named like
a column is written as `attribute:NAME`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa

from interleaf import schema
from interleaf.log.values import RULES, of_field

OUTSIDE = {"time", "query", "documents", "events", "attributes"}  # these have places of their own in UBI
CARRIED = {column.name: column for column in schema.COLUMNS if column.name not in OUTSIDE}
PREFIX = "attribute:"
OWN = pa.schema([(column.name, column.type) for column in schema.COLUMNS if column.name in {*CARRIED, "attributes"}])
_decode = msgspec.json.Decoder().decode


def texts_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The attributes of a UBI query that say all that UBI has no field for.

    >>> texts_of({"experiment": "shop", "version": 2, "teams": [0, 1], "attributes": {"device": "phone"}})
    {'experiment': 'shop', 'version': '2', 'teams': '[0,1]', 'device': 'phone'}
    """
    found = {
        name: row[name] if pa.types.is_string(column.type) else json.dumps(row[name], separators=(",", ":"))
        for name, column in CARRIED.items()
        if row.get(name) is not None
    }
    given = dict(row.get("attributes") or {})
    return found | {PREFIX + name if name in CARRIED else name: text for name, text in given.items()}


class Marks(msgspec.Struct, gc=False):
    """What is asked of the attributes of every query: whether we wrote them, and who the user was."""

    experiment: str | None = None
    method: str | None = None
    rankers: str | None = None
    user_id: str | None = None

    @property
    def is_ours(self) -> bool:
        """Whether a UBI query was written by us."""
        return self.experiment is not None and self.method is not None and self.rankers is not None


decode_marks = msgspec.json.Decoder(Marks).decode
decode_attributes = msgspec.json.Decoder(dict[str, str]).decode


def columns_of(texts: Sequence[str]) -> tuple[pa.RecordBatch, dict[int, str]]:
    """The columns that the attributes of queries, as JSON, hold; and by its place what is wrong with a query.

    >>> batch, problems = columns_of(['{"experiment": "shop", "teams": "[0,1]", "device": "phone"}', '{"teams": "[0"}'])
    >>> {name: batch[name].to_pylist() for name in ("experiment", "teams", "attributes")}
    {'experiment': ['shop', None], 'teams': [[0, 1], None], 'attributes': [[('device', 'phone')], []]}
    >>> problems
    {1: "'teams': Expecting ',' delimiter: line 1 column 3 (char 2)"}
    """
    attributes = [decode_attributes(text) for text in texts]
    problems: dict[int, str] = {}
    arrays = []
    for name, column in CARRIED.items():
        values: list[Any] = [one.get(name) for one in attributes]
        if not pa.types.is_string(column.type) and any(values):
            values = _values(name, values, problems)
        arrays.append(pa.array(values, column.type))
    others = (
        {name.removeprefix(PREFIX): text for name, text in one.items() if name not in CARRIED} for one in attributes
    )
    arrays.append(pa.array([list(one.items()) for one in others], OWN.field("attributes").type))
    return pa.RecordBatch.from_arrays(arrays, schema=OWN), problems


def _values(name: str, texts: Sequence[str | None], problems: dict[int, str]) -> list[Any]:
    """The values of texts of JSON, checked: all at once if they are as we write them, else one by one."""
    rule = RULES[name]
    try:
        values = [None if text is None else _decode(text) for text in texts]
        if rule.all_ready([value for text, value in zip(texts, values, strict=True) if text is not None]):
            return values
    except msgspec.DecodeError:
        pass
    values = [None] * len(texts)
    for place, text in enumerate(texts):
        try:
            if text is not None:  # not by msgspec, as a log may hold a NaN
                values[place] = of_field(name, lambda one: rule.check(json.loads(one)), text)
        except ValueError as problem:
            problems.setdefault(place, str(problem))
    return values


def iso(moment: datetime) -> str:
    """A time as UBI writes it, in UTC, with all that we know of it."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
