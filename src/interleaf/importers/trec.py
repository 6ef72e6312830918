"""TREC: exports the rankings of a log as runs and judgments as qrels; composes lists from runs; imports sessions.

The logs of the Session track (2011 to 2014) have real users, captions, clicks and judgments. They have no dates, so
times count from 1 January 2000. They do not say what was shown in bold; with `highlight`, it is what search engines
usually highlight: the words of the query, with adjacent words as one section.
"""

from __future__ import annotations

import gzip
import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa

from interleaf.errors import DataError
from interleaf.importers.protocol import ENGINE, UNDATED
from interleaf.interleaving.api import interleave
from interleaf.log.reader import read
from interleaf.log.record_batches import rows_of, rows_to_batch, whole_file, write_batches
from interleaf.log.trec_runs import encode_name, write_run_lines
from interleaf.methods.registry import DEFAULT
from interleaf.metrics.judged import Qrels, read_qrels

AT_ONCE = 1024
LOG_RANKINGS = "log the rankings (LogWriter's rankings=True)"
UNKNOWN = "NA"
_ESCAPED = re.compile(r"\\([\"'/\\])")  # the logs of 2013 escape as JSON does, on top of XML


def export_trec(source: Any, folder: str | Path) -> Counter[str]:
    """Write a run for each ranker, `RANKER.run`, and `qrels.txt` if there are judgments; returns counts of problems.

    A query's rankings are those of its first impression that logged them.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise DataError(f"cannot write runs to {folder} ({problem.strerror}); give a folder") from None
    counts: Counter[str] = Counter()
    rankings: dict[str, dict[str, list[str]]] = {}
    grades: dict[tuple[str, str], int] = {}
    for row in rows_of(read(source, ["query", "rankers", "rankings", "documents", "grades"])):
        _gather(row, rankings, grades, counts)
    if not rankings and not grades:
        raise DataError(f"the log holds no rankings with a query, and no grades; {LOG_RANKINGS}")
    for ranker, by_query in rankings.items():
        with whole_file(folder / f"{encode_name(ranker).replace('/', '%2F')}.run") as file:
            file.writelines(write_run_lines(by_query, ranker))
    if grades:
        with whole_file(folder / "qrels.txt") as file:
            file.writelines(
                f"{encode_name(q)} 0 {encode_name(d)} {grade}\n".encode() for (q, d), grade in grades.items()
            )
    queries = len({query for one in rankings.values() for query in one})
    return counts + Counter({"runs": len(rankings), "queries": queries, "judgments": len(grades)})


def _gather(
    row: dict[str, Any],
    rankings: dict[str, dict[str, list[str]]],
    grades: dict[tuple[str, str], int],
    counts: Counter[str],
) -> None:
    query = row.get("query")
    if query is None:
        counts["impression without a query"] += 1
        return
    for document, grade in zip(row["documents"], row.get("grades") or [], strict=False):
        if grade is not None:
            grades[query, document] = grade
    if row.get("rankings") is None:
        counts["impression without rankings"] += 1
        return
    for ranker, ranking in zip(row["rankers"], row["rankings"], strict=True):
        first = rankings.setdefault(ranker, {}).setdefault(query, ranking)
        counts["ranking that changed since, left out"] += first != ranking


def compose(
    rankings: Mapping[str, Mapping[str, Sequence[str]]],
    out: str | Path,
    method: str = DEFAULT,
    k: int = 10,
    *,
    experiment: str = "composed",
    seed: int = 0,
) -> Counter[str]:
    """Compose a list for each query from rankings by ranker and query, such as runs; the log has no events.

    Queries that a ranker lacks are left out and counted.
    """
    counts: Counter[str] = Counter()
    queries = dict.fromkeys(query for by_query in rankings.values() for query in by_query)
    shared = [query for query in queries if all(by_query.get(query) for by_query in rankings.values())]
    counts["query that a ranker lacks"] = len(queries) - len(shared)
    if not shared:
        raise DataError(f"no query is ranked by all of {list(rankings)}; give runs of the same queries")

    def compose_row(query: str) -> dict[str, Any]:
        by_ranker = {ranker: list(by_query[query]) for ranker, by_query in rankings.items()}
        shown = interleave(by_ranker, method, k, key=(experiment, seed, query))
        about = {"experiment": experiment, "version": 1, "impression": query, "query": query, "arm": "interleaved"}
        return shown.to_dict(rankings=True) | about | {"time": UNDATED}

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(shared), AT_ONCE):
            yield rows_to_batch(map(compose_row, shared[start : start + AT_ONCE]))

    counts["impressions"] = write_batches(out, batches())
    return +counts


def read_trec_session(
    path: str | PathLike[str],
    judgments: str | PathLike[str] | None = None,
    *,
    highlight: bool = False,
    method: str = "single",
) -> list[dict[str, Any]]:
    """The pages of a track's XML file, plain or gzip, as `log.rows_to_batch` takes them.

    `judgments` are the track's qrels, where spam (-2) is not relevant. `method` is the method written to the log.
    """
    try:
        data = Path(path).read_bytes()
        tree = ElementTree.fromstring(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    except (OSError, EOFError, ElementTree.ParseError) as error:
        raise DataError(f"{path} is not a log of the TREC Session track: {error}") from None
    grades = {} if judgments is None else read_qrels(judgments)
    rows = [
        row | {"experiment": tree.tag, "version": 1, "method": method, "arm": ENGINE, "rankers": [ENGINE]}
        for session in tree.iter("session")
        for row in _pages(session, f"{tree.tag}-{session.get('num')}", grades, highlight)
    ]
    if not rows:
        raise DataError(f"{path} holds no page of results; give the XML file of a TREC Session track")
    return rows


def _pages(session: ElementTree.Element, name: str, grades: Qrels, highlight: bool) -> Iterator[dict[str, Any]]:
    topic = session.find("topic")
    about = "" if topic is None else topic.get("num", "")
    for page in session.iter("interaction"):
        results = list(page.iter("result"))
        if not results:
            continue
        query = (page.findtext("query") or "").strip()
        documents = [
            next((part.text or "" for part in result if part.tag.startswith("clueweb")), "").strip()
            for result in results
        ]
        yield {
            "impression": f"{name}-{page.get('num')}", "unit": name, "session": name,
            "time": _time(page.get("starttime", "0")), "query": query, "documents": documents,
            "captions": [_caption(result, query if highlight else "") for result in results],
            "grades": [grades.get(about, {}).get(document) for document in documents],
            "events": list(_events(page, [result.get("rank") for result in results])), "attributes": {},
        }  # fmt: skip


def _caption(result: ElementTree.Element, query: str) -> dict[str, Any]:
    title, snippet = (
        _ESCAPED.sub(r"\1", html.unescape(result.findtext(name) or "")).strip() for name in ("title", "snippet")
    )
    texts = {"title": title, "url": (result.findtext("url") or "").strip(), "snippet": snippet or None}
    marks = [
        {"field": field, "start": start, "end": end}
        for field, text in texts.items()
        for start, end in query_sections(text or "", query)
    ]
    return texts | {"highlights": marks, "deep_links": None}


def query_sections(text: str, query: str) -> list[tuple[int, int]]:
    """The sections of a text that are words of the query; adjacent words form one section.

    >>> query_sections("The civil war: causes of the Civil War", "us civil war")
    [(4, 13), (29, 38)]
    """
    words = sorted({re.escape(word) for word in re.findall(r"\w+", query.lower())}, key=len, reverse=True)
    if not words:
        return []
    one = f"(?:{'|'.join(words)})"
    return [match.span() for match in re.finditer(rf"\b{one}(?:\s+{one})*\b", text, re.IGNORECASE)]


def _events(page: ElementTree.Element, ranks: list[str | None]) -> Iterator[dict[str, Any]]:
    for click in page.iter("click"):
        rank = (click.findtext("rank") or "").strip()
        if rank not in ranks:
            raise DataError(f"a click at rank {rank!r} of interaction {page.get('num')!r}, where there is no result")
        begin, end = (click.get(name, UNKNOWN) for name in ("starttime", "endtime"))
        time = _time(page.get("starttime", "0") if begin == UNKNOWN else begin)
        dwell = None if UNKNOWN in (begin, end) else max(0.0, (_time(end) - time).total_seconds())
        yield {"kind": "click", "rank": ranks.index(rank) + 1, "time": time, "dwell": dwell}


def _time(text: str) -> datetime:
    """Seconds, or hours, minutes and seconds."""
    try:
        parts = [float(part) for part in text.split(":")]
    except ValueError:
        raise DataError(f"{text!r} is not a time; the track writes seconds, or hours:minutes:seconds") from None
    return UNDATED + timedelta(seconds=sum(part * 60**place for place, part in enumerate(reversed(parts))))
