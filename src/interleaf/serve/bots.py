"""Traffic that is no person's: served like any other, and marked, so that it does not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from interleaf.experiment import Experiment

AGENT, UNIT, RATE = "user agent", "listed unit", "too many impressions an hour"
HOUR = 3_600_000_000


MOST_SEEN = 1_000_000  # units that are counted in an hour


class Bots:
    """The rules of experiments; how often each unit came in this hour is counted in this process."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._hour = 0
        self._seen: Counter[tuple[str, str]] = Counter()

    def rule(self, settings: Experiment, unit: str | None, agent: str | None) -> str | None:
        """Which rule an impression falls under, if any."""
        if unit is not None and unit in settings.bot_units:
            return UNIT
        if agent is not None and settings.bot_agents:
            lowered = agent.lower()
            if any(part.lower() in lowered for part in settings.bot_agents):
                return AGENT
        if settings.bot_rate is not None and unit is not None:
            hour = self._clock() // HOUR
            if hour != self._hour:
                self._hour = hour
                self._seen.clear()
            if self._seen[settings.name, unit] >= settings.bot_rate:
                return RATE
        return None

    def came(self, settings: Experiment, unit: str | None) -> None:
        """An impression was stored; one that is sent again does not count again."""
        if settings.bot_rate is not None and unit is not None and len(self._seen) < MOST_SEEN:
            self._seen[settings.name, unit] += 1
