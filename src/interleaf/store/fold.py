"""Folds closed impressions into sums; a report's tally is these sums plus the open impressions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import chain, pairwise
from threading import Lock

import numpy as np
import pyarrow as pa

from interleaf.decode import Counting
from interleaf.decode.scoring import Scoring
from interleaf.errors import DataError, MethodError, SchemeError
from interleaf.execution.collector import TallyCollector
from interleaf.execution.task import Task, find_repeats, process_batch
from interleaf.experiment import Experiment
from interleaf.experiment.settings import AA, CHOOSE, RELABELLED
from interleaf.metrics.guardrail_metrics import guarded_kinds, joined_gap
from interleaf.report.rule import ReportSettings
from interleaf.store.attribution import read_earlier
from interleaf.store.codec import COLUMNS, EVENT_COLUMNS, batch_of
from interleaf.store.database import Database, Row, Transaction
from interleaf.store.experiments import parse_settings
from interleaf.store.sql_tables import OPEN_NAMES
from interleaf.store.time_check import StoreTime
from interleaf.tally import Fact, Tally, tally_file
from interleaf.tally.slices import MAX_SEGMENTS
from interleaf.tally.units import Sample

MAX_CACHED = 32  # metrics of versions whose sums are cached for the next report
PAGE = 5000  # impressions read at a time
SMALL = 1 / 8  # share of all impressions: a smaller part is added quickly
_OF_METRIC = "WHERE experiment = ? AND version = ? AND metric = ?"
# Versions with closed impressions that are not folded yet.
_CLOSED = (
    f"{OPEN_NAMES} SELECT v.experiment, v.version, v.settings FROM names JOIN versions v ON v.experiment = names.name "
    "WHERE EXISTS (SELECT 1 FROM impressions i WHERE i.experiment = v.experiment AND i.version = v.version "
    "AND i.folded = 0 AND i.closes <= ?)"
)


def task_of(settings: Experiment, version: int, metric: str) -> Task:
    """The analysis task of a version, for one of its metrics.

    >>> shoes = Experiment.of({"name": "shoes", "rankers": ["a", "b"], "events": {"click": 1, "purchase": 5}})
    >>> print(task_of(shoes, 1, "weighted").scoring.counting)
    click + 5 purchase
    """
    weights = {kind: weight for kind, weight in settings.metrics[metric].items() if weight}
    guarded = guarded_kinds(settings.guardrails)
    counting = Counting(weights, values=settings.counts_values(metric), guarded=guarded)
    joined = joined_gap(settings.guardrails) if metric == settings.primary else None
    scoring = Scoring(settings.scheme_of(metric), counting=counting, joined=joined)
    return Task(scoring, settings.by, experiment=settings.name, version=version)


def report_settings_of(settings: Experiment, metric: str | None = None) -> ReportSettings:
    """The report settings of a metric of an experiment (default: the primary one, which has the guardrails).

    >>> report_settings_of(Experiment.of({"name": "shoes", "rankers": ["a", "b"], "holdout": 0.1})).holdout
    0.1
    """
    metric = metric or settings.primary
    is_value = settings.counts_values(metric)
    return ReportSettings(
        control=settings.control,
        confidence=settings.confidence,
        planned_units=None if settings.mode == CHOOSE else settings.planned_units,
        margin=settings.value_margin if is_value else settings.margin,
        cap=settings.value_cap if is_value else None,
        secondary=settings.secondary(metric),
        guardrails=settings.guardrails if metric == settings.primary else None,
        aa=settings.mode in (AA, RELABELLED),
        holdout=settings.holdout or None,
        start_rankers=settings.rankers if settings.mode == CHOOSE else (),
    )


class FoldedSums:
    """A tally of impressions, with counts of unusable ones and a sample of ids. Sums can be merged.

    Attribute values come from outside. If there are too many to split by, the tally is not split any more.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._book, self._sample = TallyCollector(task), Sample()
        self._is_split = True
        self.impressions = 0

    def add(self, batch: pa.RecordBatch, earlier: pa.RecordBatch | None = None) -> None:
        """Add impressions; `earlier` are others of their units, which only say whether a search continues a session."""
        self.impressions += batch.num_rows
        find_repeats(batch, self._sample)
        try:
            book = self._tally_batch(batch, earlier, self._task)
        except DataError:
            if not self._task.by:
                raise
            self._is_split = False
            book = self._tally_batch(batch, earlier, replace(self._task, by=()))
        self._take(book)

    def merge(self, other: FoldedSums) -> None:
        """Add other sums, which must not be used afterwards."""
        self.impressions += other.impressions
        self._sample.merge(other._sample)
        self._is_split &= other._is_split
        self._take(other._book)

    def close(self) -> Tally | None:
        """The tally; None if no impression could be used."""
        if not any(tally.impressions for tally in self._book.tallies):
            return None
        tally = self._book.close()
        tally.sample = self._sample
        if not self._is_split:
            tally.facts[Fact.UNSPLIT] = 1
        return tally

    def to_bytes(self) -> bytes:
        """The stored form: a line of JSON, the sample, and the tallies."""
        tallies = [tally_file.to_bytes(tally) for tally in self._book.tallies]
        sample = self._sample.hashes.tobytes()
        head = {
            "impressions": self.impressions,
            "dropped": self._book.dropped,
            "events": self._book.events,
            "level": self._sample.level,
            "is_split": self._is_split,
            "sizes": [len(part) for part in (sample, *tallies)],
        }
        return b"".join((json.dumps(head).encode(), b"\n", sample, *tallies))

    @classmethod
    def of_bytes(cls, data: bytes, task: Task) -> FoldedSums:
        """Decode the result of `to_bytes`."""
        line, _, rest = bytes(data).partition(b"\n")
        head = json.loads(line)
        ends = np.cumsum(head["sizes"]).tolist()
        if len(rest) != ends[-1]:
            raise DataError(f"the store is damaged: a stored sum has {len(rest)} bytes instead of {ends[-1]}")
        sums = cls(task)
        sums.impressions, sums._is_split = head["impressions"], head["is_split"]
        sums._book.dropped, sums._book.events = Counter(head["dropped"]), Counter(head["events"])
        sums._sample.raise_to(head["level"])
        sums._sample.add(np.frombuffer(rest[: ends[0]], np.uint64))
        for start, end in pairwise(ends):
            sums._book.take(tally_file.from_bytes(rest[start:end], Tally, "kept sums"))
        return sums

    def _tally_batch(self, batch: pa.RecordBatch, earlier: pa.RecordBatch | None, task: Task) -> TallyCollector:
        book = TallyCollector(task)
        for outcome in process_batch(batch, task):
            book.add(outcome)
        if task.scoring.gap is not None:
            for outcome in process_batch(earlier, task) if earlier is not None else ():
                book.add_earlier(outcome)
            book.count_sessions()
        return book

    def _take(self, book: TallyCollector) -> None:
        both = [*self._book.tallies, *book.tallies]
        segments = set(chain.from_iterable(tally.segments for tally in both))
        self._is_split &= len(segments) <= MAX_SEGMENTS
        if not self._is_split:
            for tally in both:
                tally.segments.clear()
                tally.evidence.firsts.clear()
        self._book.merge(book)


Place = tuple[str, int, str]
Batches = tuple[pa.RecordBatch, pa.RecordBatch | None]


def closed_versions(transaction: Transaction, time: StoreTime) -> list[tuple[Experiment, int, int]]:
    """Versions with impressions to fold, each with the time before which they closed."""
    versions = [(parse_settings(settings), version) for _, version, settings in transaction.rows(_CLOSED, time.now)]
    return [(settings, version, time.fold_time(settings.window)) for settings, version in versions]


class Folding:
    """Folds impressions of a database, and computes tallies."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Sums of the latest reports, by the numbers of the parts that they add up; numbers are never reused.
        self._cache: dict[Place, dict[tuple[int, ...], FoldedSums]] = {}
        self._lock = Lock()

    def fold(self, settings: Experiment, version: int, now: int, most: int) -> int:
        """Fold at most `most` impressions of a version that have closed; none if another worker is folding it."""
        with self._database.writing() as transaction:
            free = transaction.rows(
                "SELECT 1 FROM versions WHERE experiment = ? AND version = ? FOR UPDATE SKIP LOCKED",
                *(settings.name, version),
            )
            rows = free and transaction.rows(
                f"SELECT {COLUMNS} FROM impressions WHERE experiment = ? AND version = ? AND folded = 0 "
                "AND closes <= ? ORDER BY closes LIMIT ? FOR UPDATE SKIP LOCKED",
                *(settings.name, version, now, most),
            )
            if not rows:
                return 0
            batches = _with_earlier(transaction, rows, settings, version)
            for metric in settings.metrics:
                sums = _try_add(FoldedSums(task_of(settings, version, metric)), *batches)
                if sums is not None:
                    self._keep(transaction, settings, version, metric, sums)
            transaction.change("UPDATE impressions SET folded = 1 WHERE id = ANY(?)", [row[0] for row in rows])
            return len(rows)

    def tallies(self, settings: Experiment, version: int) -> dict[str, Tally]:
        """The tally of all impressions of a version, by metric."""
        with self._database.reading() as transaction:
            totals: dict[str, FoldedSums | None] = {
                metric: self._sum_parts(transaction, settings, version, metric) for metric in settings.metrics
            }
            for batches in self._open(transaction, settings, version):
                totals = {metric: total and _try_add(total, *batches) for metric, total in totals.items()}
        tallies = {metric: total.close() for metric, total in totals.items() if total is not None}
        return {metric: tally for metric, tally in tallies.items() if tally is not None}

    def folded_tally(self, settings: Experiment, version: int, metric: str) -> Tally | None:
        """The tally of the folded impressions of a version."""
        with self._database.reading() as transaction:
            return self._sum_parts(transaction, settings, version, metric).close()

    def _keep(
        self, transaction: Transaction, settings: Experiment, version: int, metric: str, sums: FoldedSums
    ) -> None:
        """Store a part, merged with the parts before it that are not larger."""
        sql = f"SELECT number, impressions FROM sums {_OF_METRIC} ORDER BY number DESC"
        for number, impressions in transaction.rows(sql, settings.name, version, metric):
            if impressions > sums.impressions:
                break
            older = deepcopy(self._add_up(transaction, settings, version, metric, (number,)))
            older.merge(sums)
            sums = older
            transaction.change("DELETE FROM sums WHERE number = ?", number)
        transaction.change(
            "INSERT INTO sums (experiment, version, metric, impressions, data) VALUES (?, ?, ?, ?, ?)",
            *(settings.name, version, metric, sums.impressions, sums.to_bytes()),
        )

    def _sum_parts(self, transaction: Transaction, settings: Experiment, version: int, metric: str) -> FoldedSums:
        """The sum of all parts."""
        place = settings.name, version, metric
        parts = transaction.rows(f"SELECT number, impressions FROM sums {_OF_METRIC} ORDER BY number", *place)
        least = SMALL * sum(impressions for _, impressions in parts)
        large = tuple(number for number, impressions in parts if impressions >= least)
        groups = [large, *((number,) for number, impressions in parts if impressions < least)]
        sums_of = {numbers: self._add_up(transaction, settings, version, metric, numbers) for numbers in groups}
        with self._lock:
            self._cache.pop(place, None)
            self._cache[place] = sums_of
            if len(self._cache) > MAX_CACHED:
                del self._cache[next(iter(self._cache))]
        total, *rest = [deepcopy(sums) for sums in sums_of.values()]
        for sums in rest:
            total.merge(sums)
        return total

    def _add_up(
        self, transaction: Transaction, settings: Experiment, version: int, metric: str, numbers: tuple[int, ...]
    ) -> FoldedSums:
        """The sum of parts, cached or from the store; it must not be changed."""
        with self._lock:
            sums = self._cache.get((settings.name, version, metric), {}).get(numbers)
        if sums is not None:
            return sums
        total = FoldedSums(task_of(settings, version, metric))
        for number in numbers:
            ((data,),) = transaction.rows("SELECT data FROM sums WHERE number = ?", number)
            total.merge(FoldedSums.of_bytes(data, task_of(settings, version, metric)))
        return total

    def _open(self, transaction: Transaction, settings: Experiment, version: int) -> Iterator[Batches]:
        """Impressions that are not folded, page by page: there may be millions. Each page has the searches before."""
        closes, number = -(2**63), -1
        while rows := transaction.rows(
            f"SELECT {COLUMNS}, closes, number FROM impressions WHERE experiment = ? AND version = ? AND folded = 0 "
            "AND (closes, number) > (?, ?) ORDER BY closes, number LIMIT ?",
            *(settings.name, version, closes, number, PAGE),
        ):
            closes, number = rows[-1][-2:]
            yield _with_earlier(transaction, [row[:-2] for row in rows], settings, version)


def _try_add(sums: FoldedSums, batch: pa.RecordBatch, earlier: pa.RecordBatch | None) -> FoldedSums | None:
    """The sums with a batch added; None if the method cannot score this metric at all."""
    try:
        sums.add(batch, earlier)
    except (MethodError, SchemeError):
        return None
    return sums


def _with_earlier(transaction: Transaction, rows: Sequence[Row], settings: Experiment, version: int) -> Batches:
    """A record batch of rows, and one of the searches before them if searches are joined to sessions."""
    earlier = read_earlier(transaction, rows, settings, version)
    batch = batch_with_events(transaction, rows, settings, version)
    return batch, batch_with_events(transaction, earlier, settings, version) if earlier else None


def batch_with_events(
    transaction: Transaction, rows: Sequence[Row], settings: Experiment, version: int
) -> pa.RecordBatch:
    """A record batch of rows of `COLUMNS` (and a body, if selected) with their events."""
    statement = f"SELECT {EVENT_COLUMNS} FROM events WHERE impression = ANY(?)"
    events = transaction.rows(statement, [row[0] for row in rows])
    has_body = len(rows[0]) > len(COLUMNS.split(", "))
    bodies: dict[str, bytes] = {}
    if events and not has_body:
        statement = "SELECT id, body FROM impressions WHERE id = ANY(?)"
        bodies = dict(transaction.rows(statement, sorted({event[0] for event in events})))
    return batch_of(rows, events, bodies, settings, version)
