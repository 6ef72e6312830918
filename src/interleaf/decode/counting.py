"""Which events count, and for how much."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from interleaf.errors import DataError


@dataclass(frozen=True)
class Counting:
    """Kinds of events with their weights, and what an event must be to count.

    `dwell`: at least so many seconds (an event that does not say does not count). `first`: only the earliest counted
    event of an impression. `window`: not later than so many seconds after the list was shown.

    >>> print(Counting({"click": 1, "purchase": 5}, dwell=30))
    click + 5 purchase, dwell at least 30 s
    """

    kinds: str | Mapping[str, float] = "click"
    dwell: float | None = None
    first: bool = False
    window: float | None = None

    def __post_init__(self) -> None:
        for kind, weight in self.weights.items():
            if not isinstance(kind, str) or not kind:
                raise DataError(f"a kind of event is a word such as 'click', not {kind!r}")
            if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < abs(weight) < math.inf:
                raise DataError(f"the weight of {kind!r} is {weight!r}; give a number other than 0")
        if not self.weights:
            raise DataError("no kind of event is named; name at least one, such as 'click'")
        for name, seconds in (("dwell", self.dwell), ("window", self.window)):
            if seconds is not None and not 0 < seconds < math.inf:
                raise DataError(f"{name} is {seconds!r}; give seconds above 0, or leave it out")

    @cached_property
    def weights(self) -> dict[str, float]:
        """The kinds that count, each with its weight, in the order of their names."""
        return {self.kinds: 1.0} if isinstance(self.kinds, str) else dict(sorted(self.kinds.items()))

    def __str__(self) -> str:
        parts = [" + ".join(kind if weight == 1 else f"{weight:g} {kind}" for kind, weight in self.weights.items())]
        parts += [f"dwell at least {self.dwell:g} s"] if self.dwell is not None else []
        parts += ["the first of an impression"] if self.first else []
        parts += [f"within {self.window:g} s"] if self.window is not None else []
        return ", ".join(parts)
