"""Spark gives the tallies of the local engine, bit for bit, whatever the parts; from paths and from data frames."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.exposure import CURVES, ExposureWorld
from interleaf import DataError, Exclusion, analyze, log, tally_log
from interleaf.cli import main
from interleaf.decode import Counting
from interleaf.decode.scoring import Scoring
from interleaf.execution import local, spark
from interleaf.execution.task import Task
from interleaf.log.drop_reasons import DropReason
from interleaf.simulate.data import synthetic
from interleaf.simulate.people import People
from interleaf.simulate.world import World
from tests.log.test_pages import in_pages
from tests.support.log_rows import made_rows, table_of
from tests.support.spark_sessions import MARKS, written
from tests.tally.test_tally import check_same

pytestmark = MARKS
DATA = synthetic(queries=12, seed=2)


def world(method: str, rankers: int) -> World:
    people = People(units=60, returning=0.5, purchases=(0.1, 0.5), crawlers=0.05)
    return World(DATA, [1, 9, 15][:rankers], people, method, k=5, seed=3, arms={"holdout": 0.2, "B": 0.1})


@pytest.fixture(scope="module")
def table() -> Any:
    """Some rows twice in a row group, some in another file, with other clicks: the first of the log counts."""
    rows = pa.Table.from_batches(list(world("team_draft", 2).batches(rankings=True)))
    other = rows.slice(5, 30).set_column(
        rows.schema.get_field_index("events"), rows.schema.field("events"), rows.slice(50, 30).column("events")
    )
    return pa.concat_tables([rows.slice(0, 40), rows.slice(30, 10), rows.slice(40), other, rows.slice(0, 7)])


WAYS: dict[str, Task] = {
    "plainly": Task(),
    "split, weighted, without crawlers": Task(
        Scoring("click", counting=Counting({"click": 1, "purchase": 2.5})), ("device",), Exclusion(max_impressions=9)
    ),
    "by another method": Task(Scoring(method="probabilistic(tau=1)")),
    "by session": Task(Scoring(sessions=1800.0)),
    "with joined searches": Task(Scoring(joined=1800.0)),
    "by averaged credit": Task(Scoring("click_place", counting=Counting({"click": 1, "purchase": 2.5}))),
    "by averaged credit of sessions": Task(Scoring("normalized_list", sessions=1800.0)),
}


@pytest.mark.parametrize(
    ("way", "parts"),
    [
        ("plainly", 1),
        ("plainly", 100),
        ("split, weighted, without crawlers", 5),
        ("by another method", 2),
        ("by session", 4),
        ("by averaged credit", 3),
        ("by averaged credit of sessions", 2),
    ],
)
def test_any_number_of_parts_gives_the_local_tally(
    session: Any, table: Any, tmp_path: Path, way: str, parts: int
) -> None:
    path, task = written(tmp_path / "log", table), WAYS[way]
    expected = local.tally_log(path, task, threads=1)
    assert expected.dropped[DropReason.REPEATED_IMPRESSION] == 47
    check_same(spark.tally_log(path, task, parts), expected)


def test_a_data_frame_gives_the_tally_of_its_rows(session: Any, tmp_path: Path) -> None:
    rows = pa.Table.from_batches(list(world("pairwise_preference", 3).batches(rankings=True)))
    path = written(tmp_path / "log", rows)
    frame = session.read.parquet(str(path))
    check_same(tally_log(frame, by=["device"]), tally_log(path, by=["device"]))
    with pytest.raises(DataError, match="always read on Spark"):
        tally_log(frame, engine="local")


def test_lists_of_one_ranker_each_give_the_local_tally_and_report(session: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    drawn = ExposureWorld.draw(rng, 10, 2, CURVES["1 / rank"], 10)
    path = written(tmp_path / "log", drawn.log(rng, 400, "one_list"))
    expected = tally_log(path)
    check_same(tally_log(session.read.parquet(str(path))), expected)
    assert expected.about.composed == "one_list"
    assert expected.exposure.lists.sum() == 400


def test_a_data_frame_may_lack_what_has_a_default_and_hold_attributes_as_an_object(
    session: Any, tmp_path: Path
) -> None:
    rows = table_of(made_rows(40))
    bare = rows.drop_columns(["version", "arm", "attributes"])
    objects = bare.append_column("attributes", pa.array([dict(one) for one in rows["attributes"].to_pylist()]))
    for table, expected, by in ((objects, rows, ["device"]), (bare, bare, [])):
        check_same(tally_log(session.createDataFrame(table), by=by), tally_log(expected, by=by))
    path = written(tmp_path / "log", objects)
    check_same(tally_log(path, by=["device"], engine="spark"), tally_log(rows, by=["device"]))


def test_copies_of_a_row_in_a_data_frame_count_once_and_the_earliest_stays(session: Any, tmp_path: Path) -> None:
    rows = made_rows(40)
    later = [row | {"time": row["time"].replace(year=2027), "events": []} for row in rows[::3]]
    path = written(tmp_path / "log", table_of(rows + later + rows[:5]))
    frame = session.read.parquet(str(path)).repartition(2)
    check_same(tally_log(frame), tally_log(path))


def test_copies_of_an_event_are_merged_as_the_local_engine_does(session: Any, tmp_path: Path) -> None:
    rows = made_rows(40)
    for number, row in enumerate(rows):
        copies = [event | {"event": "e", "dwell": dwell} for event in row["events"] for dwell in (None, 31.0, 4.0)]
        row["events"] = copies[number % 3 :] + copies[: number % 3]
    path = written(tmp_path / "log", table_of(rows))
    expected = tally_log(path, dwell=30)
    assert expected.events["counted"] > 0
    check_same(tally_log(path, dwell=30, engine="spark"), expected)
    check_same(tally_log(session.read.parquet(str(path)), dwell=30), expected)


@pytest.mark.parametrize("parts", [1, 4])
def test_pages_of_an_impression_are_joined_as_the_local_engine_does(session: Any, tmp_path: Path, parts: int) -> None:
    made = [in_pages(number) for number in range(5)]
    contradictory = made[0][1][1] | {"documents": ["z", "a", "b", "c", "d"], "page": 4}
    rows = [row for _, rows in made for row in rows] + [contradictory, made[1][1][0], *made_rows(30)[5:]]
    path = written(tmp_path / "log", table_of(rows[::2] + rows[1::2]))
    for task in (Task(), Task(exclusion=Exclusion(max_impressions=4)), Task(Scoring(sessions=1800.0))):
        expected = local.tally_log(path, task, threads=1)
        assert expected.dropped[DropReason.WRONG_PAGE] == expected.dropped[DropReason.REPEATED_IMPRESSION] == 1
        check_same(spark.tally_log(path, task, parts), expected)
        check_same(spark.tally_log(session.read.parquet(str(path)), task), expected)


def test_rankings_alone_are_enough_on_spark_too(session: Any, tmp_path: Path) -> None:
    rows = pa.Table.from_batches(list(world("team_draft", 2).batches(rankings=True)))
    nulls = rows.set_column(
        rows.schema.get_field_index("ranks"), "ranks", pa.nulls(rows.num_rows, rows.schema.field("ranks").type)
    )
    check_same(tally_log(session.createDataFrame(nulls)), tally_log(rows))
    alone = rows.drop(["ranks", "lengths", "union", "choices"])
    path = written(tmp_path / "log", alone)
    check_same(tally_log(path, engine="spark"), tally_log(rows))
    rankless = written(tmp_path / "rankless", alone.drop(["rankings"]))
    check_same(tally_log(rankless, engine="spark"), tally_log(rankless))


def test_one_log_has_one_verdict_from_the_command_line_and_from_python(
    session: Any, table: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "log", table)
    monkeypatch.chdir(tmp_path)  # executors work in another folder
    printed = []
    for engine in ("local", "spark"):
        assert main(["analyze", "log", "--engine", engine, "--format", "json"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert analyze("log", engine="spark").to_dict() == analyze("log").to_dict()


def test_what_goes_wrong_is_said_as_the_local_engine_says_it(session: Any, table: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "log", table)
    with pytest.raises(DataError) as here:
        tally_log(path, experiment="another")
    with pytest.raises(DataError) as there:
        tally_log(path, experiment="another", engine="spark")
    assert str(there.value) == str(here.value)
    with pytest.raises(DataError, match="too many values"):
        tally_log(written(tmp_path / "many", _many_values()), by=["device"], engine="spark")
    log.write_batches(tmp_path / "log.jsonl", table.to_batches())
    with pytest.raises(DataError, match=r"Spark reads only Parquet; convert it"):
        tally_log(tmp_path / "log.jsonl", engine="spark")
    with pytest.raises(DataError, match="no engine 'sparc'; use 'local' or 'spark'"):
        tally_log(path, engine="sparc")
    with pytest.raises(DataError, match=r"(?s)data frame: 5 problems:.*no column 'impression'.*'documents'"):
        tally_log(session.createDataFrame([(1,)], "version int"))


@pytest.mark.parametrize("condition", ["1 = 0", "impression = 'none'"], ids=["known beforehand", "found out"])
@pytest.mark.parametrize("options", [{}, {"sessions": 1800.0}, {"exclude": Exclusion(max_impressions=9)}], ids=str)
def test_a_data_frame_without_rows_is_an_empty_log(session: Any, condition: str, options: dict[str, Any]) -> None:
    """Whether it has no partition, or only such without rows."""
    rows = table_of(made_rows(9))
    with pytest.raises(DataError) as here:
        tally_log(rows.slice(0, 0), **options)
    with pytest.raises(DataError) as there:
        tally_log(session.createDataFrame(rows).filter(condition), **options)
    assert str(there.value) == str(here.value) == "the log has no row that can be used; it is empty"


def _many_values() -> Any:
    return table_of([row | {"attributes": {"device": f"d{n}"}} for n, row in enumerate(made_rows(300))])


def test_what_the_driver_gets_is_small(session: Any, table: Any, tmp_path: Path) -> None:
    from interleaf.execution.spark.partitions import to_bytes
    from interleaf.execution.spark.tallies import count_part

    path = written(tmp_path / "log", table)
    sums = spark.sum_parts(spark.open_log(path, 5), replace(Task()), count_part)
    assert len(to_bytes(sums)) < 200_000
