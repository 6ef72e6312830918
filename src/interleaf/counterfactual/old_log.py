"""The old log: its queries and methods, the rankings of its rankers, and its impressions with their events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.counterfactual.list_outcomes import log_chances
from interleaf.decode import Decoded, Decoding, Design, identities
from interleaf.decode.columns import codes, column, excluded_rows, is_there, list_column, numbers, text_column
from interleaf.errors import DataError, MethodError
from interleaf.execution.task import Task
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array, Impression
from interleaf.log.drop_reasons import text_of
from interleaf.log.schema import INTERLEAVED
from interleaf.methods.registry import ResolvedMethod, resolve

BROKEN = "a logged ranking of {!r} that is missing, or has a null or a document twice"
NO_QUERY, NO_CHANCE = "no query", "no list probability: it is not logged, and {} cannot compute it"
NEVER_SHOWN = "a list that its own method would never show"
NOT_RANKED = "no new rankings for its query"
NO_LOGARITHM = "a log_probability that is not the logarithm of a probability"
UNKNOWN = "unknown method: {}"
ROUNDING = 1e-9  # rounding error by which a log_probability may be above 0


class LoggedRankings:
    """The first logged ranking, `rankings[ranker][query]`, and the queries whose ranking changed later."""

    def __init__(self, rankers: Collection[str]) -> None:
        self.rankings: dict[str, dict[str, list[str]]] = {name: {} for name in rankers}
        self.changed: dict[str, set[str]] = {name: set() for name in rankers}
        self._first: dict[tuple[str, str], tuple[str, int]] = {}

    def add(self, array: pa.Array | None, design: Design, rows: Array, queries: Sequence[str]) -> dict[str, Array]:
        """Store the rankings of these rows, each of a query; returns, by reason, which rows have invalid ones."""
        broken: dict[str, Array] = {}
        for place, name in enumerate(design.rankers if array is not None else ()):
            if name not in self.rankings:
                continue
            logged = list_column(array)
            is_short = np.diff(logged.offsets)[rows] <= place
            places = pa.array(logged.offsets[rows].astype(np.int64) + place, mask=is_short)
            rankings = logged.values.take(places).cast(pa.list_(pa.string()))
            has_rankings = logged.there[rows]
            alike: dict[tuple[str, str | None], list[int]] = {}
            for number, joined in enumerate(pc.binary_join(rankings, "\0").to_pylist()):
                if has_rankings[number]:
                    alike.setdefault((queries[number], joined), []).append(number)
            broken[BROKEN.format(name)] = np.zeros(len(rows), np.bool_)
            for (query, joined), same in alike.items():
                ranking = rankings[same[0]].as_py()
                if joined is None or len(set(ranking)) < len(ranking):
                    broken[BROKEN.format(name)][same] = True
                else:
                    self._keep(name, query, ranking, (design.experiment, design.version))
        return broken

    def merge(self, other: LoggedRankings) -> None:
        for name, by_query in other.rankings.items():
            for query, ranking in by_query.items():
                self._keep(name, query, ranking, other._first[name, query], query in other.changed[name])

    def _keep(self, name: str, query: str, ranking: list[str], here: tuple[str, int], changed: bool = False) -> None:
        first = self.rankings[name].setdefault(query, ranking)
        there = self._first.setdefault((name, query), here)
        if first == ranking and not changed:
            return
        if there != here:
            first_design, design = (f"version {version} of {experiment!r}" for experiment, version in (there, here))
            problem = f"ranker {name!r} ranks query {query!r} differently in {first_design} and in {design}"
            raise DataError(f"{problem}; name the version (--version) or the experiment, or give its rankings")
        self.changed[name].add(query)


class OldRows(NamedTuple):
    """Impressions by row: documents as hashes, and the logs of P(L) and P(L, a); `union` is 0 if unknown.

    `identity` is the hash of the impression.
    """

    identity: Array
    query: Array
    documents: Array
    counts: Array
    clicks: Array
    teams: Array
    unit: Array
    union: Array
    rankers: Array
    log_chance: Array
    log_joint: Array

    def only(self, keep: Array) -> OldRows:
        return OldRows(*(values[keep] for values in self))


class OldImpressions(NamedTuple):
    """Impressions of an old log that one method composed, and the names behind the numbers of their queries."""

    rows: OldRows
    queries: Sequence[str]
    method: str


def nothing_left_error(dropped: Counter[str]) -> DataError:
    """The error for a log without a usable impression."""
    why = "; ".join(f"{text_of(reason)}: {count:,}" for reason, count in dropped.most_common() if count)
    return DataError(
        f"the log has no interleaved impression that can be used{why and f' ({why})'}; give a log whose lists were "
        "drawn at random, with their probabilities"
    )


@dataclass(frozen=True)
class OldTask(Task):
    """The options for reading a log, and the rankers whose rankings are stored."""

    rankers: tuple[str, ...] = ()

    def wants(self, design: Design) -> bool:
        """Whether to read rows of this design: only randomised lists can be reused for new rankers."""
        return super().wants(design) and design.arm == INTERLEAVED

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*super().columns, "query", "documents", "rankings", "log_probability"]))

    @property
    def spare_columns(self) -> dict[str, tuple[str, ...]]:
        return {}  # every column is read


class OldLogReader:
    """Iterates over the impressions of a batch, one method at a time.

    `borrowed` holds the rankings of the old rankers that the task names; `dropped` counts rows that cannot be used.
    """

    def __init__(self, batch: pa.RecordBatch, task: OldTask, repeated: Array, dropped: Counter[str]) -> None:
        self._batch, self.dropped = batch, dropped
        self._decoding = Decoding(batch, task.scoring.counting, task.wants, repeated)
        for rule, rows in excluded_rows(batch, self._decoding.unit, task.exclusion, task.crawlers).items():
            self._decoding.leave_out(rule, rows)
        array = column(batch, "query")
        self._queries, self._names = codes(pa.nulls(batch.num_rows, pa.string()) if array is None else array)
        self._decoding.leave_out(NO_QUERY, self._queries < 0)
        self.borrowed = LoggedRankings(task.rankers)

    def __iter__(self) -> Iterator[OldImpressions]:
        shown, chances = list_column(self._batch.column("documents")), column(self._batch, "log_probability")
        names = text_column(shown.values)
        hashes = buckets.hashes(buckets.DOCUMENT, names.offsets, names.data)
        logged = np.full(self._batch.num_rows, np.nan)  # nan if there is no probability, inf if it is not a number
        if chances is not None:
            values = numbers(chances, np.nan, pa.float64())
            logged = np.where(is_there(chances) & np.isnan(values), np.inf, values)
        identity = np.zeros(self._batch.num_rows, np.uint64)
        places, identity[places] = identities(self._batch)
        for part in self._decoding:
            self.dropped.update(part.dropped)
            decoded = self._borrow(part)
            try:
                chosen = resolve(decoded.design.method)
            except MethodError as problem:
                self.dropped[UNKNOWN.format(problem)] += len(decoded.rows)
                continue
            documents = _matrix(shown.offsets, hashes, decoded.rows, decoded.impressions.ranks.shape[2])
            rows = self._rows(chosen, decoded, identity[decoded.rows], documents, logged[decoded.rows])
            if len(rows.query):
                yield OldImpressions(rows, self._names, str(chosen))
        self.dropped.update(self._decoding.dropped)

    def _rows(
        self, chosen: ResolvedMethod, decoded: Decoded, identity: Array, documents: Array, logged: Array
    ) -> OldRows:
        of_list, of_joint = _list_chances(chosen, decoded, logged)
        wrong = np.isinf(logged) | (logged > ROUNDING)
        unknown, never = np.isnan(of_list), np.isneginf(of_list) & ~wrong
        self.dropped[NO_LOGARITHM] += int(wrong.sum())
        self.dropped[NO_CHANCE.format(chosen.method.name)] += int(unknown.sum())
        self.dropped[NEVER_SHOWN] += int(never.sum())
        old_rows = OldRows(
            identity,
            self._queries[decoded.rows],
            documents,
            decoded.counts,
            decoded.is_clicked,
            decoded.impressions.teams,
            decoded.unit,
            np.where(decoded.has["sizes"], decoded.impressions.union, 0),
            np.full(len(decoded.rows), len(decoded.design.rankers)),
            of_list,
            of_joint,
        )
        return old_rows.only(~(wrong | unknown | never))

    def _borrow(self, decoded: Decoded) -> Decoded:
        """Store the rankings that the task names, and drop rows with invalid ones."""
        queries = [self._names[query] for query in self._queries[decoded.rows]]
        keep = np.ones(len(queries), np.bool_)
        array = column(self._batch, "rankings")
        for reason, broken in self.borrowed.add(array, decoded.design, decoded.rows, queries).items():
            self.dropped[reason] += int((keep & broken).sum())
            keep &= ~broken
        return decoded.only(keep)


def _matrix(offsets: Array, hashes: Array, rows: Array, width: int) -> Array:
    """The hashes of the documents of each list, `[row, position]`, 0 below its end."""
    places = offsets[rows][:, None] + np.arange(width)
    inside = places < offsets[rows + 1][:, None]
    return np.where(inside, np.append(hashes, np.uint64(0))[np.minimum(places, len(hashes))], np.uint64(0))


def _list_chances(chosen: ResolvedMethod, decoded: Decoded, logged: Array) -> tuple[Array, Array]:
    """The log probability of each list, as logged or computed; and that of list and owners, if owners are logged."""
    computable = decoded.has["ranks"] & decoded.has["sizes"]
    if "choices" in chosen.method.needs:
        computable &= decoded.has["choices"]
    of_list, of_joint = np.full((2, len(logged)), np.nan)
    if computable.any():
        some = Impression(*(values[computable] for values in decoded.impressions))
        of_list[computable], of_joint[computable] = log_chances(chosen, some, decoded.counts[computable])
    return np.where(np.isnan(logged), of_list, logged), of_joint


class LogSurvey:
    """The length of each query's longest list, `longest[query]`, and the impressions of each method.

    `kept` are all impressions, or None if they are not held in memory.
    """

    def __init__(self, rankers: Collection[str], keep: bool) -> None:
        self.longest: dict[str, int] = {}
        self.methods: Counter[str] = Counter()
        self.borrowed = LoggedRankings(rankers)
        self.kept: list[OldImpressions] | None = [] if keep else None
        self.dropped: Counter[str] = Counter()

    def read(self, batch: pa.RecordBatch, task: OldTask, repeated: Array) -> None:
        reader = OldLogReader(batch, task, repeated, self.dropped)
        for old in reader:
            longest = np.zeros(len(old.queries), np.int64)
            np.maximum.at(longest, old.rows.query, old.rows.counts)
            self._stretch({old.queries[query]: int(longest[query]) for query in np.flatnonzero(longest).tolist()})
            self.methods[old.method] += len(old.rows.query)
            if self.kept is not None:
                self.kept.append(old)
        self.borrowed.merge(reader.borrowed)

    def merge(self, other: LogSurvey) -> None:
        self._stretch(other.longest)
        self.methods.update(other.methods)
        self.borrowed.merge(other.borrowed)
        self.dropped += other.dropped

    def _stretch(self, longest: dict[str, int]) -> None:
        for query, length in longest.items():
            self.longest[query] = max(length, self.longest.get(query, 0))
