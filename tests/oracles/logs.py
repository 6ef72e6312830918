"""What a log says, computed in the most obvious way: rows as dictionaries, one after the other, in whole numbers.

Credit is `interleaf.credit`, impression by impression, which has oracles of its own. Sums are of scores in units of
2^-24, as the tally keeps them, so that they can be held against it with ==.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from interleaf import Interleaving, credit
from interleaf.kernels.buckets import UNIT, bucket_of, hash_of
from interleaf.methods.registry import resolve
from interleaf.methods.schemes import scheme_of
from tests.support.log_rows import Row

ONE = 2**24
# What credit asks for.
SHOWN = ("method", "rankers", "documents", "ranks", "unshown_ranks", "lengths", "union", "teams", "choices")


@dataclass(frozen=True)
class Rules:
    """What `analyze` is asked for."""

    scheme: str | None = None
    method: str | None = None
    events: Mapping[str, float] = field(default_factory=lambda: {"click": 1.0})
    dwell: float | None = None
    first: bool = False
    window: float | None = None


PLAIN = Rules()


def fates_of(row: Row, rules: Rules = PLAIN) -> list[str]:
    """What becomes of each event."""
    fates = []
    for number, event in enumerate(row["events"]):
        delay = event["time"] - row["time"]
        copies = [
            (one["time"], one["rank"], one["kind"], place)
            for place, one in enumerate(row["events"])
            if place == number or (event.get("event") is not None and one.get("event") == event["event"])
        ]
        dwells = [row["events"][place].get("dwell") for *_, place in copies]
        dwell = max((one for one in dwells if one is not None), default=None)
        if min(copies)[-1] != number:
            fates.append("repeated")
        elif delay < timedelta(0):
            fates.append("early")
        elif event["kind"] not in rules.events:
            fates.append("other_kind")
        elif rules.window is not None and delay > timedelta(seconds=rules.window):
            fates.append("late")
        elif rules.dwell is not None and (dwell is None or not dwell >= rules.dwell):
            fates.append("short_dwell")
        else:
            fates.append("not_first" if rules.first else "counted")
    after = [number for number, fate in enumerate(fates) if fate == "not_first"]
    if after:
        fates[min(after, key=lambda number: _order(row["events"][number]))] = "counted"
    return fates


def _order(event: Row) -> tuple[datetime, int, str]:
    return event["time"], event["rank"], event["kind"]


def counted_events(row: Row, rules: Rules = PLAIN) -> list[Row]:
    found = [event for event, fate in zip(row["events"], fates_of(row, rules), strict=True) if fate == "counted"]
    return sorted(found, key=_order)[:1] if rules.first else found


def shown_of(row: Row, method: str | None = None) -> Interleaving:
    """The list of a row, to be credited by its own method or by another."""
    names = [*SHOWN, *([] if row.get("ranks") else ["rankings"])]
    shown = Interleaving.from_dict({name: row[name] for name in names if row.get(name) is not None})
    if method is None:
        return shown
    chosen = resolve(method)
    if "choices" in chosen.method.needs and shown.choices is None:
        other = Interleaving.of(dict(zip(row["rankers"], row["rankings"], strict=True)), shown.documents, chosen.text)
        shown = replace(shown, choices=other.choices)
    return replace(shown, method=chosen.text, teams=shown.teams if chosen.method.has_teams else None)


class Score(NamedTuple):
    """Credit before any division, the clicks it was given for, preferences by pair, and whether any event counts."""

    credit: list[float]
    credited: float
    pairs: dict[tuple[int, int], float]
    clicked: bool


def score_of(row: Row, rules: Rules = PLAIN) -> Score:
    """Each kind of event is a click pattern of its own, added up by weight."""
    shown, events = shown_of(row, rules.method), counted_events(row, rules)
    rankers = range(len(shown.rankers))
    scheme = resolve(shown.method).scheme(rules.scheme, len(rankers)).name
    total, credited = [0.0 for _ in rankers], 0.0
    for kind, weight in sorted(rules.events.items()):
        ranks = sorted({event["rank"] for event in events if event["kind"] == kind})
        gained, number = credit_of(shown, ranks, scheme)
        total = [sum_ + weight * one for sum_, one in zip(total, gained, strict=True)]
        credited += abs(weight) * number
    if scheme == "binary" and shown.method.startswith("probabilistic"):  # the expected sign, not that of credit
        preference = credit(shown, [event["rank"] for event in events], scheme).preference
        pairs = {(one, other): float(preference[one, other]) for one, other in combinations(rankers, 2)}
    else:
        pairs = preferences(total, credited, scheme)
    return Score(total, credited, pairs, bool(events))


def credit_of(shown: Interleaving, ranks: Sequence[int], scheme: str) -> tuple[list[float], int]:
    """Credit before any division, and how many clicks it was given for."""
    _, _, variant = scheme.partition("_")
    suffix = f"_{variant}" if variant else ""
    gained = list(credit(shown, ranks, f"click{suffix}").credit.values())
    name = resolve(shown.method).method.name
    if name == "balanced":
        shares = list(credit(shown, ranks, f"normalized{suffix}").credit.values())
        return gained, round(sum(gained) / sum(shares)) if sum(shares) else 0
    if name == "team_draft":
        prefix = _shared_prefix(shown) if variant == "deduped" else 0
        return gained, round(sum(gained)) + sum(rank <= prefix for rank in ranks)
    return gained, len(ranks)


def _shared_prefix(shown: Interleaving) -> int:
    ranks = shown.ranks.tolist()
    for position in range(len(shown.documents)):
        if any(row[position] != position + 1 for row in ranks):
            return position
    return len(shown.documents)


def preferences(gained: Sequence[float], credited: float, scheme: str) -> dict[tuple[int, int], float]:
    """By the form of the scheme: sign, difference, or difference of shares."""
    form = scheme_of(scheme).form.name
    values = [one / credited if form == "normalized" and credited else one for one in gained]
    found = {}
    for one, other in combinations(range(len(values)), 2):
        difference = values[one] - values[other]
        if form == "binary":
            least = 1e-9 * max(abs(values[one]), abs(values[other]))
            difference = float((difference > least) - (difference < -least))
        found[one, other] = difference
    return found


def fixed(number: float) -> int:
    """In units of 2^-24, halves to even."""
    return round(Fraction(number) * ONE)


class Cell:
    """Sums of a bucket or a unit: by pair, and by the columns that the tally has."""

    def __init__(self) -> None:
        self.impressions = self.clicked = 0
        self.sums: Counter[tuple[int, int]] = Counter()
        self.columns: Counter[tuple[int, ...]] = Counter()


def max_weight(units: int) -> int:
    """The root of the number of units with an event, rounded down, from 5 to 40."""
    return next(limit for limit in range(40, 4, -1) if limit**2 <= max(units, 25))


def voice(cell: Cell, pair: tuple[int, int], limit: int) -> tuple[int, int]:
    """A unit's mean score, in 2^-24 and times its weight, and that weight: impressions up to a limit."""
    weight = min(cell.clicked, limit)
    one, other = ((pair[0],), (pair[1],))
    if pair in cell.columns or not {one, other} & set(cell.columns):
        return round(Fraction(cell.columns[pair] * weight, max(cell.clicked, 1))), weight
    sides = [round(Fraction(cell.columns[side] * weight, max(cell.clicked, 1))) for side in (one, other)]
    return sides[0] - sides[1], weight


class Sums:
    """Sums of scored impressions (or sessions), pair by pair."""

    def __init__(self, rows: Iterable[Row], rules: Rules = PLAIN, sessions: float | None = None) -> None:
        self.buckets: defaultdict[int, Cell] = defaultdict(Cell)
        self.units: defaultdict[str, Cell] = defaultdict(Cell)
        self.wins: Counter[tuple[int, int]] = Counter()
        self.losses: Counter[tuple[int, int]] = Counter()
        self.squares: Counter[tuple[int, int]] = Counter()
        rows = [row for row in rows if row["arm"] == "interleaved"]
        for group in [[row] for row in rows] if sessions is None else visits(rows, sessions):
            self._add(group[0], _together([score_of(row, rules) for row in group], group[0], rules))

    def _add(self, row: Row, score: Together) -> None:
        (_, _, pairs, clicked), sums, columns = score
        unit = row.get("unit") or row["impression"]
        for cell in (self.buckets[bucket_of(unit)], self.units[unit]):
            cell.impressions += 1
            cell.clicked += clicked
            if clicked:
                cell.sums.update(sums)
                cell.columns.update(columns)
        if clicked:
            self.wins.update(pair for pair, value in pairs.items() if value > 0)
            self.losses.update(pair for pair, value in pairs.items() if value < 0)
            self.squares.update({pair: fixed(value * value) for pair, value in pairs.items()})

    @property
    def impressions(self) -> int:
        return sum(cell.impressions for cell in self.buckets.values())

    @property
    def clicked(self) -> int:
        return sum(cell.clicked for cell in self.buckets.values())

    @property
    def max_weight(self) -> int:
        """Of a unit, by how many units have an event."""
        return max_weight(sum(cell.clicked > 0 for cell in self.units.values()))

    def voices(self, pair: tuple[int, int], limit: int | None = None) -> list[tuple[int, int]]:
        """Weighted sums of means, in 2^-24, and weights, by bucket."""
        limit = self.max_weight if limit is None else limit
        found: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        for unit, cell in self.units.items():
            bucket = found[hash_of(UNIT, unit) >> 34 & 1023]
            for place, number in enumerate(voice(cell, pair, limit)):
                bucket[place] += number
        # What rounding to 2^-24 may have left of a zero is zero.
        return [(0 if abs(score) <= 2 * weight else score, weight) for score, weight in found.values() if weight]

    def estimate(self, pair: tuple[int, int], limit: int | None = None) -> Fraction:
        """D = sum w m / sum w, over units with mean scores m and weights w."""
        voices = self.voices(pair, limit)
        return Fraction(sum(score for score, _ in voices), ONE * sum(weight for _, weight in voices))

    def per_search(self, pair: tuple[int, int]) -> Fraction:
        """sum S / sum N."""
        return Fraction(sum(cell.sums[pair] for cell in self.buckets.values()), ONE * self.clicked)

    def error(self, pair: tuple[int, int]) -> float:
        """se^2 = sum_b ((S_b - D W_b) / (W - W_b))^2."""
        mean, voices = self.estimate(pair), self.voices(pair)
        total = sum(weight for _, weight in voices)
        parts = [((Fraction(score, ONE) - mean * weight) / (total - weight)) ** 2 for score, weight in voices]
        return math.sqrt(sum(parts))

    @property
    def effective(self) -> Fraction:
        weights = [weight for _, weight in self.voices((0, 1))]
        return Fraction(sum(weights) ** 2, sum(weight**2 for weight in weights))


Together = tuple[Score, Mapping[tuple[int, int], int], Mapping[tuple[int, ...], int]]


def _together(scores: list[Score], row: Row, rules: Rules) -> Together:
    """One score of all queries of a session, whose counts are added up first; and its sums as the tally rounds them."""
    scheme = resolve(rules.method or row["method"]).scheme(rules.scheme, len(row["rankers"])).name
    found = scores[0]
    if len(scores) > 1:
        gained = [sum(values) for values in zip(*(score.credit for score in scores), strict=True)]
        credited = sum(score.credited for score in scores)
        clicked = any(score.clicked for score in scores)
        found = Score(gained, credited, preferences(gained, credited, scheme), clicked)
    if scheme.startswith("binary"):
        signs = {pair: fixed(value) for pair, value in found.pairs.items()}
        return found, signs, {tuple(pair): value for pair, value in signs.items()}
    divisor = found.credited if scheme.startswith("normalized") and found.credited else 1
    columns = [fixed(one / divisor) for one in found.credit]
    pairs = {(one, other): columns[one] - columns[other] for one, other in found.pairs}
    return found, pairs, {(ranker,): value for ranker, value in enumerate(columns)}


def visits(rows: Iterable[Row], timeout: float, ends: bool = False) -> Iterator[list[Row]]:
    """Impressions of a unit, each less than so many seconds after the one before; `ends`: after its last event."""
    by_unit: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_unit[row.get("unit") or row["impression"]].append(row)
    for own in by_unit.values():
        own.sort(key=lambda row: row["time"])
        group = own[:1]
        for before, row in pairwise(own):
            since = last_interaction(before) if ends else before["time"]
            if (row["time"] - since).total_seconds() >= timeout:
                yield group
                group = []
            group.append(row)
        yield group


def last_interaction(row: Row) -> datetime:
    """When the list was shown, or the last thing was done with it; of an event that came twice, the first counts."""
    done = zip(row["events"], fates_of(row), strict=True)
    latest: datetime = max([row["time"], *(event["time"] for event, fate in done if fate != "repeated")])
    return latest


def metrics_of(rows: Sequence[Row], rules: Rules = PLAIN) -> dict[str, float]:
    """C12's absolute metrics of one arm, but for those that need sessions."""
    clicks = [sorted({event["rank"] for event in counted_events(row, rules)}) for row in rows]
    some = [ranks for ranks in clicks if ranks]
    found = {
        "abandonment": sum(not ranks for ranks in clicks) / len(rows),
        "clicks": sum(map(len, clicks)) / len(rows),
        "clicks_at_1": sum(1 in ranks for ranks in clicks) / len(rows),
    }
    if some:
        found["skipped"] = float(np.mean([1 - len(ranks) / ranks[-1] for ranks in some]))
        found["max_reciprocal_rank"] = float(np.mean([1 / ranks[0] for ranks in some]))
        found["mean_reciprocal_rank"] = float(np.mean([np.mean([1 / rank for rank in ranks]) for ranks in some]))
    return found
