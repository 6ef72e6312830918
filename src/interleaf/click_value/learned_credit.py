"""Learned credit as a small file: weights of click features, what they were learned from, and how to score with them.

Weights are fitted to the noise of their training data, so intervals of the same experiments by these weights would be
too short. A file therefore names the experiments that it was learned from. It scores other experiments with all
weights. It scores its own ones in folds: the weights of a user come from users in earlier buckets. So no user is scored
by weights that they contributed to, and no two users score each other. Without folds, its own experiments are refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np

from interleaf import plots
from interleaf.caption_bias.logistic_model import CaptionModel
from interleaf.click_value.click_features import CaptionWeights, FeatureCredit, credit_clicks, feature, matrix
from interleaf.click_value.credit_fitting import HeldOutExperiment, fold_of, group_of
from interleaf.decode import Counting, Decoded
from interleaf.errors import DataError
from interleaf.execution.options import LogOptions
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import ResolvedMethod
from interleaf.methods.schemes import CROSS_FITTED, LEARNED, Scheme
from interleaf.stable_codes import Note
from interleaf.stats.compare import Interval
from interleaf.tables import Cell, Table, percent

KIND, VERSION = "interleaf learned credit", 1


@dataclass(frozen=True)
class TrainedOn:
    """An experiment that weights were learned from: the better ranker, and the number of pages with a click."""

    experiment: str
    version: int
    better: str
    worse: str
    pages: int


@dataclass(frozen=True)
class LearnedCredit(FeatureCredit):
    """What a click is worth: the sum of `weights` times `features`; equal credit has weight 1 on the first alone.

    `folds[fold]` are the weights from the users of earlier folds; without folds the credit is not cross-fitted. A
    `scheme` of None stands for the normalized scheme of each method.
    """

    features: tuple[str, ...]
    weights: tuple[float, ...]
    folds: tuple[tuple[float, ...], ...]
    trained_on: tuple[TrainedOn, ...]
    counting: Counting
    scheme: str | None
    ridge: float
    examples: str

    def __post_init__(self) -> None:
        for weights in (self.weights, *self.folds):
            if len(weights) != len(self.features) or not np.isfinite(weights).all():
                raise DataError(f"{len(self.features)} features need as many finite weights, not {weights!r}")
        for name in self.features:
            feature(name)

    @cached_property
    def digest(self) -> str:
        """A short name of these weights."""
        return blake2b(json.dumps(self.to_dict()).encode(), digest_size=4).hexdigest()

    def is_own(self, experiment: str) -> bool:
        """Whether weights were learned from this experiment, in any version."""
        return any(trained.experiment == experiment for trained in self.trained_on)

    def label(self, experiment: str, scheme: str) -> str:
        """The name in reports."""
        return f"{LEARNED}{self.digest} on {scheme}" + (CROSS_FITTED if self.is_own(experiment) else "")

    def columns(self, decoded: Decoded, chosen: ResolvedMethod, scheme: Scheme) -> Array:
        """The score of each ranker, `[row, ranker]`."""
        clicks, shares = credit_clicks(decoded, tuple(self.counting.weights), chosen, scheme, self.captions)
        worth = np.einsum("cf,cf->c", matrix(clicks, self.features), self._weights(decoded)[clicks.page])
        return clicks.by_page(worth[:, None] * shares, len(decoded.rows))

    def _weights(self, decoded: Decoded) -> Array:
        """The weights of each row, `[row, feature]`; in an experiment it was learned from, those of the user's fold."""
        experiment = decoded.design.experiment
        if not self.is_own(experiment):
            return np.broadcast_to(np.array(self.weights), (len(decoded.rows), len(self.features)))
        if not self.folds:
            names = ", ".join(sorted({repr(trained.experiment) for trained in self.trained_on}))
            raise DataError(
                f"this credit was learned from {names}: on experiment {experiment!r}, its intervals would be too "
                "short; learn it from other experiments, or cross-fitted, with folds"
            )
        folds = fold_of(group_of(buckets.buckets(decoded.unit)), len(self.folds))
        return np.asarray(np.array(self.folds)[folds])

    def apply_to(self, options: LogOptions) -> LogOptions:
        """The options with this credit, and with the events and the scheme that it was learned with."""
        if options.sessions is not None:
            raise DataError("learned credit scores impressions one by one; leave out sessions")
        if str(options.counting) not in (str(Counting()), str(self.counting)):
            raise DataError(f"the credit was learned with events that count as {self.counting}, not {options.counting}")
        if self.scheme is not None and options.scheme not in (None, self.scheme):
            raise DataError(f"this credit was learned on scheme {self.scheme!r}, not {options.scheme!r}; leave it out")
        counting, scheme = self.counting, options.scheme or self.scheme
        conditions = {name: getattr(counting, name) for name in ("dwell", "first", "window")}
        return replace(options, scheme=scheme, events=counting.kinds, credit=self, **conditions)

    def to_dict(self) -> dict[str, Any]:
        """The content of the file, as plain data."""
        return {
            "kind": KIND,
            "version": VERSION,
            "features": list(self.features),
            "weights": list(self.weights),
            "folds": [list(weights) for weights in self.folds],
            "trained_on": [asdict(trained) for trained in self.trained_on],
            "counting": counting_to_dict(self.counting),
            "scheme": self.scheme,
            "ridge": self.ridge if math.isfinite(self.ridge) else None,
            "examples": self.examples,
            "captions": None if self.captions is None else self.captions.model.to_dict(),
        }

    def save(self, path: str | PathLike[str]) -> None:
        try:
            Path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise DataError(f"cannot write the learned credit to {path}: {error.strerror}") from None

    @classmethod
    def load(cls, path: str | PathLike[str]) -> LearnedCredit:
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(f"cannot read the learned credit {path}: {error.strerror}") from None
        except ValueError as error:
            raise DataError(f"{path} is not a learned credit: {error}") from None
        return cls.from_dict(data.get("credit", data) if isinstance(data, dict) else data, str(path))

    @classmethod
    def from_dict(cls, data: Any, name: str = "this") -> LearnedCredit:
        if not isinstance(data, dict) or data.get("kind") != KIND:
            raise DataError(f"{name} is not a learned credit; interleaf learn writes such files")
        if data.get("version") != VERSION:
            raise DataError(f"{name} is of version {data.get('version')}; this interleaf reads {VERSION}: upgrade it")
        try:
            Counting(**data["counting"])  # refuses conditions that it does not know, which msgspec would ignore
            captions = None if data["captions"] is None else CaptionWeights(CaptionModel.from_dict(data["captions"]))
            ridge = math.inf if data["ridge"] is None else data["ridge"]
            return replace(msgspec.convert({**data, "ridge": ridge, "captions": None}, cls), captions=captions)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{name} is a learned credit with something missing or wrong: {error!r}") from None


def counting_to_dict(counting: Counting) -> dict[str, Any]:
    """A `Counting` as plain data."""
    return {"kinds": counting.weights, "dwell": counting.dwell, "first": counting.first, "window": counting.window}


MAX_DRAWN, MAX_PRINTED = 16, 12  # the number of features in a chart, and in a text: those with the largest size


@dataclass(frozen=True)
class CreditWeight:
    """A feature's weight with its bootstrap interval; `size` is its typical effect on the score of a page.

    Weights of strongly correlated features are arbitrary: look at typical clicks, too. `reason`
    says why a weight is None.
    """

    feature: str
    family: str
    meaning: str
    weight: float | None
    interval: Interval | None
    size: float
    reason: str = ""


@dataclass(frozen=True)
class ClickWorth:
    """The worth of a typical click; equal credit gives 1."""

    click: str
    worth: float
    interval: Interval


@dataclass(frozen=True)
class LearningResult:
    """Learned credit, the worth of typical clicks, and scores of experiments that it was not learned from.

    `ridges[ridge]` is the mean z-score per page on experiments left out, for each ridge that was tried.
    """

    credit: LearnedCredit
    weights: tuple[CreditWeight, ...]
    worths: tuple[ClickWorth, ...]
    held_out: tuple[HeldOutExperiment, ...]
    ridges: Mapping[float, float]
    confidence: float
    left_out: tuple[Note, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def relative(self) -> tuple[float, ...]:
        """The ratios of learned z-scores to those of equal credit, where both are known."""
        return tuple(one.relative for one in self.held_out if one.relative is not None)

    @property
    def median_relative(self) -> float | None:
        """The median ratio. At 1.2 the typical experiment needs 1 / 1.2^2 = 0.69 times the data."""
        return median(self.relative) if self.relative else None

    @property
    def better(self) -> int:
        """The number of experiments with a larger z-score than by equal credit."""
        return sum(value > 1 for value in self.relative)

    @property
    def flips(self) -> int:
        """The number of experiments that equal credit decides, and learned credit decides the other way."""
        return sum(one.is_flipped for one in self.held_out)

    @property
    def sentence(self) -> str:
        middle = self.median_relative
        if middle is None:
            reasons = list(dict.fromkeys(one.reason for one in self.held_out if one.reason))
            return f"Whether learned credit helps is unknown: {reasons[0] if reasons else 'nothing was left out'}."
        return (
            f"On experiments that it was not learned from, learned credit has {middle:.2f} times the z-score of equal "
            f"credit (the median; {self.better} of {len(self.relative)} are decided more clearly, "
            f"{self.flips or 'none'} of the decided ones the other way): the same certainty takes {middle**-2:.2f} "
            "times the pages."
        )

    def tables(self, most: int | None = None) -> tuple[Table, ...]:
        """All tables, with at most `most` weights."""
        return self.worth_table(), self.held_out_table(), self.weight_table(most)

    def worth_table(self) -> Table:
        rows = tuple((one.click, f"{one.worth:+.2f}", _interval(one.interval)) for one in self.worths)
        title = "What a click is worth, where equal credit gives 1"
        return Table("worth", title, ("click", "worth", self._level), rows, right=("worth", self._level))

    def weight_table(self, most: int | None = None) -> Table:
        """The weights of features, the largest effect first."""
        rows: list[tuple[Cell, ...]] = []
        for one in sorted(self.weights, key=lambda one: -one.size)[:most]:
            weight = None if one.weight is None else f"{one.weight:+.3f}"
            interval = None if one.interval is None else _interval(one.interval)
            rows.append((one.feature, one.family, one.reason or one.meaning, weight, interval, f"{one.size:.3f}"))
        columns = ("feature", "family", "meaning", "weight", self._level, "moves a score by")
        some = "" if most is None or most >= len(self.weights) else f": {most} of {len(self.weights)}"
        title = f"Weights of features, by how much they matter{some}"
        return Table("weights", title, columns, tuple(rows), columns[3:])

    def held_out_table(self) -> Table:
        """Experiments scored by weights that were learned from other experiments."""
        rows = tuple(
            (
                one.experiment,
                one.group,
                f"{one.better} > {one.worse}" + ("" if one.decided else " ?"),
                f"{one.pages:,}",
                *(None if value is None else f"{value:+.4f}" for value in (one.equal, one.learned)),
                None if one.relative is None else f"{one.relative:.2f}",
            )
            for one in self.held_out
        )
        columns = ("experiment", "left out with", "preferred", "pages", "z, equal", "z, learned", "relative")
        title = "z-score per page on experiments left out (?: equal credit does not decide)"
        return Table("held-out", title, columns, rows, right=columns[3:])

    @property
    def _level(self) -> str:
        return f"{percent(self.confidence)} interval"

    def __str__(self) -> str:
        return "\n\n".join([self.sentence, *map(str, self.tables(MAX_PRINTED)), *self._remarks])

    def to_markdown(self) -> str:
        tables = [table.to_markdown() for table in self.tables()]
        return "\n\n".join([self.sentence, *tables, *self._remarks]) + "\n"

    @property
    def _remarks(self) -> list[str]:
        return [
            *(f"Not learned from {note.text}." for note in self.left_out),
            *(note.text for note in self.notes),
        ]

    def to_dict(self) -> dict[str, Any]:
        held_out = [asdict(one) | {"relative": one.relative, "flipped": one.is_flipped} for one in self.held_out]
        return {
            "median_relative": self.median_relative,
            "better": self.better,
            "flipped": self.flips,
            "credit": self.credit.to_dict(),
            "weights": [asdict(one) for one in self.weights],
            "worths": [asdict(one) for one in self.worths],
            "held_out": held_out,
            "ridges": [{"ridge": None if ridge == float("inf") else ridge, "z": z} for ridge, z in self.ridges.items()],
            "left_out": [note.to_dict() for note in self.left_out],
            "notes": [note.to_dict() for note in self.notes],
        }

    def charts(self) -> dict[str, dict[str, Any]]:
        """Typical clicks and the weights with the largest effects, each with its interval."""
        worth = "worth (equal credit gives 1)"
        clicks = [{"click": one.click, worth: one.worth, **_ends(one.interval)} for one in self.worths]
        largest = sorted((one for one in self.weights if one.interval), key=lambda one: -one.size)[:MAX_DRAWN]
        features = [{"feature": one.meaning, "weight": one.weight, **_ends(one.interval)} for one in largest]
        return {
            "worth": plots.intervals(clicks, "click", worth, ("low", "high")),
            "weights": plots.intervals(features, "feature", "weight", ("low", "high")),
        }


def _ends(interval: Interval | None) -> dict[str, float]:
    return {} if interval is None else {"low": interval[0], "high": interval[1]}


def _interval(interval: Interval) -> str:
    return f"{interval[0]:+.2f} to {interval[1]:+.2f}"
