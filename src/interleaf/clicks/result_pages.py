"""Result pages of a log, as integer arrays to fit click models on, and a parser of the Yandex text format.

A line of that format (from the relevance-prediction challenge of 2011; PyClick also reads it) is a result page,
`session time Q query region url url ...`, or a click, `session time C url`. Fields are separated by tabs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from interleaf.errors import ClickError, DataError, join_names
from interleaf.kernels.arrays import Array
from interleaf.kernels.randomness import Keyed, key_of

NO_PAGE = "shows no page; a page is a line of session, time, Q, query, region and urls"


@dataclass(frozen=True)
class PageReading:
    """The names of queries and documents by number, and counts of the clicks of a log.

    `latest_by_rank` counts clicks on the page that the session saw last, `earlier` those that match only an earlier
    page, `not_shown` those that match no page and are dropped, and `repeated` how many of the others repeat a click.
    """

    queries: tuple[str, ...]
    documents: tuple[str, ...]
    latest_by_rank: tuple[int, ...]
    earlier: int
    not_shown: int
    repeated: int

    def __str__(self) -> str:
        latest = sum(self.latest_by_rank)
        return (
            f"{latest + self.earlier + self.not_shown:,} clicks: {latest:,} on the page shown last in the session, "
            f"{self.earlier:,} on an earlier one, {self.not_shown:,} on nothing shown; {self.repeated:,} repeat a click"
        )


@dataclass(frozen=True)
class ResultPages:
    """Arrays: `queries[page]`, `documents[page, rank]` (-1 below the last one) and `clicks[page, rank]`.

    A split puts all pages with the same `sessions[page]` into one part. The counts are the numbers of queries and
    documents.
    """

    queries: Array
    documents: Array
    clicks: Array
    sessions: Array
    query_count: int
    document_count: int
    reading: PageReading | None = None

    def __post_init__(self) -> None:
        pages, clicks = self.documents.shape, self.clicks.shape
        if len(pages) != 2 or pages != clicks or self.clicks.dtype != np.bool_:
            problem = f"documents {pages} and clicks {clicks} must both be [pages, ranks], and clicks True or False"
            raise ClickError(problem)
        if not len(self.queries) == len(self.sessions) == len(self.documents):
            raise ClickError("queries and sessions need one number per page")
        _check_numbers(self.queries, "query", self.query_count)
        _check_numbers(self.documents[self.documents != -1], "document", self.document_count)
        if (self.shown[:, 1:] & ~self.shown[:, :-1]).any() or (self.clicks & ~self.shown).any():
            problem = "a page has a gap, or a click where nothing was shown"
            raise ClickError(f"{problem}; pad with -1 below the last document")

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def shown(self) -> Array:
        """Where there is a document, `[page, rank]`."""
        return np.asarray(self.documents >= 0)

    def take(self, rows: Array) -> ResultPages:
        """Some of the pages, by number or by mask, with the same vocabularies."""
        parts = (self.queries[rows], self.documents[rows], self.clicks[rows], self.sessions[rows])
        return ResultPages(*parts, self.query_count, self.document_count, self.reading)

    def split(self, share: float, seed: int) -> tuple[ResultPages, ResultPages]:
        """Pages to train on, and held-out pages: those of a random `share` of the sessions, drawn with the seed."""
        if not 0 < share < 1:
            raise ClickError(f"the share to hold out cannot be {share!r}; give a number between 0 and 1")
        sessions, session_of = np.unique(self.sessions, return_inverse=True)
        if len(sessions) < 2:
            raise ClickError(f"{len(sessions)} sessions cannot be split in two; give pages of more people")
        randomness = Keyed(key_of(("split sessions", seed)))
        order = np.argsort(np.array([randomness.bits() for _ in sessions], np.uint64), kind="stable")
        count = min(max(round(share * len(sessions)), 1), len(sessions) - 1)
        is_held_out = np.isin(session_of, order[:count])
        return self.take(~is_held_out), self.take(is_held_out)


def _check_numbers(values: Array, what: str, count: int) -> None:
    if values.size and not 0 <= values.min() <= values.max() < count:
        raise ClickError(f"a {what} has a number outside 0 .. {count - 1}; number them from 0, or raise {what}_count")


def parse_yandex(lines: Iterable[str], source: str = "the log") -> ResultPages:
    """The pages in the lines of such a log.

    >>> parse_yandex(["s1\\t0\\tQ\\tq7\\t0\\ta\\tb", "s1\\t9\\tC\\tb"]).clicks
    array([[False,  True]])
    """
    log = _YandexLog()
    for number, line in enumerate(lines, 1):
        try:
            log.add(split_yandex_line(line))
        except DataError as error:
            raise DataError(f"{source}, line {number}: {error}") from None
    if not log.pages:
        raise DataError(f"{source} {NO_PAGE}")
    return log.to_pages()


def split_yandex_line(line: str) -> list[str]:
    """The fields of a line that is a page or a click; none if the line is empty."""
    fields = line.rstrip().split("\t")  # some writers pad clicks with empty fields to the width of a page
    if fields == [""]:
        return []
    if "" in fields:
        raise DataError(f"field {fields.index('') + 1} is empty; every field but the last ones needs a value")
    kind = fields[2] if len(fields) > 2 else None
    if kind not in ("Q", "C"):
        raise DataError(f"the third field is {kind!r}; it must be {join_names('QC')}, and fields separated by tabs")
    if len(fields) < 6 if kind == "Q" else len(fields) != 4:
        shape = "session, time, Q, query, region and urls" if kind == "Q" else "session, time, C and one url"
        raise DataError(f"{len(fields)} fields, but a line of kind {kind} has {shape}, separated by tabs")
    return fields


class _YandexLog:
    """The lines read so far; names are numbered in the order of their first line."""

    def __init__(self) -> None:
        self.queries, self.documents, self.sessions = (dict[str, int]() for _ in range(3))
        self.pages: list[tuple[int, int, list[int]]] = []
        self.pages_of: defaultdict[int, list[int]] = defaultdict(list)
        self.clicks: list[tuple[int, int]] = []
        self.latest: Counter[int] = Counter()
        self.not_shown = 0

    def add(self, fields: list[str]) -> None:
        """Add the fields of a line, if any."""
        if not fields:
            return
        if fields[2] == "Q":
            self._add_page(fields[0], fields[3], fields[5:])
        else:
            self._add_click(fields[0], fields[3])

    def _add_page(self, session: str, query: str, urls: Sequence[str]) -> None:
        person = self.sessions.setdefault(session, len(self.sessions))
        documents = [self.documents.setdefault(url, len(self.documents)) for url in urls]
        self.pages_of[person].append(len(self.pages))
        self.pages.append((person, self.queries.setdefault(query, len(self.queries)), documents))

    def _add_click(self, session: str, url: str) -> None:
        """Add a click to the latest page of the session that shows the document, at its first place there."""
        pages = self.pages_of.get(self.sessions.get(session, -1), [])
        document = self.documents.get(url, -1)
        for page in reversed(pages):
            shown = self.pages[page][2]
            if document in shown:
                self.clicks.append((page, shown.index(document)))
                self.latest[shown.index(document)] += page == pages[-1]
                return
        self.not_shown += 1

    def to_pages(self) -> ResultPages:
        width = max(len(shown) for _, _, shown in self.pages)
        documents = np.full((len(self.pages), width), -1, np.int64)
        clicks = np.zeros(documents.shape, np.bool_)
        for row, (_, _, shown) in enumerate(self.pages):
            documents[row, : len(shown)] = shown
        for click in self.clicks:
            clicks[click] = True
        sessions, queries = (np.array([page[part] for page in self.pages], np.int64) for part in (0, 1))
        reading = PageReading(
            queries=tuple(self.queries),
            documents=tuple(self.documents),
            latest_by_rank=tuple(self.latest[rank] for rank in range(width)),
            earlier=len(self.clicks) - sum(self.latest.values()),
            not_shown=self.not_shown,
            repeated=len(self.clicks) - int(clicks.sum()),
        )
        return ResultPages(queries, documents, clicks, sessions, len(self.queries), len(self.documents), reading)
