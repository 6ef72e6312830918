"""Click logs in the text format of the Yandex relevance prediction challenge, which PyClick reads, too."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any

from interleaf.clicks.result_pages import ResultPages, parse_yandex
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
        raise DataError(f"{path} is neither text nor whole gzip of it: {error}") from error
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
    sessions: dict[str, list[_Page]] = {}
    for number, fields in _lines(path):
        try:
            _add(sessions, fields, options.time_unit, imported)
        except DataError as problem:
            raise DataError(f"{path}, line {number}: {problem}") from None
    pages = [page for shown in sessions.values() for page in shown]
    if not pages:
        raise DataError(f"{path} shows no page; a page is a line of session, time, Q, query, region and urls")
    constant = {"experiment": options.experiment, "version": 1, "arm": ENGINE, "rankers": [ENGINE]}
    constant["method"] = options.single
    pages.sort(key=lambda page: page.number)
    starts = range(0, len(pages), AT_ONCE)
    write_batches(out, (rows_to_batch(constant | page.row() for page in pages[at : at + AT_ONCE]) for at in starts))
    imported.impressions, imported.events = len(pages), sum(len(page.events) for page in pages)
    return imported


@dataclass(eq=False)
class _Page:
    number: int
    session: str
    time: datetime
    query: str
    region: str
    documents: list[str]
    events: list[dict[str, Any]]

    def row(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in ("session", "time", "query", "documents", "events")}
        return found | {"impression": f"p-{self.number}", "unit": self.session, "attributes": {"region": self.region}}


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines_of(path):
        try:
            fields = line.decode().rstrip().split("\t")
        except UnicodeDecodeError:
            raise DataError(f"{path}, line {number} is not text in UTF-8") from None
        if fields != [""]:
            yield number, fields


def _add(sessions: dict[str, list[_Page]], fields: list[str], unit: float, imported: ImportResult) -> None:
    """Add a page, or a click to the latest page of the session that shows the document."""
    session, passed, kind = fields[:3] if len(fields) > 3 else ("", "", "")
    if "" in fields or (not (kind == "C" and len(fields) == 4) and not (kind == "Q" and len(fields) > 5)):
        raise DataError("it is neither session, time, Q, query, region and urls, nor session, time, C and one url")
    try:
        time = UNDATED + timedelta(seconds=float(passed) * unit)
    except (ValueError, OverflowError):
        raise DataError(f"{passed!r} is no time") from None
    if kind == "Q":
        imported.impressions += 1
        page = _Page(imported.impressions, session, time, fields[3], fields[4], fields[5:], [])
        sessions.setdefault(session, []).append(page)
        return
    for place, page in enumerate(reversed(sessions.get(session, []))):
        if fields[3] in page.documents:
            imported.counts[ImportNote.EARLIER_PAGE] += place > 0
            page.events.append({"kind": "click", "rank": page.documents.index(fields[3]) + 1, "time": time})
            return
    imported.counts[ImportNote.EVENT_NOT_ON_LIST] += 1
