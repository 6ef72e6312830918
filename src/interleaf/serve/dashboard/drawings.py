"""Charts of a report, each as a specification for vega and what to say beside it; made at most every few seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from interleaf import plots
from interleaf.errors import InterleafError
from interleaf.render.charts import Chart, charts
from interleaf.report.report import Report

NO_CHARTS = "There are no charts: interleaf's extra `plots` is not installed here. The tables have all numbers."
_REMEMBERED = 4.0  # seconds: a specification takes longer to make than a report
_MOST = 50


@dataclass(frozen=True)
class Drawn:
    """The charts of each section of a report; or why there are none."""

    charts: dict[str, list[Chart]] = field(default_factory=dict)
    missing: str = ""


class Drawings:
    """The latest charts of each version that someone looks at."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int], tuple[float, Report, Drawn]] = {}

    def of(self, name: str, version: int, report: Report) -> Drawn:
        """Charts of this report, or of one a few seconds older."""
        until, before, drawn = self._made.get((name, version), (-1.0, None, Drawn()))
        if before is report or time.monotonic() < until:
            return drawn
        if len(self._made) >= _MOST:
            self._made.clear()
        drawn = _drawn(report)
        self._made[name, version] = time.monotonic() + _REMEMBERED, report, drawn
        return drawn


def _drawn(report: Report) -> Drawn:
    try:
        plots.check_drawing()
    except InterleafError:
        return Drawn(missing=NO_CHARTS)
    return Drawn(charts(report))
