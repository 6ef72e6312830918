"""`run`: the same comparison of rankers many times, each time checked against their true quality (NDCG)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from interleaf.clicks import Cascade, ClickModel, PositionBased, find_cascade, scale_of
from interleaf.errors import ClickError, DataError
from interleaf.interleaving import batch
from interleaf.interleaving.rankings import check_k, check_rankers, letter
from interleaf.kernels.arrays import Array, EncodedRankings, Impression
from interleaf.kernels.jit import kernel
from interleaf.methods.loops import score_columns
from interleaf.methods.registry import DEFAULT, ResolvedMethod, resolve
from interleaf.methods.schemes import TOLERANCE
from interleaf.simulate.data import Judged
from interleaf.simulate.people import streams, words_of
from interleaf.simulate.rankers import Ranker, generator_of, rank, scores_of


def ndcg(data: Judged, rankings: Array, cut: int | None = 10) -> Array:
    """Mean NDCG of each ranker: gain 2^grade - 1, discount log2(rank + 1), cut at a rank or not at all.

    Queries without a relevant document count as 0, as in the code released with O17.
    """
    return np.asarray(ndcg_by_query(data, rankings, cut).mean(axis=0))


def ndcg_by_query(data: Judged, rankings: Array, cut: int | None = 10) -> Array:
    """NDCG of each query, `[query, ranker]`."""
    values = np.zeros(rankings.shape[:2])
    counts = np.zeros(data.grades.max() + 1, np.int64)
    _by_query(rankings, data.grades.astype(np.int64), data.offsets, cut or rankings.shape[2], counts, values)
    return values


@kernel
def _by_query(rankings: Array, grades: Array, offsets: Array, cut: int, counts: Array, values: Array) -> None:
    """`counts` is room for the number of documents of each grade."""
    for query in range(len(rankings)):
        judged = grades[offsets[query] : offsets[query + 1]]
        for grade in judged:
            counts[grade] += 1
        ideal, grade = 0.0, len(counts)
        for place in range(len(judged)):
            while counts[grade - 1] == 0:
                grade -= 1
            counts[grade - 1] -= 1
            if place < cut:
                ideal += (2.0 ** (grade - 1) - 1) / np.log2(place + 2)
        for ranker in range(values.shape[1]):
            gain = 0.0
            for place in range(min(cut, len(judged))):
                gain += (2.0 ** judged[rankings[query, ranker, place]] - 1) / np.log2(place + 2)
            values[query, ranker] = gain / ideal if ideal > 0 else 0.0


class Stage:
    """One method on judged queries that all rankers rank: draws lists, and looks up their ranks and grades."""

    def __init__(self, data: Judged, rankings: Array, chosen: ResolvedMethod, k: int) -> None:
        self.chosen, self.k = chosen, k
        self.sizes = np.diff(data.offsets).astype(np.int32)
        _, rankers, longest = rankings.shape
        inside = np.arange(longest) < self.sizes[:, None]
        self.places: Array = np.zeros(
            rankings.shape, np.int32
        )  # the rank of each document, `[query, ranker, document]`
        np.put_along_axis(self.places, rankings, np.arange(1, longest + 1, dtype=np.int32), axis=2)
        self.places *= inside[:, None]  # padding of -1 has written into the last column
        self.grades = np.full((len(data), longest), -1, data.grades.dtype)
        self.grades[inside] = data.grades
        depths = self.sizes if chosen.method.whole_rankings else np.minimum(self.sizes, k)
        tops = rankings if chosen.method.whole_rankings else rankings[:, :, :k]
        self.given = EncodedRankings(
            np.ascontiguousarray(tops), np.repeat(depths[:, None], rankers, axis=1), self.sizes.astype(np.int64)
        )
        self.lengths = np.repeat(self.sizes[:, None], rankers, axis=1)
        # How many documents some ranker has in the top of each depth, `[query, rank]`.
        best = np.where(self.places > 0, self.places, k + 1).min(axis=1)
        self.choices = np.stack([(best <= rank).sum(axis=1) for rank in range(1, k + 1)], axis=1).astype(np.int16)

    def settings(self, queries: Array) -> Any:
        """The settings to compose lists for these queries: the same for all, or prepared for each query and stacked."""
        kernels = self.chosen.method.kernels
        if kernels.prepare_batch is not None:
            return kernels.prepare_batch(self.given, self.places, np.unique(queries), self.k, self.chosen.parameters)
        return kernels.settings((int(self.sizes.max()),), self.chosen.parameters, False)

    def compose(self, queries: Array, keys: Array, settings: Any, threads: int = 1) -> batch.DrawnLists:
        """A list for each row."""
        return batch.compose(self.chosen, self.given, settings, queries, keys, self.k, threads)

    def look_up(self, queries: Array, lists: batch.DrawnLists, keys: Array | None = None) -> tuple[Impression, Array]:
        """The impressions to credit, and the grades of the shown documents, -1 below the end of a list.

        With the keys of the lists, impressions have the ranks of unshown documents, too.
        """
        rows, rankers = len(queries), self.places.shape[1]
        ranks = np.zeros((rows, rankers, self.k), np.int16)
        grades = np.full((rows, self.k), -1, np.int8)
        _look_up(self.places, self.grades, queries, lists.shown, lists.counts, ranks, grades)
        sizes = self.sizes[queries].astype(np.int64)
        choices = self.choices[queries]
        unshown = None
        if keys is not None:
            unshown = batch.unshown_ranks(self.given.rankings, queries, lists.shown, lists.counts, choices)
        fields = ranks, lists.teams, self.lengths[queries], sizes, choices, unshown, keys
        return Impression.of(*fields), grades

    def ndcg_of(self, queries: Array, grades: Array) -> Array:
        """NDCG at k of each shown list; 0 where nothing is relevant."""
        ideal = self._ideal[queries]
        return np.divide(_gain(grades), ideal, out=np.zeros(len(ideal)), where=ideal > 0)

    @cached_property
    def _ideal(self) -> Array:
        return _gain(-np.sort(-self.grades.astype(np.int64), axis=1)[:, : self.k])


def _gain(grades: Array) -> Array:
    """Discounted gain of rows of grades, 2^grade - 1 over log2(rank + 1); -1 means no document."""
    discounts = 1 / np.log2(np.arange(2, grades.shape[1] + 2))
    return (2.0 ** np.maximum(grades, 0) - 1) @ discounts


@kernel
def _look_up(
    places: Array, judged: Array, queries: Array, shown: Array, counts: Array, ranks: Array, grades: Array
) -> None:
    for row in range(len(queries)):
        query = queries[row]
        for position in range(counts[row]):
            document = shown[row, position]
            grades[row, position] = judged[query, document]
            for ranker in range(places.shape[1]):
                ranks[row, ranker, position] = places[query, ranker, document]


CHUNK = 2048
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class RunSettings:
    """The settings of all runs; `truth` are the judged queries on which the rankers' NDCG is computed."""

    data: Judged
    rankers: Sequence[Ranker] | Callable[[int], Sequence[Ranker]]
    chosen: ResolvedMethod
    clicks: ClickModel
    scheme: str | None
    impressions: int
    checkpoints: tuple[int, ...]
    k: int
    seed: int
    truth: Judged
    cut: int | None
    ties: str


@dataclass(frozen=True)
class Result:
    """One method under one click model; arrays have one row per run and one column per checkpoint.

    `binary_error` is the share of ordered pairs of rankers whose preference has another sign than the difference of
    their NDCG; a preference of zero counts as wrong unless the difference is zero. `errors` are those of each run, and
    `own_errors` the same with the NDCG on the queries of the impressions. `preferences_at[run, checkpoint]` is the mean
    preference matrix so far, and `preferences[run]` the last one. `shown_ndcg[run]` is the NDCG of the shown lists.
    """

    method: str
    scheme: str
    clicks: str
    data: str
    ties: str
    checkpoints: tuple[int, ...]
    errors: Array
    own_errors: Array
    preferences_at: Array
    truths: Array
    shown_ndcg: Array
    interrupted: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        head = f"{self.method} ({self.scheme}), {self.clicks} clicks, on {self.data}; "
        head += f"{len(self.errors)} runs, ties: {self.ties}"
        errors = self.binary_error.items()
        lines = [f"{p:>12,}  {mean:.4f}" + ("" if np.isnan(sd) else f"  ({sd:.4f})") for p, (mean, sd) in errors]
        cut = "\ninterrupted: only the runs that were finished" if self.interrupted else ""
        return "\n".join([head + cut, f"{'impressions':>12}  binary error (standard deviation over runs)", *lines])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        lists = {
            name: getattr(self, name).tolist()
            for name in ("errors", "own_errors", "preferences_at", "truths", "shown_ndcg")
        }
        words = {name: getattr(self, name) for name in ("method", "scheme", "clicks", "data", "ties", "interrupted")}
        return {**words, **self.settings, "checkpoints": list(self.checkpoints), **lists}

    @property
    def preferences(self) -> Array:
        """The mean preference matrix of each run after its last impression."""
        return np.asarray(self.preferences_at[:, -1])

    @property
    def binary_error(self) -> dict[int, tuple[float, float]]:
        """By checkpoint: mean over runs, and standard deviation (nan for a single run)."""
        spread = self.errors.std(axis=0, ddof=1) if len(self.errors) > 1 else np.full(self.errors.shape[1], np.nan)
        return {
            point: (float(mean), float(deviation))
            for point, mean, deviation in zip(self.checkpoints, self.errors.mean(axis=0), spread, strict=True)
        }


def run(
    data: Judged,
    rankers: Sequence[Ranker] | Callable[[int], Sequence[Ranker]],
    method: str = DEFAULT,
    clicks: str | ClickModel = "navigational",
    impressions: int = 10_000,
    runs: int = 25,
    seed: int = 0,
    *,
    k: int = 10,
    scheme: str | None = None,
    checkpoints: Sequence[int] | None = None,
    truth: Judged | None = None,
    cut: int | None = 10,
    ties: str = "own",
    threads: int = 0,
    progress: Progress | None = None,
) -> Result:
    """Compare rankers with one method, `runs` times; a function instead of rankers returns those of each run.

    `clicks` is the name of a table or a click model. Models by document get the names in `data.documents`. `truth` are
    other queries on which NDCG is computed, and `cut` is its depth, None for the whole ranking. After an interrupt, the
    result has the finished runs.
    """
    model = _model(data, clicks)
    if checkpoints is None:
        checkpoints = [step * 10**power for power in range(1, 12) for step in (1, 2, 5)]
    points = (*sorted({int(point) for point in checkpoints if 0 < point < impressions}), impressions)
    settings = RunSettings(
        data, rankers, resolve(method), model, scheme, impressions, points, k, seed, truth or data, cut, ties
    )
    check_k(k)
    if cut is not None and cut < 1:
        raise DataError(f"NDCG cannot be cut at {cut}; give a rank from 1 up, or None for all of the ranking")
    if runs < 1 or impressions < 1:
        raise DataError(f"{runs} runs of {impressions} impressions cannot be simulated; give at least 1 of each")
    finished = _all_runs(settings, runs, threads, progress)
    return Result(
        method=settings.chosen.text,
        scheme=settings.chosen.scheme(scheme, len(finished[0]["truths"])).name,
        clicks=clicks if isinstance(clicks, str) else repr(clicks),
        data=data.name,
        ties=ties,
        checkpoints=points,
        interrupted=len(finished) < runs,
        settings={"impressions": impressions, "k": k, "seed": seed, "truth": settings.truth.name, "cut": cut},
        **{name: np.array([one[name] for one in finished]) for name in finished[0]},
    )


def _model(data: Judged, clicks: str | ClickModel) -> ClickModel:
    """The click model; a table by grade must have every grade of the data."""
    row = int(np.argmax(data.grades))
    highest = f"{data.where(row)} has grade {data.grades[row]}"
    try:
        model = find_cascade(clicks, scale_of(data.max_grade)) if isinstance(clicks, str) else clicks
    except ClickError as error:
        raise ClickError(f"{error} (the best grade: {highest})") from None
    if not isinstance(model, ClickModel):
        raise ClickError(f"clicks are the name of a table or a model of interleaf.clicks, not {clicks!r}")
    table = (
        model.click if isinstance(model, Cascade) else model.attraction if isinstance(model, PositionBased) else None
    )
    if table is not None and data.max_grade >= len(table):
        grades = f"the click model knows 0 to {len(table) - 1}"
        raise ClickError(f"{highest}, but {grades}; give it a probability for each grade")
    return model


def sweep(
    data: Judged,
    rankers: Mapping[str, Sequence[Ranker] | Callable[[int], Sequence[Ranker]]],
    methods: Sequence[str],
    clicks: Sequence[str],
    *args: Any,
    progress: Progress | None = None,
    **options: Any,
) -> list[Result]:
    """Every method under every click model on every named set of rankers; after an interrupt, the finished ones.

    The other arguments of `run` are the same for all; `result.settings["rankers"]` names the set.
    """
    cells = list(product(rankers.items(), methods, clicks))
    results: list[Result] = []
    for number, ((name, chosen), method, model) in enumerate(cells, 1):
        result = run(data, chosen, method, model, *args, **options)
        result.settings["rankers"] = name
        results.append(result)
        if progress is not None:
            progress(number, len(cells))
        if result.interrupted:
            break
    return results


def _all_runs(settings: RunSettings, runs: int, threads: int, progress: Progress | None) -> list[dict[str, Any]]:
    """Runs in threads, in the order of their numbers; after an interrupt, those that are finished."""
    done: dict[int, dict[str, Any]] = {}
    pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)
    waiting = {pool.submit(_run_once, settings, number): number for number in range(runs)}
    try:
        for future in as_completed(waiting):
            done[waiting[future]] = future.result()
            if progress is not None:
                progress(len(done), runs)
    except KeyboardInterrupt:
        if not done:
            raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return [done[number] for number in sorted(done)]


def _run_once(settings: RunSettings, number: int) -> dict[str, Any]:
    """Simulate a run in chunks that end at the checkpoints; returns the fields of `Result` with one row per run."""
    run = _SingleRun(settings, number)
    start = 0
    for point in settings.checkpoints:
        for first in range(start, point, CHUNK):
            run.add(slice(first, min(first + CHUNK, point)))
        run.note_errors()
        start = point
    errors, own_errors = np.array(run.errors).T
    return {
        "errors": errors,
        "own_errors": own_errors,
        "preferences_at": np.array(run.preferences) / np.array(settings.checkpoints)[:, None, None],
        "truths": run.truths[0],
        "shown_ndcg": run.gain / settings.impressions,
    }


class _SingleRun:
    """One run: sums of credit per ranker if the scheme is linear, else of preferences per pair.

    `truths` are the rankers' NDCG on the queries for the truth and on those of the impressions; `errors[checkpoint]`
    are the binary errors against each, `preferences[checkpoint]` the summed preferences of pairs.
    """

    def __init__(self, settings: RunSettings, number: int) -> None:
        rankers = settings.rankers(number) if callable(settings.rankers) else settings.rankers
        check_rankers(tuple(letter(place) for place in range(len(rankers))), settings.chosen)
        key = (settings.seed, number)

        def rankings_of(data: Judged, part: str) -> Array:
            return rank(data, [scores_of(data, ranker) for ranker in rankers], (*key, part), settings.ties)

        rankings = rankings_of(settings.data, "impressions")
        own_truth = truth = ndcg(settings.data, rankings, settings.cut)
        if settings.truth is not settings.data:
            truth = ndcg(settings.truth, rankings_of(settings.truth, "truth"), settings.cut)
        self.truths = (truth, own_truth)
        self.scheme = settings.chosen.scheme(settings.scheme, len(rankers))
        self._needs_unshown = "unshown_ranks" in settings.chosen.method.needs_of(self.scheme)
        self._run, self._stage = settings, Stage(settings.data, rankings, settings.chosen, settings.k)
        self._queries = generator_of((*key, "queries")).integers(0, len(settings.data), settings.impressions)
        self._settings = self._stage.settings(self._queries)
        self._lists, self._people = words_of((*key, "lists")), words_of((*key, "clicks"))
        self._credit, self._pairs = np.zeros(len(rankers)), np.zeros((len(rankers), len(rankers)))
        self.errors: list[list[float]] = []
        self.preferences: list[Array] = []
        self.gain = 0.0

    def add(self, rows: slice) -> None:
        """Show, click and credit a chunk of impressions."""
        queries = self._queries[rows]
        numbers = np.arange(rows.start, rows.stop, dtype=np.uint64)
        keys = streams(self._lists, numbers)
        lists = self._stage.compose(queries, keys, self._settings)
        impressions, grades = self._stage.look_up(queries, lists, keys if self._needs_unshown else None)
        clicks = self._clicks(queries, lists, grades, streams(self._people, numbers))
        self.gain += self._stage.ndcg_of(queries, grades).sum()
        arguments = (self._run.chosen, self.scheme, impressions, lists.counts, clicks, 1)
        if self.scheme.form.linear:
            self._credit += score_columns(self.scheme.form, *batch.credit_known(*arguments)).sum(axis=0)
        else:
            self._pairs += batch.preferences(*arguments).sum(axis=0)

    def _clicks(self, queries: Array, lists: batch.DrawnLists, grades: Array, keys: Array) -> Array:
        """The clicks: by the grades of the data if the model has a table of grades, else by documents."""
        model, data = self._run.clicks, self._run.data
        if isinstance(model, (Cascade, PositionBased)):
            return model.sample_batch(grades, lists.counts, keys)
        shown = [
            data.documents[start + numbers[:count]].tolist()
            for start, numbers, count in zip(data.offsets[queries], lists.shown, lists.counts, strict=True)
        ]
        return model.sample_lists(shown, keys, grades.shape[1])

    def note_errors(self) -> None:
        """Append the preferences so far, and the share of pairs whose sign differs from that of each truth."""
        sums = self._pairs + (self._credit[:, None] - self._credit[None, :])
        self.preferences.append(sums)
        signs = np.sign(np.where(np.abs(sums) <= TOLERANCE * max(1.0, np.abs(sums).max()), 0.0, sums))
        pairs = ~np.eye(len(signs), dtype=bool)
        truths = [np.sign(truth[:, None] - truth[None, :]) for truth in self.truths]
        self.errors.append([float((signs != truth)[pairs].mean()) for truth in truths])
