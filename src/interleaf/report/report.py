"""The report that `analyze` returns, with methods that show it in all formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interleaf.report import frames, html, json_format, text
from interleaf.report.model import ReportData


class Report(ReportData):
    """The result of an analysis: `verdict` first, then `health`, `comparisons` and the rest; `print` shows it.

    A number that could not be computed is None, and the `reasons` beside it say why.
    """

    __str__ = text.to_text
    show = text.show
    to_markdown = text.to_markdown
    to_html = html.to_html
    to_dict = json_format.to_dict
    to_json = json_format.to_json
    to_frame = frames.to_frame
    to_frames = frames.to_frames
    _repr_html_ = html.to_notebook

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """Make a report from plain data; invalid data raises a DataError, unknown fields are ignored."""
        return json_format.from_dict(data, cls)
