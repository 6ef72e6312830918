"""Exact distributions over click patterns (a 0 or 1 for each position of a shown list)."""

from collections.abc import Collection, Sequence
from fractions import Fraction
from itertools import product

from .forms import Doc, Ranking

Pattern = tuple[int, ...]
Patterns = dict[Pattern, Fraction]


def cascade(
    grades: Sequence[int], click: Sequence[Fraction], stop: Sequence[Fraction], stop_needs_click: bool = True
) -> Patterns:
    """Dependent click model (H11, section 5.1; O17, section 6.3): scan from the top, click, perhaps stop.

    `click` and `stop` are probabilities by grade; without `stop_needs_click` an unclicked document can stop it, too.
    """
    patterns: Patterns = {}

    def finish(pattern: Pattern, probability: Fraction) -> None:
        padded = pattern + (0,) * (len(grades) - len(pattern))
        patterns[padded] = patterns.get(padded, Fraction(0)) + probability

    def scan(pattern: Pattern, probability: Fraction) -> None:
        if len(pattern) == len(grades):
            finish(pattern, probability)
            return
        grade = grades[len(pattern)]
        for clicked, chance in ((1, Fraction(click[grade])), (0, 1 - Fraction(click[grade]))):
            stopping = Fraction(stop[grade]) if clicked or not stop_needs_click else Fraction(0)
            finish((*pattern, clicked), probability * chance * stopping)
            scan((*pattern, clicked), probability * chance * (1 - stopping))

    scan((), Fraction(1))
    return _possible(patterns)


def position_based(examination: Sequence[Fraction], attraction: Sequence[Fraction]) -> Patterns:
    """A document is clicked, independently, if its position is examined and it attracts."""
    return independent([Fraction(seen) * Fraction(liked) for seen, liked in zip(examination, attraction, strict=True)])


def independent(probabilities: Sequence[Fraction]) -> Patterns:
    """Every position is clicked with its own probability, independently of the others."""
    patterns: Patterns = {}
    for pattern in product((0, 1), repeat=len(probabilities)):
        chance = Fraction(1)
        for clicked, probability in zip(pattern, probabilities, strict=True):
            chance *= Fraction(probability) if clicked else 1 - Fraction(probability)
        patterns[pattern] = chance
    return _possible(patterns)


def intents(shown: Ranking, shares: Sequence[tuple[Fraction, Collection[Doc]]]) -> Patterns:
    """A user with an intent clicks once, on the first shown document he wants (C12, section 3.2); else on nothing."""
    patterns: Patterns = {}
    for share, wanted in shares:
        found = [position for position, document in enumerate(shown) if document in wanted]
        pattern = tuple(int(position in found[:1]) for position in range(len(shown)))
        patterns[pattern] = patterns.get(pattern, Fraction(0)) + Fraction(share)
    return _possible(patterns)


def single_uniform(length: int) -> Patterns:
    """Exactly one click, at any position with equal probability."""
    return single_weighted([Fraction(1)] * length)


def single_weighted(weights: Sequence[Fraction]) -> Patterns:
    """Exactly one click, at a position with probability proportional to its weight; none on an empty list."""
    length = len(weights)
    if not length:
        return {(): Fraction(1)}
    total = sum((Fraction(weight) for weight in weights), Fraction(0))
    single = {
        tuple(int(i == position) for i in range(length)): Fraction(weights[position]) / total
        for position in range(length)
    }
    return _possible(single)


def _possible(patterns: Patterns) -> Patterns:
    """Only what can happen."""
    return {pattern: chance for pattern, chance in patterns.items() if chance}
