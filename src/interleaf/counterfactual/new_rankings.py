"""New rankings of the log's queries, and the ranks of old lists in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from os import PathLike
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.counterfactual.click_model import CellCounts, ClickCells
from interleaf.counterfactual.list_outcomes import MAX_LOG_WEIGHT, Scorer, log_chances
from interleaf.counterfactual.old_log import NEVER_SHOWN, NOT_RANKED, OldImpressions, OldLogReader, OldRows, OldTask
from interleaf.decode.columns import text_column
from interleaf.errors import DataError, RankingError
from interleaf.execution.passes import MergeableSums, Passes, S
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array, EncodedRankings, Impression
from interleaf.log.trec_runs import read_run
from interleaf.tally.units import Sample

ByQuery = Mapping[str, Sequence[str]]
RankingSource = str | PathLike[str] | ByQuery | Callable[[str], Sequence[str] | None]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class NewRankings(NamedTuple):
    """New rankings of numbered queries; a document is an entry, one for each query that it is ranked for.

    `queries[name]` is a query's number, `starts[query]` its first entry, and `ranks[entry, ranker]` an entry's rank (0:
    not ranked). `keys` are sorted hashes of query and document, and `entry_of[i]` is the entry of `keys[i]`.
    `encoded` holds the rankings to compose from, as numbers of documents within the query.
    """

    rankers: tuple[str, ...]
    queries: dict[str, int]
    starts: Array
    ranks: Array
    keys: Array
    entry_of: Array
    encoded: EncodedRankings
    lengths: Array
    choices: Array

    @property
    def union(self) -> Array:
        """How many documents the rankings of each query hold together."""
        return np.diff(self.starts)

    def find(self, queries: Array, documents: Array) -> Array:
        """The entry of each document, given by its hash, for its query; -1 if no new ranker ranks it."""
        if not len(self.keys):
            return np.full(documents.shape, -1, np.int64)
        keys = _keys(queries[:, None], documents)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.entry_of[places], -1)


def by_query(source: RankingSource, names: Iterable[str], ranker: str) -> dict[str, Sequence[str]]:
    """The ranking of each named query that the source ranks: the file of a run, a mapping, or a function."""
    if isinstance(source, (str, PathLike)):
        source = read_run(source)
    if isinstance(source, Mapping):
        rankings: dict[str, Sequence[str]] = {name: source[name] for name in names if name in source}
    elif callable(source):
        rankings = {name: ranking for name in names if (ranking := source(name)) is not None}
    else:
        raise DataError(
            f"rankings of {ranker!r} are {source!r}; give the path of a TREC run, a mapping from queries to documents, "
            "or a function of a query"
        )
    for name, ranking in rankings.items():
        if isinstance(ranking, str) or not all(isinstance(document, str) for document in ranking):
            raise DataError(f"{ranker!r} ranks {ranking!r} for query {name!r}; give a list of documents' ids, as texts")
        if len(set(ranking)) < len(ranking):
            twice = next(document for place, document in enumerate(ranking) if document in ranking[:place])
            raise RankingError(f"{ranker!r} ranks document {twice!r} twice for query {name!r}; keep the first")
    return rankings


def encode_rankings(rankings: Mapping[str, ByQuery], k: int) -> NewRankings:
    """The queries that all new rankers rank, with their documents numbered in the order of appearance."""
    rankers = tuple(rankings)
    first, *others = rankings.values()
    names = [name for name in first if all(name in other for other in others)]
    names = [name for name in names if any(of_ranker[name] for of_ranker in rankings.values())]
    queries = {name: number for number, name in enumerate(names)}
    lists = [[list(of_ranker[name]) for of_ranker in rankings.values()] for name in names]
    numbers = [{document: number for number, document in enumerate(dict.fromkeys(chain(*rows)))} for rows in lists]
    starts = np.cumsum([0, *map(len, numbers)])
    longest = max((len(row) for rows in lists for row in rows), default=1) or 1
    tops = np.full((len(names), len(rankers), longest), -1, np.int32)
    lengths = np.zeros((len(names), len(rankers)), np.int32)
    ranks = np.zeros((int(starts[-1]), len(rankers)), np.int32)
    choices = np.zeros((len(names), k), np.int32)
    for query, (rows, number_of) in enumerate(zip(lists, numbers, strict=True)):
        for ranker, row in enumerate(rows):
            places = [number_of[document] for document in row]
            tops[query, ranker, : len(row)] = places
            lengths[query, ranker] = len(row)
            ranks[starts[query] + np.array(places, np.int64), ranker] = np.arange(1, len(row) + 1)
        of_query = ranks[starts[query] : starts[query + 1]]
        first_ranks = np.where(of_query > 0, of_query, k + 1).min(axis=1, initial=k + 1)
        choices[query] = np.cumsum(np.bincount(first_ranks, minlength=k + 2)[1 : k + 1])
    texts = text_column(pa.array(list(chain(*numbers)), pa.string()))
    hashes = buckets.hashes(buckets.DOCUMENT, texts.offsets, texts.data)
    keys = _keys(np.repeat(np.arange(len(names)), np.diff(starts)), hashes)
    order = np.argsort(keys)
    encoded = EncodedRankings(tops, lengths, np.diff(starts))
    return NewRankings(rankers, queries, starts, ranks, keys[order], order, encoded, lengths, choices)


def _keys(queries: Array, documents: Array) -> Array:
    """A hash of query and document."""
    return np.asarray(documents ^ ((queries.astype(np.uint64) + np.uint64(1)) * _GOLDEN))


def impressions_of(ranked: NewRankings, queries: Array, entries: Array, teams: Array) -> Impression:
    """Impressions of lists with their ranks in the new rankings."""
    width = entries.shape[1]
    ranks = np.ascontiguousarray(ranked.ranks[entries].swapaxes(1, 2))
    return Impression.of(ranks, teams, ranked.lengths[queries], ranked.union[queries], ranked.choices[queries, :width])


class WeighedLists(NamedTuple):
    """Old impressions of one method that the new rankers have rankings for.

    `rows.query` numbers the queries of the new rankings, and `entries` are the shown documents there. `pages` is the
    length of the new rankers' list, and `possible` whether they could show the old list. The others are log weights.
    """

    method: str
    rows: OldRows
    entries: Array
    pages: Array
    possible: Array
    log_weight: Array
    log_joint: Array

    @property
    def usable(self) -> Array:
        return np.asarray(self.log_weight > -np.inf)


AddLists = Callable[[S, WeighedLists], None]


@dataclass(frozen=True, eq=False)
class RankersView:
    """Looks up old lists in the new rankings; `longest` is the length of the longest old list."""

    new: NewRankings
    scorer: Scorer
    longest: int

    def of(self, old: OldImpressions, dropped: Counter[str]) -> WeighedLists:
        """The usable old impressions; the others are counted as dropped."""
        names = np.array([self.new.queries.get(name, -1) for name in old.queries], np.int64)
        rows = old.rows._replace(query=names[old.rows.query])
        dropped[NOT_RANKED] += int((rows.query < 0).sum())
        rows = rows.only(rows.query >= 0)
        for name in ("documents", "clicks", "teams"):
            values = getattr(rows, name)[:, : self.longest]
            rows = rows._replace(**{name: np.pad(values, ((0, 0), (0, self.longest - values.shape[1])))})
        inside = np.arange(self.longest) < rows.counts[:, None]
        entries = np.where(inside, self.new.find(rows.query, rows.documents), -1)
        cut = (rows.union > 0) & (rows.counts < rows.union)
        # A list that ran out of documents may be shorter than its page: take the length of the longest list.
        pages = np.where(cut, rows.counts, self.longest)
        lengths = np.minimum(pages, self.new.union[rows.query])
        possible = ((entries >= 0) | ~inside).all(axis=1) & (rows.counts == lengths)
        log_weight, log_joint = np.full((2, len(rows.query)), -np.inf)
        some = impressions_of(self.new, rows.query[possible], np.maximum(entries[possible], 0), rows.teams[possible])
        of_list, of_joint = log_chances(self.scorer.chosen, some, rows.counts[possible])
        log_weight[possible] = of_list - rows.log_chance[possible]
        log_joint[possible] = of_joint - rows.log_joint[possible]
        right = ~(log_weight > MAX_LOG_WEIGHT)
        dropped[NEVER_SHOWN] += int((~right).sum())
        columns = entries, pages, possible, log_weight, log_joint
        return WeighedLists(old.method, rows.only(right), *(values[right] for values in columns))

    def add_batch(self, add: AddLists[S], sums: S, batch: pa.RecordBatch, task: OldTask, repeated: Array) -> None:
        """Add the usable impressions of a batch to the sums."""
        for old in OldLogReader(batch, task, repeated, sums.dropped):
            add(sums, self.of(old, sums.dropped))


class ListsInMemory:
    """Old lists that are held in memory; `dropped` counts unusable impressions by reason."""

    def __init__(self, lists: Iterable[OldImpressions], view: RankersView, dropped: Counter[str]) -> None:
        self._dropped = Counter(dropped)
        self._lists = [view.of(old, self._dropped) for old in lists]

    def accumulate(self, empty: S, add: AddLists[S]) -> S:
        for lists in self._lists:
            add(empty, lists)
        empty.dropped += self._dropped
        return empty


class ListsReadAgain:
    """Old lists that executors read again for every sum."""

    def __init__(self, passes: Passes[OldTask], view: RankersView) -> None:
        self._passes, self._view = passes, view

    def accumulate(self, empty: S, add: AddLists[S]) -> S:
        return self._passes.add_up(empty, partial(self._view.add_batch, add))


GROUPS = 20  # groups of units for the jackknife
ROOM = 2**20  # up to this number, units are counted exactly; beyond, the number is estimated


class LogCounts(MergeableSums):
    """Counts of impressions: `clicked` ones have an event, usable ones a list that new rankers could show.

    `unowned` impressions are usable, but their owners are not logged, or the number of rankers differs. `units` are
    all units, `clicking_units` those with a clicked impression, and `pilot_units` those with a clicked and usable one.
    """

    merged = (
        *("methods", "impressions", "clicked", "unowned", "pilot", "dropped"),
        *("_looked", "_by_group", "_queries", "units", "clicking_units", "pilot_units"),
    )

    def __init__(self, queries: int, positions: int, rankers: int) -> None:
        self._rankers, self._looked = rankers, CellCounts(positions, GROUPS)
        self.methods: Counter[str] = Counter()
        self.impressions = self.clicked = self.unowned = 0
        self._by_group = np.zeros(GROUPS, np.int64)
        self.pilot = np.zeros(buckets.BUCKETS, np.int64)  # usable and clicked impressions, by bucket
        self._queries = np.zeros(queries, np.bool_)
        self.units, self.clicking_units, self.pilot_units = Sample(ROOM), Sample(ROOM), Sample(ROOM)
        self.dropped: Counter[str] = Counter()

    def add(self, old: WeighedLists) -> None:
        rows, bucket = old.rows, buckets.buckets(old.rows.unit)
        clicked = rows.clicks.any(axis=1)
        pilot = clicked & old.usable
        owned = (rows.rankers == self._rankers) & ~np.isnan(old.log_joint)
        self._looked.add(old.entries, rows.clicks, bucket % GROUPS)
        self.methods[old.method] += len(bucket)
        self.impressions += len(bucket)
        self.clicked += int(clicked.sum())
        self.unowned += int((old.possible & ~owned).sum())
        self._by_group += np.bincount(bucket % GROUPS, minlength=GROUPS)
        self.pilot += np.bincount(bucket[pilot], minlength=buckets.BUCKETS)
        self._queries[rows.query] = True
        self.units.add(rows.unit)
        self.clicking_units.add(rows.unit[clicked])
        self.pilot_units.add(rows.unit[pilot])

    @property
    def queries(self) -> int:
        return int(self._queries.sum())

    @property
    def group_of(self) -> Array:
        """The number of each group of units among the groups with impressions; -1 for the others."""
        there = self._by_group > 0
        return np.where(there, np.cumsum(there) - 1, -1)

    @property
    def counts(self) -> Array:
        """The impressions of each of these groups."""
        return self._by_group[self._by_group > 0]

    @property
    def cells(self) -> ClickCells:
        cells = self._looked.cells
        return cells._replace(group=self.group_of[cells.group])
