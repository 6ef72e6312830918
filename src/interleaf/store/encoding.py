"""A row as it is kept: what scoring reads in a form that many rows are read from at once, the rest as JSON.

`design` is JSON of what few rows differ in, so that each different one is parsed once. `numbers` are 32-bit integers:
the union, whether the list was relaxed, of how many rankers there are ranks, the sizes of five lists (-1: null), and
the lists one after the other. `body` is JSON of everything else.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, NamedTuple

from interleaf import schema
from interleaf.errors import DataError
from interleaf.log.values import RULES

DESIGN = ("arm", "method", "rankers", "fallback_reason", "excluded", "attributes")
LISTS = ("ranks", "teams", "lengths", "choices", "latency")
HEADER = 3 + len(LISTS)
_ELSEWHERE = (
    "experiment",
    "version",
    "impression",
    "unit",
    "time",
    "open",
    "events",
)  # columns and tables of their own
_IN_BODY = {column.name for column in schema.COLUMNS} - {*DESIGN, *LISTS, "union", "relaxed", *_ELSEWHERE}
_NOT_IN_BODY = frozenset((*DESIGN, *LISTS, "union", "relaxed", *_ELSEWHERE))
_NOTHING = dict.fromkeys((*DESIGN, *sorted(_IN_BODY)))
_NEEDED = ("arm", "method", "rankers", "documents")
_MOST = 2**31 - 1
_plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False).encode
try:
    import msgspec

    _quick: Callable[[Any], bytes] = msgspec.json.Encoder().encode
except ImportError:  # which the service has, and a script that only reads a store may not

    def _quick(value: Any) -> bytes:
        return _plain(value).encode()


class Encoded(NamedTuple):
    """The three parts of a row."""

    design: str
    numbers: bytes
    body: bytes


def encoded(row: Mapping[str, Any], checked: bool = False) -> Encoded:
    """A row's parts, everything checked, here or before: what is kept can be read back and exported."""
    if checked:
        return _of_checked(row)
    try:
        values = {
            name: RULES[name].check(value) if name in RULES else value
            for name, value in row.items()
            if value is not None and name not in _ELSEWHERE
        }
        for name in _NEEDED:
            if name not in values:
                raise ValueError(f"it has no {name!r}, which may not be left out")
        design = _plain({name: values[name] for name in DESIGN if name in values})
        body = {name: value for name, value in values.items() if name in _IN_BODY or name not in RULES}
        parts = Encoded(design, _numbers(values), _plain(body).encode())
        design.encode()
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise DataError(f"impression {row.get('impression')!r} cannot be stored: {problem}") from None
    if "\0" in design:
        raise DataError(f"impression {row.get('impression')!r} cannot be stored: it holds a null character")
    return parts


def _of_checked(row: Mapping[str, Any]) -> Encoded:
    """The same, of a row whose every value was checked when its request was decoded: a request waits for this."""
    design = {name: value for name in DESIGN if (value := row.get(name)) is not None}
    if "attributes" in design:
        design["attributes"] = list(design["attributes"].items())
    body = {name: value for name, value in row.items() if value is not None and name not in _NOT_IN_BODY}
    return Encoded(_quick(design).decode(), _numbers(row), _quick(body))


def _numbers(values: Mapping[str, Any]) -> bytes:
    ranks, latency = values.get("ranks"), values.get("latency")
    if ranks and len(set(map(len, ranks))) > 1:
        raise ValueError("its ranks are of different lengths")
    lists = [None if ranks is None else list(chain.from_iterable(ranks)), *map(values.get, LISTS[1:])]
    relaxed = values.get("relaxed")
    header = (values.get("union", -1), -1 if relaxed is None else int(relaxed), len(ranks or ()))
    sizes = (-1 if found is None else len(found) for found in lists)
    numbers = array("i", (*header, *sizes, *chain.from_iterable(found for found in lists[:-1] if found)))
    floats = array("f", [float("nan") if number is None else number for number in latency]) if latency else array("f")
    return numbers.tobytes() + floats.tobytes()


def decoded(parts: Encoded) -> dict[str, Any]:
    """The row again, without what other columns and tables hold."""
    row: dict[str, Any] = _NOTHING | json.loads(parts.body) | json.loads(parts.design)
    row["attributes"] = dict(row["attributes"] or ())
    numbers = array("i", parts.numbers)
    union, relaxed, rankers, *sizes = numbers[:HEADER]
    row["union"] = None if union < 0 else union
    row["relaxed"] = None if relaxed < 0 else bool(relaxed)
    start = HEADER
    for name, size in zip(LISTS, sizes, strict=True):
        end = start + max(size, 0)
        found = array("f", numbers[start:end].tobytes()) if name == "latency" else numbers[start:end]
        row[name] = None if size < 0 else found.tolist()
        start = end
    if row["ranks"] is not None and rankers:
        flat, width = row["ranks"], len(row["ranks"]) // rankers
        row["ranks"] = [flat[place * width : (place + 1) * width] for place in range(rankers)]
    if row["latency"] is not None:
        row["latency"] = [None if number != number else number for number in row["latency"]]
    return row
