"""Draws for simulated people, all of them from keyed chance: streams numbered under one key, and real numbers.

A stream of its own for each unit and each page makes a world the same whatever the batches and threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from interleaf.chance import MOST_CHOICES, Chance, bytes_of, key_of, pick
from interleaf.compiled import part
from interleaf.methods.arrays import Array

MOST_PAGES = 16  # a session has
MOST_VISITS = 2**20  # a unit makes


def words_of(key: Any) -> Array:
    """The two words of a key, from which numbered streams follow."""
    return np.frombuffer(bytes_of(key_of(key)), "<u8")


def streams(words: Array, numbers: Array) -> Array:
    """`[row, 2]`, the chance keys of numbered streams: one word is the key's own, the other is moved by the number."""
    keys = np.empty((len(numbers), 2), np.uint64)
    keys[:, 0], keys[:, 1] = words[0], words[1] + numbers.astype(np.uint64)
    return keys


def page_numbers(units: Array, visits: Array, steps: Array) -> Array:
    """A number of its own for each page of each visit of each unit."""
    return (units * MOST_VISITS + visits) * MOST_PAGES + steps


@part
def uniform(chance: Chance) -> float:
    """Between 0 and 1, never either."""
    return (pick(chance, MOST_CHOICES) + 0.5) / MOST_CHOICES


@part
def normal(chance: Chance) -> float:
    """Standard normal, by Box and Muller."""
    radius = math.sqrt(-2 * math.log(uniform(chance)))
    return radius * math.cos(2 * math.pi * uniform(chance))


@part
def around(chance: Chance, median: float, spread: float) -> float:
    """Log-normal about a median."""
    return median * math.exp(spread * normal(chance))
