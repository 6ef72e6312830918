"""A row as it is kept: what scoring reads in a form that many rows are read from at once, the rest as JSON.

`design` is JSON of what few rows differ in, so that each different one is parsed once. `numbers` are as `numbers.py`
has them. `body` is JSON of everything else.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from interleaf import schema
from interleaf.errors import DataError
from interleaf.experiment.showing import Noted
from interleaf.log.values import RULES
from interleaf.store.numbers import HEADER, LISTS, numbers_alone, with_latency

DESIGN = ("arm", "method", "rankers", "fallback_reason", "excluded", "attributes")
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
_NOTHING = dict.fromkeys((*DESIGN, *sorted(_IN_BODY)))
_NEEDED = ("arm", "method", "rankers", "documents")
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


def encoded(row: Mapping[str, Any]) -> Encoded:
    """A row's parts, everything checked: what is kept can be read back and exported."""
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
        if len(set(map(len, values.get("ranks", ())))) > 1:
            raise ValueError("its ranks are of different lengths")
        numbers = numbers_alone(*map(values.get, (*LISTS[:-1], "union", "relaxed")))
        if values.get("latency") is not None:
            numbers = with_latency(numbers, values["latency"])
        parts = Encoded(design, numbers, _plain(body).encode())
        design.encode()
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise DataError(f"impression {row.get('impression')!r} cannot be stored: {problem}") from None
    if "\0" in design:
        raise DataError(f"impression {row.get('impression')!r} cannot be stored: it holds a null character")
    return parts


def encoded_note(noted: Noted, **kept: Any) -> Encoded:
    """The same of a list that was just drawn for a request whose every value was checked; `kept` as `encoded_list`."""
    drawn, problem = noted.drawn, noted.drawn.problem
    ranks = problem.rank_lists(drawn.documents)
    numbers = numbers_alone(ranks, drawn.teams, problem.lengths, drawn.choices, problem.union, drawn.relaxed)
    about = noted.arm, drawn.chosen.text, problem.rankers, noted.fallback_reason
    body: dict[str, Any] = {"query": noted.query, "key": drawn.key, "page": noted.page, "k": noted.k}
    if drawn.log_probability is not None:
        body["log_probability"] = drawn.log_probability
    if noted.fixed:
        body["fixed"] = noted.fixed
    return encoded_list(drawn.documents, problem.rankings, numbers, about, body, **kept)


def encoded_list(
    documents: Sequence[Any],
    rankings: Sequence[Any],
    numbers: bytes,
    about: tuple[Any, ...],
    body: dict[str, Any],
    *,
    attributes: Mapping[str, str] | None = None,
    excluded: str | None = None,
    latency: Sequence[float | None] | None = None,
    captions: Mapping[str, Any] | None = None,
    **more: Any,
) -> Encoded:
    """The parts of a list, nothing of which is in doubt: its request waits for this.

    `about` is the beginning of what `DESIGN` names; what is given at last stands for what the body says of it.
    """
    body |= {"documents": documents, "rankings": rankings, **more}
    if captions:
        body["captions"] = [captions.get(document) for document in documents]
    if latency:
        numbers = with_latency(numbers, latency)
    pairs = tuple(attributes.items()) if attributes else None
    return Encoded(_design(*about, excluded, pairs), numbers, _quick(body))


@lru_cache(maxsize=128)
def _design(*values: Any) -> str:
    """Few lists differ in these."""
    return _quick({name: value for name, value in zip(DESIGN, values, strict=True) if value is not None}).decode()


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
