"""Captions: from markup to plain text with highlights, and what they look like in numbers."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pyarrow as pa

from interleaf import schema
from interleaf.compiled import kernel, part
from interleaf.decode.columns import Texts, codes, lists, numbers, texts
from interleaf.errors import DataError
from interleaf.methods.arrays import Array

BOLD = ("b", "em", "strong")
MARKED_TEXTS = ("title", "url", "snippet")


class _Marked(HTMLParser):
    """Collects the text, and where bold begins and ends in it; other tags are left out."""

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


def caption(
    title: str | None = None, url: str | None = None, snippet: str | None = None, deep_links: int | None = None
) -> dict[str, Any]:
    """A caption as the log holds it, from texts with HTML in them.

    >>> caption("<b>Old</b> maps &amp; atlases", "maps.org/<em>old</em>")["highlights"]
    [{'field': 'title', 'start': 0, 'end': 3}, {'field': 'url', 'start': 9, 'end': 12}]
    """
    marked: dict[str, _Marked | None] = {}
    for name, text in zip(MARKED_TEXTS, (title, url, snippet), strict=True):
        if text is not None and not isinstance(text, str):
            raise DataError(f"the {name} of a caption is {text!r}; give a text, or None where none was shown")
        marked[name] = None if text is None else _Marked(text)
    highlights = [
        {"field": name, "start": start, "end": end}
        for name, found in marked.items()
        for start, end in (found.sections if found else ())
    ]
    texts = {name: found and found.text for name, found in marked.items()}
    return {**texts, "highlights": highlights, "deep_links": deep_links}


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
    """`[caption, measure]` of an array of captions as the log holds them.

    >>> caption = {"title": "Old maps", "url": "maps.org/old", "snippet": None, "highlights": None, "deep_links": 2}
    >>> dict(zip(MEASURES, measure(pa.array([caption]))[0].tolist()))["title length"]
    2
    """
    fields = dict(zip([field.name for field in captions.type], captions.flatten(), strict=True))
    found = np.zeros((len(captions), len(MEASURES)), np.int32)
    parts = [texts(fields[name]) if name in fields else _nothing(len(captions)) for name in TEXTS]
    for part_of, length in zip(parts, (_URL_LENGTH, _TITLE_LENGTH, _SNIPPET_LENGTH), strict=True):
        _measure_text(part_of.offsets, part_of.data, part_of.there, length, found)
    if "highlights" in fields and fields["highlights"].null_count < len(captions):
        _measure_highlights(parts, fields["highlights"], found)
    if "deep_links" in fields:
        found[:, _LINKS] = numbers(fields["deep_links"], 0, _KINDS["deep_links"])
    return found


def _nothing(size: int) -> Texts:
    return texts(pa.nulls(size, pa.string()))


def _measure_highlights(parts: list[Texts], highlights: pa.Array, found: Array) -> None:
    marked = lists(highlights)
    inside = dict(zip([field.name for field in marked.values.type], marked.values.flatten(), strict=True))
    field, names = codes(inside["field"])
    number = np.array([*(TEXTS.index(name) if name in TEXTS else -1 for name in names), -1], np.int32)[field]
    starts, ends = (numbers(inside[name], 0, pa.int32()) for name in ("start", "end"))
    for place, text in enumerate(parts):
        _mark(text.offsets, text.data, marked.offsets, number, starts, ends, place, found)


@part
def _is_start(byte: int) -> bool:
    """Whether a byte of UTF-8 begins a character."""
    return byte & 0xC0 != 0x80


@kernel
def _measure_text(offsets: Array, data: Array, there: Array, measure: int, found: Array) -> None:
    for row in range(len(there)):
        characters, words, slashes, in_word = 0, 0, 0, False
        for place in range(offsets[row], offsets[row + 1] if there[row] else offsets[row]):
            byte = data[place]
            characters += _is_start(byte)
            slashes += byte == _SLASH
            words += byte > _SPACE and not in_word
            in_word = byte > _SPACE
        found[row, measure] = words if measure == _TITLE_LENGTH else characters if words else 0
        if measure == _URL_LENGTH:
            found[row, _SLASHES] = slashes


@kernel
def _mark(
    offsets: Array, data: Array, marked: Array, field: Array, starts: Array, ends: Array, wanted: int, found: Array
) -> None:
    """Count the highlighted sections of one text, and the words in them; what is past the end of the text is not."""
    for row in range(len(found)):
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
            found[row, _SECTIONS + wanted] += words > 0
            found[row, _WORDS + wanted] += words
