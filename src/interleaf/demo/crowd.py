"""People at the search page: so many a second, each search a request for a list and the report of its clicks."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from interleaf.client import Client
from interleaf.demo.engine import Engine
from interleaf.demo.people import Search, clicks
from interleaf.errors import InterleafError

THREADS = 4


def serve(engine: Engine, client: Client, experiment: str, rankers: Sequence[str], search: Search) -> None:
    """Answer one search as a search service does, and tell what the person clicked.

    Impression and events have the names that chance gave them, so that a search which is repeated counts once.
    """
    rankings, captions = engine.answers(search.query, rankers)
    shown = client.interleave(
        experiment,
        rankings,
        unit=search.unit,
        query=search.query,
        captions=captions,
        attributes={"device": search.device},
        impression=search.key,
    )
    client.events(
        {
            "event": f"{search.key}:{click.rank}",
            "impression": shown.impression,
            "rank": click.rank,
            "kind": "click",
            "dwell": click.dwell,
        }
        for click in clicks(search, shown.documents)
    )


class Crowd:
    """Threads that serve searches, in their order and not too fast; `problem` is what stopped them, if anything did."""

    def __init__(
        self, engine: Engine, client: Client, experiment: str, rankers: Sequence[str], searches: Sequence[Search],
        per_second: float,
    ) -> None:  # fmt: skip
        self._engine, self._client, self._experiment, self._rankers = engine, client, experiment, rankers
        self._searches, self._per_second = searches, per_second
        self._next, self._lock, self._ended = 0, threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(THREADS)]
        self._began = time.monotonic()
        self.problem: InterleafError | None = None

    def start(self) -> None:
        """Let them come."""
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()

    @property
    def has_gone(self) -> bool:
        """Whether all of them have searched."""
        return self._next >= len(self._searches) and not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Let nobody come any more, and wait for who is there."""
        self._ended.set()
        for thread in self._threads:
            if thread.ident is not None:  # it was started
                thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                place, self._next = self._next, self._next + 1
            due = self._began + place / self._per_second
            if place >= len(self._searches) or self._ended.wait(max(0.0, due - time.monotonic())):
                return
            try:
                serve(self._engine, self._client, self._experiment, self._rankers, self._searches[place])
            except InterleafError as error:
                self.problem = error
                self._ended.set()
