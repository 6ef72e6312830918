"""The report of an experiment as it stands: one for each metric, from the store's tallies."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from interleaf.errors import InterleafError
from interleaf.experiment import Experiment
from interleaf.report.build import report
from interleaf.report.report import Report
from interleaf.store.contract import Counts, Store
from interleaf.store.tasks import report_settings_of

_REMEMBERED = 1.0


@dataclass(frozen=True)
class Standing:
    """What a version shows now: a report for each metric, the primary one first; or why there is none."""

    version: int
    reports: dict[str, Report]
    reason: str | None
    counts: Counts


class Reports:
    """Reports, each made once a second at most, however many people look at them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made: dict[tuple[str, int], tuple[float, Standing]] = {}
        self._locks: dict[tuple[str, int], threading.Lock] = {}

    def standing(self, name: str, version: int | None = None) -> Standing:
        """The report of a version, of the latest one by default."""
        stored = self._store.experiment(name)
        version = stored.version if version is None else version
        place = name, version
        with self._locks.setdefault(place, threading.Lock()):
            until, made = self._made.get(place, (-1.0, None))
            if made is None or time.monotonic() >= until:
                made = self._standing(name, version, stored.versions[version])
                self._made[place] = time.monotonic() + _REMEMBERED, made
        return made

    def _standing(self, name: str, version: int, settings: Experiment) -> Standing:
        counts = self._store.counts(name, version)
        tallies = self._store.tallies(name, version)
        try:
            made = {metric: report(tally, report_settings_of(settings)) for metric, tally in tallies.items()}
        except InterleafError as error:
            return Standing(version, {}, str(error), counts)
        return Standing(version, made, None if made else "no impressions yet", counts)
