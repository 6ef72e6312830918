"""From sums to the record: estimates, the one to go by, what to beware of, and what a live experiment would cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from interleaf.buckets import BUCKETS
from interleaf.errors import DataError
from interleaf.methods.arrays import Array, pairs
from interleaf.planning import Planned, plan
from interleaf.refine.reuse.old import Old, Rows
from interleaf.refine.reuse.outcomes import Scorer
from interleaf.refine.reuse.record import Estimated, Reused
from interleaf.refine.reuse.robust import Robust
from interleaf.refine.reuse.sums import Weighted, Weights
from interleaf.stats import compare, power
from interleaf.stats.compare import Estimate
from interleaf.stats.multiplicity import holm

NOTHING = "no old list is one that the new rankers could show"
NO_OWNERS = "the owners that were drawn are not logged, or of fewer or more rankers"
NO_CLICK = "no click: a click model has nothing to learn from"
NO_MODEL = "what a click model expects is known for schemes binary and click, not for normalized"
HANDFUL, FEW = 10, 100  # effective impressions


class Found(NamedTuple):
    """The old impressions, their buckets and whether the new rankers could show their lists; the sums of each
    weighting, and the doubly robust estimate if there is."""

    rows: Rows
    bucket: Array
    usable: Array
    sums: Mapping[str, Weighted]
    robust: Robust | None


def reported(found: Found, rankers: tuple[str, ...], scorer: Scorer, old: Old, confidence: float) -> Reused:
    """The record."""
    named = [(rankers[one], rankers[other]) for one, other in zip(*pairs(len(rankers)), strict=True)]
    names, by_pair = _names(scorer), zip(*_told(found, scorer, named, confidence), strict=True)
    estimates = [one for of_pair in by_pair for one in of_pair]
    best = names["robust"] if found.robust is not None else names["normalized"]
    answers = tuple(one for one in estimates if one.estimator == best)
    weights = {names[kind]: sums.described for kind, sums in found.sums.items() if sums.impressions.any()}
    known = found.robust.known if found.robust is not None else None
    clicked = np.asarray(found.rows.clicks.any(axis=1))
    return Reused(
        rankers=rankers,
        method=str(scorer.chosen),
        scheme=scorer.scheme.name,
        old_methods=dict(old.methods),
        impressions=len(clicked),
        clicked=int(clicked.sum()),
        units=len(np.unique(found.rows.unit)),
        confidence=confidence,
        estimates=tuple(estimates),
        weights=weights,
        known=known,
        answers=answers,
        plans={pair: _plan(found, scorer, place, answers[place], confidence) for place, pair in enumerate(named)},
        warnings=tuple(_warnings(found.sums["weighted"].described, int(clicked.sum()), known)),
        dropped={reason: count for reason, count in old.dropped.items() if count},
    )


def _told(found: Found, scorer: Scorer, named: list[tuple[str, str]], confidence: float) -> Iterator[list[Estimated]]:
    """Of each estimator its word on every pair."""
    for name, made in _estimates(found, scorer, confidence):
        adjusted = holm([one.p_value for one in made])
        yield [
            Estimated(name, *pair, one.value, one.error, one.interval, one.p_value, against_all, one.reason)
            for pair, one, against_all in zip(named, made, adjusted, strict=True)
        ]


def _names(scorer: Scorer) -> dict[str, str]:
    """What H12h calls the estimators: by the sum over owners, by weights, by both; those that the method has."""
    short, own = scorer.chosen.method.short, scorer.independent
    weighted = f"{short}+IS+MA" if own else f"{short}+IS"
    joint, model = {"joint": f"{short}+IS"}, {"model": f"{short}+DM", "robust": f"{short}+DR"}
    return (
        {"unweighted": f"{short}+MA" if own else short}
        | (joint if own else {})
        | {"weighted": weighted, "normalized": f"{weighted}, self-normalised", "clipped": f"{weighted}, clipped"}
        | (model if own else {})
    )


def _estimates(found: Found, scorer: Scorer, confidence: float) -> Iterator[tuple[str, tuple[Estimate, ...]]]:
    """Means of w o, or, self-normalised, sums of w o over sums of w."""
    size = scorer.rankers * (scorer.rankers - 1) // 2
    for kind, name in _names(scorer).items():
        if kind in ("model", "robust"):
            no_model = _none(size, NO_CLICK if scorer.foreseeable else NO_MODEL)
            yield name, no_model if found.robust is None else found.robust.estimates(kind == "robust", confidence)
            continue
        sums = found.sums["weighted" if kind == "normalized" else kind]
        if kind == "joint" and not sums.impressions.any():
            yield name, _none(size, NO_OWNERS)
        elif not sums.usable:
            yield name, _none(size, NOTHING)
        else:
            counts = sums.impressions if kind in ("joint", "weighted") else sums.weights
            yield name, compare.estimates(scorer.by_pair(sums.outcomes), counts[:, None], confidence)


def _none(size: int, reason: str) -> tuple[Estimate, ...]:
    return (Estimate(None, None, None, None, None, 0, reason),) * size


def _warnings(weights: Weights, clicked: int, known: float | None) -> Iterator[str]:
    """Plain words on what an answer rests on."""
    effective = weights.effective
    if effective < FEW:
        few = "a handful of impressions" if effective < HANDFUL else "few impressions"
        yield (
            f"Weighted estimates rest on {few}: {weights.impressions:,} count as {effective:,.1f}"
            + (", so do not go by them" if effective < HANDFUL else "")
            + (", and the answer is that of a click model, hardly mended." if known is not None else ".")
        )
    if weights.largest_share is not None and weights.largest_share > 0.1:
        yield f"One impression has {100 * weights.largest_share:.0f} % of all weight."
    if weights.mean is not None and not 0.5 < weights.mean < 2:
        yield (
            f"Weights should average 1, and average {weights.mean:.2g}: the old lists do not cover what the new "
            "rankers would show" + (", and there the answer is that of a click model." if known is not None else ".")
        )
    if known is not None and known < 0.9:
        yield (
            f"{100 * (1 - known):.0f} % of the places in new lists hold documents that the log never shows for their "
            "query; the click model takes them for what documents so ranked are."
        )
    if clicked < FEW:
        yield f"Only {clicked:,} impressions have an event."


def _plan(found: Found, scorer: Scorer, pair: int, answer: Estimated, confidence: float) -> Planned | str:
    """A live experiment of the size that would find the answer, with people as different as in the log."""
    if not answer.value:
        return "no difference is estimated, so that there is none to plan for."
    clicked = found.rows.clicks.any(axis=1)
    known = _pilot(found, scorer.by_pair(found.sums["unweighted"].outcomes)[:, pair], clicked & found.usable)
    if known.variance is None or known.impressions_per_unit is None:
        return f"it cannot be planned: {known.reason}."
    variance = known.variance / known.impressions_per_unit
    each = float(clicked.sum()) / len(np.unique(found.rows.unit[clicked]))
    effect = abs(answer.value) / clicked.mean()
    try:
        made = plan(effect, confidence=confidence, variance=variance, impressions_per_unit=each)
    except DataError as problem:
        return f"it cannot be planned: {problem}."
    return replace(made, pilot="the old impressions")


def _pilot(found: Found, sums: Array, rows: Array) -> power.Pilot:
    """How much people differ, on lists that say something of the new rankers."""
    counts = np.bincount(found.bucket[rows], minlength=BUCKETS)
    return power.pilot(np.where(counts > 0, sums, 0.0), counts, len(np.unique(found.rows.unit[rows])))
