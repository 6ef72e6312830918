"""The options of every verb that reads a log: `analyze`, `tally_log`, `plan`, `learn`, `caption` and `reuse`.

Each option is declared once, with its type, default and help text. The functions name these options in their
signatures, and the command line derives its own from them. An option means the same in every verb.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from interleaf.errors import DataError, InterleafError, collect_errors, join_names, raise_errors
from interleaf.metrics.guardrail_metrics import find_problems, guarded_kinds, joined_gap

if TYPE_CHECKING:
    from interleaf.decode import Counting
    from interleaf.decode.columns import Exclusion
    from interleaf.execution.task import Task
    from interleaf.log import Progress

    T = TypeVar("T", bound=Task)

LOCAL, SPARK = ENGINES = ("local", "spark")
TALLIES = ("analyze", "plan")  # the verbs that score a log into a tally
ALL = (*TALLIES, "learn", "caption", "reuse")


def _option(
    default: Any,
    text: str,
    verbs: Sequence[str] = ALL,
    special: Mapping[str, Mapping[str, str]] | None = None,
    **argument: Any,
) -> Any:
    """A field with its default, its help text, the verbs that have it, and settings of its argparse argument.

    `special` has settings that differ by verb.
    """
    arguments = {verb: {"help": text, **argument, **(special or {}).get(verb, {})} for verb in verbs}
    return field(default=default, metadata={"arguments": arguments})


@dataclass(frozen=True)
class LogOptions:
    """How a log is read and scored. Invalid values raise one error that lists all of them.

    >>> LogOptions(dwell=-1, by="device")
    Traceback (most recent call last):
    interleaf.errors.DataError: 2 problems:
      - by is 'device', one text; give a list of attributes, such as ['device']
      - dwell is -1; give seconds above 0, or leave it out
    """

    scheme: str | None = _option(
        None, "how clicks become a score (default: depends on the method)", [verb for verb in ALL if verb != "caption"]
    )
    method: str | None = _option(
        None,
        "method to score the lists by (default: the method that made them)",
        [verb for verb in ALL if verb != "reuse"],
        special={
            "analyze": {
                "help": "method to score the lists by (default: the method that made them); with --impressions: the "
                "method that made the lists"
            }
        },
        metavar="SPEC",
    )
    events: str | Mapping[str, float] = _option(
        "click",
        "kinds of events that count, such as click purchase=5 (default: click)",
        special={
            "reuse": {
                "help": "kinds of events that count, all with the same weight (default: click)",
                "metavar": "KIND",
            },
            "analyze": {
                "help": "kinds of events that count, such as click purchase=5 (default: click); with --impressions, "
                "the table of events",
                "metavar": "KIND[=WEIGHT]|TABLE",
            },
        },
        nargs="+",
        metavar="KIND[=WEIGHT]",
    )
    dwell: float | None = _option(
        None, "count only events with at least this dwell time", type=float, metavar="SECONDS"
    )
    first: bool = _option(False, "count only the first event of each impression", action="store_true")
    window: float | None = _option(
        None, "count only events within this time after the list was shown", type=float, metavar="SECONDS"
    )
    values: bool = _option(
        False,
        "count each event by its value, such as its revenue, times its weight",
        TALLIES,
        action="store_true",
    )
    sessions: float | None = _option(
        None,
        "score impressions of one user together, as a session, if less time than this passes between them",
        TALLIES,
        type=float,
        metavar="SECONDS",
    )
    experiment: str | None = _option(None, "experiment to read, if the log holds several")
    version: int | None = _option(
        None,
        "version of the experiment to read (default: the latest)",
        special={verb: {"help": "version of the experiment to read (default: all)"} for verb in ("learn", "reuse")},
        type=int,
    )
    exclude: Exclusion | Mapping[str, Collection[str]] | None = _option(
        None, "exclude impressions by attribute, such as device=bot", nargs="+", metavar="ATTRIBUTE=VALUE"
    )
    by: Sequence[str] = _option(
        (), "split the report by attributes, such as device country", ["analyze"], nargs="+", metavar="ATTRIBUTE"
    )
    credit: Any = _option(  # a path, until `analyze` reads the file
        None, "file with what each click is worth, written by interleaf learn", TALLIES, metavar="FILE"
    )
    examination: Sequence[float] = _option(
        (),
        "how often people look at ranks 1, 2, ..., as shares of rank 1, for the lift (default: estimated from the log)",
        ["analyze"],
        nargs="+",
        type=float,
        metavar="SHARE",
    )
    guardrails: Mapping[str, float] | None = _option(
        None,
        "metrics that must not get worse than in the control's arm, each with the largest harm that you accept, such "
        "as abandonment=0.02 latency=20 event:purchase=0.01",
        ["analyze"],
        action="extend",
        nargs="+",
        metavar="METRIC=MARGIN",
    )
    engine: str | None = _option(
        None, "where the log is read; Spark reads only Parquet (default: local)", choices=ENGINES
    )
    threads: int = _option(0, "number of threads (default: one per core)", TALLIES, type=int, metavar="N")
    progress: Progress | None = None

    @classmethod
    def of_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        """The options among the arguments of a function, as `locals()` gives them at its start."""
        names = {option.name for option in fields(cls)}
        return cls(**{name: value for name, value in arguments.items() if name in names})

    def __post_init__(self) -> None:
        raise_errors(self._problems())

    def _problems(self) -> Iterator[InterleafError]:
        from interleaf.methods.registry import resolve

        if isinstance(self.by, str):
            yield DataError(f"by is {self.by!r}, one text; give a list of attributes, such as [{self.by!r}]")
        if self.sessions is not None and (self.by or not 0 < self.sessions < math.inf):
            yield DataError(f"sessions={self.sessions!r} must be above 0 seconds, and cannot be combined with by")
        if self.values and self.sessions is not None:
            yield DataError("values are added up by user, not by session; leave out sessions")
        if self.values and self.credit is not None:
            yield DataError("a click counts by its value or by learned credit, not by both; leave out one of the two")
        if wrong := [value for value in self.examination if not 0 < value < math.inf]:
            yield DataError(f"examination has {wrong[0]!r}; give a number above 0 for each rank, such as 1 0.6 0.4")
        yield from map(DataError, find_problems(self.guardrails or {}))
        if self.engine not in (None, *ENGINES):
            yield DataError(f"there is no engine {self.engine!r}; use {join_names(ENGINES)}")
        if self.threads < 0:
            yield DataError(f"threads is {self.threads!r}; give 0 for one per core, or a number from 1 up")
        if self.method is not None:
            yield from collect_errors(lambda: resolve(str(self.method)))
        yield from collect_errors(lambda: self.counting, lambda: self.exclusion)

    @cached_property
    def counting(self) -> Counting:
        """Which events count."""
        from interleaf.decode import Counting

        guarded = guarded_kinds(self.guardrails or ())
        return Counting(self.events, self.dwell, self.first, self.window, self.values, guarded)

    @cached_property
    def exclusion(self) -> Exclusion:
        """Which rows are left out."""
        from interleaf.decode.columns import Exclusion

        return self.exclude if isinstance(self.exclude, Exclusion) else Exclusion(self.exclude or {})

    @property
    def changed(self) -> list[str]:
        """The names of options that differ from their defaults.

        Not `progress`, which changes no result, and not `guardrails`, whose margins belong to the report.
        """
        return [
            option.name
            for option in fields(self)
            if option.name not in ("progress", "guardrails")
            and getattr(self, option.name) not in (option.default, None, [])
        ]

    def find_unavailable(self) -> Iterator[DataError]:
        """What was asked for that a choice of the best of many rankers does not have."""
        remedies = {
            "values": "its rankers are compared by events, not by their values",
            "sessions": "its lists are scored one by one, within epochs",
            "by": "its report has no segments",
            "examination": "its report has no lift",
        }
        for name, why in remedies.items():
            if name in self.changed:
                value = getattr(self, name)
                yield DataError(
                    f"{name} is {value!r}, but the log is of a choice of the best of many: {why}; leave it out"
                )

    def uses_spark(self, log: Any) -> bool:
        """Whether Spark reads this log: a data frame of Spark always, other logs if the engine is `spark`.

        >>> LogOptions().uses_spark("log.parquet"), LogOptions(engine="spark").uses_spark("log.parquet")
        (False, True)
        """
        from interleaf.execution.task import is_frame

        if self.engine == LOCAL and is_frame(log):
            raise DataError("a data frame of Spark is always read on Spark; leave engine out, or give its toArrow()")
        return self.engine == SPARK or is_frame(log)

    def task(self, kind: type[T], **more: Any) -> T:
        """What to read from a log and how to score it, as a task of this type; `more` are fields that `Task` lacks."""
        from interleaf.decode.scoring import Scoring

        scoring = Scoring(
            self.scheme,
            self.method,
            self.counting,
            self.sessions,
            credit=self.credit,
            examination=tuple(self.examination),
            joined=joined_gap(self.guardrails or (), self.sessions),
        )
        return kind(scoring, tuple(self.by), self.exclusion, self.experiment, self.version, **more)
