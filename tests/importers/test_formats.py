"""Yandex's text format, runs, scores and JSON lines come in, by the command line too."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from interleaf import Interleaving, analyze, cli
from interleaf.errors import DataError
from interleaf.importers.protocol import UNDATED
from interleaf.importers.trec import compose
from interleaf.importers.yandex import import_yandex, read_yandex
from tests.importers.test_ubi import event, query
from tests.support.paths import SHARED, VECTORS

NAVER = SHARED / "data" / "naver_clara2" / "CLARA2SearchLog_beta.gz"
Said = pytest.CaptureFixture[str]
YANDEX = [
    "s1\t0\tQ\tq7\t0\ta\tb",
    "s2\t5\tQ\tq8\t3\tc",
    "s1\t9000\tC\tb\t\t",
    "s1\t9500\tQ\tq9\t0\tc",
    "s1\t9900\tC\tb",
    "s1\t1\tC\tz",
]


def test_a_yandex_log_comes_in_page_by_page(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("\n".join(YANDEX))
    found = import_yandex(tmp_path / "log.txt", tmp_path / "log.parquet")
    rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert [(row["session"], row["query"], row["documents"]) for row in rows] == [
        ("s1", "q7", ["a", "b"]),
        ("s2", "q8", ["c"]),
        ("s1", "q9", ["c"]),
    ]
    passed = [(one["rank"], (one["time"] - UNDATED).total_seconds()) for one in rows[0]["events"]]
    assert passed == [(2, 9.0), (2, 9.9)]
    assert (found.impressions, found.events) == (3, 2)
    assert found.counts == {"event_not_on_list": 1, "earlier_page": 1}
    assert analyze(tmp_path / "log.parquet").totals.impressions == 3


@pytest.mark.parametrize("line", ["s1\t0\tX\ta", "s1\tnoon\tC\tb", "s1\t0\tQ\tq7", "s1\t\tC\tb"])
def test_a_wrong_line_of_a_yandex_log_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "log.txt").write_text(f"{YANDEX[0]}\n{line}\n")
    with pytest.raises(DataError, match=r"log\.txt, line 2"):
        import_yandex(tmp_path / "log.txt", tmp_path / "log.parquet")


@pytest.mark.skipif(not NAVER.exists(), reason="the Naver log is not on this machine")
def test_the_naver_log_comes_in_with_the_clicks_that_the_other_reader_finds(tmp_path: Path) -> None:
    found = import_yandex(NAVER, tmp_path / "naver.parquet")
    other = read_yandex(NAVER).reading
    assert other is not None
    assert (found.impressions, found.counts["event_not_on_list"]) == (31_564, other.not_shown)
    assert found.events == sum(other.latest_by_rank) + other.earlier == 10_893
    table = pq.read_table(tmp_path / "naver.parquet", columns=["unit", "query"])
    assert (len(set(table["unit"].to_pylist())), len(set(table["query"].to_pylist()))) == (18_522, 1_951)


RUNS = {"a": "1 Q0 x 1 9 a\n1 Q0 y 2 8 a\n2 Q0 x 1 1 a\n", "b": "1 Q0 y 1 0.5 b\n1 Q0 z 2 0.25 b\n"}


def test_runs_are_composed_query_by_query_and_can_be_credited(
    tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in RUNS.items():
        Path(f"{name}.run").write_text(text)
    command = "import trec production=a.run b.run --out lists.jsonl --seed 3 --format json"
    assert cli.main(command.split()) == 0
    assert json.loads(capsys.readouterr().out) == {
        "log": "lists.jsonl",
        "query that a ranker lacks": 1,
        "impressions": 1,
    }
    (row,) = map(json.loads, Path("lists.jsonl").read_text().splitlines())
    shown = Interleaving.from_dict(row)
    assert (row["rankings"], row["query"]) == ([["x", "y"], ["y", "z"]], "1")
    assert shown.rankers == ("production", "b")
    assert set(shown.documents) == {"x", "y", "z"}


def test_the_same_seed_composes_the_same_lists(tmp_path: Path) -> None:
    rankings = {"a": {str(q): list("abcdef") for q in range(40)}, "b": {str(q): list("fedcba") for q in range(40)}}
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        compose(rankings, tmp_path / f"{name}.jsonl", "probabilistic", 4, seed=seed)
    one, same, other = ((tmp_path / f"{name}.jsonl").read_text() for name in ("one", "same", "other"))
    assert one == same != other


def test_scores_of_a_learning_to_rank_file_are_composed(
    tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("judged.txt").write_text("0 qid:7 1:0.5\n1 qid:7 1:0.2\n0 qid:8 1:1\n")
    Path("up.txt").write_text("1\n2\n3\n")
    Path("down.txt").write_text("3\n2\n1\n")
    command = ["import", "letor", "up.txt", "down.txt", "--out", "lists.parquet"]
    assert cli.main(command) == 2
    assert "--judged" in capsys.readouterr().err
    assert cli.main([*command, "--judged", "judged.txt"]) == 0
    rows = pq.read_table("lists.parquet").to_pylist()
    assert [row["rankings"] for row in rows] == [[["q7-d2", "q7-d1"], ["q7-d1", "q7-d2"]], [["q8-d1"], ["q8-d1"]]]


def test_equal_scores_of_a_learning_to_rank_file_are_ordered_by_chance_and_by_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("judged.txt").write_text("".join(f"0 qid:{query} 1:0.5\n" * 4 for query in range(30)))
    for name in ("one.txt", "two.txt"):
        Path(name).write_text("1\n" * 120)
    orders = []
    for seed in ("1", "1", "2"):
        command = ["import", "letor", "one.txt", "two.txt", "--judged", "judged.txt", "--out", "lists.parquet"]
        assert cli.main([*command, "--seed", seed]) == 0
        orders.append(pq.read_table("lists.parquet")["rankings"].to_pylist())
    assert orders[0] == orders[1] != orders[2]
    assert len({tuple(document[-1] for document in ranking) for row in orders[0] for ranking in row}) > 10
    assert any(first != second for first, second in orders[0])  # each ranker has an order of its own


def test_json_lines_come_in_with_their_events_joined(
    tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = {"experiment": "e", "impression": "i", "time": "2026-11-15T12:00:00Z", "method": "team_draft", "teams": [0]}
    click = {"impression": "i", "kind": "click", "rank": 1, "time": "2026-11-15T12:00:01Z"}
    lines = [
        shown | {"rankings": {"A": ["a"], "B": ["b"]}, "documents": ["a"]},
        click,
        click | {"impression": "lost"},
        {"x": 1},
    ]
    Path("in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert cli.main(["import", "jsonl", "in.jsonl"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("log.parquet: 1 impressions, 1 × no 'impression'")
    assert "1 events unmatched" in said


def test_the_command_tells_the_join_rate_first_and_takes_options(
    tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ubi.ndjson").write_text("".join(json.dumps(one) + "\n" for one in (query(hits=["1", "2"]), event("sku", 1))))
    assert cli.main(["import", "ubi", "ubi.ndjson", "--ordinals", "0", "--experiment", "shop", "--unit", "client"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "log.parquet: 1 impressions, 1 events"
    assert lines[1].startswith("  0.0 % of events with an object_id have it among their query's hits: LOW.")
    (row,) = pq.read_table("log.parquet").to_pylist()
    assert (row["experiment"], row["events"][0]["rank"]) == ("shop", 2)
    for name in ("solr", "opensearch"):
        files = sorted(str(path) for path in VECTORS.glob(f"{name}*"))
        assert cli.main(["import", name, *files, "--out", f"{name}.parquet", "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["rankers"]


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["import", "trec", "a.run"], "two or more"),
        (["import", "yandex", "a", "b"], "one file"),
        (["import", "ubi", "missing.ndjson"], "missing.ndjson"),
        (["export", "parquet", "log", "--out", "log.csv"], ".parquet"),
        (["export", "jsonl", "log", "--out", "log.csv"], ".jsonl.gz"),
        (["export", "ubi", "log", "--out", "log.parquet"], ".ndjson.gz"),
    ],
)
def test_wrong_use_is_one_line_with_the_remedy(
    arguments: list[str], remedy: str, capsys: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert remedy in err


def test_a_log_that_is_there_is_replaced_only_if_it_is_named(
    tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.txt").write_text("\n".join(YANDEX))
    Path("log.parquet").write_bytes(b"of another day")
    assert cli.main(["import", "yandex", "log.txt"]) == 2
    assert Path("log.parquet").read_bytes() == b"of another day"
    assert "--out" in capsys.readouterr().err
    assert cli.main(["import", "yandex", "log.txt", "--out", "log.parquet"]) == 0
    assert pq.read_table("log.parquet").num_rows == 3
