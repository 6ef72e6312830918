"""Which events count; and every reason to drop a row, provoked once, with the rest of the log unharmed."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import DataError
from interleaf.analysis.analyze import tally_log
from interleaf.decode import Counting, Decoded, Decoding
from interleaf.decode.columns import Exclusion
from interleaf.kernels import buckets
from interleaf.log.drop_reasons import DropReason, EventFate, text_of
from tests.oracles.logs import Rules, counted_events, fates_of
from tests.support.log_rows import Row, loose_table_of, made_event, made_row, made_rows, table_of

KINDS = ("click", "purchase", "view")


def one_part(table: Any, counting: Counting) -> Decoded:
    (batch,) = table.combine_chunks().to_batches()
    (found,) = Decoding(batch, counting)
    return found


EVENT = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "rank": st.integers(1, 4),
        "seconds": st.integers(-20, 60),
        "event": st.none() | st.sampled_from(["x", "y", "longer-x", "longer-y"]),
        "dwell": st.none() | st.sampled_from([0.5, 29.0, 30.0, 31.0]),
    }
)
WEIGHTS = st.dictionaries(st.sampled_from(KINDS), st.sampled_from([1.0, -1.0, 2.5]), min_size=1)


@given(
    st.lists(st.lists(EVENT, max_size=6), min_size=1, max_size=5),
    WEIGHTS,
    st.none() | st.just(30.0),
    st.booleans(),
    st.none() | st.sampled_from([1.0, 20.0, 40.5]),
)
def test_events_count_as_a_plain_loop_counts_them(
    events: list[list[Row]], weights: dict[str, float], dwell: float | None, first: bool, window: float | None
) -> None:
    rows = [made_row(number, ()) for number in range(len(events))]
    rows = [
        row | {"events": [made_event(time=row["time"], **event) for event in own]}
        for row, own in zip(rows, events, strict=True)
    ]
    rules = Rules(events=weights, dwell=dwell, first=first, window=window)
    found = one_part(table_of(rows), Counting(weights, dwell, first, window))
    assert found.events == Counter(fate for row in rows for fate in fates_of(row, rules))
    for place, row in enumerate(rows):
        counted = counted_events(row, rules)
        clicks = {
            (kind, rank + 1)
            for number, kind in enumerate(sorted(weights))
            for rank in np.flatnonzero(found.clicks.clicks[number, place]).tolist()
        }
        assert clicks == {(event["kind"], event["rank"]) for event in counted}
        delays = [(event["time"] - row["time"]).total_seconds() for event in counted] or [-1]
        assert (found.clicks.first[place], found.clicks.last[place]) == (min(delays), max(delays))


def test_an_event_of_exactly_the_least_dwell_counts() -> None:
    row = made_row(1, ())
    row["events"] = [made_event(1, row["time"], dwell=0.7)]  # the column holds 32 bits: a little less than 0.7
    assert one_part(table_of([row]), Counting(dwell=0.7)).has_event.tolist() == [True]


def test_an_event_at_the_very_time_of_its_list_counts_and_one_before_does_not() -> None:
    row = made_row(1, ())
    row["events"] = [made_event(1, row["time"], 0), made_event(2, row["time"] - timedelta(microseconds=1), 0)]
    found = one_part(loose_table_of([row]), Counting())
    assert np.flatnonzero(found.is_clicked[0]).tolist() == [0]
    assert found.events == {EventFate.COUNTED: 1, EventFate.EARLY: 1}
    assert found.clicks.first.tolist() == [0]


# Dropped rows.


def ranks_with(row: Row, rank: int | None) -> Row:
    first, *others = row["ranks"]
    return {"ranks": [[rank, *first[1:]], *others]}


def long_row(row: Row) -> Row:
    many = list(range(1, 1002))
    return {
        "documents": list(map(str, many)),
        "ranks": [many, many],
        "teams": [-1] * 1001,
        "lengths": [1001, 1001],
        "union": 1001,
        "rankings": None,
    }


def events_at(row: Row, *ranks: int) -> Row:
    return {"events": [made_event(rank, row["time"]) for rank in ranks]}


NOTHING_DERIVED: Row = {"rankings": None}
BROKEN: dict[str, tuple[DropReason, str, Any]] = {
    "no id": (DropReason.NO_ID, "team_draft", {"impression": None}),
    "no time": (DropReason.NO_TIME, "team_draft", {"time": None}),
    "a time of long ago": (DropReason.FAR_TIME, "team_draft", {"time": datetime(1989, 1, 1, tzinfo=UTC), "events": []}),
    "null rankers": (DropReason.NO_DESIGN, "team_draft", {"rankers": None}),
    "no rankers": (DropReason.NO_DESIGN, "team_draft", {"rankers": []}),
    "a ranker without a name": (DropReason.NO_DESIGN, "team_draft", {"rankers": ["A", None]}),
    "rankers of one name": (DropReason.NO_DESIGN, "team_draft", {"rankers": ["A", "A"]}),
    "no experiment": (DropReason.NO_DESIGN, "team_draft", {"experiment": None}),
    "no version": (DropReason.NO_DESIGN, "team_draft", {"version": None}),
    "no arm": (DropReason.NO_DESIGN, "team_draft", {"arm": None}),
    "no method": (DropReason.NO_DESIGN, "team_draft", {"method": None}),
    "ranks of three": (DropReason.RANKER_COUNT, "team_draft", lambda row: {"ranks": [*row["ranks"], row["ranks"][0]]}),
    "lengths of one": (DropReason.RANKER_COUNT, "probabilistic", {"lengths": [6]}),
    "rankings of one": (
        DropReason.RANKER_COUNT,
        "team_draft",
        lambda row: {"ranks": None, "rankings": row["rankings"][:1]},
    ),
    "a rank less": (
        DropReason.LIST_LENGTH,
        "team_draft",
        lambda row: {"ranks": [row["ranks"][0], row["ranks"][1][:3]]},
    ),
    "a null ranking": (DropReason.LIST_LENGTH, "team_draft", lambda row: {"ranks": [row["ranks"][0], None]}),
    "a team more": (DropReason.LIST_LENGTH, "team_draft", lambda row: {"teams": [*row["teams"], -1]}),
    "a choice less": (DropReason.LIST_LENGTH, "pairwise_preference", lambda row: {"choices": row["choices"][:3]}),
    "a rank below 0": (DropReason.WRONG_RANK, "team_draft", lambda row: ranks_with(row, -1)),
    "a null rank": (DropReason.WRONG_RANK, "team_draft", lambda row: ranks_with(row, None)),
    "a rank twice": (DropReason.DUPLICATE_RANK, "team_draft", lambda row: {"ranks": [[1, 2, 1, 3], row["ranks"][1]]}),
    "a deep rank twice": (
        DropReason.DUPLICATE_RANK,
        "team_draft",
        lambda row: {"ranks": [[90, 2, 90, 3], row["ranks"][1]], "lengths": [90, 6], "union": 90},
    ),
    "a rank beyond the end": (DropReason.WRONG_SIZES, "team_draft", lambda row: ranks_with(row, 7)),
    "a union too small": (DropReason.WRONG_SIZES, "probabilistic", {"union": 5}),
    "a union too large": (DropReason.WRONG_SIZES, "probabilistic", {"union": 13}),
    "a null length": (DropReason.WRONG_SIZES, "probabilistic", {"lengths": [None, 6]}),
    "a length below 0": (DropReason.WRONG_SIZES, "probabilistic", {"lengths": [-6, 6]}),
    "a length that no ranking has": (
        DropReason.WRONG_SIZES,
        "probabilistic",
        {"lengths": [1_000_001, 6], "union": 1_000_001},
    ),
    "a union smaller than the list": (
        DropReason.WRONG_SIZES,
        "probabilistic",
        {"lengths": [3, 3], "union": 3, "ranks": [[1, 0, 0, 2], [0, 1, 2, 0]]},
    ),
    "an owner too many": (DropReason.WRONG_TEAM, "team_draft", lambda row: {"teams": [2, *row["teams"][1:]]}),
    "an owner below nobody": (DropReason.WRONG_TEAM, "team_draft", lambda row: {"teams": [-2, *row["teams"][1:]]}),
    "a null owner": (DropReason.WRONG_TEAM, "team_draft", lambda row: {"teams": [None, *row["teams"][1:]]}),
    "fewer choices further down": (DropReason.WRONG_CHOICES, "pairwise_preference", {"choices": [2, 4, 3, 5]}),
    "fewer choices than ranks": (DropReason.WRONG_CHOICES, "pairwise_preference", {"choices": [1, 1, 1, 1]}),
    "more choices than documents": (DropReason.WRONG_CHOICES, "pairwise_preference", {"choices": [2, 3, 4, 9]}),
    "a null choice": (DropReason.WRONG_CHOICES, "pairwise_preference", {"choices": [None, 2, 3, 4]}),
    "an event below the list": (DropReason.EVENT_NOT_SHOWN, "team_draft", lambda row: events_at(row, 1, 5)),
    "an event above the list": (DropReason.EVENT_NOT_SHOWN, "team_draft", lambda row: events_at(row, 0)),
    "an event at a rank below 0": (DropReason.EVENT_NOT_SHOWN, "team_draft", lambda row: events_at(row, -1)),
    "a crowd of events": (DropReason.TOO_MANY_EVENTS, "team_draft", lambda row: events_at(row, *[1] * 1001)),
    "a long list": (DropReason.TOO_MANY_DOCUMENTS, "team_draft", long_row),
    "no ranks": (DropReason.NO_RANKS, "team_draft", {"ranks": None, **NOTHING_DERIVED}),
    "nothing shown is known": (
        DropReason.NO_RANKS,
        "team_draft",
        {"ranks": None, "teams": None, "documents": None, "events": [], **NOTHING_DERIVED},
    ),
    "no teams": (DropReason.NO_TEAMS, "team_draft", {"teams": None}),
    "no lengths": (DropReason.NO_SIZES, "probabilistic", {"lengths": None, **NOTHING_DERIVED}),
    "no union": (DropReason.NO_SIZES, "probabilistic", {"union": None, **NOTHING_DERIVED}),
    "no choices": (DropReason.NO_CHOICES, "pairwise_preference", {"choices": None, **NOTHING_DERIVED}),
    "the id of an earlier row": (DropReason.REPEATED_IMPRESSION, "team_draft", {"impression": "i-3"}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_row_is_dropped_and_counted_and_the_rest_is_as_if_it_were_not_there(name: str) -> None:
    reason, method, change = BROKEN[name]
    rows = made_rows(30, method)
    broken = rows[20] | (change(rows[20]) if callable(change) else change)
    found = tally_log(loose_table_of([*rows[:20], broken, *rows[21:]]))
    rest = tally_log(table_of([*rows[:20], *rows[21:]]))
    assert found.dropped == {reason: 1}
    assert not rest.dropped
    assert all(np.array_equal(*both) for both in zip(found.scores, rest.scores, strict=True))
    assert all(np.array_equal(*both) for both in zip(found.lists, rest.lists, strict=True))
    assert np.array_equal(found.units.hashes, rest.units.hashes)
    assert (found.since, found.until, found.facts) == (rest.since, rest.until, rest.facts)


@pytest.mark.parametrize("method", ["team_draft", "probabilistic", "pairwise_preference", "optimized"])
def test_a_list_with_a_document_that_no_ranker_has_is_dropped(method: str) -> None:
    """As `Interleaving.from_dict` refuses it: nobody's credit for it means anything."""
    rows = made_rows(20, method)
    rows[6] |= {"ranks": [[*ranks[:3], 0] for ranks in rows[6]["ranks"]]}
    found, rest = tally_log(table_of(rows)), tally_log(table_of([*rows[:6], *rows[7:]]))
    assert found.dropped == {DropReason.UNRANKED_DOCUMENT: 1}
    assert all(np.array_equal(*both) for both in zip(found.scores, rest.scores, strict=True))


def test_several_rows_without_an_id_are_not_taken_for_the_same_impression() -> None:
    rows = made_rows(10)
    table = loose_table_of([row | {"impression": None} if number < 4 else row for number, row in enumerate(rows)])
    assert tally_log(table).dropped == {DropReason.NO_ID: 4}


def test_credit_too_large_for_sums_is_dropped() -> None:
    rows = made_rows(10)
    rows[4]["events"] = [made_event(2, rows[4]["time"], kind="purchase")]
    found = tally_log(table_of(rows), "click", events={"click": 1, "purchase": 1e6})
    assert found.dropped == {DropReason.CREDIT_TOO_LARGE: 1}


@pytest.mark.parametrize(
    ("scheme", "change", "reason"),
    [
        ("click_place", {"unshown_ranks": None, **NOTHING_DERIVED}, DropReason.NO_UNSHOWN_RANKS),
        ("click_place", {"unshown_ranks": [[], []]}, DropReason.NO_AVERAGE),
        ("click_place", {"unshown_ranks": [[], []], "events": []}, DropReason.NO_AVERAGE),
        ("click_place", {"unshown_ranks": [[9, -4], [2**31 - 1, 0]]}, DropReason.NO_AVERAGE),
        ("click_list", {"ranks": [[4, 3, 2, 1], [4, 3, 2, 1]]}, DropReason.NO_AVERAGE),
    ],
)
def test_lists_whose_owners_cannot_be_averaged_are_dropped(
    scheme: str, change: dict[str, Any], reason: DropReason
) -> None:
    rows = made_rows(30)
    broken = rows[20] | change
    found, rest = tally_log(loose_table_of([*rows[:20], broken, *rows[21:]]), scheme), tally_log(table_of(rows), scheme)
    assert found.dropped == {reason: 1}
    assert not rest.dropped


def test_unshown_ranks_that_contradict_the_ranks_drop_all_rows_alike() -> None:
    """A rank that a shown document has cannot be that of an unshown one, whichever document is shown there."""
    rows = [row | NOTHING_DERIVED for row in made_rows(40)]
    for row in rows:
        row["unshown_ranks"] = [[*ranks, rank] for ranks, rank in zip(row["unshown_ranks"], (2, 0), strict=True)]
    with pytest.raises(DataError, match=r"owners that cannot be averaged.*: 40"):
        tally_log(table_of(rows), "click_place")


def test_lengths_are_computed_from_the_rankings_for_averages_over_owners() -> None:
    rows = made_rows(30)
    whole = tally_log(table_of(rows), "click_list")
    found = tally_log(table_of(rows).drop_columns(["lengths", "union", "unshown_ranks"]), "click_list")
    assert not found.dropped
    assert all(np.array_equal(*both) for both in zip(found.scores, whole.scores, strict=True))


def test_every_reason_has_been_provoked() -> None:
    provoked = {reason for reason, _, _ in BROKEN.values()} | {
        DropReason.CREDIT_TOO_LARGE,
        DropReason.UNRANKED_DOCUMENT,
        DropReason.NO_UNSHOWN_RANKS,
        DropReason.NO_AVERAGE,
    }
    elsewhere = {  # provoked by the tests of reading, of two tables, of exclusions and of methods
        *(DropReason.GAPS_IN_LIST, DropReason.TWO_AT_POSITION, DropReason.UNKNOWN_OWNER, DropReason.NOT_REPRODUCED),
        *(DropReason.EXCLUDED, DropReason.WRONG_PAGE),
        *(DropReason.UNKNOWN_METHOD, DropReason.NOT_INTERLEAVED, DropReason.ONE_RANKER),
        *(DropReason.LINE_TOO_LONG, DropReason.NOT_UNICODE, DropReason.NOT_JSON, DropReason.CUT_OFF),
        *(DropReason.NOT_AN_OBJECT, DropReason.NOT_CSV, DropReason.CELL_COUNT),
        *(DropReason.NO_VALUE, DropReason.WRONG_VALUE, DropReason.NO_EVENT_VALUE, DropReason.WRONG_EVENT_VALUE),
    }
    assert provoked == set(DropReason) - elsewhere


def test_codes_are_different_and_a_key_with_a_detail_has_a_text() -> None:
    codes = [str(code) for codes in (DropReason, EventFate) for code in codes]
    assert len(set(codes)) == len(codes)
    assert text_of("excluded:device = {phone}: a") == "excluded: device = {phone}: a"
    assert text_of("no such code: text") == "no such code: text"
    assert DropReason.EXCLUDED.details({"excluded:a": 1, "excluded:b": 2, "excluded_too": 3}) == {"a": 1, "b": 2}


def test_rows_are_left_out_by_rule_and_counted_by_rule() -> None:
    rows = made_rows(28)
    rows[5]["attributes"] = {}
    rules = Exclusion({"device": ["phone", "watch"]}, units=["u-1"], max_impressions=3)
    rows = rows[:22]  # four of unit 0, three of the others
    found = tally_log(table_of(rows), exclude=rules)
    dropped: Counter[str] = Counter()
    kept = []
    for row in rows:
        if row["attributes"].get("device") == "phone":
            dropped["excluded:device = phone"] += 1
        elif row["unit"] == "u-1":
            dropped["excluded:listed units"] += 1
        elif row["unit"] == "u-0":
            dropped["excluded:units of more than 3 impressions"] += 1
        else:
            kept.append(row)
    assert found.dropped == dropped
    assert found.units.hashes.tolist() == sorted({buckets.hash_of(buckets.UNIT, row["unit"]) for row in kept})
    rest = tally_log(table_of(kept))
    assert all(np.array_equal(*both) for both in zip(found.scores, rest.scores, strict=True))
