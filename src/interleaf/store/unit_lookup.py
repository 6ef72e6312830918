"""Finds impressions by their units: for events that name only their unit, and to join searches to sessions."""

from __future__ import annotations

from collections.abc import Sequence

from interleaf.experiment import Experiment
from interleaf.experiment.settings import SAME
from interleaf.metrics.guardrail_metrics import joined_gap
from interleaf.store.codec import COLUMNS
from interleaf.store.database import Row, Transaction

MAX_EARLIER = 1000  # latest searches of a user, over all experiments, among which those before are sought
EVER = -(2**63)


def is_sought(settings: Experiment) -> bool:
    """Whether impressions of an experiment are found by their unit."""
    return settings.attribution != SAME or joined_gap(settings.guardrails) is not None


def read_earlier(transaction: Transaction, rows: Sequence[Row], settings: Experiment, version: int) -> list[Row]:
    """Rows of `COLUMNS` of the same units that may be in a session with these rows, without them.

    A session goes on while less than a gap passes after the last event of a search, and an event comes at most one
    window after its search.
    """
    gap = joined_gap(settings.guardrails)
    units = [] if gap is None else sorted({row[1] for row in rows if row[1] is not None})
    if gap is None or not units:
        return []
    times, own = [row[2] for row in rows], {row[0] for row in rows}
    since = min(times) - settings.window - round(gap * 1e6)
    ids = {name for folded in (False, True) for name in find_ids(transaction, units, folded, MAX_EARLIER, since)}
    return transaction.rows(
        f"SELECT {COLUMNS} FROM impressions WHERE id = ANY(?) AND experiment = ? AND version = ? AND time <= ?",
        *(sorted(ids - own), settings.name, version, max(times)),
    )


def find_ids(transaction: Transaction, units: Sequence[str], folded: bool, most: int, since: int = EVER) -> list[str]:
    """Ids of the latest impressions of units from a time on; limited, because a crawler may have very many."""
    which = "folded = 1" if folded else "folded = 0 AND sought = 1"  # the conditions of the two indexes
    return transaction.column(
        f"SELECT i.id FROM unnest(?::text[]) AS each (value) JOIN impressions i ON i.unit = each.value AND {which} "
        "AND i.number >= COALESCE((SELECT last.number FROM impressions last WHERE last.unit = each.value "
        f"AND {which} ORDER BY last.number DESC LIMIT 1 OFFSET ?), 0) AND i.time >= ?",
        *(list(units), most - 1, since),
    )
