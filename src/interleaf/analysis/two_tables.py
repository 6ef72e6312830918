"""Two tables, impressions and events, as arguments of `analyze`: they are joined to a log in a temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interleaf.errors import DataError, InterleafError, raise_errors
from interleaf.execution.options import SPARK, LogOptions
from interleaf.importers.protocol import ImportOptions
from interleaf.importers.two_tables.convert import import_tables
from interleaf.log import schema
from interleaf.log.files import ENDINGS
from interleaf.methods.registry import FOREIGN

KINDS = "click"  # the kinds that count, if none are named


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
        given = {"map": tables.map, "rankers": tables.rankers, "ordinals": tables.ordinals is not None}
        names = [name for name, value in given.items() if value]
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
