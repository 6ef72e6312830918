"""A log to its figures: every one against a plain computation, for every method, whatever the log comes as."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interleaf import DataError, log, methods
from interleaf.analysis.analyze import analyze
from interleaf.decode.columns import Exclusion
from interleaf.log.drop_reasons import DropReason
from interleaf.report.model import Comparison
from interleaf.report.weights import MIN_LIMIT
from interleaf.simulate.data import synthetic
from interleaf.simulate.people import People
from interleaf.simulate.world import World
from tests.oracles.logs import ONE, Rules, Sums, fates_of
from tests.support.log_rows import Row, made_row, made_rows, rows_of, table_of

DATA = synthetic(queries=15, seed=4)
EVERY = [
    (row.name, rankers) for row in methods() if row.schemes for rankers in (2, 3) if rankers <= (row.rankers[1] or 3)
]
SIGNLESS = ("optimized", "pairwise_preference")  # the sign of one impression's credit is biased


def world(method: str = "team_draft", rankers: int = 2, units: int = 50, **more: Any) -> World:
    people = People(units=units, purchases=(0.05, 0.5), again_without_click=0.7)
    return World(DATA, [1, 8, 15][:rankers], people, method, k=6, seed=9, **more)


def table(made: World, **options: Any) -> Any:
    return pa.Table.from_batches(list(made.batches(rankings=True, **options)))


def sign_test(wins: int, losses: int) -> float:
    """Two-sided, exact."""
    number = wins + losses
    fewer = sum(comb(number, few) for few in range(min(wins, losses) + 1))
    return min(1.0, float(Fraction(2 * fewer, 2**number)))


def as_given(found: Comparison) -> Comparison:
    """The comparison with its rankers in the order of their names: the winner of a decided pair comes first."""
    if found.first < found.second:
        return found

    def less(value: float | None) -> float | None:
        return None if value is None else -value

    low, high = found.interval or (0.0, 0.0)
    names = ("estimate", "per_person_estimate", "per_search_estimate", "delta", "z_score")
    signed: dict[str, Any] = {name: less(getattr(found, name)) for name in names}
    return replace(
        found,
        first=found.second,
        second=found.first,
        interval=(-high, -low),
        wins=found.losses,
        losses=found.wins,
        unit_wins=found.unit_losses,
        unit_losses=found.unit_wins,
        **signed,
    )


def check_comparison(found: Comparison, sums: Sums, pair: tuple[int, int]) -> None:
    """All that follows from the sums of one pair in a line of arithmetic."""
    assert found.estimate == pytest.approx(float(sums.estimate(pair)), rel=1e-12, abs=1e-15)
    assert found.error == pytest.approx(sums.error(pair), rel=1e-9)
    assert found.effective_units == pytest.approx(float(sums.effective), rel=1e-12)
    assert (found.impressions, found.clicked) == (sums.impressions, sums.clicked)
    assert found.units == sum(cell.clicked > 0 for cell in sums.units.values())
    assert (found.unit_wins is None) == (found.wins is None)
    if found.unit_wins is not None and found.unit_losses is not None:
        preferring = [cell.sums[pair] for cell in sums.units.values() if abs(cell.sums[pair]) > cell.clicked]
        assert found.unit_wins == sum(value > 0 for value in preferring)
        assert found.unit_losses == sum(value < 0 for value in preferring)
        assert found.unit_sign_test_p_value == pytest.approx(sign_test(found.unit_wins, found.unit_losses), rel=1e-9)
    assert found.per_person_estimate == pytest.approx(float(sums.estimate(pair, 1)), rel=1e-12, abs=1e-15)
    assert found.per_search_estimate == pytest.approx(float(sums.per_search(pair)), rel=1e-12, abs=1e-15)
    mean, square = float(sums.per_search(pair)), sums.squares[pair] / ONE / sums.clicked
    assert found.z_score == pytest.approx(mean / (square - mean**2) ** 0.5 * sums.clicked**0.5, rel=1e-9)
    low, high = found.interval or (0, 0)
    assert (low + high) / 2 == pytest.approx(found.estimate, abs=1e-12)
    if found.wins is not None:
        wins, losses = sums.wins[pair], sums.losses[pair]
        assert (found.wins, found.losses, found.ties) == (wins, losses, sums.clicked - wins - losses)
        assert found.delta == pytest.approx((wins - losses) / 2 / sums.clicked, abs=1e-15)
        assert found.sign_test_p_value == pytest.approx(sign_test(wins, losses), rel=1e-9)


AVERAGED = ["click_list", "normalized_list", "click_place", "normalized_place"]


@pytest.mark.parametrize("rankers", [2, 3])
@pytest.mark.parametrize("scheme", AVERAGED)
def test_where_credit_is_averaged_over_owners_lists_are_counted_by_the_drawn_owners(scheme: str, rankers: int) -> None:
    source = table(world(rankers=rankers))
    report, events = analyze(source, scheme, look=(1, 1)), {"click": 1.0, "purchase": -2.5}
    plain = Sums(rows_of(source), Rules("binary_deduped"))
    for found, pair in zip(map(as_given, report.comparisons), combinations(range(rankers), 2), strict=True):
        wins, losses = plain.wins[pair], plain.losses[pair]
        assert (found.wins, found.losses, found.ties) == (wins, losses, plain.clicked - wins - losses)
        assert found.delta == pytest.approx((wins - losses) / 2 / plain.clicked, abs=1e-15)
        assert found.sign_test_p_value == pytest.approx(sign_test(wins, losses), rel=1e-9)
        assert found.counted_by == "drawn_owners"
        assert (found.unit_wins, found.unit_losses, found.unit_sign_test_p_value) == (None, None, None)
        assert found.reasons["unit_wins"].endswith("so people who prefer a ranker are not counted")
    assert "counted_by_owners" in report.note_codes
    plain = Sums(rows_of(source), Rules("binary_deduped", events=events))
    (found, *_) = map(as_given, analyze(source, scheme, events=events).comparisons)
    assert (found.wins, found.losses) == (plain.wins[0, 1], plain.losses[0, 1])


@pytest.mark.parametrize("scheme", AVERAGED)
def test_sessions_are_counted_by_the_drawn_owners_too(scheme: str) -> None:
    source = table(world(units=80))
    plain = Sums(rows_of(source), Rules("binary_deduped"), sessions=1800.0)
    found = as_given(analyze(source, scheme, sessions=1800.0).comparisons[0])
    assert (found.wins, found.losses, found.clicked) == (plain.wins[0, 1], plain.losses[0, 1], plain.clicked)


def test_lists_of_a_scheme_with_a_fair_sign_are_counted_by_their_score() -> None:
    for scheme in ("binary_deduped", "click", "normalized_deduped"):
        report = analyze(table(world()), scheme)
        assert report.comparisons[0].counted_by == "score"
        assert "counted_by_owners" not in report.note_codes
    (found,) = analyze(table(world("optimized"))).comparisons
    assert (found.counted_by, found.wins, found.unit_wins) == ("", None, None)


@pytest.mark.parametrize(("lacking", "scheme"), [(slice(None), "click_list"), (slice(0, 30), "normalized_list")])
def test_lists_are_not_counted_if_some_have_no_owners(lacking: slice, scheme: str) -> None:
    rows = rows_of(table(world()))
    expected = analyze(table_of(rows), scheme)
    for row in rows[lacking]:
        row["teams"] = None
    number = sum(row["arm"] == "interleaved" and bool(row["events"]) for row in rows[lacking])
    report = analyze(table_of(rows), scheme)
    (found,) = report.comparisons
    reason = f"they are counted by the drawn owners, which {number:,} lists with an event do not have"
    assert [found.reasons[name] for name in ("wins", "losses", "ties", "delta")] == [reason] * 4
    assert (found.wins, found.losses, found.ties, found.delta, found.counted_by) == (None, None, None, None, "")
    assert "counted_by_owners" not in report.note_codes
    assert (found.estimate, found.interval) == (expected.comparisons[0].estimate, expected.comparisons[0].interval)


@pytest.mark.parametrize(("method", "rankers"), EVERY)
def test_every_method_s_figures_are_those_of_a_plain_computation(method: str, rankers: int) -> None:
    source = table(world(method, rankers))
    rows = rows_of(source)
    report = analyze(source, look=(1, 1))
    sums = Sums(rows)
    assert len(report.comparisons) == rankers * (rankers - 1) // 2
    for found, pair in zip(map(as_given, report.comparisons), combinations(range(rankers), 2), strict=True):
        assert (found.first, found.second) == ("ABC"[pair[0]], "ABC"[pair[1]])
        assert (found.wins is None) == (method in SIGNLESS)
        check_comparison(found, sums, pair)
    totals = report.totals
    assert (totals.impressions, totals.clicked, totals.units) == (len(rows), sums.clicked, len(sums.units))
    assert totals.events == Counter(fate for row in rows for fate in fates_of(row))
    assert (totals.since, totals.until) == (min(row["time"] for row in rows), max(row["time"] for row in rows))
    assert (report.method, report.scored_as, report.dropped if hasattr(report, "dropped") else {}) == (
        method,
        method,
        {},
    )


@pytest.mark.parametrize(
    "rules",
    [
        Rules("click"),
        Rules("normalized_deduped", events={"click": 1, "purchase": 4}),
        Rules("binary", dwell=30),
        Rules(first=True),
        Rules("click", window=20),
        Rules("click", method="probabilistic(tau=1)"),
        Rules(method="pairwise_preference"),
    ],
    ids=str,
)
def test_other_ways_to_score_a_log_follow_the_same_arithmetic(rules: Rules) -> None:
    source = table(world(units=80))
    counting: dict[str, Any] = {"dwell": rules.dwell, "first": rules.first, "window": rules.window}
    counting |= {"method": rules.method, "events": rules.events, "look": (1, 1)}
    (found,) = analyze(source, rules.scheme, **counting).comparisons
    check_comparison(as_given(found), Sums(rows_of(source), rules), (0, 1))


def test_every_source_of_a_log_gives_the_same_report(tmp_path: Path) -> None:
    made = world(arms={"holdout": 0.2, "B": 0.1})
    source = table(made)
    expected = analyze(source, by=["device"]).to_dict()
    for name in ("log.parquet", "log.jsonl", "log.jsonl.gz"):
        log.write_batches(tmp_path / name, source.to_batches(max_chunksize=50))
        assert analyze(tmp_path / name, by=["device"]).to_dict() == expected, name
    for part in range(3):
        rows = source.slice(part * 60, 60 if part < 2 else None)
        log.write_batches(tmp_path / f"part-{part}.parquet", rows.to_batches())
    for given in (
        str(tmp_path / "part-*.parquet"),
        source.to_reader(max_chunksize=11),
        source.to_batches(max_chunksize=7),
        (batch for batch in source.to_batches(max_chunksize=90)),
        made.batches(rankings=True),
    ):
        assert analyze(given, by=["device"]).to_dict() == expected


# Rankings alone.


ALONE = ["team_draft", "probabilistic", "pairwise_preference", "sample_scored_only"]
DERIVED = ["ranks", "lengths", "union", "choices"]


@pytest.mark.parametrize("method", ALONE)
@pytest.mark.parametrize("ending", [".parquet", ".jsonl"])
def test_rankings_alone_are_enough_in_a_file(tmp_path: Path, method: str, ending: str) -> None:
    """Whether the columns that follow from them are missing, or null in some rows, or in all."""
    source = table(world(method))
    expected = analyze(source).to_dict()
    log.write_batches(tmp_path / f"without{ending}", source.drop(DERIVED).to_batches())
    assert analyze(tmp_path / f"without{ending}").to_dict() == expected
    log.write_batches(tmp_path / f"nulls{ending}", table_of(half_derived(source)).to_batches())
    assert analyze(tmp_path / f"nulls{ending}").to_dict() == expected
    log.convert(tmp_path / f"without{ending}", tmp_path / "native.parquet")
    assert analyze(tmp_path / "native.parquet").to_dict() == expected


@pytest.mark.parametrize("method", ALONE)
def test_rankings_alone_are_enough_in_memory(method: str) -> None:
    source = table(world(method))
    expected = analyze(source).to_dict()
    assert analyze(source.drop(DERIVED)).to_dict() == expected
    assert analyze(table_of(half_derived(source))).to_dict() == expected
    assert analyze(table_of([row | dict.fromkeys(DERIVED) for row in rows_of(source)])).to_dict() == expected


def half_derived(source: Any) -> list[Row]:
    """Every other row has its rankings and nothing that follows from them."""
    return [row | dict.fromkeys(DERIVED) if number % 2 else row for number, row in enumerate(rows_of(source))]


def test_a_log_scored_by_another_method_takes_what_that_one_needs_from_the_rankings(tmp_path: Path) -> None:
    source = table(world())
    log.write_batches(tmp_path / "log.parquet", source.to_batches())
    (found,) = analyze(tmp_path / "log.parquet", method="pairwise_preference", look=(1, 1)).comparisons
    check_comparison(as_given(found), Sums(rows_of(source), Rules(method="pairwise_preference")), (0, 1))


# What a log may hold besides.


def test_several_experiments_must_be_told_apart() -> None:
    rows = [row | {"experiment": ("shop", "news")[number % 2]} for number, row in enumerate(made_rows(40))]
    with pytest.raises(DataError, match=r"2 experiments; name one of them: 'news' or 'shop'"):
        analyze(table_of(rows))
    for name in ("shop", "news"):
        own = [row for row in rows if row["experiment"] == name]
        assert analyze(table_of(rows), experiment=name).to_dict() == analyze(table_of(own)).to_dict()
    with pytest.raises(DataError, match="no row that can be used of experiment 'other'"):
        analyze(table_of(rows), experiment="other")


def test_the_latest_version_is_analysed_and_the_others_are_noted() -> None:
    rows = [row | {"version": 1 + number % 3} for number, row in enumerate(made_rows(40))]
    report = analyze(table_of(rows))
    assert (report.version, report.totals.impressions) == (3, 13)
    assert report.notes == (
        "Impressions of another version (1), left out: 14.",
        "Impressions of another version (2), left out: 13.",
    )
    assert report.note_codes == ("rows_left_out", "rows_left_out")
    assert report.to_dict()["note_codes"] == list(report.note_codes)
    first = analyze(table_of(rows), version=1)
    own = [row for row in rows if row["version"] == 1]
    assert first.to_dict() == analyze(table_of(own)).to_dict()
    with pytest.raises(DataError, match="no row that can be used of version 7"):
        analyze(table_of(rows), version=7)


def test_lists_of_another_method_or_other_rankers_are_left_out_and_noted() -> None:
    rows = made_rows(40)
    others = [made_row(number, (1,), "probabilistic") for number in range(100, 103)]
    strangers = [made_row(number, (1,)) | {"rankers": ["A", "Z"]} for number in range(110, 115)]
    report = analyze(table_of([*others, *rows, *strangers]))
    assert report.comparisons == analyze(table_of(rows)).comparisons
    assert report.notes == (
        "Impressions of another method (probabilistic), left out: 3.",
        "Impressions of another set of rankers ('A', 'Z'), left out: 5.",
    )


BROKEN: Row = {"teams": [0, 1]}


def test_a_row_that_is_dropped_has_no_say_in_which_version_is_the_latest() -> None:
    rows = made_rows(40)
    report = analyze(table_of([*rows, made_row(50, version=9) | BROKEN]))
    assert (report.version, report.totals.impressions) == (1, 40)
    assert sum(report.totals.dropped.values()) + report.notes.count(UNUSED) == 1


UNUSED = "Impressions of another version that cannot be used, left out: 1."


@pytest.mark.parametrize(
    "stranger", [{"version": 0}, {"rankers": ["A", "C"]}, {"method": "team_draft(fill=owned)"}], ids=str
)
def test_rows_dropped_beside_the_analysed_ones_are_counted_too(stranger: Row) -> None:
    rows = made_rows(40)
    report = analyze(table_of([*rows, made_row(50) | stranger | BROKEN, made_row(51) | stranger]))
    assert report.totals.impressions == 40
    assert sum(report.totals.dropped.values()) + report.notes.count(UNUSED) == 1
    assert len(set(report.notes) - {UNUSED}) == 1
    assert report.notes[0].endswith("left out: 1.")


def test_rows_of_an_unknown_method_are_dropped_and_say_so() -> None:
    report = analyze(table_of([*made_rows(40), made_row(50) | {"method": "team_craft"}]))
    (reason,) = report.totals.dropped
    assert reason.startswith("unknown_method:unknown method 'team_craft'")
    assert report.comparisons == analyze(table_of(made_rows(40))).comparisons


def test_single_lists_that_say_they_are_interleaved_are_dropped() -> None:
    report = analyze(table_of([*made_rows(40), made_row(50, (1,), "single(ranker=A)")]))
    assert report.totals.dropped == {"not_interleaved:single(ranker=A)": 1}


def test_a_log_without_a_row_says_why() -> None:
    with pytest.raises(DataError, match="it is empty"):
        analyze(table_of([]))
    with pytest.raises(DataError, match=rf"dropped rows: {DropReason.NO_DESIGN.text}: 3"):
        analyze(table_of([row | {"rankers": ["A", "A"]} for row in made_rows(3)]))


def test_units_that_come_too_often_are_left_out_of_any_source() -> None:
    rows = made_rows(40) + [made_row(number, (1,), unit="crawler") for number in range(50, 70)]
    rule = Exclusion(max_impressions=15)
    expected = analyze(table_of(made_rows(40))).comparisons
    assert analyze(table_of(rows), exclude=rule).comparisons == expected
    assert analyze(table_of(rows).to_batches(), exclude=rule).comparisons == expected
    alone = table_of(rows).drop(["unit"])  # each impression is its own unit
    assert analyze(alone, exclude=rule).to_dict() == analyze(alone).to_dict()
    with pytest.raises(DataError, match=r"twice|once"):
        analyze(table_of(rows).to_reader(), exclude=rule)


def test_files_with_ranks_and_without_give_the_same_report_in_any_order(tmp_path: Path) -> None:
    """Which scheme is the default may not hang on which file happens to be read first."""
    bare = ["ranks", "lengths", "union", "choices", "rankings"]
    log.write_batches(tmp_path / "1.parquet", table_of(made_rows(40)).to_batches())
    more = table_of([row | {"impression": f"m-{row['impression']}"} for row in made_rows(30)]).drop(bare)
    log.write_batches(tmp_path / "2.parquet", more.to_batches())
    one, other = (tmp_path / f"{number}.parquet" for number in (1, 2))
    assert analyze([one, other]).to_dict() == analyze([other, one]).to_dict()


def test_doubling_every_impression_of_every_user_changes_nothing_that_is_clustered() -> None:
    """As long as nobody comes so often that the limit on a unit's weight is reached."""
    rows = rows_of(table(world()))
    number = Counter(row["unit"] for row in rows)
    rows = [row for row in rows if number[row["unit"]] <= MIN_LIMIT // 2]
    twice = [row | {"impression": f"{row['impression']}-{copy}"} for row in rows for copy in "ab"]
    (one,), (two,) = analyze(table_of(rows)).comparisons, analyze(table_of(twice)).comparisons
    for name in ("estimate", "error", "p_value", "effective_units", "delta"):
        assert getattr(two, name) == pytest.approx(getattr(one, name), rel=1e-12), name
    assert two.interval == pytest.approx(one.interval, rel=1e-12)
    assert (two.units, two.unit_wins, two.unit_losses) == (one.units, one.unit_wins, one.unit_losses)
    assert two.clicked == 2 * one.clicked
    assert two.z_score == pytest.approx((one.z_score or 0) * 2**0.5)  # which takes impressions for independent
