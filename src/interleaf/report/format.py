"""Formats numbers, times and names in the same way in text, tables and charts."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime

from interleaf.stats.compare import Interval
from interleaf.tables import one_line, percent

MAX_LETTERS = 32  # of a name: enough to recognise it, few enough for the margin of a chart
MAX_IN_SENTENCE = 1200
MAX_WRAPPED = 100  # letters of a name within a sentence, which can wrap
SMALLEST = 0.5e-6  # smaller numbers are written as 0
_ISOLATES = dict.fromkeys(range(0x2066, 0x206A))


class Names(dict[str, str]):
    """Short forms of names for a report: each on one line, and no two the same.

    >>> names = Names(["production", "a" * 50])
    >>> names["production"], names["a" * 50]
    ('production', 'aaaaaaaaaaaaaaaaaaa…aaaaaaaaaaaa')
    >>> names["a" * 51]
    'aaaaaaaaaaaaaaaaaaa…aaaaaaaaaaaa (2)'
    >>> list(Names([f"ranker-with-freshness-{month}-and-diversity" for month in ("october", "november")]).values())
    ['ranke…eshness-october-an…versity', 'ranke…eshness-november-a…versity']
    """

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        distinct = list(dict.fromkeys(names))
        cuts: dict[str, list[str]] = {}
        for name in distinct:
            cuts.setdefault(_short(name), []).append(name)
        for alike in cuts.values():
            if len(alike) > 1:
                self.update(_distinguish(alike))
        for name in distinct:
            self[name]

    def __missing__(self, name: str) -> str:
        label, labels = _short(name), set(self.values())
        number = 1
        while (tried := label if number == 1 else f"{label} ({number})") in labels:
            number += 1
        self[name] = tried
        return tried

    def within(self, text: str) -> str:
        """A text on one line with long names shortened; it is cut off if it is too long."""
        for name in sorted(self, key=len, reverse=True):
            if len(name) > MAX_WRAPPED:
                text = text.replace(name, self[name])
        return one_line(text if len(text) <= MAX_IN_SENTENCE else f"{text[:MAX_IN_SENTENCE]}…")


def _short(name: str) -> str:
    """Both ends of a name; a right-to-left name does not change the direction of the text around it."""
    name = " ".join(one_line(name).translate(_ISOLATES).split()) or "(no name)"
    if len(name) > MAX_LETTERS:
        name = f"{name[:19]}…{name[-12:]}"
    turns = any(unicodedata.bidirectional(letter) in {"R", "AL"} for letter in name)
    return f"\u2068{name}\u2069" if turns else name


def _distinguish(names: list[str]) -> dict[str, str]:
    """Short forms of names with equal ends: both ends, and the part where the names differ; none if that fails."""
    low, high = min(names), max(names)
    begins = next((place for place, (one, other) in enumerate(zip(low, high, strict=False)) if one != other), len(low))
    labels = {name: _short(f"{name[:5]}…{name[max(begins - 8, 5) :][:18]}…{name[-7:]}") for name in names}
    return labels if len(set(labels.values())) == len(names) and begins > 12 else {}


def format_signed(value: float) -> str:
    """An estimate, with its sign and at least two digits.

    >>> [format_signed(value) for value in (0.0421, 0.0014, -0.00012, 0.000025, 0.0, 1234.5)]
    ['+0.042', '+0.0014', '-0.00012', '+0.000025', '0.000', '+1,234']
    """
    if abs(value) < SMALLEST:
        return "0.000"
    if abs(value) >= 1000:
        return f"{value:+,.0f}"
    return f"{value:+.{min(6, max(3, 1 - math.floor(math.log10(abs(value)))))}f}"


def span(interval: Interval) -> str:
    """An interval in words, because a dash could be read as a minus.

    >>> span((-0.01, 0.03))
    '-0.010 to +0.030'
    """
    return f"{format_signed(interval[0])} to {format_signed(interval[1])}"


def probability(value: float) -> str:
    """A p-value with three decimals, or `< 0.001`.

    >>> probability(0.0312), probability(0.0004), probability(1.0)
    ('0.031', '< 0.001', '1.000')
    """
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def share(value: float) -> str:
    """A share in percent.

    >>> share(0.5214)
    '52.1 %'
    """
    return percent(value, 1)


def count(value: float) -> str:
    """A number with separators.

    >>> count(1234567), count(88.04)
    ('1,234,567', '88')
    """
    return f"{value:,.0f}"


def join_by_slash(*counts: int) -> str:
    """Several numbers, separated by slashes.

    >>> join_by_slash(1200, 7)
    '1,200 / 7'
    """
    return " / ".join(map(count, counts))


def join_by_space(codes: Iterable[str]) -> str:
    """Codes as words.

    >>> join_by_space(["preferred", "no_worse"])
    'preferred, no worse'
    """
    return ", ".join(code.replace("_", " ") for code in codes)


def digits(value: float) -> str:
    """Any number, with three digits.

    >>> digits(0.012345)
    '0.0123'
    """
    return f"{value:.3g}"


def moment(time: datetime) -> str:
    """A time to the minute, in UTC if it has a zone.

    >>> moment(datetime(2026, 11, 15, 12, 30, tzinfo=UTC))
    '2026-11-15 12:30'
    """
    return (time.astimezone(UTC) if time.tzinfo else time).strftime("%Y-%m-%d %H:%M")


def several(things: Iterable[str], limit: int = 3) -> str:
    """The first few things, and how many more there are.

    >>> several(["a", "b"]), several("abcdef")
    ('a, b', 'a, b, c and 3 more')
    """
    listed = list(things)
    more = f" and {len(listed) - limit:,} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + more
