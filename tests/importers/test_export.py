"""Logs go out, and come back the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interleaf import analyze, cli, log
from interleaf.errors import DataError
from interleaf.importers.trec import export_trec
from interleaf.importers.ubi import import_ubi
from interleaf.importers.ubi_export import decode_rows, export_ubi
from interleaf.log.trec_runs import read_run
from tests.importers.test_ubi import event, query
from tests.support.log_rows import made_event, made_row, made_rows, rows_of


def stored(path: Path, rows: list[dict[str, Any]]) -> Path:
    log.write_batches(path, [log.rows_to_batch(rows)])
    return path


@pytest.mark.parametrize("method", ["team_draft", "probabilistic", "optimized", "pairwise_preference", "balanced"])
def test_a_log_that_went_out_as_ubi_comes_back_the_same_and_so_does_its_report(tmp_path: Path, method: str) -> None:
    rows = made_rows(60, method)
    rows[3] |= {
        "unit": None,
        "session": "s-1",
        "query": "grüne Schuhe",
        "page": 2,
        "latency": [1.5, None],
        "open": True,
    }
    rows[4] |= {"captions": [{"title": "one", "deep_links": 2}, None, None, None], "grades": [1, None, 0, 2]}
    rows[5] |= {"arm": "holdout", "unit": "u" * 150, "attributes": {"method": "an attribute", "device": "phone"}}
    rows[6]["events"] = [made_event(2, rows[6]["time"], event="e-1", dwell=2.5, value=9.0, kind="purchase")] * 1
    rows[6]["events"] += [made_event(1, rows[6]["time"], 9), made_event(1, rows[6]["time"], 9)]  # alike, and two
    source = stored(tmp_path / "log.parquet", rows)
    export_ubi(source, tmp_path / "ubi.ndjson.gz", application="shop", object_id_field="sku")
    found = import_ubi(tmp_path / "ubi.ndjson.gz", tmp_path / "back.parquet")
    assert rows_of(pq.read_table(tmp_path / "back.parquet")) == rows_of(pq.read_table(source))
    assert analyze(tmp_path / "back.parquet").to_dict() == analyze(source).to_dict()
    assert not found.counts


def test_records_are_ubi_that_others_can_read(tmp_path: Path) -> None:
    source = stored(tmp_path / "log.parquet", [made_row(1, (3,), query="shoes")])
    export_ubi(source, tmp_path / "ubi.ndjson", application="shop", object_id_field="sku")
    first, shown, second, click = map(json.loads, (tmp_path / "ubi.ndjson").read_text().splitlines())
    assert first == {"index": {"_index": "ubi_queries", "_id": "i-1"}}
    assert second == {"index": {"_index": "ubi_events"}}
    row = made_row(1)
    assert {
        name: shown[name] for name in ("application", "query_id", "client_id", "user_query", "object_id_field")
    } == {
        **{
            "application": "shop",
            "query_id": "i-1",
            "client_id": "u-1",
            "user_query": "shoes",
            "object_id_field": "sku",
        }
    }
    assert shown["query_response_hit_ids"] == row["documents"]
    texts = shown["query_attributes"]
    assert {type(text) for text in texts.values()} == {str}  # the plugin keeps nothing else
    shared = ("experiment", "arm", "method", "device")
    assert [texts[name] for name in shared] == ["shop", "interleaved", "team_draft", "desk"]
    assert (json.loads(texts["rankers"]), texts["version"]) == (row["rankers"], "1")
    columns, problems = decode_rows(pa.array([shown["interleaf_row"]]))
    assert not problems
    for name in ("teams", "ranks", "lengths", "union", "rankings", "key"):
        assert columns[name].to_pylist() == [row[name]]
    assert click["event_attributes"]["object"] == {"object_id": row["documents"][2], "object_id_field": "sku"}
    assert (click["action_name"], click["event_attributes"]["position"]) == ("click", {"ordinal": 3})


def test_events_of_the_teams_own_page_find_our_lists_and_other_queries_stay_out(tmp_path: Path) -> None:
    row = made_row(1, ())
    export_ubi(stored(tmp_path / "log.parquet", [row]), tmp_path / "ubi.ndjson")
    with (tmp_path / "ubi.ndjson").open("a") as file:
        for record in (query("theirs"), event("a", 1, "theirs"), event(row["documents"][1], 2, "i-1")):
            file.write(json.dumps(record) + "\n")
    found = import_ubi(tmp_path / "ubi.ndjson", tmp_path / "back.parquet")
    (back,) = pq.read_table(tmp_path / "back.parquet").to_pylist()
    assert [one["rank"] for one in back["events"]] == [2]
    assert found.counts == {"other_system": 1, "query_left_out": 1}


def test_a_rank_of_the_teams_own_page_is_not_taken_for_ours(tmp_path: Path) -> None:
    row = made_row(1, ())
    export_ubi(stored(tmp_path / "log.parquet", [row]), tmp_path / "ubi.ndjson")
    about = {"object": {"object_id": row["documents"][1]}, "position": {"ordinal": 2}, "rank": 1}
    with (tmp_path / "ubi.ndjson").open("a") as file:
        file.write(json.dumps(event(name="i-1", event_attributes=about)) + "\n")
    import_ubi(tmp_path / "ubi.ndjson", tmp_path / "back.parquet")
    (back,) = pq.read_table(tmp_path / "back.parquet").to_pylist()
    assert [one["rank"] for one in back["events"]] == [2]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"rankers":"[', '"rankers":"[[', "'rankers': Expecting"),
        ('"method":', '"other":', "there is no 'method'"),
        ('"version":"1"', '"version":"' + "[" * 99_999 + '"', "nested too deeply"),
        ('"interleaf_row":"', '"interleaf_row":"AAAA', "cut off"),
        ('"interleaf_row":"', '"interleaf_row":"' + "*" * 16, "Only base64 data"),
    ],
)
def test_columns_that_were_damaged_on_the_way_are_counted(tmp_path: Path, old: str, new: str, problem: str) -> None:
    rows = made_rows(9)
    export_ubi(stored(tmp_path / "log.parquet", rows), tmp_path / "ubi.ndjson")
    lines = (tmp_path / "ubi.ndjson").read_text().splitlines(keepends=True)
    place = next(place for place, line in enumerate(lines) if '"query_id":"i-4"' in line and old in line)
    lines[place] = lines[place].replace(old, new, 1)
    (tmp_path / "ubi.ndjson").write_text("".join(lines))
    found = import_ubi(tmp_path / "ubi.ndjson", tmp_path / "back.parquet")
    assert (found.impressions, found.counts["unreadable_columns"]) == (8, 1)
    assert found.examples["unreadable_columns"].startswith("query_id 'i-4': ")
    assert problem in found.examples["unreadable_columns"]
    whole = rows_of(pq.read_table(tmp_path / "log.parquet"))
    assert rows_of(pq.read_table(tmp_path / "back.parquet")) == whole[:4] + whole[5:]


def test_a_log_of_which_every_row_is_damaged_is_refused(tmp_path: Path) -> None:
    export_ubi(stored(tmp_path / "log.parquet", made_rows(3)), tmp_path / "ubi.ndjson")
    text = (tmp_path / "ubi.ndjson").read_text().replace('"interleaf_row":"', '"interleaf_row":"A')
    (tmp_path / "ubi.ndjson").write_text(text)
    with pytest.raises(DataError, match="3 × query with invalid columns"):
        import_ubi(tmp_path / "ubi.ndjson", tmp_path / "back.parquet")


def test_queries_that_another_program_wrote_again_come_back_the_same(tmp_path: Path) -> None:
    """Such as a dump of an index: fields in another order, spaces, escapes, search hits, and events before queries."""
    source = stored(tmp_path / "log.parquet", made_rows(40, session="s-1", query="größe"))
    export_ubi(source, tmp_path / "ubi.ndjson")
    records = [json.loads(line) for line in (tmp_path / "ubi.ndjson").read_text().splitlines()]
    hits = [
        {"_source": dict(reversed(record.items())), "_id": action["index"].get("_id")}
        for action, record in zip(records[::2], records[1::2], strict=True)
    ]
    text = "".join(json.dumps(hit).replace("/", "\\/") + "\n" for hit in reversed(hits))
    (tmp_path / "ubi.ndjson").write_text(text)
    found = import_ubi(tmp_path / "ubi.ndjson", tmp_path / "back.parquet")
    back = sorted(rows_of(pq.read_table(tmp_path / "back.parquet")), key=lambda row: row["time"])
    assert back == rows_of(pq.read_table(source))
    assert not found.counts


def test_a_query_that_came_twice_counts_once(tmp_path: Path) -> None:
    source = stored(tmp_path / "log.parquet", made_rows(5))
    export_ubi(source, tmp_path / "ubi.ndjson")
    text = (tmp_path / "ubi.ndjson").read_text()
    plain = json.dumps(query("i-2", made_row(2)["documents"], client_id="u-2", query_attributes={"device": "tv"}))
    (tmp_path / "ubi.ndjson").write_text(text + text.split("\n", 2)[1] + "\n" + plain + "\n")
    found = import_ubi(tmp_path / "ubi.ndjson", tmp_path / "back.parquet")
    assert rows_of(pq.read_table(tmp_path / "back.parquet")) == rows_of(pq.read_table(source))
    assert found.counts == {"query_repeated": 2}


def test_rankings_go_out_as_runs_that_come_back(tmp_path: Path) -> None:
    rows = [made_row(n, query=f"q {n}" if n else "plain", grades=[0, 1, 2, None]) for n in range(3)]
    rows += [made_row(9, query=None), made_row(10, query="plain") | {"rankings": None}]
    counts = export_trec(stored(tmp_path / "log.parquet", rows), tmp_path / "runs")
    written = {"runs": 2, "queries": 3, "judgments": 9}
    assert counts == written | {"impression without a query": 1, "impression without rankings": 1}
    for place, name in enumerate(rows[0]["rankers"]):
        run = read_run(tmp_path / "runs" / f"{name}.run")
        assert run == dict.fromkeys(("plain", "q%201", "q%202"), rows[0]["rankings"][place])
    scores = [float(line.split()[4]) for line in (tmp_path / "runs" / "A.run").read_text().splitlines()[:6]]
    assert scores == sorted(set(scores), reverse=True)
    qrels = [line.split() for line in (tmp_path / "runs" / "qrels.txt").read_text().splitlines()]
    assert qrels[:3] == [
        ["plain", "0", document, str(grade)] for grade, document in enumerate(rows[0]["documents"][:3])
    ]
    with pytest.raises(DataError, match="rankings=True"):
        export_trec(stored(tmp_path / "bare.parquet", [made_row(1) | {"rankings": None}]), tmp_path / "none")


def test_parquet_and_json_lines_go_out_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "log.parquet", made_rows(5))
    assert cli.main(["export", "jsonl", "log.parquet", "--out", "log.jsonl.gz"]) == 0
    assert cli.main(["export", "parquet", "log.jsonl.gz", "--out", "back.parquet", "--format", "json"]) == 0
    assert capsys.readouterr().out == 'log.jsonl.gz: 5 impressions\n{"out": "back.parquet", "impressions": 5}\n'
    assert rows_of(pq.read_table("back.parquet")) == rows_of(pq.read_table("log.parquet"))
    assert cli.main(["export", "trec", "log.parquet", "--out", "runs"]) == 2
    assert cli.main(["export", "ubi", "log.parquet", "--out", "missing/ubi.ndjson"]) == 2
    assert "make it first" in capsys.readouterr().err


def test_runs_that_cannot_be_written_are_told_of_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stored(Path("log.parquet"), [made_row(1, query="q", grades=[0, 1, 2, None]) | {"rankings": None}])
    Path("file").write_text("of somebody")
    for out in ("file", "file/runs"):
        assert cli.main(["export", "trec", "log.parquet", "--out", out]) == 2
        assert "give a folder" in capsys.readouterr().err
    assert cli.main(["export", "trec", "log.parquet", "--out", "runs"]) == 0
    out, err = capsys.readouterr()
    assert out == "runs: 1 impression without rankings, 3 judgments\n"
    assert "rankings=True" in err
    assert [path.name for path in Path("runs").iterdir()] == ["qrels.txt"]


@pytest.mark.parametrize(
    "command",
    [
        "export parquet day.parquet --out day.parquet",
        "export parquet *.parquet --out ./day.parquet",
        "export parquet . --out day.parquet",
        "export jsonl lines.jsonl --out lines.jsonl",
        "import jsonl lines.jsonl --out linked.jsonl",
        "import trec a=lines.jsonl b=b.run --out lines.jsonl",
        "import letor a.txt b.txt --judged lines.jsonl --out lines.jsonl",
    ],
)
def test_no_command_replaces_a_file_that_it_reads(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stored(Path("day.parquet"), made_rows(5))
    log.convert("day.parquet", "lines.jsonl")
    Path("linked.jsonl").hardlink_to("lines.jsonl")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert cli.main(command.split()) == 2
    assert "give another file" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
