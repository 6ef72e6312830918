"""Rows go: those of a unit, or old ones; page by page, so that nobody who writes waits for long."""

from __future__ import annotations

from collections.abc import Sequence

from interleaf.store.database import Database, Transaction
from interleaf.store.tables import OPEN_NAMES

PAGE = 5000  # rows deleted at a time
OF_UNIT = (  # of open ones, units have no index: with each list it would be written in many places
    f"{OPEN_NAMES} SELECT id FROM impressions WHERE unit = ? AND folded = 1 UNION ALL "
    "SELECT i.id FROM names CROSS JOIN versions v CROSS JOIN impressions i WHERE v.experiment = names.name "
    "AND i.experiment = v.experiment AND i.version = v.version AND i.folded = 0 AND i.unit = ? LIMIT ?"
)


def forget(database: Database, unit: str) -> int:
    """Delete all rows of a unit; how many impressions that were."""
    total = 0
    while True:
        with database.reading() as transaction:  # which keeps nobody waiting: all open rows are looked at
            ids = [name for (name,) in transaction.rows(OF_UNIT, unit, unit, PAGE)]
        with database.writing() as transaction:
            total += delete_impressions(database, transaction, ids)
            among = database.words["among"]
            transaction.change(f"DELETE FROM apart WHERE impression {among}", database.among(ids))
            transaction.change("DELETE FROM apart WHERE unit = ?", unit)
        if len(ids) < PAGE:
            return total


def expire(database: Database, before: int) -> int:
    """Delete rows of folded impressions shown before then, and events kept apart; how many impressions that were."""
    total = last = 0
    while True:  # from the oldest row on
        with database.reading() as transaction:
            rows = transaction.rows(
                "SELECT number, id, time, folded FROM impressions WHERE number > ? ORDER BY number LIMIT ?",
                *(last, PAGE),
            )
        if not any(time < before for _, _, time, _ in rows):
            break
        last = rows[-1][0]
        with database.writing() as transaction:
            ids = [name for _, name, time, folded in rows if folded and time < before]
            total += delete_impressions(database, transaction, ids)
    while True:
        with database.writing() as transaction:
            gone = transaction.change(
                "DELETE FROM apart WHERE number IN (SELECT number FROM apart WHERE received < ? LIMIT ?)", before, PAGE
            )
        if gone < PAGE:
            return total


def delete_impressions(database: Database, transaction: Transaction, ids: Sequence[str]) -> int:
    """Impressions go first: who puts an event to one of them meanwhile is waited for, and then that event is seen."""
    among, values = database.words["among"], database.among(ids)
    gone = transaction.change(f"DELETE FROM impressions WHERE id {among}", values)
    transaction.change(f"DELETE FROM events WHERE impression {among}", values)
    return gone
