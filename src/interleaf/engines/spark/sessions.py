"""Sessions on executors: rows go where all rows of their unit are, and wait there for each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from interleaf.engines.book import Group, entry_of
from interleaf.engines.sessions import Waiting
from interleaf.engines.spark.rows import Item, Packed, packed, unpacked
from interleaf.engines.work import Task, repeats, work
from interleaf.tally import About, Tally
from interleaf.tally.merge import absorb
from interleaf.tally.seen import Seen


def by_unit(about: About, task: Task, number: int, batches: Iterator[pa.RecordBatch], seen: Seen) -> Iterator[Item]:
    """The rows of a part that belong to a tally, in parts that share no unit, with the number of the part."""
    waiting = _waiting(about)
    for batch in batches:
        for worked in work(batch, task, repeats(batch, seen)):
            if worked.part is not None and entry_of(worked.part.decoded.design).group == _group(about):
                waiting.add(worked.part)
    for place, (names, rows) in enumerate(waiting.parts()):
        if len(rows):
            yield place, (number, names, rows)


def tallied(
    about: About, arms: Sequence[str], timeout: float, number: int, items: Iterable[Packed]
) -> Iterator[Packed]:
    """The sessions of some units in a tally of their own, rows in the order of the log."""

    def tallies() -> Iterator[Item]:
        waiting, tally = _waiting(about), Tally.empty(about)
        for name in arms:
            tally.number_of(name)
        for _, names, rows in sorted((value for _, value in unpacked(items)), key=lambda value: value[0]):
            waiting.take(names, rows)
        waiting.count(tally, timeout)
        yield number, tally

    return packed(number, tallies)


def added(one: Tally, other: Tally) -> Tally:
    """Both together, in the first."""
    absorb(one, other)
    return one


def _group(about: About) -> Group:
    return about.experiment, about.version, frozenset(about.rankers)


def _waiting(about: About) -> Waiting:
    return Waiting(sorted(about.rankers))
