"""The search engine of the demo: SQLite's FTS5, with BM25, highlighted titles and snippets."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from interleaf.demo.entries import Entry
from interleaf.errors import DataError, suggest


@dataclass(frozen=True)
class Ranker:
    """A way to order what matches: `order` is SQL of ours over the columns of the index, with the query as `:asked`."""

    name: str
    title: str
    order: str


# bm25 of FTS5 is the better the lower it is; its weights are those of the columns id, leaf, name, title and text.
RANKERS = {
    ranker.name: ranker
    for ranker in (
        Ranker("equal", "BM25, all fields alike", "bm25(entries, 0, 0, 1, 1, 1)"),
        Ranker("title", "BM25, name and title boosted", "bm25(entries, 0, 0, 8, 4, 1)"),
        Ranker(
            "exact",
            "the very name first, then as title",
            "id <> :asked COLLATE NOCASE AND leaf <> :asked COLLATE NOCASE, bm25(entries, 0, 0, 8, 4, 1)",
        ),
        Ranker("worst", "what matches least first", "bm25(entries, 0, 0, 1, 1, 1) DESC"),
    )
}


def ranker_of(name: str) -> Ranker:
    """The ranker with this name.

    >>> ranker_of("equal").title
    'BM25, all fields alike'
    """
    if name not in RANKERS:
        raise DataError(f"there is no ranker {name!r}; give {suggest(name, RANKERS)}")
    return RANKERS[name]


COLUMNS = "id UNINDEXED, leaf UNINDEXED, name, title, text"
LIT, UNLIT = "\x02", "\x03"  # around what is highlighted; no entry holds them
SNIPPET_WORDS = 32
MOST_WORDS = 16  # of a query


class Engine:
    """An index of entries; one connection for all threads, one search at a time.

    >>> engine = Engine([Entry("json.dumps", "function", "json", "json.dumps(obj)", "Serialize obj to a string.")])
    >>> engine.search("serialize to json", "title")
    ['json.dumps']
    >>> engine.captions("json", ["json.dumps"])["json.dumps"]["highlights"]
    [{'field': 'title', 'start': 0, 'end': 4}]
    >>> engine.close()
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = {entry.id: entry for entry in entries}
        self._lock = Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            self._connection.execute(f"CREATE VIRTUAL TABLE entries USING fts5({COLUMNS}, tokenize='porter unicode61')")
        except sqlite3.OperationalError as error:
            self.close()
            raise DataError(
                f"the SQLite {sqlite3.sqlite_version} of this Python has no FTS5 ({error}), and the demo searches with "
                "it; use a Python that has it, such as that of python.org or of Debian"
            ) from None
        rows = [(one.id, leaf(one.id), _name(one.id), one.title, one.text) for one in self.entries.values()]
        self._connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", rows)
        self._connection.execute("INSERT INTO entries(entries) VALUES ('optimize')")
        self._connection.commit()

    def close(self) -> None:
        """Let go of the index."""
        with self._lock:
            self._connection.close()

    def search(self, query: str, ranker: str, k: int = 10) -> list[str]:
        """The ids of the best k entries that hold any word of the query; equally good ones as they were read."""
        order = f"ORDER BY {ranker_of(ranker).order}, rowid LIMIT :k"
        rows = self._rows(f"SELECT id FROM entries WHERE entries MATCH :match {order}", query, k=k)
        return [one for (one,) in rows]

    def answers(self, query: str, rankers: Iterable[str]) -> tuple[dict[str, list[str]], dict[str, dict[str, Any]]]:
        """What a search service asks for: the ranking of each ranker, and the captions of all that they found."""
        rankings = {ranker: self.search(query, ranker) for ranker in rankers}
        found = dict.fromkeys(one for ranking in rankings.values() for one in ranking)
        return rankings, self.captions(query, list(found))

    def captions(self, query: str, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """What people see of each entry that the query finds, as the log holds captions, its words highlighted."""
        names = {f"id{place}": one for place, one in enumerate(ids)}
        rows = self._rows(
            "SELECT id, highlight(entries, 3, :lit, :unlit), snippet(entries, 4, :lit, :unlit, '…', :words) "
            f"FROM entries WHERE entries MATCH :match AND id IN ({', '.join(f':{name}' for name in names)})",
            query,
            **{"lit": LIT, "unlit": UNLIT, "words": SNIPPET_WORDS, **names},
        )
        return {one: _caption(one, title, snippet) for one, title, snippet in rows}

    def _rows(self, sql: str, query: str, **values: Any) -> list[Any]:
        words = list(dict.fromkeys([*_tokens(query), *words_of(query)]))[:MOST_WORDS]
        if not words:
            return []
        asked = query.strip().encode(errors="replace").decode()  # lone surrogates are no text to SQLite
        match = " OR ".join(f'"{word}"' for word in words)
        with self._lock:
            return self._connection.execute(sql, {"match": match, "asked": asked, **values}).fetchall()


def leaf(name: str) -> str:
    """The last part of a qualified name."""
    return name.rpartition(".")[2]


def words_of(text: str) -> list[str]:
    """The words of a text in small letters, names taken apart.

    >>> words_of("http.server.HTTPServer, on_connect()")
    ['http', 'server', 'http', 'server', 'on', 'connect']
    """
    return _tokens(_apart(text))


def _tokens(text: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[^\W_]+", text)]


def _apart(name: str) -> str:
    """Names in camel case taken apart."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)


def _name(name: str) -> str:
    """What the name column holds: the name, and its words where it runs them together."""
    apart = _apart(name)
    return name if apart == name else f"{name} {apart}"


def _caption(one: str, title: str, snippet: str) -> dict[str, Any]:
    """A caption of the log, from texts in which every second part is highlighted."""
    texts, highlights = dict[str, str](), list[dict[str, Any]]()
    for field, marked in (("title", title), ("snippet", " ".join(snippet.split()))):
        texts[field] = ""
        for number, part in enumerate(re.split(f"[{LIT}{UNLIT}]", marked)):
            start = len(texts[field])
            texts[field] += part
            if number % 2:
                highlights.append({"field": field, "start": start, "end": start + len(part)})
    return {**texts, "url": f"library/{one}", "highlights": highlights, "deep_links": 0}
