"""Queries of real databases, DuckDB and PostgreSQL: the same report, only reading, and no password in any message."""

import json
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from interleaf import DataError, analyze
from interleaf.cli import main
from interleaf.importers.two_tables import sources
from interleaf.importers.two_tables.sources import describe, open_query
from tests.support.log_rows import made_rows, table_of
from tests.support.stores import address_of
from tests.support.two_tables import as_table, events_of, in_shape, numbers_of, with_json

duckdb = pytest.importorskip("duckdb", reason="comes with the extra integration")
ROWS = made_rows(40, of=3)
EXPECTED = numbers_of(table_of(ROWS))
SECRET = "hunter2"


@pytest.fixture
def duck(tmp_path: Path) -> str:
    """A database with both tables; its address, without a query."""
    path = tmp_path / "shop.db"
    with closing(duckdb.connect(str(path))) as connection:
        for name, rows in (("shown", in_shape(ROWS, "owners by name")), ("clicks", events_of(ROWS))):
            connection.register("rows", as_table(rows))
            connection.execute(f"create table {name} as select * from rows")
    return f"duckdb:///{path}"


@pytest.fixture
def postgres(tmp_path: Path) -> str:
    """A schema with both tables, JSON and arrays among their columns; its address, without a query."""
    import psycopg

    address = address_of("postgres", tmp_path)
    with psycopg.connect(address, autocommit=True) as connection:
        for table, rows in (("shown", in_shape(ROWS, "columns of a log")), ("clicks", events_of(ROWS))):
            names = [name for name, value in rows[0].items() if value is not None]
            kinds = ", ".join(f'"{name}" {KINDS.get(name, "text")}' for name in names)
            connection.execute(f"create table {table} ({kinds})")
            places = ", ".join(["%s"] * len(names))
            values = [[_value(name, row[name]) for name in names] for row in rows]
            with connection.cursor() as cursor:
                cursor.executemany(f"insert into {table} values ({places})", values)
    return address


KINDS = {
    **dict.fromkeys(("time", "ts"), "timestamptz"),
    **{"version": "int", "union": "bigint", "log_probability": "float8", "attributes": "jsonb", "rankings": "json"},
    **{"rankers": "text[]", "documents": "varchar[]", "teams": "smallint[]", "ranks": "int[][]"},
}


def _value(name: str, value: Any) -> Any:
    return list(value) if "[]" in KINDS.get(name, "") else with_json({name: value})[name]


def with_query(address: str, sql: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}query={sql}"


def test_queries_of_duckdb_are_read(duck: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = with_query(duck, "select * from shown where 1 = 1"), with_query(duck, "from clicks;")
    assert numbers_of(impressions=sources[0], events=sources[1]) == EXPECTED
    assert main(["analyze", "--impressions", sources[0], "--events", sources[1], "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {name: value for name, value in printed.items() if name not in ("notes", "note_codes")} == json.loads(
        json.dumps(EXPECTED)
    )
    assert main(["import", "tables", *sources, "--out", str(tmp_path / "log.parquet")]) == 0
    assert numbers_of(tmp_path / "log.parquet") == EXPECTED


def test_queries_of_duckdb_in_memory_read_files(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(as_table(events_of(ROWS)), tmp_path / "clicks.parquet")
    events = f"duckdb://?query=select * from '{tmp_path}/clicks.parquet' where action = 'click'"
    assert numbers_of(impressions=as_table(in_shape(ROWS, "JSON")), events=events) == EXPECTED


def test_relations_of_duckdb_are_read() -> None:
    impressions, events = as_table(in_shape(ROWS, "objects")), as_table(events_of(ROWS))  # noqa: F841
    relations = duckdb.sql("select * from impressions"), duckdb.sql("select * from events")
    assert numbers_of(impressions=relations[0], events=relations[1]) == EXPECTED


def test_queries_of_postgresql_are_read_in_batches(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ROWS", 7)
    queries = (
        with_query(postgres, "select * from shown"),
        with_query(postgres, "select * from clicks where doc_id like '%'"),
    )
    assert numbers_of(impressions=queries[0], events=queries[1]) == EXPECTED


@pytest.mark.parametrize("sql", ["delete from clicks returning *", "select 1; commit; delete from clicks", "selec 1"])
def test_a_database_is_only_read(sql: str, duck: str, postgres: str) -> None:
    import psycopg

    for address in (duck, postgres):
        with pytest.raises(DataError) as caught, ExitStack() as stack:
            list(open_query(with_query(address, sql), stack).batches)
        assert "query of" in str(caught.value)
    with psycopg.connect(postgres) as connection:
        assert connection.execute("select count(*) from clicks").fetchone() == (len(events_of(ROWS)),)


def test_copy_writes_no_file(duck: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="only reading is allowed"), ExitStack() as stack:
        open_query(with_query(duck, f"copy clicks to '{tmp_path}/out.csv'"), stack)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://ann:{SECRET}@127.0.0.1:1/shop?query=select 1",
        f"postgresql://ann:{SECRET}@no-such-host.invalid/shop?query=select 1",
        f"postgresql://ann:a@{SECRET}@127.0.0.1/shop?query=select 1",
        f"postgresql://ann:a/{SECRET}@127.0.0.1/shop?query=select 1",
        f"postgresql://ann:{SECRET}%@127.0.0.1/shop?query=select 1",
        f"postgresql://127.0.0.1:1/shop?password={SECRET}&connect_timeout=2&query=select 1",
        f"postgresql://ann:{SECRET}@127.0.0.1/shop",
        f"duckdb:///{SECRET}/../none.db?query=select 1",
        f"duckdb://?query=select * from postgres_scan('postgresql://ann:{SECRET}@127.0.0.1:1/shop', 'a', 'b')",
        f"duckdb://?query=create secret (type s3, secret '{SECRET}')",
        f"duckdb://?query=select '{SECRET}' from nothing where password = '{SECRET}'",
    ],
)
def test_no_message_has_a_password(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    address = address.replace(f"{SECRET}/../none.db", "none.db")
    with pytest.raises(DataError) as caught:
        analyze(impressions=address, events=address)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert main(["analyze", "--impressions", address, "--events", address]) == 2
    assert main(["import", "tables", address, address, "--out", "none.parquet"]) == 2
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err


def test_a_password_is_not_in_the_report(postgres: str) -> None:
    secret = f"{postgres}&application_name={SECRET}&password={SECRET}"
    sources = [with_query(secret, f"select * from {table}") for table in ("shown", "clicks")]
    report = analyze(impressions=sources[0], events=sources[1])
    assert SECRET not in json.dumps(report.to_dict()) + str(report) + report.to_html()


def test_what_a_driver_says_is_one_line_without_secrets() -> None:
    text = f"cannot ATTACH 'postgresql://a:{SECRET}@h/d' (password={SECRET} token: '{SECRET}')\nLINE 1: {SECRET}"
    assert SECRET not in describe(ValueError(text))
