"""Many impressions at once: the kernels' batch loops over chunks of rows, in plain threads.

Kernels let go of the interpreter lock, so threads do; numba's own parallel loops do not survive a fork, and servers
fork. Rows do not know of each other, so results depend on neither threads nor chunks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array, EncodedRankings, Impression
from interleaf.methods import schemes
from interleaf.methods.registry import ResolvedMethod, Scheme

CHUNK = 4096


class DrawnLists(NamedTuple):
    """What was shown: document numbers `shown[row, position]`, their teams, and how many `counts[row]` there are."""

    shown: Array
    teams: Array
    counts: Array


def compose(
    chosen: ResolvedMethod, given: EncodedRankings, settings: Any, queries: Array, keys: Array, k: int, threads: int = 0
) -> DrawnLists:
    """A list for each row: from the rankings of query `queries[row]`, by the chance of the two words `keys[row]`."""
    rows = len(queries)
    lists = DrawnLists(np.full((rows, k), -1, np.int32), np.full((rows, k), -1, np.int8), np.zeros(rows, np.int64))
    kernel = chosen.method.kernels.compose_batch

    def run(part: slice) -> None:
        shown, teams, counts = (array[part] for array in lists)
        kernel(given, queries[part], keys[part], k, shown, teams, counts, _own(settings))

    _in_threads(run, rows, threads)
    return lists


def credit(
    chosen: ResolvedMethod, scheme: Scheme, impressions: Impression, counts: Array, clicks: Array, threads: int = 0
) -> tuple[Array, Array]:
    """Each ranker's credit, `[row, ranker]`, and how many clicks were credited; the cost grows with the rankers."""
    rows, rankers, _ = impressions.ranks.shape
    credits, credited = np.zeros((rows, rankers)), np.zeros(rows, np.int64)
    kernel, settings = chosen.method.kernels.credit_batch, _settings(chosen, impressions)

    def run(part: slice) -> None:
        some = Impression(*(array[part] for array in impressions))
        kernel(some, counts[part], clicks[part], scheme.variant, credits[part], credited[part], _own(settings))

    _in_threads(run, rows, threads)
    return credits, credited


def preferences(
    chosen: ResolvedMethod, scheme: Scheme, impressions: Impression, counts: Array, clicks: Array, threads: int = 0
) -> Array:
    """The preference of each pair of rankers, `[row, ranker, ranker]`; the cost grows with their square."""
    rows, rankers, _ = impressions.ranks.shape
    found = np.zeros((rows, rankers, rankers))
    kernel, settings = chosen.method.kernels.expected_sign_batch, _settings(chosen, impressions)
    if scheme.form != schemes.BINARY or kernel is None:
        credits, credited = credit(chosen, scheme, impressions, counts, clicks, threads)

    def run(part: slice) -> None:
        if scheme.form == schemes.BINARY and kernel is not None:
            some = Impression(*(array[part] for array in impressions))
            kernel(some, counts[part], clicks[part], found[part], _own(settings))
        else:
            schemes.prefer_batch(credits[part], credited[part], scheme.form, schemes.TOLERANCE, found[part])

    _in_threads(run, rows, threads)
    return found


def _settings(chosen: ResolvedMethod, impressions: Impression) -> Any:
    return chosen.method.kernels.settings((int(impressions.lengths.max()),), chosen.parameters, False)


def _own(settings: Any) -> Any:
    """Settings with arrays of their own: some are room to work in, which threads must not share."""
    return type(settings)(*(value.copy() if isinstance(value, np.ndarray) else value for value in settings))


def _in_threads(run: Callable[[slice], None], rows: int, threads: int) -> None:
    parts = [slice(start, start + CHUNK) for start in range(0, rows, CHUNK)]
    if threads == 1 or len(parts) == 1:
        for part in parts:
            run(part)
        return
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        list(pool.map(run, parts))
