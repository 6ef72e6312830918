"""Makes a report from a log: read, decode, score, tally, report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from glob import glob, has_magic
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from interleaf.click_value.learned_credit import LearnedCredit
from interleaf.decode.attributes import Exclusion, query_text
from interleaf.errors import DataError, listed
from interleaf.execution import local, spark
from interleaf.execution.options import LogOptions
from interleaf.execution.task import Task
from interleaf.log import Progress, read
from interleaf.report.build import report
from interleaf.report.codes import FindText
from interleaf.report.report import Report
from interleaf.report.rule import ReportSettings
from interleaf.stats.outlook import MARGIN
from interleaf.tally import Tally

TALLY = ".tally"


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
    sessions: float | None = None,
    experiment: str | None = None,
    version: int | None = None,
    exclude: Exclusion | Mapping[str, Collection[str]] | None = None,
    credit: LearnedCredit | str | PathLike[str] | None = None,
    examination: Sequence[float] = (),
    engine: str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> Tally:
    """The sums of a log, which every report is computed from. Tallies of parts of a log add up to that of the whole.

    `log` and all options are those of `analyze`.
    """
    return read_tally(log, LogOptions.of_arguments(locals()))


def analyze(
    log: Any,
    scheme: str | None = None,
    by: Sequence[str] = (),
    *,
    method: str | None = None,
    events: str | Mapping[str, float] = "click",
    dwell: float | None = None,
    first: bool = False,
    window: float | None = None,
    sessions: float | None = None,
    experiment: str | None = None,
    version: int | None = None,
    exclude: Exclusion | Mapping[str, Collection[str]] | None = None,
    credit: LearnedCredit | str | PathLike[str] | None = None,
    examination: Sequence[float] = (),
    control: str | None = None,
    confidence: float = 0.95,
    planned_units: int | None = None,
    margin: float = MARGIN,
    correction: str = "holm",
    look: tuple[int, int] | None = None,
    aa: bool = False,
    holdout: float | None = None,
    split: Mapping[str, float] | None = None,
    cluster: str = "unit",
    seed: int = 0,
    engine: str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Which ranker people prefer, with health checks and all numbers behind the verdict.

    `log` is a path, a glob or a folder, or several of them (Parquet, JSON lines, CSV, saved tallies); an Arrow table or
    stream; a data frame, also one of Spark; or a `Tally`.

    How the log is scored: `scheme` and `method` say how clicks become scores (default: as the lists were composed).
    `events` are the kinds of events that count, with weights; `dwell`, `first` and `window` restrict them further.
    `sessions` scores impressions of a unit as one session if they are less than so many seconds apart. `credit` is what
    `learn` found or its file: it weighs each click; otherwise all clicks count the same. `by` names attributes to split
    the report by. `experiment` and `version` select one (default: the only one, its latest version). `exclude`
    leaves rows out, such as `{"device": ["bot"]}`, or an `Exclusion` of units; the report counts them.
    `examination` says how likely people look at ranks 1, 2, ..., relative to each other; the lift rests on it (default:
    estimated from the log).

    How the report decides: `control` is the ranker that the others are compared with. `look=(2, 5)` says that this is
    the second of five planned looks; without it, the verdict is valid even if you check repeatedly. `planned_units` is
    the number of units planned before the start; the anytime interval is tuned to it. `margin` is the smallest
    preference that matters: rankers whose interval is inside of it are alike. `correction` for many pairs is
    "holm" or "max_t". `aa` marks an A/A test, in which no difference is expected. `holdout` and `split` are planned
    shares of units: 0.05 in the holdout, {"A": 0.6, "B": 0.4} of those in A/B buckets (default: equal shares).
    `cluster` says how errors are clustered: "unit", or "unit_and_query" for a result about queries like these. `seed`
    is the random seed of resampling.

    How the log is read: `engine="spark"` reads Parquet on Spark's executors, `threads` is the number of threads here
    (0: one per core), and `progress(done, total)` is called while the log is read.
    """
    options = LogOptions.of_arguments(locals())
    rule = control, confidence, planned_units, correction, look, aa, holdout, seed, split, cluster, margin
    return report(read_tally(log, options), ReportSettings(*rule), query_finder(log))


def read_tally(log: Any, options: LogOptions) -> Tally:
    """The tally of a log, or the sum of saved tallies."""
    paths = [log] if isinstance(log, (str, PathLike, Tally)) else log
    if isinstance(log, (str, PathLike)) and has_magic(str(log)) and str(log).endswith(TALLY):
        paths = sorted(glob(str(log)))
    if isinstance(paths, list | tuple) and any(map(_is_tally, paths)):
        if not all(map(_is_tally, paths)):
            raise DataError("tallies and logs cannot be mixed; tally the logs first, then give tallies alone")
        if options.changed:
            raise DataError(f"a saved tally has been scored already; leave out {listed(options.changed)}")
        return reduce(Tally.__add__, (one if isinstance(one, Tally) else Tally.load(Path(one)) for one in paths))
    if options.credit is not None:
        credit = options.credit if isinstance(options.credit, LearnedCredit) else LearnedCredit.load(options.credit)
        options = credit.apply_to(options)
    task = options.task(Task)
    if options.uses_spark(log):
        return spark.tally_log(log, task)
    return local.tally_log(log, task, threads=options.threads, progress=options.progress)


def _is_tally(source: Any) -> bool:
    return isinstance(source, Tally) or (isinstance(source, (str, PathLike)) and str(source).endswith(TALLY))


def query_finder(log: Any) -> FindText | None:
    """A function that finds the text of a query; None if the log cannot be read again on this machine."""
    paths = log if isinstance(log, list | tuple) else [log]
    for path in () if isinstance(log, (pa.Table, pa.RecordBatch)) else paths:
        if not isinstance(path, (str, PathLike)) or _is_tally(path) or "://" in str(path):
            return None
    return lambda number: query_text(read(log, ("query",)), number)
