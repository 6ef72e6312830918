"""The report as plain data: a number that could not be computed is None, and `reasons` says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, NamedTuple

from interleaf.report.choice_result import ChoiceResult
from interleaf.report.format import count, digits, format_signed, join_by_slash, join_by_space, probability, share, span
from interleaf.stable_codes import Code
from interleaf.stats.compare import Interval
from interleaf.stats.lift import Examination as Examination

BRIEF, MAIN, OTHER, BY_SEGMENT = "brief", "main", "other tests", "segments"  # tables of comparisons

OK, WARNING, FAILED, SKIPPED = "ok", "warning", "failed", "skipped"
UNIT, UNIT_AND_QUERY = "unit", "unit_and_query"  # what errors are clustered by
Figure = tuple[str, Any, str]  # a field of a comparison, its value, and the reason if that is None
SCORE, DRAWN_OWNERS = "score", "drawn_owners"  # what wins and losses are counted by


class VerdictCode(Code):
    """What a report states, in the order of precedence; d is the margin, the smallest preference that matters.

    Of a pair, the statements are about its first ranker, which is the candidate if there is a control.
    """

    BROKEN = "broken", "a health check failed"
    GUARDRAIL = "guardrail", "a guardrail is broken: an arm does more harm than is acceptable"
    DISAGREE = "disagree", "people and visits prefer different rankers"
    ALIKE = "alike", "the interval lies between -d and +d"
    PREFERRED = "preferred", "the interval is above 0"
    WORSE = "worse", "the interval is below 0: people prefer the control"
    NO_WORSE = "no_worse", "the interval is above -d: the candidate may be worse, but by less than the margin"
    NO_BEST = "no_best", "only one of many rankers is left, but it is not shown that none of the others is better"
    UNDECIDED = "undecided", "none of the above is shown yet"


class UndecidedCode(Code):
    """Why no ranker is preferred to another."""

    NO_LISTS = "no_lists", "the log has no interleaved lists"
    NO_EVENTS = "no_events", "there are no events yet"
    EVENTS_UNMATCHED = "events_unmatched", "events came, and none matches a list"
    EVENTS_ELSEWHERE = "events_elsewhere", "all events that count are on other arms"
    EVENTS_NOT_COUNTED = "events_not_counted", "events came, and none counts"
    EVENTS_UNUSABLE = "events_unusable", "no event can be read"
    NO_PREFERENCE = "no_preference", "all scores are 0"
    TOO_UNIFORM = "too_uniform", "all lists with a preference favour one ranker, so there is no interval"
    TOO_EARLY = "too_early", "there is no interval yet"
    NOT_SHOWN = "not_shown", "the interval contains 0"


class GuardrailCode(Code):
    """What a guardrail shows; harm is the difference to the other arm, in the direction that is worse."""

    OK = "ok", "the interval of the harm is below the margin"
    BROKEN = "broken", "the interval of the harm is above the margin"
    UNDECIDED = "undecided", "the interval contains the margin, or there is none yet"
    UNKNOWN = "unknown", "there are no arms to compare, or no data for this metric"


class TableColumn(NamedTuple):
    """How tables show a field: the title, how it is written, in which tables, and the fields in the same cell.

    `{interval}` in a title is the name of the report's intervals, `{units}` is `units` or `buckets`, and `{counted}`
    has words for wins and losses that are counted by the drawn owners.
    """

    title: str
    write: Callable[..., str]
    tables: tuple[str, ...]
    names: tuple[str, ...]

    def cell(self, comparison: Comparison) -> str | None:
        """The text of a cell; None if a field is None."""
        values = [getattr(comparison, name) for name in self.names]
        return None if None in values else self.write(*values)


def column(
    title: str, write: Callable[..., str], *tables: str, beside: tuple[str, ...] = (), default: Any = None
) -> Any:
    """Declare a field of a comparison, with its column in these tables; JSON and Arrow have every field."""
    return field(default=default, metadata={"column": (title, write, tables, beside)})


def columns_of(kind: type[Comparison], table: str) -> list[TableColumn]:
    """The columns of a table, in the order of the fields.

    >>> [column.title for column in columns_of(Comparison, BRIEF)]
    ['estimate', '{interval}', 'adjusted p', 'wins / ties / losses{counted}', 'units']
    """
    every = [(one.name, one.metadata["column"]) for one in fields(kind) if "column" in one.metadata]
    columns = [TableColumn(title, write, tables, (name, *beside)) for name, (title, write, tables, beside) in every]
    return [column for column in columns if table in column.tables]


@dataclass(frozen=True)
class Check:
    """The result of a health check: `ok`, `warning`, `failed`, or `skipped` if the log does not have the data for it.

    `figure` is a sentence with its numbers, `remedy` says what to do. `code` stays the same in later versions; names
    may change, and may name rankers.
    """

    name: str
    status: str
    figure: str
    remedy: str = ""
    code: str = ""


@dataclass(frozen=True)
class Comparison:
    """One pair of rankers, `first` over `second`: an estimate above 0 says that people prefer the first.

    `estimate` is the mean of unit means, each weighted by the unit's impressions with an event, up to a limit of 5 to
    40 that grows with the number of units; `per_person` counts each unit once, `per_search` each impression once.
    Intervals and p-values follow the rule of the report. `adjusted_p_value` is corrected for all pairs of the report;
    `interval` excludes zero exactly if it is small enough. Tests for one look are None unless that is the rule.
    `is_uniform`: there is no interval because all lists have the same preference.
    `statements` are the codes (`VerdictCode`) that hold for the first ranker. `chance_decided` is the probability that
    a preference is shown, or that the rankers are shown to be alike, when the planned units have come, if the true
    preference is today's estimate. `delta` is C12's: (wins + ties / 2) / (wins + losses + ties) - 1/2. `counted_by`
    says what wins, ties and losses, `delta` and `sign_test_p_value` are counted by: `score`, the sign of each score;
    `drawn_owners`, the scheme `binary_deduped`, if credit is averaged over owners; empty, if they are None.
    """

    first: str
    second: str
    estimate: float | None = column("estimate", format_signed, BRIEF, MAIN, BY_SEGMENT)
    error: float | None = column("standard error", digits, OTHER)
    interval: Interval | None = column("{interval}", span, BRIEF, MAIN, BY_SEGMENT)
    p_value: float | None = column("p", probability, MAIN)
    adjusted_p_value: float | None = column("adjusted p", probability, BRIEF, MAIN, BY_SEGMENT)
    per_person_estimate: float | None = column("per person", format_signed, MAIN)
    per_person_interval: Interval | None = column("interval per person", span, OTHER)
    per_search_estimate: float | None = column("per search", format_signed, MAIN)
    per_search_interval: Interval | None = column("interval per search", span, OTHER)
    people_and_visits_disagree: bool = False
    is_uniform: bool = False
    statements: tuple[str, ...] = column("shows", join_by_space, MAIN, default=())
    chance_decided: float | None = column("chance of a decision", share, OTHER)
    bootstrap_interval: Interval | None = column("bootstrap interval", span, OTHER)
    sign_flip_p_value: float | None = column("sign-flip p", probability, OTHER)
    delta: float | None = column("Delta{counted}", format_signed, OTHER)
    wins: int | None = column("wins / ties / losses{counted}", join_by_slash, BRIEF, MAIN, beside=("ties", "losses"))
    losses: int | None = None
    ties: int | None = None
    counted_by: str = ""
    sign_test_p_value: float | None = column("sign test{counted}, p", probability, OTHER)
    unit_wins: int | None = column("{units} won / lost", join_by_slash, OTHER, beside=("unit_losses",))
    unit_losses: int | None = None
    unit_sign_test_p_value: float | None = column("sign test of {units}, p", probability, OTHER)
    unit_sign_test_of: str = "units"
    z_score: float | None = column("z", digits, OTHER)
    z_score_per_query: float | None = column("z per query", digits, OTHER)
    impressions: int = column("impressions", count, OTHER, default=0)
    clicked: int = column("with an event", count, MAIN, BY_SEGMENT, default=0)
    units: int | None = column("units", count, BRIEF, MAIN)
    effective_units: float | None = column("effective units", count, OTHER)
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def by_owners(self) -> str:
        """Words for wins and losses that are counted by the drawn owners; empty if the scores are counted."""
        return ", by drawn owners" if self.counted_by == DRAWN_OWNERS else ""

    @property
    def winner(self) -> str | None:
        """The preferred ranker, if the interval excludes zero and people and visits do not disagree."""
        if self.interval is None or self.people_and_visits_disagree:
            return None
        low, high = self.interval
        return self.first if low > 0 else self.second if high < 0 else None

    @property
    def loser(self) -> str | None:
        """The other ranker, if there is a winner."""
        return None if self.winner is None else self.second if self.winner == self.first else self.first

    @property
    def unanimous(self) -> str | None:
        """The ranker that all lists favour, if they are so uniform that no interval can be computed."""
        if not self.estimate or not self.is_uniform:
            return None
        if self.losses if self.estimate > 0 else self.wins:
            return None
        return self.first if self.estimate > 0 else self.second


@dataclass(frozen=True)
class SegmentComparison(Comparison):
    """A pair in one segment.

    `shrunken_estimate` is moved towards the mean of the attribute's segments; the less they differ, the more.
    `smallest_effect` is the effect that a segment of this size detects in 80 % of experiments. `differs_p_value`,
    adjusted over all segments, tests the difference to the other segments of the attribute.
    """

    shrunken_estimate: float | None = column("shrunken", format_signed, BY_SEGMENT)
    smallest_effect: float | None = column("smallest effect", format_signed, BY_SEGMENT)
    differs_p_value: float | None = column("differs, adjusted p", probability, BY_SEGMENT)


@dataclass(frozen=True)
class Strength:
    """A ranker among many: Copeland score (pairs won minus pairs lost), Bradley-Terry strength with interval."""

    ranker: str
    copeland: int
    strength: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True)
class Standing:
    """Many rankers: the one that beats all others (Condorcet), their order, and every cycle."""

    condorcet: str | None
    strengths: tuple[Strength, ...]
    cycles: tuple[tuple[str, ...], ...]
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Metric:
    """An absolute metric of one arm, and its difference to the report's `baseline` arm, clustered by unit."""

    name: str
    value: float | None
    difference: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class ReportArm:
    """One arm of the experiment: interleaved, holdout, fallback, or an A/B arm, with its absolute metrics."""

    name: str
    impressions: int
    clicked: int
    units: int | None
    metrics: tuple[Metric, ...] = ()


@dataclass(frozen=True)
class Guardrail:
    """A metric of an arm compared with that of the arm `base`: does it do more harm than the margin?

    `harm` is the difference between the two arms, above 0 if the arm is worse, with its interval by the rule of the
    report. It is not corrected for other metrics. `code` is a `GuardrailCode`.
    """

    metric: str
    margin: float
    code: str
    arm: str | None = None
    base: str | None = None
    value: float | None = None
    base_value: float | None = None
    harm: float | None = None
    interval: Interval | None = None
    reason: str = ""


@dataclass(frozen=True)
class Slot:
    """A position of the shown list and one ranker: its share of the owned slots, and the expected share."""

    position: int
    ranker: str
    share: float
    expected: float
    p_value: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Neutrality:
    """How much of a ranker the lists show, before any click. A document of several rankers counts for each.

    `documents_shown` is how many documents of its own first page a list has on average, `shown_first` the share of
    lists that begin with its top document, and `mean_reciprocal_rank` the mean of 1 / rank of the shown documents.
    `mean_characters` is the mean length of the texts that the ranker owns, if the log has lengths.
    """

    ranker: str
    documents_shown: float
    shown_first: float
    mean_reciprocal_rank: float | None
    mean_characters: float | None = None


@dataclass(frozen=True)
class Point:
    """A comparison at a point in time: estimate and interval of all data up to then."""

    time: datetime
    first: str
    second: str
    impressions: int
    estimate: float | None
    interval: Interval | None


@dataclass(frozen=True)
class Activity:
    """Units with a similar number of impressions with an event: their shares of units and of impressions.

    `estimate` is their mean score, for two rankers; it counts each unit once.
    """

    searches: str
    units: int
    share_of_units: float
    share_of_searches: float
    estimate: float | None = None


@dataclass(frozen=True)
class Segment:
    """One value of an attribute, with its own comparisons; p-values are adjusted over all segments."""

    attribute: str
    value: str
    impressions: int
    comparisons: tuple[SegmentComparison, ...]


@dataclass(frozen=True)
class Lift:
    """How many more clicks the first ranker's own list would get than the second's: 0.02 for 2 % more per search.

    `clicks_first` and `clicks_second` are the clicks per search if the ranker were live alone. `unseen_first` and
    `unseen_second` are the shares of what people would look at there that the interleaved lists never show; if one is
    above 5 %, `bounds` widen the interval by what these documents may change. The interval holds for one look. What is
    None has a `reason`, and `code` names it.
    """

    first: str
    second: str
    lift: float | None
    interval: Interval | None
    clicks_first: float | None
    clicks_second: float | None
    unseen_first: float | None
    unseen_second: float | None
    bounds: Interval | None = None
    reason: str = ""
    code: str = ""

    def is_loss_of(self, ranker: str | None) -> bool:
        """Whether this ranker is one of the two, and would surely get fewer clicks than the other."""
        low, high = self.bounds or self.interval or (-1.0, 1.0)
        return (ranker == self.first and high < 0) or (ranker == self.second and low > 0)


@dataclass(frozen=True)
class Verdict:
    """The answer in a sentence. Without a `winner`, no difference is shown. `why` lists failed health checks.

    `codes` are all `VerdictCode`s that apply, and `code` is the first of them. `next_step` says what to do now.
    `undecided_because` is an `UndecidedCode`, empty if the report states a preference, or that rankers are alike.
    `broken_guardrails` has a sentence for each broken guardrail; these do not change the winner.
    """

    sentence: str
    winner: str | None
    trusted: bool
    why: tuple[str, ...] = ()
    code: str = VerdictCode.UNDECIDED.value
    next_step: str = ""
    codes: tuple[str, ...] = ()
    broken_guardrails: tuple[str, ...] = ()
    undecided_because: str = ""


@dataclass(frozen=True)
class Totals:
    """The data of a report."""

    impressions: int
    clicked: int
    units: int
    units_are_exact: bool
    since: datetime | None
    until: datetime | None
    dropped: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportData:
    """All results of a report: the verdict, the health checks, and every number, or the reason why there is none.

    If events count by their values, `value_cap` is the largest total of a unit that counts, and `value_cut` the share
    of all value that it cuts off.
    """

    experiment: str
    version: int
    method: str
    scored_as: str
    scheme: str
    events: str
    rankers: tuple[str, ...]
    control: str | None
    confidence: float
    planned_units: int | None
    correction: str
    rule: str
    look: tuple[int, int] | None
    verdict: Verdict
    totals: Totals
    health: tuple[Check, ...]
    comparisons: tuple[Comparison, ...]
    standing: Standing | None = None
    arms: tuple[ReportArm, ...] = ()
    baseline: str | None = None
    slots: tuple[Slot, ...] = ()
    neutrality: tuple[Neutrality, ...] = ()
    over_time: tuple[Point, ...] = ()
    segments: tuple[Segment, ...] = ()
    activity: tuple[Activity, ...] = ()
    notes: tuple[str, ...] = ()
    note_codes: tuple[str, ...] = ()
    cluster: str = UNIT
    population: str = ""
    lifts: tuple[Lift, ...] = ()
    examination: tuple[Examination, ...] = ()
    margin: float | None = None
    value_cap: float | None = None
    value_cut: float | None = None
    guardrails: tuple[Guardrail, ...] = ()
    choice: ChoiceResult | None = None
