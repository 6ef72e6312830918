"""Tables of numbers, as plain text and Markdown.

Names in cells are untrusted input: line breaks, terminal control characters and markup in them have no effect.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

Cell = str | int | float | None

NOTHING = "-"  # a cell that could not be computed
# Control characters, surrogates, line and paragraph separators; then characters that change the text direction.
_UNSEEN = {"Cc", "Cs", "Zl", "Zp"}
_REVERSING = {chr(code) for code in range(0x202A, 0x202F)}
_ACTIVE = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])")


def percent(value: float, decimals: int | None = None, *, signed: bool = False) -> str:
    """A share in percent, with this many decimals; if it is left out, with as many as needed, at most four digits.

    >>> percent(0.95), percent(0.999), percent(0.5214, 1), percent(0.02, 1, signed=True)
    ('95 %', '99.9 %', '52.1 %', '+2.0 %')
    """
    sign = "+" if signed else ""
    return f"{100 * value:{sign}.4g} %" if decimals is None else f"{value:{sign}.{decimals}%}".replace("%", " %")


@dataclass(frozen=True)
class Table:
    """A table with a title; a cell that could not be computed is None. Columns in `right` are aligned right.

    >>> print(Table("pairs", "", ("pair", "p"), (("a over b", 0.25), ("a over c", None)), right=("p",)))
    pair         p
    --------  ----
    a over b  0.25
    a over c     -
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    right: tuple[str, ...] = ()

    def lines(self) -> list[list[str]]:
        """The names of the columns, then the rows, each cell as one line of text."""
        return [[one_line(name) for name in self.columns], *[[_text(cell) for cell in row] for row in self.rows]]

    def to_markdown(self) -> str:
        """A Markdown table under its title, with aligned columns."""
        lines = [[escape(cell) for cell in line] for line in self.lines()]
        widths = [max(3, width) for width in _widths(lines)]
        rules = [
            "-" * (width - 1) + ":" if name in self.right else "-" * width
            for name, width in zip(self.columns, widths, strict=True)
        ]
        rows = [self._pad(lines[0], widths), rules, *[self._pad(line, widths) for line in lines[1:]]]
        title = [f"**{escape(one_line(self.title))}**\n"] if self.title else []
        return "\n".join([*title, *["| " + " | ".join(row) + " |" for row in rows]])

    def __str__(self) -> str:
        lines = self.lines()
        widths = _widths(lines)
        rows = [self._pad(lines[0], widths), ["-" * width for width in widths]]
        rows += [self._pad(line, widths) for line in lines[1:]]
        title = [one_line(self.title)] if self.title else []
        return "\n".join([*title, *["  ".join(row).rstrip() for row in rows]])

    def _pad(self, line: list[str], widths: list[int]) -> list[str]:
        padding = [" " * (width - width_of(cell)) for cell, width in zip(line, widths, strict=True)]
        return [
            space + cell if name in self.right else cell + space
            for name, cell, space in zip(self.columns, line, padding, strict=True)
        ]


def one_line(text: str) -> str:
    """Text on one line: control characters and characters that change the text direction become spaces.

    >>> one_line("two\\nlines and \\x1b[31mred")
    'two lines and  [31mred'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if unicodedata.category(c) in _UNSEEN or c in _REVERSING else c for c in text)


def escape(text: str) -> str:
    """Text with Markdown markup escaped; other characters are unchanged.

    >>> escape("p < 0.01, a|b, snake_case, *<b>*")
    'p < 0.01, a\\\\|b, snake_case, \\\\*&lt;b>\\\\*'
    """
    text = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    text = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)
    return _ACTIVE.sub(lambda match: "\\" + match[0], text)


def width_of(text: str) -> int:
    """The width of text in a terminal: East Asian wide letters take two columns, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(c) in {"Mn", "Me", "Cf"} else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def _widths(lines: list[list[str]]) -> list[int]:
    return [max(width_of(cell) for cell in column) for column in zip(*lines, strict=True)]


def _text(cell: Cell) -> str:
    if cell is None:
        return NOTHING
    return f"{cell:.3g}" if isinstance(cell, float) else one_line(str(cell))
