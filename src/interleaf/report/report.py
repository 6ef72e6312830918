"""The report that `analyze` returns, with methods that show it in all formats."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from interleaf.report import frames, html, json_format, markdown, text
from interleaf.report.model import ReportData


class Report(ReportData):
    """The result of an analysis: `verdict` first, then `health`, `comparisons` and the rest; `print` shows it.

    A number that could not be computed is None, and the `reasons` beside it say why.
    """

    def __str__(self) -> str:
        return text.to_text(self)

    def show(self, file: TextIO | None = None) -> None:
        """Print the report, in colour on a terminal if the extra `report` is installed."""
        text.show(self, file)

    def to_markdown(self) -> str:
        """The whole report as Markdown."""
        return markdown.to_markdown(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """The whole report as one HTML page with charts that needs no network; written to `path` if it is given."""
        return html.to_html(self, path)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, which can be written as JSON."""
        return json_format.to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """The report as JSON; `Report.from_dict(json.loads(...))` reads it back."""
        return json_format.to_json(self, indent)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """Make a report from plain data; invalid data raises a DataError, unknown fields are ignored."""
        return json_format.from_dict(data, cls)

    def to_frame(self) -> pa.Table:
        """The comparisons as an Arrow table, which every data frame library can read."""
        return frames.to_frame(self)

    def to_frames(self) -> dict[str, pa.Table]:
        """All tables as Arrow tables by name: `comparisons`, `health`, `arms`, `metrics`, `segments` and others."""
        return frames.to_frames(self)

    def _repr_html_(self) -> str:
        return html.to_notebook(self)
