"""The rankings of a caller: checked, with documents as numbers. Documents at fixed ranks of a list, such as ads."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice, repeat, zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from interleaf.errors import InterleafError, RankingError
from interleaf.kernels.arrays import Array, EncodedRankings

if TYPE_CHECKING:
    from interleaf.methods.registry import ResolvedMethod

Document = Hashable
Rankings = Mapping[str, Sequence[Document]] | Sequence[Sequence[Document]]

_NOTHING: Document = object()  # fills up shorter rankings
MAX_DOCUMENTS = 1_000_000
MAX_RANKERS = 127  # teams are logged as 8-bit integers


@dataclass(slots=True, eq=False)
class CheckedRankings:
    """Checked rankings: the names of the rankers, their documents, and the rank of each document."""

    rankers: tuple[str, ...]
    rankings: tuple[tuple[Document, ...], ...]
    places: tuple[dict[Document, int], ...]

    @classmethod
    def of(cls, rankings: Rankings, chosen: ResolvedMethod) -> CheckedRankings:
        """Check the rankings; a plain sequence of them gets the names A, B, C, ..."""
        named = rankings if type(rankings) is dict else _by_name(rankings)
        rankers = tuple(named)
        check_rankers(rankers, chosen)
        checked, places = [], []
        for ranker, ranking in named.items():
            documents = _documents(ranker, ranking)
            try:
                ranks = dict(zip(documents, range(1, len(documents) + 1), strict=True))
            except TypeError:
                raise RankingError(
                    f"ranking {ranker!r} holds a document that is not hashable; use strings or integers"
                ) from None
            if len(ranks) < len(documents):
                refuse_duplicate(ranker, documents)
            if len(documents) > MAX_DOCUMENTS:
                raise RankingError(
                    f"ranking {ranker!r} holds {len(documents):,} documents; cut it at {MAX_DOCUMENTS:,}"
                )
            checked.append(documents)
            places.append(ranks)
        if not any(checked):
            raise RankingError("every ranking is empty; at least one must hold a document")
        _check_kinds(rankers, checked)
        return cls(rankers, tuple(checked), tuple(places))

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many documents each ranking holds."""
        return tuple([len(ranking) for ranking in self.rankings])

    @property
    def union(self) -> int:
        """How many different documents the rankings hold together."""
        first, *others = self.places
        documents = dict(first)  # copying a table is faster than growing a set
        for places in others:
            documents.update(places)
        return len(documents)

    def encode(self, depth: int | None) -> tuple[list[Document], EncodedRankings]:
        """The documents in the order of first appearance, and the top of each ranking (None: all) in their numbers."""
        tops = self.rankings if depth is None else [ranking[:depth] for ranking in self.rankings]
        numbers: dict[Document, int] = {}
        rows = [[numbers.setdefault(document, len(numbers)) for document in top] for top in tops]
        depths = [len(row) for row in rows]
        longest = max(depths)
        if min(depths) < longest:
            for row in rows:
                row += [-1] * (longest - len(row))
        return list(numbers), EncodedRankings(np.array(rows, np.int32), np.array(depths, np.int32), len(numbers))

    def ranks_of(self, documents: Sequence[Document]) -> Array:
        """The rank matrix: `[ranker, position]`, 1 = top, 0 = not in that ranking."""
        return np.array([list(map(place.get, documents, repeat(0))) for place in self.places], np.int32)

    def ranks_or_next(self, documents: Sequence[Document]) -> Array:
        """The rank matrix with a document that a ranking lacks just below its last: at its length + 1."""
        return np.array([list(map(place.get, documents, repeat(len(place) + 1))) for place in self.places], np.int32)

    def choices(self, size: int) -> tuple[int, ...]:
        """|Omega(x)| for x = 1 .. size: how many documents some ranker has in its top x."""
        documents, sizes = {_NOTHING}, []
        for column in islice(zip_longest(*self.rankings, fillvalue=_NOTHING), size):
            documents.update(column)
            sizes.append(len(documents) - 1)
        return tuple(sizes + sizes[-1:] * (size - len(sizes)))


def unshown_rank_lists(rankings: Sequence[Sequence[Document]], documents: Sequence[Document]) -> list[list[int]]:
    """By ranker, the ranks of documents that are not shown, in as many top ranks as the list has documents.

    They complete the ranks of the shown documents: together they are the top of each ranking. 0: not that high.

    >>> unshown_rank_lists([["a", "b", "c"], ["b", "d", "e"]], ["b", "a"])
    [[0], [2]]
    """
    count = len(documents)
    places = [dict(zip(ranking[:count], range(1, count + 1), strict=False)) for ranking in rankings]
    unshown = dict(places[0])
    for place in places[1:]:
        unshown.update(place)
    for document in documents:
        unshown.pop(document, None)
    return [list(map(place.get, unshown, repeat(0))) for place in places]


def text_id(document: object) -> str | None:
    """A document id as text, as logs store it: a text, or a whole number; None for other types.

    >>> text_id("d4"), text_id(7), text_id((7, "red"))
    ('d4', '7', None)
    """
    if isinstance(document, str):
        return str(document)
    is_number = isinstance(document, (int, np.integer)) and not isinstance(document, bool)
    return str(document) if is_number else None


def text_ids(ranker: str, documents: Sequence[object]) -> list[str]:
    """The ids of a ranking as texts."""
    if set(map(type, documents)) <= {str}:
        return list(documents)  # type: ignore[arg-type]  # they are texts
    texts = [text_id(document) for document in documents]
    for rank, (document, text) in enumerate(zip(documents, texts, strict=True), 1):
        if text is None:
            raise RankingError(
                f"ranking {ranker!r} holds {document!r:.100} at rank {rank}, of type {type(document).__name__}; "
                "a document id is a text or a whole number, as logs keep it: give one, such as 'product-7-red'"
            )
    return texts  # type: ignore[return-value]  # none of them is None


def text_rankings(rankings: Mapping[str, Sequence[object] | None]) -> dict[str, list[str] | None]:
    """Rankings with their ids as texts; None stands for one that is missing."""
    if not isinstance(rankings, Mapping):
        raise RankingError(f"rankings are a mapping from ranker to ranking, not {rankings!r:.100}")
    return {
        ranker: None if ranking is None else text_ids(ranker, _documents(ranker, ranking))
        for ranker, ranking in rankings.items()
    }


def collapse(
    rankings: Rankings | Mapping[str, Any], groups: Mapping[Any, Any], fixed: Iterable[Document] = ()
) -> dict[str, Any]:
    """Rankings with one document of each group, at the rank of the group's first document.

    All rankings get the same document of a group: the one that the first ranking with this group has. A document
    without a group is its own group. Ids are compared as texts, as in logs. Groups of `fixed` documents are left out.

    >>> groups = {"shoe-red": "shoe", "shoe-blue": "shoe"}
    >>> collapse({"A": ["shoe-red", "shoe-blue", "hat"], "B": ["hat", "shoe-blue"]}, groups)
    {'A': ['shoe-red', 'hat'], 'B': ['hat', 'shoe-red']}
    >>> collapse({"A": [1, 2, 3]}, {"1": "shoe", "2": "shoe"}, fixed=["2"])
    {'A': [3]}
    """
    if not isinstance(groups, Mapping):
        raise RankingError(f"groups are a mapping from document to group, not {groups!r:.100}")
    group_of = _groups_by_text(groups)
    document_of: dict[Any, Any] = {}
    fixed_groups = {group for document in fixed if (group := group_of.get(text_id(document))) is not None}
    return {
        ranker: ranking and _one_of_each(ranking, group_of, document_of, fixed_groups)
        for ranker, ranking in _by_name(rankings).items()
    }


def _groups_by_text(groups: Mapping[Any, Any]) -> dict[str | None, Any]:
    """The group of each document by the text of its id."""
    group_of: dict[str | None, Any] = {}
    for document, group in groups.items():
        text = text_id(document)
        if text is not None and group_of.setdefault(text, group) != group:
            raise RankingError(
                f"groups have document {text!r:.100} in {group_of[text]!r:.100} and in {group!r:.100}; a number and "
                "its text are one id: give it one group"
            )
    return group_of


def _one_of_each(
    ranking: Sequence[Any], group_of: Mapping[str | None, Any], document_of: dict[Any, Any], fixed_groups: set[Any]
) -> list[Any]:
    """A ranking with one document of each group, that of `document_of` if an earlier ranking had one."""
    groups, documents = set(fixed_groups), list[Any]()
    for document in ranking:
        group = group_of.get(text_id(document))
        if group is None:
            documents.append(document)
        elif group not in groups:
            groups.add(group)
            documents.append(document_of.setdefault(group, document))
    return documents


def remove_documents(rankings: Rankings | Mapping[str, Any], documents: Iterable[Document]) -> dict[str, Any]:
    """Rankings without some documents; ids are compared as texts, as in logs.

    >>> remove_documents({"A": ["a", "ad", "b"], "B": ["b", 7]}, ["ad", "7"])
    {'A': ['a', 'b'], 'B': ['b']}
    """
    removed = set(map(text_id, documents))
    rest = dict[str, Any]()
    for ranker, ranking in _by_name(rankings).items():
        ids = _documents(ranker, ranking)
        rest[ranker] = [one for one, text in zip(ids, text_ids(ranker, ids), strict=True) if text not in removed]
    return rest


def _check_kinds(rankers: Sequence[str], rankings: Sequence[tuple[Document, ...]]) -> None:
    """Check that ids are texts or whole numbers, and that they differ as texts, because logs store texts."""
    kinds = {kind for documents in rankings for kind in set(map(type, documents))}
    if kinds <= {str} or kinds <= {int}:
        return
    texts: dict[str, Document] = {}
    for ranker, documents in zip(rankers, rankings, strict=True):
        for document, text in zip(documents, text_ids(ranker, documents), strict=True):
            if texts.setdefault(text, document) != document:
                raise RankingError(
                    f"rankings hold both {document!r} and {texts[text]!r}, which are one document in a log; "
                    "give all ids as texts, or all as numbers"
                )


def check_k(k: int) -> int:
    """How many documents to show, as a whole number from 1 up."""
    if type(k) is int and k > 0:
        return k
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise RankingError(f"k is {k!r}; show a whole number of documents, at least 1")
    return int(k)


def _by_name(rankings: Rankings) -> Mapping[str, Sequence[Document]]:
    """Rankings by the name of their ranker; a plain sequence of them gets the names A, B, C, ..."""
    if isinstance(rankings, Mapping):
        return rankings
    if isinstance(rankings, (str, bytes)) or not isinstance(rankings, Sequence):
        raise RankingError(
            f"rankings are a mapping from ranker to ranking, or a sequence of rankings, not {rankings!r}"
        )
    return {letter(number): ranking for number, ranking in enumerate(rankings)}


def letter(number: int) -> str:
    """A, B, ..., Z, AA, AB, ..."""
    letters = chr(ord("A") + number % 26)
    return letters if number < 26 else letter(number // 26 - 1) + letters


def check_rankers(rankers: tuple[str, ...], chosen: ResolvedMethod) -> None:
    """Check that the method takes this number of rankers, and that their names differ."""
    minimum, maximum = chosen.rankers[0], chosen.rankers[1] or MAX_RANKERS
    if not minimum <= len(rankers) <= maximum:
        number = f"exactly {minimum}" if minimum == maximum else f"{minimum} to {maximum}"
        raise RankingError(f"{chosen} compares {number} rankers, not {len(rankers)}: {rankers!r}")
    for ranker in rankers:
        if not isinstance(ranker, str) or not ranker:
            raise RankingError(f"a ranker's name is a text that is not empty, not {ranker!r}")
    if len(set(rankers)) < len(rankers):
        raise RankingError(f"two rankers share a name: {rankers!r}; give each its own")


def _documents(ranker: str, ranking: Sequence[Any]) -> tuple[Any, ...]:
    if type(ranking) is list or type(ranking) is tuple:  # the usual case, without the slower checks below
        return tuple(ranking)
    if isinstance(ranking, (str, bytes)):
        raise RankingError(f"ranking {ranker!r} is one string, {ranking!r}; give a sequence of documents")
    if isinstance(ranking, (Set, Mapping)):
        raise RankingError(f"ranking {ranker!r} is a {type(ranking).__name__}, which has no order; give a sequence")
    try:
        return tuple(ranking)
    except TypeError:
        raise RankingError(f"ranking {ranker!r} is {ranking!r}; give a sequence of documents") from None


def refuse_duplicate(ranker: str, documents: Sequence[Document]) -> None:
    """Raise the error that names the first duplicate of a ranking."""
    ranks: dict[Document, int] = {}
    for rank, document in enumerate(documents, 1):
        if ranks.setdefault(document, rank) != rank:
            raise RankingError(
                f"ranking {ranker!r} holds document {document!r} twice, at ranks {ranks[document]} and {rank}; "
                "keep the first"
            )


D = TypeVar("D", bound=Document)


def find_problems(fixed: object, k: int | None = None) -> list[str]:
    """What is wrong with documents at fixed ranks of a list of `k` documents, each problem with its remedy.

    >>> find_problems({1: "ad", 12: "ad"}, k=10)  # doctest: +NORMALIZE_WHITESPACE
    ["fixed holds 'ad' at rank 12, but k is 10; raise k, or leave the document out",
     "fixed holds 'ad' at rank 12 and at rank 1; give each document one rank"]
    """
    if not isinstance(fixed, Mapping):
        return [f"fixed is {fixed!r:.100}; give a mapping from rank to document, such as {{1: 'ad'}}"]
    problems, ranks = list[str](), dict[str, Any]()
    for rank, document in fixed.items():
        place = f"fixed holds {document!r:.100} at rank {rank!r:.100}"
        if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 1:
            problems.append(f"{place}; a rank is a whole number, and 1 is the top")
        elif k is not None and rank > k:
            problems.append(f"{place}, but k is {k}; raise k, or leave the document out")
        text = text_id(document)
        if text is None:
            problems.append(f"{place}; a document id is a text or a whole number")
        elif ranks.setdefault(text, rank) != rank:
            problems.append(f"{place} and at rank {ranks[text]}; give each document one rank")
    if not problems and k is not None and not count_free_ranks(k, fixed):
        problems.append(f"fixed takes all of the {k} ranks of the list; raise k, so that there are ranks to interleave")
    return problems


def check_fixed(
    fixed: Mapping[int, Document], k: int | None = None, error: type[InterleafError] = RankingError
) -> dict[int, Document]:
    """Documents at fixed ranks, by rank; one error lists all problems."""
    problems = find_problems(fixed, k)
    if problems:
        raise error("\n".join(problems))
    return {int(rank): document for rank, document in fixed.items()}


def count_free_ranks(size: int, fixed: Mapping[int, Any]) -> int:
    """How many of the first `size` ranks hold no fixed document."""
    return size - sum(rank <= size for rank in fixed) if fixed else size


def insert_fixed(documents: Sequence[D], fixed: Mapping[int, D]) -> Sequence[D]:
    """The list that people see: fixed documents at their ranks, the others at the free ranks in their order.

    The list has no gaps, so a fixed document whose rank is below the end of the list is left out.

    >>> insert_fixed(["a", "b"], {1: "ad", 3: "ad-2", 6: "ad-3"})
    ['ad', 'a', 'ad-2', 'b']
    """
    if not fixed:
        return documents
    whole = list(documents)
    for rank in sorted(fixed):
        if rank <= len(whole) + 1:
            whole.insert(rank - 1, fixed[rank])
    return whole


def shift_rank(rank: int, fixed: Mapping[int, Any]) -> int | None:
    """A rank of the list that people see as a rank of the list without fixed documents; None for a fixed document.

    >>> [shift_rank(rank, {1: "ad", 3: "ad-2"}) for rank in (1, 2, 3, 4)]
    [None, 1, None, 2]
    """
    return None if rank in fixed else int(rank) - sum(above < rank for above in fixed)
