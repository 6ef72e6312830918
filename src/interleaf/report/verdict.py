"""The verdict in a sentence: the winner with its score and confidence, or too early to say, or not to be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from interleaf.log.drop_reasons import EventFate, text_of
from interleaf.report import model
from interleaf.report.format import format_signed, span
from interleaf.report.log_checks import unusable_events
from interleaf.report.model import Activity, Check, Comparison, Lift, Totals, UndecidedCode, Verdict, VerdictCode
from interleaf.report.rule import ReportSettings
from interleaf.tables import percent

UNLIKELY = 0.1  # chance of a decision below which to advise to stop
NOTHING = Totals(0, 0, 0, True, None, None)


class VerdictAnswer(NamedTuple):
    """The sentence of a verdict, and the winner; or why no ranker is preferred, an `UndecidedCode`."""

    sentence: str
    winner: str | None = None
    because: str = ""


def verdict(
    comparisons: Sequence[Comparison],
    checks: Sequence[Check],
    settings: ReportSettings,
    totals: Totals = NOTHING,
    activity: Sequence[Activity] = (),
    lifts: Sequence[Lift] = (),
    counted: str = "",
    value_cap: float | None = None,
) -> Verdict:
    """The verdict by the rule of the report. After a failed check, it is not trusted.

    If each person sees the list of one ranker, `counted` says what is compared: `clicks` or `events` per search.
    `value_cap`: events count by their values, per person and up to this cap.
    """
    failed = list_failed(checks)
    sentence, winner, because = _answer(comparisons, settings, totals, counted, value_cap)
    if counted:
        sentence += f" This is an A/B test on {counted}: each person sees the list of one ranker."
    codes = _codes(comparisons, winner, settings, bool(failed))
    code = codes[0]
    if VerdictCode.DISAGREE in codes and len(comparisons) == 1:
        sentence, because = _disagreement(comparisons[0], activity), ""
    if failed:
        sentence = f"Do not trust this yet: {len(failed)} health check{'s' * (len(failed) > 1)} failed. {sentence}"
    step = _next_step(code, winner, settings, totals, comparisons)
    if code == VerdictCode.PREFERRED and not counted and any(one.is_loss_of(winner) for one in lifts):
        step = f"Compare both in an A/B test before you make {winner} live: its own list would get fewer clicks."
    statements = tuple(one.value for one in codes)
    return Verdict(sentence, winner, not failed, failed, code.value, step, statements, undecided_because=str(because))


def list_failed(checks: Sequence[Check]) -> tuple[str, ...]:
    """The health checks that failed, each with its result."""
    return tuple(f"{check.name}: {check.figure}" for check in checks if check.status == model.FAILED)


def _codes(
    comparisons: Sequence[Comparison], winner: str | None, settings: ReportSettings, is_broken: bool
) -> list[VerdictCode]:
    """The codes that apply to the whole report, the first of which is the verdict."""
    applies = {
        VerdictCode.BROKEN: is_broken,
        VerdictCode.DISAGREE: winner is None and any(one.people_and_visits_disagree for one in comparisons),
        VerdictCode.ALIKE: _all_state(VerdictCode.ALIKE, comparisons),
        VerdictCode.PREFERRED: winner not in (None, settings.control) or bool(_better(comparisons, settings)),
        VerdictCode.WORSE: winner is not None and winner == settings.control,
        VerdictCode.NO_WORSE: _all_state(VerdictCode.NO_WORSE, _about_control(comparisons, settings)),
    }
    return [code for code, holds in applies.items() if holds] or [VerdictCode.UNDECIDED]


def _better(comparisons: Sequence[Comparison], settings: ReportSettings) -> list[str]:
    """The candidates that are preferred to the control."""
    return [one.first for one in _about_control(comparisons, settings) if one.winner == one.first]


def _about_control(comparisons: Sequence[Comparison], settings: ReportSettings) -> list[Comparison]:
    """The comparisons of candidates with the control; without a control, nobody is a candidate."""
    return [one for one in comparisons if one.second == settings.control]


def _all_state(code: VerdictCode, comparisons: Sequence[Comparison]) -> bool:
    return bool(comparisons) and all(code in one.statements for one in comparisons)


def _next_step(
    code: str, winner: str | None, settings: ReportSettings, totals: Totals, comparisons: Sequence[Comparison]
) -> str:
    """What to do now."""
    if code == VerdictCode.BROKEN:
        return "Fix what the failed checks report, then restart the experiment as a new version."
    if code == VerdictCode.DISAGREE:
        return "Compare heavy and light users below, and decide which of them matter more before you choose a ranker."
    if code == VerdictCode.ALIKE and settings.aa:
        return "The A/A test shows no difference, as it should. Stop the test, or let it run to detect smaller faults."
    if code == VerdictCode.ALIKE:
        return (
            "Stop the experiment, and choose by other reasons, such as cost or speed. To detect smaller differences, "
            "give a smaller margin."
        )
    if code == VerdictCode.PREFERRED and winner is None:
        return "Make one of them live, or let the experiment run to learn which of them people prefer."
    if winner is not None and winner == settings.control:
        return f"Keep {winner}, and try another candidate."
    if winner is not None:
        return f"Make {winner} live, and compare the next candidate with it."
    if not any(one.clicked for one in comparisons):
        if comparisons and _without_events(totals) is not None:
            return "Check that events name the list they belong to, and that the report counts their kind and time."
        return "Check that lists and clicks reach the log, and look again after the first clicks."
    if code == VerdictCode.NO_WORSE:
        return (
            "Make the candidate live if it has other advantages, or let the experiment run to learn whether people "
            "prefer the candidate."
        )
    chances = [one.chance_decided for one in comparisons]
    is_over = settings.planned_units is not None and totals.units >= settings.planned_units
    if len(chances) == 1 and chances[0] is not None and chances[0] < UNLIKELY and not is_over:
        chance = "below 1 %" if chances[0] < 0.01 else percent(chances[0], 0)
        return (
            f"The experiment will probably not be decided by its planned end: the chance is {chance}, if the true "
            "preference is today's estimate. Stop the experiment, or plan for more people (interleaf plan)."
        )
    if settings.planned_units is not None and totals.units < settings.planned_units:
        return f"Let the experiment run: {totals.units:,} of {settings.planned_units:,} planned units have come."
    return "The planned units have come. " * (settings.planned_units is not None) + (
        "Let the experiment run to detect a smaller difference, or treat the rankers as equal if every difference "
        "within the interval is too small to matter."
    )


def _answer(
    comparisons: Sequence[Comparison], settings: ReportSettings, totals: Totals, counted: str, value_cap: float | None
) -> VerdictAnswer:
    if not comparisons:
        dropped = " that could be used" if totals.dropped else ""
        sentence = f"The log has no interleaved lists{dropped}, so no ranker is compared with another."
        return VerdictAnswer(sentence, because=UndecidedCode.NO_LISTS)
    if comparisons[0].clicked == 0 and (nothing := _without_events(totals)):
        return nothing
    if len(comparisons) > 1:
        return _of_many(comparisons, settings)
    one = comparisons[0]
    return _of_arms(one, settings, counted, value_cap) if counted else _of_two(one, settings, value_cap)


def _without_events(totals: Totals) -> VerdictAnswer | None:
    """Why no event counts on an interleaved list, if some came."""
    if lost := totals.events.get(EventFate.UNMATCHED, 0):
        sentence = f"No event has reached a list: {lost:,} events came, and none matches a list that was shown."
        return VerdictAnswer(sentence, because=UndecidedCode.EVENTS_UNMATCHED)
    if counted := totals.events.get(EventFate.COUNTED, 0):
        sentence = f"No event has reached an interleaved list: all {counted:,} counted events are on other arms."
        return VerdictAnswer(sentence, because=UndecidedCode.EVENTS_ELSEWHERE)
    fates = {fate: number for fate, number in totals.events.items() if number and fate != EventFate.UNPLACED}
    if fates == {EventFate.OTHER_KIND: (number := totals.events.get(EventFate.OTHER_KIND, 0))}:
        others = "1 event is" if number == 1 else f"{number:,} events are"
        sentence = f"No event of the kinds that count has come: {others} of another kind."
        return VerdictAnswer(sentence, because=UndecidedCode.EVENTS_NOT_COUNTED)
    if fates:
        counts = ", ".join(f"{number:,} {text_of(fate)}" for fate, number in fates.items())
        return VerdictAnswer(f"Events came, but none counts: {counts}.", because=UndecidedCode.EVENTS_NOT_COUNTED)
    if unusable := unusable_events(totals.dropped):
        return VerdictAnswer(f"No event has reached a list: {unusable}.", because=UndecidedCode.EVENTS_UNUSABLE)
    if lost := totals.events.get(EventFate.UNPLACED, 0):
        sentence = f"No event has reached a list; {lost:,} events came that match no list of any experiment."
        return VerdictAnswer(sentence, because=UndecidedCode.EVENTS_UNMATCHED)
    return None


def _of_two(one: Comparison, settings: ReportSettings, value_cap: float | None) -> VerdictAnswer:
    if one.clicked == 0:
        return VerdictAnswer(
            "There are no clicks yet, so there is nothing to compare.", because=UndecidedCode.NO_EVENTS
        )
    if one.estimate == 0 and one.error is None:
        sentence = f"No click favours {one.first} or {one.second}: every list scores 0."
        if one.wins or one.losses:
            sentence = f"Clicks favour {one.first} and {one.second} equally: every person's score is 0."
        return VerdictAnswer(sentence, because=UndecidedCode.NO_PREFERENCE)
    if one.unanimous is not None:
        number = (one.wins or 0) + (one.losses or 0) or one.clicked
        sentence = (
            f"All {number:,} lists with a preference favour {one.unanimous}, so no interval can be computed: check "
            "that real people clicked, or wait for a list that differs."
        )
        return VerdictAnswer(sentence, because=UndecidedCode.TOO_UNIFORM)
    if one.estimate is None or one.interval is None:
        sentence = f"It is too early to say which ranker people prefer: {one.reasons.get('interval', '')}."
        return VerdictAnswer(sentence, because=UndecidedCode.TOO_EARLY)
    gap = ""
    if value_cap is not None:
        gap = f"the value credited to {one.first} minus that to {one.second}, per person with an event and up to "
        gap += f"{value_cap:.6g} a person,"
    if within := _within_margin(one, settings, gap):
        return VerdictAnswer(within, one.winner)
    if one.winner is None:
        sentence = (
            f"No difference between {one.first} and {one.second} is shown yet: {gap or 'the score'} is "
            f"{format_signed(one.estimate)}, "
            f"and the data of {one.units:,} units allow anything from {span(one.interval)}."
        )
        return VerdictAnswer(sentence, because=UndecidedCode.NOT_SHOWN)
    shares, sure = _shares(one, one.winner), _sure(one, settings, gap)
    sentence = f"People prefer {one.winner} to {one.loser}{shares}. The difference is significant: {sure}."
    return VerdictAnswer(sentence, one.winner)


def _of_arms(one: Comparison, settings: ReportSettings, counted: str, value_cap: float | None) -> VerdictAnswer:
    """Two rankers, each shown to people of its own."""
    if one.clicked == 0:
        sentence = f"There are no {counted} yet, so there is nothing to compare."
        return VerdictAnswer(sentence, because=UndecidedCode.NO_EVENTS)
    if one.estimate is None or one.interval is None:
        sentence = f"It is too early to say whose list gets more {counted}: {one.reasons.get('interval', '')}."
        return VerdictAnswer(sentence, because=UndecidedCode.TOO_EARLY)
    gap, verb = f"the {counted} per search on lists of {one.first} minus those on lists of {one.second}", "are"
    if value_cap is not None:
        gap, verb = f"the value per person, up to {value_cap:.6g}, for {one.first} minus that for {one.second}", "is"
    if within := _within_margin(one, settings, gap, verb):
        return VerdictAnswer(within, one.winner)
    if one.winner is None:
        sentence = (
            f"No difference between {one.first} and {one.second} is shown yet: {gap} {verb} "
            f"{format_signed(one.estimate)}, "
            f"and the data of {one.units:,} units allow anything from {span(one.interval)}."
        )
        return VerdictAnswer(sentence, because=UndecidedCode.NOT_SHOWN)
    sure = _sure(one, settings, gap, verb)
    return VerdictAnswer(
        f"The list of {one.winner} gets more {counted}. The difference is significant: {sure}.", one.winner
    )


def _within_margin(one: Comparison, settings: ReportSettings, what: str = "", verb: str = "is") -> str:
    """That two rankers are alike, or that the first is no worse; empty if neither is shown, or if there is a winner."""
    if VerdictCode.ALIKE in one.statements:
        shown = f"{one.first} and {one.second} are alike"
        preferred = f"{one.winner} is preferred, but by less than the margin of {settings.margin:g}."
        matters = _meaning(settings) if one.winner is None else preferred
    elif one.winner is None and _all_state(VerdictCode.NO_WORSE, _about_control([one], settings)):
        shown, matters = f"{one.first} is no worse than {one.second}", _meaning(settings)
    else:
        return ""
    return f"{shown}: {_sure(one, settings, what, verb)}. {matters}"


def _meaning(settings: ReportSettings) -> str:
    return f"Differences below the margin of {settings.margin:g} do not matter."


def _disagreement(one: Comparison, activity: Sequence[Activity]) -> str:
    """A sentence with both scores, and about the heavy users."""
    person, search = one.per_person_estimate or 0.0, one.per_search_estimate or 0.0
    people = one.first if person > 0 else one.second
    sentence = (
        f"People and visits disagree, so neither ranker wins: if each person counts once, people prefer {people} "
        f"(score of {one.first} over {one.second}: {format_signed(person)}); if each search counts once, that score is "
        f"{format_signed(search)}."
    )
    heavy = activity[-1] if activity else None
    if heavy and heavy.estimate is not None:
        sentence += (
            f" The {heavy.units:,} units with {heavy.searches} searches are {percent(heavy.share_of_units, 1)} of the "
            f"units and made {percent(heavy.share_of_searches, 0)} of the searches; their score is "
            f"{format_signed(heavy.estimate)}."
        )
    return sentence


def _shares(one: Comparison, winner: str) -> str:
    """How many lists and how many people favoured each of the two rankers."""
    if one.wins is None or one.losses is None or not one.wins + one.losses:
        return ""
    is_first = winner == one.first
    won, lost = (one.wins, one.losses) if is_first else (one.losses, one.wins)
    counted = ", counted by the drawn owners" if one.by_owners else ""
    lists = f": of {one.clicked:,} lists with an event{counted}, {won:,} favoured {winner}, {lost:,} {one.loser} and "
    lists += f"{one.clicked - won - lost:,} neither"
    if one.unit_wins is None or one.unit_losses is None or one.unit_sign_test_of != "units" or one.units is None:
        return lists
    won, lost = (one.unit_wins, one.unit_losses) if is_first else (one.unit_losses, one.unit_wins)
    return f"{lists}; of {one.units:,} people, {won:,} favoured {winner} and {lost:,} {one.loser}"


def _sure(one: Comparison, settings: ReportSettings, what: str = "", verb: str = "is") -> str:
    """The score with its interval and confidence, signed as in all tables: below 0 if the second ranker wins."""
    low, high = one.interval or (0.0, 0.0)
    when = "valid even if you check repeatedly"
    if settings.look is not None:
        which, of = settings.look
        when = "at this one look" if of == 1 else f"at look {which} of {of}"
    score = f"{format_signed(one.estimate or 0.0)}, between {format_signed(low)} and {format_signed(high)}"
    what = what or f"the score of {one.first} over {one.second}"
    return f"{what} {verb} {score} with {percent(settings.confidence)} confidence, {when}"


def _of_many(comparisons: Sequence[Comparison], settings: ReportSettings) -> VerdictAnswer:
    """The ranker that beats all others; if there is none, those that beat the control, or how many pairs differ.

    If all rankers are alike, or no worse than the control, this is said first.
    """
    beats: dict[str, set[str]] = {}
    for one in comparisons:
        for ranker in (one.first, one.second):
            beats.setdefault(ranker, set())
        if one.winner and one.loser:
            beats[one.winner].add(one.loser)
    best = [ranker for ranker, beaten in beats.items() if len(beaten) == len(beats) - 1]
    if _all_state(VerdictCode.ALIKE, comparisons):
        sentence = f"All rankers are alike: every interval is within the margin. {_meaning(settings)}"
        if not best:
            return VerdictAnswer(sentence)
        return VerdictAnswer(f"{sentence} People prefer {best[0]}, but by less than the margin.", best[0])
    if best:
        return VerdictAnswer(f"People prefer {best[0]} to each of the other {len(beats) - 1} rankers.", best[0])
    better = _better(comparisons, settings)
    if better:
        names = " and ".join(filter(None, [", ".join(better[:-1]), better[-1]]))
        return VerdictAnswer(f"People prefer {names} to the control {settings.control}; no ranker beats all others.")
    if _all_state(VerdictCode.NO_WORSE, _about_control(comparisons, settings)):
        worse = f"worse than the control {settings.control} by {settings.margin:g} or more"
        return VerdictAnswer(f"No candidate is {worse}. {_meaning(settings)}")
    decided, uniform = sum(map(len, beats.values())), sum(one.unanimous is not None for one in comparisons)
    sentence = (
        f"No ranker beats all others yet: {decided} of {len(comparisons)} pairs show a difference, "
        "corrected for all pairs together."
    )
    if uniform:
        of = "1 of them is" if uniform == 1 else f"{uniform} of them are"
        sentence += f" {of} too uniform to compute an interval: check that real people clicked."
    return VerdictAnswer(sentence, because=UndecidedCode.TOO_UNIFORM if uniform else UndecidedCode.NOT_SHOWN)
