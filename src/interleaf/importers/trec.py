"""TREC runs: exports the rankings of a log as runs and judgments as qrels; composes lists from runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from interleaf.errors import DataError
from interleaf.importers.protocol import UNDATED
from interleaf.interleaving.api import interleave
from interleaf.log.reader import read
from interleaf.log.record_batches import rows_of, rows_to_batch, whole_file, write_batches
from interleaf.log.trec_runs import encode_name, write_run_lines
from interleaf.methods.registry import DEFAULT

AT_ONCE = 1024
LOG_RANKINGS = "log the rankings (LogWriter's rankings=True)"


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
