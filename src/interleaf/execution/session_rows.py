"""Joins impressions to sessions, to score them or to count them by arm.

Rows are held until the whole log is read, on disk if there are many.

C12, section 9: queries of a unit are scored as one session if the gap to the query before is below the timeout; their
clicks are added up first. C12's metrics of sessions measure a gap from the last interaction, a query or a click.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from interleaf.execution.task import ScoredPart
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array
from interleaf.log.schema import INTERLEAVED
from interleaf.methods.loops import score_columns
from interleaf.methods.registry import resolve
from interleaf.methods.schemes import scheme_of
from interleaf.tally import Tally
from interleaf.tally.page_sums import FOLLOWED, SESSIONS, ArmSums

ROOM = 500_000  # rows held in memory
PARTS = 64


class SessionRows:
    """Holds the rows of all arms of an experiment until the log is read.

    Rankers are sorted by name; there are none if sessions are counted and not scored.
    """

    def __init__(self, rankers: Sequence[str]) -> None:
        self._rankers = list(rankers)
        self._kind = np.dtype(
            [
                *(("unit", "u8"), ("time", "i8"), ("end", "i8"), ("arm", "i2"), ("composed", "i2")),
                *(("clicked", "?"), ("counted", "?"), ("credited", "f8")),
                *((name, "f8", (len(self._rankers),)) for name in ("credits", "owners")),
            ]
        )
        self._numbers: dict[str, int] = {}  # of arms and methods
        self._rows: list[Array] = []
        self._rows_in_memory = 0
        self._folder: TemporaryDirectory[str] | None = None

    def add(self, part: ScoredPart, *, is_counted: bool = True) -> None:
        """Add rows; those that are not counted only say whether a later search continues their session."""
        decoded, scored = part.decoded, part.scored
        if not len(decoded.rows):  # all of them were dropped
            return
        rows = np.zeros(len(decoded.rows), self._kind)
        rows["unit"], rows["time"], rows["end"] = decoded.unit, decoded.time, decoded.clicks.end
        rows["arm"] = self._number(part.arm)
        rows["clicked"], rows["counted"] = decoded.has_event, is_counted
        if scored is not None:
            rows["composed"] = self._number(resolve(decoded.design.method).text)
            order = [decoded.design.rankers.index(ranker) for ranker in self._rankers]
            rows["credits"], rows["credited"] = scored.columns[:, order], scored.credited
            rows["owners"] = (scored.columns if scored.owners is None else scored.owners)[:, order]
        self._keep(rows)

    def _keep(self, rows: Array) -> None:
        self._rows.append(rows)
        self._rows_in_memory += len(rows)
        if self._rows_in_memory > ROOM:  # append the rows to files; all rows of a unit go to the same file
            self._folder = self._folder or TemporaryDirectory(prefix="interleaf-")
            for number, part in enumerate(self._split()):
                with open(Path(self._folder.name) / str(number), "ab") as file:
                    part.tofile(file)

    def take(self, names: Sequence[str], rows: Array) -> None:
        """Add rows that another object held, with the names of their arms and methods."""
        numbers = np.array([self._number(name) for name in names], np.int16)
        rows = rows.copy()
        for column in ("arm", "composed"):
            rows[column] = numbers[rows[column]]
        self._keep(rows)

    def parts(self) -> Iterator[tuple[list[str], Array]]:
        """All rows, with the names of their arms and methods, in parts that share no unit. Afterwards none is held."""
        try:
            for number, rows in enumerate(self._split()):
                path = Path(self._folder.name) / str(number) if self._folder else None
                spilled = [np.fromfile(path, self._kind)] if path and path.exists() else []
                yield list(self._numbers), np.concatenate([rows, *spilled])
        finally:
            if self._folder is not None:
                self._folder.cleanup()

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def count(self, tallies: Sequence[Tally], timeout: float) -> None:
        """Add all sessions to the tallies: those of every arm, and scores of lists that the tally's method composed."""
        gap = round(timeout * 1e6)
        for _, rows in self.parts():
            rows = rows[np.lexsort((rows["time"], rows["unit"]))]
            for tally, name in ((one, arm) for one in tallies for arm in one.arms):
                of_arm = rows[rows["arm"] == self._number(name)]
                if name == INTERLEAVED and tally.about.composed:
                    of_arm = of_arm[of_arm["composed"] == self._number(tally.about.composed)]
                    if tally.about.sessions is not None:
                        self._count_scores(of_arm, tally, gap)
                _count_visits(of_arm, tally.arms[name], gap)

    def _split(self) -> Iterator[Array]:
        rows = np.concatenate(self._rows) if self._rows else np.zeros(0, self._kind)
        self._rows, self._rows_in_memory = [], 0
        part = buckets.buckets(rows["unit"]) % PARTS
        yield from (rows[part == number] for number in range(PARTS))

    def _count_scores(self, rows: Array, tally: Tally, timeout: int) -> None:
        if not len(rows):
            return
        starts = np.flatnonzero(_opens(rows["unit"], np.diff(rows["time"]), timeout))
        order = [self._rankers.index(ranker) for ranker in tally.about.rankers]
        credits, owners = (np.add.reduceat(rows[name][:, order], starts) for name in ("credits", "owners"))
        form, credited = scheme_of(tally.about.scheme).form, np.add.reduceat(rows["credited"], starts)
        clicked = np.logical_or.reduceat(rows["clicked"], starts)
        columns = score_columns(form, credits, credited)
        tally.add_scores(rows["unit"][starts], rows["time"][starts], clicked, columns, owners)


def _count_visits(rows: Array, arm: ArmSums, timeout: int) -> None:
    """Count the sessions of an arm, and queries that are followed by another query of the session.

    Each query that follows another one is counted; the query before it belongs to the same unit, and so to its bucket.
    """
    rows = rows[np.lexsort((rows["end"], rows["time"], rows["unit"]))]  # so that the order of the log does not matter
    opens, is_counted = _opens(rows["unit"], rows["time"][1:] - rows["end"][:-1], timeout), rows["counted"]
    bucket = buckets.buckets(rows["unit"])
    for column, marked in ((SESSIONS, opens & is_counted), (FOLLOWED, ~opens & is_counted)):
        np.add.at(arm.sessions[:, column], bucket[marked], 1)


def _opens(unit: Array, gaps: Array, timeout: int) -> Array:
    """Which rows, sorted by unit and time, begin a session."""
    opens = np.ones(len(unit), np.bool_)
    opens[1:] = (unit[1:] != unit[:-1]) | (gaps >= timeout)
    return opens
