"""The time that a store trusts. Rows are deleted by age, so a clock that jumps ahead could delete everything.

The store has its own time, which follows the clock of the machine, but runs at most twice as fast as the monotonic
clock. If the machine's clock is more than `MAX_JUMP` ahead of it, either the clock jumped or the service was off; the
two cannot be distinguished. Then the clock is in doubt: the store's time follows the monotonic clock until the service
has run for `DELAY`, or the clock is corrected, or the operator confirms it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from interleaf.store.database import Database, Transaction

HOUR = 3600 * 1_000_000  # microseconds
DAY = 24 * HOUR
MAX_JUMP = HOUR
DELAY = 7 * DAY  # of service, by the monotonic clock
MAX_PAUSE = 3 * DAY  # if the service is off this long while the clock is in doubt, the delay does not start again
CONFIRM = "interleaf store trust-clock"
_STEP = 60 * 1_000_000  # the time is written at most once a minute


class StoreTime(NamedTuple):
    """The current time, in microseconds since 1970.

    `now` is the time of the clock, `trusted` the time of the store, `steady` for how long this process has seen no
    jump, and `problem` a message for the operator, or None.
    """

    now: int
    trusted: int
    steady: int
    problem: str | None

    def fold_time(self, window: int) -> int:
        """Impressions that close before this time had a whole window, by the machine's clock or by the store's time.

        Impressions from before a jump close by the store's time; one window after the jump, none of them is open.
        """
        return self.now if self.problem is not None and self.steady >= window else self.trusted


class _Kept(NamedTuple):
    """The stored row: the store's time, and since when the clock is in doubt, by the clock and by the store's time."""

    time: int
    doubted: int | None
    since: int | None


class ClockStore:
    """The part of a store that compares the clock with the store's time, for one process."""

    _database: Database
    _last_time: tuple[_Kept, int, int] | None = None  # the last reading, its monotonic time, and that of the last jump

    def read_time(self, now: int, monotonic: int) -> StoreTime:
        """The time by which rows are folded and deleted; it does not follow a clock that jumps ahead at once.

        `now` is the time of the clock, `monotonic` that of a monotonic clock, both in microseconds.
        """
        with self._database.writing() as transaction:
            transaction.alone()
            last_row = _read_row(transaction, now)
            is_first = self._last_time is None
            last, read_at, steady_since = self._last_time or (last_row, monotonic, monotonic)
            elapsed = max(0, monotonic - read_at)
            new = _next(last_row, now, max(last_row.time, last.time + elapsed), elapsed, is_first)
            if new[1:] != last_row[1:] or abs(new.time - last_row.time) >= _STEP:
                transaction.change("UPDATE clock SET time = ?, doubted = ?, since = ?", *new)
            if last.doubted != new.doubted and new.doubted is not None:
                steady_since = monotonic
            self._last_time = new, monotonic, steady_since
            return StoreTime(now, new.time, monotonic - steady_since, _problem(new))

    def trust_clock(self, now: int) -> str | None:
        """Accept the time of the clock; returns the problem that the store had with it, or None."""
        with self._database.writing() as transaction:
            transaction.alone()
            last_row = _read_row(transaction, now)
            transaction.change("UPDATE clock SET time = ?, doubted = NULL, since = NULL", now)
            return _problem(last_row)


def _read_row(transaction: Transaction, now: int) -> _Kept:
    rows = transaction.rows("SELECT time, doubted, since FROM clock")
    if not rows:
        newest = transaction.rows("SELECT time FROM impressions ORDER BY number DESC LIMIT 1")
        rows = [(newest[0][0] if newest else now, None, None)]
        transaction.change("INSERT INTO clock (one, time) VALUES (1, ?)", rows[0][0])
    return _Kept(*rows[0])


def _next(kept: _Kept, now: int, known: int, elapsed: int, is_first: bool) -> _Kept:
    """The next stored row: `known` is the time by the monotonic clock, `elapsed` the time since the last reading."""
    ahead = now - known
    if ahead <= MAX_JUMP:
        return _Kept(min(now, known + elapsed), None, None)
    if kept.doubted is None or kept.since is None:
        return _Kept(known, now, known)
    jump = ahead - (kept.doubted - kept.since)  # how much the clock gained since the doubt began
    if abs(jump) > MAX_JUMP:
        was_off = is_first and 0 < jump <= MAX_PAUSE
        return _Kept(known, kept.doubted + jump, kept.since) if was_off else _Kept(known, now, known)
    if known - kept.since >= DELAY:
        return _Kept(now, None, None)
    return _Kept(known, kept.doubted, kept.since)


def _problem(kept: _Kept) -> str | None:
    if kept.doubted is None or kept.since is None:
        return None
    return (
        f"the clock jumped from {_format_time(kept.since)} to {_format_time(kept.doubted)}, or the service was off "
        "meanwhile: "
        f"until the service has run for {DELAY // DAY} days ({_format_time(kept.doubted + DELAY)} at the earliest), "
        "rows are deleted as if it had not jumped; "
        f"if the clock is wrong, set it by then, and if it is right, run {CONFIRM}"
    )


def _format_time(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1e6, UTC):%Y-%m-%d %H:%M} UTC"
