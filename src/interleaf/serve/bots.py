"""Traffic that is no person's: lists are served like any other, and marked, so that they do not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from interleaf.experiment import Experiment

AGENT, UNIT, RATE = "user agent", "listed unit", "too many impressions an hour"
HOUR = 3_600_000_000
MAX_SEEN = 1_000_000  # units that are counted in an hour


class _ThisHour:
    """How often something came in this hour, to this process; of a million things, and no more."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock, self._hour, self._seen = clock, 0, Counter[tuple[str, ...]]()

    def seen(self, *what: str) -> int:
        hour = self._clock() // HOUR
        if hour != self._hour:
            self._hour = hour
            self._seen.clear()
        return self._seen[what]

    def add(self, *what: str) -> None:
        if len(self._seen) < MAX_SEEN:
            self._seen[what] += 1


class Bots:
    """The rules of experiments; how often each unit came in this hour is counted in this process."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._shown = _ThisHour(clock)

    def rule(self, settings: Experiment, unit: str | None, agent: str | None) -> str | None:
        """Which rule an impression falls under, if any."""
        if unit is not None and unit in settings.bot_units:
            return UNIT
        if agent is not None and settings.bot_agents:
            lowered = agent.lower()
            if any(part.lower() in lowered for part in settings.bot_agents):
                return AGENT
        if settings.bot_rate is None or unit is None or self._shown.seen(settings.name, unit) < settings.bot_rate:
            return None
        return RATE

    def came(self, settings: Experiment, unit: str | None) -> None:
        """An impression was stored; one that is sent again does not count again."""
        if settings.bot_rate is not None and unit is not None:
            self._shown.add(settings.name, unit)
