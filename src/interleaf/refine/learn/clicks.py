"""Clicks one by one: what each was like, and what it gives each ranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from interleaf import batch
from interleaf.decode import Decoded
from interleaf.errors import MethodError
from interleaf.methods.arrays import Array, Impression
from interleaf.methods.table import Chosen, Scheme
from interleaf.refine.learn.captions import CaptionWeights
from interleaf.refine.learn.features import Clicked

_AGREE = 1e-9


class Credited(NamedTuple):
    """Clicks, and what a click of equal credit gives each ranker: `shares[click, ranker]`, divided as Eq. 14 says."""

    clicks: Clicked
    shares: Array

    def by_page(self, values: Array, pages: int) -> Array:
        """Sums over the clicks of each page: values `[click, ...]` in, `[page, ...]` out."""
        found = np.zeros((pages, *values.shape[1:]))
        starts = np.flatnonzero(np.diff(self.clicks.page, prepend=-1))
        if len(starts):
            found[self.clicks.page[starts]] = np.add.reduceat(values, starts)
        return found


def credited(
    decoded: Decoded,
    kinds: Sequence[str],
    chosen: Chosen,
    scheme: Scheme,
    captions: CaptionWeights | None = None,
) -> Credited:
    """The clicks of decoded impressions, page by page in the order of time; ties from the top down."""
    clicked = decoded.clicked
    pages, positions = np.nonzero(clicked)
    shares, number = shares_by_click(decoded.impressions, decoded.counts, clicked, chosen, scheme)
    seconds = decoded.clicks.seconds[pages, positions]
    order = np.lexsort((positions, seconds, pages))
    pages, positions = pages[order], positions[order]
    starts = np.flatnonzero(np.diff(pages, prepend=-1))
    sizes = np.diff(starts, append=len(pages))
    first = np.repeat(starts, sizes)
    divisor = np.maximum(number[pages], 1)
    found = Clicked(
        page=pages,
        rank=positions + 1,
        order=np.arange(len(pages)) - first + 1,
        clicks=np.repeat(sizes, sizes),
        credited=divisor,
        first_rank=positions[first] + 1,
        regression=_below_before(pages, positions),
        seconds=seconds[order],
        dwell=decoded.clicks.dwells[pages, positions],
        kinds={kind: decoded.clicks.clicks[place, pages, positions] for place, kind in enumerate(kinds)},
        caption=np.ones(len(pages)) if captions is None else captions.of(decoded)[pages, positions],
    )
    return Credited(found, shares[order] / divisor[:, None])


def _below_before(pages: Array, positions: Array) -> Array:
    """Whether a lower position of the same page was clicked before: running maxima that begin anew with a page."""
    room = int(positions.max(initial=0)) + 1
    lowest = np.maximum.accumulate(pages * room + positions) if len(pages) else pages
    return np.asarray(lowest > pages * room + positions)


def shares_by_click(
    impressions: Impression, counts: Array, clicked: Array, chosen: Chosen, scheme: Scheme
) -> tuple[Array, Array]:
    """What each click adds to each ranker's credit, `[click, ranker]`, row by row; and the credited clicks of rows.

    The lowest click decides what clicks above it are worth in balanced interleaving. So the lowest gets what it gets
    alone, and each other one what it adds to that. Methods whose credit is not the sum of this are refused.
    """
    rows, positions = np.nonzero(clicked)
    totals, number = batch.credit(chosen, scheme, impressions, counts, clicked, 1)
    if not len(rows):
        return np.zeros((0, totals.shape[1])), number
    lowest = (clicked.shape[1] - 1 - clicked[:, ::-1].argmax(axis=1))[rows]
    patterns, places = np.zeros((len(rows), clicked.shape[1]), np.bool_), np.arange(len(rows))
    patterns[places, positions] = patterns[places, lowest] = True
    each = Impression(*(values[rows] for values in impressions))
    shares, _ = batch.credit(chosen, scheme, each, counts[rows], patterns, 1)
    alone = np.zeros_like(totals)
    is_lowest = positions == lowest
    alone[rows[is_lowest]] = shares[is_lowest]
    shares[~is_lowest] -= alone[rows[~is_lowest]]
    sums = np.zeros_like(totals)
    np.add.at(sums, rows, shares)
    if np.abs(sums - totals).max() > _AGREE * max(1.0, np.abs(totals).max()):
        raise MethodError(
            f"credit cannot be learned for {chosen}: what it gives for several clicks is not the sum of what it gives "
            "for each; score its lists by a method where it is"
        )
    return shares, number
