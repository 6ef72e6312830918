"""A log's tallies while it is read, one for each experiment, version, set of rankers and method."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from interleaf.decode import INTERLEAVED, Design
from interleaf.engines.sessions import Waiting
from interleaf.engines.work import Part, Task, Worked
from interleaf.errors import DataError, listed
from interleaf.methods.forms import BINARY
from interleaf.methods.table import resolve
from interleaf.tally import About, Tally
from interleaf.tally.merge import absorb, as_if
from interleaf.tally.pages import QUERIES

MOST_TALLIES = 1000
OTHER = "impressions of another "


class Entry(NamedTuple):
    """Which tally of the book; `composed` is '' for the arms beside the interleaved one."""

    experiment: str
    version: int
    rankers: tuple[str, ...]
    composed: str


class Book:
    """Tallies by design. `add` what was worked on; `close` gives the tally of the experiment that was asked for."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._tallies: dict[Entry, Tally] = {}
        self._sessions: dict[int, Waiting] = {}
        self.dropped: Counter[str] = Counter()
        self.events: Counter[str] = Counter()

    def add(self, worked: Worked) -> None:
        """Count the parts of a batch in."""
        self.dropped += worked.dropped
        for part in worked.parts:
            tally = self._tally(part)
            tally.dropped += part.decoded.dropped
            tally.events += part.decoded.events
            tally.add(part.decoded, part.scored, part.segments, part.latency)
            tally.remark(part.remarks)
            if self._task.scoring.sessions is not None:
                self._waiting(tally).add(part)

    def _waiting(self, tally: Tally) -> Waiting:
        if id(tally) not in self._sessions:
            self._sessions[id(tally)] = Waiting(tally, self._task.scoring.sessions or 0)
        return self._sessions[id(tally)]

    def _tally(self, part: Part) -> Tally:
        design = part.decoded.design
        composed = resolve(design.method).text if design.arm == INTERLEAVED else ""
        entry = Entry(design.experiment, design.version, design.rankers, composed)
        if entry not in self._tallies:
            if len(self._tallies) >= MOST_TALLIES:
                raise DataError(
                    f"the log holds more than {MOST_TALLIES:,} different experiments, versions, sets of rankers and "
                    "methods; name the experiment that is wanted"
                )
            self._tallies[entry] = Tally.empty(self._about(design, composed))
        return self._tallies[entry]

    def merge(self, other: Book) -> None:
        """Count another book in."""
        while other._tallies:
            entry, tally = other._tallies.popitem()
            if entry in self._tallies:
                absorb(self._tallies[entry], tally)
            else:
                self._tallies[entry] = tally
        self.dropped += other.dropped
        self.events += other.events

    def close(self) -> Tally:
        """The tally of the experiment and version asked for; of the latest version where none was."""
        for waiting in self._sessions.values():
            waiting.close()
        entries = self._of_one_experiment()
        latest = max(entry.version for entry in entries)
        now = [entry for entry in entries if entry.version == latest]
        main = self._main(now)
        chosen = [entry for entry in now if set(entry.rankers) == set(main.rankers)]
        scored = [self._tallies[entry] for entry in chosen if entry.composed == main.composed]
        total = scored[0]
        for tally in scored[1:]:
            total = total + tally
        for entry in chosen if main.composed else ():
            if not entry.composed:
                total = total + as_if(self._tallies[entry], total.about)
        others = [entry for entry in entries if entry not in chosen or entry.composed not in ("", main.composed)]
        for entry in others:
            name = "version" if entry.version != latest else "method" if entry in chosen else "rankers"
            total.facts[OTHER + name] += self._impressions(entry)
        total.dropped += self.dropped
        total.events += self.events
        return total

    def _of_one_experiment(self) -> list[Entry]:
        names = sorted({entry.experiment for entry in self._tallies})
        if len(names) > 1:
            raise DataError(f"the log holds {len(names)} experiments; name one of them: {listed(names[:20])}")
        if not names:
            raise DataError(f"the log has no row that can be used{self._why()}")
        return sorted(self._tallies)

    def _why(self) -> str:
        wanted = [f"{name} {value!r}" for name, value in self._task.asked.items()]
        asked = f" of {' and '.join(wanted)}" if wanted else ""
        reasons_given = "; ".join(f"{reason}: {number:,}" for reason, number in self.dropped.most_common(3))
        return f"{asked}; dropped were {reasons_given}" if reasons_given else f"{asked}; it is empty"

    def _main(self, entries: list[Entry]) -> Entry:
        """The interleaved lists with most impressions; arms alone where there are none."""
        sizes: Counter[Entry] = Counter()
        for entry in entries:
            alike = next((seen for seen in sizes if _alike(seen, entry)), entry)
            sizes[alike] += self._impressions(entry)
        return max(sizes, key=lambda entry: (bool(entry.composed), sizes[entry], entry))

    def _impressions(self, entry: Entry) -> int:
        return sum(int(arm.measures[:, QUERIES].sum()) for arm in self._tallies[entry].arms.values())

    def _about(self, design: Design, composed: str) -> About:
        scoring = self._task.scoring
        about = About(design.experiment, design.version, design.rankers, composed, "", "", "", None, True)
        if not composed:
            return about
        chosen = scoring.chosen(composed)
        scheme = scoring.scheme_of(composed, len(design.rankers))
        return replace(
            about,
            method=chosen.text,
            scheme=scheme.name,
            events=str(scoring.counting),
            sessions=scoring.sessions,
            linear=scheme.form != BINARY,
        )


def _alike(one: Entry, other: Entry) -> bool:
    """The same but for the order of rankers."""
    return one.composed == other.composed and set(one.rankers) == set(other.rankers)
