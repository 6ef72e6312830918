"""What a click was like: the features that its credit is learned from, a named row each (C12, section 10.5).

C12 counts 51 features in five families, and describes them without a list; the rows below have its counts:

    A  functions of the rank (9)                 rank, log, root; as they are, by click, as a share of the page's sum
    B  the rank itself (20)                      1 to 10; on pages with a single click, and with several
    C  inside or below the top 4 (8)             by click and as it is; single, several
    D  first, last, or back to a higher rank (6) all; and where several clicks began below rank 1
    E  dwell of at least 30, 60, 90, 120 s (8)   the same two variants

The score of a page divides by its number of credited clicks (Eq. 14). So a feature by click is its plain value, and one
`as it is` is multiplied by that number. Besides them `click` is 1 for every click: equal credit. Add rows of your own:

>>> FEATURES["late"] = Feature("late", "own", "after a minute", lambda clicks: clicks.seconds > 60)
>>> del FEATURES["late"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.caption_bias.features import measure
from interleaf.caption_bias.logistic_model import Model
from interleaf.decode import Decoded
from interleaf.decode.columns import Lists, column, lists
from interleaf.errors import DataError, MethodError, listed
from interleaf.interleaving import batch
from interleaf.kernels.arrays import Array, Impression
from interleaf.methods.registry import ResolvedMethod
from interleaf.methods.schemes import Scheme

EQUAL = "click"
CAPTION = "caption_weight"
KIND = "kind "  # and the name of a kind of event: such features are there for every kind but the first
TOP = 4
LAST_RANK = 10
DWELLS = (30, 60, 90, 120)


class Clicked(NamedTuple):
    """Clicked results, page by page in the order of their clicks; a result that was clicked twice is there once.

    `page` numbers the impressions. `rank` from 1; `order` of the click on its page, from 1; `clicks` of the page, and
    how many of them are `credited`; `first_rank` of the page's first click; `regression`: whether a lower rank was
    clicked before. `seconds` after the list was shown; `dwell` in seconds, nan where unknown; `kinds[kind]`: whether an
    event of that kind was there, `caption`: the caption's click weight (H12c), 1 where unknown.
    """

    page: Array
    rank: Array
    order: Array
    clicks: Array
    credited: Array
    first_rank: Array
    regression: Array
    seconds: Array
    dwell: Array
    kinds: dict[str, Array]
    caption: Array

    def sums(self, values: Array) -> Array:
        """For each click, the sum of these values over its page."""
        return np.bincount(self.page, values)[self.page] if len(values) else values


@dataclass(frozen=True)
class Feature:
    """One row: its name, its family, what it means, and its values for clicks: one each, numbers or truths."""

    name: str
    family: str
    meaning: str
    values: Callable[[Clicked], Array]


def by_click(clicks: Clicked, values: Array) -> Array:
    """By click: Eq. 14 divides by their number."""
    return values


def as_it_is(clicks: Clicked, values: Array) -> Array:
    """Not divided by the number of clicks: Eq. 14's division undone."""
    return values * clicks.credited


def of_the_sum(clicks: Clicked, values: Array) -> Array:
    """As a share of the page's sum, 0 where that is 0."""
    total = clicks.sums(values)
    shares: Array = np.divide(values * clicks.credited, total, out=np.zeros(len(values)), where=total != 0)
    return shares


Normalizing = Callable[[Clicked, Array], Array]
_FUNCTIONS: dict[str, Callable[[Array], Array]] = {"rank": np.asarray, "log_rank": np.log, "root_rank": np.sqrt}
_NORMALIZED: dict[str, tuple[str, Normalizing]] = {
    "": ("by click", by_click),
    "_as_it_is": ("not divided by the clicks", as_it_is),
    "_of_the_sum": ("as a share of the page's sum", of_the_sum),
}
_PAGES: dict[str, tuple[str, Callable[[Clicked], Array]]] = {
    "single_": ("of a page with one click", lambda clicks: clicks.clicks == 1),
    "several_": ("of a page with several clicks", lambda clicks: clicks.clicks > 1),
}
_ORDERS: dict[str, tuple[str, Callable[[Clicked], Array]]] = {
    "first": ("the first click of its page", lambda clicks: clicks.order == 1),
    "last": ("the last click of its page", lambda clicks: clicks.order == clicks.clicks),
    "regression": ("a click above an earlier one", lambda clicks: clicks.regression),
}
_BEGUN: dict[str, tuple[str, Callable[[Clicked], Array]]] = {
    "": ("", lambda clicks: np.ones(len(clicks.rank), np.bool_)),
    "_begun_below": (
        ", of several that began below rank 1",
        lambda clicks: (clicks.clicks > 1) & (clicks.first_rank > 1),
    ),
}


def _functions() -> Iterator[Feature]:
    for (name, function), (suffix, (said, normalized)) in product(_FUNCTIONS.items(), _NORMALIZED.items()):
        yield Feature(
            name + suffix,
            "A",
            f"{name.replace('_', ' of the ')}, {said}",
            lambda clicks, function=function, normalized=normalized: normalized(  # type: ignore[misc]
                clicks, function(clicks.rank.astype(np.float64))
            ),
        )


def _ranks() -> Iterator[Feature]:
    for (pages, (said, are)), rank in product(_PAGES.items(), range(1, LAST_RANK + 1)):
        yield Feature(
            f"{pages}rank_{rank}",
            "B",
            f"at rank {rank} {said}",
            lambda clicks, are=are, rank=rank: are(clicks) & (clicks.rank == rank),  # type: ignore[misc]
        )


def _halves() -> Iterator[Feature]:
    halves = {f"top_{TOP}": f"at rank {TOP} or above", f"below_{TOP}": f"below rank {TOP}"}
    for (half, where), (pages, (said, are)), suffix in product(halves.items(), _PAGES.items(), ("", "_as_it_is")):
        way, normalized = _NORMALIZED[suffix]
        upper = half.startswith("top")
        yield Feature(
            f"{pages}{half}{suffix}",
            "C",
            f"{where} {said}, {way}",
            lambda clicks, are=are, upper=upper, normalized=normalized: normalized(  # type: ignore[misc]
                clicks, are(clicks) & ((clicks.rank <= TOP) == upper)
            ),
        )


def _orders() -> Iterator[Feature]:
    for (suffix, (said, begun)), (name, (which, are)) in product(_BEGUN.items(), _ORDERS.items()):
        yield Feature(
            name + suffix,
            "D",
            which + said,
            lambda clicks, are=are, begun=begun: are(clicks) & begun(clicks),  # type: ignore[misc]
        )


def _dwells() -> Iterator[Feature]:
    for (suffix, (said, begun)), seconds in product(_BEGUN.items(), DWELLS):
        yield Feature(
            f"dwell_{seconds}{suffix}",
            "E",
            f"stayed {seconds} s or longer{said}",
            lambda clicks, begun=begun, seconds=seconds: (clicks.dwell >= seconds) & begun(clicks),  # type: ignore[misc]
        )


_FAMILIES = (_functions, _ranks, _halves, _orders, _dwells)
FEATURES: dict[str, Feature] = {
    row.name: row
    for row in (
        Feature(EQUAL, "equal", "every click alike", lambda clicks: np.ones(len(clicks.rank))),
        *(row for family in _FAMILIES for row in family()),
        Feature(CAPTION, "caption", "the caption's click weight (H12c)", lambda clicks: clicks.caption),
    )
}
PUBLISHED = tuple(name for name, row in FEATURES.items() if row.family in tuple("ABCDE"))


def feature(name: str) -> Feature:
    """The row with this name; that of any kind of event among them.

    >>> feature("kind purchase").meaning
    'with an event of kind purchase'
    """
    if name in FEATURES:
        return FEATURES[name]
    if name.startswith(KIND):
        kind = name.removeprefix(KIND)
        return Feature(name, "kind", f"with an event of kind {kind}", lambda clicks: clicks.kinds[kind])
    raise DataError(
        f"unknown feature {name!r} of clicks; known are {listed(FEATURES)}; add a row of your own to "
        "interleaf.click_value.click_features.FEATURES before"
    )


def default_features(kinds: Sequence[str], captions: bool = False) -> tuple[str, ...]:
    """Equal credit, C12's 51, the kinds of events that count but for the first, and the caption weight where known.

    >>> len(default_features(["click"]))
    52
    """
    return (EQUAL, *PUBLISHED, *(KIND + kind for kind in kinds[1:]), *((CAPTION,) if captions else ()))


def matrix(clicks: Clicked, names: Sequence[str]) -> Array:
    """Values `[click, feature]`."""
    found = np.empty((len(clicks.rank), len(names)))
    for place, name in enumerate(names):
        values = feature(name).values(clicks)
        if np.shape(values) != (len(clicks.rank),) or not np.isfinite(values).all():
            raise DataError(f"feature {name!r} should give one finite number for each click, not {values!r}")
        found[:, place] = values
    return found


COLUMN = "captions"


@dataclass(frozen=True)
class CaptionWeights:
    """Click weights by a model, of the captions of a batch."""

    model: Model
    batch: pa.RecordBatch | None = None

    def on(self, batch: pa.RecordBatch) -> CaptionWeights:
        """The same, ready for the rows of a batch."""
        return replace(self, batch=batch)

    def of(self, decoded: Decoded) -> Array:
        """`[row, position]`; 1 where a row has no captions, or not one for each document."""
        found = np.ones(decoded.clicked.shape)
        if self._captions is None:
            return found
        offsets = self._captions.offsets.astype(np.int64)
        whole = np.flatnonzero(np.diff(offsets)[decoded.rows] == decoded.counts)
        counts = decoded.counts[whole]
        rows = np.repeat(whole, counts)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        measures = self._measures[offsets[decoded.rows[rows]] - offsets[0] + places]
        codes = self.model.encoder.encode(measures, counts, np.full(len(rows), -1))
        found[rows, places] = self.model.click_weights(codes)
        return found

    @cached_property
    def _captions(self) -> Lists | None:
        array = None if self.batch is None else column(self.batch, COLUMN)
        return None if array is None else lists(array)

    @cached_property
    def _measures(self) -> Array:
        assert self._captions is not None
        first, last = int(self._captions.offsets[0]), int(self._captions.offsets[-1])
        return measure(self._captions.values.slice(first, last - first))


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
    chosen: ResolvedMethod,
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
    impressions: Impression, counts: Array, clicked: Array, chosen: ResolvedMethod, scheme: Scheme
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
