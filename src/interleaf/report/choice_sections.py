"""The section of a report on the choice of the best of many rankers, and the rows of its chart."""

from __future__ import annotations

from collections import Counter
from typing import Any

from interleaf.report.choice_result import ChoiceResult, ChoiceState, RankerState
from interleaf.report.format import Names, count, digits, format_signed, share, span
from interleaf.report.model import ReportData
from interleaf.report.sections import MAX_ROWS, Grid, Section, explain_missing, say_left_out, write

MAX_BRIEF = 10  # rankers in a terminal
MAX_NAMED = 6  # rankers with a colour of their own in a chart
MAX_STEPS = 100  # of a chart over epochs
OTHERS = "all others"
ENDS = (
    "A ranker left because the upper end of its interval against the leader at that time was below 0, or below the "
    "margin (upper end then). The intervals shown are current ones against the current leader, and may be wider."
)


def choice(report: ReportData, names: Names, brief: bool = False) -> Section | None:
    """Who leads, who is in, who left when and why, and the regret that was saved."""
    result = report.choice
    if result is None:
        return None
    rows = result.rankers[: MAX_BRIEF if brief else MAX_ROWS]
    titles = ["share now", "lists", "over the leader", f"{100 * report.confidence:g} % anytime interval", "units"]
    grid = Grid("choice", "", ["ranker", "so far", "left after epoch", "upper end then"], titles)
    numbers = {epoch: place for place, epoch in enumerate(sorted({one.epoch for one in result.shares}), 1)}
    for one in rows:
        so_far = ChoiceState(one.state).text.format(one.left_against and names[one.left_against])
        after = "" if one.left_after is None else f"{numbers[one.left_after]}"
        end = "" if one.bound is None else format_signed(one.bound)
        cells = [names[one.ranker], so_far, after, end, *_figures(one)]
        grid.add(names[one.ranker], *cells, reason=one.reason or "it leads")
    epochs = f"{result.epochs} epoch{'s' * (result.epochs != 1)} so far."
    ends = (ENDS,) if any(one.bound is not None for one in rows) else ()
    told = (epochs, *say_left_out("Shown are", len(rows), len(result.rankers), "rankers"), *ends, say_regret(result))
    reasons = explain_missing(missing for missing in grid.missing if missing[2] != "it leads")
    return Section("choice", "The choice", told, (grid.table(),), tuple(map(names.within, reasons)))


def _figures(one: RankerState) -> list[str | None]:
    return [
        share(one.share),
        count(one.lists),
        write(format_signed, one.estimate),
        write(span, one.interval),
        write(count, one.units),
    ]


def say_regret(result: ChoiceResult) -> str:
    """The regret that was saved, in a sentence.

    >>> say_regret(ChoiceResult("a", False, 9, 1, (), (), 6.0, 20.0, 0.7, 3))
    'Regret so far is 6; with equal shares it would be 20, so 70.0 % was saved. It is the sum over lists of how much \
people prefer the leader to the rankers of the list, by the estimates for 3 rankers.'
    """
    if result.regret is None or result.regret_equal_shares is None or result.regret_saved is None:
        return f"The regret is not known: {result.reason}."
    regret, even = (digits(one) if one < 1000 else count(one) for one in (result.regret, result.regret_equal_shares))
    amounts = f"{regret}; with equal shares it would be {even}"
    saved = result.regret_saved
    change = f"{share(saved)} was saved" if saved >= 0 else f"nothing was saved ({share(-saved)} more)"
    return (
        f"Regret so far is {amounts}, so {change}. It is the sum over lists of how much people prefer the leader to "
        f"the rankers of the list, by the estimates for {result.regret_rankers} rankers."
    )


def share_rows(report: ReportData, names: Names) -> list[dict[str, Any]]:
    """A row for each ranker with much traffic, and for all others together, in each epoch, or in several together."""
    result = report.choice
    if result is None or not result.shares:
        return []
    lists = {one.ranker: one.lists for one in result.rankers}
    named = sorted(lists, key=lambda ranker: -lists[ranker])[:MAX_NAMED]
    width = -(-result.epochs // MAX_STEPS)
    epochs = sorted({one.epoch for one in result.shares})
    place = {epoch: number // width for number, epoch in enumerate(epochs)}
    sums: Counter[tuple[int, str]] = Counter()
    for one in result.shares:
        sums[place[one.epoch], names[one.ranker] if one.ranker in named else OTHERS] += one.share  # type: ignore[assignment]
    sizes = Counter(place.values())
    order = [names[ranker] for ranker in named] + [OTHERS] * (len(lists) > len(named))
    return [
        {"epoch": number * width + 1, "ranker": ranker, "share": sums[number, ranker] / sizes[number], "place": rank}
        for number in sorted(sizes)
        for rank, ranker in enumerate(order)
    ]
