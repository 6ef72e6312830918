"""The truth of a world: what people should prefer in it, and why, computed from its description.

The appeal of a ranker is what its own top k promises people,

    sum over ranks r of P(click | the document at rank r is read) / log2(r + 1),

in the mean over queries and people, crawlers left out: NDCG's discount, with what people want in the place of grades.
It holds all that makes people click, so it splits into relevance, captions and taste, added one after the other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from interleaf.methods.arrays import Array
from interleaf.simulate.people import People, side
from interleaf.simulate.reading import Habits, shifted
from interleaf.simulate.scene import Scene
from interleaf.simulate.truth import ndcg

NODES = 31  # of the Gauss-Hermite rule over tastes
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Truth:
    """What a world's description says: a number a ranker, whom people should prefer on average (None: nobody), and why.

    `appeal` is the sum of what relevance alone gives and of the two effects; `taste` and `taste_spread` are the mean
    and deviation of the units' lasting preferences for the first ranker over the second.
    """

    rankers: tuple[str, ...]
    ndcg: tuple[float, ...]
    appeal: tuple[float, ...]
    caption_effect: tuple[float, ...]
    taste_effect: tuple[float, ...]
    taste: float
    taste_spread: float
    preferred: str | None
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def truth_of(scene: Scene, people: People, habits: Habits, rankers: tuple[str, ...]) -> Truth:
    """The truth of people in front of these rankings."""
    relevance = _appeals(scene, people, habits, captions=False, taste=False)
    presented = _appeals(scene, people, habits, captions=True, taste=False)
    appeals = _appeals(scene, people, habits, captions=True, taste=True)
    judged = ndcg(scene.staged, scene.rankings, scene.stage.k)
    preferred, reason = _verdict(rankers, judged, relevance, presented, appeals)
    if preferred is None and people.taste_spread:
        reason += f", although units differ in their taste (deviation {people.taste_spread:g})"
    return Truth(
        rankers=rankers,
        ndcg=tuple(judged.tolist()),
        appeal=tuple(appeals.tolist()),
        caption_effect=tuple((presented - relevance).tolist()),
        taste_effect=tuple((appeals - presented).tolist()),
        taste=float(people.taste),
        taste_spread=float(people.taste_spread),
        preferred=preferred,
        reason=reason,
    )


def _appeals(scene: Scene, people: People, habits: Habits, captions: bool, taste: bool) -> Array:
    """The appeal of each ranker, with or without what captions and tastes add."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    tastes = people.taste + people.taste_spread * nodes if taste else np.zeros(1)
    weights = weights / weights.sum() if taste else np.ones(1)
    appeals = np.zeros(scene.rankings.shape[1])
    for ranker in range(len(appeals)):
        grades, sides, attractions = _top(scene, ranker)
        attractions = attractions * captions
        for leaning, weight in zip(tastes, weights, strict=True):
            chances = _chances(people, habits, grades, leaning * sides + attractions)
            discounts = 1 / np.log2(np.arange(2, chances.shape[1] + 2))
            appeals[ranker] += weight * (np.where(grades < 0, 0, chances) @ discounts).mean()
    return appeals


def _top(scene: Scene, ranker: int) -> tuple[Array, Array, Array]:
    """Grades (-1 nothing there), sides and attractions `[query, rank]` of what one ranker puts first."""
    stage = scene.stage
    top = scene.rankings[:, ranker, : stage.k].astype(np.int64)
    query = np.arange(len(top))[:, None]
    grades = np.where(top < 0, -1, stage.grades[query, top])
    first, second = (np.maximum(stage.places[query, number, top], 1) for number in (0, 1))
    return grades, side(first, second), scene.attractions[scene.rows[query, top]]


def _chances(people: People, habits: Habits, grades: Array, shifts: Array) -> Array:
    """The probability of a click on what is read; to people with another intent a document is worth nothing."""
    lost = people.narrow * (1 - 1 / people.intents)
    wanted = shifted(habits.click[np.maximum(grades, 0)], shifts)
    unwanted = shifted(np.full(grades.shape, habits.click[0]), shifts)
    chances: Array = (1 - lost) * wanted + lost * unwanted
    return chances


def _verdict(
    rankers: tuple[str, ...], judged: Array, relevance: Array, presented: Array, appeals: Array
) -> tuple[str | None, str]:
    best, second = np.argsort(-appeals, kind="stable")[:2]
    if appeals[best] - appeals[second] <= TOLERANCE:
        alike = [name for name, appeal in zip(rankers, appeals, strict=True) if appeals[best] - appeal <= TOLERANCE]
        return None, f"no preference on average: {' and '.join(alike)} appeal alike ({appeals[best]:.4f})"
    parts = {"relevance": relevance, "captions": presented - relevance, "taste": appeals - presented}
    gains = {name: part[best] - part[second] for name, part in parts.items()}
    words = f"{rankers[best]} appeals more than {rankers[second]} ({appeals[best]:.4f} to {appeals[second]:.4f}): "
    words += ", ".join(f"{name} {gain:+.4f}" for name, gain in gains.items() if abs(gain) > TOLERANCE)
    if judged[best] < judged[second] - TOLERANCE:
        words += f"; by NDCG {rankers[second]} is better ({judged[second]:.4f} to {judged[best]:.4f})"
    return rankers[best], words
