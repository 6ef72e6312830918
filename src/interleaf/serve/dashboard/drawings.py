"""Charts of a report, each as a specification for vega and what to say beside it; made at most every few seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from interleaf import plots
from interleaf.errors import InterleafError
from interleaf.render.charts import Chart, charts
from interleaf.serve.cache import TTLCache
from interleaf.serve.reports import Reports

NO_CHARTS = "There are no charts: interleaf's extra `plots` is not installed here. The tables have all numbers."
TTL = 4.0  # seconds: a specification takes longer to make than a report
MAX_DRAWINGS = 50


@dataclass(frozen=True)
class Drawn:
    """The charts of each section of a report; or why there are none."""

    charts: dict[str, list[Chart]] = field(default_factory=dict)
    missing: str = ""


class Drawings:
    """The latest charts of each version that someone looks at: of its report, or of one a few seconds older."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._cache = TTLCache(self._draw, TTL, MAX_DRAWINGS)

    def get_blocking(self, name: str, version: int) -> Drawn:
        """The charts of a version that has a report."""
        return self._cache.get_blocking((name, version))

    def _draw(self, place: tuple[str, int]) -> Drawn:
        try:
            plots.check_drawing()
        except InterleafError:
            return Drawn(missing=NO_CHARTS)
        report = next(iter(self._reports.get_blocking(*place).reports.values()), None)
        return Drawn() if report is None else Drawn(charts(report))
