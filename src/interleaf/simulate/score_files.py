"""Scores from elsewhere as rankers: a file with one score a row of the judged set, and TREC runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.simulate.data import Judged


def read_scores(path: str | Path, data: Judged) -> Array:
    """One number a line, a line a row of the data, in its order."""
    lines = [line.split() for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    if len(lines) != len(data.grades):
        raise DataError(
            f"{path} holds {len(lines)} scores, but {data.name} has {len(data.grades)} rows; give one a row"
        )
    return np.array([_number(words[0], path, number) for number, words in enumerate(lines, 1)])


def read_run(path: str | Path, data: Judged) -> Array:
    """A TREC run, `qid Q0 docid rank score tag`: sorted by score, documents that it lacks come after all it has.

    A document's id is its number in its query, from 1, alone or after anything and a dash: `7`, or `q12-d7`.
    """
    starts = dict(zip(data.queries, data.offsets[:-1].tolist(), strict=True))
    sizes = dict(zip(data.queries, np.diff(data.offsets).tolist(), strict=True))
    scores = np.full(len(data.grades), np.nan)
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        words = line.split()
        if len(words) != 6:
            raise DataError(f"{path}, line {number}: {line!r} is not 'qid Q0 docid rank score tag'")
        query, document = words[0], words[2].rpartition("-")[2].lstrip("d")
        if query not in starts:
            raise DataError(f"{path}, line {number}: {data.name} has no query {query!r}")
        if not document.isdecimal() or not 1 <= int(document) <= sizes[query]:
            raise DataError(
                f"{path}, line {number}: query {query!r} has documents 1 to {sizes[query]}, not {words[2]!r}"
            )
        scores[starts[query] + int(document) - 1] = _number(words[4], path, number)
    if np.isnan(scores).all():
        raise DataError(f"{path} ranks nothing; give a TREC run with at least one line")
    return np.where(np.isnan(scores), np.nanmin(scores) - 1, scores)


def _number(text: str, path: str | Path, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise DataError(f"{path}, line {line}: {text!r} is not a finite number")
    return value
