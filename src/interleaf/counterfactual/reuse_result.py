"""The comparison of new rankers on old impressions, as plain data, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from interleaf import plots
from interleaf.analysis.plan import Planned
from interleaf.counterfactual.estimators import WeightStatistics
from interleaf.log.drop_reasons import text_of
from interleaf.report.format import probability
from interleaf.stable_codes import Code, Note
from interleaf.stats.compare import Interval
from interleaf.tables import Cell, Table, escape, one_line


class ReuseWarning(Code):
    """What a comparison on old impressions warns of."""

    MANY_NOT_RANKED = (
        "many_not_ranked",
        "This result rests on {:,} of {:,} impressions. The other impressions are of queries that not all new rankers "
        "rank.",
    )
    RANKINGS_CHANGED = (
        "rankings_changed",
        "The rankings of {} changed within the log for {:,} of {:,} queries; the first ranking of each is used.",
    )
    PARTLY_SUPPORTED = (
        "partly_supported",
        "The log could have shown about {} %{} of the lists that the new rankers would show. It has no data on the "
        "others{}",
    )
    FEW_IMPRESSIONS = (
        "few_impressions",
        "Weighted estimates rest on {}: {:,} impressions carry as much information as {:,.1f} equally weighted ones{}",
    )
    ONE_IMPRESSION = "one_impression", "One impression has {:.0f} % of all weight."
    UNEVEN_WEIGHTS = (
        "uneven_weights",
        "Weights should average 1, but average {:.2g}: the old lists do not cover what the new rankers would show{}",
    )
    FEW_EVENTS = "few_events", "Only {:,} impressions have an event."
    UNSEEN_DOCUMENTS = (
        "unseen_documents",
        "{:.0f} % of the places in new lists hold documents that the log never shows for their query{}",
    )
    SPARSE_QUERIES = "sparse_queries", "{:.1f} impressions per query are few to fit a click model to."


@dataclass(frozen=True)
class PairEstimate:
    """One estimator on one pair: above 0, `first` is better than `second`. The interval is clustered by unit.

    `adjusted_p_value` is corrected for the number of pairs (Holm). `reason` says why a number is None, and `code` is
    its stable code.
    """

    estimator: str
    first: str
    second: str
    value: float | None
    error: float | None
    interval: Interval | None
    p_value: float | None
    adjusted_p_value: float | None
    reason: str = ""
    code: str = ""

    def winner(self, confidence: float) -> str | None:
        """The better ranker, if the difference is significant."""
        if self.value is None or self.adjusted_p_value is None or self.adjusted_p_value >= 1 - confidence:
            return None
        return self.first if self.value > 0 else self.second


@dataclass(frozen=True)
class ReuseResult:
    """New rankers compared on old impressions: each estimator on each pair, its weights, and plans of live experiments.

    `answers` are those of the best estimator, one per pair. `doubt` says why their intervals may contain the truth less
    often than `confidence` says. `known` is the share of places in new lists that hold a document which the old log
    shows for its query. `supported` is the share of the new rankers' lists that the log could have shown, None if
    its methods can show every list. `plans[(first, second)]` is a live experiment that can detect the estimated
    difference, or the reason why there is none.
    """

    rankers: tuple[str, ...]
    method: str
    scheme: str
    old_methods: Mapping[str, int]
    impressions: int
    clicked: int
    units: int
    confidence: float
    estimates: tuple[PairEstimate, ...]
    weights: Mapping[str, WeightStatistics]
    known: float | None
    supported: float | None
    supported_interval: Interval | None
    answers: tuple[PairEstimate, ...]
    doubt: str
    plans: Mapping[tuple[str, str], Planned | str]
    warnings: tuple[Note, ...]
    dropped: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values |= {name: [asdict(one) for one in getattr(self, name)] for name in ("estimates", "answers")}
        values |= {name: dict(getattr(self, name)) for name in ("old_methods", "dropped")}
        values["warnings"] = [warning.to_dict() for warning in self.warnings]
        values["weights"] = {name: asdict(one) for name, one in self.weights.items()}
        values["plans"] = [
            {"first": first, "second": second}
            | (plan.to_dict() | {"reason": ""} if isinstance(plan, Planned) else {"units": None, "reason": plan})
            for (first, second), plan in self.plans.items()
        ]
        return values

    def __str__(self) -> str:
        tables = [str(table) for table in self.tables]
        return "\n\n".join([*self.answer, self._basis, *self._warning_texts, *tables, *self._plans, *self._drop_lines])

    def to_markdown(self) -> str:
        """A Markdown page: the answer, the warnings, the tables, and the plan."""
        words = [escape(text) for text in (*self.answer, self._basis, *self._warning_texts)]
        tables = [table.to_markdown() for table in self.tables]
        parts = ["# Old impressions for new rankers", *words, *tables, *map(escape, (*self._plans, *self._drop_lines))]
        return "\n\n".join(parts) + "\n"

    @property
    def _warning_texts(self) -> list[str]:
        return [warning.text for warning in self.warnings]

    @property
    def answer(self) -> list[str]:
        return [one_line(_answer_sentence(one, self)) for one in self.answers]

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self._estimates, self._weights)

    def chart(self) -> dict[str, Any]:
        """Every estimate with its interval; drawing needs the extra `plots`."""
        several = len(self.answers) > 1
        axis = "estimate" if several else f"{self.rankers[0]} over {self.rankers[1]}"
        rows = [
            {
                "estimator": f"{one.estimator}\n{one.first} over {one.second}" if several else one.estimator,
                axis: one.value,
                "low": one.interval[0],
                "high": one.interval[1],
            }
            for one in self.estimates
            if one.interval is not None
        ]
        return plots.intervals(rows, "estimator", axis, ("low", "high"))

    @property
    def _estimates(self) -> Table:
        rows: list[tuple[Cell, ...]] = []
        for one in self.estimates:
            interval = None if one.interval is None else " to ".join(map(_format_effect, one.interval))
            p_value = None if one.adjusted_p_value is None else probability(one.adjusted_p_value)
            pair = f"{one.first} over {one.second}"
            value = None if one.value is None else _format_effect(one.value)
            rows.append((one.estimator, pair, value, interval, p_value, one.reason or None))
        interval = f"{100 * self.confidence:g} % interval"
        columns = ("estimator", "pair", "estimate", interval, "adjusted p", "why no interval")
        return Table("estimates", "Estimates", columns, tuple(rows), columns[2:5])

    @property
    def _weights(self) -> Table:
        rows: list[tuple[Cell, ...]] = [
            (
                name,
                _percent(one.usable),
                f"{one.effective:,.1f}",
                None if one.mean is None else f"{one.mean:.3g}",
                f"{one.largest:.3g}",
                _percent(one.largest_share),
                _percent(one.clipped),
            )
            for name, one in self.weights.items()
        ]
        figures = ("usable", "effective sample size", "mean weight", "largest", "its share of all", "clipped away")
        title = f"Data behind each estimate, of {self.impressions:,} impressions"
        return Table("weights", title, ("estimator", *figures), tuple(rows), figures)

    @property
    def _basis(self) -> str:
        methods = ", ".join(f"{count:,} by {method}" for method, count in self.old_methods.items())
        return one_line(
            f"From {self.impressions:,} old impressions ({methods}) of {self.units:,} units, {self.clicked:,} with an "
            f"event; new rankers as compared by {self.method}, scheme {self.scheme}."
        )

    @property
    def _plans(self) -> list[str]:
        undecided = {(one.first, one.second) for one in self.answers if one.winner(self.confidence) is None}
        sentences = []
        for (first, second), plan in self.plans.items():
            is_sure = isinstance(plan, str) or (first, second) not in undecided
            condition = "" if is_sure else ", if the preference is as large as this uncertain estimate"
            sentences.append(one_line(f"In a live experiment, {first} against {second}{condition}: ") + str(plan))
        return sentences

    @property
    def _drop_lines(self) -> list[str]:
        reasons = [f"{count:,} {one_line(text_of(reason))}" for reason, count in self.dropped.items()]
        return [f"Not used: {'; '.join(reasons)}."] if reasons else []


def _answer_sentence(one: PairEstimate, result: ReuseResult) -> str:
    pair = f"{one.first} and {one.second}"
    if one.value is None:
        return f"Nothing can be said of {pair}: {one.reason}."
    if one.interval is None and result.supported is not None:
        return f"This log does not show which of {pair} people would prefer: {one.reason}."
    if one.interval is None:
        return f"{pair}: {one.value:+.3f} by {one.estimator}, and no interval: {one.reason}."
    span = f"between {_format_effect(one.interval[0])} and {_format_effect(one.interval[1])} {_sureness(one, result)}"
    winner = one.winner(result.confidence)
    if result.supported is not None:
        span = f"{one.first} over {one.second} lies {span}"
        if winner is None:
            return f"This log does not show which of {pair} people would prefer: {span}."
    elif winner is None:
        return f"The old impressions show no significant difference between {pair}: {one.value:+.3f}, {span}."
    else:
        span = f"{one.first} over {one.second} is {one.value:+.3f}, {span}"
    return f"People would prefer {winner} to {one.second if winner == one.first else one.first}: {span}."


def _sureness(one: PairEstimate, result: ReuseResult) -> str:
    """The confidence, the estimator, and the number of pairs, in words."""
    sure, many = f"{100 * result.confidence:g} % confidence", len(result.answers)
    how = f"by {one.estimator}, for random error alone: {result.doubt} for {sure}" if result.doubt else ""
    how = how or f"with {sure}, by {one.estimator}"
    return how if many == 1 else f"{how} (an interval of this pair alone; who wins is decided over all {many}, by Holm)"


def _format_effect(value: float) -> str:
    return f"{value:+.3f}" if abs(value) < 1e5 else f"{value:+.3g}"


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.3g} %"
