"""Scores of an interleaved list: they decrease, so that programs that sort or cut by score keep its order."""

from __future__ import annotations

from collections.abc import Sequence

STEP = 1e-6  # the smallest relative difference of two scores that follow each other: more than a 32 bit number resolves


def decrease(scores: Sequence[float | None]) -> list[float | None]:
    """Scores that decrease: each is the document's own, or a little below the one before.

    They depend on the documents before only, so they are the same on every page. If a document has no score, none has.

    >>> decrease([2.0, 3.0, 1.0])
    [2.0, 1.999998, 1.0]
    >>> decrease([2.0, None])
    [None, None]
    """
    decreasing = list[float | None]()
    last = float("inf")
    for score in scores:
        if score is None:
            return [None] * len(scores)
        last = min(score, last - max(abs(last) * STEP, 1e-9)) if decreasing else score
        decreasing.append(last)
    return decreasing
