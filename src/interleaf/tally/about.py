"""What a tally is of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """What a tally is of: two tallies can be added if they agree in it, but for the order of rankers.

    `composed` is the method of the interleaved lists ('' while there are none), `method` the one that scored them.
    """

    experiment: str
    version: int
    rankers: tuple[str, ...]
    composed: str
    method: str
    scheme: str
    events: str
    sessions: float | None
    linear: bool
