"""A number, or the reason that there is none."""

from __future__ import annotations

from dataclasses import dataclass

Interval = tuple[float, float]


@dataclass(frozen=True)
class Figure:
    """A computed number; `value` is None where there is none, and `reason` says why."""

    value: float | None
    reason: str = ""
