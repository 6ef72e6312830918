"""Wrong keys, counted by address: who sends many is told to stop, and a right key still opens the door."""

from __future__ import annotations

import time

from interleaf.serve.responses import RETRY, ApiError

MAX_WRONG, MINUTE = 20, 60.0
_MAX_ADDRESSES = 10_000


class Attempts:
    """When each address gave a wrong key, in the last minute.

    A key has 256 random bits, so nobody can guess one: the limit need not keep right keys out, which would let one
    person lock out all others behind the same address.
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
