"""Why a row of a log is dropped, in words that a report shows; rows are marked by number while kernels run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.log import schema

FINE, NO_ID, NO_TIME, NO_RANKERS, RANKERS, UNEVEN, RANK, TWICE, SIZES, TEAMS, CHOICES, EVENT, CROWD, LONG = range(14)
NO_RANKS, NO_TEAMS, NO_SIZES, NO_CHOICES, NOBODY, REPEATED, CREDIT, FAR_TIME = range(14, 22)

REASONS = {
    NO_ID: "no impression id",
    NO_TIME: f"no time, or a text that is not in ISO 8601, such as {schema.TIME_EXAMPLE}",
    FAR_TIME: "a time before 1990 or after 2199",
    NO_RANKERS: "no rankers, or two of one name",
    RANKERS: "ranks, lengths or rankings of more or fewer rankers than are named",
    UNEVEN: "ranks, teams or documents of different length",
    RANK: "a rank below 0, above a million, or null",
    TWICE: "two documents at one rank of a ranker",
    SIZES: "a rank beyond the length of its ranking, or lengths and union that do not fit each other or the list",
    TEAMS: "a position owned by a ranker that is not there",
    CHOICES: "choices that cannot be",
    EVENT: "an event at a rank that was not shown",
    CROWD: "more than 1,000 events",
    LONG: "more than 1,000 documents shown",
    NO_RANKS: "neither ranks nor rankings",
    NO_TEAMS: "no teams",
    NO_SIZES: "no lengths or union, and no rankings",
    NO_CHOICES: "no choices, and no rankings",
    NOBODY: "a document that no ranker has",
    REPEATED: "an impression that came before",
    CREDIT: "credit too large to add up",
}
MOST_EVENTS, MOST_SHOWN = 1000, schema.MAX_SHOWN
RULE = 32  # marks from here on are rules of the caller


def counted(marks: Array, rules: Sequence[str] = ()) -> Counter[str]:
    """How many rows are marked with each reason; from `RULE` up, with rules that exclude rows."""
    amounts = np.bincount(marks[marks > 0])
    names = REASONS | {RULE + number: rule for number, rule in enumerate(rules)}
    return Counter({names[mark]: int(amounts[mark]) for mark in np.flatnonzero(amounts).tolist()})
