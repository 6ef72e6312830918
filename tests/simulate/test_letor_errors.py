"""LETOR text that is wrong: every error names the file, the line, the value and the remedy."""

import gzip
from pathlib import Path

import pytest

from interleaf import DataError
from interleaf.simulate import letor, read_letor
from tests.support.letor_files import written


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("INTERLEAF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "letor"


ROW = "0 qid:1 1:0\n"
WRONG: dict[str, tuple[str | bytes, list[str]]] = {
    "empty": ("", ["holds no rows", "a row reads `grade qid:ID 1:value"]),
    "comments only": ("# nothing\n\n", ["holds no rows"]),
    "no features": ("0 qid:1\n", ["no row has a feature"]),
    "binary": (b"\x7fELF\x00\x01", ["line 1", "binary file"]),
    "binary without a zero": (bytes(range(128, 256)), ["line 1", "does not look like LETOR"]),
    "CSV": ("grade,query,bm25\n0,1,0.5\n", ["line 1", "does not look like LETOR", "'grade,query,bm25'"]),
    "CSV without names": ("0,1,0.5\n", ["line 1", "does not look like LETOR", "'0,1,0.5'"]),
    "columns": ("0\t1\t0.5\n", ["line 1", "does not look like LETOR", "'1' stands where the query belongs"]),
    "a value with a comma": (ROW + "0 qid:1 1:0,5\n", ["line 2", "'1:0,5'", "write it as 0.25"]),
    "a word for a value": (ROW * 2 + "# so\n0 qid:1 1:x\n", ["line 4", "'1:x'", "not a number"]),
    "no value": (ROW + "0 qid:1 1:\n", ["line 2", "'1:'", "not a number"]),
    "a sign alone": (ROW + "0 qid:1 1:-\n", ["line 2", "'1:-'"]),
    "a point alone": (ROW + "0 qid:1 1:.\n", ["line 2", "'1:.'"]),
    "no exponent": (ROW + "0 qid:1 1:1e\n", ["line 2", "'1:1e'"]),
    "two points": (ROW + "0 qid:1 1:1.2.3\n", ["line 2", "'1:1.2.3'"]),
    "nan": (ROW + "0 qid:1 1:NaN\n", ["line 2", "'1:NaN'", "not finite"]),
    "inf": (ROW + "0 qid:1 1:0 2:-inf\n", ["line 2", "'2:-inf'", "not finite"]),
    "too large for float32": (ROW + "0 qid:1 1:0 2:-1e39\n", ["line 2", "'2:-1e39'", "3.4e38"]),
    "just too large": (ROW + "0 qid:1 7:3.40282357e38 8:1\n", ["line 2", "'7:3.40282357e38'", "3.4e38"]),
    "no query": (ROW + "0 1:0.5\n", ["line 2", "'1:0.5' stands where the query belongs"]),
    "an empty query": (ROW + "0 qid: 1:0.5\n", ["line 2", "'qid:' stands"]),
    "a grade alone": (ROW + "3\n", ["line 2", "the end of the row stands where the query"]),
    "a query first": (ROW + "qid:1 0 1:5\n", ["line 2", "the grade is 'qid:1'"]),
    "feature 0": (ROW + "0 qid:1 0:5 1:5\n", ["line 2", "'0:5'", "count from 1"]),
    "a feature twice": (ROW + "0 qid:1 2:1 2:1\n", ["line 2", "'2:1'", "rising order"]),
    "features out of order": (ROW + "0 qid:1 3:1 2:7\n", ["line 2", "'2:7'", "rising order"]),
    "a feature below 0": (ROW + "0 qid:1 -1:1\n", ["line 2", "'-1:1' stands where a feature"]),
    "a feature with a name": (ROW + "0 qid:1 bm25:1\n", ["line 2", "'bm25:1' stands where a feature"]),
    "a feature beyond all": (ROW + "0 qid:1 123456789012345678901:1\n", ["line 2", "above 10,000"]),
    "half a grade": (ROW + "0.5 qid:1 1:1\n", ["line 2", "the grade is '0.5'", "0 to 127"]),
    "a grade below 0": (ROW + "-1 qid:1 1:1\n", ["line 2", "the grade is '-1'", "0 to 127"]),
    "a grade above all": (ROW + "128 qid:1 1:1\n", ["line 2", "the grade is '128'", "0 to 127"]),
    "an endless grade": (ROW + "1e400 qid:1 1:1\n", ["line 2", "the grade is '1e400'"]),
    "a query split in two": (ROW + "0 qid:2 1:1\n" + ROW, ["line 3", "'1' is here again", "rows.txt, line 1"]),
    "gzip cut short": (gzip.compress(ROW.encode() * 999)[:-20], ["damaged gzip", "fetch it again"]),
    "gzip of noise": (b"\x1f\x8b" + bytes(range(255)), ["damaged gzip"]),
    "a long bad word": ("0 qid:1 " + "x" * 500 + "\n", ["'" + "x" * 60 + "...'"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_file_and_line(tmp_path: Path, own_cache: Path, case: str) -> None:
    text, words = WRONG[case]
    path = written(tmp_path, text)
    for cache in (False, True):
        with pytest.raises(DataError) as caught:
            read_letor(path, cache=cache)
        for word in (path.name, *words):
            assert word in str(caught.value)
    assert not own_cache.exists()


def test_lines_are_counted_over_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letor, "PIECE", 40)
    path = written(tmp_path, "\n# c\n" + ROW * 20 + "0 qid:2 1:1\n" * 5 + "0 qid:2 1:1 1:2\n" + "x\n" * 30)
    with pytest.raises(DataError, match=r"rows\.txt, line 28: '1:2'"):
        read_letor(path)


def test_a_query_in_two_files_is_named_with_both(tmp_path: Path) -> None:
    first, second = written(tmp_path, ROW + "0 qid:2 1:1\n", "a.txt"), written(tmp_path, "\n" + ROW, "b.txt")
    with pytest.raises(DataError, match=r"b\.txt, line 2: query '1' .*a\.txt, line 1;"):
        read_letor([first, second])
    assert len(read_letor([first, written(tmp_path, "0 qid:2 1:1\n", "c.txt")])) == 2  # side by side: together


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*none\.txt"):
        read_letor(tmp_path / "none.txt")
    with pytest.raises(DataError, match="is a folder"):
        read_letor(str(tmp_path))
    with pytest.raises(DataError, match="no file to read"):
        read_letor([])
    with pytest.raises(DataError, match=r"empty\.txt holds no rows"):
        read_letor([written(tmp_path, ROW), written(tmp_path, "", "empty.txt")])


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letor, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(letor, "PIECE", 100)
    with pytest.raises(DataError, match="line 2: a line of over"):
        read_letor(written(tmp_path, ROW + "1" * 5000))
