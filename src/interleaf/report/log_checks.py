"""Health checks of the rows and events of a log that are not counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from interleaf.log.drop_reasons import DropReason, EventFate, text_of
from interleaf.log.schema import TIME_EXAMPLE
from interleaf.report.codes import CheckCode, CheckInput, CheckResult, grade_share, health_check
from interleaf.report.model import FAILED, SKIPPED
from interleaf.tables import percent
from interleaf.tally import Fact, Tally
from interleaf.tally.units import CLICKED

WARN_ABOVE, FAIL_ABOVE = 0.01, 0.1  # shares of rows or events that are not counted, for one cause
MAX_EXCLUDED = 0.5  # a larger share excluded by the caller's rules is a warning, never a failure
MAX_CAUSES = 5  # causes that a check names
MIN_IMPRESSIONS = 100  # with fewer lists, it is too early to expect events that count
_NAME_IMPRESSION = (
    "an event must name its impression, and a rank or document, as in the response that delivered the list; events "
    "that name only a unit count only if the experiment's attribution allows it"
)


@health_check(CheckCode.ROWS_USED, "Rows used")
def rows_used(data: CheckInput) -> CheckResult:
    """Can all rows be used? If not, the table of dropped rows names the reasons: fix the code that writes the log."""
    used, dropped = data.tally.impressions, data.tally.dropped
    repeated = dropped.get(DropReason.REPEATED_IMPRESSION, 0)
    number = dropped.total() - repeated - sum(DropReason.EXCLUDED.details(dropped).values())
    share = number / max(used + number, 1)
    figure = f"{used:,} of {used + number:,} rows; {percent(share, 2)} could not be used"
    remedy = "fix the code that writes the log; the report lists the reasons and numbers of dropped rows"
    return CheckResult(grade_share(share, WARN_ABOVE, FAIL_ABOVE), figure, remedy)


def _left_out(tally: Tally, cause: Fact, remedy: str) -> CheckResult | None:
    """Usable rows that are not in this report, for one cause."""
    counts = cause.details(tally.facts)
    number = sum(counts.values())
    if not number:
        return None
    share = number / (tally.impressions + number)
    status = grade_share(share, WARN_ABOVE, 1.0 if cause == Fact.OTHER_VERSION else FAIL_ABOVE)
    figure = f"{number:,} of {tally.impressions + number:,} rows ({percent(share, 2)}) are left out: {_causes(counts)}"
    concurrent = tally.facts.get(Fact.CONCURRENT, 0) if cause == Fact.OTHER_VERSION else 0
    if concurrent:
        status = FAILED if concurrent / (tally.impressions + concurrent) > FAIL_ABOVE else status
        figure += f"; about {concurrent:,} of them came after version {tally.about.version} began"
    return CheckResult(status, figure, remedy)


@health_check(CheckCode.ROWS_OTHER_RANKERS, "Rows of another set of rankers")
def rows_other_rankers(data: CheckInput) -> CheckResult | None:
    """Rows that compare other rankers are left out of this report. Write ranker names the same way in all rows, or give
    another comparison another experiment name. Shown only if there are such rows.
    """
    rankers = ", ".join(data.tally.about.rankers)
    remedy = f"write ranker names the same way in all rows; this report compares {rankers}"
    return _left_out(data.tally, Fact.OTHER_RANKERS, remedy)


@health_check(CheckCode.ROWS_OTHER_METHOD, "Rows of another method")
def rows_other_method(data: CheckInput) -> CheckResult | None:
    """Lists made by another method are left out of this report. Give them another version or experiment name. Shown
    only if there are such lists.
    """
    composed = data.tally.about.composed
    remedy = f"this report covers lists made by {composed}: give lists of another method another version or experiment"
    return _left_out(data.tally, Fact.OTHER_METHOD, remedy)


@health_check(CheckCode.ROWS_OTHER_EXPERIMENT, "Rows of another experiment of nearly the same name")
def rows_other_experiment(data: CheckInput) -> CheckResult | None:
    """Rows whose experiment has nearly the same name are left out of this report. If they belong to it, write the name
    the same way in all rows. Shown only if there are such rows.
    """
    remedy = f"write the name of the experiment as {data.tally.about.experiment!r} in all rows that belong to it"
    return _left_out(data.tally, Fact.OTHER_EXPERIMENT, remedy)


@health_check(CheckCode.ROWS_OTHER_VERSION, "Rows of another version")
def rows_other_version(data: CheckInput) -> CheckResult | None:
    """Rows of other versions are left out of this report. It fails if another version still came after this one began:
    then some servers or clients still use the old version. Shown only if there are such rows.
    """
    remedy = (
        f"this report covers version {data.tally.about.version}: select another one by its number, and make all "
        "writers use the current version"
    )
    return _left_out(data.tally, Fact.OTHER_VERSION, remedy)


@health_check(CheckCode.ROWS_EXCLUDED, "Rows excluded")
def rows_excluded(data: CheckInput) -> CheckResult | None:
    """Your rules exclude some rows. Above 50 %, check the rules. Shown only if there are such rows."""
    excluded = DropReason.EXCLUDED.details(data.tally.dropped)
    if not excluded:
        return None
    number = sum(excluded.values())
    total = data.tally.impressions + number
    figure = f"{number:,} of {total:,} rows ({percent(number / total, 2)}) are excluded by rules: {_causes(excluded)}"
    remedy = "most rows are excluded: check the rules"
    return CheckResult(grade_share(number / total, MAX_EXCLUDED, 1.0), figure, remedy)


def _causes(counts: Mapping[str, int]) -> str:
    """The most frequent causes, each with its number."""
    named = [f"{which or 'others'}: {number:,}" for which, number in Counter(counts).most_common(MAX_CAUSES)]
    return ", ".join(named) + (", ..." if len(counts) > MAX_CAUSES else "")


@health_check(CheckCode.REPEATED_IMPRESSIONS, "Repeated impressions")
def repeated_impressions(data: CheckInput) -> CheckResult:
    """Does every impression have its own id? If not, look for retries, and for days that are read twice."""
    repeated = data.tally.dropped.get(DropReason.REPEATED_IMPRESSION, 0)
    figure = f"{repeated:,} rows had the id of an earlier row and were left out"
    remedy = "write each impression once, with its own id"
    return CheckResult(grade_share(repeated / max(data.tally.impressions + repeated, 1), 0.001, 0.01), figure, remedy)


@health_check(CheckCode.TALLIES_OVERLAP, "Tallies overlap")
def tallies_overlap(data: CheckInput) -> CheckResult | None:
    """Added tallies share impressions, so these count twice. Add each day once. Shown only if this happens."""
    shared = data.tally.facts.get(Fact.SHARED, 0)
    figure = f"about {shared:,} impressions are in two of the added tallies and count twice"
    return CheckResult(FAILED, figure, "add each day once") if shared else None


@health_check(CheckCode.REPEATED_CONTENT, "Repeated content")
def repeated_content(data: CheckInput) -> CheckResult:
    """Does the log contain the same rows again under other ids? Look for jobs that ran twice, and for ids that are
    created when the log is written.
    """
    contents = data.tally.evidence.contents
    rows, distinct = int(contents.rows[:, CLICKED].sum()), contents.size
    if not rows:
        return CheckResult(SKIPPED, "no impression has an event")
    return CheckResult(
        grade_share(max(1 - distinct / rows, 0.0), 0.001, 0.01),
        f"{rows - distinct:,} of {rows:,} impressions with an event repeat another in unit, time, list and clicks"
        + ("" if contents.level == 0 else " (in a sample)"),
        "the log contains the same rows under other ids: write and read each row once",
    )


@health_check(CheckCode.EVENTS_COUNTED, "Events counted")
def events_counted(data: CheckInput) -> CheckResult | None:
    """Many lists were shown, but no event counts. Check that events reach the log, and that the report counts their
    kind, dwell time and window. Shown only if it fails.
    """
    tally = data.tally
    came = tally.events.total() - tally.events[EventFate.UNPLACED]
    if tally.impressions < MIN_IMPRESSIONS:
        return None
    if counted := tally.events[EventFate.COUNTED]:
        lists = int(tally.scores.impressions.sum())
        figure = f"none on {lists:,} interleaved lists, {counted:,} on other arms"
        is_lost = lists >= MIN_IMPRESSIONS and not tally.scores.clicked.any()
        return CheckResult(FAILED, figure, "log the events on interleaved lists, too") if is_lost else None
    if came:
        placed = [(fate, number) for fate, number in tally.events.most_common() if fate != EventFate.UNPLACED]
        fates = ", ".join(f"{number:,} {text_of(fate)}" for fate, number in placed)
        counted_kinds = tally.about.events or "no events"
        remedy = f"the report counts {counted_kinds}: name a kind that the log has, and check dwell time and window"
        return CheckResult(FAILED, f"none of {came:,} ({fates})", remedy)
    if lost := unusable_events(tally.dropped):
        return CheckResult(FAILED, f"none: {lost}", "fix the lines of events; the notes show an example")
    remedy = "log clicks and other events on the lists: without events, nothing can be compared"
    return CheckResult(FAILED, f"none: {tally.impressions:,} lists have no event at all", remedy)


def unusable_events(dropped: Mapping[str, int]) -> str:
    """How many lines of events were dropped, and why; '' if none were."""
    reasons = DropReason.NO_EVENT_VALUE, DropReason.WRONG_EVENT_VALUE
    lines = {reason.text.format(what): n for reason in reasons for what, n in reason.details(dropped).items()}
    causes = ", ".join(f"{text}: {number:,}" for text, number in lines.items())
    return f"{sum(lines.values()):,} lines of events could not be used ({causes})" if lines else ""


def _check_lost(
    tally: Tally, number: int, remedy: str, warn: float = WARN_ABOVE, fail: float = FAIL_ABOVE
) -> CheckResult:
    """A check of the share of these events among all events, except those without an impression in any experiment."""
    total = tally.events.total() - tally.events[EventFate.UNPLACED]
    return CheckResult(grade_share(number / max(total, 1), warn, fail), f"{number:,} of {total:,} events", remedy)


@health_check(CheckCode.EVENTS_UNMATCHED, "Events unmatched")
def events_unmatched(data: CheckInput) -> CheckResult:
    """Does each event match an impression? If not, look for impressions that are not logged, for late files, and for
    events without the id of their impression.
    """
    causes = sorted(Fact.UNMATCHED.details(data.tally.facts).items())
    remedy = _NAME_IMPRESSION if causes else "their impressions are not in the log: send both, or wait for late files"
    result = _check_lost(data.tally, data.tally.events[EventFate.UNMATCHED], remedy)
    by_cause = "".join(f"; {text_of(cause)}: {number:,}" for cause, number in causes)
    return result._replace(figure=result.figure + by_cause)


@health_check(CheckCode.EVENTS_NOT_ON_LIST, f"Events {EventFate.NOT_ON_LIST.text}")
def events_not_on_list(data: CheckInput) -> CheckResult | None:
    """Some events are on documents that are not in the list. Clicks on ads are fine; otherwise look for ids that are
    written differently in the two tables. Shown only for logs that were joined from two tables.
    """
    number = data.tally.events[EventFate.NOT_ON_LIST]
    remedy = "fine for ads; otherwise log the same document ids in both tables"
    return _check_lost(data.tally, number, remedy, fail=1.0) if number else None


@health_check(CheckCode.EVENTS_EARLY, "Events before their impression")
def events_early(data: CheckInput) -> CheckResult:
    """Does each event come after its impression? If not, look for clocks that differ between machines."""
    remedy = "correct the clocks, or the order in which impressions and events are written"
    return _check_lost(data.tally, data.tally.events[EventFate.EARLY], remedy)


@health_check(CheckCode.EVENTS_LATE, "Events past the window")
def events_late(data: CheckInput) -> CheckResult:
    """Do events come within the window? If not, and people take that long, make the window longer."""
    remedy = "they came too late to count; make the window longer if people take that long"
    return _check_lost(data.tally, data.tally.events[EventFate.LATE], remedy, fail=1.0)


@health_check(CheckCode.EVENTS_REPEATED, "Events repeated")
def events_repeated(data: CheckInput) -> CheckResult:
    """Is each event sent once? A click that is sent again with its dwell time is merged, so up to half may be copies.
    Above that, look for code that sends events again and again.
    """
    remedy = "they were sent several times and counted once"
    return _check_lost(data.tally, data.tally.events[EventFate.REPEATED], remedy, warn=0.5, fail=1.0)


@health_check(CheckCode.EVENTS_IDLE, f"Events {Fact.IDLE.text}")
def events_idle(data: CheckInput) -> CheckResult | None:
    """Some events have kinds that no metric of the experiment counts. Look for misspelt kinds. Shown only if there are
    any.
    """
    idle = data.tally.facts.get(Fact.IDLE, 0)
    remedy = "send the kinds that the experiment counts, spelt exactly as in its settings"
    return _check_lost(data.tally, idle, remedy, fail=1.0) if idle else None


@health_check(CheckCode.EVENTS_WITHOUT_TIME, f"Events {EventFate.NO_TIME.text}")
def events_without_time(data: CheckInput) -> CheckResult | None:
    """The times of some events cannot be read. Fix the code that writes the log. Shown only if there are any."""
    number = data.tally.events[EventFate.NO_TIME]
    result = _check_lost(data.tally, number, f"write times in ISO 8601, such as {TIME_EXAMPLE}")
    return result._replace(figure=f"{result.figure} have no time that can be read") if number else None


@health_check(CheckCode.EVENTS_UNPLACED, f"Events {EventFate.UNPLACED.text}")
def events_unplaced(data: CheckInput) -> CheckResult | None:
    """Some events match no impression of any experiment. Look for wrong ids and lost responses. Shown only for a
    service.
    """
    unplaced = data.tally.events[EventFate.UNPLACED]
    return CheckResult(
        grade_share(unplaced / data.tally.events.total(), 0.01, 1.0),
        f"{unplaced:,} events of the store match no impression in it; they may belong to this experiment or another",
        _NAME_IMPRESSION,
    ) if unplaced else None  # fmt: skip
