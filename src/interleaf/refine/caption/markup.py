"""Captions from markup: texts with `<b>`, `<em>` or `<strong>` in them to plain texts with highlights as offsets."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from interleaf.errors import DataError

BOLD = ("b", "em", "strong")
TEXTS = ("title", "url", "snippet")


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
    for name, text in zip(TEXTS, (title, url, snippet), strict=True):
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
