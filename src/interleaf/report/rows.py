"""Checks on the rows of a log: how many cannot be used, are repeated, excluded, or left out of the report, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from interleaf.decode import reasons
from interleaf.execution.collector import CONCURRENT, OTHER_EXPERIMENT, OTHER_METHOD, OTHER_RANKERS, OTHER_VERSION
from interleaf.report.record import FAILED, OK, Check, graded
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
