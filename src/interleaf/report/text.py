"""A report in a terminal: verdict, checks that are not fine, and comparisons, in colour if rich is installed.

The whole report as Markdown.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from typing import Any, TextIO

from interleaf.report.layout import (
    EVEN,
    GREY,
    GUARDRAIL_MARKS,
    HARMFUL,
    MARKS,
    SPLIT,
    UNTRUSTED,
    WINNER,
    ReportPage,
    lay_out,
)
from interleaf.report.model import FAILED, OK, SKIPPED, WARNING, GuardrailCode, ReportData
from interleaf.report.sections import Section
from interleaf.tables import Table, escape

COLOURS = {
    WINNER: "green",
    EVEN: "blue",
    SPLIT: "yellow",
    HARMFUL: "red",
    UNTRUSTED: "red",
    MARKS[FAILED]: "bold red",
    MARKS[WARNING]: "yellow",
    MARKS[OK]: "green",
    MARKS[SKIPPED]: "dim",
    GUARDRAIL_MARKS[GuardrailCode.BROKEN]: "bold red",
}


def to_text(report: ReportData) -> str:
    """The report in brief, as plain text."""
    page = lay_out(report, brief=True)
    parts = [page.title, *_verdict(page), ", ".join(page.facts)]
    for section in page.sections:
        parts += [*section.words, *map(str, section.tables), "\n".join(section.reasons)]
    return "\n\n".join(part for part in parts if part)


def show(report: ReportData, file: TextIO | None = None) -> None:
    """Print the report in brief: in colour on a terminal if the extra `report` is installed, else as plain text."""
    file = sys.stdout if file is None else file
    encoding = file.encoding or "utf-8"
    if file.isatty() and encoding.lower().startswith("utf") and find_spec("rich"):
        from rich.console import Console

        _show_in_colour(lay_out(report, brief=True), Console(file=file))
    else:
        # A terminal that cannot show the marks shows question marks; the words beside them have the same meaning.
        file.write(to_text(report).encode(encoding, "replace").decode(encoding) + "\n")


def _verdict(page: ReportPage) -> list[str]:
    """The sentence of the verdict; before it, if nobody should act on it yet, a warning and the reasons."""
    warning = ["\n".join([page.headline, *[f"  {reason}" for reason in page.why]])] if page.tone in GREY else []
    return [*warning, page.sentence]


def _show_in_colour(page: ReportPage, console: Any) -> None:
    """The same sections as in the plain text; names are never read as markup."""
    from rich.panel import Panel
    from rich.text import Text

    verdict = Text("\n\n".join(_verdict(page)), style="dim" if page.tone in GREY else "bold")
    if page.tone in GREY:
        verdict.stylize("not dim bold red", 0, len(page.headline))
    console.print(Text(page.title, style="bold"))
    console.print(Panel(verdict, border_style=COLOURS[page.tone]))
    console.print(Text(", ".join(page.facts), style="dim"))
    for section in page.sections:
        for words in section.words:
            line = Text(words)
            for mark in MARKS.values():
                line.stylize(COLOURS[mark], 0, len(mark) if words.startswith(mark) else 0)
            console.print(line)
        for table in section.tables:
            console.print(*([Text(table.title, style="bold"), "\n"] if table.title else []), _rich_table(table), sep="")
        for reason in section.reasons:
            console.print(Text(reason, style="dim"))


def _rich_table(table: Table) -> Any:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    rich_table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    columns, *rows = table.lines()
    for name in columns:
        rich_table.add_column(Text(name), justify="right" if name in table.right else "left", overflow="fold")
    for row in rows:
        rich_table.add_row(*[Text(cell, style=COLOURS.get(cell, "")) for cell in row])
    return rich_table


def to_markdown(report: ReportData) -> str:
    """The whole report as one Markdown page: the verdict, its health, then the numbers."""
    page = lay_out(report)
    # Sections that consist of a chart only are left out.
    parts = [_section(section) for section in page.sections if section.tables or not section.folded]
    return "\n\n".join([f"# {escape(page.title)}", _quoted_verdict(page), " · ".join(page.facts), *parts]) + "\n"


def _quoted_verdict(page: ReportPage) -> str:
    """The verdict as a quotation, in bold if one can act on it; otherwise a bold warning and the reasons come first."""
    if page.tone not in GREY:
        return f"> **{escape(page.sentence)}**"
    why = [f"> - {_line(reason)}" for reason in page.why]
    return "\n".join([f"> **{page.headline}**", ">", *why, ">", f"> {_line(page.sentence)}"])


def _section(section: Section) -> str:
    parts = [f"## {section.title}", *map(_line, section.words), *[table.to_markdown() for table in section.tables]]
    if section.reasons:
        parts.append("\n".join(f"- {_line(reason)}" for reason in section.reasons))
    return "\n\n".join(parts)


def _line(text: str) -> str:
    """Text at the beginning of a line, escaped so that it is not a heading, quotation, list or rule."""
    return re.sub(r"^(\d*)(?=[#>+=.)-])", r"\1\\", escape(text.strip()))
