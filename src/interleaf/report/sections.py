"""The sections of a report with numbers: each has sentences, tables, and the reasons for missing numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from interleaf.methods.registry import DRAFTED, ONE_LIST, resolve
from interleaf.report import model
from interleaf.report.format import Names, count, format_signed, moment, probability, several, share, span
from interleaf.report.model import Comparison, Lift, Point, ReportData, Segment, SegmentComparison
from interleaf.tables import Table, percent

MAX_ROWS = 40
MAX_FOLLOWED = 6  # pairs over time
MAX_LIFTS = 10  # sentences of a brief report

Thing = TypeVar("Thing")
Labelled = tuple[str, Comparison]


def interval_name(report: ReportData) -> str:
    """The name of the report's intervals, which depends on its rule."""
    level = percent(report.confidence)
    if report.look is None:
        return f"{level} anytime interval"
    which, of = report.look
    return f"{level} interval" if of == 1 else f"{level} interval at look {which} of {of}"


def select_pairs(report: ReportData) -> tuple[Comparison, ...]:
    """The pairs to show: all; if too many, those with the control, or those furthest from 0 in standard errors."""
    every = report.comparisons
    if len(every) > MAX_ROWS and report.control is not None:
        every = tuple(pair for pair in every if report.control in (pair.first, pair.second)) or every
    return pick_furthest(every, lambda pair: pair)


def pick_furthest(things: Sequence[Thing], comparison_of: Callable[[Thing], Comparison]) -> tuple[Thing, ...]:
    """The rows of a table, in their order: those whose comparisons are furthest from zero, up to the table's limit."""

    def errors_from_zero(number: int) -> float:
        pair = comparison_of(things[number])
        return abs(pair.estimate) / pair.error if pair.estimate is not None and pair.error else 0.0

    furthest = sorted(range(len(things)), key=errors_from_zero, reverse=True)[:MAX_ROWS]
    return tuple(things[number] for number in sorted(furthest))


def points_shown(report: ReportData) -> tuple[Point, ...]:
    """The points over time of the pairs that are shown first."""
    pairs = {(pair.first, pair.second) for pair in select_pairs(report)[:MAX_FOLLOWED]}
    return tuple(point for point in report.over_time if (point.first, point.second) in pairs)


def say_left_out(where: str, some: int, every: int, what: str) -> tuple[str, ...]:
    """A sentence that says how many are not shown, if any."""
    if some == every:
        return ()
    return (f"{where} {some:,} of {every:,} {what}; the other {every - some:,} are in the JSON form.",)


def comparison_grid(
    report: ReportData, table: str, name: str, title: str, rows: Sequence[Labelled], drop_empty: bool = False
) -> Grid:
    """The columns of one table, a row per comparison under its label."""
    units = report.comparisons[0].unit_sign_test_of if report.comparisons else "units"
    counted = report.comparisons[0].by_owners if report.comparisons else ""
    columns = model.columns_of(SegmentComparison if table == model.BY_SEGMENT else Comparison, table)
    titles = [column.title.format(interval=interval_name(report), units=units, counted=counted) for column in columns]
    grid = Grid(name, title, ["comparison"], titles, drop_empty)
    for label, pair in rows:
        reasons = {
            text: next((pair.reasons[name] for name in column.names if name in pair.reasons), "")
            for text, column in zip(titles, columns, strict=True)
        }
        grid.add(label, label, *[column.cell(pair) for column in columns], reasons=reasons)
    return grid


def pair_label(pair: Comparison | Point, names: Names) -> str:
    """`candidate over control`."""
    return f"{names[pair.first]} over {names[pair.second]}"


UNKNOWN = "it could not be computed from this data"

Value = TypeVar("Value")


Missing = tuple[str, str, str]  # the row and the column of a cell that is None, and why it is


class Grid:
    """Rows of text under a label; the first columns are words, those in `figures` are numbers.

    >>> grid = Grid("slots", "", ("position",), ("share", "p"))
    >>> grid.add("position 1", "1", "50 %", None, reasons={"p": "one coin"})
    >>> grid.table().rows, grid.missing
    ((('1', '50 %', None),), [('position 1', 'p', 'one coin')])
    """

    def __init__(
        self, name: str, title: str, words: Iterable[str], figures: Iterable[str], drop_empty: bool = False
    ) -> None:
        self.name, self.title, self.drop_empty = name, title, drop_empty
        self.figures = tuple(figures)
        self.columns = (*words, *self.figures)
        self.rows: list[tuple[str | None, ...]] = []
        self.missing: list[Missing] = []

    def add(self, label: str, *cells: str | None, reasons: Mapping[str, str] | None = None, reason: str = "") -> None:
        """Add a row; `reasons` say why a cell is None, by column, and `reason` is for all others."""
        self.rows.append(cells)
        for column, cell in zip(self.columns, cells, strict=True):
            if cell is None:
                self.missing.append((label, column, (reasons or {}).get(column) or reason or UNKNOWN))

    def table(self) -> Table:
        """The table, with numbers aligned right; with `drop_empty`, without empty columns, whose reasons stay."""
        columns = list(zip(self.columns, *self.rows, strict=True))
        if self.drop_empty:
            columns = [column for column in columns if any(cell is not None for cell in column[1:])]
        titles, *rows = zip(*columns, strict=True)
        return Table(self.name, self.title, titles, tuple(rows), right=self.figures)


def write(form: Callable[[Value], str], value: Value | None) -> str | None:
    """The value as it is written; None stays None."""
    return None if value is None else form(value)


def explain_missing(missing: Iterable[Missing]) -> tuple[str, ...]:
    """Every reason once, with the columns and rows that it explains.

    >>> explain_missing([("a over b", "p", "one unit"), ("a over b", "interval", "one unit")])
    ('No p, interval for a over b: one unit.',)
    """
    rows: dict[tuple[str, str], list[str]] = {}
    for row, column, reason in missing:
        rows.setdefault((reason, column), []).append(row)
    columns: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (reason, column), labels in rows.items():
        columns.setdefault((reason, tuple(labels)), []).append(column)
    return tuple(
        f"No {', '.join(titles)} for {several(labels)}: {reason.rstrip('.')}."
        for (reason, labels), titles in columns.items()
    )


@dataclass(frozen=True)
class Section:
    """A section of the page: sentences, then tables, then the reasons for missing numbers.

    `folded`: its tables may be folded. `closed`: the whole section is folded until the reader opens it.
    """

    name: str
    title: str
    words: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    reasons: tuple[str, ...] = ()
    folded: bool = False
    closed: bool = False


def _section(name: str, title: str, words: tuple[str, ...], grids: list[Grid], names: Names, folded: bool) -> Section:
    reasons = explain_missing(missing for grid in grids for missing in grid.missing)
    tables = tuple(grid.table() for grid in grids)
    return Section(name, title, words, tables, tuple(map(names.within, reasons)), folded)


def comparisons(report: ReportData, names: Names, brief: bool = False) -> Section:
    """The table of comparisons; in brief, as much of it as fits a terminal."""
    pairs = _brief_pairs(report) if brief else select_pairs(report)
    rows = [(pair_label(pair, names), pair) for pair in pairs]
    if not rows:
        return Section("comparisons", "Comparisons", ("Nothing was compared.",))
    words = say_left_out("Shown are", len(rows), len(report.comparisons), "comparisons")
    grid = comparison_grid(report, model.BRIEF if brief else model.MAIN, "comparisons", "", rows)
    return _section("comparisons", "Comparisons", words, [grid], names, folded=False)


def _brief_pairs(report: ReportData) -> tuple[Comparison, ...]:
    """The pairs of a brief report: of many rankers only those with the control, or else with the leader."""
    pairs = select_pairs(report)
    if report.standing is None:
        return pairs
    centre = report.control or report.standing.strengths[0].ranker
    return tuple(pair for pair in report.comparisons if centre in (pair.first, pair.second))[:MAX_ROWS] or pairs


def say_lift(lift: Lift, report: ReportData, names: Names) -> str:
    """The lift in a sentence, such as "If candidate were live: +2.1 % clicks per search (95 %: +0.4 to +3.8)"."""
    what, first, second = _events_word(report), names[lift.first], names[lift.second]
    if lift.lift is None or lift.interval is None:
        return f"How many more {what} {first} would get than {second} if it were live is not known: {lift.reason}."
    low, high = lift.interval
    level = percent(report.confidence)
    sentence = f"If {first} were live in place of {second}: {percent(lift.lift, 1, signed=True)} {what} per search "
    sentence += f"({level}: {100 * low:+.1f} to {100 * high:+.1f})."
    if lift.bounds is not None:
        low, high = lift.bounds
        sentence += (
            f" Some documents of {first}'s own list were never shown; depending on clicks on them, the change is "
            f"{100 * low:+.1f} to {percent(high, 1, signed=True)}."
        )
    winner = report.verdict.winner
    if winner is None or not report.verdict.trusted or not lift.is_loss_of(winner):
        return sentence
    if report.method == ONE_LIST:
        sentence += " This contradicts the A/B test. Rely on the A/B test; the lift is a model estimate."
    else:
        sentence += (
            f" In interleaved lists people prefer the documents of {names[winner]}, but its own list would get fewer "
            f"{what}. Both can be true; an A/B test measures whole lists."
        )
    return sentence


def _events_word(report: ReportData) -> str:
    return "clicks" if report.events == "click" else "events"


def lift(report: ReportData, names: Names, brief: bool = False) -> Section | None:
    """What a ranker would be worth if it were live, and how often people look at each rank."""
    if not report.lifts:
        return None
    what = _events_word(report)
    if brief:
        pairs = {(pair.first, pair.second) for pair in _brief_pairs(report)}
        some = [one for one in report.lifts if (one.first, one.second) in pairs]
        computed = [one for one in some if one.lift is not None][:MAX_LIFTS]
        return Section("lift", "Lift", tuple(say_lift(one, report, names) for one in computed or some[:1]))
    words = [say_lift(one, report, names) for one in report.lifts[:1] if len(report.lifts) == 1]
    if words and report.lifts[0].lift is None and not report.examination:
        return Section("lift", "Lift", tuple(words))
    if any(one.lift is not None for one in report.lifts):
        others = "people see it on average" if report.method == ONE_LIST else "the interleaved lists show it"
        words.append(
            "This is computed from the same clicks. A click counts more if the document is higher in the ranker's own "
            f"list than {others}. It assumes that people look at a rank equally often whatever is shown above it; "
            "people who stop when they are satisfied make it inexact. Intervals hold for one look, and are not "
            "corrected for several pairs. The verdict does not depend on these numbers."
        )
    columns = ("lift", "interval", "bounds", f"{what} of the first", "of the second", "unseen of the first")
    grid = Grid("lift", "", ["comparison"], (*columns, "unseen of the second"), drop_empty=True)
    for one in report.lifts[:MAX_ROWS]:
        label = f"{names[one.first]} over {names[one.second]}"
        per_search = (write(lambda value: f"{value:.3f}", value) for value in (one.clicks_first, one.clicks_second))
        unseen = (write(share, value) for value in (one.unseen_first, one.unseen_second))
        spans = (write(_percent_span, value) for value in (one.interval, one.bounds))
        whole = {"bounds": "the lists show nearly all of it"} if one.lift is not None else {}
        cells = write(lambda value: percent(value, 1, signed=True), one.lift), *spans, *per_search, *unseen
        grid.add(label, label, *cells, reasons=whole, reason=one.reason)
    curve = Grid("examination", "How often people look at a rank", ["rank"], ("examination", "interval", "clicks"))
    for point in report.examination:
        figures = f"{point.value:.3f}", write(lambda ends: f"{ends[0]:.3f} to {ends[1]:.3f}", point.interval)
        reason = "examination is relative to rank 1, so it is 1 there" if point.rank == 1 else "it was given"
        curve.add(f"rank {point.rank}", str(point.rank), *figures, count(point.clicks), reason=reason)
    if report.examination:
        words.append(
            "Examination is relative to rank 1. It is measured from documents that chance shows at one of two "
            "neighbouring ranks."
        )
        guesses = [str(point.rank) for point in report.examination if not point.is_measured]
        if guesses:
            words.append(f"Too few clicks for rank {', '.join(guesses)}: the decline of the ranks nearby is used.")
    grids = [grid, curve] if report.examination else [grid]
    words += say_left_out("Shown are", len(grid.rows), len(report.lifts), "comparisons")
    return _section("lift", "Lift", tuple(words), grids, names, folded=False)


def _percent_span(interval: tuple[float, float]) -> str:
    return f"{100 * interval[0]:+.1f} to {percent(interval[1], 1, signed=True)}"


def other_tests(report: ReportData, names: Names) -> Section | None:
    """Other tests of the same pairs."""
    rows = [(pair_label(pair, names), pair) for pair in select_pairs(report)]
    if not rows:
        return None
    grid = comparison_grid(report, model.OTHER, "tests", "", rows, drop_empty=True)
    return _section("tests", "Other tests of the same pairs", (), [grid], names, folded=True)


def over_time(report: ReportData, names: Names) -> Section | None:
    """The comparisons at several points in time."""
    if not report.over_time:
        return None
    points = points_shown(report)
    pairs, every = len({(point.first, point.second) for point in points}), len(report.comparisons)
    grid = Grid("over_time", "", ("time (UTC)", "comparison"), ("estimate", interval_name(report), "impressions"))
    for point in sorted(points, key=lambda point: point.time)[-MAX_ROWS:]:
        pair, time = pair_label(point, names), moment(point.time)
        figures = write(format_signed, point.estimate), write(span, point.interval)
        grid.add(f"{pair} at {time}", time, pair, *figures, count(point.impressions))
    words = (
        "The estimate at each time, with its anytime interval, which is valid even if you check repeatedly."
        if report.look is None
        else "The estimate at each time. Only the planned look has an interval.",
        *([f"The first {pairs:,} of {every:,} comparisons are shown."] if pairs < every else []),
    )
    section = _section("over_time", "Over time", words, [grid], names, folded=True)
    left_out = say_left_out("The table has the last", len(grid.rows), len(points), "points")
    return replace(section, reasons=(*left_out, *section.reasons))


def outcomes(report: ReportData, names: Names) -> Section | None:
    """A chart only: the counts are in the table of comparisons."""
    if all(None in (pair.wins, pair.losses, pair.ties) for pair in report.comparisons):
        return None
    return Section("outcomes", f"Wins, ties, losses{report.comparisons[0].by_owners}", folded=True)


def standing(report: ReportData, names: Names) -> Section | None:
    """The leaderboard of many rankers: how many others each one beats, its strength, and every cycle."""
    if report.standing is None:
        return None
    words = [
        "Beats, loses to and undecided count the other rankers, corrected for all pairs together. "
        "Strength puts all rankers on one scale, on which their mean is 0."
    ]
    for cycle in report.standing.cycles:
        steps = zip(cycle, (*cycle[1:], cycle[0]), strict=True)
        words.append(f"A cycle: {', '.join(f'{names[one]} over {names[other]}' for one, other in steps)}.")
    if resolve(report.method).method.owners_given_list == DRAFTED:
        words.append(
            f"The lists were drawn by {report.method}. With many rankers, pairwise_preference made fewer errors in a "
            "study (O17) and in our own run of it: consider it for the next experiment."
        )
    grid = Grid("standing", "", ["ranker"], ("beats", "loses to", "undecided", "strength", "interval"))
    reasons = report.standing.reasons
    wins = Counter(pair.winner for pair in report.comparisons)
    losses = Counter(pair.loser for pair in report.comparisons)
    for place in report.standing.strengths:
        name, won, lost = names[place.ranker], wins[place.ranker], losses[place.ranker]
        counts = map(count, (won, lost, len(report.rankers) - 1 - won - lost))
        figures = *counts, write(format_signed, place.strength), write(span, place.interval)
        # Without a strength, there is no interval either.
        grid.add(name, name, *figures, reasons=reasons, reason=reasons.get("strength", ""))
    return _section("standing", "Leaderboard", tuple(words), [grid], names, folded=False)


def activity(report: ReportData, names: Names) -> Section | None:
    """Heavy and light users, and their mean scores."""
    if len(report.activity) < 2:
        return None
    grid = Grid("activity", "", ["searches of a unit"], ("units", "share of units", "share of searches", "mean score"))
    for row in report.activity:
        figures = count(row.units), share(row.share_of_units), share(row.share_of_searches)
        grid.add(
            row.searches, row.searches, *figures, write(format_signed, row.estimate), reason="more than two rankers"
        )
    words = ("Units by their number of searches with an event. The mean score counts each unit once.",)
    return _section("activity", "Heavy and light users", words, [grid], names, folded=True)


def arms(report: ReportData, names: Names) -> Section | None:
    """The size and the absolute metrics of each arm."""
    if not report.arms:
        return None
    base = None if report.baseline is None else names[report.baseline]
    sizes = Grid("arms", "", ["arm"], ("impressions", "with an event", "units"))
    title = "Metrics" if base is None else f"Metrics, and differences to {base}"
    columns = ("value", "difference", "interval", "adjusted p")
    metrics = Grid("metrics", title, ("arm", "metric"), columns, drop_empty=True)
    for arm in report.arms:
        name = names[arm.name]
        reason = f"{base} is the arm that others are compared with" if name == base else ""
        if base is None:
            reason = "there is no arm to compare with"
        sizes.add(name, name, count(arm.impressions), count(arm.clicked), write(count, arm.units))
        for metric in arm.metrics:
            value, gap = write(lambda value: f"{value:.4g}", metric.value), write(format_signed, metric.difference)
            figures = value, gap, write(span, metric.interval), write(probability, metric.p_value)
            label = names[metric.name]
            metrics.add(f"{label} of {name}", name, label, *figures, reason=metric.reason or reason)
    grids = [sizes, metrics] if metrics.rows else [sizes]
    return _section("arms", "Arms and their metrics", (), grids, names, folded=False)


def slots(report: ReportData, names: Names) -> Section | None:
    """Each ranker's share of each position."""
    if not report.slots:
        return None
    grid = Grid("slots", "", ("position", "ranker"), ("share", "expected", "p"))
    for slot in report.slots[:MAX_ROWS]:
        figures = share(slot.share), share(slot.expected), write(probability, slot.p_value)
        grid.add(f"{names[slot.ranker]} at {slot.position}", str(slot.position), names[slot.ranker], *figures)
    words = (
        "Each ranker's share of each position, before any click. It should be close to the expected share.",
        *say_left_out("The table has the first", len(grid.rows), len(report.slots), "slots"),
    )
    return _section("slots", "Team share by position", words, [grid], names, folded=True)


def neutrality(report: ReportData, names: Names) -> Section | None:
    """How much of each ranker the lists show."""
    if not report.neutrality:
        return None
    has_lengths = any(row.mean_characters is not None for row in report.neutrality)
    columns = ("documents shown", "shown first", "mean reciprocal rank", *(["mean characters"] * has_lengths))
    grid = Grid("neutrality", "", ["ranker"], columns)
    for row in report.neutrality:
        mean = write(lambda value: f"{value:.3f}", row.mean_reciprocal_rank)
        lengths = [write(lambda value: f"{value:,.0f}", row.mean_characters)] * has_lengths
        grid.add(
            names[row.ranker], names[row.ranker], f"{row.documents_shown:,.2f}", share(row.shown_first), mean, *lengths
        )
    words = (
        "How much of each ranker the lists show, before any click. Documents shown: how many documents of its own "
        "first page a list has, whichever ranker they were picked for. Shown first: the share of lists that begin with "
        "its top document. Mean reciprocal rank: how high its documents are, on average."
        + " Mean characters: how long the texts are that it owns, on average."
        * has_lengths,
        "The numbers of two rankers should be about the same. The check List probabilities tests whether they are."
        if len(report.neutrality) == 2
        else "Rankers that agree with others share documents with them, so their numbers are higher. That is not a "
        "fault. The check List probabilities tests what must be equal.",
    )
    return _section("neutrality", "Neutrality", words, [grid], names, folded=False)


def _heterogeneity(attribute: str, rows: list[Segment], report: ReportData) -> str:
    """Whether the segments of an attribute differ from each other."""
    p_values = [pair.differs_p_value for segment in rows for pair in segment.comparisons]
    least = min((p_value for p_value in p_values if p_value is not None), default=None)
    if least is None:
        return f"Whether segments by {attribute} differ from each other cannot be tested."
    if least <= 1 - report.confidence:
        return f"Segments by {attribute} differ from each other (adjusted p: {probability(least)})."
    return (
        f"Segments by {attribute} do not differ more than chance explains (adjusted p: {probability(least)}), "
        "so use the overall estimate."
    )


def segments(report: ReportData, names: Names) -> Section | None:
    """The comparisons for each value of an attribute, with a warning about many comparisons."""
    if not report.segments:
        return None
    every = [(segment, pair) for segment in report.segments for pair in segment.comparisons]
    some = pick_furthest(every, lambda row: row[1])
    grids = []
    for attribute, rows in groupby(some, key=lambda row: row[0].attribute):
        labelled = [(f"{names[segment.value]}: {pair_label(pair, names)}", pair) for segment, pair in rows]
        grids.append(comparison_grid(report, model.BY_SEGMENT, "segments", f"By {names[attribute]}", labelled))
    words = (
        f"Comparisons made here: {count(len(every))}. Among many, some look different by chance alone: use the "
        "adjusted p, which is corrected for all of them, and confirm an unexpected segment result in a new experiment.",
        *(
            _heterogeneity(names[name], list(rows), report)
            for name, rows in groupby(report.segments, attrgetter("attribute"))
        ),
        "Shrunken: the estimate moved towards the mean of the attribute's segments; the best guess for a segment. "
        "Smallest effect: the effect that a segment of its size detects in 80 % of experiments.",
        *say_left_out("Shown are", len(some), len(every), "comparisons"),
    )
    return _section("segments", "Segments", words, grids, names, folded=True)
