"""Watches whether a PostgreSQL answers, on a connection of its own: nobody else has to wait to find out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen

from interleaf.store.causes import cause_of
from interleaf.store.database import Row

INTERVAL = 0.1  # seconds between two questions to the server
PATIENCE = 3.0  # seconds that a connection waits for a word, unless it is told otherwise
SILENCE = 0.5  # seconds without an answer after which the server is away


class Connection(psycopg.Connection[Row]):
    """One that is closed when the server says nothing for too long: a server that hangs heeds no timeout."""

    patience = PATIENCE
    watch: Watch | None = None

    def wait(self, gen: PQGen[RV], *given: Any, **named: Any) -> RV:
        return super().wait(self._heard(gen), *given, **named)

    def _heard(self, gen: PQGen[RV]) -> PQGen[RV]:
        """What psycopg waits for, with an end; psycopg looks every tenth of a second whether something came.

        An answer may have come while this process itself stood still, so the connection is looked at once more.
        """
        end, overdue = monotonic() + self.patience, False
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    end, overdue = monotonic() + self.patience, False
                elif overdue:
                    self.pgconn.finish()
                    raise psycopg.OperationalError("no answer from the server")
                else:
                    overdue = monotonic() > end or (self.watch is not None and self.watch.cause is not None)
                wanted = gen.send(ready)
        except StopIteration as done:
            value: RV = done.value
            return value


class Watch:
    """A thread that asks the server again and again; `cause` says why it is away, and is None while it answers."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self.cause: str | None = None
        self._connect, self._connection = connect, connect()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="interleaf-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._closing.set()
        self._thread.join(PATIENCE)  # it may be looking up a name, which has no limit
        self._connection.close()

    def _run(self) -> None:
        while not self._closing.wait(INTERVAL):
            try:
                if self._connection.closed:
                    self._connection = self._connect()
                self._connection.patience = SILENCE
                self._connection.execute("")
                self.cause = None
            except Exception as error:
                self.cause = cause_of(error)
                self._connection.close()
