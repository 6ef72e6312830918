"""One page explained: what each caption's features add to the odds of a click, and what a click on it counts for.

H12c's Table 7 shows such a page: the lower the weight, the more a result was likely to be clicked for its looks alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from interleaf.methods.arrays import Array
from interleaf.refine.caption.features import FIRST
from interleaf.refine.caption.model import ODDS, Model
from interleaf.refine.caption.results import Results
from interleaf.tables import Table

MOST_TITLE = 48


@dataclass(frozen=True)
class Line:
    """A result: its title, who owns it, whether it was clicked, its click weight, and what adds to its odds."""

    rank: int
    title: str
    ranker: str | None
    clicked: bool
    weight: float
    parts: dict[str, float]


@dataclass(frozen=True)
class Page:
    """A page of a log, explained."""

    impression: str
    lines: tuple[Line, ...]
    rankers: tuple[str, ...]

    @property
    def outcome(self) -> tuple[float, float] | None:
        """Clicks of the first ranker less those of the second, without and with weights; None if nobody owns any."""
        if len(self.rankers) != 2 or all(line.ranker is None for line in self.lines):
            return None
        sides = {self.rankers[0]: 1, self.rankers[1]: -1}
        signed = [(sides.get(line.ranker or "", 0), line.weight) for line in self.lines if line.clicked]
        return float(sum(side for side, _ in signed)), float(sum(side * weight for side, weight in signed))

    def table(self) -> Table:
        """The page as a table; clicked results are marked by a star."""
        rows = tuple(
            (
                f"{line.rank}{'*' if line.clicked else ''}",
                line.title if len(line.title) <= MOST_TITLE else line.title[: MOST_TITLE - 1] + "…",
                line.ranker,
                f"{line.weight:.3f}",
                ", ".join(f"{name} {part:+.2f}" for name, part in line.parts.items()) or None,
            )
            for line in self.lines
        )
        title = f"Impression {self.impression}: what a click counts for (* clicked)"
        if self.outcome is not None:
            (one, other), (plain, weighted) = self.rankers, self.outcome
            title += f"; {one} over {other}: {plain:+.0f} clicks, {weighted:+.3f} weighted"
        return Table("page", title, ("rank", "title", "ranker", "weight", "adds to the odds"), rows, right=("weight",))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        lines = [vars(line) for line in self.lines]
        return {"impression": self.impression, "rankers": list(self.rankers), "lines": lines, "outcome": self.outcome}


def explained(results: Results, codes: Array, model: Model, impression: str) -> Iterator[Page]:
    """The pages with this id among these results."""
    weights, starts = model.click_weights(codes, ODDS), np.cumsum(results.counts) - results.counts
    rankers = results.decoded.design.rankers
    for page, captions in results.pages(impression):
        lines = []
        for place, caption in enumerate(captions):
            row, team = starts[page] + place, int(results.decoded.impressions.teams[page, place])
            owner = rankers[team] if team >= 0 and results.decoded.has["teams"][page] else None
            title = (caption or {}).get("title") or ""
            lines.append(
                Line(
                    place + 1, title, owner, bool(results.clicked[row]), float(weights[row]), _parts(model, codes[row])
                )
            )
        yield Page(impression, tuple(lines), rankers)


def _parts(model: Model, code: Array) -> dict[str, float]:
    """What each feature of a caption adds, the largest first."""
    added = code[FIRST:] * model.caption_weights
    order = np.argsort(-np.abs(added), kind="stable")
    return {model.features[place].name: float(added[place]) for place in order.tolist() if added[place] != 0}
