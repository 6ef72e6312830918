"""Tallies added up: the same numbers, whatever was split and however it is put together."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from interleaf.errors import DataError
from interleaf.tally.about import About
from interleaf.tally.pages import Arm, Lists
from interleaf.tally.scores import Scores
from interleaf.tally.units import ARMS, SUMS

if TYPE_CHECKING:
    from interleaf.tally.tally import Tally

Sums = TypeVar("Sums", Scores, Arm, Lists)
SHARED = "impressions that two tallies share"


def merged(one: Tally, other: Tally) -> Tally:
    """Both together; an error names what they disagree in."""
    if not one.about.method and other.about.method:
        one = as_if(one, other.about)
    elif one.about.method and not other.about.method:
        other = as_if(other, one.about)
    _check(one.about, other.about)
    rankers = min(one.about.rankers, other.about.rankers)
    total = reordered(one, rankers)
    absorb(total, reordered(other, rankers))
    return total


def absorb(total: Tally, more: Tally) -> None:
    """Count a tally with the same rankers into another, which is not kept as it was."""
    total.about = replace(total.about, composed=total.about.composed or more.about.composed)
    total.scores = added(total.scores, more.scores)
    total.lists = added(total.lists, more.lists)
    total.slices.merge(more.slices)
    total.evidence.merge(more.evidence)
    _merge_units(total, more)
    total.segments.merge(more.segments)
    total.queries.merge(more.queries.level, *more.queries.unordered)
    for name, arm in more.arms.items():
        total.arms[name] = added(total.arms[name], arm) if name in total.arms else arm
    shared = total.sample.merge(more.sample)
    for name in ("dropped", "events", "facts"):
        getattr(total, name).update(getattr(more, name))
    if shared:
        total.facts[SHARED] += shared
    total.since = min((time for time in (total.since, more.since) if time is not None), default=None)
    total.until = max((time for time in (total.until, more.until) if time is not None), default=None)


def added(one: Sums, other: Sums) -> Sums:
    """Sums of the same shape, part by part."""
    return type(one)(*(mine + theirs for mine, theirs in zip(one, other, strict=True)))


def reordered(tally: Tally, rankers: Sequence[str]) -> Tally:
    """A copy with the rankers in another order."""
    copy = deepcopy(tally)
    if tuple(rankers) == tally.about.rankers:
        return copy
    order, linear = [tally.about.rankers.index(ranker) for ranker in rankers], tally.about.linear
    copy.about = replace(tally.about, rankers=tuple(rankers))
    copy.scores = copy.scores.reordered(order, linear)
    copy.lists = copy.lists.reordered(order)
    copy.evidence.reorder(order)
    for units in (copy.units, copy.slices.cells, copy.segments.cells, copy.queries):
        units.reorder(order, linear)
    return copy


def as_if(tally: Tally, about: About) -> Tally:
    """A tally without scores, such as of a holdout, in the form of one with them."""
    own = tally.about
    total = type(tally).empty(
        replace(about, experiment=own.experiment, version=own.version, rankers=own.rankers, composed="")
    )
    hashes, rows = tally.units.unordered
    values = np.zeros((tally.units.size, SUMS + total.units.columns), np.int64)
    values[:, :SUMS] = rows[:, :SUMS]
    total.units.merge(tally.units.level, hashes, values)
    for name in ("arms", "sample", "evidence", "dropped", "events", "facts", "since", "until"):
        setattr(total, name, deepcopy(getattr(tally, name)))
    return total


def _check(one: About, other: About) -> None:
    for field in fields(About):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name == "rankers":
            mine, theirs = sorted(mine), sorted(theirs)
        if mine != theirs and not (field.name == "composed" and "" in (mine, theirs)):
            raise DataError(
                f"these tallies cannot be added: their {field.name} differ, {mine!r} and {theirs!r}; "
                "tally both logs in the same way"
            )


def _merge_units(total: Tally, more: Tally) -> None:
    """Arms may have other numbers there: give their bits the numbers of here."""
    hashes, values = more.units.unordered
    for name in more.arms:
        total.number_of(name)
    seen = np.zeros(len(values), np.int64)
    for bit, name in enumerate(more.arms):
        seen |= np.where(values[:, ARMS] >> bit & 1, 1 << total.number_of(name), 0)
    values[:, ARMS] = seen
    total.units.merge(more.units.level, hashes, values)
