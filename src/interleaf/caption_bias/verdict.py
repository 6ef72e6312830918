"""Whether caption bias explains a preference, and one page explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from interleaf.caption_bias.features import FIRST
from interleaf.caption_bias.model import PROBABILITY, Model
from interleaf.caption_bias.results import Results
from interleaf.caption_bias.scores import Rescored, centred, credit_alone, scheme_for
from interleaf.methods.arrays import Array
from interleaf.methods.table import resolve
from interleaf.schema import INTERLEAVED
from interleaf.score import usable
from interleaf.stats.sums import significance
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


NONE, STANDS, PARTLY, EXPLAINED, REVERSED, HIDDEN, UNKNOWN = VERDICTS = (
    "no preference", "stands", "partly explained", "explained", "reversed", "hidden", "cannot be told",
)  # fmt: skip
CAUSES = (PARTLY, EXPLAINED, REVERSED, HIDDEN)
SMALL, LARGE = 0.25, 0.75  # shares of a preference that remain
MIN_UNJUDGED_CHANGE, MAX_UNJUDGED_SHARE = 0.05, 0.5  # of a score from -1 to 1; the share of it that remains


@dataclass(frozen=True)
class Verdict:
    """What captions have to do with the preference between two rankers."""

    kind: str
    sentence: str

    @property
    def is_clean(self) -> bool:
        """Whether captions are no reason to doubt the comparison."""
        return self.kind in (NONE, STANDS)


def verdict(found: Rescored, weights: str = PROBABILITY, confidence: float = 0.95, is_judged: bool = True) -> Verdict:
    """The verdict on a pair, by weights of this kind; `is_judged`: they come from results that were judged."""
    before, after, change = found.plain, found.weighted[weights], found.change[weights]
    if before.value is None or before.p_value is None or after.value is None or after.p_value is None:
        return Verdict(UNKNOWN, f"Whether captions matter cannot be told: {before.reason or after.reason}.")
    level = significance(confidence)
    was, remains = before.p_value <= level, after.p_value <= level
    moved = change.p_value is not None and change.p_value <= level
    kind, words = _kind(before.value, after.value, was, remains, moved), _words(found, before.value, after.value)
    if kind in CAUSES and not is_judged and _may_be_relevance(kind, before.value, after.value):
        return Verdict(UNKNOWN, _NEEDS_JUDGMENTS.format(**words))
    sentence = _SENTENCES[kind].format(**words)
    if kind == EXPLAINED:
        sentence += _REMAINS if remains else _NOTHING_REMAINS.format(**words)
    return Verdict(kind, sentence)


def _may_be_relevance(kind: str, before: float, after: float) -> bool:
    """Whether a change is one that relevance makes where nobody heeds captions."""
    return abs(after - before) < MIN_UNJUDGED_CHANGE or (kind == PARTLY and after / before > MAX_UNJUDGED_SHARE)


def _kind(before: float, after: float, was: bool, remains: bool, moved: bool) -> str:
    if not was:
        return HIDDEN if remains and moved else NONE
    share = after / before
    if moved and share >= 2:
        return HIDDEN
    if not moved or share > LARGE:
        return STANDS
    if share < -SMALL and remains:
        return REVERSED
    return EXPLAINED if share <= SMALL or (share <= 0.5 and not remains) else PARTLY


def _words(found: Rescored, was: float, now: float) -> dict[str, str]:
    return {
        "first": found.first,
        "second": found.second,
        "winner": found.first if was > 0 else found.second,
        "loser": found.second if was > 0 else found.first,
        "later": found.first if now > 0 else found.second,
        "before": f"{centred(was):.4f}",
        "after": f"{centred(now):.4f}",
        "share": f"{1 - now / was:.0%}" if was else "nothing",
    }


_SENTENCES = {
    NONE: "No preference between {first} and {second} is shown: the score is {before}, and {after} with clicks "
    "weighted by their captions.",
    STANDS: "Captions do not explain the preference for {winner} over {loser}: the score is {before}, and {after} with "
    "clicks weighted by their captions.",
    PARTLY: "Captions explain {share} of the preference for {winner} over {loser}: the score is {before}, and {after} "
    "with clicks weighted by their captions.",
    EXPLAINED: "Captions explain the preference for {winner} over {loser}: the score is {before}, but {after} with "
    "clicks weighted by their captions.",
    REVERSED: "Captions turned the comparison around: the score is {before}, for {winner}, but {after}, for {later}, "
    "with clicks weighted by their captions.",
    HIDDEN: "Captions hid a preference for {later}, or most of it: the score is {before}, but {after} with clicks "
    "weighted by their captions.",
}
_NEEDS_JUDGMENTS = (
    "Whether captions matter to {first} and {second} cannot be told without judgments: the score is {before}, and "
    "{after} with clicks weighted by their captions, but better documents that also look better would do the same. Log "
    "grades to tell."
)
_NOTHING_REMAINS = " That {winner} is better is not shown."
_REMAINS = " What remains is more than chance, but not more than weights may leave over."
