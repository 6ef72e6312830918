"""Collects the tallies of a log while it is read: one per experiment, version, set of rankers and method.

Impressions are also joined to sessions, to score them or to count them by arm. Rows are held until the whole log is
read, on disk if there are many. C12, section 9: queries of a unit are scored as one session if the gap to the query
before is below the timeout; their clicks are added up first. C12's metrics of sessions measure a gap from the last
interaction, a query or a click.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from reprlib import repr as short
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from interleaf.decode import Design
from interleaf.decode.columns import check_attributes
from interleaf.errors import DataError, join_names, suggest
from interleaf.execution.task import BatchPart, ScoredPart, Task
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array
from interleaf.log.drop_reasons import DropReason, EventFate, text_of
from interleaf.log.schema import INTERLEAVED
from interleaf.methods.loops import score_columns
from interleaf.methods.registry import ONE_LIST, resolve
from interleaf.methods.schemes import scheme_of
from interleaf.tally import About, Fact, Tally
from interleaf.tally.bucket_sums import FOLLOWED, SESSIONS, ArmSums
from interleaf.tally.tally import absorb, as_if
from interleaf.tally.units import Sample

ROOM = 500_000  # rows held in memory
PARTS = 64
MAX_TALLIES = 1000
MAX_EXAMPLES = 10  # in a report
MAX_KINDS = 100  # kinds of events that are noted, besides those that count
MAX_OTHERS = 10  # causes that are counted separately
LEFT_OUT = Fact.OTHER_EXPERIMENT, Fact.OTHER_METHOD, Fact.OTHER_RANKERS, Fact.OTHER_VERSION
UNUSED = Fact.OTHER_VERSION.of("that cannot be used")


class SessionRows:
    """Holds the rows of all arms of an experiment until the log is read.

    Rankers are sorted by name; there are none if sessions are counted and not scored.
    """

    def __init__(self, rankers: Sequence[str]) -> None:
        self._rankers = list(rankers)
        self._kind = np.dtype(
            [
                *(("unit", "u8"), ("time", "i8"), ("end", "i8"), ("arm", "i2"), ("composed", "i2")),
                *(("clicked", "?"), ("counted", "?"), ("credited", "f8")),
                *((name, "f8", (len(self._rankers),)) for name in ("credits", "owners")),
            ]
        )
        self._numbers: dict[str, int] = {}  # of arms and methods
        self._rows: list[Array] = []
        self._rows_in_memory = 0
        self._folder: TemporaryDirectory[str] | None = None

    def add(self, part: ScoredPart, *, is_counted: bool = True) -> None:
        """Add rows; those that are not counted only say whether a later search continues their session."""
        decoded, scored = part.decoded, part.scored
        if not len(decoded.rows):  # all of them were dropped
            return
        rows = np.zeros(len(decoded.rows), self._kind)
        rows["unit"], rows["time"], rows["end"] = decoded.unit, decoded.time, decoded.clicks.end
        rows["arm"] = self._number(part.arm)
        rows["clicked"], rows["counted"] = decoded.has_event, is_counted
        if scored is not None:
            rows["composed"] = self._number(resolve(decoded.design.method).text)
            order = [decoded.design.rankers.index(ranker) for ranker in self._rankers]
            rows["credits"], rows["credited"] = scored.columns[:, order], scored.credited
            rows["owners"] = (scored.columns if scored.owners is None else scored.owners)[:, order]
        self._keep(rows)

    def _keep(self, rows: Array) -> None:
        self._rows.append(rows)
        self._rows_in_memory += len(rows)
        if self._rows_in_memory > ROOM:  # append the rows to files; all rows of a unit go to the same file
            self._folder = self._folder or TemporaryDirectory(prefix="interleaf-")
            for number, part in enumerate(self._split()):
                with open(Path(self._folder.name) / str(number), "ab") as file:
                    part.tofile(file)

    def take(self, names: Sequence[str], rows: Array) -> None:
        """Add rows that another object held, with the names of their arms and methods."""
        numbers = np.array([self._number(name) for name in names], np.int16)
        rows = rows.copy()
        for column in ("arm", "composed"):
            rows[column] = numbers[rows[column]]
        self._keep(rows)

    def parts(self) -> Iterator[tuple[list[str], Array]]:
        """All rows, with the names of their arms and methods, in parts that share no unit. Afterwards none is held."""
        try:
            for number, rows in enumerate(self._split()):
                path = Path(self._folder.name) / str(number) if self._folder else None
                spilled = [np.fromfile(path, self._kind)] if path and path.exists() else []
                yield list(self._numbers), np.concatenate([rows, *spilled])
        finally:
            if self._folder is not None:
                self._folder.cleanup()

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def count(self, tallies: Sequence[Tally], timeout: float) -> None:
        """Add all sessions to the tallies: those of every arm, and scores of lists that the tally's method composed."""
        gap = round(timeout * 1e6)
        for _, rows in self.parts():
            rows = rows[np.lexsort((rows["time"], rows["unit"]))]
            for tally, name in ((one, arm) for one in tallies for arm in one.arms):
                of_arm = rows[rows["arm"] == self._number(name)]
                if name == INTERLEAVED and tally.about.composed:
                    of_arm = of_arm[of_arm["composed"] == self._number(tally.about.composed)]
                    if tally.about.sessions is not None:
                        self._count_scores(of_arm, tally, gap)
                _count_visits(of_arm, tally.arms[name], gap)

    def _split(self) -> Iterator[Array]:
        rows = np.concatenate(self._rows) if self._rows else np.zeros(0, self._kind)
        self._rows, self._rows_in_memory = [], 0
        part = buckets.buckets(rows["unit"]) % PARTS
        yield from (rows[part == number] for number in range(PARTS))

    def _count_scores(self, rows: Array, tally: Tally, timeout: int) -> None:
        if not len(rows):
            return
        starts = np.flatnonzero(_opens(rows["unit"], np.diff(rows["time"]), timeout))
        order = [self._rankers.index(ranker) for ranker in tally.about.rankers]
        credits, owners = (np.add.reduceat(rows[name][:, order], starts) for name in ("credits", "owners"))
        form, credited = scheme_of(tally.about.scheme).form, np.add.reduceat(rows["credited"], starts)
        clicked = np.logical_or.reduceat(rows["clicked"], starts)
        columns = score_columns(form, credits, credited)
        tally.add_scores(rows["unit"][starts], rows["time"][starts], clicked, columns, owners)


def _count_visits(rows: Array, arm: ArmSums, timeout: int) -> None:
    """Count the sessions of an arm, and queries that are followed by another query of the session.

    Each query that follows another one is counted; the query before it belongs to the same unit, and so to its bucket.
    """
    rows = rows[np.lexsort((rows["end"], rows["time"], rows["unit"]))]  # so that the order of the log does not matter
    opens, is_counted = _opens(rows["unit"], rows["time"][1:] - rows["end"][:-1], timeout), rows["counted"]
    bucket = buckets.buckets(rows["unit"])
    for column, marked in ((SESSIONS, opens & is_counted), (FOLLOWED, ~opens & is_counted)):
        np.add.at(arm.sessions[:, column], bucket[marked], 1)


def _opens(unit: Array, gaps: Array, timeout: int) -> Array:
    """Which rows, sorted by unit and time, begin a session."""
    opens = np.ones(len(unit), np.bool_)
    opens[1:] = (unit[1:] != unit[:-1]) | (gaps >= timeout)
    return opens


Group = tuple[str, int, frozenset[str]]


class TallyKey(NamedTuple):
    """The key of a tally; `composed` is the method of interleaved lists, or `one_list`, and '' for other arms."""

    experiment: str
    version: int
    rankers: tuple[str, ...]
    composed: str

    @property
    def group(self) -> Group:
        """What tallies of different arms, methods and orders of rankers share."""
        return self.experiment, self.version, frozenset(self.rankers)


def tally_key(design: Design, chooses: bool = False) -> TallyKey:
    """The key of the tally that rows of a design are added to.

    If the best of many rankers is chosen, rows have different rankers, and all are added to one tally.
    """
    if chooses:
        return TallyKey(design.experiment, design.version, (), "")
    composed = resolve(design.method).text if design.arm == INTERLEAVED or design.is_one_list else ""
    return TallyKey(design.experiment, design.version, design.rankers, composed)


class TallyCollector:
    """Collects tallies by design: `add` takes processed batches; `close` returns the tally of the task's experiment.

    `joins_sessions`: whether it joins impressions to sessions if the task asks for that. `sample` is a sample of
    all impressions of the log, which whoever reads the log adds to.
    """

    def __init__(self, task: Task, joins_sessions: bool = True) -> None:
        self._task, self._joins_sessions = task, joins_sessions and task.scoring.gap is not None
        self._tallies: dict[TallyKey, Tally] = {}
        self._session_rows: dict[Group, SessionRows] = {}
        self.others: Counter[tuple[str, int]] = Counter()
        self._attributes: set[str] = set()
        self.dropped: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self._assumptions: dict[str, None] = {}
        self.examples: dict[str, str] = {}
        self._kinds: set[str] = set()
        self.sample = Sample()

    def assume(self, codes: Iterable[str]) -> None:
        self._assumptions |= dict.fromkeys(codes)

    def add(self, processed: BatchPart) -> None:
        self.dropped += processed.dropped
        self.others.update(processed.others)
        self._attributes |= processed.attributes
        self.examples = {**processed.examples, **self.examples}
        weights = self._task.scoring.counting.weights
        self._kinds |= processed.kinds if len(self._kinds) < MAX_KINDS else processed.kinds & weights.keys()
        part = processed.part
        if part is None:
            return
        chooses = part.epochs is not None
        key = tally_key(part.decoded.design, chooses)
        if key not in self._tallies:
            if len(self._tallies) >= MAX_TALLIES:
                raise DataError(
                    f"the log holds more than {MAX_TALLIES:,} different experiments, versions, sets of rankers and "
                    "methods; name the experiment to analyse"
                )
            design = part.decoded.design._replace(rankers=key.rankers)
            self._tallies[key] = Tally.empty(self._about(design, key.composed))
        tally = self._tallies[key]
        tally.dropped += part.decoded.dropped
        tally.events += part.decoded.events
        if part.epochs is None:
            tally.add(part.decoded, part.scored, part.segments, part.queries, part.latency, part.characters)
        else:
            tally.add_choice(part.decoded, part.scored, part.epochs, part.latency)
        tally.remark(part.remarks)
        if self._joins_sessions:
            self._rows_of(key.group).add(part)

    def add_earlier(self, processed: BatchPart) -> None:
        """Add rows that are counted elsewhere; they only say which of the others continue a session."""
        part = processed.part
        if part is not None:
            self._rows_of(tally_key(part.decoded.design, part.epochs is not None).group).add(part, is_counted=False)

    def count_sessions(self) -> None:
        """Add the sessions of all rows so far to the tallies; the rows are not held any more."""
        for group, rows in self._session_rows.items():
            tallies = [tally for key, tally in self._tallies.items() if key.group == group]
            rows.count(tallies, self._task.scoring.gap or 0.0)
        self._session_rows.clear()

    def _rows_of(self, group: Group) -> SessionRows:
        rankers = () if self._task.scoring.sessions is None else sorted(group[2])
        return self._session_rows.setdefault(group, SessionRows(rankers))

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """All tallies so far; `take` adds one to another collector."""
        return tuple(self._tallies.values())

    def take(self, tally: Tally) -> None:
        """Add a tally, which may be changed."""
        about = tally.about
        key = TallyKey(about.experiment, about.version, about.rankers, about.composed)
        self._tallies[key] = absorb(self._tallies[key], tally) if key in self._tallies else tally

    def merge(self, other: TallyCollector) -> None:
        """Add the tallies and counts of another collector, and empty it."""
        while other._tallies:
            self.take(other._tallies.popitem()[1])
        self.dropped += other.dropped
        self.events += other.events
        self.others.update(other.others)
        self._attributes |= other._attributes
        self.examples = {**other.examples, **self.examples}
        self._kinds |= other._kinds
        self.sample.merge(other.sample)

    def finish(self) -> Tally:
        """The tally of a log that was read completely, with notes on event kinds and exclusions that match no row."""
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
            if DropReason.EXCLUDED.of(f"{name} = {value}") not in total.dropped
        ]
        total.facts += Counter({Fact.NO_MATCH.of(sentence): total.impressions for sentence in absent})
        total.facts += Counter(Fact.EXAMPLE.of(self._with_example(reason)) for reason in self.examples)
        total.sample = self.sample
        return total

    @property
    def lacks_ranks(self) -> bool:
        """Whether interleaved lists were dropped for lack of ranks, and none could be scored."""
        is_scored = any(key.composed and tally.impressions for key, tally in self._tallies.items())
        return not is_scored and self._all_dropped[DropReason.NO_RANKS] > 0

    @property
    def _all_dropped(self) -> Counter[str]:
        return sum((tally.dropped for tally in self._tallies.values()), start=self.dropped)

    def close(self) -> Tally:
        """The tally of the task's experiment and version (default: the latest)."""
        keys = sorted(key for key, tally in self._tallies.items() if tally.impressions)
        names = sorted({key.experiment for key in keys})
        if len(names) > 1:
            raise DataError(f"the log holds {len(names)} experiments; name one of them: {join_names(names[:20])}")
        if not names:
            raise DataError(f"the log has no row that can be used{self._why()}")
        latest = max(key.version for key in keys)
        main = self._main([key for key in keys if key.version == latest])
        chosen = [key for key in keys if key.group == main.group and key.composed in ("", main.composed)]
        total = reduce(Tally.__add__, (self._tallies[key] for key in chosen if key.composed == main.composed))
        for key in chosen if main.composed else ():
            if not key.composed:
                total = total + as_if(self._tallies[key], total.about)
        if main.group in self._session_rows:
            self._session_rows[main.group].count([total], self._task.scoring.gap or 0.0)
        self._leave_out(total, main, chosen)
        total.facts += Counter({Fact.ASSUMED.of(code): 1 for code in self._assumptions})
        total.dropped += self.dropped
        total.events += self.events
        return total

    def _with_example(self, reason: str) -> str:
        text = f"{'events ' if reason == EventFate.NO_TIME else ''}{text_of(reason)}"
        return f"{text}, for example {self.examples[reason]}" if reason in self.examples else text

    def _leave_out(self, total: Tally, main: TallyKey, chosen: list[TallyKey]) -> None:
        """Count the rows that the report leaves out, by cause, and those of them that could not be used."""
        left_out: Counter[tuple[Fact, str]] = Counter()
        for key, tally in self._tallies.items():
            if key in chosen:
                continue
            if key.version != main.version:
                # Slices count only impressions with an event; we assume that the others have the same times.
                slices = tally.slices
                after = int(slices.clicked[slices.ends - slices.width >= (total.since or 0)].sum())
                concurrent = round(tally.impressions * after / max(int(slices.clicked.sum()), 1))
                total.facts += Counter({UNUSED: tally.dropped.total(), Fact.CONCURRENT: concurrent})
                cause = Fact.OTHER_VERSION, f"({key.version})"
            else:
                total.dropped += tally.dropped
                cause = Fact.OTHER_RANKERS, short(tuple(sorted(key.rankers)))
                if key.group == main.group:
                    cause = Fact.OTHER_METHOD, f"({key.composed})"
            left_out[cause] += tally.impressions
        for (experiment, version), number in self.others.items():
            is_similar = experiment.strip().casefold() == main.experiment.strip().casefold()
            if is_similar and experiment != main.experiment and self._task.version in (None, version):
                left_out[Fact.OTHER_EXPERIMENT, f"({short(experiment)})"] += number
        for rank, ((fact, which), number) in enumerate(left_out.most_common()):
            total.facts += Counter({fact.of(which) if rank < MAX_OTHERS else fact: number})

    def _why(self) -> str:
        names = {"experiment": self._task.experiment, "version": self._task.version}
        wanted = " and ".join(f"{name} {value!r}" for name, value in names.items() if value is not None)
        wanted = f" of {wanted}" if wanted else ""
        if dropped := self._all_dropped:
            methods = {self._task.scoring.resolve_method(key.composed).text for key in self._tallies if key.composed}
            wanted += f" by {', '.join(sorted(methods))}" if methods else ""
            worst = "; ".join(f"{self._with_example(why)}: {number:,}" for why, number in dropped.most_common(3))
            hint = ". With team_draft, a scheme such as 'binary' needs no ranks" if self.lacks_ranks else ""
            return f"{wanted}; dropped rows: {worst}{hint}"
        if self.others:
            there = join_names(f"{name}, version {version}" for name, version in sorted(self.others)[:20])
            return f"{wanted}; there are {there}"
        if lost := self.events.total():
            return f"{wanted}; it holds {lost:,} events and no impression: give the files with the impressions, too"
        return f"{wanted}; it is empty"

    def _main(self, keys: list[TallyKey]) -> TallyKey:
        """The key of the interleaved lists with most impressions; if there are none, of other arms."""
        sizes: Counter[TallyKey] = Counter()
        for key in keys:
            alike = next((one for one in sizes if (one.group, one.composed) == (key.group, key.composed)), key)
            sizes[alike] += self._tallies[key].impressions
        return max(sizes, key=lambda key: (bool(key.composed), sizes[key], key))

    def _about(self, design: Design, composed: str) -> About:
        scoring = self._task.scoring
        subject = design.experiment, design.version, design.rankers, composed
        guarded, joined = scoring.counting.guarded, scoring.joined
        if not composed:
            return About(*subject, "", "", "", None, True, scoring.examination, guarded=guarded, joined=joined)
        if composed == ONE_LIST:
            values = scoring.counting.values
            events = str(scoring.counting)
            return About(*subject, "", "", events, None, True, scoring.examination, values, guarded, joined)
        rankers = len(design.rankers)
        method, scheme = scoring.resolve_method(composed).text, scoring.label(design.experiment, composed, rankers)
        is_linear = scoring.scheme_of(composed, rankers).form.linear
        values, events = scoring.counting.values, str(scoring.counting)
        return About(
            *subject, method, scheme, events, scoring.sessions, is_linear, scoring.examination, values, guarded, joined
        )
