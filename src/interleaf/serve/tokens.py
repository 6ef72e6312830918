"""Tokens: with one, a browser reports events of one impression, without a key."""

from __future__ import annotations

import asyncio
import base64
import hmac
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b

from interleaf.errors import StoreError
from interleaf.store.contract import Store

MAX_AGE = 5.0  # seconds after which the secrets are read again: another process may have rotated them
MIN_AGE = 1.0  # and so many at least, however many wrong tokens come


def signed(secret: bytes, impression: str) -> str:
    """The token of an impression."""
    digest = blake2b(f"token\0{impression}".encode(), digest_size=18, key=secret[:64]).digest()
    return base64.urlsafe_b64encode(digest).decode()


class Tokens:
    """Signs tokens with the store's latest secret, and accepts those of older secrets that have not expired."""

    def __init__(self, store: Store, clock: Callable[[], int], watch: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock, self._watch = store, clock, watch
        self._secrets = store.token_secrets(clock())
        self._since = watch()
        self._reading: asyncio.Task[None] | None = None

    def sign(self, impression: str) -> str:
        """The token of an impression; secrets that are too old are read again in the background."""
        if self._age > MAX_AGE and (self._reading is None or self._reading.done()):
            self._reading = asyncio.get_running_loop().create_task(self._read())
        return signed(self._secrets[0], impression)

    async def accept(self, impression: str, token: str) -> bool:
        """Whether this is the token of an impression."""
        if self._age > MAX_AGE:
            await self._read()
        if self._is_signed(impression, token):
            return True
        if self._age <= MIN_AGE:
            return False
        await self._read()
        return self._is_signed(impression, token)

    @property
    def _age(self) -> float:
        return self._watch() - self._since

    def _is_signed(self, impression: str, token: str) -> bool:
        given = token.encode(errors="replace")
        return any(hmac.compare_digest(signed(secret, impression).encode(), given) for secret in self._secrets)

    async def _read(self) -> None:
        self._since = self._watch()
        with suppress(StoreError):  # without the store no event is kept either
            self._secrets = await asyncio.to_thread(self._store.token_secrets, self._clock())
