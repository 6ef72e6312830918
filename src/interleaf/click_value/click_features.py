"""The features of a click from which its credit is learned, one row of a table each (C12, section 10.5).

C12 has 51 features in five families, but no complete list; the families below have the same sizes:

    A  functions of the rank (9)                 rank, log, root; as they are, by click, as a share of the page's sum
    B  the rank itself (20)                      1 to 10; on pages with a single click, and with several
    C  inside or below the top 4 (8)             by click and as it is; single, several
    D  first, last, or back to a higher rank (6) all; and where several clicks began below rank 1
    E  dwell of at least 30, 60, 90, 120 s (8)   the same two variants

The score of a page divides by its number of credited clicks (Eq. 14). So a feature `by click` is its plain value, and a
feature `as it is` is multiplied by that number. The feature `click` is 1 for every click: equal credit. Add your own:

>>> FEATURES["late"] = ClickFeature("late", "own", "after a minute", lambda clicks: clicks.seconds > 60)
>>> del FEATURES["late"]
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from interleaf.caption_bias.features import encode, measure
from interleaf.caption_bias.logistic_model import CaptionModel
from interleaf.decode import Decoded
from interleaf.decode.columns import column, list_column
from interleaf.decode.scoring import shares_by_click
from interleaf.errors import DataError, join_names
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import ResolvedMethod
from interleaf.methods.schemes import Scheme

EQUAL = "click"
CAPTION = "caption_weight"
KIND = "kind "  # the start of the names of features for kinds of events; each kind but the first has one
TOP = 4
LAST_RANK = 10
DWELLS = (30, 60, 90, 120)


class PageClicks(NamedTuple):
    """Clicked results, page by page in the order of their clicks; each result appears once.

    `page` is the number of the impression; `rank` and the `order` of the click on its page count from 1; `clicks` is
    the number of clicks on the page, `credited` how many of them are credited, `first_rank` the rank of the first one.
    `regression` says whether a lower rank was clicked before. `seconds` are since the list was shown; `dwell` is
    nan if unknown. `kinds[kind]` says whether the result has an event of that kind. `caption` is the click weight of
    the caption (H12c), 1 if unknown.
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

    def by_page(self, values: Array, pages: int) -> Array:
        """Sums over the clicks of each page: values `[click, ...]` in, `[page, ...]` out."""
        sums = np.zeros((pages, *values.shape[1:]))
        starts = np.flatnonzero(np.diff(self.page, prepend=-1))
        if len(starts):
            sums[self.page[starts]] = np.add.reduceat(values, starts)
        return sums


@dataclass(frozen=True)
class ClickFeature:
    """A feature: its name, family and meaning, and a function that returns a number or a boolean for each click."""

    name: str
    family: str
    meaning: str
    values: Callable[[PageClicks], Array]


Mask = Callable[[PageClicks], Array]
Normalize = Callable[[PageClicks, Array], Array]


def _share_of_sum(clicks: PageClicks, values: Array) -> Array:
    """The share of the page's sum, 0 if the sum is 0."""
    total = clicks.sums(values)
    return np.asarray(np.divide(values * clicks.credited, total, out=np.zeros(len(values)), where=total != 0))


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {"rank": np.asarray, "log_rank": np.log, "root_rank": np.sqrt}
_NORMALIZED: dict[str, tuple[str, Normalize]] = {
    "": ("by click", lambda clicks, values: values),
    "_as_it_is": ("not divided by the clicks", lambda clicks, values: values * clicks.credited),
    "_of_the_sum": ("as a share of the page's sum", _share_of_sum),
}
_PAGES: dict[str, tuple[str, Mask]] = {
    "single_": ("of a page with one click", lambda clicks: clicks.clicks == 1),
    "several_": ("of a page with several clicks", lambda clicks: clicks.clicks > 1),
}
_HALVES: dict[str, tuple[str, Mask]] = {
    f"top_{TOP}": (f"at rank {TOP} or above", lambda clicks: clicks.rank <= TOP),
    f"below_{TOP}": (f"below rank {TOP}", lambda clicks: clicks.rank > TOP),
}
_ORDERS: dict[str, tuple[str, Mask]] = {
    "first": ("the first click of its page", lambda clicks: clicks.order == 1),
    "last": ("the last click of its page", lambda clicks: clicks.order == clicks.clicks),
    "regression": ("a click above an earlier one", lambda clicks: clicks.regression),
}
_STARTS: dict[str, tuple[str, Mask]] = {
    "": ("", lambda clicks: np.ones(len(clicks.rank), np.bool_)),
    "_begun_below": (
        ", of several that began below rank 1",
        lambda clicks: (clicks.clicks > 1) & (clicks.first_rank > 1),
    ),
}


def _of_rank(function: Callable[[Array], Array], normalize: Normalize) -> Mask:
    return lambda clicks: normalize(clicks, function(clicks.rank.astype(np.float64)))


def _both(one: Mask, other: Mask, normalize: Normalize = _NORMALIZED[""][1]) -> Mask:
    return lambda clicks: normalize(clicks, one(clicks) & other(clicks))


def _compares(field: str, comparison: Callable[[Array, int], Array], value: int) -> Mask:
    return lambda clicks: comparison(getattr(clicks, field), value)


def _list_published() -> Iterator[ClickFeature]:
    """The five families of C12."""
    for (name, function), (suffix, (way, normalize)) in product(_FUNCTIONS.items(), _NORMALIZED.items()):
        meaning = f"{name.replace('_', ' of the ')}, {way}"
        yield ClickFeature(name + suffix, "A", meaning, _of_rank(function, normalize))
    for (name, (pages, on_page)), rank in product(_PAGES.items(), range(1, LAST_RANK + 1)):
        at_rank = _both(on_page, _compares("rank", operator.eq, rank))
        yield ClickFeature(f"{name}rank_{rank}", "B", f"at rank {rank} {pages}", at_rank)
    for half, (name, (pages, on_page)), suffix in product(_HALVES, _PAGES.items(), ("", "_as_it_is")):
        (where, inside), (way, normalize) = _HALVES[half], _NORMALIZED[suffix]
        mask = _both(on_page, inside, normalize)
        yield ClickFeature(f"{name}{half}{suffix}", "C", f"{where} {pages}, {way}", mask)
    for (suffix, (start, begins)), (name, (which, ordered)) in product(_STARTS.items(), _ORDERS.items()):
        yield ClickFeature(name + suffix, "D", which + start, _both(ordered, begins))
    for (suffix, (start, begins)), seconds in product(_STARTS.items(), DWELLS):
        stays = _both(begins, _compares("dwell", operator.ge, seconds))
        yield ClickFeature(f"dwell_{seconds}{suffix}", "E", f"stayed {seconds} s or longer{start}", stays)


FEATURES: dict[str, ClickFeature] = {
    row.name: row
    for row in (
        ClickFeature(EQUAL, "equal", "every click alike", lambda clicks: np.ones(len(clicks.rank))),
        *_list_published(),
        ClickFeature(CAPTION, "caption", "the caption's click weight (H12c)", lambda clicks: clicks.caption),
    )
}
PUBLISHED = tuple(name for name, row in FEATURES.items() if row.family in tuple("ABCDE"))


def feature(name: str) -> ClickFeature:
    """The feature with this name; `kind` followed by a kind of event is also a feature.

    >>> feature("kind purchase").meaning
    'with an event of kind purchase'
    """
    if name in FEATURES:
        return FEATURES[name]
    if name.startswith(KIND):
        kind = name.removeprefix(KIND)
        return ClickFeature(name, "kind", f"with an event of kind {kind}", lambda clicks: clicks.kinds[kind])
    problem = f"unknown feature {name!r} of clicks; known are {join_names(FEATURES)}"
    raise DataError(f"{problem}; add your own to interleaf.click_value.FEATURES first")


def default_features(kinds: Sequence[str], captions: bool = False) -> tuple[str, ...]:
    """Equal credit, the 51 of C12, all kinds of events but the first, and the caption weight if there is a model.

    >>> len(default_features(["click"]))
    52
    """
    return (EQUAL, *PUBLISHED, *(KIND + kind for kind in kinds[1:]), *((CAPTION,) if captions else ()))


def matrix(clicks: PageClicks, names: Sequence[str]) -> Array:
    """Values `[click, feature]`."""
    columns = np.empty((len(clicks.rank), len(names)))
    for place, name in enumerate(names):
        values = feature(name).values(clicks)
        if np.shape(values) != (len(clicks.rank),) or not np.isfinite(values).all():
            raise DataError(f"feature {name!r} should give one finite number for each click, not {values!r}")
        columns[:, place] = values
    return columns


COLUMN = "captions"


@dataclass(frozen=True)
class CaptionWeights:
    """The click weights that a model gives to the captions of a batch."""

    model: CaptionModel
    batch: pa.RecordBatch | None = None

    def of(self, decoded: Decoded) -> Array:
        """`[row, position]`; 1 if a row does not have a caption for each document."""
        weights = np.ones(decoded.is_clicked.shape)
        if self._measures is None:
            return weights
        offsets, measures = self._measures
        whole = np.flatnonzero(np.diff(offsets)[decoded.rows] == decoded.counts)
        counts = decoded.counts[whole]
        rows = np.repeat(whole, counts)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        shown = measures[offsets[decoded.rows[rows]] + places]
        codes = encode(self.model.features, shown, counts, np.full(len(rows), -1))
        weights[rows, places] = self.model.click_weights(codes)
        return weights

    @cached_property
    def _measures(self) -> tuple[Array, Array] | None:
        """Where the captions of each row start, and the measures of all captions; None if there is no caption."""
        array = None if self.batch is None else column(self.batch, COLUMN)
        if array is None:
            return None
        captions = list_column(array)
        offsets = captions.offsets.astype(np.int64)
        return offsets - offsets[0], measure(captions.values[int(offsets[0]) : int(offsets[-1])])


@dataclass(frozen=True, kw_only=True)
class FeatureCredit:
    """Credit that depends on features of clicks, with the weights of captions if one of the features needs them."""

    captions: CaptionWeights | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that click features need, in addition to those of every analysis."""
        return ("events.dwell",) if self.captions is None else ("events.dwell", COLUMN)

    def on(self, batch: pa.RecordBatch) -> Self:
        return self if self.captions is None else replace(self, captions=replace(self.captions, batch=batch))


def credit_clicks(
    decoded: Decoded,
    kinds: Sequence[str],
    chosen: ResolvedMethod,
    scheme: Scheme,
    captions: CaptionWeights | None = None,
) -> tuple[PageClicks, Array]:
    """The clicks of decoded impressions, and the equal credit that each gives to each ranker, `[click, ranker]`.

    Clicks are sorted by page, time and rank; credit is divided as in Eq. 14.
    """
    clicked = decoded.is_clicked
    pages, positions = np.nonzero(clicked)
    shares, number = shares_by_click(decoded.impressions, decoded.counts, clicked, chosen, scheme)
    seconds = decoded.clicks.seconds[pages, positions]
    order = np.lexsort((positions, seconds, pages))
    pages, positions = pages[order], positions[order]
    starts = np.flatnonzero(np.diff(pages, prepend=-1))
    sizes = np.diff(starts, append=len(pages))
    first = np.repeat(starts, sizes)
    divisor = np.maximum(number[pages], 1)
    keys = pages * clicked.shape[1] + positions  # so that the running maximum restarts with each page
    clicks = PageClicks(
        page=pages,
        rank=positions + 1,
        order=np.arange(len(pages)) - first + 1,
        clicks=np.repeat(sizes, sizes),
        credited=divisor,
        first_rank=positions[first] + 1,
        regression=np.asarray(np.maximum.accumulate(keys) > keys) if len(keys) else np.zeros(0, np.bool_),
        seconds=seconds[order],
        dwell=decoded.clicks.dwells[pages, positions],
        kinds={kind: decoded.clicks.clicks[place, pages, positions] for place, kind in enumerate(kinds)},
        caption=np.ones(len(pages)) if captions is None else captions.of(decoded)[pages, positions],
    )
    return clicks, shares[order] / divisor[:, None]
