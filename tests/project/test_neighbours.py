"""The files of docs/neighbours.md: real PyTerrier, ir_datasets and ir_measures; engines' real clients, and a stand-in.

Elasticsearch and OpenSearch cannot run here. What the stand-in answers is made up; what clients send and read is real.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.project.test_documentation import blocks
from tests.project.test_engine_examples import Engine, patient
from tests.support.paths import ROOT
from tests.support.stand_in import answering

PAGE = ROOT / "docs" / "neighbours.md"


class SearchesAtOnce(Engine):
    """Answers `_msearch`: a line of a header and a line of a body for each search."""

    broken: str | None = None

    def do_POST(self) -> None:  # noqa: N802
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        lines = [json.loads(line) for line in text.splitlines()]
        assert self.path.partition("?")[0] == "/_msearch"
        assert text.endswith("\n")
        self.asked.extend((header["index"], body) for header, body in zip(lines[::2], lines[1::2], strict=True))
        self.answer({"took": 1, "responses": [self.found(body) for body in lines[1::2]]})

    def found(self, body: dict[str, Any]) -> dict[str, Any]:
        match = body["query"]["multi_match"]
        if self.broken in match["fields"]:
            return {"error": {"type": "parsing_exception"}, "status": 400}
        scores = self.scores(match["query"], match["fields"])[: body["size"]]
        hits = [{"_index": "products", "_id": name, "_score": score} for name, score in scores]
        return {"took": 1, "timed_out": False, "hits": {"total": {"value": len(hits)}, "hits": hits}, "status": 200}


@pytest.fixture
def engine() -> Iterator[str]:
    SearchesAtOnce.asked, SearchesAtOnce.broken = [], None
    with answering(SearchesAtOnce) as address:
        yield address


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's files."""
    for block in blocks(PAGE):
        if block.mark == "file" and block.what is not None:
            (tmp_path / block.what).write_text(patient(block.text), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        module = sys.modules.pop(path.stem, None)
        if hasattr(getattr(module, "engine", None), "close"):
            module.engine.close()  # type: ignore[union-attr]


def imported(name: str) -> ModuleType:
    importlib.invalidate_caches()
    return importlib.import_module(name)


def test_one_request_to_elasticsearch_gives_both_rankings_and_a_mixed_list(
    folder: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("elasticsearch")
    monkeypatch.setenv("ELASTICSEARCH_URL", engine)
    module = imported("with_msearch")
    documents, shown = module.page_of("trail", "user-7")
    assert len(SearchesAtOnce.asked) == 2
    assert dict(zip(shown.rankers, shown.rankings, strict=True)) == {
        "production": ("p2", "p3", "p1"),
        "candidate": ("p2", "p1", "p3"),
    }
    assert sorted(documents) == ["p1", "p2", "p3"]
    SearchesAtOnce.broken = "title^3"
    assert module.page_of("trail", "user-7") == (["p2", "p3", "p1"], None)


def test_one_request_to_opensearch_gives_both_rankings(
    folder: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opensearchpy")
    pytest.importorskip("elasticsearch")  # the page's other file imports it
    monkeypatch.setenv("OPENSEARCH_URL", engine)
    module = imported("with_opensearch_msearch")
    assert module.rankings_of("trail") == {"production": ["p2", "p3", "p1"], "candidate": ["p2", "p1", "p3"]}


def test_a_pyterrier_transformer_interleaves_pipelines(folder: Path) -> None:
    pyterrier = pytest.importorskip("pyterrier", reason="PyTerrier is not installed")
    pandas = pytest.importorskip("pandas")

    def pipeline(rankings: dict[str, list[str]]) -> Any:
        rows = [(q, d, float(9 - rank), rank) for q, ranking in rankings.items() for rank, d in enumerate(ranking)]
        return pyterrier.Transformer.from_df(pandas.DataFrame(rows, columns=["qid", "docno", "score", "rank"]))

    given = {"bm25": {"1": ["a", "b", "c"], "2": ["x"]}, "dense": {"1": ["c", "d"], "2": ["y"]}}
    mixed = imported("terrier_interleaving").Interleave({name: pipeline(one) for name, one in given.items()}, k=3)
    topics = pandas.DataFrame([["1", "shoes"], ["2", "rain"]], columns=["qid", "query"])
    found = (mixed % 2).transform(topics)  # a pipeline like any other: its two best
    assert found.groupby("qid").size().to_dict() == {"1": 2, "2": 2}
    whole = mixed(topics)
    for qid, one in whole.groupby("qid"):
        assert one["rank"].tolist() == list(range(len(one)))
        assert one.score.is_monotonic_decreasing
        assert set(one.docno) <= set(given["bm25"][qid]) | set(given["dense"][qid])
        owned = [row for row in one.itertuples() if row.ranker is not None]  # what fills up is nobody's
        assert owned
        assert all(row.docno in given[row.ranker][qid] for row in owned)
    assert whole.equals(mixed(topics))


def test_judged_lists_of_ir_datasets_are_measured_by_ir_measures(folder: Path) -> None:
    pytest.importorskip("ir_datasets", reason="ir_datasets is not installed")
    pytest.importorskip("ir_measures", reason="ir_measures is not installed")
    Path("docs.tsv").write_text("d1\ttrail\nd2\ttrail shoes for all\nd3\train shoes\nd4\tumbrella\n")
    Path("queries.tsv").write_text("1\ttrail shoes\n2\train\n")
    Path("qrels.txt").write_text("1 0 d2 2\n1 0 d3 1\n2 0 d3 1\n")
    module = imported("judged_lists")
    assert module.long == {"1": ["d2", "d3", "d1"], "2": ["d3"]}
    assert module.short == {"1": ["d1", "d3", "d2"], "2": ["d3"]}
    assert module.judged["long"] == 1.0
    assert module.judged["short"] < module.judged["mixed"] <= 1.0 or module.mixed["1"][0] == "d1"
    assert set(module.mixed["1"]) == {"d1", "d2", "d3"}
