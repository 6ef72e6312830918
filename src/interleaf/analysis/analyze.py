"""A log to a verdict: read, decode, score, tally, report."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from glob import glob, has_magic
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from interleaf.click_value.learned_credit import Learned
from interleaf.decode import Counting
from interleaf.decode.attributes import Exclusion, query_text
from interleaf.decode.scoring import Scoring
from interleaf.errors import DataError, listed
from interleaf.execution import local, spark
from interleaf.execution.task import SPARK, Task, chosen
from interleaf.log import Progress, read
from interleaf.report.build import report
from interleaf.report.codes import FindText
from interleaf.report.report import Report
from interleaf.report.rule import Settings
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
    credit: Learned | str | PathLike[str] | None = None,
    engine: str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> Tally:
    """The sums of a log that every report is made of; tallies of its parts add up to that of the whole.

    `log` is whatever `analyze` takes, and so are the options.
    """
    if isinstance(by, str):
        raise DataError(f"by is {by!r}, one text; give a list of attributes, such as [{by!r}]")
    if sessions is not None and (by or not 0 < sessions < math.inf):
        raise DataError(f"sessions={sessions!r} takes seconds above 0, and cannot be split by attributes")
    counting = Counting(events, dwell, first, window)
    scoring = Scoring(scheme, method, counting, sessions)
    if credit is not None:
        scoring = credited(scoring, credit if isinstance(credit, Learned) else Learned.load(credit))
    exclusion = exclude if isinstance(exclude, Exclusion) else Exclusion(exclude or {})
    task = Task(scoring, tuple(by), exclusion, experiment, version)
    if chosen(engine, log) == SPARK:
        return spark.tally_log(log, task)
    return local.tally_log(log, task, threads=threads, progress=progress)


def credited(scoring: Scoring, credit: Learned) -> Scoring:
    """Scoring by learned credit: what counts, and whose a click is, are as they were when it was learned."""
    if scoring.sessions is not None:
        raise DataError("learned credit scores impressions one by one; leave out sessions")
    if str(scoring.counting) not in (str(Counting()), str(credit.counting)):
        raise DataError(f"this credit was learned of events that count as {credit.counting}, not {scoring.counting}")
    if credit.scheme is not None and scoring.scheme not in (None, credit.scheme):
        raise DataError(f"this credit was learned on scheme {credit.scheme!r}, not {scoring.scheme!r}; leave it out")
    return replace(scoring, scheme=scoring.scheme or credit.scheme, counting=credit.counting, credit=credit)


def analyze(
    log: Any,
    scheme: str | None = None,
    by: Sequence[str] = (),
    *,
    control: str | None = None,
    confidence: float = 0.95,
    planned_units: int | None = None,
    correction: str = "holm",
    look: tuple[int, int] | None = None,
    aa: bool = False,
    holdout: float | None = None,
    split: Mapping[str, float] | None = None,
    cluster: str = "unit",
    seed: int = 0,
    **options: Any,
) -> Report:
    """A log to a verdict, with health checks before it and every number behind it.

    `log` is a path, a glob or a folder, or several (Parquet, JSON lines, kept tallies); a table or stream of Arrow, a
    data frame, also one of Spark; or a `Tally`. `scheme`, `method`: how clicks become scores, by default as the lists
    were composed. `events`: the kinds that count, with weights; `dwell`, `first`, `window`: which of them. `exclude`,
    such as `{"device": ["bot"]}`, or an `Exclusion` of units, too: crawlers and internal traffic, left out and counted.
    `by`: attributes to split by. `engine="spark"`: Parquet, read by Spark's executors. `credit`: what `learn` wrote,
    in place of equal credit. `control`: whom the others are compared with. `look=(2, 5)`: this is the second of five
    planned looks; without, the verdict rests on intervals that hold however often one looks. `planned_units`: the size
    that was planned before the start, where these intervals are narrowest. `holdout`, `split`: planned shares of units,
    0.05 in the holdout, {"A": 0.6, "B": 0.4} of those in A/B buckets (else equal ones). `cluster`: what errors are
    clustered by, "unit" for a result about the queries of this log, "unit_and_query" for one about queries like these.
    """
    settings = Settings(
        control, confidence, planned_units, correction, look, aa, holdout, seed=seed, split=split, cluster=cluster
    )
    return report(analyzed_tally(log, scheme, by, **options), settings, query_finder(log))


def query_finder(log: Any) -> FindText | None:
    """Looks up the text of a query in a log that can be read again on this machine; tallies have no texts."""
    if isinstance(log, (pa.Table, pa.RecordBatch)):
        return lambda number: query_text(read(log, ("query",)), number)
    paths = [log] if isinstance(log, (str, PathLike)) else log
    if not isinstance(paths, list | tuple) or not all(isinstance(path, (str, PathLike)) for path in paths):
        return None
    if any(_is_tally(path) or "://" in str(path) for path in paths):
        return None
    return lambda number: query_text(read(log, ("query",)), number)


def analyzed_tally(log: Any, scheme: str | None = None, by: Sequence[str] = (), **options: Any) -> Tally:
    """The tally of a log, or of kept tallies, which have been scored already."""
    paths = [log] if isinstance(log, (str, PathLike, Tally)) else log
    if isinstance(log, (str, PathLike)) and has_magic(str(log)) and str(log).endswith(TALLY):
        paths = sorted(glob(str(log)))
    if isinstance(paths, list | tuple) and any(_is_tally(path) for path in paths):
        if not all(_is_tally(path) for path in paths):
            raise DataError("tallies and logs cannot be mixed; tally the logs first, then give tallies alone")
        given = [name for name, value in {"scheme": scheme, "by": by or None, **options}.items() if value is not None]
        if given:
            raise DataError(f"a kept tally has been scored already, without {listed(given)}; leave that out")
        kept = [path if isinstance(path, Tally) else Tally.load(Path(path)) for path in paths]
        return reduce(Tally.__add__, kept)
    return tally_log(log, scheme, by, **options)


def _is_tally(given: Any) -> bool:
    return isinstance(given, Tally) or (isinstance(given, (str, PathLike)) and str(given).endswith(TALLY))
