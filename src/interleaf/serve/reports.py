"""The report of an experiment as it stands: one for each metric, from the store's tallies."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from interleaf.decode.events import FATES
from interleaf.decode.queries import query_text
from interleaf.errors import InterleafError
from interleaf.report.build import report
from interleaf.report.lost import ANOTHER_KIND, IDLE, UNMATCHED, UNPLACED, UNTOLD
from interleaf.report.report import Report
from interleaf.store import reasons
from interleaf.store.contract import RUNNING, Counts, Store, Stored
from interleaf.store.tasks import report_settings_of
from interleaf.tally import Tally

MAX_PAGES = 2  # of the log, in which the text of a query is looked for
MAX_REPORTS = 100  # versions whose latest report is held in memory
_REMEMBERED, _MOST_REMEMBERED = 1.0, 5.0  # seconds; the first report of a process compiles, and takes many
# What health calls an event that is kept apart; all others are unmatched.
_EARLY, _LATE = FATES[2:4]
_FATES = {reasons.LATE: _LATE, reasons.FOLDED: _LATE, reasons.EARLY: _EARLY, reasons.FIXED: reasons.FIXED}
_NOTHING = {False: "no impressions yet", True: "no impression could be used: all of them are left out"}


@dataclass(frozen=True)
class Standing:
    """What a version shows now: a report for each metric, the primary one first; or why there is none."""

    version: int
    reports: dict[str, Report]
    reason: str | None
    counts: Counts


class _Latest:
    """The latest report of a version, how long it is shown (`until`), and the lock of whoever makes the next."""

    def __init__(self, name: str, version: int) -> None:
        self.lock = threading.Lock()
        self.until = -1.0
        self.standing: Standing | None = None


class Reports:
    """Reports, each made once a second at most, however many people look at them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._latest = lru_cache(MAX_REPORTS)(_Latest)

    def standing(self, name: str, version: int | None = None) -> Standing:
        """The report of a version, of the latest one by default."""
        stored = self._store.experiment(name)
        version = stored.version if version is None else version
        latest = self._latest(name, version)
        with latest.lock:
            if latest.standing is None or time.monotonic() >= latest.until:
                began = time.monotonic()
                latest.standing = self._standing(stored, version)
                ended = time.monotonic()
                # What takes long is made less often: a page that is watched must not keep a processor busy.
                latest.until = ended + min(max(_REMEMBERED, 2 * (ended - began)), _MOST_REMEMBERED)
            return latest.standing

    def _standing(self, stored: Stored, version: int) -> Standing:
        settings = stored.versions[version]
        name = settings.name
        counts = self._store.counts(name, version)
        tallies = self._store.tallies(name, version)
        apart, elsewhere = self._lost(stored.state == RUNNING, counts)
        # The last metric is of all kinds that count, so what is of another kind there counts nowhere.
        last = next(reversed(tallies.values()), None)
        idle = last.events[ANOTHER_KIND] if last is not None else 0

        def find_text(number: int) -> str | None:
            return query_text(islice(self._store.export(name, version), MAX_PAGES), number)

        try:
            made = {
                metric: report(with_lost(tally, apart, elsewhere, idle), report_settings_of(settings), find_text)
                for metric, tally in tallies.items()
            }
        except InterleafError as error:
            return Standing(version, {}, str(error), counts)
        return Standing(version, made, None if made else _NOTHING[bool(counts.open or counts.folded)], counts)

    def _lost(self, is_running: bool, counts: Counts) -> tuple[Mapping[str, int], int]:
        """Events kept apart, by reason, and how many more may be of this experiment or of another.

        An event of an unknown impression belongs to no experiment. Where only one has ever run, it is that one's.
        """
        unplaced = self._store.unplaced()
        if not unplaced:
            return counts.apart, 0
        if self._store.is_alone():
            return Counter(counts.apart) + Counter(unplaced), 0
        return counts.apart, sum(unplaced.values()) if is_running else 0


def with_lost(tally: Tally, apart: Mapping[str, int], elsewhere: int, idle: int) -> Tally:
    """The tally with the events that the store keeps apart, and those that count nowhere: its health knows of them."""
    events, facts = Counter(tally.events), Counter(tally.facts)
    for reason, number in apart.items():
        fate = _FATES.get(reason, UNMATCHED)
        events[fate] += number
        if fate == UNMATCHED:
            facts[f"{UNTOLD}{reason}"] += number
    if elsewhere:
        events[UNPLACED] += elsewhere
    if idle:
        facts[IDLE] += idle
    return replace(tally, events=events, facts=facts)
