"""Builds the report of a tally: comparisons, health checks and a verdict.

To add a health check, declare a function with its code in a module of checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from interleaf.errors import DataError, join_names, raise_errors, suggest
from interleaf.execution.collector import LEFT_OUT, MAX_EXAMPLES
from interleaf.log.drop_reasons import text_of
from interleaf.methods.registry import ONE_LIST, resolve
from interleaf.methods.schemes import CROSS_FITTED, LEARNED
from interleaf.report import effect_checks, list_checks, log_checks, traffic_checks
from interleaf.report.arms import ONE_LIST_MEANING, arms, baseline, compare_lists
from interleaf.report.choice import add_choice, find_unavailable
from interleaf.report.codes import CheckCode, CheckInput, FindText, HealthCheck, NoteCode
from interleaf.report.comparisons import ComparisonResult, RankerPairs, compare_pairs, over_time, segments, time_of
from interleaf.report.guardrails import add_broken, check_guardrails
from interleaf.report.list_checks import neutrality, slots
from interleaf.report.model import DRAWN_OWNERS, UNIT, UNIT_AND_QUERY, Check, Standing, Strength, Totals
from interleaf.report.outcomes import counted_by, lifts, say_left_out
from interleaf.report.report import Report
from interleaf.report.rule import POPULATIONS, ReportSettings, without_stalled_plan
from interleaf.report.verdict import verdict
from interleaf.report.weights import ValueCap, activity
from interleaf.stats import compare, ranking
from interleaf.stats.power import MARGIN
from interleaf.tables import percent
from interleaf.tally import Fact, Tally
from interleaf.tally.bucket_sums import CLICKED, ONE

CHECKS = {
    value.code: value
    for module in (log_checks, traffic_checks, list_checks, effect_checks)
    for value in vars(module).values()
    if isinstance(value, HealthCheck)
}


def report(tally: Tally, settings: ReportSettings, find_text: FindText | None = None) -> Report:
    """The report of a tally; `find_text` returns the text of the query with a number."""
    if settings.margin is None and not tally.about.values:  # scores have one scale, values have any
        settings = replace(settings, margin=MARGIN)
    raise_errors(_find_problems(tally, settings))
    about, used = tally.about, without_stalled_plan(tally, settings)
    result = scored = compare_pairs(tally, used) if about.method else None
    if about.composed == ONE_LIST:
        result = compare_lists(tally, used)
    comparisons, cap = (result.comparisons, result.cap) if result else ((), None)
    active = activity(tally, int(scored.pairs.turn[0])) if scored and not cap else ()
    totals, shares = _totals(tally), slots(tally) if scored else ()
    checks = run_checks(CheckInput(tally, used, result, shares, find_text))
    counted = "value" if about.values else "clicks" if about.events == "click" else "events"
    counted = "" if scored or not result else counted
    is_by_unit = used.cluster == UNIT
    estimates, guardrails = lifts(tally, settings.confidence, comparisons), check_guardrails(tally, used)
    notes = (*_notes(tally, settings), *_rule_notes(settings, used), *_value_notes(cap, settings))
    if any(one.lift is not None for one in estimates.lifts) and (left_out := say_left_out(tally)):
        notes = (*notes, (NoteCode.LIFT_LEFT_OUT, left_out))
    built = Report(
        experiment=about.experiment,
        version=about.version,
        method=about.composed,
        scored_as=about.method,
        scheme=about.scheme,
        events=about.events,
        rankers=about.rankers,
        control=settings.control,
        confidence=settings.confidence,
        planned_units=settings.planned_units,
        correction=settings.correction,
        rule="anytime" if settings.look is None else "looks",
        look=settings.look,
        verdict=verdict(comparisons, checks, settings, totals, active, estimates.lifts, counted, cap and cap.cap / ONE),
        totals=totals,
        health=checks,
        comparisons=comparisons,
        standing=_standing(tally, scored, settings) if scored else None,
        arms=arms(tally, used),
        baseline=baseline(tally, settings),
        slots=shares,
        neutrality=neutrality(tally),
        over_time=over_time(tally, used, scored) if scored and is_by_unit else (),
        segments=segments(tally, used, scored) if scored and is_by_unit else (),
        activity=active,
        notes=tuple(text for _, text in notes),
        note_codes=tuple(code.value for code, _ in notes),
        cluster=settings.cluster,
        population=POPULATIONS[settings.cluster] if result and tally.queries.size else "",
        lifts=estimates.lifts,
        examination=estimates.examination,
        margin=settings.margin,
        value_cap=cap and cap.cap / ONE,
        value_cut=cap and cap.cut,
        guardrails=guardrails,
    )
    built = add_choice(built, tally.choice, settings) if tally.choice else built
    return replace(built, verdict=add_broken(built.verdict, guardrails, settings.control))


def _find_problems(tally: Tally, settings: ReportSettings) -> Iterator[DataError]:
    """What was asked for that this tally does not have."""
    about, start, margin = tally.about, settings.start_rankers, settings.margin
    names = (start or tally.choice.names) if tally.choice else about.rankers
    if tally.choice:
        yield from find_unavailable(settings)
    if start and about.rankers:
        yield DataError(
            f"start_rankers is {join_names(start)}, but the log is not of an experiment with mode choose; leave it out"
        )
    if tally.choice and start and (missing := sorted({*tally.choice.names} - {*start})):
        yield DataError(
            f"the log has lists of {join_names(missing)}; name all rankers at the start, also those that left"
        )
    if settings.control is not None and settings.control not in names:
        rankers = suggest(settings.control, names)
        yield DataError(f"there is no ranker {settings.control!r} to be the control; there are {rankers}")
    if settings.cap is not None and not about.values:
        yield DataError(
            f"cap is {settings.cap!r}, with events that count as {about.events!r}; count values (values=True)"
        )
    if about.values and settings.cluster == UNIT_AND_QUERY:
        yield DataError(f"values are added up by unit; leave out cluster={UNIT_AND_QUERY!r}")
    if margin is not None and margin >= 1 and about.method and not about.linear:
        problem = f"by the scheme {about.scheme!r} a preference is at most 1, so all rankers would be alike"
        yield DataError(f"the margin is {margin!r}; {problem}; give a number below 1, such as {MARGIN:g}")
    for arm in settings.split or ():
        if arm not in tally.arms:
            there = suggest(arm, tally.arms)
            yield DataError(f"split names the arm {arm!r}, which the log does not have; there are {there}")


def _totals(tally: Tally) -> Totals:
    return Totals(
        impressions=tally.impressions,
        clicked=sum(int(arm.measures[:, CLICKED].sum()) for arm in tally.arms.values()),
        units=tally.units.count(),
        units_are_exact=tally.units.is_exact,
        since=None if tally.since is None else time_of(tally.since),
        until=None if tally.until is None else time_of(tally.until),
        dropped={str(key): tally.dropped[key] for key in sorted(tally.dropped, key=text_of)},
        events={str(key): tally.events[key] for key in sorted(tally.events, key=text_of)},
        texts={str(key): text_of(key) for key in sorted({*tally.dropped, *tally.events})},
    )


def _standing(tally: Tally, result: ComparisonResult, settings: ReportSettings) -> Standing | None:
    """The standing of many rankers; pairs are in the order of `stats`."""
    rankers = tally.about.rankers
    if len(rankers) < 3:
        return None
    natural = RankerPairs.of(rankers, None)
    back = np.argsort(result.pairs.order)
    sums = natural.weighted_scores(result.sums, result.weights, tally.about.linear)
    estimates = compare.estimates(sums, result.weights, settings.confidence)
    adjusted = [result.comparisons[place].adjusted_p_value for place in back]
    places = ranking.standing(rankers, estimates, adjusted, settings.confidence)
    values = np.array([estimate.value or 0.0 for estimate in estimates])
    means = result.means[:, back] * result.pairs.turn[back]
    signed, clicked = not tally.about.linear, int(tally.scores.clicked.sum())
    if tally.about.values:
        fitted = ranking.Strengths(None, None, "values are not wins and losses")
    else:
        fitted = ranking.strengths(rankers, values, clicked, means, signed, settings.confidence)
    unknown = (None,) * len(rankers)
    strengths = map(Strength, rankers, places.copeland, fitted.values or unknown, fitted.intervals or unknown)
    reasons = {"condorcet": places.reason, "strength": fitted.reason}
    return Standing(
        condorcet=places.condorcet,
        strengths=tuple(sorted(strengths, key=lambda one: (-(one.strength or 0.0), -one.copeland))),
        cycles=places.cycles,
        reasons={name: reason for name, reason in reasons.items() if reason},
    )


def _value_notes(cap: ValueCap | None, settings: ReportSettings) -> Iterator[tuple[NoteCode, str]]:
    """A note on how values are counted, if they are."""
    if cap is not None and cap.cap:
        which = "the 99th percentile of units with a value" if settings.cap is None else "given"
        yield (
            NoteCode.VALUES,
            f"Events count by their values. A unit's total counts up to {cap.cap / ONE:.6g} ({which}), so that a few "
            f"large values do not decide; this cuts off {percent(cap.cut, 1)} of all value. The estimate is a mean "
            "over units. The lift counts events, not values.",
        )


def _notes(tally: Tally, settings: ReportSettings) -> Iterator[tuple[NoteCode, str]]:
    """Notes that a reader needs besides the numbers."""
    about, facts = tally.about, tally.facts
    left_out = [(f"{fact.text} {which}".strip(), n) for fact in LEFT_OUT for which, n in fact.details(facts).items()]
    examples = sorted(Fact.EXAMPLE.details(facts))[:MAX_EXAMPLES]
    sentences = {
        NoteCode.ROWS_LEFT_OUT: [f"impressions of {which}, left out: {number:,}" for which, number in sorted(left_out)],
        NoteCode.READ_AS: sorted(map(text_of, Fact.ASSUMED.details(facts))),
        NoteCode.NO_MATCH: sorted(what for what, n in Fact.NO_MATCH.details(facts).items() if n == tally.impressions),
        NoteCode.UNUSABLE_EXAMPLE: [Fact.EXAMPLE.text.format(example) for example in examples],
    }
    yield from ((code, f"{one[0].upper()}{one[1:]}.") for code, some in sentences.items() for one in some)
    if about.scheme.startswith(LEARNED):
        used = "not used to learn that"
        if about.scheme.endswith(CROSS_FITTED):
            used = "used to learn that, so each user was scored with weights learned from earlier users"
        credit = "A click counts as much as was learned for such clicks (C12, section 10), not 1"
        yield NoteCode.LEARNED_CREDIT, f"{credit}; this experiment was {used}."
    if about.sessions is not None:
        yield (
            NoteCode.SESSIONS,
            f"Impressions of a unit less than {about.sessions:g} s apart were scored as one session (C12, section 9): "
            "comparisons count sessions as impressions. Such tallies can only be added if logs are split by unit.",
        )
    if about.method and about.scheme in resolve(about.method).method.rankless_schemes and not tally.lists.seen.any():
        yield (
            NoteCode.NO_RANKS,
            f"The log has no ranks, so lists were scored by {about.scheme}: clicks on documents that all rankers show "
            "at the same rank count, and add noise. Log ranks or rankings to leave them out.",
        )
    scored = int(tally.scores.counted[0])
    if about.method and counted_by(about) == DRAWN_OWNERS and scored and scored == tally.scores.clicked.sum():
        yield (
            NoteCode.COUNTED_BY_OWNERS,
            "Lists that favoured a ranker are counted by the drawn owners, as the scheme binary_deduped counts them, "
            f"because the sign of one list's score by {about.scheme} is not fair. So these counts do not follow from "
            "the scores.",
        )
    if about.method and tally.segments and settings.cluster == UNIT:
        yield (
            NoteCode.SEGMENTS,
            f"The report has {len(tally.segments)} segments. Their intervals and adjusted p-values hold for all of "
            "them together.",
        )
    if about.composed == ONE_LIST:
        yield NoteCode.AB_TEST, ONE_LIST_MEANING.format("value per person" if about.values else "clicks per search")
    elif not about.method:
        yield NoteCode.NO_INTERLEAVED_LISTS, "The log has no interleaved lists: arms are compared, rankers are not."


def _rule_notes(settings: ReportSettings, used: ReportSettings) -> Iterator[tuple[NoteCode, str]]:
    """Notes on the rule by which the report decides."""
    if settings.secondary:
        yield (
            NoteCode.SECONDARY,
            f"The verdict of the experiment is that of its primary metric. This is one of {settings.secondary} other "
            "metrics: intervals and adjusted p-values hold for all of these together. Tests for one look and the lift "
            "are not corrected for their number.",
        )
    if used != settings:
        yield (
            NoteCode.PLAN_STALLED,
            "New units have nearly stopped coming, so the plan is ignored: it counts units, and if the same people "
            "only come again, intervals based on it would be too narrow.",
        )
    if settings.cluster == UNIT_AND_QUERY:
        yield (
            NoteCode.CLUSTERED_BY_QUERY,
            "Errors are clustered by unit and by query, so that the result holds for similar queries. Segments, the "
            "history and tests for a single look are left out, because they are computed by unit only.",
        )


def run_checks(data: CheckInput) -> tuple[Check, ...]:
    """Run every check that applies, in the order of the codes."""
    return tuple(check for code in CheckCode for check in CHECKS[code].run(data))
