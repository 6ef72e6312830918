"""The history of experiments: what was done, when, by whom and why."""

from __future__ import annotations

from collections.abc import Iterable

from interleaf.store.database import Transaction
from interleaf.store.records import Recorded


def add_history(
    transaction: Transaction, name: str, version: int, what: str, now: int, who: str, note: str = ""
) -> None:
    """Add an entry to the history of an experiment."""
    transaction.change(
        "INSERT INTO history (experiment, time, version, what, who, note) VALUES (?, ?, ?, ?, ?, ?)",
        *(name, now, version, what, who, note),
    )


def read_histories(transaction: Transaction, names: Iterable[str]) -> dict[str, list[Recorded]]:
    """The histories of experiments, oldest entry first."""
    histories: dict[str, list[Recorded]] = {name: [] for name in names}
    columns = "experiment, time, version, what, who, note"
    statement = f"SELECT {columns} FROM history WHERE experiment = ANY(?) ORDER BY number"
    for name, *rest in transaction.rows(statement, list(histories)):
        histories[name].append(Recorded(*rest))
    return histories
