"""Times as foreign logs write them: ISO 8601 of several kinds, epoch milliseconds, epoch seconds."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

SECONDS_BELOW = 10**11  # as milliseconds, that was in 1973: a smaller number counts seconds
START = datetime(1970, 1, 1, tzinfo=UTC)
UNDATED = datetime(2000, 1, 1, tzinfo=UTC)  # where times of formats without dates start: an analysis drops 1970
MOST = 253_402_300_800 * 10**6  # the end of the year 9999


def since_1970(value: Any, counts: Counter[str]) -> timedelta | None:
    """The time since 1970, or None if the value is no time; guesses are counted.

    >>> counts = Counter()
    >>> {since_1970(time, counts) for time in ("2024-06-04T19:02:42.025Z", "2024-06-04T21:02:42.025+0200")}
    {datetime.timedelta(days=19878, seconds=68562, microseconds=25000)}
    >>> {since_1970(time, counts) for time in (1717527762025, "1717527762025", "2024-06-04 19:02:42.025")}
    {datetime.timedelta(days=19878, seconds=68562, microseconds=25000)}
    >>> counts
    Counter({'time as a number': 2, 'time without a zone': 1})
    """
    if type(value) is str and not value.isdecimal():
        try:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                counts["time without a zone"] += 1
                moment = moment.replace(tzinfo=UTC)
            return moment - START
        except (ValueError, OverflowError):
            return None
    if type(value) is str:
        value = int(value) if len(value) < 20 else None
    if type(value) not in (int, float) or not 0 <= value < MOST // 1000:  # a NaN is not, either
        return None
    counts["time as a number"] += 1
    return timedelta(microseconds=round(value * (1_000_000 if value < SECONDS_BELOW else 1000)))
