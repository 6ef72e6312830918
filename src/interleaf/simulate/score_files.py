"""Scores from elsewhere as rankers: a file with one score a row of the judged set, and TREC runs."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.simulate.data import Judged


def read_scores(path: str | PathLike[str], data: Judged) -> Array:
    """One number a line, a line a row of the data, in its order."""
    lines = _lines(path)
    if len(lines) != len(data.grades):
        raise DataError(f"{path} holds {len(lines)} scores; {data.name} has {len(data.grades)} rows, give one a row")
    return np.array([_number(line.strip(), path, number) for number, line in lines])


def read_run(path: str | PathLike[str], data: Judged) -> Array:
    """A TREC run, `qid Q0 docid rank score tag`: sorted by score, documents that it lacks come after all it has.

    A document's id is its number in its query, from 1: `7`, or as simulated logs name it, `q12-d7` in query 12.
    """
    starts = dict(zip(data.queries, data.offsets[:-1].tolist(), strict=True))
    sizes = dict(zip(data.queries, np.diff(data.offsets).tolist(), strict=True))
    scores = np.full(len(data.grades), np.nan)
    for where, query, named, score in run_lines(path):
        document = named.removeprefix(f"q{query}-d")
        if query not in starts:
            raise DataError(f"{where}: {data.name} has no query {query!r}")
        if not document.isdecimal() or not 1 <= int(document) <= sizes[query]:
            raise DataError(f"{where}: query {query!r} has documents 1 to {sizes[query]}, not {named!r}")
        row = starts[query] + int(document) - 1
        if not np.isnan(scores[row]):
            raise DataError(f"{where}: document {named!r} of query {query!r} is there twice; keep one")
        scores[row] = score
    if np.isnan(scores).all():
        raise DataError(f"{path} ranks nothing; give a TREC run with at least one line")
    lowest = np.nanmin(scores)
    return np.where(np.isnan(scores), lowest - max(1.0, 1e-9 * abs(lowest)), scores)


def run_lines(path: str | PathLike[str]) -> Iterator[tuple[str, str, str, float]]:
    """Where each line of a TREC run stands, its query, document and score; `qid docid score` will do, too."""
    for number, line in _lines(path):
        words, where = line.split(), f"{path}, line {number}"
        if len(words) not in (3, 6):
            raise DataError(f"{where}: {line!r} is not 'qid Q0 docid rank score tag', nor 'qid docid score'")
        query, document, score = words if len(words) == 3 else (words[0], words[2], words[4])
        yield where, query, document, _number(score, path, number)


def _lines(path: str | PathLike[str]) -> list[tuple[int, str]]:
    """The lines that hold something, with their numbers."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; give a file of scores") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text; give a file of scores") from None
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _number(text: str, path: str | PathLike[str], line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise DataError(f"{path}, line {line}: {text!r} is not a finite number")
    return value
