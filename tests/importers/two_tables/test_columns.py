"""Columns are recognised by name, ambiguity is an error with its remedy, and all problems come at once."""

import pytest

from interleaf import DataError, analyze
from interleaf.importers.two_tables.column_names import (
    EVENTS,
    IMPRESSIONS,
    NAMES,
    ColumnMap,
    TableColumns,
    find_columns,
    simplify,
)
from tests.support.log_rows import made_rows
from tests.support.two_tables import as_table, events_of, in_shape, numbers_of

ROWS = made_rows(10)
BEFORE, AFTER = in_shape(ROWS, "columns of a log"), events_of(ROWS)


def found(table: str, columns: list[str], **mapped: str) -> tuple[TableColumns, list[str]]:
    problems: list[Exception] = []
    return find_columns(table, columns, mapped, problems), list(map(str, problems))  # type: ignore[arg-type]


@pytest.mark.parametrize("table", [IMPRESSIONS, EVENTS])
def test_no_name_stands_for_two_fields(table: str) -> None:
    names = [simplify(name) for field, others in NAMES[table].items() for name in (field, *others)]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("impression_id", "impression"),
        ("requestId", "impression"),
        ("QUERY_ID", "impression"),
        ("Visitor ID", "unit"),
        ("user-id", "unit"),
        ("doc_ids", "documents"),
        ("shown", "documents"),
        ("position", "rank"),
        ("Ranker", "owner"),
        ("variant", "owner"),
        ("teams", "owner"),
        ("ts", "time"),
        ("log_probability", "log_probability"),
    ],
)
def test_usual_names_are_recognised(column: str, field: str) -> None:
    assert found(IMPRESSIONS, [column])[0].by_field[field] == column


def test_two_candidates_are_a_problem_that_names_both_and_the_remedy() -> None:
    columns, problems = found(IMPRESSIONS, ["request_id", "query_id", "ts", "documents"])
    assert "impression" not in columns
    assert len(problems) == 1
    assert "'request_id' and 'query_id'" in problems[0]
    assert "--map impressions.impression=request_id" in problems[0]
    assert "impressions.impression=query_id" in problems[0]


def test_the_very_name_of_a_field_wins_and_so_does_the_mapping() -> None:
    columns, problems = found(IMPRESSIONS, ["impression", "request_id", "time", "ts"])
    assert columns.by_field == {"impression": "impression", "time": "time"}
    assert columns.unused == ("request_id", "ts")
    columns, problems = found(IMPRESSIONS, ["impression", "request_id", "ts"], impression="request_id")
    assert columns.by_field == {"impression": "request_id", "time": "ts"}
    assert not problems


def test_a_mapping_may_name_one_table_and_attributes() -> None:
    there = {IMPRESSIONS: ["a", "b"], EVENTS: ["a"]}
    problems: list[DataError] = []
    given = {"impression": "a", "events.time": "a", "impressions.time": "b", "attributes.device": "b"}
    mapped = ColumnMap.of(given, there, problems)  # type: ignore[arg-type]
    assert not problems
    assert mapped.by_table[IMPRESSIONS] == {"impression": "a", "time": "b", "attributes.device": "b"}
    assert mapped.by_table[EVENTS] == {"impression": "a", "time": "a"}


def test_all_problems_of_both_tables_come_at_once() -> None:
    impressions = [{"request_id": "a", "search_id": "b", "visitr": "u"}]
    events = [{"ts": row["ts"]} for row in AFTER]
    with pytest.raises(DataError) as caught:
        analyze(impressions=as_table(impressions), events=as_table(events), map={"unit": "visitor", "uint": "visitr"})
    problems = "\n".join(map(str, caught.value.problems))
    for part in (
        "no field 'uint'",
        "no column 'visitor'; did you mean 'visitr'",
        "which is the impression?",
        "impressions have no column that is known to be the time",
        "impressions do not say what was shown",
        "events have no column that is known to be the impression",
        "events do not say on which document",
    ):
        assert part in problems
    assert len(caught.value.problems) == 7


def test_a_mapping_reads_columns_of_any_name() -> None:
    renamed = {"impression": "a", "time": "b", "documents": "c", "teams": "d", "unit": "e"}
    impressions = [{renamed.get(name, name): value for name, value in row.items()} for row in BEFORE]
    mapped = {"owner" if field == "teams" else field: name for field, name in renamed.items()}
    events = [{"x": row["request_id"], "y": row["doc_id"], "b": row["ts"]} for row in AFTER]
    mapped |= {"events.impression": "x", "events.document": "y", "impressions.impression": "a"}
    del mapped["impression"]
    numbers = numbers_of(impressions=as_table(impressions), events=as_table(events), map=mapped)
    assert numbers == numbers_of(impressions=as_table(BEFORE), events=as_table(AFTER))


def test_attributes_come_from_columns_that_a_report_is_split_by() -> None:
    rows = [row | {"device": row["attributes"]["device"], "attributes": None} for row in BEFORE]
    tables = {"impressions": as_table(rows), "events": as_table(AFTER)}
    expected = numbers_of(impressions=as_table(BEFORE), events=as_table(AFTER), by=["device"])
    assert numbers_of(**tables, by=["device"]) == expected
    assert numbers_of(**tables, by=["device"], map={"attributes.device": "device"}) == expected


def test_lists_and_results_at_once_are_a_problem_unless_the_mapping_chooses() -> None:
    rows = [row | {"doc_id": "x", "position": 1} for row in BEFORE]
    with pytest.raises(DataError, match=r"--map documents=documents or --map document=doc_id"):
        analyze(impressions=as_table(rows), events=as_table(AFTER))
    numbers = numbers_of(impressions=as_table(rows), events=as_table(AFTER), map={"documents": "documents"})
    assert numbers == numbers_of(impressions=as_table(BEFORE), events=as_table(AFTER))
