"""Worlds whose truth about captions is known: what people should be said to prefer, and why they click."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from interleaf.caption_bias.verdict import EXPLAINED, HIDDEN, NONE, REVERSED, STANDS
from interleaf.simulate.data import Judged, frozen
from interleaf.simulate.people import People
from interleaf.simulate.synthetic import synthetic
from interleaf.simulate.world import World

QUERIES, DOCUMENTS = 500, (10, 25)
EQUAL, BETTER = (0.5, 0.5), (0.6, 0.4)  # how good the rankers of A and B are: correlation of score and grade


@dataclass(frozen=True)
class Case:
    """A kind of world: how good the rankers are, what captions do to people, whose they are, and what is right."""

    name: str
    strengths: tuple[float, float]
    captions: float
    lean: float
    right: tuple[str, ...]
    what: str

    def world(self, seed: int, clicks: str = "realistic") -> World:
        """The world of this seed."""
        equal = self.strengths[0] == self.strengths[1]
        queries = QUERIES // 2 if equal else QUERIES
        data = synthetic(queries, DOCUMENTS, 2, strengths=self.strengths, seed=("caption2012", seed))
        people = People(clicks=clicks, captions=self.captions, captions_lean=self.lean)
        return World(mirrored(data) if equal else data, [1, 2], people, seed=seed)

    def log(self, seed: int, impressions: int, clicks: str = "realistic", judged: bool = True) -> pa.Table:
        """Its log, with captions, and with judgments or without."""
        batches: Iterator[pa.RecordBatch] = self.world(seed, clicks).batches(impressions, captions=True, threads=1)
        made = pa.Table.from_batches(list(batches))
        if judged:
            return made
        place = made.schema.get_field_index("grades")
        return made.set_column(place, "grades", pa.nulls(len(made), made.schema.field(place).type))


CASES = (
    Case("only prettier", EQUAL, 1.5, 1, (EXPLAINED,), "as good; A's captions attract"),
    Case("pretty, unheeded", BETTER, 0, 1, (STANDS,), "A is better; its captions are prettier, and nobody cares"),
    Case("alike", BETTER, 1.5, 0, (STANDS,), "A is better; captions attract, for both alike"),
    Case("nothing", EQUAL, 0, 1, (NONE, STANDS), "as good; A's captions are prettier, and nobody cares"),
    Case("better, plainer", BETTER[::-1], 1, 1, (HIDDEN, REVERSED), "B is better; A's captions attract"),
)


def mirrored(data: Judged) -> Judged:
    """Every query twice, the second time with the features in reverse order: two rankers are then exactly as good."""
    return replace(
        data,
        features=frozen(np.concatenate([data.features, data.features[:, ::-1]])),
        grades=np.concatenate([data.grades, data.grades]),
        offsets=np.concatenate([data.offsets, data.offsets[1:] + data.offsets[-1]]),
        queries=tuple(str(number + 1) for number in range(2 * len(data))),
        name=f"{data.name}, mirrored",
    )
