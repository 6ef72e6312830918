"""What `analyze` hands back: findings that show themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from interleaf.report import frames, html, json_format, markdown, text
from interleaf.report.model import ReportData


class Report(ReportData):
    """A log's answer: `verdict` first, then `health`, `comparisons` and the rest; `print` shows it.

    A number that could not be computed is None, and the `reasons` beside it say why.
    """

    def __str__(self) -> str:
        return text.to_text(self)

    def show(self, file: TextIO | None = None) -> None:
        """Print it: in colour on a terminal, where the extra `report` is installed."""
        text.show(self, file)

    def to_markdown(self) -> str:
        """All of it as Markdown."""
        return markdown.to_markdown(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """All of it as a page with charts, in one file that needs no network; written to `path` if there is one."""
        return html.to_html(self, path)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return json_format.to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """JSON; `Report.from_dict(json.loads(...))` reads it back."""
        return json_format.to_json(self, indent)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """A report from its plain data; what is wrong in it raises a DataError, unknown fields are ignored."""
        return json_format.from_dict(data, cls)

    def to_frame(self) -> pa.Table:
        """The comparisons as an Arrow table, which data frames of every library are made from."""
        return frames.to_frame(self)

    def to_frames(self) -> dict[str, pa.Table]:
        """All tables as Arrow, by name: `comparisons`, `health`, `arms`, `metrics`, `segments` and others."""
        return frames.to_frames(self)

    def _repr_html_(self) -> str:
        return html.to_notebook(self)
