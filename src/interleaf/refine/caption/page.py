"""One page explained: what each caption's features add to the odds of a click, and what a click on it counts for.

H12c's Table 7 shows such a page: the lower the weight, the more a result was likely to be clicked for its looks alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from interleaf.methods.arrays import Array
from interleaf.methods.table import resolve
from interleaf.refine.caption.features import FIRST
from interleaf.refine.caption.model import Model
from interleaf.refine.caption.results import Results
from interleaf.refine.caption.scores import credit_alone, scheme_for
from interleaf.schema import INTERLEAVED
from interleaf.score import usable
from interleaf.tables import Table

MOST_TITLE = 48


@dataclass(frozen=True)
class Line:
    """A result: its title, who owns it, whether it was clicked, its click weight, and what adds to its odds.

    `credit` is what a click on it gives the first ranker less the second, before its weight; None if nobody can tell.
    """

    rank: int
    title: str
    ranker: str | None
    clicked: bool
    weight: float
    credit: float | None
    parts: dict[str, float]


@dataclass(frozen=True)
class Page:
    """A page of a log, explained; `weights` is the kind that the verdict rests on."""

    impression: str
    lines: tuple[Line, ...]
    rankers: tuple[str, ...]
    weights: str

    @property
    def outcome(self) -> tuple[float, float] | None:
        """Credit of the first ranker less that of the second, as scored, without and with weights; None if unknown."""
        known = [(line.credit, line.weight) for line in self.lines if line.clicked and line.credit is not None]
        if all(line.credit is None for line in self.lines):
            return None
        return float(sum(credit for credit, _ in known)), float(sum(credit * weight for credit, weight in known))

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
        title = f"Impression {self.impression}: what a click counts for, by {self.weights} (* clicked)"
        if self.outcome is not None:
            (one, other), (plain, weighted) = self.rankers, self.outcome
            title += f"; {one} over {other}: {plain:+.3g} clicks, {weighted:+.3f} weighted"
        if any(line.clicked and line.credit == 0 for line in self.lines):
            title += "; clicks that the score gives to nobody are left out"
        return Table("page", title, ("rank", "title", "ranker", "weight", "adds to the odds"), rows, right=("weight",))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        lines = [vars(line) for line in self.lines]
        plain = {"impression": self.impression, "rankers": list(self.rankers), "weights": self.weights}
        return plain | {"lines": lines, "outcome": self.outcome}


def explained(
    results: Results, codes: Array, model: Model, impression: str, kind: str, method: str | None
) -> Iterator[Page]:
    """The pages with this id among these results, clicks weighted by this kind and scored by this method."""
    weights, starts = model.click_weights(codes, kind), np.cumsum(results.counts) - results.counts
    rankers = results.decoded.design.rankers
    for page, captions in results.pages(impression):
        lines, credits = [], _credits(results, page, method)
        for place, caption in enumerate(captions):
            row, team = starts[page] + place, int(results.decoded.impressions.teams[page, place])
            owner = rankers[team] if team >= 0 and results.decoded.has["teams"][page] else None
            title = (caption or {}).get("title") or ""
            clicked, weight = bool(results.clicked[row]), float(weights[row])
            lines.append(Line(place + 1, title, owner, clicked, weight, credits[place], _parts(model, codes[row])))
        yield Page(impression, tuple(lines), rankers, kind)


def _credits(results: Results, page: int, method: str | None) -> list[float] | list[None]:
    """What a click on each result gives the first of two rankers less the second, as their comparison counts it."""
    decoded = results.decoded.only(np.arange(len(results.counts)) == page)._replace(dropped=Counter())
    unknown = [None] * int(decoded.counts[0])
    if decoded.design.arm != INTERLEAVED or len(decoded.design.rankers) != 2:
        return unknown
    chosen = resolve(method or decoded.design.method)
    scheme = scheme_for(chosen, results.decoded)
    if not len(usable(decoded, chosen, scheme).rows):
        return unknown
    places = np.arange(len(unknown))
    found = credit_alone(decoded, chosen, scheme, np.zeros_like(places), places)
    return [float(value) for value in found[:, 0] - found[:, 1]]


def _parts(model: Model, code: Array) -> dict[str, float]:
    """What each feature of a caption adds, the largest first."""
    added = code[FIRST:] * model.caption_weights
    order = np.argsort(-np.abs(added), kind="stable")
    return {model.features[place].name: float(added[place]) for place in order.tolist() if added[place] != 0}
