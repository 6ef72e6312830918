"""The report of a choice of the best of many rankers: who leads, who left and why, and how much regret was saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from interleaf.errors import DataError
from interleaf.experiment import Experiment
from interleaf.experiment.choose import last_known
from interleaf.experiment.epochs import EpochPlan, RankerExit, plan_epoch
from interleaf.kernels.arrays import Array
from interleaf.kernels.buckets import BUCKETS, buckets
from interleaf.report.choice_result import ChoiceResult, ChoiceState, EpochShare, RankerState
from interleaf.report.codes import NoteCode
from interleaf.report.format import format_signed, several
from interleaf.report.model import Check, Verdict, VerdictCode
from interleaf.report.report import Report
from interleaf.report.rule import ReportSettings, state
from interleaf.report.verdict import list_failed
from interleaf.stats.elimination import (
    NO_GAIN,
    WORSE,
    Against,
    Comparisons,
    JointComparison,
    LeaderSums,
    PairMeans,
    estimate_regret,
    find_leader,
    find_leaving,
    find_nearly_leaving,
)
from interleaf.stats.power import MARGIN
from interleaf.tally.bucket_sums import ONE
from interleaf.tally.choice_sums import (
    CLICKED,
    EPOCH,
    FIRST,
    LISTS,
    LOST,
    RANKER,
    SECOND,
    SIZE,
    SUM,
    UNIT,
    WON,
    ChoiceSums,
)

MEANING = (
    "Rankers are compared within epochs, in which their shares stay the same, and epochs count by their numbers of "
    "units. Errors are clustered by unit over all epochs. Intervals are anytime intervals, and hold for all pairs of "
    "the rankers at the start together, because the leader was chosen from the data. Checks of mixed lists are not "
    "made."
)
NO_GAPS = "fewer than two rankers were compared with the leader"
UNKNOWN = "it was never compared with the leader"


class ChoiceHistory:
    """The cells of sums in the order of epochs, read up to an epoch; rankers are numbered as in `rankers`.

    Sums grow with each epoch that is read. Those of all rankers against the leader are kept until another one leads.
    """

    def __init__(self, sums: ChoiceSums, rankers: Sequence[str], confidence: float) -> None:
        numbers, rows, size = number_rankers(sums, rankers), sums.cells.rows, len(rankers)
        is_first = _find_first(rows, len(sums.names))
        order = np.argsort(rows[:, EPOCH], kind="stable")
        rows = rows[order]
        self.rankers, self.confidence, self._known = tuple(rankers), confidence, 0
        self._epochs, self._buckets = rows[:, EPOCH], buckets(rows[:, UNIT].view(np.uint64))
        self._is_first = is_first[order]
        self._pairs = numbers[rows[:, FIRST : SECOND + 1]]
        self._scores = np.rint(rows[:, SUM] / np.maximum(rows[:, CLICKED], 1)) / ONE
        self.means = PairMeans(*np.zeros((4, size, size)))
        sides = self._pairs.ravel()
        self._rows = np.argsort(sides, kind="stable") // 2  # of each ranker, in the order of epochs
        self._ends = np.cumsum(np.bincount(sides, minlength=size))
        self._set_leader(-1)

    @property
    def epochs(self) -> list[int]:
        """The epochs with results."""
        return [int(epoch) for epoch in np.unique(self._epochs)]

    def read_until(self, epoch: int) -> None:
        """Read the results until the end of an epoch, which must not be before the last one."""
        end = int(np.searchsorted(self._epochs, epoch, "right"))
        rows = slice(self._known, end)
        first, second = self._pairs[rows].T
        self.means.add(first, second, self._scores[rows])
        self.means.add(second, first, -self._scores[rows])
        self._known = max(end, self._known)

    def compare(self, leader: int) -> Comparisons:
        """All other rankers against one, by what was read."""
        changed: Array = np.arange(len(self.rankers))
        if leader == self._leader:
            changed = self._read_against_leader()
        else:
            self._set_leader(leader)
            self._read_against_leader()
        if len(changed):
            self._comparisons.update(self._sums, changed[changed != leader].tolist())
        return self._comparisons

    def leader_sums(self, leader: int) -> LeaderSums:
        """The sums of all rankers against one, of what was read."""
        self.compare(leader)
        return self._sums

    def _set_leader(self, leader: int) -> None:
        size = len(self.rankers)
        sums, counts = np.zeros((BUCKETS, size)), np.zeros((BUCKETS, size), np.int64)
        self._leader, self._read = leader, 0
        self._sums = LeaderSums(sums, counts, np.zeros(size, np.int64))
        self._comparisons = Comparisons(size, self.confidence)

    def _read_against_leader(self) -> Array:
        """Add results that were read since the last call to the sums of the leader; returns the rankers in them."""
        leader = self._leader
        every = self._rows[self._ends[leader - 1] if leader else 0 : self._ends[leader]]
        end = int(np.searchsorted(every, self._known))
        rows, self._read = every[self._read : end], end
        first, second = self._pairs[rows].T
        other, sign = np.where(first == leader, second, first), np.where(first == leader, -1, 1)
        np.add.at(self._sums.sums, (self._buckets[rows], other), sign * self._scores[rows])
        np.add.at(self._sums.counts, (self._buckets[rows], other), 1)
        np.add.at(self._sums.units, other, self._is_first[rows])
        return np.unique(other)


def _find_first(rows: Array, names: int) -> Array:
    """Whether a cell is the first one of its unit and pair; cells are in the order of units, then of epochs."""
    pair = rows[:, FIRST] * names + rows[:, SECOND]
    order = np.lexsort((pair, rows[:, UNIT]))
    is_first = np.ones(len(rows), np.int64)
    same = (rows[order[1:], UNIT] == rows[order[:-1], UNIT]) & (pair[order[1:]] == pair[order[:-1]])
    is_first[order[1:][same]] = 0
    return is_first


class ChoiceStep(NamedTuple):
    """What the results until an epoch say: who left so far, who is left, who leads, and the others against the leader.

    `against` includes those that leave with this step.
    """

    epoch: int
    exits: tuple[RankerExit, ...]
    left: list[int]
    leader: int
    against: list[Against]

    @property
    def nearly(self) -> list[tuple[int, int]]:
        """Pairs of the leader and a ranker that has nearly left."""
        return [(self.leader, ranker) for ranker in find_nearly_leaving(self.against) if ranker in self.left]


def next_step(history: ChoiceHistory, epoch: int, exits: Sequence[RankerExit], margin: float) -> ChoiceStep:
    """The step of one more epoch, after those who left before."""
    history.read_until(epoch)
    rankers, left = history.rankers, list_left(history.rankers, exits)
    leader = find_leader(history.means, left)
    worse = sum(one.code == WORSE for one in exits)
    against = history.compare(leader).correct([one for one in left if one != leader], worse)
    leaving = find_leaving(against, margin)
    new = [RankerExit(rankers[one.ranker], one.code, rankers[leader], epoch, one.bound) for one in leaving]
    out = {one.ranker for one in leaving}
    return ChoiceStep(epoch, (*exits, *new), [one for one in left if one not in out], leader, against)


def list_left(rankers: Sequence[str], exits: Sequence[RankerExit]) -> list[int]:
    """The numbers of the rankers that have not left."""
    gone = {one.ranker for one in exits}
    return [place for place, ranker in enumerate(rankers) if ranker not in gone]


def walk(history: ChoiceHistory, margin: float, last: int | None = None) -> list[ChoiceStep]:
    """The steps of all epochs with results, until the epoch `last`."""
    steps: list[ChoiceStep] = []
    for epoch in history.epochs:
        if last is None or epoch <= last:
            steps.append(next_step(history, epoch, steps[-1].exits if steps else (), margin))
    return steps


def plan_from_results(
    experiment: Experiment, version: int, epoch: int, sums: ChoiceSums, gone: Sequence[RankerExit] = ()
) -> EpochPlan:
    """The plan of an epoch from the sums of the primary metric; results after the last known epoch are not used.

    `gone` are rankers removed by earlier plans. They follow from the sums, unless units were sampled since then; they
    never return.
    """
    last_epoch = last_known(experiment, epoch)
    steps = walk(ChoiceHistory(sums, experiment.rankers, experiment.confidence), experiment.margin, last_epoch)
    names = {one.ranker for one in gone}
    exits = (*gone, *(one for one in (steps[-1].exits if steps else ()) if one.ranker not in names))
    nearly = [
        pair for pair in (steps[-1].nearly if steps else ()) if not names & {experiment.rankers[one] for one in pair}
    ]
    wins, results = count_wins(sums, experiment.rankers, last_epoch), digest(sums, experiment.rankers, last_epoch)
    return plan_epoch(experiment, version, epoch, wins, exits, last_epoch, results, nearly)


def count_wins(sums: ChoiceSums, rankers: Sequence[str], last: int) -> Array:
    """The impressions that ranker i won against j, `[i, j]`, until an epoch; [i, i]: those that showed i alone."""
    numbers, wins = number_rankers(sums, rankers), np.zeros((len(rankers), len(rankers)), np.int64)
    rows = sums.wins.rows[sums.wins.rows[:, 0] <= last]
    first, second = numbers[rows[:, FIRST - 1]], numbers[rows[:, SECOND - 1]]
    np.add.at(wins, (first, second), rows[:, WON])
    np.add.at(wins, (second, first), rows[:, LOST])
    shown = sums.shown.rows
    alone = shown[(shown[:, 0] <= last) & (shown[:, SIZE] == 1)]
    np.add.at(wins, (numbers[alone[:, RANKER]],) * 2, alone[:, LISTS])
    return wins


def digest(sums: ChoiceSums, rankers: Sequence[str], last: int) -> str:
    """A digest of the sums until an epoch."""
    numbers, state = number_rankers(sums, rankers), blake2b(digest_size=16)
    tables = ((sums.cells, EPOCH, (FIRST, SECOND)), (sums.wins, 0, (1, 2)), (sums.shown, 0, (RANKER,)))
    for table, epoch, columns in tables:
        rows = table.rows[table.rows[:, epoch] <= last]
        for column in columns:
            rows[:, column] = numbers[rows[:, column]]
        state.update(rows.tobytes())
    return state.hexdigest()


def number_rankers(sums: ChoiceSums, rankers: Sequence[str]) -> Array:
    """The number of each name of the sums among these rankers."""
    places = {ranker: place for place, ranker in enumerate(rankers)}
    return np.array([places[name] for name in sums.names], np.int64)


def say_why_left(one: RankerExit, margin: float) -> str:
    """A sentence about a ranker that left.

    >>> say_why_left(RankerExit("bm25", "worse", "new", 7, -0.02), 0.01)
    'bm25 left: it is worse than new (its interval against new ends at -0.02, below 0)'
    """
    end = f"its interval against {one.leader} ends at {format_signed(one.bound)}"
    if one.code == WORSE:
        return f"{one.ranker} left: it is worse than {one.leader} ({end}, below 0)"
    return f"{one.ranker} left: it is not better than {one.leader} by the margin ({end}, below {margin:g})"


def add_choice(report: Report, sums: ChoiceSums, settings: ReportSettings) -> Report:
    """The report with the result of the choice, its verdict and its note."""
    rankers = tuple(settings.start_rankers) or sums.names
    choice = choose_best(sums, rankers, settings)
    codes = zip(report.note_codes, report.notes, strict=True)
    notes = [(code, text) for code, text in codes if code != NoteCode.NO_INTERLEAVED_LISTS]
    notes.append((NoteCode.CHOICE.value, MEANING))
    margin = settings.margin or MARGIN
    return replace(
        report,
        rankers=rankers,
        control=settings.control,
        margin=margin,
        choice=choice,
        verdict=choice_verdict(choice, report.health, settings.control, margin),
        note_codes=tuple(code for code, _ in notes),
        notes=tuple(text for _, text in notes),
    )


def find_unavailable(settings: ReportSettings) -> Iterator[DataError]:
    """What was asked for that the report of a choice does not have."""
    remedies = {
        "look": "a choice is decided by anytime intervals, which may be checked at any time",
        "planned_units": "the intervals of a choice do not depend on a plan",
        "cluster": "the errors of a choice are clustered by unit over all epochs",
        "aa": "an A/A test compares copies in the mode 'aa'",
        "split": "a choice has no A/B buckets",
    }
    for name, why in remedies.items():
        if (value := getattr(settings, name)) != getattr(ReportSettings(), name):
            yield DataError(f"{name} is {value!r}, but the log is of a choice of the best of many: {why}; leave it out")


def choose_best(sums: ChoiceSums, rankers: Sequence[str], settings: ReportSettings) -> ChoiceResult:
    """The result of the choice. Rankers leave by the results until `settings.known_epoch`, or by all of them."""
    margin, history = settings.margin or MARGIN, ChoiceHistory(sums, rankers, 1 - settings.alpha)
    steps = walk(history, margin, settings.known_epoch)
    exits = steps[-1].exits if steps else ()
    history.read_until(max(history.epochs, default=0))
    left = list_left(rankers, exits)
    leader = find_leader(history.means, left)
    others = history.compare(leader).of([place for place in range(len(rankers)) if place != leader])
    shown = count_lists(sums, rankers)
    states = _states(leader, others, exits, rankers, shown, margin)
    decided = len(left) == 1 and all(one.shown for one in states[1:])
    shares = tuple(
        EpochShare(epoch, rankers[place], float(of_epoch[place] / of_epoch.sum()))
        for epoch, of_epoch in shown.items()
        for place in np.flatnonzero(of_epoch).tolist()
    )
    result = ChoiceResult(rankers[leader], decided, len(shown), min(shown, default=0), states, shares)
    return _add_regret(result, leader, others, sum(shown.values(), start=np.zeros(len(rankers))))


def _add_regret(result: ChoiceResult, leader: int, others: Sequence[JointComparison], lists: Array) -> ChoiceResult:
    """The result with the regret of so many `lists` of each ranker."""
    gaps = np.full(len(lists), np.nan)
    gaps[leader] = 0.0
    for one in others:
        gaps[one.ranker] = np.nan if one.estimate.value is None else max(0.0, -one.estimate.value)
    regret = estimate_regret(gaps, lists)
    if regret is None:
        return replace(result, reason=NO_GAPS)
    saved = 1 - regret[0] / regret[1] if regret[1] else 0.0
    compared = int((~np.isnan(gaps)).sum())
    return replace(result, regret=regret[0], regret_equal_shares=regret[1], regret_saved=saved, regret_rankers=compared)


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
    leader: int,
    others: Sequence[JointComparison],
    exits: Sequence[RankerExit],
    rankers: Sequence[str],
    shown: dict[int, Array],
    margin: float,
) -> tuple[RankerState, ...]:
    """All rankers: the leader, those that are in by their estimates, those that left, the last one first."""
    latest = list(shown.values())[-1] if shown else np.ones(len(rankers))
    lists = sum(shown.values(), start=np.zeros(len(rankers)))
    share = latest / latest.sum()
    states = [RankerState(rankers[leader], ChoiceState.LEADS, float(share[leader]), float(lists[leader]))]
    left = {one.ranker: (place, one) for place, one in enumerate(exits)}
    rows = []
    for one in others:
        name, estimate = rankers[one.ranker], one.estimate.value
        place, gone = left.get(name, (0, None))
        state = RankerState(
            *(name, ChoiceState.IN, float(share[one.ranker]), float(lists[one.ranker])),
            *(estimate, one.joint.interval, one.units),
            shown=_find_shown(one, gone, rankers[leader], margin),
            reason=one.joint.reason or ("" if estimate is not None else UNKNOWN),
        )
        order: tuple[float, ...] = (0, -np.inf if estimate is None else -estimate)
        if gone is not None:
            state = replace(
                state, state=ChoiceState(gone.code), left_after=gone.after, left_against=gone.leader, bound=gone.bound
            )
            order = (1, -place)
        rows.append((order, state))
    return (*states, *(state for _, state in sorted(rows, key=lambda row: row[0])))


def _find_shown(one: JointComparison, gone: RankerExit | None, leader: str, margin: float) -> str | None:
    """What is shown of a ranker against the leader: by its exit, if this one led then, or by the interval of now."""
    upper = np.inf if one.joint.interval is None else one.joint.interval[1]
    code = gone.code if gone is not None and gone.leader == leader else None
    if upper < 0 or code == WORSE:
        return WORSE
    return NO_GAIN if upper < margin else code


def choice_verdict(choice: ChoiceResult, health: Sequence[Check], control: str | None, margin: float) -> Verdict:
    """The verdict: the leader is the best if all others are worse, no worse if none is better by the margin."""
    failed, others = list_failed(health), choice.rankers[1:]
    winner = choice.leader if choice.decided and all(one.shown == WORSE for one in others) else None
    code, sentence, step = _conclude(choice, winner, control)
    codes = [code.value, *(one for one in _compare_with_control(choice, control, margin) if one != code)]
    if failed:
        codes.insert(0, VerdictCode.BROKEN.value)
        sentence = f"Do not trust this yet: {len(failed)} health check{'s' * (len(failed) > 1)} failed. {sentence}"
        step = "Fix what the failed checks report, then restart the experiment as a new version."
    return Verdict(sentence, winner, not failed, failed, codes[0], step, tuple(codes))


def _conclude(choice: ChoiceResult, winner: str | None, control: str | None) -> tuple[VerdictCode, str, str]:
    """The code of the choice, a sentence, and what to do now."""
    leader, others = choice.leader, choice.rankers[1:]
    still_in = sum(one.state == ChoiceState.IN for one in others)
    if still_in:
        sentence = f"{leader} leads, but the choice is not decided: {still_in} of {len(others)} others have not left."
        return VerdictCode.UNDECIDED, sentence, "Let the experiment run: better rankers get more and more traffic."
    if not choice.decided:
        return VerdictCode.NO_BEST, *_say_no_best(leader, [one for one in others if not one.shown])
    step = f"Keep {leader}, and try other candidates." if leader == control else f"Make {leader} live."
    if winner is None:
        sentence = f"{leader} leads, and none of the other {len(others)} rankers is better than it by the margin."
        return VerdictCode.NO_WORSE, sentence, step
    code = VerdictCode.WORSE if leader == control else VerdictCode.PREFERRED
    return code, f"{leader} is the best of {len(choice.rankers)} rankers: all others are worse.", step


def _say_no_best(leader: str, open_ones: Sequence[RankerState]) -> tuple[str, str]:
    """Why no best ranker is shown, though only one is left, and what to do."""
    names = several([one.ranker for one in open_ones])
    better = [one.ranker for one in open_ones if one.interval is not None and one.interval[0] > 0]
    sentence = (
        f"{leader} is the only ranker left, but it is not shown to be the best: {names} left under an earlier "
        f"leader, and {'is' if len(open_ones) == 1 else 'are'} not shown to be worse than {leader}."
    )
    if better:
        sentence += f" People prefer {several(better)} to {leader}: rankers beat each other in a cycle."
    return sentence, f"Compare {leader} with {names} in an experiment with the mode 'compare'."


def _compare_with_control(choice: ChoiceResult, control: str | None, margin: float) -> list[str]:
    """The codes that hold for the leader over the control, if that is another ranker."""
    pair = next((one for one in choice.rankers[1:] if one.ranker == control), None)
    if pair is None:
        return []
    interval = None if pair.interval is None else (-pair.interval[1], -pair.interval[0])
    codes = {*state(interval, interval, margin)}
    codes |= {VerdictCode.NO_WORSE.value} if pair.shown else set()
    codes |= {VerdictCode.PREFERRED.value} if pair.shown == WORSE else set()
    return [code.value for code in VerdictCode if code.value in codes]
