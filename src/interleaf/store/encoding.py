"""The stored form of a row: what scoring reads in a form that many rows are read from at once, the rest as JSON.

`design` is JSON of what few rows differ in, so that each different one is parsed once. `body` is JSON of everything
else. `numbers` are 32-bit integers: the union, whether the list was relaxed, of how many rankers there are ranks, the
sizes of five lists (-1: null), and the lists one after the other; the last one, latencies, as 32-bit floats.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import nan
from typing import Any, NamedTuple

import msgspec

from interleaf import schema
from interleaf.errors import DataError
from interleaf.experiment.showing import Noted
from interleaf.log.values import RULES

LISTS = ("ranks", "teams", "lengths", "choices", "latency")
HEADER = 3 + len(LISTS)
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
_quick = msgspec.json.Encoder().encode


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
        numbers = _pack(*map(values.get, (*LISTS, "union", "relaxed")))
        parts = Encoded(design, numbers, _plain(body).encode())
        design.encode()
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise DataError(f"impression {row.get('impression')!r} cannot be stored: {problem}") from None
    if "\0" in design:
        raise DataError(f"impression {row.get('impression')!r} cannot be stored: it holds a null character")
    return parts


def encoded_note(
    noted: Noted,
    *,
    attributes: Mapping[str, str] | None = None,
    excluded: str | None = None,
    latency: Sequence[float | None] | None = None,
    captions: Mapping[str, Any] | None = None,
    **more: Any,
) -> Encoded:
    """The parts of a list that was just drawn for a request; nothing is checked, because the request was.

    `more` replaces or extends the body.
    """
    drawn, problem = noted.drawn, noted.drawn.problem
    ranks = problem.rank_lists(drawn.documents)
    numbers = _pack(ranks, drawn.teams, problem.lengths, drawn.choices, latency, problem.union, drawn.relaxed)
    body: dict[str, Any] = {"query": noted.query, "key": drawn.key, "page": noted.page, "k": noted.k}
    if drawn.log_probability is not None:
        body["log_probability"] = drawn.log_probability
    if noted.fixed:
        body["fixed"] = noted.fixed
    body |= {"documents": drawn.documents, "rankings": problem.rankings, **more}
    if captions:
        body["captions"] = [captions.get(str(document)) for document in drawn.documents]
    pairs = tuple(attributes.items()) if attributes else None
    design = _design(noted.arm, drawn.chosen.text, problem.rankers, noted.fallback_reason, excluded, pairs)
    return Encoded(design, numbers, _quick(body))


@lru_cache(maxsize=128)
def _design(*values: Any) -> str:
    """Few lists differ in these."""
    return _quick({name: value for name, value in zip(DESIGN, values, strict=True) if value is not None}).decode()


def _pack(
    ranks: Sequence[Sequence[int]] | None,
    teams: Sequence[int] | None,
    lengths: Sequence[int] | None,
    choices: Sequence[int] | None,
    latency: Sequence[float | None] | None,
    union: int | None,
    relaxed: bool | None,
) -> bytes:
    """The numbers of a list as bytes."""
    flat = None if ranks is None else list(chain.from_iterable(ranks))
    lists = flat, teams, lengths, choices
    numbers = [-1 if union is None else union, -1 if relaxed is None else int(relaxed), len(ranks or ())]
    numbers += [-1 if one is None else len(one) for one in (*lists, latency)]
    for one in lists:
        if one:
            numbers += one
    packed = array("i", numbers).tobytes()
    if not latency:
        return packed
    return packed + array("f", [nan if number is None else number for number in latency]).tobytes()


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
