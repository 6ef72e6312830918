"""A deterministic stand-in of a language model, with planted preferences; questions, passages and a search in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

FOUND = 5  # passages of each retriever


class Text(NamedTuple):
    """A passage; the text of one that answers the question begins with "answer"."""

    id: str
    text: str


@dataclass(frozen=True)
class FakeModel:
    """Cites passages. `by_rank`: how likely it reads each rank. `by_content`: how much more likely it cites a passage
    that answers. `by_length`: how the chance grows with the length, as a power.
    """

    by_rank: Sequence[float] = (0.5,) * FOUND
    by_content: float = 1.0
    by_length: float = 0.0

    def answer(self, question: str, texts: Sequence[str]) -> str:
        """The answer, which is the same for the same question and passages; it sees texts only."""
        draw = Random(f"{question}\0{texts}")
        cited = [number for number, text in enumerate(texts, 1) if draw.random() < self._chance(number, text)]
        return "So it is" + "".join(f" [{number}]" for number in cited) + "."

    def _chance(self, number: int, text: str) -> float:
        content = self.by_content if text.startswith("answer") else 1.0
        return float(min(1.0, self.by_rank[number - 1] * content * (len(text) / 100) ** self.by_length))


def find_texts(question: str, retriever: str, skill: float = 0.5, characters: int = 100) -> list[Text]:
    """What a retriever finds: five passages, of which the first answers with the probability `skill`, else the last."""
    draw = Random(f"{question}\0{retriever}")
    place = 0 if draw.random() < skill else FOUND - 1
    ids = [f"{question}/{draw.randrange(8)}/{rank}" for rank in range(FOUND)]
    starts = ["answer" if rank == place else "other" for rank in range(FOUND)]
    pairs = zip(starts, ids, strict=True)
    return [Text(f"{start}:{name}", f"{start} {name} ".ljust(characters, "x")) for start, name in pairs]
