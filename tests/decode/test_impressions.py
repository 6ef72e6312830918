"""Record batches become the arrays that a plain loop would fill, whatever Arrow type the columns have."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from interleaf import Interleaving, interleave, methods
from interleaf.decode import Counting, Decoded, Decoding, designs
from interleaf.interleaving.rankings import CheckedRankings
from interleaf.kernels import buckets
from interleaf.methods.registry import resolve
from tests.oracles.logs import counted_events
from tests.support import worlds
from tests.support.log_rows import Row, made_row, made_rows, rows_of, table_of, with_column

COMPARING = [
    (row.name, rankers) for row in methods() if row.schemes for rankers in (2, 3) if rankers <= (row.rankers[1] or 3)
]


def decoded(table: Any) -> list[Decoded]:
    """The parts of a table, read as one batch."""
    (batch,) = table.combine_chunks().to_batches()
    return list(Decoding(batch, Counting()))


def one_part(table: Any) -> Decoded:
    (found,) = decoded(table)
    return found


def check_rows(found: Decoded, rows: list[Row]) -> None:
    """Every row of arrays holds what its dictionary holds, and nothing behind the end."""
    shown = found.impressions
    for place, number in enumerate(found.rows.tolist()):
        row = rows[number]
        count = found.counts[place]
        assert count == len(row["documents"])
        assert shown.ranks[place, :, :count].tolist() == row["ranks"]
        assert shown.lengths[place].tolist() == row["lengths"]
        assert shown.union[place] == row["union"]
        if row.get("teams") is not None:
            assert shown.teams[place, :count].tolist() == row["teams"]
        if row.get("choices") is not None:
            assert shown.choices[place, :count].tolist() == row["choices"]
        assert not shown.ranks[place, :, count:].any()
        assert (shown.teams[place, count:] == -1).all()
        clicked = {event["rank"] for event in counted_events(row)}
        assert (np.flatnonzero(found.is_clicked[place]) + 1).tolist() == sorted(clicked)
        assert found.has_event[place] == bool(clicked)
        assert found.time[place] == row["time"].timestamp() * 1e6
        assert found.unit[place] == buckets.hash_of(buckets.UNIT, row.get("unit") or row["impression"])


# The hash.


def plain_hash(salt: str, text: str) -> int:
    """FNV-1a, 64 bits, over salt, zero byte and text, then the finaliser of SplitMix64."""
    state = 0xCBF29CE484222325
    for byte in salt.encode() + b"\0" + text.encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
    return state ^ (state >> 31)


VECTORS = {
    ("interleaf-unit", ""): 0xA48159557ECF9279,
    ("interleaf-unit", "user-7"): 0x8CA3EC4CECED21D3,
    ("interleaf-impression", "user-7"): 0x414776F75B4D0D18,
    ("interleaf-document", "größe 👟"): 0x0A5BA0A2824B5C85,
}


@pytest.mark.parametrize(("salt", "text"), VECTORS)
def test_hashes_are_those_of_the_documented_algorithm_for_ever(salt: str, text: str) -> None:
    assert f"{buckets.hash_of(salt, text):016x}" == f"{VECTORS[salt, text]:016x}"
    assert plain_hash(salt, text) == VECTORS[salt, text]


@given(st.lists(st.text(), min_size=1), st.sampled_from([buckets.UNIT, buckets.IMPRESSION, buckets.DOCUMENT]))
def test_hashes_of_a_column_are_those_of_its_texts(texts: list[str], salt: str) -> None:
    array = pa.array(["before", *texts], pa.string())[1:]
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)
    offsets = np.frombuffer(array.buffers()[1], np.int32)[1:]
    expected = [plain_hash(salt, text) for text in texts]
    assert buckets.hashes(salt, offsets, data).tolist() == expected == [buckets.hash_of(salt, text) for text in texts]
    assert buckets.buckets(np.array(expected, np.uint64)).tolist() == [one >> 54 for one in expected]


# Whole rows.


@pytest.mark.parametrize(("method", "rankers"), COMPARING)
def test_arrays_hold_what_the_rows_hold(method: str, rankers: int) -> None:
    table = table_of(made_rows(30, method, of=rankers))
    found = one_part(table)
    assert found.rows.tolist() == list(range(30))
    check_rows(found, rows_of(table))


@pytest.mark.parametrize("rankers", range(3, 128, 4))
def test_rankers_may_be_many(rankers: int) -> None:
    """A hash of their names is 64 bits, and any of them may be set."""
    shown = interleave({f"ranker {number}": ["a", "b"] for number in range(rankers)}, key="many")
    row = made_rows(1)[0] | shown.to_dict()
    assert one_part(table_of([row])).design.rankers == shown.rankers


def test_lists_of_different_length_share_one_padded_array() -> None:
    rows = []
    for number in range(12):
        shown = interleave([list("abcdefgh"), list("hgfedcba")], k=1 + number % 6, key=number)
        rows.append(made_row(number, (1,)) | shown.to_dict())
    found = one_part(table_of(rows))
    assert found.impressions.ranks.shape == (12, 2, 6)
    check_rows(found, rows_of(table_of(rows)))


@given(st.lists(worlds.worlds(3, 5), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_what_rankings_alone_tell_is_what_interleave_would_have_logged(small: list[worlds.World], chance: Any) -> None:
    rankers = len(small[0].rankings)
    rows = []
    for number, world in enumerate(one for one in small if len(one.rankings) == rankers):
        documents = sorted(set().union(*world.rankings))
        chance.shuffle(documents)
        shown = Interleaving.of(world.rankings, documents[: world.k], "probabilistic", None)
        rows.append(made_row(number, ()) | shown.to_dict(rankings=True))
    table = table_of([row | dict.fromkeys(("ranks", "lengths", "union", "choices")) for row in rows])
    found = one_part(table)
    check_rows(found, rows)
    for place, row in enumerate(rows):
        problem = CheckedRankings.of(row["rankings"], resolve("probabilistic"))
        choices = problem.choices(len(row["documents"]))
        assert tuple(found.impressions.choices[place, : len(choices)].tolist()) == choices
    assert all(values.all() for name, values in found.has.items() if name != "teams")


@pytest.mark.parametrize("missing", ["ranks", "lengths", "union", "choices"])
def test_what_is_logged_stays_and_what_is_missing_comes_from_the_rankings(missing: str) -> None:
    rows = made_rows(10, "pairwise_preference")
    table = table_of([row | {missing: None} if number % 2 else row for number, row in enumerate(rows)])
    check_rows(one_part(table), rows)
    check_rows(one_part(table.drop([missing])), rows)


def test_documents_that_are_read_must_be_as_many_as_their_ranks() -> None:
    rows = made_rows(5)
    rows[2] |= {"documents": rows[2]["documents"][:3], "events": []}
    found = one_part(table_of(rows))
    assert found.dropped == {"list_length": 1}
    assert found.rows.tolist() == [0, 1, 3, 4]


def test_rows_fall_apart_by_experiment_version_arm_method_and_rankers() -> None:
    rows = made_rows(12)
    changes: list[Row] = [
        {},
        {"experiment": "other"},
        {"version": 2},
        {"arm": "holdout"},
        {"method": "team_draft(fill=owned)"},
        {"rankers": ["A", "C"]},
    ]
    rows = [row | changes[number % 6] for number, row in enumerate(rows)]
    found = decoded(table_of(rows))
    assert {part.design: part.rows.tolist() for part in found} == {
        (row["experiment"], row["version"], row["arm"], row["method"], tuple(row["rankers"])): [number, number + 6]
        for number, row in enumerate(rows[:6])
    }
    for part in found:
        check_rows(part, rows)


# Arrow's ways to say the same.


def retyped(table: Any, names: str, kind: Callable[[pa.DataType], pa.DataType]) -> Any:
    for name in names.split():
        column = table[name].combine_chunks()
        table = table.set_column(table.schema.get_field_index(name), name, column.cast(kind(column.type)))
    return table


def numbers_as(inner: pa.DataType) -> Callable[[pa.DataType], pa.DataType]:
    def kind(found: pa.DataType) -> pa.DataType:
        return pa.list_(kind(found.value_type)) if pa.types.is_list(found) else inner

    return kind


def large(found: pa.DataType) -> pa.DataType:
    if pa.types.is_list(found):
        return pa.large_list(large(found.value_type))
    return pa.large_string() if pa.types.is_string(found) else found


def of_rankers(found: pa.DataType) -> pa.DataType:
    """A list of two; of lists, each is of the documents."""
    return pa.list_(of_documents(found.value_type) if pa.types.is_list(found.value_type) else found.value_type, 2)


def of_documents(found: pa.DataType) -> pa.DataType:
    return pa.list_(found.value_type, 4)


TEXTS = "experiment impression unit arm method"
FORMS: dict[str, Callable[[Any], Any]] = {
    "64-bit numbers": lambda table: retyped(table, "version ranks teams lengths union choices", numbers_as(pa.int64())),
    "8-bit numbers": lambda table: retyped(table, "version ranks teams lengths union choices", numbers_as(pa.int8())),
    "large lists and texts": lambda table: retyped(
        table, f"{TEXTS} rankers documents ranks teams lengths choices rankings", large
    ),
    "lists of fixed size": lambda table: retyped(
        retyped(table, "rankers ranks lengths", of_rankers), "teams choices", of_documents
    ),
    "16-bit ranks, as logs had them": lambda table: retyped(table, "ranks choices", numbers_as(pa.int16())),
    "text views": lambda table: retyped(table, TEXTS, lambda kind: pa.string_view()),
    "dictionaries": lambda table: retyped(table, TEXTS, lambda kind: pa.dictionary(pa.int16(), pa.string())),
    "milliseconds": lambda table: retyped(table, "time", lambda kind: pa.timestamp("ms", "UTC")),
    "nanoseconds": lambda table: retyped(table, "time", lambda kind: pa.timestamp("ns", "+00:00")),
    "a slice": lambda table: pa.concat_tables([table.slice(7), table, table.slice(0, 9)]).combine_chunks().slice(
        len(table) - 7, len(table)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("method", ["team_draft", "pairwise_preference"])
def test_other_types_of_arrow_give_the_same_arrays(name: str, method: str) -> None:
    table = table_of(made_rows(20, method))
    found, expected = one_part(FORMS[name](table)), one_part(table)
    assert found.design == expected.design
    check_rows(found, rows_of(table))
    assert [array.tolist() for array in found.impressions] == [array.tolist() for array in expected.impressions]
    assert found.unit.tolist() == expected.unit.tolist()


def test_nanoseconds_that_microseconds_do_not_hold_are_cut_off() -> None:
    """As `log.convert` does it, and as data frames have them."""
    table = table_of(made_rows(5))
    times = table["time"].combine_chunks().view(pa.int64()).to_numpy() * 1000 + 7
    found = one_part(with_column(table, "time", pa.array(times).view(pa.timestamp("ns", "UTC"))))
    check_rows(found, rows_of(table))


def test_unsigned_numbers_with_a_null_drop_that_row_alone() -> None:
    table = table_of(made_rows(20, "probabilistic"))
    ranks = table["ranks"].to_pylist()
    ranks[3][0][1] = None
    found = one_part(with_column(table, "ranks", ranks, pa.list_(pa.list_(pa.uint16()))))
    assert found.dropped == {"wrong_rank": 1}
    assert found.rows.tolist() == [number for number in range(20) if number != 3]


def test_ranks_too_large_for_32_bits_are_not_cut_to_small_ones() -> None:
    table = table_of(made_rows(5))
    ranks = table["ranks"].to_pylist()
    ranks[2] = [[rank + 2**32 for rank in row] for row in ranks[2]]
    found = one_part(with_column(table, "ranks", ranks, pa.list_(pa.list_(pa.int64()))))
    assert found.rows.tolist() == [0, 1, 3, 4]
    assert found.dropped.total() == 1


def test_a_row_of_nulls_is_a_row_without_what_can_be_null() -> None:
    rows = made_rows(6)
    rows[2] |= dict.fromkeys(("unit", "session", "query", "key", "choices", "rankings", "relaxed", "latency"))
    found = one_part(table_of(rows))
    check_rows(found, rows)
    assert found.alone.tolist() == [False, False, True, False, False, False]


def test_values_under_a_null_are_not_read() -> None:
    """Arrow allows a null list with something in it, as masks over whole arrays leave it."""
    table = table_of(made_rows(4))
    (teams,) = table["teams"].chunks
    masked = pa.ListArray.from_arrays(teams.offsets, teams.values, mask=pa.array([False, True, False, False]))
    found = one_part(with_column(table, "teams", masked))
    assert found.has["teams"].tolist() == [True, False, True, True]
    assert found.impressions.teams[1].tolist() == [-1] * 4


@pytest.mark.parametrize("name", ["rankers", "events", "ranks", "teams", "unit", "choices", "rankings", "documents"])
def test_a_column_of_arrow_s_null_type_is_one_of_nulls(name: str) -> None:
    table = table_of(made_rows(5))
    (batch,) = with_column(table, name, pa.nulls(5)).to_batches()
    decoding = Decoding(batch, Counting())
    kept = sum(len(part.rows) for part in decoding)
    assert kept == (0 if name == "rankers" else 5)
    if name == "rankers":
        assert decoding.dropped == {"no_design": 5}


def test_lists_of_one_ranker_and_of_two_are_never_taken_for_one_another() -> None:
    names = [f"r{place}" for place in range(12)]
    lists = [*([name] for name in names), *([one, other] for one in names for other in names if one != other)]
    rows = [made_rows(1)[0] | {"rankers": rankers} for rankers in lists]
    groups = designs(table_of(rows).combine_chunks().to_batches()[0])
    assert sorted(len(rows) for _, rows in groups) == [1] * len(lists)
