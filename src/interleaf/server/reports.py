"""The current reports of an experiment, one for each metric, from the store's tallies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import islice

from interleaf.decode.columns import query_text
from interleaf.errors import InterleafError
from interleaf.experiment.settings import CHOOSE
from interleaf.log.drop_reasons import EventFate
from interleaf.report.build import report
from interleaf.report.report import Report
from interleaf.server.cache import CacheEntry, TTLCache
from interleaf.store.fold import report_settings_of
from interleaf.store.records import RUNNING, VersionCounts
from interleaf.store.sql import SqlStore
from interleaf.tally import Fact, Tally

MAX_PAGES = 2  # pages of the log that are searched for the text of a query
Clock = Callable[[], float]
MAX_REPORTS = 500  # versions whose latest report is cached
MIN_TTL, MAX_TTL = 1.0, 5.0  # seconds; the first report of a process compiles kernels and takes longer
# Fates that health checks count as such; all others are causes of UNMATCHED, but FOLDED is LATE.
_OWN_CHECKS = EventFate.LATE, EventFate.EARLY, EventFate.FIXED_SLOT
_NOTHING = {False: "no impressions yet", True: "no impression could be used: all of them are excluded"}


@dataclass(frozen=True)
class CurrentReports:
    """The current reports of a version, one for each metric, the primary one first; or why there is none."""

    version: int
    reports: dict[str, Report]
    reason: str | None
    counts: VersionCounts


class Reports:
    """A cache of reports: each is computed at most once per second, for any number of readers."""

    def __init__(self, store: SqlStore, executor: Executor | None = None, clock: Clock = time.monotonic) -> None:
        self._store = store
        self._cache: TTLCache[tuple[str, int], CurrentReports] = TTLCache(
            lambda place: self._make(*place), _ttl, MAX_REPORTS, executor=executor, clock=clock
        )

    async def get(self, name: str, version: int) -> CurrentReports:
        """The report of a version."""
        return await self._cache.get((name, version))

    def get_blocking(self, name: str, version: int, max_age: Callable[[float], float] | None = None) -> CurrentReports:
        """The report of a version, for threads.

        `max_age`: how many seconds old a report may be, given how many seconds it took to make it.
        """
        ttl = None if max_age is None else lambda entry: entry.seconds + max_age(entry.seconds)
        return self._cache.get_blocking((name, version), ttl)

    def _make(self, name: str, version: int) -> CurrentReports:
        stored = self._store.experiment(name)
        settings = stored.versions[version]
        counts = self._store.counts(name, version)
        tallies = self._store.tallies(name, version)
        apart, elsewhere = self._count_lost(stored.state == RUNNING, counts)
        # The last metric includes all kinds that count, so other kinds in it count nowhere.
        last = next(reversed(tallies.values()), None)
        idle = last.events[EventFate.OTHER_KIND] if last is not None else 0

        def find_text(number: int) -> str | None:
            return query_text(islice(self._store.export(name, version), MAX_PAGES), number)

        known_epoch = None
        if settings.mode == CHOOSE and stored.state == RUNNING:
            # The results of later epochs are not complete yet.
            known_epoch = self._store.last_known_epoch(name, version)
        try:
            reports = {
                metric: report(
                    with_lost(tally, apart, elsewhere, idle),
                    replace(report_settings_of(settings, metric), known_epoch=known_epoch),
                    find_text,
                )
                for metric, tally in tallies.items()
            }
        except InterleafError as error:
            return CurrentReports(version, {}, str(error), counts)
        reason = None if reports else _NOTHING[bool(counts.open or counts.folded)]
        return CurrentReports(version, reports, reason, counts)

    def _count_lost(self, is_running: bool, counts: VersionCounts) -> tuple[Mapping[str, int], int]:
        """Unmatched events by reason; and the number of events that may belong to any experiment.

        The experiment of an event with an unknown impression is not known, unless only one experiment has ever run.
        """
        unplaced = self._store.count_unplaced()
        if not unplaced:
            return counts.apart, 0
        if self._store.is_alone():
            return Counter(counts.apart) + Counter(unplaced), 0
        return counts.apart, sum(unplaced.values()) if is_running else 0


def _ttl(entry: CacheEntry[CurrentReports]) -> float:
    """Slow reports are computed less often, so that an open page does not keep a core busy."""
    return entry.seconds + min(max(MIN_TTL, 2 * entry.seconds), MAX_TTL)


def with_lost(tally: Tally, apart: Mapping[str, int], elsewhere: int, idle: int) -> Tally:
    """The tally with unmatched events and events of kinds that do not count, for the health checks."""
    events, facts = Counter(tally.events), Counter(tally.facts)
    for fate, number in apart.items():
        if fate == EventFate.FOLDED:
            events[EventFate.LATE] += number
        elif fate in _OWN_CHECKS:
            events[EventFate(fate)] += number
        else:
            events[EventFate.UNMATCHED] += number
            facts[Fact.UNMATCHED.of(fate)] += number
    if elsewhere:
        events[EventFate.UNPLACED] += elsewhere
    if idle:
        facts[Fact.IDLE] += idle
    return replace(tally, events=events, facts=facts)
