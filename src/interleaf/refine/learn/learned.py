"""Learned credit as a small file: weights of click features, what they were learned from, and how to score with them.

Weights fit the chance of what they were learned from, so scores of the same people by the same weights would look surer
than they are. A file remembers its experiments. On others it scores with all it learned; on its own, each person by
weights from people before them, in the order of user buckets: no one is scored by weights that they had a part in, and
no two people both score each other. Without such folds, its own experiments are refused.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from interleaf import buckets
from interleaf.decode import Counting, Decoded
from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.methods.table import Chosen, Scheme
from interleaf.refine.caption.model import Model
from interleaf.refine.learn.captions import COLUMN, CaptionWeights
from interleaf.refine.learn.clicks import credited
from interleaf.refine.learn.features import feature, matrix
from interleaf.refine.learn.inverse_z import GROUPS, group_of

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
