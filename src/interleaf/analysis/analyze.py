"""Makes a report from a log: read, decode, score, tally, report.

Two tables, impressions and events, in place of a log are first joined to one in a temporary folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import reduce
from glob import glob, has_magic
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from interleaf.click_value.learned_credit import LearnedCredit
from interleaf.decode.columns import Exclusion, query_text
from interleaf.errors import DataError, InterleafError, join_names, make_both, raise_errors
from interleaf.execution import local, spark
from interleaf.execution.options import SPARK, LogOptions
from interleaf.execution.task import Task
from interleaf.importers.protocol import ImportOptions
from interleaf.importers.two_tables.convert import import_tables
from interleaf.log import Progress, read, schema
from interleaf.log.files import ENDINGS
from interleaf.methods.registry import FOREIGN
from interleaf.report.build import report
from interleaf.report.codes import FindText
from interleaf.report.report import Report
from interleaf.report.rule import ReportSettings
from interleaf.tally import Tally

KINDS = "click"  # the kinds that count, if none are named
TALLY = ".tally"


@dataclass(frozen=True)
class TwoTables:
    """A table of impressions and a table of events, and how to read them; None: there is a log instead."""

    impressions: Any = None
    events: Any = None
    map: Mapping[str, str] = field(default_factory=dict)
    rankers: Sequence[str] = ()
    ordinals: int | None = None


def is_table(events: Any) -> bool:
    """Whether this is a table of events, and not the kinds of events that count.

    >>> is_table("clicks.parquet"), is_table("click"), is_table({"click": 1, "purchase": 5})
    (True, False, False)
    """
    if isinstance(events, str):
        return "://" in events or events.endswith(ENDINGS)
    return not isinstance(events, Mapping)


def check_tables(log: Any, tables: TwoTables, options: LogOptions) -> None:
    """Raise one error that lists all problems, if neither a log nor both tables are given, or both."""
    problems: list[InterleafError] = []
    has_log = log is not None and not (isinstance(log, Sequence) and not len(log))
    has_impressions, has_events = tables.impressions is not None, tables.events is not None
    if has_log and has_impressions:
        problems.append(DataError("a log and impressions are given; give a log, or impressions and events"))
    elif not has_log and not has_impressions and not has_events:
        problems.append(DataError("there is nothing to analyze; give a log, or impressions and events"))
    if has_impressions and not has_events:
        problems.append(DataError("impressions are given without events; give the table of events, too"))
    if has_events and not has_impressions:
        problems.append(DataError("a table of events is given without impressions; give the table of impressions, too"))
    if not has_impressions:
        settings = {"map": tables.map, "rankers": tables.rankers, "ordinals": tables.ordinals is not None}
        names = [name for name, value in settings.items() if value]
        problems += [DataError(f"{name} is for impressions and events; leave it out with a log") for name in names]
    elif options.engine == SPARK:
        problems.append(
            DataError(
                "two tables are joined on this machine; run interleaf import tables, then analyze its log on Spark"
            )
        )
    raise_errors(problems)


@contextmanager
def open_log(log: Any, tables: TwoTables, options: LogOptions) -> Iterator[Any]:
    """The log, or the path of the log that the tables are joined to, which is removed at the end."""
    check_tables(log, tables, options)
    if tables.impressions is None:
        yield log
        return
    settings = ImportOptions(
        experiment=schema.DEFAULTS["experiment"],
        method=options.method or FOREIGN,
        ordinals=tables.ordinals,
        map=tables.map,
        rankers=tables.rankers,
    )
    with tempfile.TemporaryDirectory(prefix="interleaf-") as folder:
        path = str(Path(folder) / "tables.parquet")
        wanted = [*options.by, *options.exclusion.attributes]
        import_tables(tables.impressions, tables.events, path, settings, wanted)
        yield path


def split_events(
    impressions: Any, events: Any, kinds: str | Mapping[str, float] | None
) -> tuple[Any, str | Mapping[str, float]]:
    """The table of events, and the kinds that count: without impressions, `events` are the kinds."""
    if impressions is None and not is_table(events):
        if kinds is not None and events != KINDS:
            raise DataError(f"events is {events!r} and kinds is {kinds!r}; give one of them, the kinds that count")
        return None, events if kinds is None else kinds
    is_default = isinstance(events, str) and events == KINDS
    return None if is_default else events, KINDS if kinds is None else kinds


def tally_log(
    log: Any,
    scheme: str | None = None,
    by: Sequence[str] = (),
    *,
    method: str | None = None,
    events: str | Mapping[str, float] = "click",
    dwell: float | None = None,
    first: bool = False,
    window: float | None = None,
    values: bool = False,
    sessions: float | None = None,
    experiment: str | None = None,
    version: int | None = None,
    exclude: Exclusion | Mapping[str, Collection[str]] | None = None,
    credit: LearnedCredit | str | PathLike[str] | None = None,
    examination: Sequence[float] = (),
    guardrails: Mapping[str, float] | None = None,
    engine: str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> Tally:
    """The sums of a log, which every report is computed from. Tallies of parts of a log add up to that of the whole.

    `log` and all options are those of `analyze`.
    """
    return read_tally(log, LogOptions.of_arguments(locals()))


def analyze(
    log: Any = None,
    scheme: str | None = None,
    by: Sequence[str] = (),
    *,
    impressions: Any = None,
    method: str | None = None,
    events: Any = KINDS,
    kinds: str | Mapping[str, float] | None = None,
    map: Mapping[str, str] | None = None,
    rankers: Sequence[str] = (),
    ordinals: int | None = None,
    dwell: float | None = None,
    first: bool = False,
    window: float | None = None,
    values: bool = False,
    sessions: float | None = None,
    experiment: str | None = None,
    version: int | None = None,
    exclude: Exclusion | Mapping[str, Collection[str]] | None = None,
    credit: LearnedCredit | str | PathLike[str] | None = None,
    examination: Sequence[float] = (),
    guardrails: Mapping[str, float] | None = None,
    control: str | None = None,
    confidence: float = 0.95,
    planned_units: int | None = None,
    margin: float | None = None,
    cap: float | None = None,
    secondary: int = 0,
    correction: str = "holm",
    look: tuple[int, int] | None = None,
    aa: bool = False,
    holdout: float | None = None,
    split: Mapping[str, float] | None = None,
    cluster: str = "unit",
    start_rankers: Sequence[str] = (),
    seed: int = 0,
    engine: str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Which ranker people prefer, with health checks and all numbers behind the verdict.

    `log`: a path, glob or folder, or several (Parquet, JSON lines, CSV, saved tallies), Arrow, a data frame, a `Tally`.
    Or `impressions` and `events` are tables: paths, data frames, or addresses with `?query=`. `map` names columns, as
    in `{"unit": "visitor"}`, `rankers` owners that are numbers, and `ordinals` the top position, 0 or 1.
    `scheme` and `method` say how clicks become scores, `kinds` (with a log also `events`) which kinds of events count,
    with weights; `dwell`, `first` and `window` restrict them. `values` counts events by their values, up to `cap` for a
    unit. `sessions` scores lists of a unit less than so many seconds apart as one. `credit` is what `learn` returned,
    or its file. `by` names attributes to split by. `experiment` and `version` select one (default: the latest).
    `exclude` leaves rows out, as in `{"device": ["bot"]}`. `examination` of ranks 1, 2, ... is for the lift.
    `control` is the ranker that others are compared with. `look=(2, 5)` is the second of five planned looks; without
    it, the verdict is valid even if you check repeatedly. `planned_units` tunes it to the planned number of units.
    `margin` is the smallest preference that matters (default: 0.01), `guardrails` the largest harm that is acceptable
    by metric of arms, as in `{"abandonment": 0.02}`. `secondary`: it is one of so many metrics beside the primary one.
    `correction`: "holm" or "max_t". `aa`: an A/A test. `holdout`, `split`: planned shares of units, as in `{"A": 0.6}`.
    `cluster`: "unit", or "unit_and_query" for a result about similar queries. `start_rankers`: those at the start of a
    choice. `engine="spark"` reads on Spark's executors, `threads` 0 is one per core, `progress(done, total)` is called.
    """
    return _report(locals())


def _report(given: dict[str, Any]) -> Report:
    """The report, from the arguments of `analyze`."""
    names = [setting.name for setting in fields(ReportSettings) if setting.name in given]
    table, kinds = split_events(given["impressions"], given["events"], given["kinds"])
    settings, options = make_both(
        lambda: ReportSettings(**{name: given[name] for name in names}),
        lambda: LogOptions.of_arguments(given | {"events": kinds}),
    )
    tables = TwoTables(given["impressions"], table, given["map"] or {}, given["rankers"], given["ordinals"])
    with open_log(given["log"], tables, options) as log:
        return report(read_tally(log, options), settings, query_finder(log))


def read_tally(log: Any, options: LogOptions) -> Tally:
    """The tally of a log, or the sum of saved tallies."""
    paths = [log] if isinstance(log, (str, PathLike, Tally)) else log
    if isinstance(log, (str, PathLike)) and has_magic(str(log)) and str(log).endswith(TALLY):
        paths = sorted(glob(str(log)))
    if isinstance(paths, list | tuple) and any(map(_is_tally, paths)):
        if not all(map(_is_tally, paths)):
            raise DataError("tallies and logs cannot be mixed; tally the logs first, then give tallies alone")
        if options.changed:
            raise DataError(f"a saved tally has been scored already; leave out {join_names(options.changed)}")
        return reduce(Tally.__add__, (one if isinstance(one, Tally) else Tally.load(Path(one)) for one in paths))
    if options.credit is not None:
        credit = options.credit if isinstance(options.credit, LearnedCredit) else LearnedCredit.load(options.credit)
        options = credit.apply_to(options)
    task = options.task(Task)
    if options.uses_spark(log):
        tally = spark.tally_log(log, task)
    else:
        tally = local.tally_log(log, task, threads=options.threads, progress=options.progress)
    if tally.choice:
        raise_errors(options.find_unavailable())
    return tally


def _is_tally(source: Any) -> bool:
    return isinstance(source, Tally) or (isinstance(source, (str, PathLike)) and str(source).endswith(TALLY))


def query_finder(log: Any) -> FindText | None:
    """A function that finds the text of a query; None if the log cannot be read again on this machine."""
    paths = log if isinstance(log, list | tuple) else [log]
    for path in () if isinstance(log, (pa.Table, pa.RecordBatch)) else paths:
        if not isinstance(path, (str, PathLike)) or _is_tally(path) or "://" in str(path):
            return None
    return lambda number: query_text(read(log, ("query",)), number)
