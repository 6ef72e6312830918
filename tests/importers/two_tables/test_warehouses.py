"""The SQL of docs/two-tables.md for three warehouses: parsed in its dialect, run in DuckDB, its verdict compared."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.log_rows import Row, made_rows, table_of
from tests.support.paths import ROOT
from tests.support.two_tables import numbers_of, owners_of

duckdb = pytest.importorskip("duckdb", reason="comes with the extra integration")
sqlglot = pytest.importorskip("sqlglot", reason="comes with the extra integration")

PAGE = (ROOT / "docs" / "two-tables.md").read_text(encoding="utf-8")
WAREHOUSES = ("bigquery", "snowflake", "redshift")
ROWS = [row | {"version": 1, "experiment": "experiment"} for row in made_rows(40)]
UNLOAD = re.compile(r"unload \(\$\$(?P<query>.*?)\$\$\)\s*to '[^']+'[^;]*;", re.DOTALL)


def statements(name: str) -> list[Any]:
    """The parsed statements of a file of the page; UNLOAD, which the parser does not know, as the query inside it."""
    text = re.search(rf"<!-- file: {name} -->\n```sql\n(.*?)```", PAGE, re.DOTALL)
    assert text, name
    parsed = sqlglot.parse(UNLOAD.sub(r"\g<query>;", text[1]), read=name.partition(".")[0].partition("-")[0])
    return [one for one in parsed if one is not None]


def in_duckdb(statement: Any) -> str:
    text: str = statement.sql("duckdb")
    return text


@pytest.mark.parametrize("warehouse", WAREHOUSES)
@pytest.mark.parametrize("part", ["", "-export"])
def test_all_sql_is_understood_by_the_parser(warehouse: str, part: str) -> None:
    parsed = statements(f"{warehouse}{part}.sql")
    assert len(parsed) == (2 if part else 4)
    for one in parsed:
        assert not list(one.find_all(sqlglot.exp.Command)), one.sql(warehouse)
        assert not part or one.find(sqlglot.exp.Select), one.sql(warehouse)


def impressions(warehouse: str) -> Iterator[tuple[Any, ...]]:
    """Rows of the impressions in the columns of the page."""
    for row in ROWS:
        first = (
            row["impression"],
            row["time"].replace(tzinfo=None),
            row["unit"],
            row.get("query"),
        )
        owned = zip(row["documents"], owners_of(row), strict=True)
        if warehouse == "redshift":
            yield from ((*first, position, *result) for position, result in enumerate(owned, 1))
        else:
            results: Any = [{"doc_id": document, "ranker": owner} for document, owner in owned]
            rankings = json.dumps(dict(zip(row["rankers"], row["rankings"], strict=True)))
            yield (*first, json.dumps(results) if warehouse == "snowflake" else results, rankings)


@pytest.mark.parametrize("warehouse", WAREHOUSES)
def test_an_export_has_the_verdict_of_its_log(warehouse: str, tmp_path: Path) -> None:
    with closing(duckdb.connect()) as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute("create schema search")
        for statement in statements(f"{warehouse}.sql"):
            connection.execute(in_duckdb(statement))
        shown = "results" if warehouse == "redshift" else "impressions"
        assert connection.execute(f"select count(*) from search.{shown}").fetchone()[0] == 1 + (warehouse == "redshift")
        connection.execute(f"delete from search.{shown}")
        connection.execute("delete from search.clicks")
        rows = list(impressions(warehouse))
        json_text = "json(?)::variant" if warehouse == "snowflake" else "?"
        places = ", ".join([*["?"] * 4, *[json_text] * 2]) if warehouse != "redshift" else ", ".join(["?"] * 7)
        connection.executemany(f"insert into search.{shown} values ({places})", rows)
        clicks = [
            (row["impression"], event["time"].replace(tzinfo=None), row["documents"][event["rank"] - 1])
            for row in ROWS
            for event in row["events"]
        ]
        connection.executemany("insert into search.clicks values (?, ?, ?)", clicks)
        for name, statement in zip(("impressions", "clicks"), statements(f"{warehouse}-export.sql"), strict=True):
            (tmp_path / name).mkdir()
            query = in_duckdb(statement.find(sqlglot.exp.Select))
            connection.execute(f"copy ({query}) to '{tmp_path / name / 'part-0.parquet'}' (format parquet)")
    found = numbers_of(impressions=tmp_path / "impressions", events=tmp_path / "clicks")
    assert found == numbers_of(table_of(expected(warehouse)))


def expected(warehouse: str) -> list[Row]:
    """The rows of the log, without what the tables of the page do not have."""
    kept = (
        "experiment",
        "version",
        "impression",
        "time",
        "unit",
        "arm",
        "method",
        "rankers",
        "documents",
        "teams",
        "events",
    )
    names = kept if warehouse == "redshift" else (*kept, "rankings")
    return [{name: row[name] for name in names} for row in ROWS]
