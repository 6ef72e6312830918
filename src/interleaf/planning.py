"""How many people an experiment needs: from a pilot log, a simulation, or numbers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from interleaf.errors import DataError, listed
from interleaf.stats import power as powers
from interleaf.stats import sequence
from interleaf.stats.power import Pilot, Plan


@dataclass(frozen=True)
class Planned:
    """A plan for one look at its end, and how many units it takes if people watch the page and stop when they like."""

    fixed: Plan
    watched_units: int
    pilot: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self.fixed) | {"watched_units": self.watched_units, "pilot": self.pilot}

    def __str__(self) -> str:
        return (
            f"{self.fixed}\n"
            f"That is for one look, when they have come. Watched all the time, it takes {self.watched_units:,} units.\n"
            f"Based on {self.pilot}: a variance of {self.fixed.variance:.4g} and "
            f"{self.fixed.impressions_per_unit:.4g} impressions with an event for each unit."
        )


def plan(
    effect: float | None = None,
    pilot: Any = None,
    *,
    units: int | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    variance: float = 0.5,
    correlation: float = 0.0,
    impressions_per_unit: float = 1.0,
    **options: Any,
) -> Planned:
    """How many units show an effect (a mean score, such as 0.02); or, with `units`, which effect so many show.

    `pilot` is a log or a tally, also of a simulation: how much people differ is taken from it, and the effect, too,
    where none is given. Without one, a unit has `impressions_per_unit` scores of a `variance`, with a `correlation`.

    >>> print(plan(0.05).fixed.units, plan(0.05, impressions_per_unit=4, correlation=0.1).fixed.units)
    1570 511
    """
    known, seen, source = _numbers(variance, correlation, impressions_per_unit)
    if pilot is None and options:
        raise DataError(f"without a pilot log there is nothing to score by {listed(options)}; leave that out")
    if pilot is not None:
        known, seen, source = _of_log(pilot, options)
    if units is not None:
        made = (
            powers.power_at(units, effect, known, confidence)
            if effect
            else powers.detectable_effect(units, known, power, confidence)
        )
    else:
        wanted = effect if effect is not None else seen
        if wanted is None:
            raise DataError("give the effect to be found, such as 0.02, or a pilot log that has one")
        made = powers.units_needed(wanted, known, power, confidence)
    return Planned(made, _watched(made), source)


def _numbers(variance: float, correlation: float, each: float) -> tuple[Pilot, float | None, str]:
    if not (variance > 0 and each > 0 and 0 <= correlation <= 1):
        raise DataError(
            f"a variance of {variance!r}, a correlation of {correlation!r} and {each!r} impressions for each unit "
            "cannot be; give numbers above 0, and a correlation from 0 to 1"
        )
    return Pilot(each * variance * (1 + (each - 1) * correlation), each), None, "given numbers"


def _of_log(pilot: Any, options: dict[str, Any]) -> tuple[Pilot, float | None, str]:
    from interleaf.analysis import analyzed_tally
    from interleaf.report.build import report
    from interleaf.report.compare import compared
    from interleaf.report.rule import Settings
    from interleaf.report.verdict import verdict

    tally = analyzed_tally(pilot, **options)
    if len(tally.about.rankers) != 2:
        raise DataError(f"a plan is made for two rankers; the pilot compares {len(tally.about.rankers)}")
    if not tally.scores.clicked.any():
        found = report(tally, Settings())
        why = verdict(found.comparisons, (), Settings(), found.totals).sentence
        raise DataError(" ".join(["the pilot log has no event to plan by.", why, *found.notes]))
    result = compared(tally, Settings())
    sums = result.pairs.voices(result.sums, result.weights, tally.about.linear)[:, 0]
    one = result.comparisons[0]
    units = one.units or 0
    known = powers.pilot(sums, result.weights, units >> tally.units.level)
    if known.variance is not None and known.impressions_per_unit:
        each = one.clicked / units  # the pilot's weights are impressions up to a limit
        known = Pilot(known.variance * (each / known.impressions_per_unit) ** 2, each)
    source = f"a pilot of {one.clicked:,} impressions with an event, of {units:,} units"
    return known, one.estimate, source


def _watched(made: Plan) -> int:
    """Units that a page watched all the time needs for the same power, if it is planned for that many."""
    if not 1 - made.confidence < made.power < 1:
        return made.units
    return math.ceil(made.units * sequence.cost_of_watching(made.power, made.confidence))
