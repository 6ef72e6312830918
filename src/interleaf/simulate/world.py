"""`World`: judged queries, rankers, people and a method. It simulates a log, and knows the true preference.

All randomness is keyed by the seed and the numbers of unit, visit and page. So a world's log does not depend on batches
and threads, and the first thousand units are the same in any larger population.

The truth says which ranker people should prefer, and why. It is computed from the appeal of each ranker's own top k,

    sum over ranks r of P(click | the document at rank r is read) / log2(r + 1),

averaged over queries and people, without crawlers. This is DCG with click probabilities instead of gains. The appeal is
the sum of three parts: relevance, captions and taste.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from interleaf import log
from interleaf.errors import DataError
from interleaf.interleaving.rankings import check_k, check_rankers, letter
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import DEFAULT, ResolvedMethod, resolve
from interleaf.simulate.data import Judged
from interleaf.simulate.pages import RankedDocuments, caption_texts, habits_of, shift_logit
from interleaf.simulate.people import People, SimulatedUnits, arms_of, side
from interleaf.simulate.rankers import Ranker, rank, scores_of
from interleaf.simulate.run import ndcg
from interleaf.simulate.traffic import TrafficSimulator

NODES = 31  # nodes of the Gauss-Hermite quadrature over tastes
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Truth:
    """The true preference of a world: numbers per ranker, the ranker that people prefer on average or None, and why.

    `appeal` is the sum of relevance and of the effects of captions and taste; `taste` and `taste_spread` are the mean
    and deviation of the units' preference for the first ranker over the second.
    """

    rankers: tuple[str, ...]
    ndcg: tuple[float, ...]
    appeal: tuple[float, ...]
    caption_effect: tuple[float, ...]
    taste_effect: tuple[float, ...]
    taste: float
    taste_spread: float
    preferred: str | None
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def truth_of(scene: RankedDocuments, rankers: tuple[str, ...]) -> Truth:
    """The true preference of these people between these rankings."""
    relevance = _appeals(scene, captions=False, taste=False)
    presented = _appeals(scene, captions=True, taste=False)
    appeals = _appeals(scene, captions=True, taste=True)
    people, judged = scene.people, ndcg(scene.staged, scene.rankings, scene.stage.k)
    preferred, reason = _verdict(rankers, judged, relevance, presented, appeals)
    if preferred is None and people.taste_spread:
        reason += f", although units differ in their taste (deviation {people.taste_spread:g})"
    return Truth(
        rankers=rankers,
        ndcg=tuple(judged.tolist()),
        appeal=tuple(appeals.tolist()),
        caption_effect=tuple((presented - relevance).tolist()),
        taste_effect=tuple((appeals - presented).tolist()),
        taste=float(people.taste),
        taste_spread=float(people.taste_spread),
        preferred=preferred,
        reason=reason,
    )


def _appeals(scene: RankedDocuments, captions: bool, taste: bool) -> Array:
    """The appeal of each ranker, with or without the effects of captions and taste."""
    people, click = scene.people, scene.habits.click
    lost = people.narrow * (1 - 1 / people.intents)  # the share of people with another intent, who see grade 0
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    tastes = people.taste + people.taste_spread * nodes if taste else np.zeros(1)
    weights = weights / weights.sum() if taste else np.ones(1)
    stage, query = scene.stage, np.arange(len(scene.rankings))[:, None]
    appeals = np.zeros(scene.rankings.shape[1])
    for ranker in range(len(appeals)):
        top = scene.rankings[:, ranker, : stage.k].astype(np.int64)
        grades = np.where(top < 0, -1, stage.grades[query, top])
        sides = side(*(np.maximum(stage.places[query, number, top], 1) for number in (0, 1)))
        attractions = scene.attractions[scene.rows[query, top]] * captions
        discounts = 1 / np.log2(np.arange(2, top.shape[1] + 2))
        for leaning, weight in zip(tastes, weights, strict=True):
            shifts = leaning * sides + attractions
            relevant = shift_logit(click[np.maximum(grades, 0)], shifts)
            irrelevant = shift_logit(np.full(grades.shape, click[0]), shifts)
            chances = (1 - lost) * relevant + lost * irrelevant
            appeals[ranker] += weight * (np.where(grades < 0, 0, chances) @ discounts).mean()
    return appeals


def _verdict(
    rankers: tuple[str, ...], judged: Array, relevance: Array, presented: Array, appeals: Array
) -> tuple[str | None, str]:
    best, second = np.argsort(-appeals, kind="stable")[:2]
    if appeals[best] - appeals[second] <= TOLERANCE:
        alike = [name for name, appeal in zip(rankers, appeals, strict=True) if appeals[best] - appeal <= TOLERANCE]
        return None, f"no preference on average: {' and '.join(alike)} appeal alike ({appeals[best]:.4f})"
    parts = {"relevance": relevance, "captions": presented - relevance, "taste": appeals - presented}
    gains = {name: part[best] - part[second] for name, part in parts.items()}
    words = f"{rankers[best]} appeals more than {rankers[second]} ({appeals[best]:.4f} to {appeals[second]:.4f}): "
    words += ", ".join(f"{name} {gain:+.4f}" for name, gain in gains.items() if abs(gain) > TOLERANCE)
    if judged[best] < judged[second] - TOLERANCE:
        words += f"; by NDCG {rankers[second]} is better ({judged[second]:.4f} to {judged[best]:.4f})"
    return rankers[best], words


CHUNK = 16_384  # sessions per batch: small enough for the CPU caches, large enough to amortise overhead
MAX_UNITS = 2**31
TRUTH = "interleaf.truth"


@dataclass(frozen=True, eq=False)
class World:
    """People who search judged documents and see interleaved lists.

    `rankers` as `simulate.run` takes them, named A, B, ... or by a mapping. `arms` gives shares of the units to a
    `holdout` (the first ranker's list unchanged) and to A/B arms (a ranker's name); the rest sees interleaved lists.
    With `relabel`, the names of the first two rankers are exchanged for a random half of the units: if the mean taste
    is 0, no ranker is preferred on average.

    >>> from interleaf.simulate.data import synthetic
    >>> world = World(synthetic(queries=20, seed=1), rankers=[1, 15], people=People(units=50), seed=7)
    >>> world.truth.preferred
    'A'
    """

    data: Judged
    rankers: Sequence[Ranker] | Mapping[str, Ranker]
    people: People = field(default_factory=People)
    method: str = field(default=DEFAULT)
    k: int = 10
    seed: int = 0
    arms: Mapping[str, float] = field(default_factory=dict)
    relabel: bool = False
    ties: str = "own"
    experiment: str = "simulated"

    def __post_init__(self) -> None:
        check_k(self.k)
        check_rankers(self.names, self.resolved_method)
        if not self.resolved_method.method.schemes:
            raise DataError(f"{self.resolved_method} compares nothing; give a method that does, and A/B arms by arms=")
        arms_of(self.arms, self.names, self.resolved_method, None)
        habits_of(self.people, self.data.max_grade + 1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the rankers."""
        if isinstance(self.rankers, Mapping):
            return tuple(self.rankers)
        return tuple(letter(number) for number in range(len(self.rankers)))

    @cached_property
    def resolved_method(self) -> ResolvedMethod:
        """The method."""
        return resolve(self.method)

    @property
    def salt(self) -> str:
        """The first part of every list's key: `key_of((salt, unit, query))`."""
        return f"{self.experiment}-{self.seed}"

    @cached_property
    def truth(self) -> Truth:
        """The ranker that people prefer, and why."""
        return truth_of(self._scene, self.names)

    def batches(
        self,
        impressions: int | None = None,
        units: int | None = None,
        *,
        chunk: int = CHUNK,
        threads: int = 0,
        rankings: bool = False,
        captions: bool = False,
        log_probability: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The log in record batches of about `chunk` sessions, unit by unit, each unit's pages in the order of time.

        The log has this number of `impressions`, or those of this number of `units`, or those of all people. The
        columns `rankings`, `captions` and `log_probability` cost time and space, so they are null by default.
        """
        for name, value in (("impressions", impressions), ("units", units), ("chunk", chunk)):
            if value is not None and value < 1:
                raise DataError(f"{name} is {value!r}; give a whole number from 1 up")
        if impressions is not None:
            chunk, units = min(chunk, impressions), units or MAX_UNITS
        make_batch = partial(
            self._traffic.record_batch,
            rankings=self._scene.named_rankings() if rankings else None,
            captions=caption_texts(self.data, self._scene.levels) if captions else None,
            log_probability=log_probability,
        )
        return _cut(_run_in_order(self._parts(units or self.people.units, chunk), make_batch, threads), impressions)

    def write(self, path: str | Path, impressions: int | None = None, units: int | None = None, **options: Any) -> int:
        """Write the log and return its number of impressions; the options are those of `batches`.

        A Parquet file carries the truth in its metadata, as JSON under `interleaf.truth`.
        """
        metadata = {TRUTH: json.dumps(self.truth.to_dict())}
        return log.write_batches(path, self.batches(impressions, units, **options), metadata)

    @cached_property
    def _scene(self) -> RankedDocuments:
        rankers = list(self.rankers.values()) if isinstance(self.rankers, Mapping) else self.rankers
        key = ("world", self.seed)
        rankings = rank(self.data, [scores_of(self.data, ranker) for ranker in rankers], key, self.ties)
        return RankedDocuments(self.data, rankings, self.resolved_method, self.k, self.people, key, self.relabel)

    @cached_property
    def _traffic(self) -> TrafficSimulator:
        arms = arms_of(self.arms, self.names, self.resolved_method, self._scene.settings)
        return TrafficSimulator(self._scene, arms, self.names, self.experiment, self.seed)

    def _parts(self, units: int, chunk: int) -> Iterator[SimulatedUnits]:
        """Units in parts with about `chunk` visits each; a unit is never split."""
        first = 0
        while first < units:
            window = self._traffic.units(first, min(chunk, units - first))
            count = max(1, int(np.searchsorted(np.cumsum(window.visits), chunk, side="right")))
            yield SimulatedUnits(*(values[:count] for values in window))
            first += count


def _run_in_order(
    parts: Iterator[SimulatedUnits], make: Callable[[SimulatedUnits], pa.RecordBatch], threads: int
) -> Iterator[pa.RecordBatch]:
    """The batches in the order of the parts; threads compute a few of them ahead."""
    workers = threads or os.cpu_count() or 1
    waiting: deque[Future[pa.RecordBatch]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for part in parts:
            waiting.append(pool.submit(make, part))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _cut(batches: Iterator[pa.RecordBatch], impressions: int | None) -> Iterator[pa.RecordBatch]:
    """All batches, or the first `impressions` rows of them."""
    left = np.inf if impressions is None else impressions
    for rows in batches:
        yield rows.slice(0, min(left, rows.num_rows))
        left -= rows.num_rows
        if left <= 0:
            return
