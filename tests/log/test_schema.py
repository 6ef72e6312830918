"""The native log's schema: the documented table type by type, and what a reader is told when a log does not fit it."""

from typing import Any

import pyarrow as pa
import pytest

from interleaf import DataError
from interleaf.log import schema
from interleaf.log.schema import CAPTION, COLUMNS, EVENT, HIGHLIGHT, SCHEMA, validate

TIME = pa.timestamp("us", "UTC")
HIGHLIGHTS = pa.list_(
    pa.struct(
        [
            pa.field("field", pa.string(), nullable=False),
            pa.field("start", pa.int32(), nullable=False),
            pa.field("end", pa.int32(), nullable=False),
        ]
    )
)
# The format's table, written out once more: column, type, nullable.
TABLE: list[tuple[str, Any, bool]] = [
    ("experiment", pa.string(), False),
    ("version", pa.int32(), False),
    ("impression", pa.string(), False),
    ("time", TIME, False),
    ("unit", pa.string(), True),
    ("session", pa.string(), True),
    ("query", pa.string(), True),
    ("arm", pa.string(), False),
    ("method", pa.string(), False),
    ("key", pa.string(), True),
    ("page", pa.int16(), True),
    ("log_probability", pa.float64(), True),
    ("relaxed", pa.bool_(), True),
    ("open", pa.bool_(), True),
    ("excluded", pa.string(), True),
    ("latency", pa.list_(pa.float32()), True),
    ("fallback_reason", pa.string(), True),
    ("epoch", pa.int64(), True),
    ("rankers", pa.list_(pa.string()), False),
    ("documents", pa.list_(pa.string()), False),
    ("ranks", pa.list_(pa.list_(pa.int32())), True),
    ("unshown_ranks", pa.list_(pa.list_(pa.int32())), True),
    ("lengths", pa.list_(pa.int32()), True),
    ("union", pa.int32(), True),
    ("teams", pa.list_(pa.int8()), True),
    ("choices", pa.list_(pa.int32()), True),
    ("rankings", pa.list_(pa.list_(pa.string())), True),
    (
        "captions",
        pa.list_(
            pa.struct(
                [
                    ("title", pa.string()),
                    ("url", pa.string()),
                    ("snippet", pa.string()),
                    ("highlights", HIGHLIGHTS),
                    ("deep_links", pa.int16()),
                ]
            )
        ),
        True,
    ),
    ("characters", pa.list_(pa.int32()), True),
    ("grades", pa.list_(pa.int8()), True),
    (
        "events",
        pa.list_(
            pa.struct(
                [
                    pa.field("event", pa.string()),
                    pa.field("kind", pa.string(), nullable=False),
                    pa.field("rank", pa.int32(), nullable=False),
                    pa.field("time", TIME, nullable=False),
                    pa.field("dwell", pa.float32()),
                    pa.field("value", pa.float64()),
                ]
            )
        ),
        False,
    ),
    ("attributes", pa.map_(pa.string(), pa.string()), False),
]


def changed(name: str, kind: Any) -> Any:
    """The schema with one column of another type."""
    return SCHEMA.set(SCHEMA.get_field_index(name), pa.field(name, kind))


def without(*names: str) -> Any:
    return pa.schema([field for field in SCHEMA if field.name not in names], SCHEMA.metadata)


def test_the_schema_is_the_documented_table() -> None:
    assert SCHEMA.names == [name for name, _, _ in TABLE]
    for name, kind, nullable in TABLE:
        assert SCHEMA.field(name).type == kind, name
        assert SCHEMA.field(name).nullable is nullable, name
    assert SCHEMA.metadata == {b"interleaf.schema": b"1"}
    assert schema.VERSION == 1


@pytest.mark.parametrize("columns", [COLUMNS, EVENT, CAPTION, HIGHLIGHT])
def test_every_column_says_what_it_means(columns: tuple[schema.Column, ...]) -> None:
    assert len({column.name for column in columns}) == len(columns)
    assert all(column.meaning.strip() for column in columns)


def test_nullable_columns_may_be_missing_and_unknown_ones_be_there() -> None:
    bare = without(*(column.name for column in COLUMNS if column.nullable))
    validate(bare)
    validate(bare.append(pa.field("shelf", pa.binary())))
    validate(bare.remove_metadata())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("unit", pa.large_string()),
        ("unit", pa.string_view()),
        ("unit", pa.dictionary(pa.int32(), pa.string())),
        ("unit", pa.null()),
        ("version", pa.int64()),
        ("version", pa.uint8()),
        ("time", pa.timestamp("ms", "UTC")),
        ("time", pa.timestamp("ns", "+00:00")),
        ("time", pa.timestamp("us", "Asia/Tokyo")),
        ("time", pa.timestamp("us")),
        ("time", pa.large_string()),
        ("documents", pa.list_(pa.int64())),
        ("rankings", pa.large_list(pa.list_(pa.uint8()))),
        ("teams", pa.list_(pa.uint64())),
        ("latency", pa.large_list(pa.float64())),
        ("documents", pa.list_(pa.string(), 10)),
        ("ranks", pa.large_list(pa.large_list(pa.int64()))),
        ("attributes", pa.map_(pa.large_string(), pa.large_string())),
        ("attributes", pa.large_list(pa.struct([("key", pa.string_view()), ("value", pa.string())]))),
        ("attributes", pa.struct([("device", pa.string_view()), ("country", pa.null())])),
        ("attributes", pa.struct([])),
        ("attributes", pa.large_list(pa.null())),
        (
            "events",
            pa.list_(pa.struct([("kind", pa.string()), ("rank", pa.int64()), ("time", TIME), ("colour", pa.int8())])),
        ),
        ("captions", pa.list_(pa.struct([("url", pa.large_string())]))),
    ],
)
def test_another_width_of_the_same_kind_is_no_error(name: str, kind: Any) -> None:
    validate(changed(name, kind))


@pytest.mark.parametrize("column", [row for row in COLUMNS if not row.nullable], ids=lambda column: column.name)
def test_a_column_that_may_not_be_missing_is_named(column: schema.Column) -> None:
    with pytest.raises(DataError, match=f"no column '{column.name}'"):
        validate(without(column.name))


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_a_wrong_type_is_named_with_the_column_and_what_is_expected(column: schema.Column) -> None:
    with pytest.raises(DataError) as refused:
        validate(changed(column.name, pa.binary()))
    for word in (f"'{column.name}'", "binary", str(column.type)):
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        (
            "time",
            pa.int64(),
            "column 'time' is of type int64; it should be .*, or at least a timestamp, or text in ISO",
        ),
        ("arm", pa.int64(), "column 'arm' is of type int64"),
        ("version", pa.float64(), "column 'version' is of type double"),
        ("ranks", pa.list_(pa.int16()), "an item of column 'ranks' is of type int16"),
        ("ranks", pa.list_(pa.list_(pa.string())), "an item of an item of column 'ranks' is of type string"),
        ("attributes", pa.map_(pa.string(), pa.int8()), "a value of column 'attributes' is of type int8"),
        (
            "attributes",
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.int8())])),
            "a value of column 'attributes'",
        ),
        ("attributes", pa.struct([("age", pa.int64())]), "field 'age' of column 'attributes' is of type int64"),
        ("attributes", pa.list_(pa.struct([("key", pa.string())])), "should be map<string, string>, or at least a map"),
        ("events", pa.list_(pa.struct([("kind", pa.string())])), "column 'events' has no field 'rank'"),
        (
            "events",
            pa.list_(pa.struct([("kind", pa.int8()), ("rank", pa.int8()), ("time", TIME)])),
            "field 'kind' of an item of column 'events' is of type int8",
        ),
    ],
)
def test_a_wrong_type_inside_a_column_is_found(name: str, kind: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        validate(changed(name, kind))


def test_all_problems_are_named_at_once() -> None:
    wrong = (
        without("method", "documents").set(0, pa.field("experiment", pa.int8())).append(pa.field("unit", pa.string()))
    )
    with pytest.raises(DataError) as refused:
        validate(wrong)
    first, *problems = str(refused.value).splitlines()
    assert first == "4 problems:"
    for problem, words in zip(problems, ("'experiment' is", "2 columns", "no column 'method'", "no 'doc"), strict=True):
        assert words.replace("no 'doc", "no column 'documents'") in problem


def test_a_newer_version_is_refused_and_an_older_or_unsaid_one_is_not() -> None:
    with pytest.raises(DataError, match=r"schema version 2, .* up to 1: .* newer interleaf wrote it; upgrade"):
        validate(SCHEMA.with_metadata({"interleaf.schema": "2"}))
    for nonsense in ("one", "-1", "0", "1.5", ""):
        with pytest.raises(DataError, match="whole number"):
            validate(SCHEMA.with_metadata({"interleaf.schema": nonsense}))
    validate(SCHEMA.with_metadata({"pandas": "{}"}))


def test_a_column_that_is_there_twice_is_refused() -> None:
    with pytest.raises(DataError, match="2 columns named 'unit'"):
        validate(SCHEMA.append(pa.field("unit", pa.string())))
