"""The sections of a report with numbers: each has sentences, tables, and the reasons for missing numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from interleaf.methods.registry import DRAFTED, resolve
from interleaf.report.comparison_tables import (
    MAX_ROWS,
    Grid,
    comparison_grid,
    explain_missing,
    interval_name,
    pair_label,
    pick_furthest,
    points_shown,
    say_left_out,
    shown,
    shown_in_brief,
    wins_and_losses,
    write,
)
from interleaf.report.format import Names, count, moment, probability, share, signed, span
from interleaf.report.model import BRIEF, BY_SEGMENT, MAIN, OTHER, ReportData, Segment
from interleaf.tables import Table


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
    rows = [(pair_label(pair, names), pair) for pair in (shown_in_brief(report) if brief else shown(report))]
    if not rows:
        return Section("comparisons", "Comparisons", ("Nothing was compared.",))
    words = say_left_out("Shown are", len(rows), len(report.comparisons), "comparisons")
    grid = comparison_grid(report, BRIEF if brief else MAIN, "comparisons", "", rows)
    return _section("comparisons", "Comparisons", words, [grid], names, folded=False)


def other_tests(report: ReportData, names: Names) -> Section | None:
    """Other tests of the same pairs."""
    rows = [(pair_label(pair, names), pair) for pair in shown(report)]
    if not rows:
        return None
    grid = comparison_grid(report, OTHER, "tests", "", rows, drop_empty=True)
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
        figures = write(signed, point.estimate), write(span, point.interval)
        grid.add(f"{pair} at {time}", time, pair, *figures, count(point.impressions))
    words = (
        "The estimate at each time, with its anytime interval, which is valid even if you check repeatedly."
        if report.look is None
        else "The estimate at each time. Only the planned look has an interval.",
        *([f"The first {pairs:,} of {every:,} comparisons are shown."] if pairs < every else []),
    )
    made = _section("over_time", "Over time", words, [grid], names, folded=True)
    return replace(
        made, reasons=(*say_left_out("The table has the last", len(grid.rows), len(points), "points"), *made.reasons)
    )


def outcomes(report: ReportData, names: Names) -> Section | None:
    """A chart only: the counts are in the table of comparisons."""
    if all(None in (pair.wins, pair.losses, pair.ties) for pair in report.comparisons):
        return None
    return Section("outcomes", "Wins, ties, losses", folded=True)


def standing(report: ReportData, names: Names) -> Section | None:
    """The leaderboard of many rankers: how many others each one beats, its strength, and every cycle."""
    found = report.standing
    if found is None:
        return None
    words = [
        "Beats, loses to and undecided count the other rankers, corrected for all pairs together. "
        "Strength puts all rankers on one scale, on which their mean is 0."
    ]
    for cycle in found.cycles:
        steps = zip(cycle, (*cycle[1:], cycle[0]), strict=True)
        words.append(f"A cycle: {', '.join(f'{names[one]} over {names[other]}' for one, other in steps)}.")
    if resolve(report.method).method.owners_given_list == DRAFTED:
        words.append(
            f"The lists were drawn by {report.method}. With many rankers, pairwise_preference made fewer errors in a "
            "study (O17) and in our own run of it: consider it for the next experiment."
        )
    grid = Grid("standing", "", ["ranker"], ("beats", "loses to", "undecided", "strength", "interval"))
    strength = found.reasons.get("strength", "")  # without a strength, there is no interval either
    wins, losses = wins_and_losses(report)
    for place in found.strengths:
        name, won, lost = names[place.ranker], wins[place.ranker], losses[place.ranker]
        counts = (count(number) for number in (won, lost, len(report.rankers) - 1 - won - lost))
        figures = *counts, write(signed, place.strength), write(span, place.interval)
        grid.add(name, name, *figures, reasons=found.reasons, reason=strength)
    return _section("standing", "Leaderboard", tuple(words), [grid], names, folded=False)


def activity(report: ReportData, names: Names) -> Section | None:
    """Heavy and light users, and their mean scores."""
    if len(report.activity) < 2:
        return None
    grid = Grid("activity", "", ["searches of a unit"], ("units", "share of units", "share of searches", "mean score"))
    for row in report.activity:
        figures = count(row.units), share(row.share_of_units), share(row.share_of_searches)
        grid.add(row.searches, row.searches, *figures, write(signed, row.estimate), reason="more than two rankers")
    words = ("Units by their number of searches with an event. The mean score counts each unit once.",)
    return _section("activity", "Heavy and light users", words, [grid], names, folded=True)


def arms(report: ReportData, names: Names) -> Section | None:
    """The size and the absolute metrics of each arm."""
    if not report.arms:
        return None
    base = None if report.baseline is None else names[report.baseline]
    sizes = Grid("arms", "", ["arm"], ("impressions", "with an event", "units"))
    metrics = Grid(
        "metrics",
        "Metrics" if base is None else f"Metrics, and differences to {base}",
        ("arm", "metric"),
        ("value", "difference", "interval", "adjusted p"),
        drop_empty=True,
    )
    for arm in report.arms:
        name = names[arm.name]
        reason = f"{base} is the arm that others are compared with" if name == base else ""
        if base is None:
            reason = "there is no arm to compare with"
        sizes.add(name, name, count(arm.impressions), count(arm.clicked), write(count, arm.units))
        for metric in arm.metrics:
            metrics.add(
                f"{names[metric.name]} of {name}",
                name,
                names[metric.name],
                write(lambda value: f"{value:.4g}", metric.value),
                write(signed, metric.difference),
                write(span, metric.interval),
                write(probability, metric.p_value),
                reason=metric.reason or reason,
            )
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
    grid = Grid("neutrality", "", ["ranker"], ("documents shown", "shown first", "mean reciprocal rank"))
    for row in report.neutrality:
        mean = write(lambda value: f"{value:.3f}", row.mean_reciprocal_rank)
        grid.add(names[row.ranker], names[row.ranker], f"{row.documents_shown:,.2f}", share(row.shown_first), mean)
    words = (
        "How much of each ranker the lists show, before any click. Documents shown: how many documents of its own "
        "first page a list has, whichever ranker they were picked for. Shown first: the share of lists that begin with "
        "its top document. Mean reciprocal rank: how high its documents are, on average.",
        "The numbers of two rankers should be about the same. The check Fair lists tests whether the draw was fair."
        if len(report.neutrality) == 2
        else "Rankers that agree with others share documents with them, so their numbers are higher. That is no fault. "
        "The check Fair lists tests what must be equal.",
    )
    return _section("neutrality", "Neutrality", words, [grid], names, folded=False)


def _heterogeneity(attribute: str, rows: list[Segment], report: ReportData) -> str:
    """Whether the segments of an attribute differ from each other."""
    p_values = [pair.differs_p_value for segment in rows for pair in segment.comparisons]
    known = [p_value for p_value in p_values if p_value is not None]
    if not known:
        return f"Whether segments by {attribute} differ from each other cannot be tested."
    if min(known) > 1 - report.confidence:
        return (
            f"Segments by {attribute} do not differ more than chance explains (adjusted p: {probability(min(known))}), "
            "so use the estimate of all, not that of one segment."
        )
    return f"Segments by {attribute} differ from each other (adjusted p: {probability(min(known))})."


def segments(report: ReportData, names: Names) -> Section | None:
    """The comparisons for each value of an attribute, with a warning about many comparisons."""
    if not report.segments:
        return None
    every = [(segment, pair) for segment in report.segments for pair in segment.comparisons]
    some = pick_furthest(every, lambda row: row[1])
    grids = []
    for attribute, rows in groupby(some, key=lambda row: row[0].attribute):
        labelled = [(f"{names[segment.value]}: {pair_label(pair, names)}", pair) for segment, pair in rows]
        grids.append(comparison_grid(report, BY_SEGMENT, "segments", f"By {names[attribute]}", labelled))
    words = (
        f"Comparisons made here: {count(len(every))}. Among many, some look different by chance alone: use the "
        "adjusted p, which is corrected for all of them, and test a surprise in the next experiment.",
        *(
            _heterogeneity(names[name], list(rows), report)
            for name, rows in groupby(report.segments, attrgetter("attribute"))
        ),
        "Shrunken: the estimate moved towards the mean of the attribute's segments; the best guess for a segment. "
        "Smallest effect: the effect that a segment of its size detects in 80 % of experiments.",
        *say_left_out("Shown are", len(some), len(every), "comparisons"),
    )
    return _section("segments", "Segments", words, grids, names, folded=True)
