"""The search for experiments, by the beginnings of words in names, rankers and notes; its cost has a limit.

A table has every beginning with its experiment. A rare word leads to few experiments, which are all looked at. If every
word of a search is common, the first `MAX_SCANNED` experiments of the list are looked at, and no more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from interleaf.store.contract import DRAFT, RUNNING, Search
from interleaf.store.database import Table, Transaction

WORDS = Table("experiment_words", {"experiment": "text", "word": "text"}, ("experiment", "word"))
MAX_WORDS = 10  # of a search
MAX_LENGTH = 40  # of a word, in characters
MAX_RARE = 1000  # rows of a word that is rare
MAX_SCANNED = 3000
_ORDER = f"(CASE state WHEN '{RUNNING}' THEN 0 WHEN '{DRAFT}' THEN 1 ELSE 2 END)"  # as the index of the list has it
_LAST = "\U0010ffff"  # it comes after every other character
_RANGE = "word >= ? AND word < ?"
_HAS_WORD = f"EXISTS (SELECT 1 FROM experiment_words w WHERE w.experiment = name AND {_RANGE})"


class Selection(NamedTuple):
    """Experiments as parts of a statement: where they come from, a condition, its values, and their order.

    `is_whole`: no experiment that matches the search is left out.
    """

    source: str
    condition: str
    values: list[Any]
    order: str
    is_whole: bool


def select(transaction: Transaction, search: Search) -> Selection:
    """The experiments that a search finds."""
    condition, values = _filter(search)
    order = f"{_ORDER}, created DESC, name" if search.state is None else "created DESC, name"
    ranges = [(word, word + _LAST) for word in _words_of(search)]
    if not ranges:
        return Selection("experiments", condition, values, order, True)
    counts = [_count(transaction, one) for one in ranges]
    rare = counts.index(min(counts))
    if counts[rare] <= MAX_RARE:
        first, others = ranges[rare], [one for place, one in enumerate(ranges) if place != rare]
        # SQLite takes a cross join in the order in which it is written.
        source = f"(SELECT DISTINCT experiment FROM experiment_words WHERE {_RANGE}) AS found CROSS JOIN experiments"
        wanted = [condition, "name = found.experiment", *[_HAS_WORD] * len(others)]
        return Selection(source, " AND ".join(wanted), [*first, *values, *itertools.chain(*others)], order, True)
    source = f"(SELECT * FROM experiments WHERE {condition} ORDER BY {order} LIMIT {MAX_SCANNED}) AS first_ones"
    scanned = _number(transaction, f"SELECT count(*) FROM (SELECT 1 FROM {source}) AS counted", values)
    wanted = [_HAS_WORD] * len(ranges)
    given = [*values, *itertools.chain(*ranges)]
    return Selection(source, " AND ".join(wanted), given, order, scanned < MAX_SCANNED)


def _filter(search: Search) -> tuple[str, list[Any]]:
    """State, archive and name of a search as a condition, and its values."""
    conditions = {None: ["1 = 1"], True: ["archived IS NOT NULL"], False: ["archived IS NULL"]}[search.archived]
    given = [("state", search.state), ("name", search.only)]
    conditions += [f"{column} = ?" for column, value in given if value is not None]
    return " AND ".join(conditions), [value for _, value in given if value is not None]


def _words_of(search: Search) -> list[str]:
    return [word[:MAX_LENGTH] for word in search.text.casefold().split()[:MAX_WORDS]]


def _count(transaction: Transaction, word: tuple[str, str]) -> int:
    """How many rows a word has; counted until it is not rare."""
    rows = f"SELECT 1 FROM experiment_words WHERE {_RANGE} LIMIT {MAX_RARE + 1}"
    return _number(transaction, f"SELECT count(*) FROM ({rows}) AS counted", word)


def _number(transaction: Transaction, statement: str, values: Iterable[Any]) -> int:
    ((number,),) = transaction.rows(statement, *values)
    return int(number)


def index(transaction: Transaction, experiment: str, text: str) -> None:
    """Let an experiment be found by the words of a text, and by no others."""
    rows = transaction.rows("SELECT word FROM experiment_words WHERE experiment = ?", experiment)
    before, now = {word for (word,) in rows}, set(beginnings(text))
    for word in before - now:
        transaction.change("DELETE FROM experiment_words WHERE experiment = ? AND word = ?", experiment, word)
    if new := sorted(now - before):
        transaction.insert(WORDS, [(experiment, word) for word in new])


def beginnings(text: str) -> Iterator[str]:
    """The words of a text from each place on where letters, digits or other signs begin.

    >>> sorted(set(beginnings("Shoes bm25_new")))
    ['25_new', '_new', 'bm25_new', 'new', 'shoes']
    """
    for word in text.casefold().split():
        before = ""
        for place, sign in enumerate(word):
            kind = _kind(sign)
            if not kind or kind != before:
                yield word[place : place + MAX_LENGTH]
            before = kind


def _kind(sign: str) -> str:
    """What a sign forms one word with; nothing where each is a word, as in Chinese."""
    if sign.isdecimal():
        return "digit"
    return "letter" if sign.isalpha() and sign < "\u2e80" else ""
