"""What was learned of clicks, and whether it helps: weights and typical clicks with intervals, experiments left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from interleaf import plots
from interleaf.click_value.learned import Learned
from interleaf.click_value.training import HeldOut
from interleaf.stats.sums import Interval
from interleaf.tables import Cell, Table

MOST_DRAWN, MOST_SHOWN = 16, 12  # features in a chart, and in a text: the ones that matter most


@dataclass(frozen=True)
class Weight:
    """A feature's weight with its bootstrap interval; `size` is how much it moves the score of a page, typically.

    Weights of features that say nearly the same can be exchanged for each other: look at typical clicks, too. None
    where `reason` says why.
    """

    feature: str
    family: str
    meaning: str
    weight: float | None
    interval: Interval | None
    size: float
    reason: str = ""


@dataclass(frozen=True)
class Worth:
    """What a typical click is worth, where by equal credit it is worth 1."""

    click: str
    worth: float
    interval: Interval


@dataclass(frozen=True)
class Lesson:
    """Learned credit, what it says of clicks, and what it does on experiments that it was not learned from.

    `ridges` are the mean z-scores a page, on experiments left out, of each ridge that was tried.
    """

    credit: Learned
    weights: tuple[Weight, ...]
    worths: tuple[Worth, ...]
    held_out: tuple[HeldOut, ...]
    ridges: Mapping[float, float]
    confidence: float
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def relative(self) -> tuple[float, ...]:
        """The learned z-scores over those of equal credit, where both are known."""
        return tuple(one.relative for one in self.held_out if one.relative is not None)

    @property
    def median_relative(self) -> float | None:
        """Their median: 1.2 says that the typical experiment needs 1 / 1.2^2 = 0.69 times the data."""
        return median(self.relative) if self.relative else None

    @property
    def better(self) -> int:
        """How many experiments are decided more clearly."""
        return sum(value > 1 for value in self.relative)

    @property
    def flipped(self) -> int:
        """How many experiments that equal credit decides are decided the other way."""
        return sum(one.flipped for one in self.held_out)

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        middle = self.median_relative
        if middle is None:
            reasons = list(dict.fromkeys(one.reason for one in self.held_out if one.reason))
            return f"Whether learned credit helps cannot be told: {reasons[0] if reasons else 'nothing was left out'}."
        return (
            f"On experiments that it was not learned from, learned credit has {middle:.2f} times the z-score of equal "
            f"credit (the median; {self.better} of {len(self.relative)} are decided more clearly, "
            f"{self.flipped or 'none'} of the decided ones the other way): the same certainty takes {middle**-2:.2f} "
            "times the pages."
        )

    def tables(self, most: int | None = None) -> tuple[Table, ...]:
        """All numbers; of weights, so many."""
        return self.worth_table(), self.held_out_table(), self.weight_table(most)

    def worth_table(self) -> Table:
        """Typical clicks."""
        rows = tuple((one.click, f"{one.worth:+.2f}", _interval(one.interval)) for one in self.worths)
        title = "What a click is worth, where equal credit gives 1"
        return Table("worth", title, ("click", "worth", self._level), rows, right=("worth", self._level))

    def weight_table(self, most: int | None = None) -> Table:
        """The features, those that move scores most first."""
        rows: list[tuple[Cell, ...]] = [
            (
                one.feature,
                one.family,
                one.reason or one.meaning,
                None if one.weight is None else f"{one.weight:+.3f}",
                None if one.interval is None else _interval(one.interval),
                f"{one.size:.3f}",
            )
            for one in sorted(self.weights, key=lambda one: -one.size)[:most]
        ]
        columns = ("feature", "family", "meaning", "weight", self._level, "moves a score by")
        some = "" if most is None or most >= len(self.weights) else f": {most} of {len(self.weights)}"
        return Table(
            "weights", f"Weights of features, by how much they matter{some}", columns, tuple(rows), columns[3:]
        )

    def held_out_table(self) -> Table:
        """Experiments by weights that were learned from others."""
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
        title = "z-score a page on experiments left out (?: equal credit does not decide)"
        return Table("held-out", title, columns, rows, right=columns[3:])

    @property
    def _level(self) -> str:
        return f"{self.confidence:.0%} interval"

    def __str__(self) -> str:
        return "\n\n".join([self.sentence, *map(str, self.tables(MOST_SHOWN)), *self._remarks])

    def to_markdown(self) -> str:
        """The same as Markdown."""
        tables = [table.to_markdown() for table in self.tables()]
        return "\n\n".join([self.sentence, *tables, *self._remarks]) + "\n"

    @property
    def _remarks(self) -> list[str]:
        return [*(f"Not learned from {name}: {reason}." for name, reason in self.left_out.items()), *self.notes]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        held = [asdict(one) | {"relative": one.relative, "flipped": one.flipped} for one in self.held_out]
        return {
            "median_relative": self.median_relative,
            "better": self.better,
            "flipped": self.flipped,
            "credit": self.credit.to_dict(),
            "weights": [asdict(one) for one in self.weights],
            "worths": [asdict(one) for one in self.worths],
            "held_out": held,
            "ridges": [{"ridge": None if ridge == float("inf") else ridge, "z": z} for ridge, z in self.ridges.items()],
            "left_out": dict(self.left_out),
            "notes": list(self.notes),
        }

    def charts(self) -> dict[str, dict[str, Any]]:
        """Typical clicks, and the weights that matter most, each with its interval."""
        worth = "worth (equal credit gives 1)"
        clicks = [{"click": one.click, worth: one.worth, **_ends(one.interval)} for one in self.worths]
        largest = sorted((one for one in self.weights if one.interval), key=lambda one: -one.size)[:MOST_DRAWN]
        features = [{"feature": one.meaning, "weight": one.weight, **_ends(one.interval)} for one in largest]
        return {
            "worth": plots.intervals(clicks, "click", worth, ("low", "high")),
            "weights": plots.intervals(features, "feature", "weight", ("low", "high")),
        }


def _ends(interval: Interval | None) -> dict[str, float]:
    return {} if interval is None else {"low": interval[0], "high": interval[1]}


def _interval(interval: Interval) -> str:
    return f"{interval[0]:+.2f} to {interval[1]:+.2f}"
