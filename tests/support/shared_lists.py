"""100,000 lists that every client must draw exactly as Python does; `python -m tests.support.shared_lists` stores them.

A number makes a case: rankings, a method, a length and a key, all drawn by keyed randomness. Clients make the same
cases by the same steps. `tests/vectors/shared_lists.json` has a SHA-256 digest for each block of 1,000 lists, and some
cases in full with the record that is logged. They are a promise to every log, as the other test vectors are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

import interleaf
from interleaf.interleaving.rankings import letter
from interleaf.kernels.randomness import Key, Keyed, key_of
from tests.support.paths import VECTORS

FILE = VECTORS / "shared_lists.json"
BLOCKS, BLOCK = 100, 1000
FULL = 200  # cases that are stored in full, evenly spaced
RANKERS = (2, 2, 2, 3, 5)
METHODS = (
    "competitive_pairs",
    "team_draft",
    "team_draft(fill=owned)",
    "team_draft(fill=stop)",
    "team_draft(prefix=True)",
    "team_draft(fill=owned, prefix=True)",
    "competitive_pairs(coins=list)",  # for two rankers only
)
WORDS = ("", "trail", "größe", "山靴", "\U0001f97e boots", "\ud83e", "s1:a")


class Case(NamedTuple):
    """The arguments of one call of `interleave`."""

    rankings: dict[str, list[str]]
    method: str
    k: int
    key: Key


def make_case(number: int) -> Case:
    """The case of a number. Each step takes its picks in this order; clients repeat it."""
    randomness = Keyed(key_of(("shared lists", number)))
    rankers = RANKERS[randomness.pick(len(RANKERS))]
    method = METHODS[randomness.pick(len(METHODS) - (rankers > 2))]
    k, pool = 1 + randomness.pick(12), 1 + randomness.pick(12)
    rankings = dict[str, list[str]]()
    for place in range(rankers):
        length = randomness.pick(pool + 1) if place else 1 + randomness.pick(pool)
        shared = randomness.pick(length + 1) if place else 0  # as long as the first ranking goes
        ranking = rankings["A"][:shared] if place else []
        others = [f"d{document}" for document in range(pool) if f"d{document}" not in ranking]
        while len(ranking) < length:
            ranking.append(others.pop(randomness.pick(len(others))))
        rankings[letter(place)] = ranking
    word = WORDS[randomness.pick(len(WORDS))]
    return Case(rankings, method, k, ("list", number, (word, -number)))


def list_text(number: int) -> str:
    """The list of a case in one line: its documents and their owners."""
    shown = interleaf.interleave(*make_case(number))
    return f"{number} {' '.join(map(str, shown.documents))} | {' '.join(map(str, shown.teams or ()))}\n"


def digest_block(block: int) -> str:
    """The digest of the lists of a block."""
    lines = map(list_text, range(block * BLOCK, (block + 1) * BLOCK))
    return sha256("".join(lines).encode()).hexdigest()


def full_case(number: int) -> dict[str, Any]:
    """A case with the record of its list."""
    case = make_case(number)
    record = interleaf.interleave(*case).to_dict(rankings=True, probability=False)
    return {"number": number, **case._asdict(), "record": record}


def full_numbers() -> Iterator[int]:
    """The numbers of the cases that are stored in full."""
    return iter(range(0, BLOCKS * BLOCK, BLOCKS * BLOCK // FULL))


def main() -> None:
    """Store the vectors."""
    blocks = ",\n".join(json.dumps(digest_block(block)) for block in range(BLOCKS))
    cases = ",\n".join(json.dumps(full_case(number)) for number in full_numbers())
    FILE.write_text(f'{{"blocks": [\n{blocks}\n],\n"cases": [\n{cases}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
