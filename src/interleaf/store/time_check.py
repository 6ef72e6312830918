"""Whether the clock can be trusted: rows are deleted by age, and a clock that jumps ahead would delete them all.

The store has the time at which it was last served. A clock far ahead of that jumped, or the service was off. Nobody can
tell the two apart, so nothing is deleted by age for some days, in which a wrong clock can be set right.
"""

from __future__ import annotations

from datetime import UTC, datetime

from interleaf.store.database import Transaction

DAY = 86_400 * 1_000_000  # microseconds
MAX_JUMP = DAY
DELAY = 7 * DAY
_STEP = 60 * 1_000_000  # the time is written once a minute at most


def clock_problem(transaction: Transaction, now: int) -> str | None:
    """Why rows should not be deleted by this clock yet, or None; what the clock says is noted."""
    rows = transaction.rows("SELECT time, doubted FROM clock")
    if not rows:
        newest = transaction.rows("SELECT time FROM impressions ORDER BY number DESC LIMIT 1")
        rows = [(newest[0][0] if newest else now, None)]
        transaction.change("INSERT INTO clock (one, time) VALUES (1, ?)", rows[0][0])
    ((served, doubted),) = rows
    if now <= served + MAX_JUMP or (doubted is not None and now >= doubted + DELAY):
        if doubted is not None or abs(now - served) >= _STEP:
            transaction.change("UPDATE clock SET time = ?, doubted = NULL", now)
        return None
    if doubted is None or now < doubted:
        doubted = now
        transaction.change("UPDATE clock SET doubted = ?", now)
    return (
        f"the clock jumped from {_written(served)} to {_written(doubted)}, or the service was off meanwhile: "
        f"no rows are deleted by age before {_written(doubted + DELAY)}; if the clock is wrong, set it right by then"
    )


def _written(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1e6, UTC):%Y-%m-%d %H:%M} UTC"
