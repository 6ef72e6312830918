"""Codes of health checks and notes, and the declaration of a health check. A code never changes; texts may change."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from interleaf.report.comparisons import ComparisonResult
from interleaf.report.model import FAILED, OK, SKIPPED, WARNING, Check, Slot
from interleaf.report.rule import ReportSettings
from interleaf.tally import Tally

WARN_BELOW, FAIL_BELOW = 0.01, 0.001  # p-values of checks
FindText = Callable[[int], str | None]  # the text of the query with this number


class CheckCode(StrEnum):
    """Which health check it is; a report lists its checks in this order."""

    ROWS_USED = "rows_used"
    ROWS_OTHER_RANKERS = "rows_other_rankers"
    ROWS_OTHER_METHOD = "rows_other_method"
    ROWS_OTHER_EXPERIMENT = "rows_other_experiment"
    ROWS_OTHER_VERSION = "rows_other_version"
    ROWS_EXCLUDED = "rows_excluded"
    REPEATED_IMPRESSIONS = "repeated_impressions"
    TALLIES_OVERLAP = "tallies_overlap"
    REPEATED_CONTENT = "repeated_content"
    EVENTS_COUNTED = "events_counted"
    EVENTS_UNMATCHED = "events_unmatched"
    EVENTS_NOT_ON_LIST = "events_not_on_list"
    EVENTS_EARLY = "events_early"
    EVENTS_LATE = "events_late"
    EVENTS_REPEATED = "events_repeated"
    EVENTS_IDLE = "events_idle"
    EVENTS_WITHOUT_TIME = "events_without_time"
    EVENTS_UNPLACED = "events_unplaced"
    EVENTS_OVER_TIME = "events_over_time"
    CLICKS_BY_RANK = "clicks_by_rank"
    UNITS_KNOWN = "units_known"
    UNITS_COME_BACK = "units_come_back"
    ENOUGH_UNITS = "enough_units"
    LIGHT_USERS_AGREE = "light_users_agree"
    UNITS_ONCE = "units_once"
    FALLBACKS = "fallbacks"
    LATENCY = "latency"
    UNITS_IN_ONE_ARM = "units_in_one_arm"
    HOLDOUT_CLICKS = "holdout_clicks"
    HOLDOUT_ABANDONMENT = "holdout_abandonment"
    HOLDOUT_SPLIT = "holdout_split"
    AB_SPLIT = "ab_split"
    FAIR_LISTS = "fair_lists"
    RANKINGS_DIFFER = "rankings_differ"
    PASSAGE_LENGTHS = "passage_lengths"
    CONSTRAINTS_MET = "constraints_met"
    POSSIBLE_LISTS = "possible_lists"
    FAIR_SEGMENTS = "fair_segments"
    CLICKS_BY_RANKER = "clicks_by_ranker"
    EFFECT_OVER_TIME = "effect_over_time"
    FAIR_SCORING = "fair_scoring"
    HOLDS_WITHOUT_QUERY = "holds_without_query"
    AA = "aa"


class NoteCode(StrEnum):
    """Which note of a report it is."""

    ROWS_LEFT_OUT = "rows_left_out"
    READ_AS = "read_as"
    NO_MATCH = "no_match"
    UNUSABLE_EXAMPLE = "unusable_example"
    LEARNED_CREDIT = "learned_credit"
    SESSIONS = "sessions"
    VALUES = "values"
    SECONDARY = "secondary"
    LIFT_LEFT_OUT = "lift_left_out"
    NO_RANKS = "no_ranks"
    COUNTED_BY_OWNERS = "counted_by_owners"
    SEGMENTS = "segments"
    NO_INTERLEAVED_LISTS = "no_interleaved_lists"
    AB_TEST = "ab_test"
    CHOICE = "choice"
    PLAN_STALLED = "plan_stalled"
    CLUSTERED_BY_QUERY = "clustered_by_query"


@dataclass(frozen=True, eq=False)
class CheckInput:
    """The data of health checks; `result` has the comparisons, if the log has interleaved lists."""

    tally: Tally
    settings: ReportSettings
    result: ComparisonResult | None
    slots: tuple[Slot, ...]
    find_text: FindText | None = None


class CheckResult(NamedTuple):
    """The result of a check: a status, a sentence with its numbers, and what to do if it warns or fails.

    A check of each ranker or pair names it as `subject`.
    """

    status: str
    figure: str
    remedy: str = ""
    subject: str = ""


@dataclass(frozen=True)
class HealthCheck:
    """A health check as declared. Its documentation is the docstring of its function."""

    code: str
    title: str
    find: Callable[[CheckInput], CheckResult | Iterable[CheckResult] | None]
    interleaved: bool

    @property
    def documentation(self) -> str:
        """What the check means and what to do, in one paragraph."""
        return " ".join((inspect.getdoc(self.find) or "").split())

    def run(self, data: CheckInput) -> Iterator[Check]:
        """The results of the check; none if it does not apply."""
        results = self.find(data) if data.tally.about.method or not self.interleaved else None
        for one in [results] if isinstance(results, CheckResult) else results or ():
            remedy = one.remedy if one.status in (WARNING, FAILED) else ""
            yield Check(self.title.format(one.subject), one.status, one.figure, remedy, str(self.code))


def health_check(
    code: str, title: str, interleaved: bool = False
) -> Callable[[Callable[[CheckInput], CheckResult | Iterable[CheckResult] | None]], HealthCheck]:
    """Declare a function as the health check with this code, one of `CheckCode` in this package.

    `{}` in the title stands for the subject of a result. `interleaved` checks do not run without interleaved lists.
    """
    return lambda find: HealthCheck(code, title, find, interleaved)


def grade_share(share: float, warn: float, fail: float) -> str:
    """The status for a share that should be small."""
    return FAILED if share > fail else WARNING if share > warn else OK


def grade_p_value(p_value: float | None) -> str:
    """The status for a p-value that is small only if the experiment is broken."""
    if p_value is None:
        return SKIPPED
    return FAILED if p_value < FAIL_BELOW else WARNING if p_value < WARN_BELOW else OK


def smallest(p_values: Sequence[float | None]) -> tuple[float, int] | None:
    """The smallest p-value and its place; None if there is none.

    >>> smallest([0.5, None, 0.25]), smallest([None])
    ((0.25, 2), None)
    """
    return min(((p_value, place) for place, p_value in enumerate(p_values) if p_value is not None), default=None)
