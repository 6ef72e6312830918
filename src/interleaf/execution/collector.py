"""A log's tallies while it is read, one for each experiment, version, set of rankers and method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from reprlib import repr as short
from typing import NamedTuple

from interleaf.decode import Design, reasons
from interleaf.decode.attributes import check_attributes, excluded_by
from interleaf.errors import DataError, listed, suggest
from interleaf.execution.session_rows import Waiting
from interleaf.execution.task import Part, Task, Worked
from interleaf.log.schema import INTERLEAVED
from interleaf.methods.registry import resolve
from interleaf.tally import About, Tally
from interleaf.tally.tally import absorb, as_if

MOST_TALLIES = 1000
MAX_EXAMPLES = 10  # in a report
MAX_KINDS = 100  # of events that are remembered, but for those that count
OTHER = "impressions of another "  # facts that begin so count the rows of the log that the report leaves out
OTHER_RANKERS, OTHER_METHOD = OTHER + "set of rankers", OTHER + "method"
OTHER_VERSION, OTHER_EXPERIMENT = OTHER + "version", OTHER + "experiment of nearly the same name"
CONCURRENT = "concurrent impressions of another version"  # a fact: about how many, while the analysed version ran
MAX_OTHERS = 10  # causes that are counted one by one
ASSUMED = "assumed: "  # facts that begin so are sentences about what a log does not say
EXAMPLE = "not used: "  # facts that begin so name a reason and the first line or value behind it
NO_MATCH = "nothing in the log: "  # facts that begin so count the impressions among which none is as was asked for
UNUSED = OTHER_VERSION + " that cannot be used"


Group = tuple[str, int, frozenset[str]]


def _concurrent(other: Tally, total: Tally) -> int:
    """About how many impressions of another version came after the analysed version began.

    Slices of time count impressions with an event; the others are taken to be spread alike.
    """
    slices = other.slices
    after = int(slices.clicked[slices.ends - slices.width >= (total.since or 0)].sum())
    return round(other.impressions * after / max(int(slices.clicked.sum()), 1))


class Entry(NamedTuple):
    """Which tally of the book; `composed` is '' for the arms beside the interleaved one."""

    experiment: str
    version: int
    rankers: tuple[str, ...]
    composed: str

    @property
    def group(self) -> Group:
        """What a tally and those of other arms and other orders of the rankers share."""
        return self.experiment, self.version, frozenset(self.rankers)


def entry_of(design: Design) -> Entry:
    """Where rows of a design go."""
    composed = resolve(design.method).text if design.arm == INTERLEAVED else ""
    return Entry(design.experiment, design.version, design.rankers, composed)


class TallyCollector:
    """Tallies by design. `add` what was worked on; `close` gives the tally of the experiment that was asked for.

    `waits`: whether it puts sessions together, where they are asked for; else somebody else does.
    """

    def __init__(self, task: Task, waits: bool = True) -> None:
        self._task, self._waits = task, waits and task.scoring.sessions is not None
        self._tallies: dict[Entry, Tally] = {}
        self._waiting: dict[Group, Waiting] = {}
        self.others: Counter[tuple[str, int]] = Counter()
        self._attributes: set[str] = set()
        self.dropped: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self._assumptions: dict[str, None] = {}
        self.examples: dict[str, str] = {}
        self._kinds: set[str] = set()

    def assume(self, sentences: Iterable[str]) -> None:
        """Note what was assumed to read the log."""
        self._assumptions |= dict.fromkeys(sentences)

    def add(self, worked: Worked) -> None:
        """Count a part of a batch in."""
        part = worked.part
        self.dropped += worked.dropped
        self.others.update(worked.others)
        self._attributes |= worked.attributes
        self.examples = {**worked.examples, **self.examples}
        wanted = self._task.scoring.counting.weights
        self._kinds |= worked.kinds if len(self._kinds) < MAX_KINDS else worked.kinds & wanted.keys()
        if part is None:
            return
        tally = self._tally(part)
        tally.dropped += part.decoded.dropped
        tally.events += part.decoded.events
        tally.add(part.decoded, part.scored, part.segments, part.queries, part.latency)
        tally.remark(part.remarks)
        if self._waits:
            group = entry_of(part.decoded.design).group
            self._waiting.setdefault(group, Waiting(sorted(group[2]))).add(part)

    def _tally(self, part: Part) -> Tally:
        design = part.decoded.design
        entry = entry_of(design)
        if entry not in self._tallies:
            if len(self._tallies) >= MOST_TALLIES:
                raise DataError(
                    f"the log holds more than {MOST_TALLIES:,} different experiments, versions, sets of rankers and "
                    "methods; name the experiment that is wanted"
                )
            self._tallies[entry] = Tally.empty(self._about(design, entry.composed))
        return self._tallies[entry]

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """What is counted so far, for who keeps it: `take` counts it in again."""
        return tuple(self._tallies.values())

    def take(self, tally: Tally) -> None:
        """Count a tally in, which is not kept as it was."""
        about = tally.about
        entry = Entry(about.experiment, about.version, about.rankers, about.composed)
        if entry in self._tallies:
            absorb(self._tallies[entry], tally)
        else:
            self._tallies[entry] = tally

    def merge(self, other: TallyCollector) -> None:
        """Count another book in."""
        while other._tallies:
            self.take(other._tallies.popitem()[1])
        self.dropped += other.dropped
        self.events += other.events
        self.others.update(other.others)
        self._attributes |= other._attributes
        self.examples = {**other.examples, **self.examples}
        self._kinds |= other._kinds

    def finish(self) -> Tally:
        """The tally of a log that was read to its end, with notes on what was asked for and is not there."""
        if self._tallies:
            check_attributes((*self._task.by, *self._task.exclusion.attributes), self._attributes)
        total = self.close()
        absent = [
            f"no event of the kind {kind!r} is in the log; its kinds are {suggest(kind, sorted(self._kinds)[:20])}"
            for kind in self._task.scoring.counting.weights
            if self._kinds and kind not in self._kinds
        ]
        absent += [
            f"no row was excluded by {name} = {value!r}"
            for name, values in self._task.exclusion.attributes.items()
            for value in sorted(values)
            if excluded_by(name, value) not in total.dropped
        ]
        total.facts += Counter({NO_MATCH + sentence: total.impressions for sentence in absent})
        total.facts += Counter(f"{EXAMPLE}{self._with_example(reason)}" for reason in self.examples)
        return total

    @property
    def lacks_ranks(self) -> bool:
        """Whether lists were interleaved, and none could be scored for want of ranks."""
        scored = any(entry.composed and self._impressions(entry) for entry in self._tallies)
        dropped = sum((tally.dropped for tally in self._tallies.values()), start=self.dropped)
        return not scored and dropped[reasons.REASONS[reasons.NO_RANKS]] > 0

    def close(self) -> Tally:
        """The tally of the experiment and version asked for; of the latest version where none was."""
        entries = self._of_one_experiment()
        latest = max(entry.version for entry in entries)
        main = self._main([entry for entry in entries if entry.version == latest])
        chosen = [entry for entry in entries if entry.group == main.group and entry.composed in ("", main.composed)]
        scored = [self._tallies[entry] for entry in chosen if entry.composed == main.composed]
        total = reduce(Tally.__add__, scored)
        for entry in chosen if main.composed else ():
            if not entry.composed:
                total = total + as_if(self._tallies[entry], total.about)
        if main.group in self._waiting:
            self._waiting[main.group].count(total, self._task.scoring.sessions or 0.0)
        self._leave_out(total, main, chosen)
        total.facts += Counter({ASSUMED + sentence: 1 for sentence in self._assumptions})
        total.dropped += self.dropped
        total.events += self.events
        return total

    def _with_example(self, reason: str) -> str:
        return f"{reason}, for example {self.examples[reason]}" if reason in self.examples else reason

    def _leave_out(self, total: Tally, main: Entry, chosen: list[Entry]) -> None:
        """Count the rows that the report leaves out, by cause, and what could not be used of them."""
        left_out: Counter[tuple[str, str]] = Counter()
        for entry, tally in self._tallies.items():
            if entry in chosen:
                continue
            if entry.version != main.version:
                total.facts += Counter({UNUSED: tally.dropped.total(), CONCURRENT: _concurrent(tally, total)})
                cause = OTHER_VERSION, f"({entry.version})"
            else:
                total.dropped += tally.dropped
                cause = OTHER_RANKERS, short(tuple(sorted(entry.rankers)))
                if entry.group == main.group:
                    cause = OTHER_METHOD, f"({entry.composed})"
            left_out[cause] += self._impressions(entry)
        for (experiment, version), number in self.others.items():
            is_similar = experiment.strip().casefold() == main.experiment.strip().casefold()
            if is_similar and experiment != main.experiment and self._task.version in (None, version):
                left_out[OTHER_EXPERIMENT, f"({short(experiment)})"] += number
        for rank, ((kind, which), number) in enumerate(left_out.most_common()):
            total.facts += Counter({f"{kind} {which}" if rank < MAX_OTHERS else kind: number})

    def _of_one_experiment(self) -> list[Entry]:
        """The tallies that hold an impression, if all are of one experiment."""
        entries = sorted(entry for entry in self._tallies if self._impressions(entry))
        names = sorted({entry.experiment for entry in entries})
        if len(names) > 1:
            raise DataError(f"the log holds {len(names)} experiments; name one of them: {listed(names[:20])}")
        if not names:
            raise DataError(f"the log has no row that can be used{self._why()}")
        return entries

    def _why(self) -> str:
        wanted = [f"{name} {value!r}" for name, value in self._task.asked.items()]
        asked = f" of {' and '.join(wanted)}" if wanted else ""
        dropped = sum((tally.dropped for tally in self._tallies.values()), start=self.dropped)
        if dropped:
            methods = {self._task.scoring.chosen(entry.composed).text for entry in self._tallies if entry.composed}
            asked += f" by {', '.join(sorted(methods))}" if methods else ""
            worst = "; ".join(f"{self._with_example(why)}: {number:,}" for why, number in dropped.most_common(3))
            hint = ". A scheme such as 'binary' needs no ranks of team_draft" if self.lacks_ranks else ""
            return f"{asked}; dropped were {worst}{hint}"
        if self.others:
            there = listed(f"{name}, version {version}" for name, version in sorted(self.others)[:20])
            return f"{asked}; there are {there}"
        if lost := self.events.total():
            return f"{asked}; it holds {lost:,} events and no impression: give the files with the impressions, too"
        return f"{asked}; it is empty"

    def _main(self, entries: list[Entry]) -> Entry:
        """The interleaved lists with most impressions; arms alone where there are none."""
        sizes: Counter[Entry] = Counter()
        for entry in entries:
            alike = next(
                (seen for seen in sizes if (seen.group, seen.composed) == (entry.group, entry.composed)), entry
            )
            sizes[alike] += self._impressions(entry)
        return max(sizes, key=lambda entry: (bool(entry.composed), sizes[entry], entry))

    def _impressions(self, entry: Entry) -> int:
        return self._tallies[entry].impressions

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
            scheme=scoring.label(design.experiment, composed, len(design.rankers)),
            events=str(scoring.counting),
            sessions=scoring.sessions,
            linear=scheme.form.linear,
        )
