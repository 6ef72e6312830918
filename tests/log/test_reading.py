"""What is read back is what was written: files, folders, globs and partitions, tables and streams, column by column."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interleaf import DataError, log
from interleaf.log import schema
from interleaf.log.record_batches import line_of
from interleaf.simulate.data import synthetic
from interleaf.simulate.people import People
from interleaf.simulate.world import World

COUNT = 60


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A simulated log, as pyarrow alone reads it."""
    path = tmp_path_factory.mktemp("world") / "log.parquet"
    world = World(synthetic(queries=20, seed=1), [1, 5], People(units=50), seed=1)
    assert world.write(path, impressions=COUNT, rankings=True, captions=True, log_probability=True) == COUNT
    return pq.read_table(path).replace_schema_metadata(schema.SCHEMA.metadata)


@pytest.fixture
def folder(tmp_path: Path, native: Any) -> Path:
    """The same log in each format."""
    for name in ("log.parquet", "log.jsonl", "log.jsonl.gz"):
        log.write_batches(tmp_path / name, native.to_batches())
    return tmp_path


def table(reading: log.LogReading) -> Any:
    """All that is read, with dictionaries unpacked."""
    found = pa.Table.from_batches(list(reading))
    return found.cast(pa.schema([field.with_type(plain(field.type)) for field in found.schema])).combine_chunks()


def plain(kind: Any) -> Any:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(plain(kind.value_type)))
    return pa.struct([field.with_type(plain(field.type)) for field in kind]) if pa.types.is_struct(kind) else kind


@pytest.mark.parametrize("name", ["log.parquet", "log.jsonl", "log.jsonl.gz"])
@pytest.mark.parametrize("batch_size", [7, 65_536])
def test_every_format_gives_back_what_was_written(folder: Path, native: Any, name: str, batch_size: int) -> None:
    reading = log.read(folder / name, batch_size=batch_size)
    assert reading.columns == tuple(schema.SCHEMA.names)
    assert reading.rows == (COUNT if name == "log.parquet" else None)
    assert table(reading).equals(native.combine_chunks())
    assert reading.rows == COUNT
    assert not reading.dropped
    assert not reading.events
    sizes = [batch.num_rows for batch in log.read(folder / name, batch_size=batch_size)]
    assert sizes == ([7] * 8 + [4] if batch_size == 7 else [COUNT])


def test_texts_of_few_values_come_from_parquet_as_dictionaries(folder: Path) -> None:
    (batch,) = log.read(folder / "log.parquet")
    coded = {field.name for field in batch.schema if pa.types.is_dictionary(field.type)}
    assert coded == {"experiment", "arm", "method"}
    assert pa.types.is_dictionary(batch.schema.field("rankers").type.value_type)
    assert pa.types.is_dictionary(batch.schema.field("events").type.value_type.field("kind").type)


def test_folders_globs_and_lists_of_them_are_read_in_order_each_file_once(tmp_path: Path, native: Any) -> None:
    places = ["b.parquet", "a/z.jsonl", "a/c.parquet", "d.ndjson.gz", "e.json"]
    ignored = ["_SUCCESS", ".hidden.jsonl", "_temporary/x.parquet", "notes.txt", ".x.parquet.12.partial"]
    for number, place in enumerate(places):
        rows = [row | {"impression": f"{place}"} for row in native.slice(number, 1).to_pylist()]
        (tmp_path / place).parent.mkdir(exist_ok=True)
        written = tmp_path / {".json": "made.jsonl", ".gz": "made.jsonl.gz"}.get(Path(place).suffix, place)
        log.write_batches(written, [log.rows_to_batch(rows)])
        written.rename(tmp_path / place)
    for place in ignored:
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("not a log")

    def found(source: Any) -> list[str]:
        return [name for batch in log.read(source, ["impression"]) for name in batch["impression"].to_pylist()]

    everything = ["a/c.parquet", "a/z.jsonl", "b.parquet", "d.ndjson.gz", "e.json"]
    assert found(tmp_path) == found(str(tmp_path)) == everything
    assert found(f"{tmp_path}/**/*.parquet") == ["a/c.parquet", "b.parquet"]
    assert found(f"{tmp_path}/[ab]*") == ["a/c.parquet", "a/z.jsonl", "b.parquet"]
    assert found([tmp_path / "e.json", tmp_path / "a", f"{tmp_path}/*.json"]) == ["e.json", "a/c.parquet", "a/z.jsonl"]
    (tmp_path / "[x].jsonl").write_bytes((tmp_path / "e.json").read_bytes())
    assert found(tmp_path / "[x].jsonl") == ["e.json"], "a file of this very name comes before a pattern"


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_folders_give_the_columns_that_a_file_lacks(tmp_path: Path, native: Any, ending: str) -> None:
    place = tmp_path / "experiment=a%20%2F%20b" / "version=7" / "date=2026-11-01" / "unit=__HIVE_DEFAULT_PARTITION__"
    place /= "session"  # a folder that only has the name of a column says nothing
    place.mkdir(parents=True)
    if ending == "parquet":
        pq.write_table(native.drop_columns(["experiment", "unit", "session"]), place / "part.parquet")
    else:
        rows = [
            {k: v for k, v in row.items() if k not in ("experiment", "unit", "session")} for row in native.to_pylist()
        ]
        (place / "part.jsonl").write_bytes(b"".join(_line(row) for row in rows))
    reading = log.read(tmp_path)
    assert "experiment" in reading.columns
    assert "date" not in reading.columns
    found = table(reading)
    assert set(found["experiment"].to_pylist()) == {"a / b"}
    assert set(found["version"].to_pylist()) == {1}, "the file has its own"
    for name in ("unit", "session"):
        assert name not in found.column_names or found[name].null_count == COUNT
    only = table(log.read(tmp_path, ["experiment", "events.kind"]))
    assert set(only.column_names) == {"experiment", "events"}


def test_a_folder_that_gives_nonsense_is_named(tmp_path: Path, native: Any) -> None:
    (tmp_path / "version=new").mkdir()
    pq.write_table(native.drop_columns(["version"]), tmp_path / "version=new" / "part.parquet")
    with pytest.raises(DataError, match=r"its folder 'version=new' should give the column 'version' \(int32\)"):
        log.read(tmp_path)


def _line(row: dict[str, Any]) -> bytes:
    return line_of(row | {"attributes": dict(row["attributes"])})


def test_a_projection_reads_only_what_it_names(folder: Path, native: Any) -> None:
    columns = ["impression", "events.kind", "events.rank", "captions.highlights.start", "arm"]
    found = table(log.read(folder / "log.parquet", columns))
    assert [field.name for field in found.schema.field("events").type.value_type] == ["kind", "rank"]
    assert str(found.schema.field("captions").type.value_type).replace(" not null", "") in (
        "struct<highlights: list<element: struct<start: int32>>>",
        "struct<highlights: list<item: struct<start: int32>>>",
    )
    assert sorted(found.column_names) == ["arm", "captions", "events", "impression"]
    wanted = [[{"kind": event["kind"], "rank": event["rank"]} for event in row] for row in native["events"].to_pylist()]
    assert found["events"].to_pylist() == wanted
    assert any(wanted)
    for name in ("log.jsonl", "log.jsonl.gz"):
        whole = table(log.read(folder / name, columns))
        assert whole.equals(native.select(whole.column_names).combine_chunks())
        assert sorted(whole.column_names) == sorted(found.column_names)


def test_other_writers_name_the_levels_of_lists_differently() -> None:
    names = ["events.kind", "captions.highlights.end"]
    for level in ("list.element", "list.item", "array", "bag.array_element"):
        paths = [f"events.{level}.{field}" for field in ("event", "kind", "rank", "time")] + ["kind"]
        deep = [f"captions.{level}.highlights.{level}.{field}" for field in ("start", "end")]
        assert log.schema.leaves(paths + deep, names) == [
            f"events.{level}.kind",
            f"captions.{level}.highlights.{level}.end",
        ]


def test_a_column_that_no_file_has_is_left_out_and_one_that_no_log_has_is_refused(tmp_path: Path, native: Any) -> None:
    pq.write_table(native.drop_columns(["teams"]), tmp_path / "log.parquet")
    reading = log.read(tmp_path, ["teams", "union"])
    assert "teams" not in reading.columns
    assert table(reading).column_names == ["union"]
    assert sum(batch.num_rows for batch in log.read(tmp_path, ["teams"])) == COUNT
    for wrong in (["tems"], ["events.colour"], ["teams.x"]):
        with pytest.raises(DataError, match=f"no column '{wrong[0]}'"):
            log.read(tmp_path, wrong)
    with pytest.raises(DataError, match="one text"):
        log.read(tmp_path, "teams")


def test_spare_columns_are_read_where_what_they_stand_in_for_is_missing(tmp_path: Path, native: Any) -> None:
    pq.write_table(native, tmp_path / "a.parquet")
    pq.write_table(native.drop_columns(["ranks"]), tmp_path / "b.parquet")
    log.write_batches(tmp_path / "c.jsonl", native.to_batches())
    sources = [
        tmp_path / "a.parquet",
        tmp_path / "b.parquet",
        tmp_path / "c.jsonl",
        native,
        native.drop_columns("ranks"),
    ]
    found = []
    for source in sources:
        (batch,) = log.read(source, ["union"], spare={"rankings": ["ranks", "union"]})
        found.append("rankings" in batch.schema.names)
    assert found == [False, True, True, False, True]
    with pytest.raises(DataError, match="no column 'ranking'"):
        log.read(native, [], spare={"ranking": ["ranks"]})


class Frame:
    """A data frame of another library, as Arrow sees it."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def test_tables_streams_and_batches_are_read_alike(native: Any) -> None:
    whole = native.combine_chunks().to_batches()[0]
    sources = [
        native,
        whole,
        native.to_reader(),
        Frame(native),
        iter(native.to_batches(9)),
        [whole.slice(0, 9), whole.slice(9)],
    ]
    for source in sources:
        reading = log.read(source, batch_size=25)
        assert reading.columns == tuple(schema.SCHEMA.names)
        batches = list(reading)
        assert max(batch.num_rows for batch in batches) <= 25
        assert pa.Table.from_batches(batches).combine_chunks().equals(native.combine_chunks())
        assert reading.rows == COUNT
    assert log.read(native).rows == COUNT
    assert [batch.schema.names for batch in log.read(native, ["unit", "events.kind"])] == [["unit", "events"]]
    assert list(log.read(iter(()))) == []


def test_attributes_may_be_a_list_of_pairs_where_a_library_has_no_maps(tmp_path: Path, native: Any) -> None:
    pair = pa.struct([("key", pa.large_string()), ("value", pa.string())])
    values: list[Any] = [[{"key": "device", "value": "phone"}, {"key": "size", "value": None}], [], None]
    three = native.slice(0, 3)
    place = three.schema.get_field_index("attributes")
    foreign = three.set_column(place, "attributes", pa.array([[], *values], pa.large_list(pair)).slice(1))
    pq.write_table(foreign, tmp_path / "a.parquet")
    for source in (foreign, tmp_path / "a.parquet"):
        found = table(log.read(source))
        assert found.schema.field("attributes").type == pa.map_(pa.string(), pa.string())
        assert found["attributes"].to_pylist() == [[("device", "phone"), ("size", None)], [], None]
        found.validate(full=True)


def test_attributes_may_be_an_object_of_texts_and_what_is_null_is_none(tmp_path: Path, native: Any) -> None:
    given: list[Any] = [{"device": "phone", "size": None}, {"device": None, "size": "small"}, None]
    fields = [pa.field("device", pa.dictionary(pa.int8(), pa.string())), pa.field("size", pa.string_view())]
    place, three = native.schema.get_field_index("attributes"), native.slice(0, 3)
    foreign = three.set_column(place, "attributes", pa.array([None, *given], pa.struct(fields)).slice(1))
    expected = [[("device", "phone")], [("size", "small")], []]
    for name in ("a.parquet", "a.jsonl"):
        log.write_batches(tmp_path / name, foreign.to_batches())
    for source in (foreign, tmp_path / "a.parquet", tmp_path / "a.jsonl"):
        found = table(log.read(source, batch_size=2))
        assert found["attributes"].to_pylist() == expected
        found.validate(full=True)
    for empty in (pa.array([{}] * 3, pa.struct([])), pa.array([[]] * 3, pa.large_list(pa.null()))):
        found = table(log.read(three.set_column(place, "attributes", empty)))
        assert found["attributes"].to_pylist() == [[], [], []]


def test_columns_with_a_default_may_be_missing_also_from_files_and_batches(tmp_path: Path, native: Any) -> None:
    bare = native.drop_columns(list(schema.DEFAULTS))
    (tmp_path / "version=3").mkdir()
    for path in (tmp_path / "bare.parquet", tmp_path / "version=3" / "bare.parquet"):
        pq.write_table(bare, path)
    for source, version in ((bare, 1), (bare.to_batches(), 1), (path.parent.parent / path.name, 1), (path, 3)):
        reading = log.read(source, ["impression", "attributes", "version", "arm"], batch_size=7)
        assert set(reading.columns) == set(schema.SCHEMA.names)
        found = table(reading)
        assert found["impression"].equals(native["impression"])
        assert (
            found.drop_columns(["impression"]).to_pylist()
            == [{"attributes": [], "version": version, "arm": "interleaved"}] * COUNT
        )
        assert [batch.schema.names for batch in log.read(source, ["unit"])] == [["unit"]]
    log.convert(bare, tmp_path / "whole.parquet")
    assert pq.read_schema(tmp_path / "whole.parquet").equals(schema.SCHEMA)


def test_what_is_no_log_is_refused_by_name(tmp_path: Path, native: Any) -> None:
    (tmp_path / "empty").mkdir()
    bare = native.drop_columns(["method"])
    pq.write_table(bare, tmp_path / "bare.parquet")
    (tmp_path / "log.txt").write_text("a,b")
    for source, words in [
        (tmp_path / "nothing.parquet", "no file .*nothing.parquet"),
        (f"{tmp_path}/*.jsonl", r"no file fits .*\*\.jsonl"),
        (tmp_path / "empty", "no log in the folder .*empty"),
        (tmp_path / "log.txt", "format of the log .*log.txt"),
        (tmp_path / "bare.parquet", r"bare\.parquet: the log has no column 'method'"),
        ([], "no log to read"),
        (5, "cannot read a log from int"),
        ([native, "log.parquet"], "item 1 of the log is of type Table"),
        (native["arm"], "ChunkedArray is not a table"),
        (bare, "the given table: the log has no column 'method'"),
        (bare.to_batches(), "batch 1: the log has no column 'method'"),
    ]:
        with pytest.raises(DataError, match=words):
            log.read(source)
    with pytest.raises(DataError, match="batch_size is 0"):
        log.read(native, batch_size=0)


def test_a_stream_that_breaks_off_says_so(native: Any) -> None:
    def broken() -> Iterator[Any]:
        yield from native.to_batches()
        raise OSError("the line went dead")

    reading = log.read(pa.RecordBatchReader.from_batches(native.schema, broken()))
    with pytest.raises(DataError, match=r"broke off: .*the line went dead"):
        list(reading)


def test_a_log_is_read_once_and_tells_how_far_it_is(folder: Path) -> None:
    told: list[tuple[int, int | None]] = []
    reading = log.read(folder / "log.parquet", ["arm"], batch_size=25, progress=lambda *steps: told.append(steps))
    assert told == []
    list(reading)
    assert told == [(25, COUNT), (50, COUNT), (COUNT, COUNT)]
    with pytest.raises(DataError, match="has been read"):
        iter(reading)


def test_batches_come_before_the_log_is_read_to_its_end(folder: Path, native: Any) -> None:
    for name, part in (("p.parquet", "q.parquet"), ("p.jsonl", "q.jsonl")):
        log.write_batches(folder / name, native.to_batches())
        shutil.copy(folder / name, folder / part)
        batches = iter(log.read([folder / name, folder / part], batch_size=7))
        assert next(batches).num_rows == 7
        (folder / part).write_bytes(b"no log any more\n")
        for _ in range(7):
            assert next(batches).num_rows == 7

    taken = []

    def counted() -> Iterator[Any]:
        for batch in native.to_batches(5):
            taken.append(batch)
            yield batch

    batches = iter(log.read(counted(), batch_size=5))
    next(batches)
    assert len(taken) <= 2
