"""Compiled steps over JSON text: each goes past one thing and says where it ends, or -1 where that is none.

Text ends with a newline, which no step goes past, because JSON has it in no text: so there are no checks of bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from interleaf.compiled import part
from interleaf.methods.arrays import Array

QUOTE, OPEN, CLOSE, OPEN_LIST, CLOSE_LIST, COMMA, COLON, NEWLINE, NULL = (ord(sign) for sign in '"{}[],:\nn')
_BACKSLASH, _BLANK, _TAB, _RETURN, _MINUS, _PLUS, _POINT, _ZERO, _NINE = (ord(sign) for sign in "\\ \t\r-+.09")
_U, _D, _LARGE_D, _E, _LARGE_E = (ord(sign) for sign in "udDeE")
_IN_TEXT = np.array([sign >= _BLANK and chr(sign) not in '"\\' for sign in range(256)])
_ESCAPES = np.array([chr(sign) in '"\\/bfnrtu' for sign in range(256)])
_HEX = np.array([chr(sign) in "0123456789abcdefABCDEF" for sign in range(256)])
_WORDS = np.array([list(word.ljust(5).encode()) for word in ("true", "false", "null")], np.uint8)
_DEEPEST = 60  # bits of a whole number


@part
def past_blanks(data: Array, at: int) -> int:
    """Blanks, but no newline."""
    while data[at] == _BLANK or data[at] == _TAB or data[at] == _RETURN:
        at += 1
    return at


@part
def past_text(data: Array, at: int) -> tuple[int, bool]:
    """A text, its quotes included, and whether it is without escapes. Half of a pair of `\\u` is no text of UTF-8."""
    if data[at] != QUOTE:
        return -1, True
    is_plain = True
    while True:
        at += 1
        while _IN_TEXT[data[at]]:
            at += 1
        if data[at] == QUOTE:
            return at + 1, is_plain
        if data[at] != _BACKSLASH:
            return -1, True
        at += 1
        is_plain = False
        if not _ESCAPES[data[at]] or (data[at] == _U and not _is_code(data, at + 1)):
            return -1, True


@part
def _is_code(data: Array, at: int) -> Any:
    """Four digits of `\\u`, if they are surely no half of a pair."""
    if data[at] == _D or data[at] == _LARGE_D:
        return False
    return _HEX[data[at]] and _HEX[data[at + 1]] and _HEX[data[at + 2]] and _HEX[data[at + 3]]


@part
def _past_digits(data: Array, at: int) -> int:
    start = at
    while _ZERO <= data[at] <= _NINE:
        at += 1
    return at if at > start else -1


@part
def past_number(data: Array, at: int) -> tuple[int, bool]:
    """A number, and whether it is a whole one."""
    if data[at] == _MINUS:
        at += 1
    end = at + 1 if data[at] == _ZERO else _past_digits(data, at)
    is_whole = True
    if end > 0 and data[end] == _POINT:
        end, is_whole = _past_digits(data, end + 1), False
    if end > 0 and (data[end] == _E or data[end] == _LARGE_E):
        signed = data[end + 1] == _MINUS or data[end + 1] == _PLUS
        end, is_whole = _past_digits(data, end + 1 + signed), False
    return end, is_whole


@part
def _past_word(data: Array, at: int) -> int:
    for word in _WORDS:
        size = 0
        while size < len(word) and word[size] != _BLANK and data[at + size] == word[size]:
            size += 1
        if size == len(word) or word[size] == _BLANK:
            return at + size
    return -1


@part
def past_colon(data: Array, at: int) -> int:
    """The colon behind a name, if there is a name, and the blanks around it."""
    if at < 0:
        return -1
    at = past_blanks(data, at)
    return past_blanks(data, at + 1) if data[at] == COLON else -1


@part
def past_name(data: Array, at: int) -> int:
    """A name and its colon."""
    at, _ = past_text(data, at)
    return past_colon(data, at)


@part
def past_value(data: Array, at: int) -> int:
    """Any value; one that is nested too deeply is taken for none."""
    depth, lists = 0, 0  # the bits of `lists` say which of the open ones are lists
    while True:
        sign = data[at]
        if sign in (OPEN, OPEN_LIST):
            depth, lists = depth + 1, 2 * lists + (sign == OPEN_LIST)
            at = past_blanks(data, at + 1)
            if data[at] != CLOSE and data[at] != CLOSE_LIST and depth < _DEEPEST:
                at = at if lists & 1 else past_name(data, at)
                if at < 0:
                    return -1
                continue
        elif sign == QUOTE:
            at, _ = past_text(data, at)
        elif sign == _MINUS or _ZERO <= sign <= _NINE:
            at, _ = past_number(data, at)
        else:
            at = _past_word(data, at)
        if at < 0:
            return -1
        at, depth, lists = _past_ends(data, at, depth, lists)
        if depth == 0 or at < 0:
            return at


@part
def _past_ends(data: Array, at: int, depth: int, lists: int) -> tuple[int, int, int]:
    """What ends behind a value; then, unless all is closed, the comma, and the name of what follows."""
    while depth > 0:
        at = past_blanks(data, at)
        if data[at] == COMMA:
            at = past_blanks(data, at + 1)
            return (at if lists & 1 else past_name(data, at)), depth, lists
        if data[at] != (CLOSE_LIST if lists & 1 else CLOSE):
            return -1, depth, lists
        at, depth, lists = at + 1, depth - 1, lists // 2
    return at, depth, lists
