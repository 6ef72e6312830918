"""Who may do what: keys by role, tokens of impressions, signed cookies; and how often."""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Callable
from hashlib import blake2b

from interleaf.serve.answers import RETRY, RefusedError
from interleaf.serve.remembered import Remembered
from interleaf.store.contract import ADMIN, INGEST, READ, AccessKey, Store

ALLOWED = {INGEST: (INGEST,), READ: (READ,), ADMIN: (ADMIN, READ, INGEST)}  # what a key of each role may be used for
OPEN = AccessKey("open", ADMIN, "no keys", 0, None)
BROWSER = AccessKey("browser", INGEST, "a browser, with a token", 0, None)


def signed(secret: bytes, purpose: str, text: str) -> str:
    """A signature of a text for one purpose."""
    found = blake2b(f"{purpose}\0{text}".encode(), digest_size=18, key=secret[:64])
    return base64.urlsafe_b64encode(found.digest()).decode()


def is_signed(secret: bytes, purpose: str, text: str, signature: str) -> bool:
    """Whether this is the signature, in a time that tells nothing."""
    return hmac.compare_digest(signed(secret, purpose, text).encode(), signature.encode())


class Access:
    """Keys, as the store has them, remembered for a moment; and a bucket of requests for each."""

    def __init__(self, store: Store, per_second: float, watch: Callable[[], float] = time.monotonic) -> None:
        self._watch, self._per_second = watch, per_second
        self._known: Remembered[str, AccessKey | None] = Remembered(store.key_of, watch)
        self._open: Remembered[None, bool] = Remembered(lambda _: not store.keys(), watch)
        self._buckets: dict[str, tuple[float, float]] = {}

    async def key(self, secret: str | None, wanted: str) -> AccessKey:
        """The key that a request carries, if it may do that; without any keys in the store, everybody may."""
        if secret is None:
            if await self.is_open():
                return OPEN
            raise RefusedError(401, "no_key", "give a key, as the header Authorization: Bearer KEY")
        found = await self.known(secret)
        if found is None:
            raise RefusedError(401, "unknown_key", "this key is unknown or revoked; ask an admin for another")
        if wanted not in ALLOWED[found.role]:
            raise RefusedError(403, "wrong_role", f"this is for {wanted} keys, and this key's role is {found.role}")
        self.spend(found.id)
        return found

    async def is_open(self) -> bool:
        """Whether there have never been keys; once there were, revoking the last one closes the door to all."""
        return await self._open.get(None)

    async def known(self, secret: str) -> AccessKey | None:
        """The key with this secret, if it is valid."""
        return await self._known.get(secret[:200])

    def spend(self, who: str) -> None:
        """Take a request from a bucket that fills at the rate that is allowed, and holds a second of it."""
        now = self._watch()
        left = self._left(who, now)
        if left < 1:
            rate = f"{self._per_second:g} requests a second"
            raise RefusedError(429, "too_many", f"more than {rate}; slow down", headers={RETRY: "1"})
        self._buckets[who] = left - 1, now

    def _left(self, who: str, now: float) -> float:
        left, then = self._buckets.get(who, (self._per_second, now))
        return min(self._per_second, left + (now - then) * self._per_second)

    def forget(self) -> None:
        """Ask the store again: keys have changed."""
        self._known.forget()
        self._open.forget()
