"""The compiled reader of times as most logs write them: `2026-11-15T12:00:05.250Z`, `+01:00` or `+0100` for `Z`."""

from __future__ import annotations

from typing import Any

import numpy as np

from interleaf.compiled import kernel, part
from interleaf.methods.arrays import Array

UNKNOWN = np.iinfo(np.int64).min
_MINUS, _PLUS, _POINT, _COLON, _T, _Z, _BLANK, _ZERO = (ord(sign) for sign in "-+.:TZ 0")
_MONTHS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_BEFORE = np.cumsum(_MONTHS)  # days of a common year up to the end of a month
_DAYS_TO_1970 = 719_162  # from the first day of the year 1
_FINEST = 6  # digits of a second that we keep


@kernel
def moments(data: Array, spans: Array, found: Array) -> None:
    """Microseconds since 1970 of the text of each span; UNKNOWN where it is of another form, or no day or hour."""
    for row in range(len(spans)):
        start, end = spans[row, 0], spans[row, 1]
        found[row] = _moment(data, start, end) if end - start >= 20 else UNKNOWN


@part
def _moment(data: Array, at: int, end: int) -> Any:
    days, seconds = _date(data, at), _clock(data, at + 11)
    has_signs = data[at + 16] == _COLON and (data[at + 10] == _T or data[at + 10] == _BLANK)
    second = _digits(data, at + 17, 2)
    at += 19
    fraction, digits = 0, 0
    if data[at] == _POINT:
        while digits < _FINEST and _digits(data, at + 1 + digits, 1) >= 0:
            digits += 1
        fraction = _digits(data, at + 1, digits) if digits else -1
        at += 1 + digits
    zone = _zone(data, at, end)
    if days < 0 or seconds < 0 or not has_signs or not 0 <= second < 60 or fraction < 0 or zone == UNKNOWN:
        return UNKNOWN
    micros = fraction * 10 ** (_FINEST - digits)
    return ((days - _DAYS_TO_1970) * 86_400 + seconds + second - zone) * 1_000_000 + micros


@part
def _digits(data: Array, at: int, count: int) -> int:
    """A number of so many digits, -1 if it is none."""
    value = 0
    for place in range(at, at + count):
        digit = int(data[place]) - _ZERO
        if not 0 <= digit <= 9:
            return -1
        value = 10 * value + digit
    return value


@part
def _date(data: Array, at: int) -> Any:
    """Days from the first day of the year 1 on, -1 if it is no day."""
    year, month, day = _digits(data, at, 4), _digits(data, at + 5, 2), _digits(data, at + 8, 2)
    if year < 1 or not 1 <= month <= 12 or data[at + 4] != _MINUS or data[at + 7] != _MINUS:
        return -1
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _MONTHS[month] + (is_leap and month == 2):
        return -1
    past = year - 1
    days = 365 * past + past // 4 - past // 100 + past // 400 + _BEFORE[month - 1] + day - 1
    return days + (is_leap and month > 2)


@part
def _clock(data: Array, at: int) -> int:
    """Seconds of hours and minutes, -1 if they are none."""
    hours, minutes = _digits(data, at, 2), _digits(data, at + 3, 2)
    if not 0 <= hours < 24 or not 0 <= minutes < 60 or data[at + 2] != _COLON:
        return -1
    return 3600 * hours + 60 * minutes


@part
def _zone(data: Array, at: int, end: int) -> int:
    """Seconds that a zone, which must end the text, is ahead."""
    if data[at] == _Z:
        return 0 if at + 1 == end else UNKNOWN
    if (data[at] != _PLUS and data[at] != _MINUS) or end - at not in (5, 6):
        return UNKNOWN
    has_colon = end - at == 6
    hours, minutes = _digits(data, at + 1, 2), _digits(data, at + 3 + has_colon, 2)
    if not 0 <= hours < 24 or not 0 <= minutes < 60 or (has_colon and data[at + 3] != _COLON):
        return UNKNOWN
    ahead = 3600 * hours + 60 * minutes
    return ahead if data[at] == _PLUS else -ahead
