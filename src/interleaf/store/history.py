"""The history of experiments: what was done, when, by whom and why; and webhooks about it that wait for delivery.

The row of a webhook is written in the transaction of the history entry that it reports. A worker claims a row by moving
its due time into the future. If the worker dies, the row is due again then; so a webhook may arrive twice, with the
same id, but is not sent by two workers at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from interleaf.store.database import Database, SqlTable, Transaction
from interleaf.store.records import Recorded, Stored

VERDICT, HEALTH, GUARDRAIL, STOP = "verdict", "health", "guardrail", "stop"
EVENT_KINDS = (VERDICT, HEALTH, GUARDRAIL, STOP)
SERVICE = "service"  # who writes entries of the history that report what the service saw or sent
LEASE = 60 * 1_000_000  # microseconds until a claimed webhook is due again
WEBHOOKS = SqlTable(
    "webhooks",
    "id text, url text, experiment text, version integer, kind text, body text, due bigint, tries integer",
    ("id", "url"),
)


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


class Webhook(NamedTuple):
    """A webhook for one address; `tries` includes the one for which it was claimed."""

    id: str
    url: str
    experiment: str
    version: int
    kind: str
    body: str
    tries: int


class OutboxStore:
    """The part of a store that holds webhooks until they are delivered."""

    _database: Database
    _webhook_urls: Sequence[str] = ()
    _public_url: str = ""

    def use_webhooks(self, urls: Sequence[str], public_url: str) -> None:
        """Write a webhook for each of these addresses when something happens, with links that begin with the last."""
        self._webhook_urls, self._public_url = urls, public_url

    def _enqueue(
        self, transaction: Transaction, stored: Stored, kind: str, number: int, now: int, facts: Mapping[str, Any]
    ) -> None:
        """Write the webhooks of an event, which is identified by its experiment, version, kind and number."""
        name, version = stored.settings.name, stored.version
        identity = json.dumps([name, stored.created, version, kind, number])
        body = {
            "type": kind,
            "timestamp": datetime.fromtimestamp(now / 1e6, UTC).isoformat(),
            "data": {
                "experiment": name,
                "version": version,
                **facts,
                "page": f"{self._public_url}/experiments/{name}?version={version}",
            },
        }
        event_id = f"evt_{hashlib.sha256(identity.encode()).hexdigest()[:32]}"
        rows = [(event_id, url, name, version, kind, json.dumps(body), now, 0) for url in self._webhook_urls]
        if rows:
            transaction.insert(WEBHOOKS, rows)

    def claim_webhooks(self, now: int, most: int) -> list[Webhook]:
        """Webhooks that are due, to be tried by this worker only, for the time of a lease."""
        due = "SELECT id, url, experiment, version, kind, body, tries + 1 FROM webhooks WHERE due <= ? ORDER BY due"
        with self._database.reading() as transaction:
            if not transaction.rows(f"{due} LIMIT 1", now):
                return []
        with self._database.writing() as transaction:
            claimed = [Webhook(*row) for row in transaction.rows(f"{due} LIMIT ? FOR UPDATE SKIP LOCKED", now, most)]
            for one in claimed:
                statement = "UPDATE webhooks SET due = ?, tries = ? WHERE id = ? AND url = ?"
                transaction.change(statement, now + LEASE, one.tries, one.id, one.url)
            return claimed

    def settle_webhook(self, tried: Webhook, now: int, due: int | None, note: str) -> None:
        """Remove a webhook (`due` is None), or try it again later; and add the note, if any, to the history.

        Nothing is changed if another worker has claimed it meanwhile, or if its experiment was deleted.
        """
        which = (tried.id, tried.url, tried.tries)
        of_this_try = "WHERE id = ? AND url = ? AND tries = ?"
        with self._database.writing() as transaction:
            if due is None:
                changed = transaction.change(f"DELETE FROM webhooks {of_this_try}", *which)
            else:
                changed = transaction.change(f"UPDATE webhooks SET due = ? {of_this_try}", due, *which)
            if changed and note:
                add_history(transaction, tried.experiment, tried.version, "webhook", now, SERVICE, note)
