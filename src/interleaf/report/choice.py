"""The report of a choice of the best of many rankers: who leads, who left and why, and how much regret was saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.report.choice_plans import ChoiceHistory, ChoiceStep, next_step, number_rankers, walk
from interleaf.report.choice_result import ChoiceResult, ChoiceState, EpochShare, RankerState
from interleaf.report.codes import NoteCode
from interleaf.report.model import Check, Verdict, VerdictCode
from interleaf.report.report import Report
from interleaf.report.rule import ReportSettings
from interleaf.report.verdict import list_failed
from interleaf.stats.elimination import Against, compare_with_leader, estimate_regret
from interleaf.stats.outlook import MARGIN
from interleaf.tally.choice_sums import LISTS, RANKER, SIZE, ChoiceSums

MEANING = (
    "Rankers are compared within epochs, in which their shares stay the same, and epochs count by their numbers of "
    "units. Errors are clustered by unit over all epochs. Intervals are anytime intervals, and hold for all pairs of "
    "the rankers at the start together, because the leader was chosen from the data. Checks of mixed lists are not "
    "made."
)
NO_GAPS = "fewer than two rankers were compared with the leader"
UNKNOWN = "it was never compared with the leader"


def add_choice(report: Report, sums: ChoiceSums, settings: ReportSettings) -> Report:
    """The report with the result of the choice, its verdict and its note."""
    rankers = tuple(settings.start_rankers) or sums.names
    choice = choose_best(sums, rankers, settings)
    codes = zip(report.note_codes, report.notes, strict=True)
    notes = [(code, text) for code, text in codes if code != NoteCode.NO_INTERLEAVED_LISTS]
    notes.append((NoteCode.CHOICE.value, MEANING))
    return replace(
        report,
        rankers=rankers,
        control=settings.control,
        margin=settings.margin or MARGIN,
        choice=choice,
        verdict=choice_verdict(choice, report.health, settings.control),
        note_codes=tuple(code for code, _ in notes),
        notes=tuple(text for _, text in notes),
    )


def choose_best(sums: ChoiceSums, rankers: Sequence[str], settings: ReportSettings) -> ChoiceResult:
    """The result of the choice. Rankers leave by the results until `settings.known_epoch`, or by all of them."""
    confidence, margin = 1 - settings.alpha, settings.margin or MARGIN
    steps = walk(sums, rankers, confidence, margin, settings.known_epoch)
    exits = steps[-1].exits if steps else ()
    history = ChoiceHistory(sums, rankers)
    last = history.epochs[-1] if history.epochs else 0
    step = next_step(history, last, exits, confidence, margin)
    gone = {one.ranker for one in exits}
    left = [place for place, name in enumerate(rankers) if name not in gone]
    others = compare_with_leader(
        history.leader_sums(step.leader), range(len(rankers)), step.leader, len(rankers), len(gone), confidence
    )
    shown = count_lists(sums, rankers)
    states = _states(step._replace(exits=exits), others, rankers, shown)
    epochs, lists = list(shown), sum(shown.values(), start=np.zeros(len(rankers)))
    shares = tuple(
        EpochShare(epoch, rankers[place], float(of_epoch[place] / of_epoch.sum()))
        for epoch, of_epoch in shown.items()
        for place in np.flatnonzero(of_epoch).tolist()
    )
    result = ChoiceResult(rankers[step.leader], len(left) == 1, len(epochs), min(epochs, default=0), states, shares)
    gaps = np.full(len(rankers), np.nan)
    gaps[step.leader] = 0.0
    for one in others:
        gaps[one.ranker] = np.nan if one.estimate is None else max(0.0, -one.estimate)
    regret = estimate_regret(gaps, lists)
    if regret is None:
        return replace(result, reason=NO_GAPS)
    saved = 1 - regret[0] / regret[1] if regret[1] else 0.0
    known = int((~np.isnan(gaps)).sum())
    return replace(result, regret=regret[0], regret_equal_shares=regret[1], regret_saved=saved, regret_rankers=known)


def count_lists(sums: ChoiceSums, rankers: Sequence[str]) -> dict[int, Array]:
    """The lists of each epoch by ranker; a list of two rankers counts half for each."""
    numbers, rows = number_rankers(sums, rankers), sums.shown.rows
    lists: dict[int, Array] = {}
    for epoch in np.unique(rows[:, 0]):
        of_epoch = rows[rows[:, 0] == epoch]
        parts = of_epoch[:, LISTS] / of_epoch[:, SIZE]
        lists[int(epoch)] = np.bincount(numbers[of_epoch[:, RANKER]], parts, len(rankers))
    return lists


def _states(
    step: ChoiceStep, others: Sequence[Against], rankers: Sequence[str], shown: dict[int, Array]
) -> tuple[RankerState, ...]:
    """All rankers: the leader, those that are in by their estimates, those that left, the last one first."""
    latest = list(shown.values())[-1] if shown else np.ones(len(rankers))
    lists = sum(shown.values(), start=np.zeros(len(rankers)))
    share = latest / latest.sum()
    leader = step.leader
    states = [RankerState(rankers[leader], ChoiceState.LEADS, float(share[leader]), float(lists[leader]))]
    left = {one.ranker: (place, one) for place, one in enumerate(step.exits)}
    rows = []
    for one in others:
        name = rankers[one.ranker]
        state = RankerState(
            *(name, ChoiceState.IN, float(share[one.ranker]), float(lists[one.ranker])),
            *(one.estimate, one.joint, one.units),
            reason=one.reason or ("" if one.estimate is not None else UNKNOWN),
        )
        order: tuple[float, ...] = (0, -np.inf if one.estimate is None else -one.estimate)
        if name in left:
            place, gone = left[name]
            state = replace(
                state, state=ChoiceState(gone.code), left_after=gone.after, left_against=gone.leader, bound=gone.bound
            )
            order = (1, -place)
        rows.append((order, state))
    return (*states, *(state for _, state in sorted(rows, key=lambda row: row[0])))


def choice_verdict(choice: ChoiceResult, health: Sequence[Check], control: str | None) -> Verdict:
    """The verdict: the leader is the best if all others left as worse, no worse if some left for lack of a gain."""
    failed, leader, others = list_failed(health), choice.leader, choice.rankers[1:]
    worse = [one for one in others if one.state == ChoiceState.WORSE]
    no_gain = [one for one in others if one.state == ChoiceState.NO_GAIN]
    still_in = len(others) - len(worse) - len(no_gain)
    winner = leader if choice.decided and not no_gain else None
    if winner:
        code = VerdictCode.WORSE if leader == control else VerdictCode.PREFERRED
        sentence = f"{leader} is the best of {len(choice.rankers)} rankers: all others left as worse."
    elif choice.decided:
        code = VerdictCode.NO_WORSE
        sentence = f"{leader} leads, and none of the other {len(others)} rankers is better than it by the margin."
    else:
        code = VerdictCode.UNDECIDED
        sentence = f"{leader} leads, but it is not decided: {still_in} of {len(others)} other rankers are still in."
    step = f"Make {leader} live." if choice.decided else "Let it run: better rankers get more and more of the traffic."
    if choice.decided and leader == control:
        step = f"Keep {leader}, and try other candidates."
    codes = [code]
    if failed:
        codes.insert(0, VerdictCode.BROKEN)
        sentence = f"Do not trust this yet: {len(failed)} health check{'s' * (len(failed) > 1)} failed. {sentence}"
        step = "Fix what the failed checks report, then restart the experiment as a new version."
    return Verdict(sentence, winner, not failed, failed, codes[0].value, step, tuple(one.value for one in codes))
