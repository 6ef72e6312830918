"""Impressions put together into sessions: rows wait, by unit and on disk where they are many, until all are there.

C12, section 9: queries of a unit whose gap to the one before is below the timeout are scored as one, their counts added
up first. C12's metrics of sessions count a gap from the last interaction, a query or a click.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from interleaf import buckets
from interleaf.decode import INTERLEAVED
from interleaf.engines.work import Part
from interleaf.methods.arrays import Array
from interleaf.score import formed
from interleaf.tally import Tally
from interleaf.tally.pages import FOLLOWED, SESSIONS

ROOM = 500_000  # rows held in memory
PARTS = 64


class Waiting:
    """The rows of one tally, until its sessions can be told."""

    def __init__(self, tally: Tally, timeout: float) -> None:
        self._tally, self._timeout = tally, round(timeout * 1e6)
        self._kind = np.dtype(
            [
                *(("unit", "u8"), ("time", "i8"), ("end", "i8"), ("arm", "i2"), ("clicked", "?"), ("credited", "f8")),
                ("credits", "f8", (len(tally.about.rankers),)),
            ]
        )
        self._rows: list[Array] = []
        self._held = 0
        self._folder: TemporaryDirectory[str] | None = None

    def add(self, part: Part) -> None:
        """Let the rows of a part wait."""
        decoded, scored = part.decoded, part.scored
        rows = np.zeros(len(decoded.rows), self._kind)
        rows["unit"], rows["time"], rows["end"] = decoded.unit, decoded.time, decoded.clicks.end
        rows["arm"] = self._tally.number_of(decoded.design.arm)
        rows["clicked"] = decoded.has_event
        if scored is not None:
            rows["credits"], rows["credited"] = scored.columns, scored.credited
        self._rows.append(rows)
        self._held += len(rows)
        if self._held > ROOM:
            self._spill()

    def close(self) -> None:
        """Count all sessions into the tally."""
        try:
            for rows in self._parts():
                self._count(rows[np.lexsort((rows["time"], rows["unit"]))])
        finally:
            if self._folder is not None:
                self._folder.cleanup()

    def _spill(self) -> None:
        """Rows to the file of their units; a unit is never in two of them."""
        self._folder = self._folder or TemporaryDirectory(prefix="interleaf-")
        for number, rows in enumerate(self._split()):
            with open(Path(self._folder.name) / str(number), "ab") as file:
                rows.tofile(file)

    def _split(self) -> Iterator[Array]:
        rows = np.concatenate(self._rows) if self._rows else np.zeros(0, self._kind)
        self._rows, self._held = [], 0
        part = buckets.buckets(rows["unit"]) % PARTS
        yield from (rows[part == number] for number in range(PARTS))

    def _parts(self) -> Iterator[Array]:
        for number, rows in enumerate(self._split()):
            path = Path(self._folder.name) / str(number) if self._folder else None
            spilled = [np.fromfile(path, self._kind)] if path and path.exists() else []
            yield np.concatenate([rows, *spilled])

    def _count(self, rows: Array) -> None:
        if not len(rows):
            return
        names = list(self._tally.arms)
        self._count_visits(rows, names)
        scored = rows[rows["arm"] == names.index(INTERLEAVED)] if INTERLEAVED in names else rows[:0]
        if not len(scored):
            return
        starts = np.flatnonzero(_opens(scored["unit"], np.diff(scored["time"]), self._timeout))
        columns = formed(
            np.add.reduceat(scored["credits"], starts),
            np.add.reduceat(scored["credited"], starts),
            self._tally.about.scheme,
        )
        clicked = np.logical_or.reduceat(scored["clicked"], starts)
        self._tally.add_scores(scored["unit"][starts], scored["time"][starts], clicked, columns)

    def _count_visits(self, rows: Array, names: list[str]) -> None:
        """Sessions, and queries that another one of the session follows, by arm."""
        opens = _opens(rows["unit"], rows["time"][1:] - rows["end"][:-1], self._timeout)
        followed = np.append(~opens[1:], False)
        found = buckets.buckets(rows["unit"])
        for number, name in enumerate(names):
            of_arm = rows["arm"] == number
            for column, marked in ((SESSIONS, opens), (FOLLOWED, followed)):
                np.add.at(self._tally.arms[name].sessions[:, column], found[of_arm & marked], 1)


def _opens(unit: Array, gaps: Array, timeout: int) -> Array:
    """Which rows, in the order of unit and time, begin a session."""
    opens = np.ones(len(unit), np.bool_)
    opens[1:] = (unit[1:] != unit[:-1]) | (gaps >= timeout)
    return opens
