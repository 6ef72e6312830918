"""Schemes: how the credit of the rankers becomes a preference for each pair. All forms are declared here.

A scheme is named after its form and, after a "_", its variant of counting clicks: `binary`, `click_deduped`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

TOLERANCE = 1e-9  # a share of the credit; sums that should be equal may differ in their last digit
VARIANTS = ("", "direct", "deduped", "list", "place")  # kernels get the index of the variant
DIRECT, DEDUPED = 1, 2
LEARNED, CROSS_FITTED = "learned ", ", cross-fitted"  # a scheme on learned credit: how its name starts, and may end


@dataclass(frozen=True, eq=False)  # compared and hashed by identity, which is faster
class SchemeForm:
    """One way to turn credit into preferences.

    `compare(first, second, tolerance)` is the preference of one ranker over another, given the credit of both; it is
    compiled, and runs on fractions with tolerance 0. `divides`: credit is divided by the number of credited clicks
    first. `linear`: `compare` is the difference, so a tally needs one sum per ranker instead of one per pair.
    `takes_expected_sign`: a method with an `expected_sign` kernel uses it instead of `compare`.
    """

    name: str
    compare: Callable[[Any, Any, Any], Any]
    linear: bool
    divides: bool
    takes_expected_sign: bool = False

    @property
    def adds_up(self) -> bool:
        """Whether a preference is the sum of what each click adds, so that a click can count by its value."""
        return self.linear and not self.divides


def difference(first: Any, second: Any, tolerance: Any) -> Any:
    return first - second


def sign(first: Any, second: Any, tolerance: Any) -> int:
    """1, 0 or -1; a difference within the tolerance counts as zero."""
    margin = tolerance * max(abs(first), abs(second))
    if first - second > margin:
        return 1
    if first - second < -margin:
        return -1
    return 0


FORMS = {
    form.name: form
    for form in (
        SchemeForm("binary", sign, linear=False, divides=False, takes_expected_sign=True),
        SchemeForm("click", difference, linear=True, divides=False),
        SchemeForm("normalized", difference, linear=True, divides=True),
    )
}


@dataclass(frozen=True)
class Scheme:
    """A form, applied to clicks counted in one variant."""

    name: str
    form: SchemeForm
    variant: int


@lru_cache(maxsize=64)
def scheme_of(name: str) -> Scheme:
    """The scheme with this name, for any method; KeyError or ValueError if there is none."""
    form, _, variant = name.partition("_")
    return Scheme(name, FORMS[form], VARIANTS.index(variant))
