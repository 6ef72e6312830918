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

from interleaf.methods import forms
from interleaf.methods.arrays import Array, Given, Impression
from interleaf.methods.table import Chosen, Scheme

CHUNK = 4096


class Lists(NamedTuple):
    """What was shown: document numbers `shown[row, position]`, their teams, and how many `counts[row]` there are."""

    shown: Array
    teams: Array
    counts: Array


def compose(
    chosen: Chosen, given: Given, settings: Any, queries: Array, keys: Array, k: int, threads: int = 0
) -> Lists:
    """A list for each row: from the rankings of query `queries[row]`, by the chance of the two words `keys[row]`."""
    rows = len(queries)
    lists = Lists(np.full((rows, k), -1, np.int32), np.full((rows, k), -1, np.int8), np.zeros(rows, np.int64))
    kernel = chosen.method.kernels.compose_batch

    def run(part: slice) -> None:
        shown, teams, counts = (array[part] for array in lists)
        kernel(given, queries[part], keys[part], k, shown, teams, counts, _own(settings))

    _in_threads(run, rows, threads)
    return lists


def credit(
    chosen: Chosen, scheme: Scheme, impressions: Impression, counts: Array, clicks: Array, threads: int = 0
) -> tuple[Array, Array]:
    """Each ranker's credit, `[row, ranker]`, and the preference of each pair, `[row, ranker, ranker]`."""
    rows, rankers, _ = impressions.ranks.shape
    credits, preferences = np.zeros((rows, rankers)), np.zeros((rows, rankers, rankers))
    credited = np.zeros(rows, np.int64)
    kernels = chosen.method.kernels
    settings = kernels.settings((int(impressions.lengths.max()),), chosen.parameters, False)

    def run(part: slice) -> None:
        own, some = _own(settings), Impression(*(array[part] for array in impressions))
        kernels.credit_batch(some, counts[part], clicks[part], scheme.variant, credits[part], credited[part], own)
        if scheme.form == forms.BINARY and kernels.expected_sign_batch is not None:
            kernels.expected_sign_batch(some, counts[part], clicks[part], preferences[part], own)
        else:
            forms.prefer_batch(credits[part], credited[part], scheme.form, forms.TOLERANCE, preferences[part])

    _in_threads(run, rows, threads)
    return credits, preferences


def _own(settings: Any) -> Any:
    """Settings with arrays of their own: some are room to work in, which threads must not share."""
    return type(settings)(*(value.copy() if isinstance(value, np.ndarray) else value for value in settings))


def _in_threads(run: Callable[[slice], None], rows: int, threads: int) -> None:
    parts = [slice(start, start + CHUNK) for start in range(0, rows, CHUNK)]
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        list(pool.map(run, parts))
