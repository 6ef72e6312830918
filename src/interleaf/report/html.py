"""A report as one HTML file without scripts, external files or fonts, for screens (light or dark), phones and print."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from interleaf import plots
from interleaf.environment import require
from interleaf.errors import DataError, InterleafError, MissingExtraError
from interleaf.report.charts import Chart, charts
from interleaf.report.layout import STATUS_OF_MARK, lay_out
from interleaf.report.model import ReportData
from interleaf.report.text import to_text

WIDE = 640  # pixels: a chart of this width is too wide for half a page or a phone
NO_CHARTS = "This page has no charts: interleaf's extra `plots` was not installed where it was made."


def templates(*places: tuple[str, str], finalize: Callable[[Any], Any] | None = None) -> Any:
    """An environment of templates that escape every value, from folders of packages and the shared folder."""
    require("report", "an HTML page needs", "jinja2")
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(*place) for place in (*places, ("interleaf.report", "templates"))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize or avoid_breaks,
    )


def to_html(report: ReportData, path: str | Path | None = None) -> str:
    """The whole report as one HTML page that needs no network; written to `path` if it is given.

    It has charts if the extra `plots` is installed.
    """
    template = templates().get_template("page.html")
    from markupsafe import Markup

    drawings, missing = {}, ""
    try:
        plots.check_drawing()
        drawings = {name: [_inline(chart) for chart in some] for name, some in charts(report).items()}
    except MissingExtraError:
        missing = NO_CHARTS
    sheet = files("interleaf.report").joinpath("templates", "page.css").read_text("utf-8")
    page = lay_out(report)
    html: str = template.render(
        page=page,
        # Sections that consist of a chart only are left out.
        sections=[part for part in page.sections if part.tables or not part.folded or part.name in drawings],
        charts=drawings,
        missing=missing,
        marks=STATUS_OF_MARK,
        sheet=Markup(sheet),
    )
    try:
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot write the page {path}: {error.strerror}; give a path that can be written") from None
    return html


def to_notebook(report: ReportData) -> str:
    """The page in an iframe, so that its style does not affect the notebook; plain text if no page can be made."""
    from html import escape

    try:
        page = to_html(report)
    except InterleafError:
        return f"<pre>{escape(to_text(report))}</pre>"
    style = "width:100%;height:46rem;border:1px solid #8886;border-radius:8px"
    return f'<iframe sandbox title="report" style="{style}" srcdoc="{escape(page)}"></iframe>'


def _inline(chart: Chart) -> dict[str, Any]:
    """A chart as SVG that scales with the page and has a label for screen readers; wide charts get their own row."""
    from markupsafe import Markup, escape

    svg = plots.to_svg(chart.spec)
    width, height = re.findall(r'(?:width|height)="(\d+(?:\.\d+)?)"', svg)[:2]
    label = escape(f"{chart.title}. {chart.described}")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" viewBox="0 0 {width} {height}" '
        f'style="max-width:{1.25 * float(width):.0f}px"><title>{escape(chart.title)}</title>'
    )
    drawing = Markup(re.sub(r"^<svg[^>]*>", lambda _: head, svg, count=1))
    return {"chart": chart, "svg": drawing, "wide": float(width) > WIDE}


def avoid_breaks(value: Any) -> Any:
    """Text without line breaks between a number and its percent sign."""
    return value.replace(" %", "\u00a0%") if isinstance(value, str) else value
