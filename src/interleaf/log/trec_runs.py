"""TREC runs, `qid Q0 docid rank score tag` a line: rankings of queries, as text files.

White space in names, which a run cannot contain, is percent-encoded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from urllib.parse import quote

from interleaf.errors import DataError

_UNFIT = re.compile(r"[\s%]")


def read_run(path: str | PathLike[str]) -> dict[str, list[str]]:
    """A TREC run, `qid Q0 docid rank score tag` or `qid docid score`: best score first, ties in the order of the file.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".run") as file:
    ...     written = file.write("7 d1 0.5\\n7 d2 2.5\\n9 d1 1\\n")
    ...     file.flush()
    ...     read_run(file.name)
    {'7': ['d2', 'd1'], '9': ['d1']}
    """
    scores: dict[str, dict[str, float]] = {}
    for where, query, document, score in read_run_lines(path):
        ranked = scores.setdefault(query, {})
        if document in ranked:
            raise DataError(f"{where}: document {document!r} of query {query!r} is there twice; keep one")
        ranked[document] = score
    if not scores:
        raise DataError(f"{path} ranks nothing; give a TREC run with at least one line")
    return {query: sorted(ranked, key=lambda document: -ranked[document]) for query, ranked in scores.items()}


def read_run_lines(path: str | PathLike[str]) -> Iterator[tuple[str, str, str, float]]:
    """The place of each line of a TREC run in its file, its query, document and score; `qid docid score` also works."""
    for where, line in read_lines(path):
        words = line.split()
        if len(words) not in (3, 6):
            raise DataError(f"{where}: {line!r} is not 'qid Q0 docid rank score tag', nor 'qid docid score'")
        query, document, score = words if len(words) == 3 else (words[0], words[2], words[4])
        yield where, query, document, parse_score(score, where)


def read_lines(path: str | PathLike[str]) -> list[tuple[str, str]]:
    """The lines of a file of scores that hold something, each with its place in the file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; give a file of scores") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text; give a file of scores") from None
    return [(f"{path}, line {number}", line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def parse_score(text: str, where: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{where}: {text!r} is not a finite number")
    return value


def write_run_lines(by_query: Mapping[str, Sequence[str]], tag: str) -> Iterator[bytes]:
    """The lines of a run; scores strictly decrease, since tools sort a run by its score.

    >>> list(write_run_lines({"7": ["d2", "d1"]}, "bm25"))
    [b'7 Q0 d2 1 2 bm25\\n', b'7 Q0 d1 2 1 bm25\\n']
    """
    for query, ranking in by_query.items():
        for rank, document in enumerate(ranking, 1):
            score = len(ranking) + 1 - rank
            yield f"{encode_name(query)} Q0 {encode_name(document)} {rank} {score} {encode_name(tag)}\n".encode()


def encode_name(text: str) -> str:
    """A name without white space, as a TREC file needs it."""
    return _UNFIT.sub(lambda match: quote(match[0], safe=""), text)
