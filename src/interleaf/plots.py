"""Makes Altair specifications of charts from rows of plain data.

A specification is a plain dictionary, which notebooks, static reports and web pages can draw. Drawing needs the extra
`plots`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interleaf.environment import require

Rows = Sequence[Mapping[str, Any]]

# Colours of medium lightness, which are distinct on white and on black; text takes the colour of the page.
BLUE, ORANGE, GREY = "#3d85d6", "#dd7a1f", "#8b929c"
SERIES = (BLUE, ORANGE, "#2fa37c", "#b565c4", "#a88a1d", "#d65a6a")
WIDTH = 420
_INK = "currentColor"
_STYLE: dict[str, Any] = {
    "aria": False,  # the page has a title and a description of the chart, and a table beside it
    "background": "transparent",
    "view": {"stroke": None},
    "axis": {
        **{f"{part}Color": _INK for part in ("label", "title", "grid", "domain", "tick")},
        **{"gridOpacity": 0.12, "domainOpacity": 0.4, "tickOpacity": 0.4, "labelFontSize": 12, "titleFontSize": 12},
        **{"titleFontWeight": "normal", "labelLimit": 260, "labelFlush": False},
    },
    # The reader's font may be wider than the font with which labels were measured.
    "padding": {"left": 24, "right": 12, "top": 5, "bottom": 5},
}


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
    """Lines of y over x, one per colour, optionally with a band around each and one panel per facet."""
    altair = _altair()
    scale = altair.Scale(type="log" if logarithmic else "linear", nice=False)
    base = _chart(rows).encode(x=altair.X(f"{x}:Q", scale=scale, title=x), color=_colour(rows, colour))
    chart = base.mark_line(point=True).encode(y=altair.Y(f"{y}:Q", title=y, scale=altair.Scale(zero=False)))
    if band is not None:
        around = base.mark_area(opacity=0.15).encode(y=altair.Y(f"{band[0]}:Q", title=y), y2=f"{band[1]}:Q")
        chart = around + chart
    return _panels(chart, rows, facet, title)


def bars(rows: Rows, x: str, y: str, colour: str, title: str, *, facet: str | None = None) -> dict[str, Any]:
    """Bars of y, side by side for each colour."""
    altair = _altair()
    places = {"x": altair.X(f"{x}:N", title=None, sort=None), "xOffset": altair.XOffset(f"{colour}:N", sort=None)}
    chart = _chart(rows).mark_bar().encode(**places, y=altair.Y(f"{y}:Q", title=y), color=_colour(rows, colour))
    return _panels(chart, rows, facet, title)


def points(rows: Rows, x: str, y: str, colour: str, *, level: float) -> dict[str, Any]:
    """Points of y over x, one per row, with a line at a level."""
    altair = _altair()
    order = _order(rows, colour)
    scale = altair.Scale(domain=order, range=list(SERIES[: len(order)]))
    key = altair.Legend(title=None, orient="top", labelColor=_INK, columns=2, symbolOpacity=1)
    marks = _chart(rows).mark_point(filled=True, size=70, opacity=0.8).encode(
        x=altair.X(f"{x}:Q"),
        y=altair.Y(f"{y}:Q", scale=altair.Scale(zero=False)),
        color=altair.Color(f"{colour}:N", scale=scale, legend=key),
    )  # fmt: skip
    return _layers(_rule("level", level).encode(y=altair.Y("level:Q", title=y)), marks, height=260)


def intervals(
    rows: Rows,
    label: str,
    estimate: str,
    ends: tuple[str, str],
    *,
    colour: str | None = None,
    colours: Mapping[str, str] | None = None,
    shapes: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A forest plot: one point with its interval per row."""
    altair = _altair()
    base, shape = _chart(rows).encode(y=_labels(label), color=_paint(colour, colours)), {}
    if colour is not None and shapes is not None:
        scale = altair.Scale(domain=list(shapes), range=list(shapes.values()))
        shape = {"shape": altair.Shape(f"{colour}:N", scale=scale, legend=None)}
    start = altair.X(f"{ends[0]}:Q", title=estimate, axis=altair.Axis(tickCount=5))
    lines = base.mark_rule(strokeWidth=4, opacity=0.55, strokeCap="round").encode(x=start, x2=f"{ends[1]}:Q")
    marks = base.mark_point(filled=True, size=110, opacity=1).encode(x=altair.X(f"{estimate}:Q"), **shape)
    return _layers(_rule("zero", 0).encode(x="zero:Q"), lines, marks, height=altair.Step(_step(rows, label)))


def over_time(
    rows: Rows, time: str, y: str, band: tuple[str, str], *, format: str, limits: tuple[float, float] | None = None
) -> dict[str, Any]:
    """A line over the days in UTC with the band around it, and the line of no difference."""
    altair = _altair()
    scale = altair.Undefined if limits is None else altair.Scale(domain=list(limits), nice=True)
    axis = altair.Axis(title=None, tickCount=6, format=format, labelOverlap=True)
    base = _chart(rows).encode(x=altair.X(f"{time}:T", scale=altair.Scale(type="utc"), axis=axis))
    around = base.mark_area(color=BLUE, opacity=0.22)
    if len({row[time] for row in rows}) == 1:  # an area needs two points
        around = base.mark_rule(color=BLUE, opacity=0.55, strokeWidth=3)
    return _layers(
        around.encode(y=altair.Y(f"{band[0]}:Q", title=y, scale=scale), y2=f"{band[1]}:Q"),
        _rule("zero", 0).encode(y="zero:Q"),
        base.mark_line(color=BLUE, strokeWidth=2.5, point=altair.MarkConfig(color=BLUE)).encode(y=f"{y}:Q"),
        height=200,
    )


def stack_bars(
    rows: Rows, label: str, part: str, number: str, place: str, text: str, *, colours: Mapping[str, str]
) -> dict[str, Any]:
    """One stacked bar per label, with its parts in the order of `place`; `text` is written into each part."""
    altair = _altair()
    lengths = altair.X(f"{number}:Q", stack="normalize", axis=altair.Axis(format="%", title=None, tickCount=5))
    base = _chart(rows).encode(x=lengths, y=_labels(label), order=altair.Order(f"{place}:Q"))
    middle = altair.X(f"{number}:Q", stack="normalize", bandPosition=0.5)
    inside = base.mark_text(fontSize=12, fontWeight="bold", color="#10141a").encode(x=middle, text=f"{text}:N")
    step = _step(rows, label)
    parts = base.mark_bar(size=0.6 * step).encode(color=_paint(part, colours))
    return _layers(parts, inside, height=altair.Step(step))


def areas(rows: Rows, x: str, share: str, part: str, place: str, *, colours: Mapping[str, str]) -> dict[str, Any]:
    """Stacked areas of shares, each until the next x, in the order of `place`; bars, if there is one x only."""
    altair, places = _altair(), sorted({row[x] for row in rows})
    if len(places) > 1:
        end = 2 * places[-1] - places[-2]
        rows = [*rows, *({**row, x: end} for row in rows if row[x] == places[-1])]
    axis = altair.Axis(format="%", title=share)
    base = _chart(rows).encode(
        y=altair.Y(f"{share}:Q", stack="normalize", axis=axis),
        order=altair.Order(f"{place}:Q"),
        color=_paint(part, colours),
    )
    if len(places) == 1:
        return _layers(base.mark_bar().encode(x=altair.X(f"{x}:O")), height=220)
    scale = altair.Scale(nice=False, zero=False)
    across = altair.X(f"{x}:Q", scale=scale, axis=altair.Axis(tickMinStep=1, title=x))
    return _layers(base.mark_area(interpolate="step-after").encode(x=across), height=220)


def heat(
    rows: Rows,
    row: str,
    column: str,
    strength: str,
    text: str,
    *,
    colour: str | None = None,
    colours: Mapping[str, str] | None = None,
    cell: tuple[int, int],
) -> dict[str, Any]:
    """A heat map; stronger cells are less transparent, so that it works on white and on black."""
    altair = _altair()
    order = [*_order(rows, row), *_order(rows, column)]  # the same order of rankers in rows and columns
    plain = {"title": None, "labelLimit": 160, "ticks": False, "domain": False, "labelFontSize": min(12, cell[1] - 5)}
    room = cell[0] / max(len(str(name)) for name in _order(rows, column))
    angle = 0 if room > 10 else -45 if cell[0] >= 40 else -90
    few, across = altair.Axis(**plain), altair.Axis(**plain, orient="top", labelAngle=angle)
    x, y = altair.X(f"{column}:N", sort=order, axis=across), altair.Y(f"{row}:N", sort=order, axis=few)
    base = _chart(rows).encode(x=x, y=y)
    faint = altair.Opacity(f"{strength}:Q", scale=altair.Scale(range=[0.08, 0.95], zero=True), legend=None)
    cells = base.mark_rect(stroke=_INK, strokeOpacity=0.15).encode(color=_paint(colour, colours), opacity=faint)
    words = base.mark_text(color=_INK, fontSize=11 if cell[0] >= 40 else 9).encode(text=f"{text}:N")
    return _layers(cells, words, width=altair.Step(cell[0]), height=altair.Step(cell[1]))


def shares(rows: Rows, x: str, y: str, expected: str, colour: str) -> dict[str, Any]:
    """Bars of shares side by side, each with a tick at the expected share."""
    altair = _altair()
    order = _order(rows, colour)
    base = _chart(rows).encode(
        x=altair.X(f"{x}:O", axis=altair.Axis(title=x, labelAngle=0)), xOffset=altair.XOffset(f"{colour}:N", sort=order)
    )
    fill = _paint(colour, dict(zip(order, SERIES, strict=False)))
    heights = altair.Y(f"{y}:Q", axis=altair.Axis(format="%", title=y))
    ticks = base.mark_tick(color=_INK, thickness=2.5).encode(y=f"{expected}:Q")
    return _layers(base.mark_bar().encode(y=heights, color=fill), ticks, height=200)


def _chart(rows: Rows) -> Any:
    altair = _altair()
    return altair.Chart(altair.Data(values=list(rows)))


def _rule(name: str, value: float) -> Any:
    """A dashed line at a value, such as the line of no difference; `name` is the field of its data."""
    return _chart([{name: value}]).mark_rule(color=_INK, opacity=0.6, strokeDash=[4, 3])


def _panels(chart: Any, rows: Rows, facet: str | None, title: str) -> dict[str, Any]:
    """The finished chart, with one panel per facet if there is one."""
    altair = _altair()
    chart = chart.properties(width=280, height=220)
    if facet is not None:
        chart = chart.facet(column=altair.Column(f"{facet}:N", title=None, sort=_order(rows, facet)))
    return dict(chart.properties(title=title).to_dict())


def _layers(*parts: Any, height: Any, width: Any = WIDTH) -> dict[str, Any]:
    """The finished chart of some layers, the lowest first.

    Altair's check of the whole specification would take a third of the time. A test makes it for the charts of reports.
    """
    chart = _altair().layer(*parts).properties(width=width, height=height)
    return dict(chart.configure(**_STYLE).to_dict(validate=False))


def _labels(field: str) -> Any:
    """Labels down the side, in the order of the rows; each may have several lines."""
    altair = _altair()
    axis = altair.Axis(title=None, labelExpr="split(datum.label, '\\n')", grid=False, ticks=False, domain=False)
    return altair.Y(f"{field}:N", sort=None, axis=axis)


def _step(rows: Rows, label: str) -> int:
    """The height of a row, whose label may have two lines."""
    return 40 if any("\n" in str(row[label]) for row in rows) else 26


def _paint(field: str | None, colours: Mapping[str, str] | None) -> Any:
    """One colour, or one per value; the page draws the legend, so that its text can wrap."""
    altair = _altair()
    if field is None or colours is None:
        return altair.value(BLUE)
    scale = altair.Scale(domain=list(colours), range=list(colours.values()))
    return altair.Color(f"{field}:N", scale=scale, legend=None)


def _colour(rows: Rows, field: str) -> Any:
    """Colours in the order of the rows; the marks of the legend are solid, even if bands are transparent."""
    altair = _altair()
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
    """Raise `MissingExtraError` if charts cannot be drawn here."""
    _altair()
    _converter()


def _altair() -> Any:
    require("plots", "charts need", "altair")
    import altair

    return altair


def _converter() -> Any:
    require("plots", "drawing charts needs", "vl_convert")
    import vl_convert

    return vl_convert
