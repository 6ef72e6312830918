"""The settings of an experiment: one table that defines the checks, the API schema and the dashboard's forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from msgspec import Meta

from interleaf.errors import ExperimentError, InterleafError, join_names, suggest
from interleaf.experiment.choose import ALGORITHM_NAMES, DOUBLE_THOMPSON, MAX_CHOSEN, MAX_MIXED, check_choice
from interleaf.experiment.guardrail_margins import GuardrailMargins, check_guardrails
from interleaf.experiment.limits import MAX_K
from interleaf.log.schema import FALLBACK, HOLDOUT, INTERLEAVED
from interleaf.methods.registry import DEFAULT, ONE_LIST, ResolvedMethod, methods, resolve
from interleaf.methods.schemes import scheme_of
from interleaf.plain_data import Label, Line, Name, convert, declare, each_once, fields_of, one_of
from interleaf.stats.power import MARGIN

COMPARE, CHOOSE, AA, RELABELLED, LOSER = "compare", "choose", "aa", "aa_relabelled", "known_loser"
MODES = (COMPARE, CHOOSE, ONE_LIST, AA, RELABELLED, LOSER)
SAME, LAST, EVERY, MOST_SHOWN = "same_impression", "last_impression", "every_impression", "most_shown"
ATTRIBUTIONS = (SAME, LAST, EVERY, MOST_SHOWN)
MAX_RANKERS = 100
NEW = "new"
STOP_DECIDED, STOP_ALIKE, STOP_BROKEN, STOP_BUDGET, STOP_GUARDRAIL = "decided", "alike", "broken", "budget", "guardrail"
STOP_RULES = (STOP_DECIDED, STOP_ALIKE, STOP_BROKEN, STOP_GUARDRAIL, STOP_BUDGET)
AA_SCHEME, AA_VALUE_SCHEME, WEIGHTED, VALUE_OF = "binary", "click", "weighted", "value of "
# The default method of an A/A test: chance gives each of its documents an owner, also where the rankings are identical.
AA_METHOD = next(row.name for row in methods() if AA_SCHEME in row.rankless_schemes)
NOTES = ("owner", "hypothesis", "description", "tags")
EDITABLE = (*NOTES, "stop_when", "max_units")  # they change no list and no number: they can always be edited


def _check_kinds(weights: Mapping[str, float]) -> Mapping[str, float]:
    for kind in weights:
        convert(kind, Label)
    if any("=" in kind or "," in kind or kind[0] == "-" for kind in weights):
        raise ValueError("leave '=', ',' and a leading '-' out of kinds: they cannot be given on a command line")
    if not any(weights.values()):
        raise ValueError("give at least one of them a weight other than 0")
    return weights


def _clean_lines(text: str) -> str:
    """A text of several lines, which may be empty."""
    text = text.replace("\r\n", "\n")
    if not all(line.replace("\t", " ").isprintable() for line in text.split("\n")):
        raise ValueError("remove control characters and other invisible characters")
    return text


EventWeights = Annotated[
    Mapping[str, Annotated[float, Meta(ge=-1e6, le=1e6)]],
    Meta(min_length=1, max_length=20),
    'give 1 to 20 kinds of events, each with a number from -1,000,000 to 1,000,000, such as {"click": 1.0}',
    _check_kinds,
]
Value = Annotated[float, Meta(ge=1e-6, le=1e11)]
Units = Annotated[int, Meta(ge=1, le=10**9)]
StopRule = Annotated[str, one_of(STOP_RULES)]


@dataclass(frozen=True)
class Experiment:
    """The settings of an experiment: rankers, method, events and limits. They are frozen while it runs.

    >>> Experiment.of({"name": "shoes", "rankers": ["production", "candidate"]}).control
    'production'
    """

    name: Name = declare("name of the experiment, in addresses and logs", label="Name")
    rankers: Annotated[tuple[Label, ...], each_once(2, MAX_CHOSEN)] = declare(
        "names of the rankers that are compared", label="Rankers"
    )
    control: Line = declare("the ranker that users see without the experiment", "", "Control ranker")
    method: Line = declare("how rankings are mixed: a method with its parameters", DEFAULT, "Interleaving method")
    scheme: Line | None = declare("how clicks become a score; null: the method's own", None, "Credit scheme")
    k: Annotated[int, Meta(ge=1, le=MAX_K)] = declare("how many results a page shows", 10, "Results per page")
    share: Annotated[float, Meta(ge=0.0001, le=1)] = declare("share of units that take part", 1.0, "Share of units")
    lane: Name | None = declare("experiments in the same lane never share a user", None, "Lane")
    offset: Annotated[float, Meta(ge=0, le=1)] | None = declare(
        "start of this experiment's share within the lane (0 to 1); null: the first free place when it is started",
        None,
        "Start within the lane",
    )
    holdout: Annotated[float, Meta(ge=0, le=0.9)] = declare(
        "share of these units that see the control unchanged", 0.0, "Holdout share"
    )
    events: EventWeights = declare("kinds of events that count, with weights", {"click": 1.0}, "Events and weights")
    browser_events: Annotated[tuple[Label, ...], each_once(0, 20)] = declare(
        "kinds of events that browsers may send with the token of an impression", ("click",), "Events from browsers"
    )
    values: Annotated[tuple[Label, ...], each_once(0, 20)] = declare(
        "kinds of events whose value, such as revenue, is a metric of its own", (), "Events with a value"
    )
    value_cap: Value | None = declare(
        "the total value of a unit counts up to this; give the cap that interleaf plan --values proposes; null: the "
        "99th percentile so far, but it moves, and how often a verdict that people watch is then wrong is not measured",
        None,
        "Largest value of a unit",
    )
    primary: Annotated[str, Meta(min_length=1, max_length=120)] = declare(
        "what the verdict is based on: a kind of event, or 'value of' a kind", "click", "Primary metric"
    )
    attribution: Annotated[str, one_of(ATTRIBUTIONS)] = declare(
        "which impression gets an event that names only its unit and document", SAME, "Events without an impression"
    )
    window_minutes: Annotated[float, Meta(ge=0.01, le=43_200)] = declare(
        "how long after an impression its events count", 30.0, "Attribution window in minutes"
    )
    planned_units: Units | None = declare("planned number of units; null: no plan", None, "Planned units")
    confidence: Annotated[float, Meta(ge=0.5, le=0.9999)] = declare(
        "confidence level of intervals", 0.95, "Confidence level"
    )
    margin: Annotated[float, Meta(ge=1e-6, le=1e6)] = declare(
        "smallest preference that matters; rankers are alike if the interval of their difference lies within it",
        MARGIN,
        "Margin",
    )
    stop_when: Annotated[tuple[StopRule, ...], each_once(0, len(STOP_RULES))] = declare(
        "rules that stop it: the verdict is a preference (decided), or that the rankers are alike (alike), a health "
        "check failed (broken), a guardrail is broken (guardrail), or the maximum number of units took part (budget)",
        (),
        "Stop automatically when",
    )
    max_units: Units | None = declare(
        "number of units after which the rule 'budget' stops it; null: no budget", None, "Maximum units"
    )
    value_margin: Value | None = declare(
        "smallest value difference that matters, per person with an event; null: rankers are never alike by values",
        None,
        "Margin of values",
    )
    guardrails: GuardrailMargins = declare(
        "metrics of interleaved lists against the holdout, or of the arms of an A/B test, each with the largest harm "
        "that is acceptable, in its own unit",
        {},
        "Guardrails",
    )
    mode: Annotated[str, one_of(MODES)] = declare(
        "a comparison in mixed lists or with one ranker's list per unit, the choice of the best of many rankers, or a "
        "check that the set-up can be trusted",
        COMPARE,
        "Purpose",
    )
    epoch_minutes: Annotated[float, Meta(ge=0.01, le=10_080)] = declare(
        "to choose the best of many: how long the rankers and their shares stay the same, such as 60 or 1440",
        60.0,
        "Length of an epoch in minutes",
    )
    algorithm: Annotated[str, one_of(ALGORITHM_NAMES)] = declare(
        "to choose the best of many: how the rankers of an epoch are chosen from the results so far",
        DOUBLE_THOMPSON,
        "Algorithm of the choice",
    )
    max_mixed: Annotated[int, Meta(ge=2, le=MAX_MIXED)] = declare(
        "to choose the best of many: how many rankers are mixed into one list at most", 2, "Maximum rankers in a list"
    )
    planned_days: Annotated[float, Meta(ge=0.001, le=3650)] | None = declare(
        "to choose the best of many: how long it should run; null: no plan", None, "Planned days"
    )
    by: Annotated[tuple[Label, ...], each_once(0, 10)] = declare(
        "attributes that the report is split by", (), "Segments"
    )
    bot_agents: Annotated[tuple[Line, ...], each_once(0, 100)] = declare(
        "impressions do not count if the user agent contains one of these; case is ignored", (), "User agents of bots"
    )
    bot_units: Annotated[tuple[Line, ...], each_once(0, 1000)] = declare(
        "units whose impressions do not count", (), "Units to leave out"
    )
    bot_rate: Annotated[int, Meta(ge=1, le=10**6)] | None = declare(
        "further impressions of a unit within an hour do not count", None, "Maximum impressions of a unit per hour"
    )
    bot_clicks: Annotated[int, Meta(ge=2, le=MAX_K)] | None = declare(
        "an impression with at least this many results does not count if all of them are clicked",
        None,
        "Results clicked only by bots",
    )
    owner: Annotated[str, Meta(min_length=0, max_length=200)] = declare(
        "person or team responsible for it", "", "Owner"
    )
    hypothesis: Annotated[str, Meta(max_length=2000), _clean_lines] = declare(
        "what you expect to see, and why", "", "Hypothesis"
    )
    description: Annotated[str, Meta(max_length=5000), _clean_lines] = declare(
        "what others should know about it", "", "Description"
    )
    tags: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=50)], ...], each_once(0, 20)] = declare(
        "words to find it by", (), "Tags"
    )

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Experiment:
        """An experiment from plain data; values are checked, and defaults filled in."""
        if not isinstance(data, Mapping):
            raise ExperimentError("experiment", data, "give an object of settings")
        for name in data:
            if name not in SETTINGS:
                remedy = f"there is no such setting; there are {suggest(str(name)[:100], SETTINGS)}"
                raise ExperimentError(str(name)[:100], None, remedy)
        values = {}
        for name, setting in SETTINGS.items():
            if name in data:
                try:
                    values[name] = setting.check(data[name])
                except ValueError as remedy:
                    raise ExperimentError(name, data[name], str(remedy)) from None
            elif setting.make_default is None:
                raise ExperimentError(name, None, f"it is required: {setting.meaning}")
        if values.get("mode") == AA:
            values.setdefault("method", AA_METHOD)
        return cls(**values)

    def __post_init__(self) -> None:
        """Check settings that depend on each other."""
        self._check_names()
        self._check_method()
        self._check_events()
        self._check_traffic()
        self._check_margins()
        self._check_stop_rules()

    def _check_names(self) -> None:
        """Check the names; the control is the first ranker by default."""
        if self.name == NEW:
            raise ExperimentError("name", self.name, "the page that creates experiments has this name; give another")
        if not self.control:
            object.__setattr__(self, "control", self.rankers[0])
        if self.control not in self.rankers:
            raise ExperimentError("control", self.control, f"give one of the rankers, {join_names(self.rankers)}")

    def _check_method(self) -> None:
        """Check method, scheme and rankers, and write the method with its parameters."""
        try:
            chosen = resolve(self.method)
        except InterleafError as error:
            raise ExperimentError("method", self.method, str(error)) from None
        if ONE_LIST in (self.mode, chosen.text):
            self._check_one_list(chosen.text)
            chosen = resolve(ONE_LIST)
        object.__setattr__(self, "method", chosen.text)
        least, most = chosen.rankers
        check_choice(self, self.mode == CHOOSE)
        if self.mode != CHOOSE and not least <= len(self.rankers) <= (most or MAX_RANKERS):
            raise ExperimentError("rankers", self.rankers, f"{self.method} compares {least} to {most or MAX_RANKERS}")
        try:
            if self.mode != ONE_LIST:
                chosen.scheme(self.scheme, self.rankers_per_list)
        except InterleafError as error:
            setting = "scheme" if self.scheme else "method"
            raise ExperimentError(setting, getattr(self, setting), str(error)) from None
        if self.mode == AA and AA_SCHEME not in chosen.method.rankless_schemes:
            remedy = f"with {self.method}, identical rankings always tie; give {RELABELLED!r}, or method {AA_METHOD!r}"
            raise ExperimentError("mode", self.mode, remedy)

    def _check_events(self) -> None:
        """Check the kinds of events, those with a value, and the primary metric."""
        if WEIGHTED in self.events:
            remedy = "this is the name of the sum of all kinds; give this kind another"
            raise ExperimentError("events", WEIGHTED, remedy)
        if unknown := [kind for kind in self.values if kind not in self.events]:
            remedy = f"give kinds of events that count, such as {join_names(self.events)}"
            raise ExperimentError("values", unknown[0], remedy)
        for kind in self.events:
            if kind.startswith(VALUE_OF):
                raise ExperimentError("events", kind, f"metrics of values begin with {VALUE_OF!r}; rename this kind")
        offered = self.resolved_method.method.schemes_for(self.rankers_per_list)
        if self.values and self.mode != ONE_LIST and not any(scheme_of(name).form.adds_up for name in offered):
            raise ExperimentError(
                "values", self.values, f"{self.method} has no scheme that adds up clicks; use another"
            )
        for setting in ("value_cap", "value_margin"):
            if (value := getattr(self, setting)) is not None and not self.values:
                remedy = "it is for metrics of values; name the kinds of events with a value (values), or leave it out"
                raise ExperimentError(setting, value, remedy)
        if self.primary not in self.metrics:
            raise ExperimentError("primary", self.primary, f"give one of the metrics, {join_names(self.metrics)}")

    def _check_traffic(self) -> None:
        """Check which units take part, and how many."""
        if self.offset is not None and self.offset + self.share > 1 + 1e-9:
            raise ExperimentError("offset", self.offset, f"a share of {self.share:g} ends beyond 1 from there")
        if self.planned_units is not None and self.planned_units < len(self.rankers):
            remedy = f"there are {len(self.rankers)} rankers; plan for many more units than rankers (interleaf plan)"
            raise ExperimentError("planned_units", self.planned_units, remedy)

    def _check_margins(self) -> None:
        """Check the margin, and the guardrails."""
        method, name = self.resolved_method, self.scheme_of(WEIGHTED)
        scheme = None if self.mode == ONE_LIST else method.scheme(name, self.rankers_per_list)
        if scheme is not None and not scheme.form.linear and self.margin >= 1:
            remedy = f"by the scheme {scheme.name!r} a preference is at most 1, so all rankers would be alike; give a "
            raise ExperimentError("margin", self.margin, f"{remedy}number below 1, such as {MARGIN:g}")
        check_guardrails(self)

    def _check_stop_rules(self) -> None:
        """Check that each stop rule has what it needs."""
        if (STOP_BUDGET in self.stop_when) != (self.max_units is not None):
            remedy = f"the rule {STOP_BUDGET!r} of stop_when and max_units need each other; give both, or neither"
            raise ExperimentError("max_units", self.max_units, remedy)
        if STOP_GUARDRAIL in self.stop_when and not self.guardrails:
            remedy = f"the rule {STOP_GUARDRAIL!r} needs guardrails, such as {{'abandonment': 0.02}}"
            raise ExperimentError("stop_when", list(self.stop_when), remedy)
        if STOP_ALIKE in self.stop_when and self.counts_values(self.primary) and self.value_margin is None:
            remedy = f"the rule {STOP_ALIKE!r} needs a margin of {self.primary!r}; give value_margin, the smallest "
            raise ExperimentError("value_margin", None, f"{remedy}difference that matters, or leave out the rule")

    def _check_one_list(self, method: str) -> None:
        """Check an experiment in which each unit sees the list of one ranker."""
        if self.mode != ONE_LIST:
            raise ExperimentError("mode", self.mode, f"the method {ONE_LIST} needs the mode {ONE_LIST!r}")
        if method not in (DEFAULT, ONE_LIST):
            raise ExperimentError("method", method, f"the mode {ONE_LIST!r} mixes no lists; leave the method out")
        if self.scheme is not None:
            raise ExperimentError("scheme", self.scheme, f"the mode {ONE_LIST!r} counts clicks; leave the scheme out")
        for ranker in self.rankers:
            if ranker in (INTERLEAVED, HOLDOUT, FALLBACK):
                remedy = (
                    f"in the mode {ONE_LIST!r} arms are named after rankers, and {ranker!r} is another arm; rename it"
                )
                raise ExperimentError("rankers", self.rankers, remedy)

    @cached_property
    def resolved_method(self) -> ResolvedMethod:
        """The method, resolved."""
        return resolve(self.method)

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """The metrics of a report with the weights of their events, the primary one first, the sum of all kinds last.

        >>> weights = {"click": 1.0, "purchase": 5.0}
        >>> list(Experiment.of({"name": "shoes", "rankers": ["old", "new"], "events": weights}).metrics)
        ['click', 'purchase', 'weighted']
        """
        single = {kind: {kind: 1.0} for kind in self.events} | {
            f"{VALUE_OF}{kind}": {kind: 1.0} for kind in self.values
        }
        in_order = {name: single[name] for name in sorted(single, key=lambda name: name != self.primary)}
        return in_order | {WEIGHTED: dict(self.events)} if len(self.events) > 1 else in_order

    def counts_values(self, metric: str) -> bool:
        """Whether the events of a metric count by their values."""
        return metric.startswith(VALUE_OF)

    def secondary(self, metric: str) -> int:
        """How many metrics there are beside the primary one; 0 for the primary one itself."""
        return 0 if metric == self.primary else len(self.metrics) - 1

    @property
    def rankers_per_list(self) -> int:
        """How many rankers are mixed into one list, at most."""
        return min(self.max_mixed, len(self.rankers)) if self.mode == CHOOSE else len(self.rankers)

    @property
    def window(self) -> int:
        """The attribution window in microseconds."""
        return round(self.window_minutes * 60 * 1_000_000)

    @property
    def needed_rankers(self) -> tuple[str, ...]:
        """Rankers whose rankings are required to mix: some checks of the set-up need only the control's."""
        return (self.control,) if self.mode in (AA, LOSER) else self.rankers

    def scheme_of(self, metric: str) -> str | None:
        """The scheme of a report; None for the default one. For an A/A test it is plain ownership.

        In an A/A test, identical rankings tie in all other schemes. Values need a scheme that adds up clicks.
        """
        if not self.counts_values(metric):
            return AA_SCHEME if self.mode == AA else self.scheme
        if self.mode == AA:
            return AA_VALUE_SCHEME
        return self.scheme if self.scheme is not None and scheme_of(self.scheme).form.adds_up else None

    @property
    def words(self) -> str:
        """The text that searches look in, in lower case: name, rankers and notes.

        >>> Experiment.of({"name": "shoes", "rankers": ["old", "new"], "tags": ["Q3"], "owner": "Ann"}).words
        'shoes old new ann q3'
        """
        parts = (self.name, *self.rankers, self.owner, self.hypothesis, self.description, *self.tags)
        return " ".join(part for part in parts if part).casefold()

    def needs_new_version(self, other: Experiment) -> bool:
        """Whether a setting differs that changes lists or numbers."""
        return any(getattr(self, name) != getattr(other, name) for name in SETTINGS if name not in EDITABLE)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; `of` reads it back."""
        plain = {name: getattr(self, name) for name in SETTINGS}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


SETTINGS = fields_of(Experiment)
