"""NDCG, DCG and MAP of judged queries, from TREC files, computed by ir-measures.

    DCG@k = sum over ranks r up to k of (2^grade - 1) / log2(r + 1),    NDCG@k = DCG@k / the largest possible DCG@k

The gain is 2^grade - 1, which we pass to ir-measures, because its default is the grade itself. It has no DCG, so we
multiply its NDCG by the largest possible DCG. MAP follows C12: of the grades 0 to 4, the upper two are relevant, and
documents below the top ten count as not found. Documents without a judgement are not relevant. A judged query without
a ranking has the value 0. Needs the extra: `judged`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from interleaf.environment import require
from interleaf.errors import DataError

Qrels = Mapping[str, Mapping[str, int]]
Rankings = Mapping[str, Sequence[str]]
RELEVANT = 3  # the lowest relevant grade: C12's upper two of 0 to 4
MAX_GRADE = 30  # a larger gain would not fit trec_eval's integers


def ndcg(qrels: Qrels, rankings: Rankings, cut: int = 5) -> dict[str, float]:
    """NDCG of each judged query, cut at a rank; 0 for a query without a relevant document.

    >>> ndcg({"q": {"a": 2, "b": 1}}, {"q": ["b", "a"]})  # (1 + 3 / log2(3)) / (3 + 1 / log2(3))
    {'q': 0.7967...}
    """
    grades = {grade for judged in qrels.values() for grade in judged.values()}
    return _by_query(_measures().nDCG(gains={grade: gain(grade) for grade in sorted(grades)}) @ cut, qrels, rankings)


def dcg(qrels: Qrels, rankings: Rankings, cut: int = 5) -> dict[str, float]:
    """DCG of each judged query, cut at a rank.

    >>> dcg({"q": {"a": 2, "b": 1}}, {"q": ["b", "a"]})
    {'q': 2.8927...}
    """
    values = {}
    for query, share in ndcg(qrels, rankings, cut).items():
        best = sorted((gain(grade) for grade in qrels[query].values()), reverse=True)[:cut]
        values[query] = share * float(np.array(best) @ (1 / np.log2(np.arange(2, len(best) + 2))))
    return values


def average_precision(qrels: Qrels, rankings: Rankings, cut: int = 10, relevant: int = RELEVANT) -> dict[str, float]:
    """Average precision of each judged query, whose mean is MAP; `relevant` is the lowest relevant grade.

    It is the sum of the precisions at the relevant documents down to the cut, divided by the number of relevant ones.

    >>> average_precision({"q": {"a": 4, "b": 3, "c": 1}}, {"q": ["c", "a"]})
    {'q': 0.25}
    """
    return _by_query(_measures().AP(rel=relevant) @ cut, qrels, rankings)


def gain(grade: int) -> int:
    """The gain of a grade: 2^grade - 1.

    >>> [gain(grade) for grade in range(5)]
    [0, 1, 3, 7, 15]
    """
    if not 0 <= grade <= MAX_GRADE:
        raise DataError(f"a judgement has the grade {grade}; grades are whole numbers from 0 to {MAX_GRADE}")
    return int(2**grade - 1)


def read_qrels(path: str | PathLike[str]) -> dict[str, dict[str, int]]:
    """Read judgements from a TREC file, one `qid 0 docid grade` per line; grades below 0 (spam, broken) become 0."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; give a TREC file of judgements") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text; give a TREC file of judgements, 'qid 0 docid grade' a line") from None
    qrels: dict[str, dict[str, int]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        words, where = line.split(), f"{path}, line {number}"
        if len(words) != 4:
            raise DataError(f"{where}: {line!r} is not 'qid 0 docid grade'")
        query, document, grade = words[0], words[2], _grade(words[3], where)
        judged = qrels.setdefault(query, {})
        if document in judged:
            raise DataError(f"{where}: document {document!r} of query {query!r} is judged twice; keep one")
        judged[document] = max(grade, 0)
    if not qrels:
        raise DataError(f"{path} judges nothing; give a TREC file with at least one line 'qid 0 docid grade'")
    return qrels


def _grade(text: str, where: str) -> int:
    try:
        grade = int(text)
    except ValueError:
        raise DataError(f"{where}: the grade {text!r} is not a whole number") from None
    if grade > MAX_GRADE:
        raise DataError(f"{where}: the grade {grade} is above {MAX_GRADE}; map grades to a smaller scale first")
    return grade


def _by_query(measure: Any, qrels: Qrels, rankings: Rankings) -> dict[str, float]:
    """A value for each judged query, in the order of the judgements."""
    run = {}  # rankings as scores, because trec_eval sorts by score
    for query, documents in rankings.items():
        run[query] = {document: float(-rank) for rank, document in enumerate(documents)}
        if len(run[query]) < len(documents):
            twice = next(document for document in documents if documents.count(document) > 1)
            raise DataError(f"the ranking of query {query!r} has document {twice!r} twice; keep one")
    judged = {query: dict(documents) for query, documents in qrels.items()}
    values = dict.fromkeys(judged, 0.0)
    for metric in _measures().iter_calc([measure], judged, run):
        values[metric.query_id] = float(metric.value)
    return values


def _measures() -> Any:
    require("judged", "judged metrics need", "ir_measures")
    import ir_measures

    return ir_measures
