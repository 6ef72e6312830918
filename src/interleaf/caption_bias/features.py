"""Captions from HTML, their lengths and highlights as numbers, and the features of H12c.

A feature is a property of a caption (0, 1), or a difference from its neighbours (-1, 0, 1). The paper names the ten
per-document features that it selected from 25, but no thresholds: those here are initial values, and `tune` finds
better ones in the data. As in the paper, matches of query terms are not a feature, because better documents also have
more of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from interleaf.decode.columns import codes, list_column, numbers, text_column
from interleaf.errors import DataError, join_names
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.log import schema

BOLD = ("b", "em", "strong")


class _Marked(HTMLParser):
    """Collects the text, and where bold begins and ends in it; other tags are ignored."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.sections: list[tuple[int, int]] = []
        self._open: list[tuple[str, int]] = []
        self.feed(text)
        self.close()
        while self._open:
            self.handle_endtag(self._open[-1][0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in BOLD:
            self._open.append((tag, len(self.text)))

    def handle_endtag(self, tag: str) -> None:
        for place in range(len(self._open) - 1, -1, -1):
            if self._open[place][0] == tag:
                start = self._open.pop(place)[1]
                if not self._open and start < len(self.text):  # bold inside bold is one section
                    self.sections.append((start, len(self.text)))
                return

    def handle_data(self, data: str) -> None:
        self.text += data


def make_caption(
    title: str | None = None, url: str | None = None, snippet: str | None = None, deep_links: int | None = None
) -> dict[str, Any]:
    """A caption in the format of the log, from texts with HTML.

    >>> make_caption("<b>Old</b> maps &amp; atlases", "maps.org/<em>old</em>")["highlights"]
    [{'field': 'title', 'start': 0, 'end': 3}, {'field': 'url', 'start': 9, 'end': 12}]
    """
    caption: dict[str, Any] = {"title": title, "url": url, "snippet": snippet}
    highlights = []
    for name, text in caption.items():
        if text is not None and not isinstance(text, str):
            raise DataError(f"the {name} of a caption is {text!r}; give a text, or None where none was shown")
        if text is not None:
            marked = _Marked(text)
            caption[name] = marked.text
            highlights += [{"field": name, "start": start, "end": end} for start, end in marked.sections]
    return {**caption, "highlights": highlights, "deep_links": deep_links}


TEXTS = ("url", "title", "snippet")
MEASURES = (
    *("url length", "url slashes", "title length", "snippet length"),
    *("url bold sections", "title bold sections", "snippet bold sections"),
    *("url bold words", "title bold words", "snippet bold words"),
    "deep links",
)
_URL_LENGTH, _SLASHES, _TITLE_LENGTH, _SNIPPET_LENGTH, _SECTIONS = range(5)
_WORDS, _LINKS = _SECTIONS + 3, _SECTIONS + 6
_SPACE, _SLASH = 0x20, ord("/")
_KINDS = {column.name: column.type for column in schema.CAPTION}


def measure(captions: pa.Array) -> Array:
    """`[caption, measure]` of an array of captions in the format of the log.

    >>> caption = {"title": "Old maps", "url": "maps.org/old", "snippet": None, "highlights": None, "deep_links": 2}
    >>> dict(zip(MEASURES, measure(pa.array([caption]))[0].tolist()))["title length"]
    2
    """
    fields = dict(zip([field.name for field in captions.type], captions.flatten(), strict=True))
    measures = np.zeros((len(captions), len(MEASURES)), np.int32)
    texts = [text_column(fields.get(name, pa.nulls(len(captions), pa.string()))) for name in TEXTS]
    for text, length in zip(texts, (_URL_LENGTH, _TITLE_LENGTH, _SNIPPET_LENGTH), strict=True):
        _measure_text(text.offsets, text.data, text.there, length, measures)
    if "highlights" in fields and fields["highlights"].null_count < len(captions):
        marked = list_column(fields["highlights"])
        inside = dict(zip([field.name for field in marked.values.type], marked.values.flatten(), strict=True))
        field, names = codes(inside["field"])
        number = np.array([*(TEXTS.index(name) if name in TEXTS else -1 for name in names), -1], np.int32)[field]
        starts, ends = (numbers(inside[name], 0, pa.int32()) for name in ("start", "end"))
        for place, text in enumerate(texts):
            _mark(text.offsets, text.data, marked.offsets, number, starts, ends, place, measures)
    if "deep_links" in fields:
        measures[:, _LINKS] = numbers(fields["deep_links"], 0, _KINDS["deep_links"])
    return measures


@inline_kernel
def _is_start(byte: int) -> bool:
    """Whether a byte of UTF-8 begins a character."""
    return byte & 0xC0 != 0x80


@kernel
def _measure_text(offsets: Array, data: Array, there: Array, measure: int, measures: Array) -> None:
    for row in range(len(there)):
        characters, words, slashes, in_word = 0, 0, 0, False
        for place in range(offsets[row], offsets[row + 1] if there[row] else offsets[row]):
            byte = data[place]
            characters += _is_start(byte)
            slashes += byte == _SLASH
            words += byte > _SPACE and not in_word
            in_word = byte > _SPACE
        measures[row, measure] = words if measure == _TITLE_LENGTH else characters if words else 0
        if measure == _URL_LENGTH:
            measures[row, _SLASHES] = slashes


@kernel
def _mark(
    offsets: Array, data: Array, marked: Array, field: Array, starts: Array, ends: Array, wanted: int, measures: Array
) -> None:
    """Count the highlighted sections of one text, and the words in them; what is past the end of the text is not."""
    for row in range(len(measures)):
        for mark in range(marked[row], marked[row + 1]):
            if field[mark] != wanted or ends[mark] <= starts[mark]:
                continue
            character, words, in_word = -1, 0, False
            for place in range(offsets[row], offsets[row + 1]):
                character += _is_start(data[place])
                if character >= ends[mark]:
                    break
                if character >= starts[mark]:
                    words += data[place] > _SPACE and not in_word
                    in_word = data[place] > _SPACE
            measures[row, _SECTIONS + wanted] += words > 0
            measures[row, _WORDS + wanted] += words


MAX_VALUE = 2**31 - 1
ABOVE, BELOW = "above", "below"
POSITIONS = ("1", "2", "3", "4-5", "6-9", "10+")
UNJUDGED_GRADE = "unjudged"
MAX_GRADE = 13
GRADES = (UNJUDGED_GRADE, *(str(grade) for grade in range(MAX_GRADE + 1)))
POSITION, GRADE, FIRST = 0, 1, 2  # columns of `codes`: position, grade, then the features


@dataclass(frozen=True)
class CaptionFeature:
    """One feature of captions: whether a measure is from `min` to `max`; the bound named by `tuned` may be fitted.

    With a `neighbour` it is the sign of the difference to the result above or below, 0 where there is none.
    """

    name: str
    measure: str
    min: Annotated[int, msgspec.Meta(ge=0)] = 0
    max: Annotated[int, msgspec.Meta(ge=0)] = MAX_VALUE
    tuned: str = ""
    neighbour: str = ""
    meaning: str = ""

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise DataError(
                f"feature {self.name!r}: unknown measure {self.measure!r}; known are {join_names(MEASURES)}"
            )
        if self.tuned not in ("", "min", "max") or self.neighbour not in ("", ABOVE, BELOW):
            problem = f"feature {self.name!r}: tuned is {self.tuned!r} and neighbour {self.neighbour!r}"
            raise DataError(f"{problem}; give 'min' or 'max', and 'above' or 'below', or leave them out")

    def at(self, threshold: int) -> CaptionFeature:
        """The same feature with another threshold, if it has one that can be tuned."""
        return replace(self, min=threshold) if self.tuned == "min" else replace(self, max=threshold)

    @property
    def is_highlighting(self) -> bool:
        """Whether it compares highlights with a neighbour, as Yue et al. (2010) do."""
        return bool(self.neighbour) and " bold " in self.measure

    @property
    def rule(self) -> str:
        """How the feature is computed, in words.

        >>> CaptionFeature("short URL", "url length", max=30).rule
        'url length at most 30'
        """
        if self.neighbour:
            return f"{self.measure} against the result {self.neighbour}"
        if self.min == self.max:
            return f"{self.measure} is {self.min}"
        low = f"at least {self.min}" if self.min > 0 else ""
        high = f"at most {self.max}" if self.max < MAX_VALUE else ""
        return f"{self.measure} {' and '.join(part for part in (low, high) if part)}"


DOCUMENT_FEATURES = (
    CaptionFeature("deep links", "deep links", min=1, meaning="links into the site stand below the title"),
    CaptionFeature("short URL", "url length", max=30, tuned="max", meaning="few characters"),
    CaptionFeature("long URL", "url length", min=80, tuned="min", meaning="many characters"),
    CaptionFeature("many URL slashes", "url slashes", min=6, tuned="min", meaning="deep inside a site"),
    CaptionFeature("URL bold", "url bold sections", min=1, meaning="something in the URL is highlighted"),
    CaptionFeature("short title", "title length", max=4, tuned="max", meaning="few words"),
    CaptionFeature("long title", "title length", min=10, tuned="min", meaning="many words"),
    CaptionFeature("title bold", "title bold sections", min=1, meaning="something in the title is highlighted"),
    CaptionFeature("much title bold", "title bold sections", min=3, tuned="min", meaning="several sections are"),
    CaptionFeature("missing snippet", "snippet length", max=0, meaning="no snippet was shown"),
    CaptionFeature("short snippet", "snippet length", min=1, max=45, tuned="max", meaning="about half a line"),
    CaptionFeature("long snippet", "snippet length", min=165, tuned="min", meaning="flows onto a third line"),
    CaptionFeature("snippet bold", "snippet bold sections", min=1, meaning="something in the snippet is highlighted"),
    CaptionFeature("much snippet bold", "snippet bold sections", min=5, tuned="min", meaning="many sections are"),
)
PAIRWISE_FEATURES = tuple(
    CaptionFeature(
        f"Δ {measure} {neighbour}", measure, neighbour=neighbour, meaning="more than the neighbour (1), or less (-1)"
    )
    for measure in MEASURES
    if measure != "deep links"
    for neighbour in (ABOVE, BELOW)
)
FEATURES = DOCUMENT_FEATURES + PAIRWISE_FEATURES


def encode(features: Sequence[CaptionFeature], measures: Array, counts: Array, grades: Array) -> Array:
    """Codes `[result, column]` of results in the order of pages and positions: position, grade, and each feature.

    Grades below 0 are unknown.
    """
    for name, count in Counter(feature.name for feature in features).items():
        if count > 1:
            raise DataError(f"two features are named {name!r}; give each a name of its own")
    side = {"": 0, ABOVE: -1, BELOW: 1}
    table = [(MEASURES.index(one.measure), one.min, one.max, side[one.neighbour]) for one in features]
    codes = np.zeros((len(measures), FIRST + len(features)), np.int8)
    codes[:, GRADE] = np.clip(grades, -1, MAX_GRADE) + 1
    _encode(measures, np.asarray(counts, np.int64), np.array(table, np.int64).reshape(-1, 4), codes)
    return codes


@kernel
def _encode(measures: Array, counts: Array, table: Array, codes: Array) -> None:
    """`table` has a row for each feature: measure, bounds, and -1 or 1 for the neighbour."""
    start = 0
    for page in range(len(counts)):
        end = start + counts[page]
        for row in range(start, end):
            place = row - start
            codes[row, POSITION] = place if place < 3 else 3 if place < 5 else 4 if place < 9 else 5
            for feature in range(len(table)):
                measure, side = table[feature, 0], table[feature, 3]
                value = measures[row, measure]
                if side == 0:
                    codes[row, FIRST + feature] = table[feature, 1] <= value <= table[feature, 2]
                elif start <= row + side < end:
                    other = measures[row + side, measure]
                    codes[row, FIRST + feature] = (value > other) - (value < other)
        start = end
