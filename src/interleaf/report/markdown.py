"""A report as Markdown that also reads well as plain text."""

from __future__ import annotations

import re

from interleaf.report.layout import UNTRUSTED, ReportPage, lay_out
from interleaf.report.model import ReportData
from interleaf.report.sections import Section
from interleaf.tables import escape


def to_markdown(report: ReportData) -> str:
    """The whole report as one Markdown page: the verdict, its health, then the numbers."""
    page = lay_out(report)
    # Sections that consist of a chart only are left out.
    parts = [_section(section) for section in page.sections if section.tables or not section.folded]
    return "\n\n".join([f"# {escape(page.title)}", _verdict(page), " · ".join(page.facts), *parts]) + "\n"


def _verdict(page: ReportPage) -> str:
    """The verdict as a quotation, in bold if it can be trusted; otherwise a bold warning and the reasons come first."""
    if page.tone != UNTRUSTED:
        return f"> **{escape(page.sentence)}**"
    why = [f"> - {_line(reason)}" for reason in page.why]
    return "\n".join([f"> **{page.headline}**", ">", *why, ">", f"> {_line(page.sentence)}"])


def _section(section: Section) -> str:
    parts = [f"## {section.title}", *map(_line, section.words), *[table.to_markdown() for table in section.tables]]
    if section.reasons:
        parts.append("\n".join(f"- {_line(reason)}" for reason in section.reasons))
    return "\n\n".join(parts)


def _line(text: str) -> str:
    """Text at the beginning of a line, escaped so that it is no heading, quotation, list or rule."""
    return re.sub(r"^(\d*)(?=[#>+=.)-])", r"\1\\", escape(text.strip()))
