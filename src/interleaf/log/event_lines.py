"""Events that come as lines of their own, kept aside until their impressions are read, on disk if they are many."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import datetime
from typing import Any

FIELDS = ("event", "kind", "rank", "time", "dwell", "value")


class EventLines:
    """A temporary database without a name: the system removes it when it is closed, and when the process dies.

    >>> from datetime import UTC
    >>> kept = EventLines()
    >>> kept.add([("i-1", {"kind": "click", "rank": 3, "time": datetime(2026, 11, 15, tzinfo=UTC)})])
    >>> kept.of("i-1")[0]["rank"], kept.of("i-2"), kept.unmatched
    (3, [], 0)
    >>> kept.close()
    """

    def __init__(self) -> None:
        # One transaction that is never committed: nothing here is to survive.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA cache_size = -65536")  # KiB
        self._database.execute("BEGIN")
        self._database.execute(f"CREATE TABLE events (impression, matched DEFAULT 0, {', '.join(FIELDS)})")
        self._is_indexed = False
        self.count = 0

    def add(self, events: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Keep events, checked ones, each with the id of its impression; all of them before the first is looked up."""
        rows = [
            (
                impression,
                *(event.get(name) for name in FIELDS[:3]),
                event["time"].isoformat(),
                *map(event.get, FIELDS[4:]),
            )
            for impression, event in events
        ]
        self.count += len(rows)
        names = ", ".join(("impression", *FIELDS))
        self._database.executemany(f"INSERT INTO events ({names}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def of(self, impression: str) -> list[dict[str, Any]]:
        """The events of an impression, in an order that does not depend on that of the lines."""
        if not self.count:
            return []
        if not self._is_indexed:
            self._database.execute("CREATE INDEX by_impression ON events (impression)")
            self._is_indexed = True
        query = f"SELECT {', '.join(FIELDS)} FROM events WHERE impression = ? ORDER BY time, rank, kind, event"
        found = [dict(zip(FIELDS, row, strict=True)) for row in self._database.execute(query, (impression,))]
        for event in found:
            event["time"] = datetime.fromisoformat(event["time"])
        if found:
            self._database.execute("UPDATE events SET matched = 1 WHERE impression = ?", (impression,))
        return found

    @property
    def unmatched(self) -> int:
        """How many events belong to no impression that was looked up."""
        count: int = self._database.execute("SELECT count(*) FROM events WHERE matched = 0").fetchone()[0]
        return count

    def close(self) -> None:
        """Forget everything."""
        self._database.close()
