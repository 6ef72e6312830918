"""Rate limits by address, impression or key: a bucket each, which fills at the rate allowed."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

MAX_BUCKETS = 100_000  # in memory; the least recently used half goes first


class Rates:
    """A bucket for each key: it holds `burst`, and fills at `per_second`.

    A bucket that is full again need not be kept. So there are two dictionaries, and the older one is dropped when all
    its buckets are full, or when the newer one has too many.
    """

    def __init__(self, per_second: float, burst: float, watch: Callable[[], float]) -> None:
        self._per_second, self._burst, self._watch = per_second, burst, watch
        self._new: dict[str, tuple[float, float]] = {}  # what is left, and when
        self._old: dict[str, tuple[float, float]] = {}
        self._since = watch()

    def take(self, key: str, amount: float = 1.0) -> bool:
        """Take this from a bucket, if there is enough in it."""
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
    """Whose address it is: one of IPv4 is its own; of IPv6, a customer has 2^64.

    >>> network_of("192.0.2.7"), network_of("2001:db8::7"), network_of("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8::/64', '192.0.2.7')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:  # a socket of another kind
        return address[:100]
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.ip_network((int(parsed), 64), strict=False))
