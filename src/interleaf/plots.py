"""Charts: rows of plain data in, an Altair specification out; nothing is computed here.

A specification is a plain dictionary: the same object in a notebook, in a static report and on a page. Drawing needs
the extra: pip install 'interleaf[plots]'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interleaf.errors import InterleafError

Rows = Sequence[Mapping[str, Any]]


def lines(
    rows: Rows,
    x: str,
    y: str,
    colour: str,
    title: str,
    *,
    facet: str | None = None,
    band: tuple[str, str] | None = None,
    logarithmic: bool = True,
) -> dict[str, Any]:
    """Lines of y over x, one a colour, with a band around each and a panel a facet where asked."""
    altair = _altair()
    scale = altair.Scale(type="log" if logarithmic else "linear", nice=False)
    base = altair.Chart(altair.Data(values=list(rows))).encode(
        x=altair.X(f"{x}:Q", scale=scale, title=x), color=_colour(altair, rows, colour)
    )
    drawn = base.mark_line(point=True).encode(y=altair.Y(f"{y}:Q", title=y, scale=altair.Scale(zero=False)))
    if band is not None:
        around = base.mark_area(opacity=0.15).encode(y=altair.Y(f"{band[0]}:Q", title=y), y2=f"{band[1]}:Q")
        drawn = around + drawn
    drawn = drawn.properties(width=280, height=220)
    if facet is not None:
        drawn = drawn.facet(column=altair.Column(f"{facet}:N", title=None, sort=_order(rows, facet)))
    return dict(drawn.properties(title=title).to_dict())


def bars(rows: Rows, x: str, y: str, colour: str, title: str, *, facet: str | None = None) -> dict[str, Any]:
    """Bars of y, side by side for each colour."""
    altair = _altair()
    drawn = (
        altair.Chart(altair.Data(values=list(rows)))
        .mark_bar()
        .encode(
            x=altair.X(f"{x}:N", title=None, sort=None),
            xOffset=altair.XOffset(f"{colour}:N", sort=None),
            y=altair.Y(f"{y}:Q", title=y),
            color=_colour(altair, rows, colour),
        )
        .properties(width=280, height=220)
    )
    if facet is not None:
        drawn = drawn.facet(column=altair.Column(f"{facet}:N", title=None, sort=_order(rows, facet)))
    return dict(drawn.properties(title=title).to_dict())


def _colour(altair: Any, rows: Rows, field: str) -> Any:
    """Colours in the order of the rows; the legend's marks are solid, whatever the bands are."""
    legend = altair.Legend(symbolOpacity=1)
    return altair.Color(f"{field}:N", title=field, sort=_order(rows, field), legend=legend)


def _order(rows: Rows, field: str) -> list[Any]:
    return list(dict.fromkeys(row[field] for row in rows))


def to_svg(chart: Mapping[str, Any]) -> str:
    """Draw without a browser or a network."""
    return str(_converter().vegalite_to_svg(dict(chart)))


def to_png(chart: Mapping[str, Any]) -> bytes:
    """Draw without a browser or a network, twice the size for sharp screens."""
    return bytes(_converter().vegalite_to_png(dict(chart), scale=2))


def check_drawing() -> None:
    """Whether charts can be made and drawn here; an error with the pip command if not."""
    _altair()
    _converter()


def _altair() -> Any:
    try:
        import altair
    except ImportError:
        raise InterleafError("charts need altair; pip install 'interleaf[plots]'") from None
    return altair


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise InterleafError("drawing charts needs vl-convert; pip install 'interleaf[plots]'") from None
    return vl_convert
