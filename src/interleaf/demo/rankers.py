"""The rankers of the demo: real configurations of one engine, a row each."""

from __future__ import annotations

from dataclasses import dataclass

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
