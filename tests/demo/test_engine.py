"""The demo's search engine: entries from sources, BM25 against a plain computation, captions whose highlights fit."""

import math
import sqlite3
import sys
import time
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from interleaf.demo.engine import LIT, RANKERS, UNLIT, Engine, LibraryEntry, read_entries, words_of
from interleaf.errors import DataError
from interleaf.log import schema
from tests.support.demo_library import library

SOURCE = '''"""Tools for shoes."""
raise SystemExit("nobody imports this")

class Shoe:
    """One shoe."""
    def __init__(self, size, /, colour="red"): ...
    def walk(self, *, far=True):
        """Walk\x07on."""
    @staticmethod
    def pair(left, right):
        """Two of them."""
    @property
    def price(self):
        """What it costs."""
    @price.setter
    def price(self, value):
        """Never read."""
    def _hidden(self):
        """Private."""
    class Lace:
        """Inside."""

if sys.platform == "win32":
    def buy(one, *others, **more):
        """Buy shoes."""
else:
    def buy():
        """Another platform's."""
    async def sell(price: int = 3) -> None:
        """Sell shoes."""
def silent(): ...
'''


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_every_public_thing_with_a_docstring_is_an_entry(tmp_path: Path) -> None:
    write(tmp_path, "shop/__init__.py", '"""A shop."""')
    write(tmp_path, "shop/shoes.py", SOURCE)
    write(tmp_path, "shop/broken.py", '"""Not Python."""\ndef (')
    for unseen in ("shop/_private.py", "shop/test/__init__.py", "test/__init__.py", "loose/module.py", "idlelib.py"):
        write(tmp_path, unseen, '"""Left out."""')
    assert [(one.id, one.kind, one.title) for one in read_entries(tmp_path)] == [
        ("shop", "module", "shop"),
        ("shop.shoes", "module", "shop.shoes"),
        ("shop.shoes.Shoe", "class", "shop.shoes.Shoe(size, /, colour='red')"),
        ("shop.shoes.Shoe.walk", "method", "shop.shoes.Shoe.walk(*, far=True)"),
        ("shop.shoes.Shoe.pair", "method", "shop.shoes.Shoe.pair(left, right)"),
        ("shop.shoes.Shoe.price", "method", "shop.shoes.Shoe.price"),
        ("shop.shoes.Shoe.Lace", "class", "shop.shoes.Shoe.Lace"),
        ("shop.shoes.buy", "function", "shop.shoes.buy(one, *others, **more)"),
        ("shop.shoes.sell", "function", "shop.shoes.sell(price: int=3)"),
    ]
    assert {one.id: one.text for one in read_entries(tmp_path)}["shop.shoes.Shoe.walk"] == "Walk on."
    assert "shop.shoes" not in sys.modules


def test_a_folder_without_sources_is_an_error_that_says_so(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DataError, match="no Python sources"):
            read_entries(folder)


def test_the_standard_library_is_read_quickly_without_importing_it_and_always_alike() -> None:
    entries, imported = list(library().entries.values()), set(sys.modules)
    began = time.thread_time()
    again = read_entries()
    with closing(Engine(again)):
        assert time.thread_time() - began < 3 * 2  # 3 seconds of one core, on a machine half as fast
    assert again == entries
    assert set(sys.modules) == imported
    assert len(entries) > 3000
    assert len({one.id for one in entries}) == len(entries)
    found = {one.id: one for one in entries}
    assert found["json.dumps"].kind == "function"
    assert found["json.dumps"].title.startswith("json.dumps(obj, *, skipkeys=False")
    assert found["json"].module == found["json.dumps"].module == "json"


WORDS = ("shoe", "sock", "lace", "boot", "heel", "sole")
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
few = st.lists(st.tuples(texts, texts), min_size=3, max_size=8).map(
    lambda found: [
        LibraryEntry(f"m.n{place}", "function", "m", title, text) for place, (title, text) in enumerate(found)
    ]
)


def bm25(entries: list[LibraryEntry], query: str, weights: tuple[float, float, float]) -> list[float]:
    """The score of each entry as FTS5's documentation gives it: k1 = 1.2, b = 0.75, lengths over all columns."""
    fields = [[words_of(one.id), words_of(one.title), words_of(one.text)] for one in entries]
    lengths = [sum(map(len, columns)) for columns in fields]
    mean, scores = sum(lengths) / len(lengths), [0.0] * len(entries)
    for word in dict.fromkeys(words_of(query)):
        holding = sum(any(word in column for column in columns) for columns in fields)
        rarity = max(math.log((len(entries) - holding + 0.5) / (holding + 0.5)), 1e-6)
        for place, columns in enumerate(fields):
            often = sum(weight * Counter(column)[word] for weight, column in zip(weights, columns, strict=True))
            scores[place] += rarity * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * lengths[place] / mean))
    return scores


@given(few, texts, st.sampled_from([("equal", (1, 1, 1)), ("title", (8, 4, 1))]))
def test_rankers_order_by_bm25_with_their_weights(
    entries: list[LibraryEntry], query: str, ranker: tuple[str, tuple[float, float, float]]
) -> None:
    scores = dict(zip([one.id for one in entries], bm25(entries, query, ranker[1]), strict=True))
    with closing(Engine(entries)) as engine:
        found = engine.search(query, ranker[0], k=len(entries))
    assert set(found) == {name for name, score in scores.items() if score > 0}
    for better, worse in pairwise(found):
        assert scores[better] > scores[worse] - 1e-9


def test_the_very_name_comes_first_where_it_should() -> None:
    for query in ("dumps", "json.dumps", "OrderedDict", "collections.OrderedDict"):
        first = library().search(query, "exact", 1)[0]
        assert query in (first, first.rpartition(".")[2])
        assert library().search(query.lower(), "exact", 1) == [first]
    assert library().search("json", "exact", 1) == ["json"] != library().search("json", "title", 1)
    rest = [one for one in library().search("json", "exact", 20) if one != "json"]
    assert rest == [one for one in library().search("json", "title", 20) if one != "json"]


def test_the_worst_ranker_is_the_best_one_upside_down() -> None:
    everything = library().search("serialize", "equal", 10_000)
    assert len(everything) > 3
    assert set(library().search("serialize", "worst", 10_000)) == set(everything)
    assert library().search("serialize", "worst", 1) == everything[-1:]


def test_an_unknown_ranker_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(DataError, match="'equal', 'title', 'exact' or 'worst'"):
        library().search("json", "best")


def test_captions_are_those_of_the_log_and_their_highlights_lie_on_words_of_the_query() -> None:
    found = library().search("temporary files", "title", 10)
    captions = library().captions("temporary files", found)
    assert set(captions) == set(found)
    assert pa.array(list(captions.values()), pa.struct([column.field for column in schema.CAPTION])).null_count == 0
    marked = Counter[str]()
    for name, caption in captions.items():
        entry = library().entries[name]
        assert caption["title"] == entry.title
        assert caption["url"] == f"library/{name}"
        assert caption["snippet"].strip("…") in " ".join(entry.text.split())
        for section in caption["highlights"]:
            marked[caption[section["field"]][section["start"] : section["end"]].lower()] += 1
    assert {word for part in marked for word in words_of(part)} <= {"temporary", "file", "files", "temporaryfile"}
    assert marked["temporary"] > 0 < marked["file"]


@given(st.text(st.characters(exclude_categories=()), max_size=60), st.sampled_from(sorted(RANKERS)))
def test_no_query_breaks_the_engine(query: str, ranker: str) -> None:
    hostile = LibraryEntry('m."; DROP', "function", "m", "<b>title</b> AND OR NOT", "near* ^col : {a b} NEAR(x)")
    with closing(Engine([hostile])) as engine:
        rankings, captions = engine.answers(query + " NEAR", [ranker, "equal"])
        assert rankings[ranker] == rankings["equal"] == [hostile.id]
        assert captions[hostile.id]["title"] == hostile.title


def test_a_query_without_words_finds_nothing() -> None:
    for query in ("", "  ", '"', "***", "\0"):
        assert library().answers(query, RANKERS) == ({ranker: [] for ranker in RANKERS}, {})


def test_marks_of_highlights_in_a_docstring_are_taken_out(tmp_path: Path) -> None:
    write(tmp_path, "odd.py", f'"""An {LIT}odd{UNLIT} shoe."""')
    with closing(Engine(read_entries(tmp_path))) as engine:
        caption = engine.captions("shoe", ["odd"])["odd"]
    assert caption["snippet"] == "An odd shoe."
    assert caption["highlights"] == [{"field": "snippet", "start": 7, "end": 11}]


def test_an_sqlite_without_fts5_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Without(sqlite3.Connection):
        def execute(self, sql: str, *given: Any) -> Any:
            raise sqlite3.OperationalError("no such module: fts5")

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **options: connect(path, factory=Without, **options))
    with pytest.raises(DataError, match="has no FTS5"):
        Engine([])
