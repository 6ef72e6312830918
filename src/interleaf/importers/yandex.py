"""Click logs in the text format of the Yandex relevance prediction challenge, which PyClick reads, too."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import Any

from interleaf.clicks.result_pages import NO_PAGE, ResultPages, parse_yandex, split_yandex_line
from interleaf.errors import DataError
from interleaf.importers.protocol import ENGINE, UNDATED, ImportNote, ImportOptions, ImportResult
from interleaf.log.files import Paths
from interleaf.log.jsonl import lines_of
from interleaf.log.record_batches import rows_to_batch, write_batches

_DEFAULTS = ImportOptions()
AT_ONCE = 1024


def read_yandex(path: str | PathLike[str]) -> ResultPages:
    """The pages of a log, plain or gzip; `pages.reading` counts how its clicks were assigned."""
    data = Path(path).read_bytes()
    try:
        text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode()
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path} is neither UTF-8 text nor a complete gzip file: {error}") from error
    return parse_yandex(text.split("\n"), str(path))


def import_yandex(source: Paths, out: str | Path, options: ImportOptions = _DEFAULTS) -> ImportResult:
    """Import a log: a page is an impression, a session is a unit; clicks are assigned as by `read_yandex`.

    The format does not define the unit of times: `options.time_unit` is that unit in seconds. Times have no date, and
    count from the year 2000.
    """
    paths = [source] if isinstance(source, str | PathLike) else list(source)
    if len(paths) != 1:
        raise DataError(f"{len(paths)} files are given; a yandex log is one file")
    path = Path(paths[0])
    imported = ImportResult(unit="session")
    pages: list[dict[str, Any]] = []
    sessions: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for number, line in lines_of(path):
        try:
            page = _page_or_click(sessions, _fields(line), options.time_unit, imported.counts)
        except DataError as problem:
            raise DataError(f"{path}, line {number}: {problem}") from None
        if page is not None:
            pages.append(page | {"impression": f"p-{len(pages) + 1}"})
            sessions[page["session"]].append(pages[-1])
    if not pages:
        raise DataError(f"{path} {NO_PAGE}")
    constant = {"experiment": options.experiment, "version": 1, "arm": ENGINE, "rankers": [ENGINE]}
    constant["method"] = options.single
    starts = range(0, len(pages), AT_ONCE)
    write_batches(out, (rows_to_batch(constant | page for page in pages[at : at + AT_ONCE]) for at in starts))
    imported.impressions, imported.events = len(pages), sum(len(page["events"]) for page in pages)
    return imported


def _fields(line: bytes) -> list[str]:
    try:
        return split_yandex_line(line.decode())
    except UnicodeDecodeError:
        raise DataError("it is not text in UTF-8") from None


def _page_or_click(
    sessions: Mapping[str, list[dict[str, Any]]], fields: list[str], unit: float, counts: Counter[str]
) -> dict[str, Any] | None:
    """A new page; or None for a click, which is added to the latest page of its session that shows the document."""
    if not fields:
        return None
    session, passed, kind = fields[:3]
    try:
        time = UNDATED + timedelta(seconds=float(passed) * unit)
    except (ValueError, OverflowError):
        raise DataError(f"{passed!r} is not a time") from None
    if kind == "Q":
        about = {"unit": session, "session": session, "time": time, "query": fields[3]}
        return about | {"attributes": {"region": fields[4]}, "documents": fields[5:], "events": []}
    for place, page in enumerate(reversed(sessions.get(session, []))):
        if fields[3] in page["documents"]:
            counts[ImportNote.EARLIER_PAGE] += place > 0
            page["events"].append({"kind": "click", "rank": page["documents"].index(fields[3]) + 1, "time": time})
            return None
    counts[ImportNote.EVENT_NOT_ON_LIST] += 1
    return None
