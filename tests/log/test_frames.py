"""Frames of other libraries are logs, with the report of the same table; a report hands its tables back as Arrow."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interleaf import analyze, log
from interleaf.log.record_batches import line_of
from interleaf.simulate.data import synthetic
from interleaf.simulate.people import People
from interleaf.simulate.world import World
from tests.support.log_rows import made_rows
from tests.support.report_examples import EXAMPLES

polars = pytest.importorskip("polars", reason="comes with the extra integration")
duckdb = pytest.importorskip("duckdb", reason="comes with the extra integration")
pandas = pytest.importorskip("pandas", reason="comes with the extra integration")


@pytest.fixture(scope="module")
def table() -> Any:
    people = People(units=60, returning=0.5, purchases=(0.1, 0.5))
    world = World(synthetic(queries=12, seed=2), [1, 9, 15], people, k=5, seed=3, arms={"holdout": 0.2})
    return pa.Table.from_batches(list(world.batches(rankings=True)))


@pytest.fixture(scope="module")
def expected(table: Any) -> Any:
    return analyze(table, by=["device"]).to_dict()


def test_a_polars_frame_gives_the_report_of_its_table(table: Any, expected: Any) -> None:
    frame = polars.from_arrow(table)
    assert analyze(frame, by=["device"]).to_dict() == expected
    assert analyze(frame.lazy(), by=["device"]).to_dict() == expected
    parts = polars.concat([frame[:50], frame[50:]], rechunk=False)
    assert analyze(parts, by=["device"]).to_dict() == expected


def test_a_pandas_frame_gives_the_report_of_its_table(table: Any, expected: Any) -> None:
    """Whether its columns are Arrow's or Python's own objects, and whatever its index is."""
    own = table.to_pandas(types_mapper=pandas.ArrowDtype)
    assert analyze(own, by=["device"]).to_dict() == expected
    objects = table.to_pandas()
    assert analyze(objects, by=["device"]).to_dict() == expected
    assert analyze(objects.set_index("query", drop=False), by=["device"]).to_dict() == expected


def test_a_duckdb_relation_gives_the_report_of_its_rows(table: Any, expected: Any, tmp_path: Path) -> None:
    log.write_batches(tmp_path / "log.parquet", table.to_batches())
    with duckdb.connect() as connection:
        relation = connection.sql(f"SELECT * FROM '{tmp_path}/log.parquet'")
        assert analyze(relation, by=["device"]).to_dict() == expected
        some = relation.filter("arm = 'interleaved'")
        assert analyze(some).totals.impressions == sum(arm == "interleaved" for arm in table["arm"].to_pylist())


FRAMES = {"polars": polars.DataFrame, "pandas": pandas.DataFrame, "arrow": pa.Table.from_pylist}


@pytest.mark.parametrize("attributes", [None, {}, {"device": "phone"}], ids=str)
@pytest.mark.parametrize("library", FRAMES)
def test_rows_that_lack_what_has_a_default_give_the_report_of_their_json_lines(
    library: str, attributes: dict[str, str] | None, tmp_path: Path
) -> None:
    """As they come from Python: polars and Arrow make a struct of attributes, and pandas makes objects."""
    rows = [{name: row[name] for name in row if name not in ("version", "arm", "attributes")} for row in made_rows(60)]
    if attributes is not None:
        rows = [row | {"attributes": attributes} for row in rows]
    (tmp_path / "log.jsonl").write_bytes(b"".join(map(line_of, rows)))
    by = ["device"] if attributes else []
    expected = analyze(tmp_path / "log.jsonl", by=by).to_dict()
    assert expected["totals"]["impressions"] == 60
    assert analyze(FRAMES[library](rows), by=by).to_dict() == expected


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_table_of_a_report_comes_as_arrow(name: str) -> None:
    report = EXAMPLES[name]

    tables = report.to_frames()
    assert tables["comparisons"].equals(report.to_frame())
    sizes = {name: found.num_rows for name, found in tables.items()}
    assert sizes == {
        "comparisons": len(report.comparisons),
        "health": len(report.health),
        "strengths": len(report.standing.strengths) if report.standing else 0,
        "arms": len(report.arms),
        "metrics": sum(len(arm.metrics) for arm in report.arms),
        "guardrails": len(report.guardrails),
        "choice": 0,
        "choice_shares": 0,
        "slots": len(report.slots),
        "neutrality": len(report.neutrality),
        "over_time": len(report.over_time),
        "segments": sum(len(segment.comparisons) for segment in report.segments),
        "lifts": len(report.lifts),
        "examination": len(report.examination),
    }
    assert tables["health"].to_pylist() == [vars(check) for check in report.health]
    for row, point in zip(tables["over_time"].to_pylist(), report.over_time, strict=True):
        assert row["time"] == point.time
        assert (row["interval_low"] is None) == (point.interval is None)


def test_a_report_s_tables_are_frames_in_polars_and_pandas(table: Any) -> None:
    report = analyze(table, by=["device"])
    tables = report.to_frames()
    estimates = [pair.estimate for pair in report.comparisons]
    assert polars.from_arrow(tables["comparisons"])["estimate"].to_list() == estimates
    assert list(tables["comparisons"].to_pandas()["estimate"]) == estimates
    split = polars.from_arrow(tables["segments"])
    assert set(split["attribute"]) == {"device"}
    assert split.height == 3 * len({row["device"] for row in map(dict, table["attributes"].to_pylist())})
