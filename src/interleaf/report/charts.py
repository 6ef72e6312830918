"""Charts of a report: the rows of each chart as plain data, and the specification that draws them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from interleaf import plots
from interleaf.report.format import MAX_LETTERS, Names, count, format_signed, share
from interleaf.report.layout import MAX_NAMED, OTHERS, share_rows
from interleaf.report.model import Comparison, ReportData
from interleaf.report.sections import Labelled, interval_name, pair_label, pick_furthest, points_shown, select_pairs
from interleaf.stats.compare import Interval

Row = dict[str, Any]

FIRST, SECOND, NEITHER = "the first is preferred", "the second is preferred", "no difference shown"
# The legends of colours. Each colour also has a sign, so that a chart can be read without colours.
FOREST = {FIRST: (plots.BLUE, "▶"), NEITHER: (plots.GREY, "●"), SECOND: (plots.ORANGE, "◀")}
SHAPES = {"▶": "triangle-right", "●": "circle", "◀": "triangle-left"}
OUTCOMES = {
    "wins of the first": (plots.BLUE, "■"),
    "ties": (plots.GREY, "■"),
    "wins of the second": (plots.ORANGE, "■"),
}
MATRIX = {"the row's ranker does better": (plots.BLUE, "■"), "the column's does": (plots.ORANGE, "■")}
INK = "inherit"
MANY = 12  # with so many pairs, labels of two lines take too much room
MAX_WRITTEN = 8  # a matrix with more rankers has no room for numbers
ENDS = ("low", "high", "estimate")
MARGIN = 0.15  # margin of a chart over time, as a share of its scale
SLIVER = 0.08  # a part of a bar below this share is too narrow for its number
# The format of times, by the longest span of a chart for which it is used.
_TIMES = (
    (timedelta(minutes=10), "%H:%M:%S"),
    (timedelta(days=1), "%H:%M"),
    (timedelta(days=4), "%b %-d %H:%M"),
    (timedelta.max, "%b %-d"),
)


@dataclass(frozen=True)
class Chart:
    """A chart: its title, a sentence about it, its specification, and the meaning of its colours and signs."""

    title: str
    described: str
    spec: dict[str, Any]
    key: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def charts(report: ReportData) -> dict[str, list[Chart]]:
    """The charts of each section that has any."""
    names = Names(report.rankers)
    parts: list[tuple[str, list[Row], Callable[[list[Row], ReportData], list[Chart]]]] = [
        ("choice", share_rows(report, names), _choice_shares),
        ("comparisons", forest_rows(report, names), _forest),
        ("lift", examination_rows(report, names), _examination),
        ("over_time", time_rows(report, names), _over_time),
        ("outcomes", outcome_rows(report, names), _outcomes),
        ("standing", matrix_rows(report, names), _matrix),
        ("standing", strength_rows(report, names), _strengths),
        ("slots", slot_rows(report, names), _slots),
        ("segments", segment_rows(report, names), partial(_forest, by=", by segment")),
    ]
    sections: dict[str, list[Chart]] = {}
    for section, rows, draw in parts:
        if rows:
            sections.setdefault(section, []).extend(draw(rows, report))
    return sections


def forest_rows(report: ReportData, names: Names) -> list[Row]:
    """The pairs that are shown and have an estimate, with their intervals."""
    labelled = _label(select_pairs(report), names)
    return [_forest_row(label, pair, names) for label, pair in labelled if pair.estimate is not None]


def segment_rows(report: ReportData, names: Names) -> list[Row]:
    """The same for each value of each attribute."""
    every = [(segment, pair) for segment in report.segments for pair in segment.comparisons]
    return [
        _forest_row(f"{names[segment.attribute]} = {names[segment.value]}\n{pair_label(pair, names)}", pair, names)
        for segment, pair in pick_furthest(every, lambda row: row[1])
        if pair.estimate is not None
    ]


def _forest_row(label: str, pair: Comparison, names: Names) -> Row:
    preferred = {pair.first: FIRST, pair.second: SECOND, None: NEITHER}[pair.winner]
    named = {"label": label, "preferred": preferred, "second": names[pair.second]}
    return named | _interval(pair.estimate, pair.interval)


def time_rows(report: ReportData, names: Names) -> list[Row]:
    """The points over time that have an estimate."""
    return [
        {"time": point.time.isoformat(), "pair": pair_label(point, names), "impressions": point.impressions}
        | _interval(point.estimate, point.interval)
        for point in points_shown(report)
        if point.estimate is not None
    ]


def _interval(estimate: float | None, interval: Interval | None, name: str = "estimate") -> Row:
    low, high = interval or (None, None)
    return {name: estimate, "low": low, "high": high}


def outcome_rows(report: ReportData, names: Names) -> list[Row]:
    """Three rows per pair: how many impressions prefer the first ranker, neither, and the second."""
    rows: list[Row] = []
    for label, pair in _label(select_pairs(report), names):
        numbers = [number for number in (pair.wins, pair.ties, pair.losses) if number is not None]
        if len(numbers) < len(OUTCOMES) or not any(numbers):
            continue
        for place, (outcome, number) in enumerate(zip(OUTCOMES, numbers, strict=True)):
            text = count(number) if number >= SLIVER * sum(numbers) else ""
            named = {"label": label, "second": names[pair.second], "outcome": outcome}
            rows.append({**named, "number": number, "written": text, "place": place})
    return rows


def matrix_rows(report: ReportData, names: Names) -> list[Row]:
    """A row for each ordered pair of rankers, the strongest ranker first; ▲ and ▼ mark significant differences."""
    if report.standing is None:
        return []
    order = [place.ranker for place in report.standing.strengths]
    pairs = {(pair.first, pair.second): pair for pair in report.comparisons}
    rows = []
    for one in order:
        for other in order:
            pair = pairs.get((one, other)) or pairs.get((other, one))
            if pair is None or pair.estimate is None:
                continue
            estimate = pair.estimate if pair.first == one else -pair.estimate
            mark = ("▼" if estimate < 0 else "▲") if pair.winner and estimate else ""
            better = list(MATRIX)[estimate < 0] if estimate else None  # an even pair has no colour
            text = f"{format_signed(estimate)} {mark}".strip() if len(order) <= MAX_WRITTEN else mark
            cell = {"estimate": estimate, "strength": abs(estimate), "better": better, "written": text}
            rows.append({"row": names[one], "column": names[other], **cell})
    return rows


def strength_rows(report: ReportData, names: Names) -> list[Row]:
    """The rankers that have a strength, with its interval."""
    strengths = report.standing.strengths if report.standing is not None else ()
    return [
        {"label": names[place.ranker]} | _interval(place.strength, place.interval, "strength")
        for place in strengths
        if place.strength is not None
    ]


def slot_rows(report: ReportData, names: Names) -> list[Row]:
    """A row for each position and ranker: its share of the position, and the expected share."""
    return [
        {"position": slot.position, "ranker": names[slot.ranker], "share": slot.share, "expected": slot.expected}
        for slot in report.slots
    ]


def examination_rows(report: ReportData, names: Names) -> list[Row]:
    """A row for each rank: how often people look at it, relative to rank 1."""
    return [{"label": f"rank {one.rank}"} | _interval(one.value, one.interval) for one in report.examination]


def _examination(rows: list[Row], report: ReportData) -> list[Chart]:
    spec = plots.intervals(rows, "label", "estimate", ("low", "high"))
    described = "Examination relative to rank 1, with its interval."
    return [Chart("How often people look at a rank", described, spec)]


def _forest(rows: list[Row], report: ReportData, by: str = "") -> list[Chart]:
    described = f"The line is the {interval_name(report)}: if it excludes 0, people prefer one ranker."
    spec = plots.intervals(
        rows, "label", "estimate", ("low", "high"),
        colour="preferred", shapes={name: SHAPES[sign] for name, (_, sign) in FOREST.items()},
        colours=_colours(FOREST),
    )  # fmt: skip
    return [Chart(f"Which ranker people prefer{by}{_over(rows)}", described, spec, FOREST)]


def _choice_shares(rows: list[Row], report: ReportData) -> list[Chart]:
    rankers = list(dict.fromkeys(row["ranker"] for row in rows))
    colours = dict(zip(rankers, [*plots.SERIES[:MAX_NAMED], plots.GREY], strict=False))
    colours |= {OTHERS: plots.GREY} if OTHERS in colours else {}
    spec = plots.areas(rows, "epoch", "share", "ranker", "place", colours=colours)
    key = {ranker: (colour, "■") for ranker, colour in colours.items()}
    return [Chart("Shares over time", "The share of each ranker in the lists of an epoch.", spec, key)]


def _over_time(rows: list[Row], report: ReportData) -> list[Chart]:
    # Early intervals are wide, so the scale fits points with at least a quarter of the impressions; others are cut off.
    late = [row for row in rows if 4 * row["impressions"] >= max(other["impressions"] for other in rows)]
    ends = [row[end] for row in late for end in ENDS if row[end] is not None]
    low, high = min(0.0, *ends), max(0.0, *ends)
    margin = MARGIN * (high - low)  # shows where a cut band continues
    limits = low - margin, high + margin
    times = [datetime.fromisoformat(row["time"]) for row in rows]
    shape = next(shape for most, shape in _TIMES if max(times) - min(times) <= most)
    described = f"The estimate over time, with its {interval_name(report)}."
    panels: dict[str, list[Row]] = {}
    for row in rows:
        cut = {end: min(max(row[end], limits[0]), limits[1]) for end in ENDS if row[end] is not None}
        panels.setdefault(row["pair"], []).append(row | cut)
    return [
        Chart(pair, described, plots.over_time(some, "time", "estimate", ("low", "high"), format=shape, limits=limits))
        for pair, some in panels.items()
    ]


def _outcomes(rows: list[Row], report: ReportData) -> list[Chart]:
    spec = plots.stack_bars(rows, "label", "outcome", "number", "place", "written", colours=_colours(OUTCOMES))
    words = f"Which ranker of the pair they prefer{report.comparisons[0].by_owners}."
    return [Chart(f"Impressions with an event{_over(rows)}", words, spec, OUTCOMES)]


def _matrix(rows: list[Row], report: ReportData) -> list[Chart]:
    rankers = len({row["row"] for row in rows})
    side = 64 if rankers <= MAX_WRITTEN else max(16, 600 // rankers)
    style: dict[str, Any] = {"colour": "better", "colours": _colours(MATRIX), "cell": (side, side)}
    spec = plots.heat(rows, "row", "column", "strength", "written", **style)
    marked = f"with {100 * report.confidence:g} % confidence, corrected for all pairs, as in the verdict"
    key = {**MATRIX, f"the row's ranker is preferred {marked}": (INK, "▲"), "the column's is": (INK, "▼")}
    return [Chart("Each ranker against each other", "The stronger the colour, the larger the difference.", spec, key)]


def _strengths(rows: list[Row], report: ReportData) -> list[Chart]:
    spec = plots.intervals(rows, "label", "strength", ("low", "high"))
    return [Chart("Strength of each ranker", "Bradley-Terry strengths with their intervals; higher is stronger.", spec)]


def _slots(rows: list[Row], report: ReportData) -> list[Chart]:
    title = "Share of each ranker by position"
    rankers = list(dict.fromkeys(row["ranker"] for row in rows))
    if len(rankers) <= len(plots.SERIES):
        spec = plots.shares(rows, "position", "share", "expected", "ranker")
        key = {ranker: (colour, "■") for ranker, colour in zip(rankers, plots.SERIES, strict=False)}
        return [Chart(title, "Each bar should end at its tick, the expected share.", spec, key)]
    cells = [{**row, "position": str(row["position"]), "written": share(row["share"])} for row in rows]
    spec = plots.heat(cells, "ranker", "position", "share", "written", cell=(48, 20))
    return [Chart(title, "The stronger the colour, the larger the share; each column should have one colour.", spec)]


def _colours(key: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    return {meaning: colour for meaning, (colour, _) in key.items()}


def _over(rows: list[Row]) -> str:
    """The ranker that all rows are compared with, if it is the same one."""
    seconds = {row["second"] for row in rows}
    return f", over {seconds.pop()}" if len(seconds) == 1 else ""


def _label(pairs: Sequence[Comparison], names: Names) -> list[Labelled]:
    """Labels: the first ranker if all pairs have the same second one, else both, on two lines unless there are many."""
    if len({pair.second for pair in pairs}) == 1:
        return [(names[pair.first], pair) for pair in pairs]
    whole = [(pair_label(pair, names), pair) for pair in pairs]
    if len(pairs) > MANY and max(len(label) for label, _ in whole) <= MAX_LETTERS:
        return whole
    return [(f"{names[pair.first]}\nover {names[pair.second]}", pair) for pair in pairs]
