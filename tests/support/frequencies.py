"""Frequencies of a sample against the exact probabilities of its values."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from typing import TypeVar

Value = TypeVar("Value", bound=Hashable)


def check_frequencies(sample: Iterable[Value], chances: Mapping[Value, Fraction], max_deviations: float = 4.5) -> None:
    """Fail if a value is too frequent or too rare by more than this many standard deviations, or cannot happen."""
    counts = Counter(sample)
    size = counts.total()
    assert sum(chances.values()) == 1
    assert {value for value in counts if not chances.get(value)} == set()
    for value, chance in chances.items():
        deviation = (float(chance * (1 - chance)) * size) ** 0.5
        assert abs(counts[value] - size * float(chance)) <= max_deviations * deviation + 1e-6, value
