"""Access keys by role, experiment and expiry; rate limits per key; tokens with which browsers report events."""

from __future__ import annotations

import asyncio
import base64
import hmac
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b

from interleaf.errors import StoreError
from interleaf.server.cache import TTLCache
from interleaf.server.rate_limits import Rates
from interleaf.server.schemas import RETRY, ApiError
from interleaf.store.records import ADMIN, INGEST, READ, AccessKey
from interleaf.store.sql import SqlStore

ALLOWED = {INGEST: (INGEST,), READ: (READ,), ADMIN: (ADMIN, READ, INGEST)}  # what a key of each role may be used for
OPEN = AccessKey("open", ADMIN, "no keys", 0, None)
BROWSER = AccessKey("browser", INGEST, "a browser, with a token", 0, None)
TTL, REFRESH_AFTER = 1.0, 0.5  # seconds that keys and experiments are cached
MAX_CACHED = 10_000  # keys or names, including wrong ones
USE_STEP = 300.0  # seconds between two writes of a key's last use


def check_scope(key: AccessKey, experiment: str | None) -> None:
    """Refuse a key of one experiment for another experiment, or for a call about all experiments (None)."""
    if key.experiment not in (None, experiment):
        what = "another one" if experiment else "something that concerns all experiments"
        problem = f"this key is for the experiment {key.experiment!r} only, and this is about {what}"
        raise ApiError(403, "wrong_experiment", problem)


class Access:
    """The store's keys, cached for a second, and the rate limit of each."""

    def __init__(self, store: SqlStore, per_second: float, clock: Callable[[], int]) -> None:
        self._store, self._clock, self._per_second, self._rates = store, clock, per_second, Rates(per_second)
        self._last_use: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # a task needs a reference, or it is garbage collected
        self._keys = TTLCache(store.key_of, TTL, MAX_CACHED, refresh_after=REFRESH_AFTER)
        self._open: TTLCache[None, bool] = TTLCache(lambda _: not store.keys(), TTL, 1, refresh_after=REFRESH_AFTER)
        self._has_keys = False  # as of the last read

    async def check_key(self, secret: str | None, role: str, during_outage: bool = False) -> AccessKey:
        """Return the key with this secret if it has the role; `OPEN` if there is no secret and the store has no keys.

        `during_outage`: while the store does not answer, the cached key is used for up to an hour.
        """
        if secret is None:
            if await self.is_open(during_outage):
                return OPEN
            raise ApiError(401, "no_key", "give a key, as the header Authorization: Bearer KEY")
        key = await (self._keys.get_or_last if during_outage else self._keys.get)(secret[:200])
        if key is None:
            raise ApiError(401, "unknown_key", "this key is unknown or revoked; ask an admin for another")
        if key.is_expired(self._clock()):
            when = datetime.fromtimestamp((key.expires or 0) / 1e6, UTC).isoformat(timespec="seconds")
            raise ApiError(401, "expired_key", f"this key expired at {when}; ask an admin for another")
        if role not in ALLOWED[key.role]:
            raise ApiError(403, "wrong_role", f"this call needs a key with the role {role}; yours has {key.role}")
        if not self._rates.take(key.id):
            message = f"this key is above the rate limit of {self._per_second:g} requests per second; slow down"
            raise ApiError(429, "too_many", message, headers={RETRY: "1"})
        now = time.monotonic()
        if now - self._last_use.get(key.id, -USE_STEP) >= USE_STEP:
            self._last_use[key.id] = now
            task = asyncio.get_running_loop().create_task(self._write_use(key.id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return key

    async def is_open(self, during_outage: bool = False) -> bool:
        """Whether the store has never had a key, so that no key is needed. Revoking the last key does not change that.

        `during_outage`: while the store does not answer, the cached value is used.
        """
        if not self._has_keys:
            self._has_keys = not await (self._open.get_or_last if during_outage else self._open.get)(None)
        return not self._has_keys

    async def find_key(self, secret: str) -> AccessKey | None:
        """The key with this secret, if it is valid."""
        key = await self._keys.get(secret[:200])
        return key if key is not None and key.is_valid(self._clock()) else None

    async def _write_use(self, key: str) -> None:
        with suppress(StoreError):
            await asyncio.to_thread(self._store.note_key_use, key, self._clock())

    def forget(self) -> None:
        """Read keys from the store again, because they have changed."""
        self._keys.clear()
        self._open.clear()


MAX_AGE = 5.0  # seconds until secrets are read again, because another process may have rotated them
MIN_AGE = 1.0  # seconds between two reads, even if many wrong tokens arrive


def sign_impression(secret: bytes, impression: str) -> str:
    """The token of an impression."""
    digest = blake2b(f"token\0{impression}".encode(), digest_size=18, key=secret[:64]).digest()
    return base64.urlsafe_b64encode(digest).decode()


class Tokens:
    """Signs tokens with the store's latest secret, and accepts those of older secrets that have not expired."""

    def __init__(self, store: SqlStore, clock: Callable[[], int]) -> None:
        self._store, self._clock = store, clock
        self._secrets, self._since = store.token_secrets(clock()), time.monotonic()
        self._reading: asyncio.Task[None] | None = None

    def sign(self, impression: str) -> str:
        """The token of an impression; secrets that are too old are read again in the background."""
        if time.monotonic() - self._since > MAX_AGE and (self._reading is None or self._reading.done()):
            self._reading = asyncio.get_running_loop().create_task(self._read())
        return sign_impression(self._secrets[0], impression)

    async def accept(self, impression: str, token: str) -> bool:
        """Whether this is the token of an impression; if not, it may be that of a secret that was rotated just now."""
        if time.monotonic() - self._since > MAX_AGE:
            await self._read()
        if self._is_signed(impression, token):
            return True
        if time.monotonic() - self._since <= MIN_AGE:
            return False
        await self._read()
        return self._is_signed(impression, token)

    def _is_signed(self, impression: str, token: str) -> bool:
        tokens = [sign_impression(secret, impression).encode() for secret in self._secrets]
        return any(hmac.compare_digest(one, token.encode(errors="replace")) for one in tokens)

    async def _read(self) -> None:
        self._since = time.monotonic()
        with suppress(StoreError):  # without the store, no event can be stored either
            self._secrets = await asyncio.to_thread(self._store.token_secrets, self._clock())
