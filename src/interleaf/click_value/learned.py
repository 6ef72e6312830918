"""Learned credit as a small file: weights of click features, what they were learned from, and how to score with them.

Weights fit the chance of what they were learned from, so scores of the same people by the same weights would look surer
than they are. A file remembers its experiments. On others it scores with all it learned; on its own, each person by
weights from people before them, in the order of user buckets: no one is scored by weights that they had a part in, and
no two people both score each other. Without such folds, its own experiments are refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf import batch, buckets
from interleaf.caption_bias.model import Model
from interleaf.click_value.features import COLUMN, CaptionWeights, Clicked, feature, matrix
from interleaf.click_value.fitting import GROUPS, group_of
from interleaf.decode import Counting, Decoded
from interleaf.errors import DataError, MethodError
from interleaf.methods.arrays import Array, Impression
from interleaf.methods.table import Chosen, Scheme

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


LEARNED, CROSS_FITTED = "learned ", ", cross-fitted"  # how a report's scheme begins and ends
KIND, VERSION = "interleaf learned credit", 1


@dataclass(frozen=True)
class Trained:
    """An experiment that weights were learned from: who was taken for better, by how many pages with a click."""

    experiment: str
    version: int
    better: str
    worse: str
    pages: int


@dataclass(frozen=True)
class Learned:
    """What a click is worth: the sum of `weights` times `features`, where equal credit has weight 1 on the first alone.

    `folds[fold]` are the weights from people of the folds before; none: not cross-fitted. `scheme` None: the normalized
    one of each method.
    """

    features: tuple[str, ...]
    weights: tuple[float, ...]
    folds: tuple[tuple[float, ...], ...]
    trained_on: tuple[Trained, ...]
    counting: Counting
    scheme: str | None
    ridge: float
    examples: str
    captions: CaptionWeights | None = None

    def __post_init__(self) -> None:
        for weights in (self.weights, *self.folds):
            if len(weights) != len(self.features) or not np.isfinite(weights).all():
                raise DataError(f"{len(self.features)} features need as many finite weights, not {weights!r}")
        for name in self.features:
            feature(name)

    @cached_property
    def digest(self) -> str:
        """A short name for these very weights."""
        return blake2b(json.dumps(self.to_dict()).encode(), digest_size=4).hexdigest()

    def is_own(self, experiment: str) -> bool:
        """Whether weights were learned from this experiment, in whatever version."""
        return any(trained.experiment == experiment for trained in self.trained_on)

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns of the log that are read besides."""
        return needs(self.captions)

    def on(self, batch: pa.RecordBatch) -> Learned:
        """Ready for the rows of a batch."""
        return self if self.captions is None else replace(self, captions=self.captions.on(batch))

    def label(self, experiment: str, scheme: str) -> str:
        """What a report calls it."""
        return f"{LEARNED}{self.digest} on {scheme}" + (CROSS_FITTED if self.is_own(experiment) else "")

    def columns(self, decoded: Decoded, chosen: Chosen, scheme: Scheme) -> Array:
        """The score of each ranker, `[row, ranker]`."""
        found = credited(decoded, tuple(self.counting.weights), chosen, scheme, self.captions)
        values = matrix(found.clicks, self.features)
        worth = np.einsum("cf,cf->c", values, self._weights(decoded)[found.clicks.page])
        return found.by_page(worth[:, None] * found.shares, len(decoded.rows))

    def _weights(self, decoded: Decoded) -> Array:
        """Those of each row `[row, feature]`: on an own experiment, from users before."""
        experiment = decoded.design.experiment
        if not self.is_own(experiment):
            return np.broadcast_to(np.array(self.weights), (len(decoded.rows), len(self.features)))
        if not self.folds:
            known = ", ".join(sorted({repr(trained.experiment) for trained in self.trained_on}))
            raise DataError(
                f"this credit was learned from {known}: on experiment {experiment!r}, its intervals would be too "
                "short; learn it from other experiments, or cross-fitted, with folds"
            )
        folds = fold_of(group_of(buckets.buckets(decoded.unit)), len(self.folds))
        found: Array = np.array(self.folds)[folds]
        return found

    def to_dict(self) -> dict[str, Any]:
        """The content of the file, as plain data."""
        counting = self.counting
        return {
            "kind": KIND,
            "version": VERSION,
            "features": list(self.features),
            "weights": list(self.weights),
            "folds": [list(weights) for weights in self.folds],
            "trained_on": [asdict(trained) for trained in self.trained_on],
            "counting": counting_to_dict(counting),
            "scheme": self.scheme,
            "ridge": self.ridge if math.isfinite(self.ridge) else None,
            "examples": self.examples,
            "captions": None if self.captions is None else self.captions.model.to_dict(),
        }

    def save(self, path: str | PathLike[str]) -> None:
        """Write the file."""
        try:
            Path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise DataError(f"cannot write the learned credit to {path}: {error.strerror}") from None

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Learned:
        """Read a file that `save` wrote."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(f"cannot read the learned credit {path}: {error.strerror}") from None
        except ValueError as error:
            raise DataError(f"{path} is no learned credit: {error}") from None
        return cls.from_dict(data, str(path))

    @classmethod
    def from_dict(cls, data: Any, name: str = "this") -> Learned:
        """What `to_dict` made."""
        if not isinstance(data, dict) or data.get("kind") != KIND:
            raise DataError(f"{name} is no learned credit; interleaf learn writes such files")
        if data.get("version") != VERSION:
            raise DataError(f"{name} is of version {data.get('version')}; this interleaf reads {VERSION}: upgrade it")
        try:
            return cls(
                features=tuple(data["features"]),
                weights=tuple(map(float, data["weights"])),
                folds=tuple(tuple(map(float, weights)) for weights in data["folds"]),
                trained_on=tuple(Trained(**trained) for trained in data["trained_on"]),
                counting=Counting(**data["counting"]),
                scheme=data["scheme"],
                ridge=math.inf if data["ridge"] is None else float(data["ridge"]),
                examples=data["examples"],
                captions=None if data["captions"] is None else CaptionWeights(Model.from_dict(data["captions"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{name} is a learned credit with something missing or wrong: {error!r}") from None


def needs(captions: CaptionWeights | None) -> tuple[str, ...]:
    """Columns that features of clicks are made of, besides those that every analysis reads."""
    return ("events.dwell",) if captions is None else ("events.dwell", COLUMN)


def counting_to_dict(counting: Counting) -> dict[str, Any]:
    """Plain data that makes the same `Counting` again."""
    return {"kinds": counting.weights, "dwell": counting.dwell, "first": counting.first, "window": counting.window}


def fold_of(groups: Array, folds: int) -> Array:
    """The fold of each group of users.

    >>> fold_of(np.array([0, 3, 4, 63]), 16)
    array([ 0,  0,  1, 15])
    """
    return np.asarray(groups) * folds // GROUPS
