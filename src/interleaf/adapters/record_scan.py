"""The compiled scanner of UBI records: which kind of record each line is, and where in it the wanted fields stand.

It takes what the schema of UBI asks for, and nothing else. All of a line must be JSON; a wanted field of another type,
or a name that comes twice, makes the line one to be read by itself, leniently.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from interleaf.adapters.json_scan import (
    CLOSE,
    CLOSE_LIST,
    COMMA,
    NEWLINE,
    NULL,
    OPEN,
    OPEN_LIST,
    QUOTE,
    past_blanks,
    past_colon,
    past_name,
    past_number,
    past_text,
    past_value,
)
from interleaf.compiled import kernel, part
from interleaf.methods.arrays import Array

BLANK, SINGLE, ACTION, EVENT, QUERY = range(5)  # kinds of lines; a single one is to be read by itself
TOP, ABOUT, OBJECT, POSITION, NAMED = range(5)  # objects that wanted fields stand in
TEXT, WHOLE, NUMBER, TIME, INSIDE, TEXTS, LIST, NOT_PLAIN = range(8)  # what a wanted field must be

# Where a wanted field stands, its name, and what it must be; its place in this table is its number.
WANTED: tuple[tuple[int, str, int], ...] = (
    *((TOP, name, TEXT) for name in ("action_name", "query_id", "application", "user_id", "client_id", "session_id")),
    *((TOP, "user_query", TEXT), (TOP, "timestamp", TIME), (TOP, "event_attributes", INSIDE)),
    *((TOP, "query_attributes", TEXTS), (TOP, "query_response_hit_ids", LIST)),
    *((TOP, name, NOT_PLAIN) for name in ("_source", "response", "hits")),  # a query inside, or an engine's answer
    *((TOP, "index", INSIDE), (TOP, "create", INSIDE), (NAMED, "_id", TEXT)),
    *((ABOUT, name, TEXT) for name in ("session_id", "event", "search_config")),
    *((ABOUT, "object", INSIDE), (ABOUT, "position", INSIDE), (ABOUT, "rank", WHOLE)),
    *((ABOUT, name, NUMBER) for name in ("dwell", "dwell_time", "value")),
    *((OBJECT, "object_id", TEXT), (OBJECT, "internal_id", TEXT), (POSITION, "ordinal", WHOLE)),
)
FIELD = {(where, name): number for number, (where, name, _) in enumerate(WANTED)}
_INSIDES = ((TOP, "event_attributes", ABOUT), (ABOUT, "object", OBJECT), (ABOUT, "position", POSITION))
_ACTIONS = ((TOP, "index", NAMED), (TOP, "create", NAMED))
_INNER = np.array([(FIELD[where, name], inside) for where, name, inside in (*_INSIDES, *_ACTIONS)])
_KIND = np.array([kind for _, _, kind in WANTED])
_LONGEST_NAME = max(len(name) for _, name, _ in WANTED)
_NAMES = np.array([list(name.ljust(_LONGEST_NAME).encode()) for _, name, _ in WANTED], np.uint8)
_ALIKE = np.full((5, _LONGEST_NAME + 1, 4), -1)  # by where and length, the fields that it may be
for _number, (_where, _name, _) in enumerate(WANTED):
    _places = _ALIKE[_where, len(_name)]
    _places[(_places >= 0).sum()] = _number
_ACTION_NAME, _QUERY_ID, _ASKED = FIELD[TOP, "action_name"], FIELD[TOP, "query_id"], FIELD[TOP, "user_query"]
_HITS, _INDEX, _CREATE = FIELD[TOP, "query_response_hit_ids"], FIELD[TOP, "index"], FIELD[TOP, "create"]
_LONGEST_WHOLE = 18  # signs that int64 surely holds


@kernel
def scan(data: Array, starts: Array, kinds: Array, spans: Array, escaped: Array, hits: Array) -> None:
    """The kind of the line from starts[i] on, and spans[i, field] = (start, end) where the field is there.

    `escaped[i, field]` says that a text has escapes. The span of a list is one of rows of `hits`, which are spans.
    """
    used = 0
    for line in range(len(kinds)):
        at = past_blanks(data, starts[line])
        if data[at] == NEWLINE:
            kinds[line] = BLANK
            continue
        kinds[line] = SINGLE
        at, used = _fields(data, at, TOP, spans[line], escaped[line], hits, used)
        if at < 0 or data[past_blanks(data, at)] != NEWLINE:
            continue
        is_fine = True
        for inner in range(len(_INNER)):
            field = _INNER[inner, 0]
            if is_fine and spans[line, field, 1] > 0:
                start, inside = spans[line, field, 0], _INNER[inner, 1]
                at, used = _fields(data, start, inside, spans[line], escaped[line], hits, used)
                is_fine = at > 0
        if is_fine:
            kinds[line] = _kind(spans[line])


@part
def _kind(spans: Array) -> int:
    """An event has an action, a query a text or hits; both need the id of a query."""
    is_named = spans[_QUERY_ID, 1] > spans[_QUERY_ID, 0]
    if spans[_ACTION_NAME, 1] > 0:
        return EVENT if is_named else SINGLE
    if spans[_ASKED, 1] > 0 or spans[_HITS, 1] > 0:
        return QUERY if is_named else SINGLE
    return ACTION if spans[_INDEX, 1] > 0 or spans[_CREATE, 1] > 0 else SINGLE


@part
def _fields(data: Array, at: int, inside: int, spans: Array, escaped: Array, hits: Array, used: int) -> tuple[int, int]:
    """The wanted fields of an object: where it ends, -1 if all is not as wanted; and how many hits there are now."""
    if data[at] != OPEN:
        return -1, used
    at = past_blanks(data, at + 1)
    if data[at] == CLOSE:
        return at + 1, used
    while True:
        name, _ = past_text(data, at)
        value = past_colon(data, name)
        if value < 0:
            return -1, used
        end = past_value(data, value)
        field = _field(data, at + 1, name - 1, inside)
        if end > 0 and field >= 0 and data[value] != NULL:
            is_fine, used = _take(data, value, end, field, spans, escaped, hits, used)
            end = end if is_fine else -1
        if end < 0:
            return -1, used
        at = past_blanks(data, end)
        if data[at] == CLOSE:
            return at + 1, used
        if data[at] != COMMA:
            return -1, used
        at = past_blanks(data, at + 1)


@part
def _field(data: Array, at: int, end: int, inside: int) -> Any:
    """The number of the wanted field of this name, -1 if it is none."""
    if end - at > _LONGEST_NAME:
        return -1
    for place in range(_ALIKE.shape[2]):
        number = _ALIKE[inside, end - at, place]
        if number < 0:
            return -1
        size = 0
        while at + size < end and data[at + size] == _NAMES[number, size]:
            size += 1
        if at + size == end:
            return number
    return -1


@part
def _take(
    data: Array, at: int, end: int, field: int, spans: Array, escaped: Array, hits: Array, used: int
) -> tuple[bool, int]:
    """Note where a value stands: whether it is what is wanted, the first of its name; and how many hits there are."""
    kind, sign = _KIND[field], data[at]
    if spans[field, 1] > 0 or kind == NOT_PLAIN:
        return False, used
    if sign == QUOTE and kind in (TEXT, TIME):
        _, is_plain = past_text(data, at)
        spans[field, 0], spans[field, 1], escaped[field] = at + 1, end - 1, not is_plain
        return True, used
    if sign == OPEN_LIST and kind == LIST:
        last = _list(data, at, hits, used)
        spans[field, 0], spans[field, 1] = used, last
        return last >= 0, max(last, used)
    is_fine = sign == OPEN and (kind == INSIDE or (kind == TEXTS and _holds_texts(data, at)))
    if kind in (WHOLE, NUMBER, TIME):
        number, is_whole = past_number(data, at)
        is_fine = number == end and (kind == NUMBER or (is_whole and end - at <= _LONGEST_WHOLE))
    spans[field, 0], spans[field, 1] = at, end
    return is_fine, used


@part
def _list(data: Array, at: int, hits: Array, used: int) -> int:
    """How many hits there are with those of a list that is JSON; -1 if one is no text, or has escapes."""
    at = past_blanks(data, at + 1)
    while data[at] != CLOSE_LIST:
        end, is_plain = past_text(data, at)
        if end < 0 or not is_plain:
            return -1
        hits[used, 0], hits[used, 1] = at + 1, end - 1
        used += 1
        at = past_blanks(data, end)
        if data[at] == COMMA:
            at = past_blanks(data, at + 1)
    return used


@part
def _holds_texts(data: Array, at: int) -> bool:
    """Whether all values of an object that is JSON are texts."""
    at = past_blanks(data, at + 1)
    while data[at] != CLOSE:
        at = past_name(data, at)
        end, _ = past_text(data, at)
        if end < 0:
            return False
        at = past_blanks(data, end)
        if data[at] == COMMA:
            at = past_blanks(data, at + 1)
    return True
