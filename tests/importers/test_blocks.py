"""However records are read and however they wait, the same log comes out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from interleaf.errors import DataError
from interleaf.importers import partition, ubi
from interleaf.importers.protocol import ImportResult
from interleaf.importers.ubi import import_ubi
from interleaf.log import jsonl
from tests.importers.test_ubi import event, query


def written(folder: Path, count: int = 150, seed: int = 1) -> Path:
    """Queries and events of all kinds, shuffled: every tenth breaks the schema, some lines are broken altogether."""
    draw = Random(seed)
    lines: list[list[str]] = []
    bent: list[dict[str, Any]] = [{}] * 10 + [{"user_id": ""}, {"query_id": 5}, {"timestamp": 1794744005250}]
    broken: list[dict[str, Any]] = [{}] * 10 + [{"timestamp": "2026-02-31T00:00:00Z"}, {"event_attributes": None}]
    odd: list[dict[str, Any]] = [{}] * 8 + [
        *({"query_attributes": value} for value in (None, {"n": 5}, {"deep": {"a": 1}}, {"user_id": "u-1"}, "text")),
        *({"query_attributes": {"größe": 'a "quoted" }, one', "x": value}} for value in ("", None)),
        *({"user_query": "größe"}, {"user_query": None}, {"timestamp": 1794744000000}, {"timestamp": "then"}),
        *({"query_response_hit_ids": value} for value in (None, [], [1, 2], ["a", None])),
        {"more": {"query_attributes": {"not": "these"}}, "hits": [1]},
    ]
    for number in range(count):
        name, hits = f"q-{number}", [f"d{draw.randrange(30)}" for _ in range(5)]
        asked = query(name, hits, client_id=f"c-{number % 9}") | draw.choice(odd)
        lines.append([json.dumps(asked, ensure_ascii=draw.random() < 0.5)])
        for _ in range(draw.randrange(8)):
            record = event(draw.choice([*hits, "ad", None]), draw.choice([None, 1, 2]), name, draw.randrange(60))
            record |= draw.choice(bent)
            record |= draw.choice(broken)
            action = {"index": {"_index": "ubi_events", "_id": f"e-{draw.randrange(10**6)}"}}
            lines.append([json.dumps(action)] * draw.randrange(2) + [json.dumps(record, ensure_ascii=False)])
    lines += [
        ['{"action_name": "click", '],
        ['{"action_name": "\\ud800"}'],
        ['{"_source": ' + json.dumps(event()) + "}"],
    ]
    lines += [[json.dumps(event(user_id="u")) * 2], ['{"user_query": "x", "a": {"action_name": 1}, "query_id": "odd"}']]
    draw.shuffle(lines)
    path = folder / "shuffled.ndjson"
    path.write_text("".join(line + "\n" for some in lines for line in some), encoding="utf-8")
    return path


def taken(source: Path, out: Path) -> tuple[ImportResult, list[dict[str, Any]]]:
    found = import_ubi(source, out)
    return found, sorted(pq.read_table(out).to_pylist(), key=lambda row: str(row["impression"]))


@pytest.mark.parametrize("size", [300, 2000])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_of_any_size_give_the_same_log(
    tmp_path: Path, size: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path, seed=seed)
    one, rows = taken(source, tmp_path / "one.parquet")
    monkeypatch.setattr(jsonl, "BLOCK", size)  # an action line and its record in two blocks, among others
    monkeypatch.setattr(ubi, "MAX_ENTRIES", 7)
    many, others = taken(source, tmp_path / "many.parquet")
    assert rows == others
    assert one.counts == many.counts
    assert one.examples == many.examples
    assert one.to_dict() == many.to_dict()
    assert one.events > 100
    assert all(reason.remedy for reason in one.counts)  # type: ignore[attr-defined]


def test_records_that_wait_in_many_parts_give_the_same_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = written(tmp_path)
    one, rows = taken(source, tmp_path / "one.parquet")
    monkeypatch.setattr(partition, "PART", 4000)
    monkeypatch.setattr(partition, "ROOM", 50)
    many, others = taken(source, tmp_path / "many.parquet")
    assert rows == others
    assert one.counts == many.counts
    assert source.stat().st_size > 10 * 4000


def test_two_files_gzip_or_not_with_a_byte_order_mark_are_one_log(tmp_path: Path) -> None:
    source = written(tmp_path)
    whole, _ = taken(source, tmp_path / "whole.parquet")
    lines = source.read_bytes().splitlines(keepends=True)
    events = [place for place, line in enumerate(lines) if b"action_name" in line or line.startswith(b'{"index"')]
    (tmp_path / "events.ndjson.gz").write_bytes(gzip.compress(b"".join(lines[place] for place in events)))
    others = b"".join(line for place, line in enumerate(lines) if place not in set(events))
    (tmp_path / "queries.ndjson").write_bytes(b"\xef\xbb\xbf" + others.rstrip())
    found = import_ubi([tmp_path / "queries.ndjson", tmp_path / "events.ndjson.gz"], tmp_path / "two.parquet")
    assert (found.impressions, found.events, found.counts) == (whole.impressions, whole.events, whole.counts)


def test_the_last_line_may_fill_the_last_batch_without_a_newline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ubi, "MAX_ENTRIES", 2)
    (tmp_path / "two.ndjson").write_text("\n".join(json.dumps(query(name)) for name in ("q-1", "q-2")))
    assert import_ubi(tmp_path / "two.ndjson", tmp_path / "two.parquet").impressions == 2


def test_a_log_without_a_query_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "empty.ndjson").write_text(json.dumps(event()) + "\n")
    with pytest.raises(DataError, match=r"no query to import in .*empty\.ndjson \(no record at all\)"):
        import_ubi(tmp_path / "empty.ndjson", tmp_path / "none.parquet")
    assert not (tmp_path / "none.parquet").exists()


def test_wrong_files_are_refused_with_their_name(tmp_path: Path) -> None:
    (tmp_path / "cut.ndjson.gz").write_bytes(gzip.compress(b'{"user_query": "x"}\n' * 99)[:-9])
    with pytest.raises(DataError, match=r"cut\.ndjson\.gz is a damaged gzip file"):
        import_ubi(tmp_path / "cut.ndjson.gz", tmp_path / "log.parquet")
    taken(written(tmp_path), tmp_path / "log.parquet")
    with pytest.raises(DataError, match=r"log\.parquet is not a file of JSON lines"):
        import_ubi(tmp_path / "log.parquet", tmp_path / "again.parquet")
