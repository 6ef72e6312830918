"""Results by pattern: how many looked exactly alike, and how many of them were clicked. Patterns of parts add up.

Features have two or three values, so a log of millions of results holds far fewer patterns: the model is fitted to
those, and gives the same weights. A pattern is packed into a few 64-bit words, two bits a feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from interleaf.engines.groups import grouped
from interleaf.methods.arrays import Array
from interleaf.refine.caption.features import FIRST

_BITS, _PER_WORD = 2, 32
_MASK = np.uint64(3)


@dataclass(frozen=True, eq=False)
class Patterns:
    """`codes[pattern]` (position, grade, features) of `rows[pattern]` results, `clicks[pattern]` of them clicked."""

    codes: Array
    rows: Array
    clicks: Array

    @classmethod
    def of(cls, codes: Array, clicked: Array) -> Patterns:
        """The patterns of results, one code a result."""
        return cls(*_grouped(codes, np.ones(len(codes), np.int64), clicked.astype(np.int64)))

    def __add__(self, other: Patterns) -> Patterns:
        return Patterns(*_grouped(*(np.concatenate(parts) for parts in zip(self._parts, other._parts, strict=True))))

    @property
    def _parts(self) -> tuple[Array, Array, Array]:
        return self.codes, self.rows, self.clicks

    def only(self, features: Sequence[int]) -> Patterns:
        """With these features alone: fewer patterns."""
        return Patterns(*_grouped(self.codes[:, [*range(FIRST), *(FIRST + one for one in features)]], *self._parts[1:]))

    def ordered(self) -> Patterns:
        """In an order of their own, so that fits to them are the same, however the results came."""
        order = np.lexsort(_packed(self.codes))
        return Patterns(*(part[order] for part in self._parts))

    def __len__(self) -> int:
        return len(self.rows)


def _grouped(codes: Array, rows: Array, clicks: Array) -> tuple[Array, Array, Array]:
    words = _packed(codes)
    *keys, rows, clicks = grouped(words, [(rows, "sum"), (clicks, "sum")])
    return _unpacked(keys, codes.shape[1]), rows, clicks


def _packed(codes: Array) -> list[Array]:
    """Position and grade in a word of their own, then 32 features a word."""
    words = [codes[:, 0].astype(np.uint64) | codes[:, 1].astype(np.uint64) << np.uint64(8)]
    for start in range(FIRST, codes.shape[1], _PER_WORD):
        word = np.zeros(len(codes), np.uint64)
        for place in range(min(_PER_WORD, codes.shape[1] - start)):
            word |= (codes[:, start + place] + 1).astype(np.uint64) << np.uint64(_BITS * place)
        words.append(word)
    return words


def _unpacked(words: Sequence[Array], columns: int) -> Array:
    codes = np.zeros((len(words[0]), columns), np.int8)
    codes[:, 0], codes[:, 1] = words[0] & np.uint64(0xFF), words[0] >> np.uint64(8)
    for column in range(FIRST, columns):
        word, place = divmod(column - FIRST, _PER_WORD)
        codes[:, column] = (words[1 + word] >> np.uint64(_BITS * place) & _MASK).astype(np.int8) - 1
    return codes
