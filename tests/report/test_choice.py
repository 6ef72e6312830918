"""The report of a choice: estimates by plain definitions, who leaves and why, regret, verdict codes and formats."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from interleaf import Experiment, LogWriter, Report, Tally, analyze, interleave, tally_log
from interleaf.errors import DataError
from interleaf.experiment.epochs import RankerExit
from interleaf.plots import areas
from interleaf.report.build import report
from interleaf.report.charts import charts
from interleaf.report.choice import ChoiceHistory, choice_verdict, next_step, plan_from_results, walk
from interleaf.report.choice_result import ChoiceResult, ChoiceState, RankerState
from interleaf.report.format import Names
from interleaf.report.layout import choice, say_regret, share_rows
from interleaf.report.model import FAILED, Check
from interleaf.report.rule import ReportSettings
from interleaf.tally import About
from interleaf.tally.choice_sums import ChoiceSums
from tests.report.test_weights_of_people import visits
from tests.support.epoch_plans import shares_of
from tests.support.log_rows import table_of

NAMES = ("ash", "birch", "cedar", "elm")
Scores = list[tuple[int, int, str, str, float]]  # the unit, the epoch, a pair, and the score of its first ranker


def unit(number: int) -> Any:
    return np.random.default_rng(number).integers(2**64, size=1, dtype=np.uint64)


def add(sums: ChoiceSums, scores: Scores) -> ChoiceSums:
    for number, epoch, one, other, score in scores:
        column = np.array([[score]])
        sums.add_shown((one, other), np.array([epoch]))
        sums.add_scores((one, other), unit(number), np.array([epoch]), column, np.sign(column).astype(int))
    return sums


def draw(epochs: int, units: int = 60, seed: int = 1, edge: float = 0.5) -> Scores:
    """The earlier a name, the better its ranker; `edge` is the difference of neighbours."""
    chance = np.random.default_rng(seed)
    rows = []
    for epoch in range(epochs):
        for number in range(units):
            one, other = sorted(chance.choice(len(NAMES), 2, replace=False))
            score = float(chance.random() < 0.5 + edge * (other - one) / 4) * 2 - 1
            rows.append((number, epoch, NAMES[one], NAMES[other], score))
    return rows


def tally_of(sums: ChoiceSums) -> Tally:
    tally = Tally.empty(About("best", 1, (), "", "", "", "", None, True))
    tally.choice = sums
    return tally


def report_of(sums: ChoiceSums, **settings: Any) -> Report:
    return report(tally_of(sums), ReportSettings(start_rankers=NAMES, control="ash", **settings))


def test_epochs_count_by_their_units_and_units_by_epochs() -> None:
    scores: Scores = [
        *((number, 0, "ash", "birch", 1.0) for number in range(3)),  # few units saw the pair, and liked ash
        *((number, 1, "birch", "ash", 1.0) for number in range(9)),  # many did, and liked birch
        *((0, 1, "birch", "ash", 1.0) for _ in range(50)),  # one of them often
        (0, 1, "ash", "cedar", 0.25),
    ]
    means: defaultdict[Any, list[float]] = defaultdict(list)
    for number, epoch, one, other, score in scores:
        means[number, epoch, *sorted((one, other))].append(score if one < other else -score)
    history = ChoiceHistory(add(ChoiceSums(), scores), NAMES, 0.95)
    history.read_until(0)
    assert history.means.means[0, 1] == 1.0
    history.read_until(1)
    expected = fmean(fmean(of) for (_, _, one, other), of in means.items() if (one, other) == ("ash", "birch"))
    assert history.means.means[0, 1] == pytest.approx(expected) == pytest.approx((3 - 9) / 12)
    assert history.means.means[1, 0] == -history.means.means[0, 1]
    assert (history.means.counts[0, 1], history.means.means[0, 3]) == (12, 0)
    sums = history.leader_sums(1)
    assert (sums.counts[:, 0].sum(), sums.units[0]) == (12, 9)
    assert sums.sums[:, 0].sum() == pytest.approx(3 - 9)


def history_of(scores: Scores) -> ChoiceHistory:
    return ChoiceHistory(add(ChoiceSums(), scores), NAMES, 0.95)


def test_steps_do_not_depend_on_later_epochs() -> None:
    scores = draw(30, edge=0.6)
    whole = walk(history_of(scores), 0.01)
    assert whole[-1].exits
    for last in (0, 5, 20):
        early = walk(history_of([row for row in scores if row[1] <= last]), 0.01)
        assert early[-1] == whole[last]
        assert walk(history_of(scores), 0.01, last)[-1] == whole[last]
    gone = [one.ranker for one in whole[-1].exits]
    assert len(set(gone)) == len(gone)
    assert all(one.exits[: len(before.exits)] == before.exits for before, one in pairwise(whole))


@pytest.mark.parametrize(("units", "edge"), [(60, 0.6), (3, 0.3), (1, 0.0)])
def test_sums_that_grow_with_each_epoch_give_the_same_steps_as_those_of_all_epochs(units: int, edge: float) -> None:
    sums = add(ChoiceSums(), [*draw(60, units, edge=edge), (0, 61, "ash", "birch", 1.0)])
    exits: tuple[RankerExit, ...] = ()
    for step in walk(ChoiceHistory(sums, NAMES, 0.95), 0.01):
        assert step == next_step(ChoiceHistory(sums, NAMES, 0.95), step.epoch, exits, 0.01)
        exits = step.exits
    assert (units < 60) != bool(exits)


def test_nobody_comes_back_into_a_plan() -> None:
    settings = Experiment.of({"name": "best", "rankers": NAMES, "mode": "choose"})
    sums = add(ChoiceSums(), draw(30, edge=0.6))
    made = plan_from_results(settings, 1, 20, sums)
    assert made.exits
    for gone in (made.exits, made.exits[:1]):
        assert plan_from_results(settings, 1, 20, sums, gone) == made
    sampled = ChoiceSums()  # without any result
    again = plan_from_results(settings, 1, 21, sampled, made.exits)
    assert again.exits == made.exits
    assert not {one.ranker for one in made.exits} & set(shares_of(again))


def test_the_best_is_found_and_the_reasons_are_given() -> None:
    made = report_of(add(ChoiceSums(), draw(60, edge=0.6)))
    assert made.choice is not None
    assert (made.choice.leader, made.choice.decided, made.verdict.winner) == ("ash", True, "ash")
    assert made.verdict.code == "worse"  # the control is the best, so the candidates are worse
    assert {one.state for one in made.choice.rankers[1:]} == {ChoiceState.WORSE}
    for one in made.choice.rankers[1:]:
        assert one.left_after is not None
        assert one.bound is not None
        assert one.bound < 0
    assert "choice" in made.note_codes
    assert made.rankers == NAMES


def test_a_running_report_lets_rankers_leave_by_complete_epochs_only() -> None:
    sums = add(ChoiceSums(), draw(60, edge=0.6))
    early = report_of(sums, known_epoch=-1).choice
    assert early is not None
    assert (early.leader, early.decided) == ("ash", False)
    assert {one.state for one in early.rankers[1:]} == {ChoiceState.IN}


def test_a_wide_margin_lets_rankers_leave_because_they_gain_nothing() -> None:
    made = report_of(add(ChoiceSums(), draw(40, edge=0.0)), margin=0.9)
    assert made.choice is not None
    assert {one.state for one in made.choice.rankers[1:]} == {ChoiceState.NO_GAIN}
    assert (made.choice.decided, made.verdict.winner, made.verdict.code) == (True, None, "no_worse")


def test_regret_and_shares_are_those_of_the_lists() -> None:
    scores: Scores = [
        *((number, 0, "ash", "birch", 0.5) for number in range(30)),
        *((number, 0, "ash", "cedar", 1.0) for number in range(10)),
        *((number, 1, "ash", "birch", 0.5) for number in range(30)),
    ]
    choice = report_of(add(ChoiceSums(), scores)).choice
    assert choice is not None
    # 35 lists of ash, 30 of birch and 5 of cedar; elm was never shown.
    assert choice.regret == pytest.approx(30 * 0.5 + 5 * 1.0)
    assert choice.regret_equal_shares == pytest.approx(70 * (0 + 0.5 + 1.0) / 3)
    assert choice.regret_saved == pytest.approx(1 - 20 / 35)
    assert (choice.regret_rankers, choice.epochs) == (3, 2)
    shares = {(one.epoch, one.ranker): one.share for one in choice.shares}
    assert shares == {(0, "ash"): 0.5, (0, "birch"): 0.375, (0, "cedar"): 0.125, (1, "ash"): 0.5, (1, "birch"): 0.5}
    elm = next(one for one in choice.rankers if one.ranker == "elm")
    assert (elm.estimate, elm.share) == (None, 0.0)
    assert elm.reason


def test_all_formats_have_the_choice() -> None:
    made = report_of(add(ChoiceSums(), draw(5)))
    again = Report.from_dict(json.loads(made.to_json()))
    assert again == made
    text = str(made)
    assert "Regret" in text
    assert "Nothing was compared" not in text
    assert made.to_frames()["choice"].num_rows == 4
    assert made.to_frames()["choice_shares"].num_rows == len(made.choice.shares)  # type: ignore[union-attr]
    assert "choice" in charts(made)
    assert "The choice" in made.to_html()


def test_epochs_in_the_table_are_numbered_as_in_the_chart() -> None:
    scores: Scores = [(number, 10 * epoch, *rest) for number, epoch, *rest in draw(60, edge=0.6)]  # type: ignore[misc]
    made = report_of(add(ChoiceSums(), scores))
    assert made.choice is not None
    (gone,) = {one.left_after for one in made.choice.rankers if one.ranker == "elm"}
    assert gone is not None
    section = choice(made, Names(NAMES))
    assert section is not None
    (row,) = [row for row in section.tables[0].rows if row[0] == "elm"]
    assert row[1:3] == ("left: it is worse than ash", f"{gone // 10 + 1}")


def test_rankers_at_the_start_that_do_not_fit_the_log_are_refused() -> None:
    sums = add(ChoiceSums(), draw(5))
    made = analyze(tally_of(sums), start_rankers=[*NAMES, "fir"])
    assert made.choice is not None
    assert {one.ranker for one in made.choice.rankers} == {*NAMES, "fir"}
    for names in (NAMES[1:], [*NAMES, "ash"]):
        with pytest.raises(DataError, match="'ash'"):
            analyze(tally_of(sums), start_rankers=names)


def test_a_chart_over_many_epochs_and_rankers_stays_small() -> None:
    names = [f"r{place:02d}" for place in range(30)]
    sums = ChoiceSums()
    for epoch in range(450):
        sums.add_shown((names[epoch % 30], names[(epoch + 1) % 30]), np.arange(epoch, epoch + 1))
    made = report(tally_of(sums), ReportSettings(start_rankers=tuple(names)))
    rows = share_rows(made, Names(names))
    assert len({row["ranker"] for row in rows}) == 7
    assert len({row["epoch"] for row in rows}) <= 100
    by_epoch: defaultdict[int, float] = defaultdict(float)
    for row in rows:
        by_epoch[row["epoch"]] += row["share"]
    assert list(by_epoch.values()) == pytest.approx([1.0] * len(by_epoch))


def rounds(epochs: range, units: int, *wins: tuple[str, str]) -> Scores:
    """In each epoch, all units prefer the first ranker of each pair, except for one of nine."""
    return [
        (number, epoch, one, other, -1.0 if number % 9 == 0 else 1.0)
        for epoch in epochs
        for one, other in wins
        for number in range(units)
    ]


def test_three_rankers_are_decided() -> None:
    scores: Scores = [row for row in draw(80, edge=0.9) if "elm" not in row]
    for names in (NAMES[:3], NAMES[2::-1]):
        made = report(tally_of(add(ChoiceSums(), scores)), ReportSettings(start_rankers=names, control="cedar"))
        assert made.choice is not None
        assert (made.choice.decided, made.verdict.winner, made.verdict.code) == (True, "ash", "preferred")
        assert "ash is the best of 3 rankers" in str(made)


def make_cycle(last: Scores) -> Report:
    """Birch loses against ash, then ash against cedar, and the last scores say how birch and cedar compare."""
    scores = rounds(range(2), 60, ("ash", "birch"), ("ash", "elm"), ("cedar", "elm"))
    return report_of(add(ChoiceSums(), [*scores, *last, *rounds(range(4, 7), 90, ("cedar", "ash"))]))


def test_a_ranker_that_left_against_an_earlier_leader_is_not_worse_than_the_last_one() -> None:
    made = make_cycle(rounds(range(2), 40, ("birch", "cedar")))
    assert made.choice is not None
    birch = next(one for one in made.choice.rankers if one.ranker == "birch")
    assert (made.choice.leader, birch.state, birch.left_against, birch.shown) == ("cedar", "worse", "ash", None)
    assert birch.interval is not None
    assert birch.interval[0] > 0
    assert (made.choice.decided, made.verdict.code, made.verdict.winner) == (False, "no_best", None)
    assert "People prefer birch to cedar: rankers beat each other in a cycle." in made.verdict.sentence
    assert "left: it is worse than ash" in str(made)
    unknown = make_cycle([])
    assert (unknown.verdict.code, unknown.verdict.winner) == ("no_best", None)
    assert "cycle" not in unknown.verdict.sentence


def test_a_ranker_that_left_against_an_earlier_leader_may_be_shown_to_be_worse_than_the_last_one() -> None:
    made = make_cycle(rounds(range(2), 60, ("cedar", "birch")))
    assert made.choice is not None
    birch = next(one for one in made.choice.rankers if one.ranker == "birch")
    assert (birch.left_against, birch.shown) == ("ash", "worse")
    assert (made.choice.decided, made.verdict.code, made.verdict.winner) == (True, "preferred", "cedar")
    assert made.verdict.codes == ("preferred", "no_worse")


def test_margins_do_not_add_up_along_a_chain_of_leaders() -> None:
    # Against ash, birch gains less than the margin; ash then leaves against cedar, with which birch was never compared.
    narrow: Scores = [(number, 0, "ash", "birch", -0.1 + 0.2 * (number % 2)) for number in range(200)]
    scores = [*rounds(range(1), 60, ("ash", "elm"), ("cedar", "elm")), *narrow]
    made = report_of(add(ChoiceSums(), [*scores, *rounds(range(4, 7), 90, ("cedar", "ash"))]), margin=0.3)
    assert made.choice is not None
    birch = next(one for one in made.choice.rankers if one.ranker == "birch")
    assert (made.choice.leader, birch.state, birch.left_against, birch.shown) == ("cedar", "no_gain", "ash", None)
    assert (made.choice.decided, made.verdict.code) == (False, "no_best")


def state_of(name: str, state: str, shown: str | None = None, interval: Any = None) -> RankerState:
    return RankerState(name, state, 0.1, 1.0, None, interval, shown=shown)


@pytest.mark.parametrize(
    ("states", "control", "codes", "winner"),
    [
        (["worse", "worse"], "birch", ["preferred", "no_worse"], "ash"),
        (["worse", "worse"], "ash", ["worse"], "ash"),
        (["worse", "worse"], None, ["preferred"], "ash"),
        (["worse", "no_gain"], "birch", ["no_worse", "preferred"], None),
        (["worse", "no_gain"], "cedar", ["no_worse"], None),
        (["worse", "no_gain"], "ash", ["no_worse"], None),
        (["worse", "in"], "birch", ["undecided", "preferred", "no_worse"], None),
        (["worse", "in"], "cedar", ["undecided"], None),
        (["worse", None], "birch", ["no_best", "preferred", "no_worse"], None),
    ],
)
def test_verdict_codes(states: list[str | None], control: str | None, codes: list[str], winner: str | None) -> None:
    others = [
        state_of(name, state or "worse", None if state == "in" else state)
        for name, state in zip(NAMES[1:], states, strict=False)
    ]
    decided = all(one.shown for one in others)
    result = ChoiceResult("ash", decided, 3, 0, (RankerState("ash", "leads", 0.5, 1.0), *others))
    verdict = choice_verdict(result, [], control, 0.01)
    assert (verdict.code, list(verdict.codes), verdict.winner, verdict.trusted) == (codes[0], codes, winner, True)
    broken = choice_verdict(result, [Check("Events", FAILED, "none")], control, 0.01)
    assert (broken.code, list(broken.codes), broken.trusted) == ("broken", ["broken", *codes], False)


@pytest.mark.parametrize(
    ("interval", "codes"),
    [
        ((-0.2, -0.1), ["preferred", "no_worse"]),
        ((-0.2, 0.005), ["no_worse"]),
        ((-0.005, 0.005), ["alike", "no_worse"]),
        ((0.1, 0.2), ["worse"]),
        ((-0.2, 0.2), []),
        (None, []),
    ],
)
def test_codes_say_what_the_interval_of_the_control_shows(interval: Any, codes: list[str]) -> None:
    upper = 1.0 if interval is None else interval[1]
    control = state_of("elm", "in", "worse" if upper < 0 else "no_gain" if upper < 0.01 else None, interval)
    result = ChoiceResult("ash", False, 3, 0, (RankerState("ash", "leads", 0.5, 1.0), control))
    assert choice_verdict(result, [], "elm", 0.01).codes == ("undecided", *codes)


def test_options_that_a_choice_does_not_have_are_refused_all_at_once() -> None:
    tally = tally_of(add(ChoiceSums(), draw(5)))
    given: dict[str, Any] = {"look": (1, 1), "planned_units": 50, "cluster": "unit_and_query", "aa": True}
    given |= {"split": {"ash": 0.5}}
    with pytest.raises(DataError) as problem:
        analyze(tally, **given)
    for name in given:
        assert f"{name} is " in str(problem.value)
    assert str(problem.value).count("leave it out") == len(given)


def test_ways_to_read_a_log_that_a_choice_does_not_have_are_refused_all_at_once(tmp_path: Path) -> None:
    with LogWriter(tmp_path, experiment="best") as writer:
        for number in range(20):
            shown = interleave({"ash": ["a", "b"], "birch": ["b", "a"]}, key=number)
            impression = writer.impression(shown, unit=f"user-{number}", query="trees", attributes={"device": "m"})
            writer.event(impression, rank=1, value=3.0)
    (log,) = tmp_path.iterdir()
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    epochs = [{**row, "epoch": 7} if "documents" in row else row for row in rows]
    log.write_text("".join(f"{json.dumps(row)}\n" for row in epochs))
    assert analyze(log).choice is not None
    with pytest.raises(DataError) as problem:
        analyze(log, values=True, by=["device"], examination=[1.0, 0.5])
    for name in ("values", "by", "examination"):
        assert f"{name} is " in str(problem.value)
    with pytest.raises(DataError, match="sessions is 1800"):
        tally_log(log, sessions=1800)


def test_rankers_at_the_start_are_refused_for_other_logs() -> None:
    with pytest.raises(DataError, match="start_rankers"):
        analyze(table_of(visits([[1, -1]] * 5)), start_rankers=["production", "candidate"])


def test_large_regrets_are_written_as_numbers() -> None:
    result = ChoiceResult("ash", False, 9, 1, (), (), 1849.6, 20_000.4, 0.7, 3)
    assert "Regret so far is 1,850; with equal shares it would be 20,000," in say_regret(result)


def test_each_epoch_is_as_wide_as_the_others_in_the_chart() -> None:
    rows = [{"epoch": epoch, "share": 0.5, "ranker": name, "place": 1} for epoch in (1, 4, 7) for name in NAMES[:2]]
    spec = json.dumps(areas(rows, "epoch", "share", "ranker", "place", colours=dict.fromkeys(NAMES, "#000")))
    assert spec.count('"epoch": 10,') == 2  # the last epochs end where the next one would begin
    assert '"step-after"' in spec
