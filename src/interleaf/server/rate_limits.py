"""Rate limits by address and impression, a limit on wrong keys, and rules that mark bots."""

from __future__ import annotations

import ipaddress
import time
from collections import Counter
from collections.abc import Callable

from interleaf.experiment import Experiment
from interleaf.server.schemas import RETRY, ApiError

MAX_BUCKETS = 100_000  # in memory; the least recently used half is dropped first


class Rates:
    """A token bucket for each key: it holds `burst` tokens (None: those of a second), and fills at `per_second`.

    A full bucket need not be stored. So there are two dictionaries, and the older one is dropped when all its buckets
    are full, or when the newer one has too many.
    """

    def __init__(
        self, per_second: float, burst: float | None = None, watch: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second, self._burst, self._watch = per_second, burst or per_second, watch
        self._new: dict[str, tuple[float, float]] = {}  # tokens left, and when
        self._old: dict[str, tuple[float, float]] = {}
        self._since = watch()

    def take(self, key: str, amount: float = 1.0) -> bool:
        """Take tokens from a bucket; False if there are not enough."""
        now = self._watch()
        if now - self._since >= self._burst / self._per_second or len(self._new) >= MAX_BUCKETS // 2:
            self._old, self._new, self._since = self._new, {}, now
        left, then = self._new.get(key) or self._old.get(key) or (self._burst, now)
        left = min(self._burst, left + (now - then) * self._per_second)
        enough = left >= amount
        self._new[key] = left - amount if enough else left, now
        return enough

    def __len__(self) -> int:
        return len(self._new) + len(self._old)


def network_of(address: str) -> str:
    """The network that a rate limit applies to: an IPv4 address, or a /64 of IPv6, which one customer has.

    >>> network_of("192.0.2.7"), network_of("2001:db8::7"), network_of("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8::/64', '192.0.2.7')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:  # not an IP address, such as a Unix socket
        return address[:100]
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.ip_network((int(parsed), 64), strict=False))


AGENT, UNIT, RATE = "user agent", "listed unit", "too many impressions an hour"
HOUR = 3_600_000_000
MAX_SEEN = 1_000_000  # units that are counted in an hour


class Bots:
    """Applies the bot rules of experiments; impressions per user and hour are counted in this process."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock, self._hour, self._seen = clock, 0, Counter[tuple[str, str]]()

    def rule(self, settings: Experiment, unit: str | None, agent: str | None) -> str | None:
        """The rule that excludes an impression, or None."""
        if unit is not None and unit in settings.bot_units:
            return UNIT
        if agent is not None and settings.bot_agents:
            lowered = agent.lower()
            if any(part.lower() in lowered for part in settings.bot_agents):
                return AGENT
        if settings.bot_rate is None or unit is None:
            return None
        hour = self._clock() // HOUR
        if hour != self._hour:
            self._hour = hour
            self._seen.clear()
        return RATE if self._seen[settings.name, unit] >= settings.bot_rate else None

    def count_impression(self, settings: Experiment, unit: str | None) -> None:
        """Count an impression that was stored; repeated requests are not counted."""
        if settings.bot_rate is not None and unit is not None and len(self._seen) < MAX_SEEN:
            self._seen[settings.name, unit] += 1


MAX_WRONG, MINUTE = 20, 60.0
_MAX_ADDRESSES = 10_000


class Attempts:
    """Wrong keys of each address in the last minute.

    Valid keys are always accepted, so nobody can lock out others behind the same address. That is safe, because keys
    have 256 random bits and cannot be guessed.
    """

    def __init__(self) -> None:
        self._wrong: dict[str, list[float]] = {}

    def count_wrong(self, address: str) -> None:
        """Count a wrong key, and refuse it with 429 if the address gave too many."""
        now = time.monotonic()
        recent = [when for when in self._wrong.get(address, ()) if when > now - MINUTE][-MAX_WRONG:]
        if len(self._wrong) >= _MAX_ADDRESSES:
            self._wrong.clear()
        self._wrong[address] = [*recent, now]
        if len(recent) >= MAX_WRONG:
            problem = f"more than {MAX_WRONG} wrong keys in a minute came from your address; check the key"
            raise ApiError(429, "too_many", problem, headers={RETRY: "60"})
