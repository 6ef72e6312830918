"""Wrong keys, counted by address: guessing is slow."""

from __future__ import annotations

import time

from interleaf.serve.answers import RETRY, RefusedError

MOST_WRONG, MINUTE = 20, 60.0
_MOST_ADDRESSES = 10_000


class Attempts:
    """When each address gave a wrong key, in the last minute."""

    def __init__(self) -> None:
        self._wrong: dict[str, list[float]] = {}

    def check(self, address: str) -> None:
        """Refuse an address that was wrong too often."""
        recent = [when for when in self._wrong.pop(address, ()) if when > time.monotonic() - MINUTE]
        if recent:
            self._wrong[address] = recent
        if len(recent) >= MOST_WRONG:
            problem = f"more than {MOST_WRONG} wrong keys in a minute came from your address; wait a minute"
            raise RefusedError(429, "too_many", problem, headers={RETRY: "60"})

    def was_wrong(self, address: str) -> None:
        """Remember it."""
        if len(self._wrong) >= _MOST_ADDRESSES:
            self._wrong.clear()
        self._wrong.setdefault(address, []).append(time.monotonic())
