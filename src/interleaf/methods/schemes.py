"""From credit to preference: the three forms a scheme can take, for every method alike.

`click` is the difference of credit, `normalized` the same with credit divided by the number of credited clicks,
`binary` the sign of the difference. Credit sums that are equal on paper may differ in their last digit, so a sign is
only taken above a tolerance, a share of the credit itself; exact arithmetic passes zero.
"""

from __future__ import annotations

from typing import Any

from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import inline_kernel, kernel

BINARY, CLICK, NORMALIZED = 0, 1, 2
TOLERANCE = 1e-9


@kernel
def prefer(credit: Array, credited: int, form: int, tolerance: Any, preference: Array) -> None:
    """Write the preference of each pair of rankers; a normalized scheme divides the credit itself, too."""
    _prefer(credit, credited, form, tolerance, preference)


@inline_kernel
def _prefer(credit: Array, credited: int, form: int, tolerance: Any, preference: Array) -> None:
    if form == NORMALIZED and credited > 0:
        for ranker in range(len(credit)):
            credit[ranker] /= credited
    for one in range(len(credit)):
        for other in range(one):
            difference = credit[one] - credit[other]
            if form == BINARY:
                difference = sign(difference, tolerance * max(abs(credit[one]), abs(credit[other])))
            preference[one, other] = difference
            preference[other, one] = 0 - difference


@inline_kernel
def sign(number: Any, tolerance: Any) -> int:
    """1, 0 or -1, with everything within the tolerance of zero taken as zero."""
    if number > tolerance:
        return 1
    if number < -tolerance:
        return -1
    return 0


@kernel
def prefer_batch(credits: Array, credited: Array, form: int, tolerance: Any, preferences: Array) -> None:
    for row in range(len(credited)):
        _prefer(credits[row], credited[row], form, tolerance, preferences[row])
