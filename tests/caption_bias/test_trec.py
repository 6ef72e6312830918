"""The TREC Session logs: the reader on a page made by hand, and features, fit and perplexity on the real ones."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from interleaf.caption_bias import caption
from interleaf.errors import DataError
from interleaf.importers.trec import query_sections, read_trec_session
from interleaf.log import rows_to_batch
from tests.support.paths import SHARED

DATA = SHARED / "data" / "trec_session"
COUNTS = {2012: (191, 2157, 272), 2013: (399, 4449, 586)}  # pages with results, results, clicks
PAGE = """<sessiontrack2012>
 <session num="1" starttime="09:54:08">
  <topic num="7"/>
  <interaction num="1" starttime="09:54:27.5">
   <query>civil war</query>
   <results>
    <result rank="1"><url>http://a.org/civil/x?a=1&amp;copy=2</url><clueweb09id>d1</clueweb09id>
     <title>The Civil  War &amp;amp; causes</title><snippet>\\"Civil\\" matters.</snippet></result>
    <result rank="2"><url>http://b.org</url><clueweb09id>d2</clueweb09id><title>War</title><snippet></snippet></result>
   </results>
   <clicked><click num="1" starttime="09:54:40" endtime="09:54:55.5"><rank>2</rank></click>
    <click num="2" starttime="09:55:40" endtime="NA"><rank>1</rank></click></clicked>
  </interaction>
  <interaction num="2" starttime="100.5"><query>nothing</query><results/><clicked/></interaction>
 </session>
</sessiontrack2012>"""


def test_a_page_becomes_a_row_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "log.xml.gz").write_bytes(gzip.compress(PAGE.encode()))
    (tmp_path / "qrels.txt").write_text("7 0 d1 2\n7 0 d2 -2\n8 0 d2 3\n")
    (row,) = rows_to_batch(
        read_trec_session(tmp_path / "log.xml.gz", tmp_path / "qrels.txt", highlight=True)
    ).to_pylist()
    assert (row["query"], row["documents"], row["grades"]) == ("civil war", ["d1", "d2"], [2, 0])
    assert (row["impression"], row["unit"], row["method"]) == ("sessiontrack2012-1-1", "sessiontrack2012-1", "single")
    first, second = row["captions"]
    assert (first["title"], first["snippet"]) == ("The Civil  War & causes", '"Civil" matters.')
    assert first["url"] == "http://a.org/civil/x?a=1&copy=2"
    marks = [(mark["field"], mark["start"], mark["end"]) for mark in first["highlights"]]
    assert marks == [("title", 4, 14), ("url", 13, 18), ("snippet", 1, 6)]
    assert second["snippet"] is None
    assert [(event["rank"], event["dwell"]) for event in row["events"]] == [(2, 15.5), (1, None)]
    assert (row["events"][0]["time"] - row["time"]).total_seconds() == 12.5


def test_without_judgments_and_highlights_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "log.xml").write_text(PAGE)
    (row,) = read_trec_session(tmp_path / "log.xml")
    assert row["grades"] == [None, None]
    assert all(caption["highlights"] == [] for caption in row["captions"])
    assert query_sections("anything", "") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<sessiontrack2012>", "is not a log of the TREC Session track"),
        ("<sessiontrack2012/>", "holds no page of results"),
        (PAGE.replace("<rank>2<", "<rank>9<"), "a click at rank '9' of interaction '1'"),
        (PAGE.replace("09:54:27.5", "soon"), "'soon' is not a time"),
    ],
)
def test_broken_logs_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "log.xml").write_text(text)
    with pytest.raises(DataError, match=message):
        read_trec_session(tmp_path / "log.xml")


def test_broken_judgments_are_named(tmp_path: Path) -> None:
    (tmp_path / "log.xml").write_text(PAGE)
    (tmp_path / "qrels.txt").write_text("7 0 d1 2\n7 0 d1\n")
    with pytest.raises(DataError, match="line 2: '7 0 d1' is not 'qid 0 docid grade'"):
        read_trec_session(tmp_path / "log.xml", tmp_path / "qrels.txt")
    with pytest.raises(DataError, match="cannot read"):
        read_trec_session(tmp_path / "log.xml", tmp_path / "none.txt")


def real(year: int) -> pa.RecordBatch:
    if not DATA.is_dir():
        pytest.skip("the TREC Session logs are not here; they may not be given away, so fetch them from NIST")
    paths = DATA / f"sessiontrack{year}.xml.gz", DATA / f"relevacne{year}.txt"
    return rows_to_batch(read_trec_session(*paths, highlight=True))


@pytest.mark.parametrize("year", [2012, 2013])
def test_real_logs_are_read_whole(year: int) -> None:
    batch = real(year)
    results, clicks = (sum(len(row) for row in batch.column(name).to_pylist()) for name in ("documents", "events"))
    assert (batch.num_rows, results, clicks) == COUNTS[year]


def test_real_clicks_follow_position_relevance_and_highlights() -> None:
    table = pa.Table.from_batches([real(2012), real(2013)])
    report = caption(table)
    assert (report.impressions, report.results) == (590, 6606)
    assert report.judged == 2151 + 4250
    assert report.rescored == ()  # nothing was interleaved
    places = list(report.model.positions.values())
    assert places[0] > places[1] > places[2] > places[3] > places[4]
    assert report.model.grades["2"] > report.model.grades["1"] > report.model.grades["0"]
    weights = {one.name: one for one in report.model.weights}
    assert 0.2 < weights["much snippet bold"].weight < 0.7
    assert (weights["missing snippet"].weight < -3, weights["missing snippet"].error) == (True, None)  # never clicked
    overall = {one.model: one for one in report.perplexities if one.segment == "all queries"}
    assert all(1.3 < one.perplexity < 1.4 for one in overall.values())  # type: ignore[operator]
    assert overall["combined"].results == 1960
