"""What a reproduced study hands back: tables with our figures beside the published ones, charts, and what it ran on."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Cell = str | int | float | None
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Table:
    """A table with a title; a cell that could not be computed is None."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def to_markdown(self) -> str:
        """A Markdown table under its title."""
        lines = [self.columns, ["---"] * len(self.columns), *[[_cell(cell) for cell in row] for row in self.rows]]
        return f"**{self.title}**\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def __str__(self) -> str:
        cells = [list(self.columns), *[[_cell(cell) for cell in row] for row in self.rows]]
        widths = [max(len(line[column]) for line in cells) for column in range(len(self.columns))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
        ]
        return "\n".join([self.title, lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


@dataclass(frozen=True)
class Study:
    """A published study, run again: on which data, at which scale, with what result."""

    name: str
    title: str
    data: str
    scale: str
    tables: tuple[Table, ...]
    charts: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        head = f"{self.title}\ndata: {self.data}; scale: {self.scale}"
        return "\n\n".join([head, *map(str, self.tables), *self.notes])

    def to_markdown(self) -> str:
        """The whole study as one Markdown page."""
        parts = [f"# {self.title}", f"Data: {self.data}. Scale: {self.scale}.", *[t.to_markdown() for t in self.tables]]
        return "\n\n".join([*parts, *self.notes]) + "\n"

    def write(self, folder: Path) -> list[Path]:
        """Tables as CSV and Markdown, charts as PNG and SVG; each file is renamed into place when it is whole."""
        folder.mkdir(parents=True, exist_ok=True)
        written = [_put(folder / f"{self.name}.md", self.to_markdown().encode())]
        written += [_put(folder / f"{self.name}-{table.name}.csv", _csv(table)) for table in self.tables]
        for name, chart in self.charts.items():
            from interleaf import plots

            written.append(_put(folder / f"{self.name}-{name}.svg", plots.to_svg(chart).encode()))
            written.append(_put(folder / f"{self.name}-{name}.png", plots.to_png(chart)))
            written.append(_put(folder / f"{self.name}-{name}.json", json.dumps(chart).encode()))
        return written


def _put(path: Path, content: bytes) -> Path:
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_bytes(content)
    return unfinished.replace(path)


def _csv(table: Table) -> bytes:
    from io import StringIO

    text = StringIO()
    writer = csv.writer(text)
    writer.writerows([table.columns, *table.rows])
    return text.getvalue().encode()


def _cell(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)
