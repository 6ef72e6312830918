"""The compiled parser of LETOR text: bytes of whole lines into rows of float32 features, grades and query starts.

A number is read as a whole mantissa of at most 18 digits and a power of ten. Where both are exact in float64, one
multiplication rounds as Python's `float` does (Clinger, 1990). Elsewhere the float64 is off by less than 2**-50 of
itself, and it still decides the float32 if both ends of that interval round to the same one; what then remains in
doubt is about one number in ten million, and is noted down for the caller to read with `float`.

Text ends with a newline, which no loop over blanks, digits or words goes past: so there are no checks of bounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.simulate.data import MOST_GRADE

MOST_FEATURES = 10_000

FINE, BAD_GRADE, NO_QUERY, BAD_FEATURE, BAD_NUMBER, ID_ZERO, ID_ORDER, ID_LARGE = range(8)

_TAB, _NEWLINE, _RETURN, _BLANK, _HASH, _PLUS, _MINUS, _POINT, _COLON = (ord(sign) for sign in "\t\n\r #+-.:")
_ZERO, _NINE, _LARGE_E, _SMALL_E, _Q, _I, _D = (ord(sign) for sign in "09Eeqid")
_POWERS = np.array([float(f"1e{power}") for power in range(65)])
_EXACT_POWER = 22  # the last power of ten that float64 holds exactly
_EXACT = 2**53
_FULL = 10**17  # a mantissa from here on takes no more digits
_LARGEST = 3.4028234e38  # just below the largest float32
_DOUBT = 2.0**-50


class Rows(NamedTuple):
    """Room for the rows of one text: there are at most as many as it has lines.

    `starts[query] = (row, line, start, end)` says where a query's rows start and its id stands in the text, and
    `doubts[n] = (row, column, start, end)` where a number stands that the caller must read; all from 0.
    """

    features: Array
    grades: Array
    starts: Array
    doubts: Array


class Outcome(NamedTuple):
    """What was found: a code (FINE, or what is wrong `at` a byte of a line), counts, and the largest feature id."""

    code: int
    at: int
    line: int
    rows: int
    queries: int
    doubts: int
    widest: int


@inline_kernel
def _ends(sign: Any) -> Any:
    """Whether a word ends here: at a blank, a control character or a comment."""
    return sign <= _BLANK or sign == _HASH


@inline_kernel
def _past_blanks(text: Array, at: int) -> int:
    while text[at] == _BLANK or text[at] == _TAB or text[at] == _RETURN:
        at += 1
    return at


@inline_kernel
def _past_word(text: Array, at: int) -> int:
    while not _ends(text[at]):
        at += 1
    return at


@inline_kernel
def _digits(text: Array, at: int, value: int) -> tuple[int, int, int]:
    """Digits taken into a whole number: where they end, the number, and how many were too many for it."""
    dropped = 0
    while _ZERO <= text[at] <= _NINE:
        if value < _FULL:
            value = value * 10 + (int(text[at]) - _ZERO)
        else:
            dropped += 1
        at += 1
    return at, value, dropped


@inline_kernel
def _power(text: Array, at: int) -> tuple[int, int]:
    """The exponent after an e: where it ends (-1: it has no digits) and its value."""
    sign = text[at]
    at += sign in (_MINUS, _PLUS)
    end, value, _ = _digits(text, at, 0)
    return -1 if end == at else end, -value if sign == _MINUS else value


@inline_kernel
def _decimal(text: Array, at: int) -> tuple[int, int, int]:
    """A number without its sign: where it ends (-1: it is none), its mantissa and its power of ten."""
    point, mantissa, power = _digits(text, at, 0)
    end = point
    if text[point] == _POINT:
        end, mantissa, dropped = _digits(text, point + 1, mantissa)
        power -= end - point - 1 - dropped
        end = -1 if end == at + 1 else end
    elif point == at:
        end = -1
    if end > 0 and (text[end] == _SMALL_E or text[end] == _LARGE_E):
        end, more = _power(text, end + 1)
        power += more
    return (end if end > 0 and _ends(text[end]) else -1), mantissa, power


@inline_kernel
def _rounded(mantissa: int, power: int) -> tuple[Any, bool]:
    """mantissa * 10**power as the float64 next to it or near it, and whether its float32 is certain."""
    if mantissa == 0:
        return 0.0, True
    if power < -64 or power > 64:
        return 0.0, False
    value = mantissa / _POWERS[-power] if power < 0 else mantissa * _POWERS[power]
    doubt = value * _DOUBT
    if value + doubt >= _LARGEST:
        return 0.0, False
    if mantissa < _EXACT and -_EXACT_POWER <= power <= _EXACT_POWER:
        return value, True
    return value, np.float32(value - doubt) == np.float32(value + doubt)


@inline_kernel
def _number(text: Array, at: int) -> tuple[int, Any, bool]:
    """A number: where it ends (-1: it is none), its value, and whether its float32 is certain."""
    sign = text[at]
    if _ZERO <= sign <= _NINE and _ends(text[at + 1]):  # half of what stands in such files
        return at + 1, float(int(sign) - _ZERO), True
    at += sign in (_MINUS, _PLUS)
    end, mantissa, power = _decimal(text, at)
    value, certain = _rounded(mantissa, power)
    return end, -value if sign == _MINUS else value, certain


@inline_kernel
def _is_query(text: Array, at: int) -> bool:
    is_named = text[at] == _Q and text[at + 1] == _I and text[at + 2] == _D and text[at + 3] == _COLON
    return is_named and not _ends(text[at + 4])


@inline_kernel
def _same(text: Array, start: int, end: int, other_start: int, other_end: int) -> bool:
    while start < end and other_start < other_end and text[start] == text[other_start]:
        start += 1
        other_start += 1
    return start == end and other_start == other_end


@inline_kernel
def _head(text: Array, at: int, line: int, rows: Rows, row: int, queries: int) -> tuple[int, int, int]:
    """Grade and query of a row: a code, where they end or what is wrong stands, and how many queries there are now."""
    end, grade, certain = _number(text, at)
    if end < 0 or not certain or not 0 <= grade <= MOST_GRADE or grade != int(grade):
        return BAD_GRADE, at, queries
    rows.grades[row] = int(grade)
    at = _past_blanks(text, end)
    if not _is_query(text, at):
        return NO_QUERY, at, queries
    start, end = at + 4, _past_word(text, at + 4)
    last = rows.starts[queries - 1]
    if queries == 0 or not _same(text, start, end, last[2], last[3]):
        new = rows.starts[queries]
        new[0], new[1], new[2], new[3] = row, line, start, end
        queries += 1
    return FINE, end, queries


@inline_kernel
def _tail(text: Array, at: int, rows: Rows, row: int, doubts: int) -> tuple[int, int, int, int]:
    """Features of a row: a code, where they end or what is wrong stands, how many doubts there are, the last id."""
    last, width = 0, rows.features.shape[1]
    at = _past_blanks(text, at)
    while text[at] != _NEWLINE and text[at] != _HASH:
        start, feature, _ = _digits(text, at, 0)
        if start == at or text[start] != _COLON:
            return BAD_FEATURE, at, doubts, last
        if feature == 0 or feature <= last or feature > MOST_FEATURES:
            return (ID_ZERO if feature == 0 else ID_ORDER if feature <= last else ID_LARGE), at, doubts, last
        end, value, certain = _number(text, start + 1)
        if end < 0:
            return BAD_NUMBER, at, doubts, last
        if feature <= width:
            rows.features[row, feature - 1] = value
            if not certain:
                note = rows.doubts[doubts]
                note[0], note[1], note[2], note[3] = row, feature - 1, start + 1, end
                doubts += 1
        last = feature
        at = _past_blanks(text, end)
    return FINE, at, doubts, last


@kernel
def parse(text: Array, rows: Rows) -> Outcome:
    """Read all lines of a text; features beyond the width there is room for are only counted, as `widest`."""
    at, line, row, queries, doubts, widest = 0, 0, 0, 0, 0, 0
    while at < len(text):
        at = _past_blanks(text, at)
        if text[at] != _NEWLINE and text[at] != _HASH:
            code, at, queries = _head(text, at, line, rows, row, queries)
            if code == FINE:
                code, at, doubts, last = _tail(text, at, rows, row, doubts)
                widest = max(widest, last)
            if code != FINE:
                return Outcome(code, at, line, row, queries, doubts, widest)
            row += 1
        while text[at] != _NEWLINE:
            at += 1
        at += 1
        line += 1
    return Outcome(FINE, at, line, row, queries, doubts, widest)
