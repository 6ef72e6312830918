"""Many impressions at once: the kernels' batch loops over chunks of rows, in plain threads.

Kernels release the interpreter lock, so threads run in parallel; numba's own parallel loops do not survive a fork, and
servers fork. Rows are independent, so results depend on neither threads nor chunks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from interleaf.errors import ClickError, ListError, MethodError, RandomnessError, RankingError, raise_errors
from interleaf.interleaving.rankings import CheckedRankings, check_k, check_rankers
from interleaf.kernels.arrays import Array, DrawnLists as DrawnLists, EncodedRankings, Impression, pairs
from interleaf.kernels.jit import kernel
from interleaf.kernels.randomness import Key, key_of
from interleaf.methods.loops import credit_batch as credit_loop, prefer_batch, score_columns
from interleaf.methods.registry import DEFAULT, ResolvedMethod, resolve
from interleaf.methods.schemes import TOLERANCE, Scheme, scheme_of

CHUNK = 4096


def compose(
    chosen: ResolvedMethod,
    encoded: EncodedRankings,
    settings: Any,
    queries: Array,
    keys: Array,
    k: int,
    threads: int = 0,
) -> DrawnLists:
    """A list for each row: from the rankings of query `queries[row]`, with the two words of the key `keys[row]`."""
    rows = len(queries)
    lists = DrawnLists(np.full((rows, k), -1, np.int32), np.full((rows, k), -1, np.int8), np.zeros(rows, np.int64))
    kernel = chosen.method.kernels.compose_batch

    def run(part: slice) -> None:
        some = DrawnLists(*(array[part] for array in lists))
        kernel(encoded, queries[part], keys[part], k, some, _own(settings))

    _in_threads(run, rows, threads)
    return lists


def draw(
    chosen: ResolvedMethod, problems: Sequence[CheckedRankings], k: int, keys: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """The last fields of a `DrawnList` for each of these rankings, which are short and of the same number of rankers.

    It is not for methods that prepare.
    """
    method, names, numbered = chosen.method, list[list[Any]](), list[list[int]]()
    for problem in problems:
        numbers: dict[Any, int] = {}
        numbered += [[numbers.setdefault(one, len(numbers)) for one in ranking] for ranking in problem.rankings]
        names.append(list(numbers))
    lengths, unions, queries = list(map(len, numbered)), list(map(len, names)), np.arange(len(problems))
    longest, rankers, size = max(lengths), len(problems[0].rankers), min(k, max(unions))
    rows = [row if len(row) == longest else row + [-1] * (longest - len(row)) for row in numbered]
    rankings = np.array(rows, np.int32).reshape(-1, rankers, longest)
    depths = lengths if method.whole_rankings else [min(length, k) for length in lengths]
    encoded = EncodedRankings(rankings, np.array(depths, np.int32).reshape(-1, rankers), np.array(unions))
    settings = method.kernels.settings((longest,), chosen.parameters, False)
    lists = compose(chosen, encoded, settings, queries, _words(keys), size, 1)
    ranks = _ranks_of(rankings, queries, lists.shown).astype(np.int32)
    unshown = np.zeros((len(problems), rankers, min(rankers * size, max(unions))), np.int32)
    _write_unshown(rankings, queries, lists.shown, lists.counts, unshown)
    columns = zip(*(array.tolist() for array in lists), unshown.any(axis=1).sum(axis=1).tolist(), strict=True)
    for row, (shown, teams, count, width) in enumerate(columns):
        documents = tuple([names[row][number] for number in shown[:count]])
        owners = tuple(teams[:count]) if method.has_teams else None
        yield documents, owners, None, None, unions[row], ranks[row, :, :count], unshown[row, :, :width]


def credit(
    chosen: ResolvedMethod,
    scheme: Scheme,
    impressions: Impression,
    counts: Array,
    clicks: Array,
    threads: int = 0,
    then: Callable[[slice, Array, Array], None] | None = None,
) -> tuple[Array, Array]:
    """Each ranker's credit, `[row, ranker]`, and how many clicks were credited, -1 if the credit is not known.

    The cost grows with the rankers. `then` is called with each part of the rows and its credit, in the same thread.
    """
    rows, rankers, _ = impressions.ranks.shape
    credits, credited = np.zeros((rows, rankers)), np.zeros(rows, np.int64)
    kernel, settings = credit_loop(chosen.method.kernels.credit_of(scheme.variant)), _settings(chosen, impressions)

    def run(part: slice) -> None:
        some = Impression(*(array[part] for array in impressions))
        kernel(some, counts[part], clicks[part], scheme.variant, credits[part], credited[part], _own(settings))
        if then is not None:
            then(part, credits[part], credited[part])

    _in_threads(run, rows, threads)
    return credits, credited


def credit_known(
    chosen: ResolvedMethod, scheme: Scheme, impressions: Impression, counts: Array, clicks: Array, threads: int = 0
) -> tuple[Array, Array]:
    """The same; an error if the credit of some row is not known."""
    credits, credited = credit(chosen, scheme, impressions, counts, clicks, threads)
    _check_known(chosen, scheme, credited)
    return credits, credited


def preferences(
    chosen: ResolvedMethod, scheme: Scheme, impressions: Impression, counts: Array, clicks: Array, threads: int = 0
) -> Array:
    """The preference of each pair of rankers, `[row, ranker, ranker]`; the cost grows with their square."""
    kernel, settings = chosen.method.kernels.expected_sign_batch, _settings(chosen, impressions)
    if not scheme.form.takes_expected_sign or kernel is None:
        return _credit_and_prefer(chosen, scheme, impressions, counts, clicks, threads)[1]
    rows, rankers, _ = impressions.ranks.shape
    matrices = np.zeros((rows, rankers, rankers))

    def run(part: slice) -> None:
        some = Impression(*(array[part] for array in impressions))
        kernel(some, counts[part], clicks[part], matrices[part], _own(settings))

    _in_threads(run, rows, threads)
    return matrices


def _credit_and_prefer(
    chosen: ResolvedMethod, scheme: Scheme, impressions: Impression, counts: Array, clicks: Array, threads: int
) -> tuple[Array, Array]:
    """Credit, divided if the scheme does so, and the preferences that follow from it."""
    rows, rankers, _ = impressions.ranks.shape
    matrices, kernel = np.zeros((rows, rankers, rankers)), prefer_batch(scheme.form)

    def prefer(part: slice, credits: Array, credited: Array) -> None:
        kernel(credits, credited, TOLERANCE, matrices[part])

    credits, credited = credit(chosen, scheme, impressions, counts, clicks, threads, prefer)
    _check_known(chosen, scheme, credited)
    return credits, matrices


def _check_known(chosen: ResolvedMethod, scheme: Scheme, credited: Array) -> None:
    if (unknown := np.flatnonzero(credited < 0)).size:
        problem = f"{chosen} cannot credit row {unknown[0]} by {scheme.name!r} ({unknown.size:,} such rows)"
        raise ListError(f"{problem}: no draft gives this list, or it has too many drafts; use another scheme")


def scores_by_scheme(
    chosen: ResolvedMethod, schemes: Sequence[str], impressions: Impression, counts: Array, clicks: Array
) -> Iterator[tuple[str, Array]]:
    """Each scheme, and the preference of each pair of rankers, `[row, pair]`; variants of credit are computed once."""
    first, second = pairs(impressions.ranks.shape[1])
    credits: dict[int, tuple[Array, Array]] = {}
    for name in schemes:
        scheme = scheme_of(name)
        if scheme.form.takes_expected_sign and chosen.method.kernels.expected_sign_batch is not None:
            yield name, preferences(chosen, scheme, impressions, counts, clicks, 1)[:, first, second]
            continue
        if scheme.variant not in credits:
            credits[scheme.variant] = credit(chosen, scheme, impressions, counts, clicks, 1)
        columns = score_columns(scheme.form, *credits[scheme.variant])
        yield name, columns[:, first] - columns[:, second] if scheme.form.linear else columns


def _settings(chosen: ResolvedMethod, impressions: Impression) -> Any:
    return chosen.method.kernels.settings((int(impressions.lengths.max()),), chosen.parameters, False)


def _own(settings: Any) -> Any:
    """Settings with copies of the arrays: kernels write to some of them, so threads must not share them."""
    return type(settings)(*(value.copy() if isinstance(value, np.ndarray) else value for value in settings))


def _in_threads(run: Callable[[slice], None], rows: int, threads: int) -> None:
    parts = [slice(start, start + CHUNK) for start in range(0, rows, CHUNK)]
    if threads == 1 or len(parts) == 1:
        for part in parts:
            run(part)
        return
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        list(pool.map(run, parts))


@dataclass(frozen=True, eq=False)
class InterleavedBatch:
    """Many shown lists as arrays. Below the end of a list, `documents` and `teams` are -1, and `ranks` are 0.

    `documents[row, position]` are the shown documents and `counts[row]` their number. `teams[row, position]` is the
    ranker that owns a document, -1 for nobody; None if the method has no teams. `ranks[row, ranker, position]` is the
    rank of a shown document in each ranking, 1 at the top and 0 if it is not there. `lengths[row, ranker]`,
    `union[row]` and `choices[row, position]` describe the rankings: their lengths, the number of different documents,
    and how many of these some ranker has at that rank or above. `keys[row]` names the key of each list. Each
    list was composed from `rankings[queries[row]]`.
    """

    method: str
    documents: Array
    counts: Array
    teams: Array | None
    ranks: Array
    lengths: Array
    union: Array
    choices: Array
    keys: tuple[str, ...]
    rankings: Array
    queries: Array


@dataclass(frozen=True, eq=False)
class BatchOutcome:
    """The result of clicks on many lists, as in `Outcome`: `credit[row, ranker]`, `preference[row, ranker, ranker]`."""

    credit: Array
    preference: Array
    scheme: str

    @property
    def score(self) -> Array | None:
        """The preference of the first over the second of two rankers, by row; None for more rankers."""
        return self.preference[:, 0, 1] if self.credit.shape[1] == 2 else None


def interleave_batch(
    rankings: ArrayLike,
    method: str = DEFAULT,
    k: int = 10,
    keys: Sequence[Key] | None = None,
    *,
    queries: ArrayLike | None = None,
    threads: int = 0,
) -> InterleavedBatch:
    """Compose many lists at once; each is the list that `interleave` composes from the same rankings and key.

    `rankings[query, ranker, rank]` are documents as whole numbers from 0; -1 fills up rankings that are shorter than
    others. Row i of the result is a list for query `queries[i]` (default: one list for each query) with `keys[i]`, a
    key as `interleave` takes it (default: random keys). `threads` is 0 for one per core.

    >>> shown = interleave_batch([[[4, 1, -1], [1, 9, 7]]], k=3, keys=["user-7", "user-8"], queries=[0, 0])
    >>> shown.documents.tolist(), shown.teams.tolist()
    ([[1, 4, 9], [4, 1, 9]], [[1, 0, -1], [0, 1, -1]])
    """
    chosen, size = resolve(method), check_k(k)
    kernels = chosen.method.kernels
    if kernels.prepare is not None and kernels.prepare_batch is None:
        raise MethodError(f"{chosen} does not mix rankings; use the ranking itself")
    whole = _check_rankings(rankings, chosen)
    rows = _check_queries(queries, len(whole))
    names = tuple(map(key_of, [None] * len(rows) if keys is None else keys))
    if len(names) != len(rows):
        raise RandomnessError(f"there are {len(names)} keys for {len(rows)} lists; give one key for each list")
    words = _words(names)
    encoded, numbers = _encode(whole if chosen.method.whole_rankings else whole[:, :, :size])
    lengths, union, choices = (whole >= 0).sum(axis=2).astype(np.int32), *_count_documents(whole, size)
    if kernels.prepare_batch is not None:
        ranks = _ranks_of(whole, np.arange(len(whole)), numbers).astype(np.int32)
        places = np.where(ranks > 0, ranks, lengths[:, :, None] + 1)  # a document that is not ranked is after the last
        settings = kernels.prepare_batch(encoded, places, np.unique(rows), size, chosen.parameters)
    else:
        settings = kernels.settings((int(lengths.max()),), chosen.parameters, False)
    lists = compose(chosen, encoded, settings, rows, words, size, threads)
    documents = np.where(lists.shown >= 0, np.take_along_axis(numbers[rows], np.maximum(lists.shown, 0), axis=1), -1)
    teams = lists.teams if chosen.method.has_teams else None
    of_shown = _ranks_of(whole, rows, documents)
    return InterleavedBatch(
        *(str(chosen), documents, lists.counts, teams, of_shown, lengths[rows], union[rows], choices[rows], names),
        *(whole, rows),
    )


def credit_batch(
    shown: InterleavedBatch, clicks: ArrayLike, scheme: str | None = None, *, threads: int = 0
) -> BatchOutcome:
    """Credit the clicks on many lists at once, each as `credit` does.

    `clicks[row, position]` says whether a document was clicked, and has the shape of `shown.documents`.

    >>> shown = interleave_batch([[[4, 1, -1], [1, 9, 7]]], k=3, keys=["user-7", "user-8"], queries=[0, 0])
    >>> outcome = credit_batch(shown, [[True, False, False], [False, False, False]])
    >>> outcome.credit.tolist(), outcome.score.tolist()
    ([[0.0, 1.0], [0.0, 0.0]], [-1.0, 0.0])
    """
    clicked = np.asarray(clicks)
    if clicked.shape != shown.documents.shape or clicked.dtype != np.bool_:
        raise ClickError(
            f"clicks are {clicked.dtype} of shape {clicked.shape}; give booleans of shape {shown.documents.shape}"
        )
    if outside := np.argwhere(clicked & (shown.documents < 0)).tolist():
        row, position = outside[0]
        raise ClickError(f"row {row} has a click at rank {position + 1}, but only {shown.counts[row]} documents")
    chosen = resolve(shown.method)
    named = chosen.scheme(scheme, shown.ranks.shape[1])
    impressions = impressions_of(shown, [named])
    arguments = chosen, named, impressions, shown.counts, clicked, threads
    credits, preference = _credit_and_prefer(*arguments)
    if named.form.takes_expected_sign and chosen.method.kernels.expected_sign_batch is not None:
        preference = preferences(*arguments)
    return BatchOutcome(credits, preference, named.name)


def impressions_of(shown: InterleavedBatch, schemes: Iterable[Scheme]) -> Impression:
    """The lists as credit by these schemes needs them."""
    method = resolve(shown.method).method
    teams = np.full(shown.documents.shape, -1, np.int8) if shown.teams is None else shown.teams
    unshown = None
    if any("unshown_ranks" in method.needs_of(scheme) for scheme in schemes):
        unshown = unshown_ranks(shown.rankings, shown.queries, shown.documents, shown.counts, shown.choices)
    fields = shown.ranks, teams, shown.lengths, shown.union, shown.choices
    return Impression.of(*fields, unshown, _words(shown.keys))


def _words(keys: Sequence[str]) -> Array:
    """`[row, 2]`: the words of the keys with these names."""
    digits = "".join(keys).replace("k1:", "")
    return np.frombuffer(bytes.fromhex(digits), "<u8").reshape(-1, 2).astype(np.uint64)


def unshown_ranks(rankings: Array, queries: Array, documents: Array, counts: Array, choices: Array) -> Array:
    """`[row, ranker, document]`: ranks of documents that are not shown, down to the rank of the list's last one.

    `rankings[query, ranker, rank]` are documents, -1 for none, and `choices[row, position]` counts those of a rank.
    """
    last = np.maximum(counts - 1, 0)
    width = int(np.max(choices[np.arange(len(counts)), last], initial=0))  # shown documents may be in no top
    ranks = np.zeros((len(counts), rankings.shape[1], width), np.int32)
    _write_unshown(rankings, queries, documents, counts, ranks)
    return ranks


@kernel
def _write_unshown(rankings: Array, queries: Array, documents: Array, counts: Array, ranks: Array) -> None:
    hidden = np.zeros(ranks.shape[2], np.int64)
    for row in range(len(counts)):
        size = 0
        for ranker in range(rankings.shape[1]):
            for place in range(min(counts[row], rankings.shape[2])):
                document = rankings[queries[row], ranker, place]
                is_new = document >= 0
                for position in range(counts[row]):
                    is_new &= documents[row, position] != document
                if is_new:
                    number = 0
                    while number < size and hidden[number] != document:
                        number += 1
                    hidden[number] = document
                    size = max(size, number + 1)
                    ranks[row, ranker, number] = place + 1


def _check_rankings(rankings: ArrayLike, chosen: ResolvedMethod) -> Array:
    """Rankings as an array of 32-bit integers; one error lists all problems."""
    array = np.asarray(rankings)
    if array.ndim != 3 or not np.issubdtype(array.dtype, np.integer) or not array.size:
        raise RankingError(
            f"rankings are {array.dtype} of shape {array.shape}; give whole numbers of shape [query, ranker, rank]"
        )
    check_rankers(tuple(map(str, range(array.shape[1]))), chosen)
    problems = []
    if array.min() < -1 or array.max() > np.iinfo(np.int32).max or array.shape[2] > np.iinfo(np.int16).max:
        problems.append("documents are numbers from 0 to 2,147,483,647, and a ranking has at most 32,767 of them")
    there = array >= 0
    gaps = (there[:, :, 1:] & ~there[:, :, :-1]).any(axis=2)
    ordered = np.sort(array, axis=2)
    repeats = ((ordered[:, :, 1:] == ordered[:, :, :-1]) & (ordered[:, :, 1:] >= 0)).any(axis=2)
    faults = {"has -1 above a document; only the end may be filled up": gaps, "repeats a document": repeats}
    for problem, marks in faults.items():
        if marks.any():
            query, ranker = np.argwhere(marks)[0].tolist()
            problems.append(f"the ranking of ranker {ranker} for query {query} {problem} ({marks.sum()} such rankings)")
    if (empty := np.flatnonzero(~there.any(axis=(1, 2)))).size:
        problems.append(f"query {empty[0]} has no document ({empty.size} such queries)")
    raise_errors(map(RankingError, problems))
    return array.astype(np.int32)


def _check_queries(queries: ArrayLike | None, count: int) -> Array:
    rows = np.arange(count) if queries is None else np.asarray(queries)
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer) or not len(rows):
        raise RankingError(f"queries are {rows.dtype} of shape {rows.shape}; give a row of whole numbers")
    if rows.min() < 0 or rows.max() >= count:
        raise RankingError(f"queries are from {rows.min()} to {rows.max()}; there are rankings for 0 to {count - 1}")
    return rows.astype(np.int64)


def _encode(rankings: Array) -> tuple[EncodedRankings, Array]:
    """Rankings with documents numbered by query in the order of first appearance; and `[query, number]`: documents."""
    encoded, numbers, counts = _number(rankings)
    depths = (rankings >= 0).sum(axis=2).astype(np.int32)
    return EncodedRankings(encoded, depths, counts), np.ascontiguousarray(numbers[:, : counts.max()])


@kernel
def _number(rankings: Array) -> tuple[Array, Array, Array]:
    """Documents numbered by query; `[query, number]`: documents, with -1 at the end; and how many each query has."""
    queries, rankers, depth = rankings.shape
    encoded, numbers = np.full(rankings.shape, -1, np.int32), np.full((queries, rankers * depth), -1, np.int32)
    counts = np.zeros(queries, np.int64)
    for query in range(queries):
        for ranker in range(rankers):
            for place in range(depth):
                document = rankings[query, ranker, place]
                number = 0
                while number < counts[query] and numbers[query, number] != document:
                    number += 1
                if document >= 0:
                    if number == counts[query]:
                        numbers[query, number] = document
                        counts[query] += 1
                    encoded[query, ranker, place] = number
    return encoded, numbers, counts


def _count_documents(rankings: Array, k: int) -> tuple[Array, Array]:
    """The number of different documents by query, and `[query, rank]`: how many some ranker has in its top ranks."""
    columns = np.ascontiguousarray(rankings.transpose(0, 2, 1))  # documents in the order of ranks
    encoded, _, union = _number(columns)
    counts = np.maximum.accumulate(encoded.max(axis=2) + 1, axis=1).astype(np.int16)
    return union, np.pad(counts[:, :k], ((0, 0), (0, max(0, k - columns.shape[1]))), mode="edge")


@kernel
def _ranks_of(rankings: Array, rows: Array, documents: Array) -> Array:
    """`[row, ranker, position]`: the rank of each shown document, 0 if it is not ranked."""
    ranks = np.zeros((len(rows), rankings.shape[1], documents.shape[1]), np.int16)
    for row in range(len(rows)):
        for ranker in range(rankings.shape[1]):
            for place in range(rankings.shape[2]):
                document = rankings[rows[row], ranker, place]
                for position in range(documents.shape[1]):
                    if document >= 0 and documents[row, position] == document:
                        ranks[row, ranker, position] = place + 1
    return ranks
