"""How the experiment stands, in a line that is written over on a terminal, and now and then in a pipe."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

from interleaf.render.figures import signed, span
from interleaf.report.report import Report

PIPED = 5.0  # seconds between two lines in a pipe


def line_of(report: Report | None) -> str:
    """Whom people prefer so far, by how much, and how many came; the first words matter most: a line may be cut."""
    if report is None:
        return "Nobody has searched yet."
    came = f"{report.totals.units:,} people, {report.totals.impressions:,} lists"
    if not report.verdict.trusted:
        return f"Do not trust this: {report.verdict.why[0]}; {came}"
    winner = report.verdict.winner
    said = f"People prefer {winner}" if winner else "No difference shown yet"
    one = report.comparisons[0] if len(report.comparisons) == 1 else None
    if one is not None and one.estimate is not None and one.interval is not None:
        said += f": {one.first} over {one.second} {signed(one.estimate)} ({span(one.interval)})"
    return f"{said}; {came}"


class RunningLine:
    """One line that changes."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._is_terminal = out, out.isatty()
        self._said, self._when = "", float("-inf")

    def show(self, line: str) -> None:
        """Write it over the last one; in a pipe, only if it is new and a while has passed."""
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._write("\r\x1b[K" + line[:width])
        elif line != self._said and time.monotonic() >= self._when + PIPED:
            self._when = time.monotonic()
            self._write(line + "\n")
        self._said = line

    def hint(self, text: str) -> None:
        """What is going on meanwhile, for who waits at a terminal; the next line takes its place."""
        if self._is_terminal:
            self.show(text)

    def end(self, line: str) -> None:
        """The last line, which stays."""
        self._write(("\r\x1b[K" if self._is_terminal else "") + line + "\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
