"""What a reproduced study hands back: tables with our figures beside the published ones, charts, and what it ran on."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interleaf.tables import Cell, Table

__all__ = ["Cell", "Progress", "Study", "Table"]

Progress = Callable[[int, int], None]


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
