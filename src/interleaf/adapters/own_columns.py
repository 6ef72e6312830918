"""Our columns as texts of a UBI query's attributes, whose plugin keeps texts only: and back.

A column of text is that text, any other is JSON. Attributes of the impression keep their names; one that is named like
a column is written as `attribute:NAME`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from interleaf import schema
from interleaf.log.values import RULES, of_field

OUTSIDE = {"time", "query", "documents", "events", "attributes"}  # these have places of their own in UBI
MARKS = ("experiment", "method", "rankers")  # a query with these three is ours
CARRIED = {column.name: column for column in schema.COLUMNS if column.name not in OUTSIDE}
PREFIX = "attribute:"


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


def is_ours(attributes: Mapping[str, Any]) -> bool:
    """Whether a UBI query was written by us."""
    return MARKS[0] in attributes and all(type(attributes.get(name)) is str for name in MARKS)


def columns_of(attributes: Mapping[str, str]) -> dict[str, Any]:
    """The columns that the texts say, checked, attributes among them; a ValueError names what is wrong.

    >>> columns_of({"experiment": "shop", "teams": "[0,1]", "device": "phone"})
    {'experiment': 'shop', 'teams': [0, 1], 'attributes': {'device': 'phone'}}
    """
    found: dict[str, Any] = {}
    others: dict[str, str] = {}
    for name, text in attributes.items():
        column = CARRIED.get(name)
        if column is None:
            others[name.removeprefix(PREFIX)] = text
        elif pa.types.is_string(column.type):
            found[name] = text
        else:
            found[name] = of_field(name, RULES[name].check, json.loads(text))
    return found | {"attributes": others}


def iso(moment: datetime) -> str:
    """A time as UBI writes it, in UTC, with all that we know of it."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
