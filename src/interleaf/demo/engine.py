"""The search engine of the demo: the documentation of Python's standard library, indexed by SQLite's FTS5."""

from __future__ import annotations

import ast
import re
import sqlite3
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

from interleaf.errors import DataError, suggest

# Modules that nobody searches for: tests, programs, removed modules, generated code.
LEFT_OUT = {
    *("test", "tests", "idlelib", "lib2to3", "turtledemo", "distutils", "ensurepip", "pydoc_data", "encodings"),
    *("site-packages", "dist-packages", "antigravity", "this"),
}
MODULE, CLASS, FUNCTION, METHOD = "module", "class", "function", "method"
MAX_PARAMETERS = 70
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class LibraryEntry:
    """A documented module, class or function: `id` is its qualified name, `title` adds its parameters."""

    id: str
    kind: str
    module: str
    title: str
    text: str

    @property
    def owner(self) -> str:
        """Where it is defined: the class of a method, the package of a module; empty at the top level.

        >>> LibraryEntry("json.JSONDecoder.decode", METHOD, "json", "json.JSONDecoder.decode(s)", "...").owner
        'json.JSONDecoder'
        """
        return self.id.rpartition(".")[0]


def read_entries(folder: Path | None = None) -> list[LibraryEntry]:
    """All entries in a folder of sources, by default the standard library, in a fixed order."""
    folder = folder or Path(sysconfig.get_paths()["stdlib"])
    entries: dict[str, LibraryEntry] = {}
    for path in _sources(folder):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, ValueError, SyntaxError):  # skip files that this Python cannot parse
            continue
        text = ast.get_docstring(tree)
        module = [LibraryEntry(name, MODULE, name, name, _plain(text))] if text else []
        for entry in (*module, *_definitions(tree.body, name, name, FUNCTION)):
            entries.setdefault(entry.id, entry)  # the first of several definitions, such as those of a property
    if not entries:
        raise DataError(f"{folder} holds no Python sources with docstrings; the demo searches those: install them")
    return list(entries.values())


def _sources(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.stem != "__init__" and (path.name in LEFT_OUT or path.stem in LEFT_OUT or path.stem.startswith("_")):
            continue
        if path.suffix == ".py":
            yield path
        elif (path / "__init__.py").is_file():
            yield from _sources(path)


def _definitions(body: Sequence[ast.stmt], owner: str, module: str, kind: str) -> Iterator[LibraryEntry]:
    for node in body:
        if isinstance(node, ast.If | ast.Try):  # definitions that depend on the platform
            yield from _definitions([*node.body, *node.orelse], owner, module, kind)
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        name, text = f"{owner}.{node.name}", ast.get_docstring(node)
        if text:
            own_kind = CLASS if isinstance(node, ast.ClassDef) else kind
            yield LibraryEntry(name, own_kind, module, name + _parameters(node, kind), _plain(text))
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node.body, name, module, METHOD)


def _parameters(node: Definition, kind: str) -> str:
    """The parameters as text, without self; for a class, those of its constructor."""
    if isinstance(node, ast.ClassDef):
        constructors = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
        return _parameters(constructors[0], METHOD) if constructors else ""
    marks = {ast.unparse(mark).partition("(")[0] for mark in node.decorator_list}
    if marks & {"property", "cached_property", "functools.cached_property"}:
        return ""
    if kind == METHOD and "staticmethod" not in marks:
        del (node.args.posonlyargs or node.args.args)[:1]
    parameters = ast.unparse(node.args)
    if len(parameters) > MAX_PARAMETERS:
        parameters = parameters[:MAX_PARAMETERS].rpartition(",")[0] + ", …"
    return f"({parameters})"


def _plain(text: str) -> str:
    """Remove invisible characters except line breaks: two of them mark highlights later."""
    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f]", " ", text)


# How rankers order matches: constant SQL expressions over the index, with the query as `:asked`. In FTS5, lower bm25 is
# better; its weights are for the columns id, leaf, name, title and text.
RANKERS = {
    "equal": "bm25(entries, 0, 0, 1, 1, 1)",  # all fields alike
    "title": "bm25(entries, 0, 0, 8, 4, 1)",  # name and title boosted
    # The exact name comes first.
    "exact": "id <> :asked COLLATE NOCASE AND leaf <> :asked COLLATE NOCASE, bm25(entries, 0, 0, 8, 4, 1)",
    "worst": "bm25(entries, 0, 0, 1, 1, 1) DESC",  # worst match first
}


def order_of(name: str) -> str:
    """The order of the ranker with this name.

    >>> order_of("equal")
    'bm25(entries, 0, 0, 1, 1, 1)'
    """
    if name not in RANKERS:
        raise DataError(f"there is no ranker {name!r}; give {suggest(name, RANKERS)}")
    return RANKERS[name]


COLUMNS = "id UNINDEXED, leaf UNINDEXED, name, title, text"
LIT, UNLIT = "\x02", "\x03"  # mark highlights; no entry contains them
SNIPPET_WORDS = 32
MAX_WORDS = 16  # of a query


class Engine:
    """An index of entries; one connection for all threads, one search at a time.

    >>> engine = Engine(
    ...     [LibraryEntry("json.dumps", "function", "json", "json.dumps(obj)", "Serialize obj to a string.")]
    ... )
    >>> engine.search("serialize to json", "title")
    ['json.dumps']
    >>> engine.captions("json", ["json.dumps"])["json.dumps"]["highlights"]
    [{'field': 'title', 'start': 0, 'end': 4}]
    >>> engine.close()
    """

    def __init__(self, entries: Iterable[LibraryEntry]) -> None:
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
        # The name column has the name, and its words if it is a compound.
        names = {name: " ".join(dict.fromkeys([name, _apart(name)])) for name in self.entries}
        rows = [(one.id, leaf(one.id), names[one.id], one.title, one.text) for one in self.entries.values()]
        self._connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", rows)
        self._connection.execute("INSERT INTO entries(entries) VALUES ('optimize')")
        self._connection.commit()

    def close(self) -> None:
        """Close the index."""
        with self._lock:
            self._connection.close()

    def search(self, query: str, ranker: str, k: int = 10) -> list[str]:
        """The ids of the best k entries that contain a word of the query; ties in the order of the library."""
        sql = f"SELECT id FROM entries WHERE entries MATCH :match ORDER BY {order_of(ranker)}, rowid LIMIT :k"
        return [name for (name,) in self._rows(sql, query, k=k)]

    def answers(self, query: str, rankers: Iterable[str]) -> tuple[dict[str, list[str]], dict[str, dict[str, Any]]]:
        """The ranking of each ranker, and the captions of all documents in them."""
        rankings = {ranker: self.search(query, ranker) for ranker in rankers}
        return rankings, self.captions(query, list(dict.fromkeys(chain.from_iterable(rankings.values()))))

    def captions(self, query: str, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The captions of entries, with the words of the query highlighted, in the format of the log."""
        names = {f"id{place}": one for place, one in enumerate(ids)}
        rows = self._rows(
            "SELECT id, highlight(entries, 3, :lit, :unlit), snippet(entries, 4, :lit, :unlit, '…', :words) "
            f"FROM entries WHERE entries MATCH :match AND id IN ({', '.join(f':{name}' for name in names)})",
            query,
            **{"lit": LIT, "unlit": UNLIT, "words": SNIPPET_WORDS, **names},
        )
        return {one: _caption(one, title, snippet) for one, title, snippet in rows}

    def _rows(self, sql: str, query: str, **values: Any) -> list[Any]:
        words = list(dict.fromkeys([*_tokens(query), *words_of(query)]))[:MAX_WORDS]
        if not words:
            return []
        exact = query.strip().encode(errors="replace").decode()  # SQLite refuses lone surrogates
        match = " OR ".join(f'"{word}"' for word in words)
        with self._lock:
            return self._connection.execute(sql, {"match": match, "asked": exact, **values}).fetchall()


def leaf(name: str) -> str:
    """The last part of a qualified name."""
    return name.rpartition(".")[2]


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; compound names are split.

    >>> words_of("http.server.HTTPServer, on_connect()")
    ['http', 'server', 'http', 'server', 'on', 'connect']
    """
    return _tokens(_apart(text))


def _tokens(text: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[^\W_]+", text)]


def _apart(name: str) -> str:
    """Split names in camel case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)


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
