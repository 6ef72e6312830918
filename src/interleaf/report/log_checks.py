"""Checks on the rows of a log: how many cannot be used, are repeated, excluded, or left out of the report, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from interleaf.decode import reasons
from interleaf.decode.events import COUNTED, FATES, TIMELESS
from interleaf.execution.collector import CONCURRENT, OTHER_EXPERIMENT, OTHER_METHOD, OTHER_RANKERS, OTHER_VERSION
from interleaf.log.jsonl import OF_EVENT
from interleaf.log.schema import TIME_EXAMPLE
from interleaf.report.model import FAILED, OK, WARNING, Check, graded
from interleaf.tally import Tally
from interleaf.tally.tally import SHARED

WARN_ABOVE, FAIL_ABOVE = 0.01, 0.1  # shares of rows that cannot be used, or that are left out for one cause
MAX_EXCLUDED = 0.5  # a larger share that the caller's rules exclude is a warning: they asked for it
MAX_CAUSES = 5  # that a check names
EXCLUDED = "excluded"  # reasons that begin so are rules of the caller, or of the log's column


def row_checks(tally: Tally) -> Iterator[Check]:
    """How many rows the report does not count, with a check for each cause."""
    kept = tally.impressions
    repeated = tally.dropped.get(reasons.REASONS[reasons.REPEATED], 0)
    excluded = {reason: number for reason, number in tally.dropped.items() if reason.startswith(EXCLUDED)}
    dropped = tally.dropped.total() - repeated - sum(excluded.values())
    share = dropped / max(kept + dropped, 1)
    yield Check(
        "Rows used",
        graded(share, WARN_ABOVE, FAIL_ABOVE),
        f"{kept:,} of {kept + dropped:,} rows; {share:.2%} could not be used",
        "see what was dropped below, and mend the log's writer" if dropped else "",
    )
    yield from _left_out(tally)
    if excluded:
        yield _excluded(kept, excluded)
    share = repeated / max(kept + repeated, 1)
    yield Check(
        "Repeated impressions",
        graded(share, 0.001, 0.01),
        f"{repeated:,} rows had the id of an earlier one, and were left out",
        "write every impression once, or give each its own id" if repeated else "",
    )
    shared = tally.facts.get(SHARED, 0)
    if shared:
        yield Check(
            "Tallies overlap",
            FAILED,
            f"about {shared:,} impressions are in two of the tallies that were added, and count twice",
            "add each day once",
        )


def _left_out(tally: Tally) -> Iterator[Check]:
    """A check for each cause for which usable rows are left out of the report."""
    about = tally.about
    remedies = {
        OTHER_RANKERS: f"write the ranker names of all rows alike; this report compares {', '.join(about.rankers)}",
        OTHER_METHOD: f"this report is of lists composed by {about.composed}: give lists of another method another "
        "version or experiment",
        OTHER_EXPERIMENT: f"write the name of the experiment {about.experiment!r} alike in all rows",
        OTHER_VERSION: f"this report is of version {about.version}: ask for another one by its number, and write the "
        "present version in all rows",
    }
    for cause, remedy in remedies.items():
        counts = {fact.removeprefix(cause).strip(): n for fact, n in tally.facts.items() if fact.startswith(cause)}
        number = sum(counts.values())
        if not number:
            continue
        share = number / (tally.impressions + number)
        status = graded(share, WARN_ABOVE, 1.0 if cause == OTHER_VERSION else FAIL_ABOVE)
        figure = f"{number:,} of {tally.impressions + number:,} rows ({share:.2%}) are left out: {_causes(counts)}"
        concurrent = tally.facts.get(CONCURRENT, 0) if cause == OTHER_VERSION else 0
        if concurrent:
            at_once = graded(concurrent / (tally.impressions + concurrent), WARN_ABOVE, FAIL_ABOVE)
            status = FAILED if at_once == FAILED else status
            figure += f"; about {concurrent:,} of them came after version {about.version} began"
        yield Check(f"Rows of {cause.removeprefix('impressions of ')}", status, figure, "" if status == OK else remedy)


def _causes(counts: Mapping[str, int]) -> str:
    """The most frequent causes, each with its number."""
    named = [f"{which or 'others'}: {number:,}" for which, number in Counter(counts).most_common(MAX_CAUSES)]
    return ", ".join(named) + (", ..." if len(counts) > MAX_CAUSES else "")


def _excluded(kept: int, excluded: Mapping[str, int]) -> Check:
    number = sum(excluded.values())
    share = number / (kept + number)
    status = graded(share, MAX_EXCLUDED, 1.0)
    rules = {reason.removeprefix(EXCLUDED).strip(": "): count for reason, count in excluded.items()}
    return Check(
        "Rows excluded",
        status,
        f"{number:,} of {kept + number:,} rows ({share:.2%}) are excluded by rules: {_causes(rules)}",
        "" if status == OK else "most rows are excluded: check that the rules are those that you mean",
    )


UNMATCHED, UNPLACED = "unmatched", "of no experiment"  # fates of events that no impression of the log has
UNTOLD = f"{UNMATCHED}: "  # facts that begin so count them by cause
IDLE = "of a kind that counts nowhere"  # a fact: how many events are so
ANOTHER_KIND = FATES[5]
MIN_IMPRESSIONS = 100  # with fewer lists, it is too early to expect events that count
# Shares above which a check warns, and fails. Late events were asked for by the window. A click that comes again with
# its dwell is merged: half of all events may be copies.
_LIMITS = {"past the window": (0.01, 1.0), "repeated": (0.5, 1.0)}
_LOOK_AT = (
    "events must name the impression, and a rank or document, as the answer with the list gave them; those that name a "
    "unit count only where the experiment's attribution says so"
)
_LOST = {
    UNMATCHED: "their impressions are not in the log: send both, or wait for late files",
    "before its impression": "mend the clocks, or the order in which impressions and events are written",
    "past the window": "they came too late to count; make the window longer if people take that long",
    "repeated": "they were sent several times and counted once",
}


def event_checks(tally: Tally) -> Iterator[Check]:
    """One for each way in which an event counts for nobody."""
    yield from _nothing_counted(tally)
    unplaced = tally.events.get(UNPLACED, 0)
    total = tally.events.total() - unplaced
    causes = [name for name in tally.facts if name.startswith(UNTOLD)]
    for name, what in _LOST.items():
        lost = tally.events.get(name, 0)
        told = sorted(causes) if name == UNMATCHED else []
        status = graded(lost / max(total, 1), *_LIMITS.get(name, (0.01, 0.1)))
        yield Check(
            f"Events {name}",
            status,
            f"{lost:,} of {total:,} events"
            + "".join(f"; {cause.removeprefix(UNTOLD)}: {tally.facts[cause]:,}" for cause in told),
            (_LOOK_AT if told else what) if status != OK else "",
        )
    if idle := tally.facts.get(IDLE, 0):
        status = graded(idle / max(total, 1), 0.01, 1.0)
        yield Check(
            f"Events {IDLE}",
            status,
            f"{idle:,} of {total:,} events",
            "send the kinds that the experiment's events name, letter by letter" if status == WARNING else "",
        )
    if timeless := tally.events.get(TIMELESS, 0):
        yield Check(
            f"Events {TIMELESS}",
            graded(timeless / max(total, 1), 0.01, 0.1),
            f"{timeless:,} of {total:,} events have no time that can be read",
            f"write times in ISO 8601, such as {TIME_EXAMPLE}",
        )
    if unplaced:
        status = graded(unplaced / (total + unplaced), 0.01, 1.0)
        yield Check(
            f"Events {UNPLACED}",
            status,
            f"{unplaced:,} events of the store match no impression in it; they may be of this experiment or of another",
            _LOOK_AT if status == WARNING else "",
        )


def unusable_events(dropped: Mapping[str, int]) -> str:
    """How many lines of events were dropped, and why; '' if none were."""
    found = {reason: number for reason, number in dropped.items() if reason.startswith(OF_EVENT)}
    causes = ", ".join(f"{reason}: {number:,}" for reason, number in found.items())
    return f"{sum(found.values()):,} lines of events could not be used ({causes})" if found else ""


def _nothing_counted(tally: Tally) -> Iterator[Check]:
    """A failed check where many lists were shown and no event counts."""
    name, came = "Events counted", tally.events.total() - tally.events[UNPLACED]
    if tally.impressions < MIN_IMPRESSIONS:
        return
    if tally.events[COUNTED]:
        lists = int(tally.scores.impressions.sum())
        if lists >= MIN_IMPRESSIONS and not tally.scores.clicked.any():
            figure = f"none on {lists:,} interleaved lists, {tally.events[COUNTED]:,} on other arms"
            yield Check(name, FAILED, figure, "log what people do with interleaved lists, too")
    elif came:
        fates = ", ".join(f"{number:,} {fate}" for fate, number in tally.events.most_common() if fate != UNPLACED)
        yield Check(
            name,
            FAILED,
            f"none of {came:,} ({fates})",
            f"the report counts {tally.about.events or 'no events'}: name a kind that the log has, and check dwell "
            "time and window",
        )
    elif lost := unusable_events(tally.dropped):
        yield Check(name, FAILED, f"none: {lost}", "mend the lines of events: the notes have an example")
    else:
        remedy = "log what people do with the lists: without events, nothing can be compared"
        yield Check(name, FAILED, f"none: {tally.impressions:,} lists have no event at all", remedy)
