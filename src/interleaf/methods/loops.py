"""Compiled loops that all methods share: batches of lists, batches of credit, and preferences for each scheme form."""

from __future__ import annotations

from functools import cache
from typing import Any
from zlib import crc32

import numpy as np

from interleaf.kernels.arrays import Array, DrawnLists, EncodedRankings, Impression
from interleaf.kernels.jit import impression_at, inline_kernel, kernel, plain, rankings_at, reseed
from interleaf.methods.schemes import TOLERANCE, SchemeForm


def kernel_around(inner: Any, loop: Any, label: str = "") -> Any:
    """Compile a loop around a function; the cached file is named after both, so that each pair has its own."""
    inner = plain(inner)
    source = crc32(inner.__code__.co_filename.encode())
    loop.__qualname__ = f"{loop.__name__}.{inner.__module__}.{inner.__qualname__}.{label}{source:08x}"
    return kernel(loop)


@inline_kernel
def _same_settings(settings: Any, query: int) -> Any:
    return settings


@cache
def compose_batch(compose: Any, settings_at: Any = None) -> Any:
    """A kernel that composes a list for each row: the rankings of `queries[row]`, and the key in `keys[row]`.

    `settings_at(settings, query)` are the settings of one query, if they differ.
    """
    settings_at = settings_at or _same_settings

    def compose_batch(
        encoded: EncodedRankings, queries: Array, keys: Array, k: int, lists: DrawnLists, settings: Any
    ) -> None:
        randomness: Any = np.zeros(3, np.uint64)
        for row in range(len(queries)):
            reseed(randomness, keys, row)
            rankings, own = rankings_at(encoded, queries[row]), settings_at(settings, queries[row])
            lists.counts[row] = compose(rankings, k, randomness, lists.shown[row], lists.teams[row], own)

    return kernel_around(compose, compose_batch)


@cache
def credit_batch(credit: Any) -> Any:
    """A kernel that credits the clicks on each row."""

    def credit_batch(
        lists: Impression, counts: Array, clicks: Array, variant: int, credits: Array, credited: Array, settings: Any
    ) -> None:
        for row in range(len(counts)):
            impression = impression_at(lists, row, counts[row])
            credited[row] = credit(impression, clicks[row, : counts[row]], variant, credits[row], settings)

    return kernel_around(credit, credit_batch)


@cache
def expected_sign_batch(expected_sign: Any) -> Any:
    """A kernel that writes the expected signs of each row."""

    def expected_sign_batch(lists: Impression, counts: Array, clicks: Array, preferences: Array, settings: Any) -> None:
        for row in range(len(counts)):
            expected_sign(impression_at(lists, row, counts[row]), clicks[row], preferences[row], settings)

    return kernel_around(expected_sign, expected_sign_batch)


@cache
def prefer(form: SchemeForm) -> Any:
    """A kernel that divides the credit if the form does so, and writes the preference of each pair of rankers."""
    compare, divides = inline_kernel(form.compare), form.divides

    def prefer(credit: Array, credited: int, tolerance: Any, preference: Array) -> None:
        if divides and credited > 0:
            for ranker in range(len(credit)):
                credit[ranker] /= credited
        for one in range(len(credit)):
            for other in range(one):
                value = compare(credit[one], credit[other], tolerance)
                preference[one, other] = value
                preference[other, one] = 0 - value

    return kernel_around(form.compare, prefer, form.name)


@cache
def prefer_batch(form: SchemeForm) -> Any:
    """A kernel that does the same for each row."""
    prefer_row = prefer(form)

    def prefer_batch(credits: Array, credited: Array, tolerance: float, preferences: Array) -> None:
        for row in range(len(credits)):
            prefer_row(credits[row], credited[row], tolerance, preferences[row])

    return kernel_around(form.compare, prefer_batch, form.name)


def score_columns(form: SchemeForm, credits: Array, credited: Array) -> Array:
    """Scores `[row, column]` from credit `[row, ranker]`: a column per ranker if the form is linear, else per pair."""
    if form.divides:
        credits = credits / np.where(credited > 0, credited, 1)[:, None]
    if form.linear:
        return credits
    rankers = credits.shape[1]
    columns = np.zeros((len(credits), rankers * (rankers - 1) // 2))
    _compare_pairs(form)(credits, TOLERANCE, columns)
    return columns


@cache
def _compare_pairs(form: SchemeForm) -> Any:
    compare = inline_kernel(form.compare)

    def compare_pairs(credits: Array, tolerance: float, columns: Array) -> None:
        for row in range(len(credits)):
            pair = 0
            for one in range(credits.shape[1]):
                for other in range(one + 1, credits.shape[1]):
                    columns[row, pair] = compare(credits[row, one], credits[row, other], tolerance)
                    pair += 1

    return kernel_around(form.compare, compare_pairs, form.name)
