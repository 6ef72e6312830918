"""Scores decoded impressions with a method and a scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from interleaf.decode import Counting, Decoded
from interleaf.errors import MethodError, SchemeError, join_names
from interleaf.interleaving import batch
from interleaf.kernels.arrays import Array, Impression, pairs
from interleaf.log.drop_reasons import DropReason
from interleaf.methods.loops import score_columns
from interleaf.methods.registry import ResolvedMethod, resolve
from interleaf.methods.schemes import Scheme, scheme_of

_NEEDS = {
    "ranks": ("ranks", DropReason.NO_RANKS),
    "teams": ("teams", DropReason.NO_TEAMS),
    "lengths": ("sizes", DropReason.NO_SIZES),
    "union": ("sizes", DropReason.NO_SIZES),
    "choices": ("choices", DropReason.NO_CHOICES),
    "unshown_ranks": ("unshown_ranks", DropReason.NO_UNSHOWN_RANKS),
}
MAX_CREDIT = 4096.0  # per impression; with more, sums of squares of a large log would not fit 64 bits
MAX_WORTH = 2.0**20  # per impression if values count, whose squares are not added up
_AGREE = 1e-9


class Credit(Protocol):
    """Credit that depends on features of the click, instead of the same credit for every click (C12, section 10).

    `needs` are additional columns of the log that it reads; `on` prepares it for the rows of a batch.
    """

    @property
    def needs(self) -> tuple[str, ...]: ...

    def on(self, batch: pa.RecordBatch) -> Credit: ...

    def label(self, experiment: str, scheme: str) -> str:
        """The name of the scheme in a report, if this credit scores the experiment."""

    def columns(self, decoded: Decoded, chosen: ResolvedMethod, scheme: Scheme) -> Array:
        """The score of each row, `[row, column]`; the scheme decides which ranker gets a click."""


@dataclass(frozen=True)
class Scoring:
    """How impressions are scored; None stands for defaults, such as the method that composed the list.

    `sessions`: impressions of a unit less than this many seconds apart are scored as one (C12, section 9). `joined`:
    they are joined to sessions to count those of each arm, but scored one by one. `lacking`: fields that lists of the
    log lack, so the default is a scheme that needs none of them. `credit`: what each click is worth, if not all clicks
    are worth the same; it needs a normalized scheme. `examination` of the ranks from the top is for the lift; empty if
    it is estimated from the log.
    """

    scheme: str | None = None
    method: str | None = None
    counting: Counting = field(default_factory=Counting)
    sessions: float | None = None
    lacking: frozenset[str] = frozenset()
    credit: Credit | None = None
    examination: tuple[float, ...] = ()
    joined: float | None = None

    @property
    def gap(self) -> float | None:
        """The seconds that may pass within a session; None if impressions are not joined to sessions."""
        return self.joined if self.sessions is None else self.sessions

    def resolve_method(self, composed: str) -> ResolvedMethod:
        """The method that scores lists composed by the method `composed`."""
        return resolve(self.method or composed)

    def scheme_of(self, composed: str, rankers: int) -> Scheme:
        """The scheme for lists of this many rankers, composed by the method `composed`."""
        chosen = self.resolve_method(composed)
        offered = chosen.method.schemes_for(rankers, self.lacking) or chosen.method.schemes_for(rankers)
        if self.counting.values:
            sums = [name for name in offered if scheme_of(name).form.adds_up]
            if self.scheme not in (None, *sums) or not sums:
                some = f"use {join_names(sums)}" if sums else f"{chosen} offers none"
                raise SchemeError(f"values take a scheme that adds up clicks, not {self.scheme!r}: {some}")
            return chosen.scheme(self.scheme or sums[0], rankers)
        if self.credit is None:
            return chosen.scheme(self.scheme or next(iter(offered), None), rankers)
        averages = tuple(chosen.method.needs_by_variant)
        normalized = [name for name in offered if scheme_of(name).form.divides and not name.endswith(averages)]
        if self.scheme not in (None, *normalized) or not normalized:
            some = f"use {join_names(normalized)}" if normalized else f"{chosen} offers none"
            raise SchemeError(f"credit by click takes a normalized scheme, not {self.scheme!r}: {some}")
        return chosen.scheme(self.scheme or normalized[0], rankers)

    def label(self, experiment: str, composed: str, rankers: int) -> str:
        """The name of the scheme of this experiment in a report."""
        name = self.scheme_of(composed, rankers).name
        return name if self.credit is None else self.credit.label(experiment, name)


class Scored(NamedTuple):
    """Impressions with their scores: one column per ranker if the scheme is linear in credit, else one per pair.

    If impressions are joined to sessions later, columns are credit, and `credited` is the number of credited clicks.
    `owners` is the credit of the drawn owners, `[row, ranker]`, if lists that favour a ranker are counted by it; NaN
    where a list has no owners.
    """

    decoded: Decoded
    columns: Array
    linear: bool
    credited: Array
    owners: Array | None = None


def score(decoded: Decoded, scoring: Scoring, threads: int = 1) -> Scored:
    """Score the impressions; impressions that lack what the method needs are dropped and counted."""
    chosen = scoring.resolve_method(decoded.design.method)
    rankers = len(decoded.design.rankers)
    scheme = scoring.scheme_of(decoded.design.method, rankers)
    decoded = drop_unscorable(decoded, chosen, scheme)
    linear = scheme.form.linear
    if not len(decoded.rows):
        width = rankers if linear else rankers * (rankers - 1) // 2
        return Scored(decoded, np.zeros((0, width)), linear, np.zeros(0))
    if scheme.form.takes_expected_sign and chosen.method.kernels.expected_sign_batch is not None:
        if scoring.sessions is not None:
            raise SchemeError(f"{chosen} cannot score sessions by the expected sign; use scheme 'click'")
        columns = _expected_signs(decoded, chosen, scheme, scoring.counting.weights, threads)
        return Scored(decoded, columns, linear, np.zeros(len(decoded.rows)))
    if scoring.credit is not None:
        credits, credited = scoring.credit.columns(decoded, chosen, scheme), np.zeros(len(decoded.rows))
    else:
        credits, credited = _credit(decoded, chosen, scheme, scoring.counting.weights, threads)
        if (unknown := credited < 0).any():
            decoded = drop_rows(decoded, unknown, DropReason.NO_AVERAGE)
            credits, credited = credits[~unknown], credited[~unknown]
    most = MAX_WORTH if scoring.counting.values else MAX_CREDIT
    too_large = np.asarray((np.abs(credits) > most).any(axis=1))
    if too_large.any():
        decoded = drop_rows(decoded, too_large, DropReason.CREDIT_TOO_LARGE)
        credits, credited = credits[~too_large], credited[~too_large]
    if scoring.sessions is None and scoring.credit is None:
        credits = score_columns(scheme.form, credits, credited)
    owners = _credit_of_owners(decoded, chosen, scheme, scoring.counting.weights, threads)
    return Scored(decoded, credits, linear, credited, owners)


def sum_events(decoded: Decoded, weights: Mapping[str, float]) -> Scored:
    """The weighted events on lists of one ranker, in the column of that ranker; lists with too large sums are dropped.

    Events are counted once for each kind and document.
    """
    ranker = decoded.design.rankers.index(decoded.design.arm)
    sums: Array = np.zeros((len(decoded.rows), len(decoded.design.rankers)))
    values = decoded.clicks.values
    if values.shape[1]:
        sums[:, ranker] = values.sum(axis=1)
    else:
        for events, weight in zip(decoded.clicks.clicks, weights.values(), strict=True):
            sums[:, ranker] += weight * events.sum(axis=1)
    too_large = np.abs(sums[:, ranker]) > (MAX_WORTH if values.shape[1] else MAX_CREDIT)
    decoded, sums = drop_rows(decoded, too_large, DropReason.CREDIT_TOO_LARGE), sums[~too_large]
    return Scored(decoded, sums, True, np.zeros(len(sums)))


def drop_rows(decoded: Decoded, marked: Array, reason: DropReason) -> Decoded:
    """Drop the marked rows, and count them under the reason."""
    if not marked.any():
        return decoded
    others = decoded.only(~marked)
    others.dropped[reason] += int(marked.sum())
    return others


def drop_unscorable(decoded: Decoded, chosen: ResolvedMethod, scheme: Scheme) -> Decoded:
    """Drop impressions that lack what the method needs to score them, and count them by reason."""
    fewest, most = chosen.rankers
    rankers = len(decoded.design.rankers)
    if rankers < fewest or (most is not None and rankers > most):
        raise MethodError(f"{chosen} cannot score lists of {rankers} rankers: {decoded.design.rankers!r}")
    for need, (name, reason) in _NEEDS.items():
        if need in chosen.method.fields_of(scheme):
            decoded = drop_rows(decoded, ~decoded.has[name], reason)
    return decoded


def _credit(
    decoded: Decoded, chosen: ResolvedMethod, scheme: Scheme, weights: Mapping[str, float], threads: int
) -> tuple[Array, Array]:
    """The weighted sum of the credit of each kind of event, and the number of credited clicks; -1: not known.

    If values count, it is the sum of the credit of each click times its value.
    """
    if decoded.clicks.values.shape[1]:
        rows, positions = np.nonzero(decoded.is_clicked)
        shares, number = shares_by_click(decoded.impressions, decoded.counts, decoded.is_clicked, chosen, scheme)
        worth = shares * decoded.clicks.values[rows, positions][:, None]
        sums = [np.bincount(rows, column, len(number)) for column in worth.T]
        return np.stack(sums, axis=1), number
    credits: Array = np.zeros((len(decoded.rows), len(decoded.design.rankers)))
    credited: Array = np.zeros(len(decoded.rows))
    for clicks, weight in zip(decoded.clicks.clicks, weights.values(), strict=True):
        some, number = batch.credit(chosen, scheme, decoded.impressions, decoded.counts, clicks, threads)
        credits += weight * some
        credited = np.where((number < 0) | (credited < 0), -1, credited + abs(weight) * number)
    return credits, credited


def _credit_of_owners(
    decoded: Decoded, chosen: ResolvedMethod, scheme: Scheme, weights: Mapping[str, float], threads: int
) -> Array | None:
    """The credit of the drawn owners if the scheme averages it over owners, because the sign of that is not fair."""
    signs = chosen.method.sign_scheme(scheme)
    if signs is None or signs.variant == scheme.variant or not len(decoded.rows):
        return None
    credits, _ = _credit(decoded, chosen, signs, weights, threads)
    credits[~decoded.has["teams"]] = np.nan
    return credits


def _expected_signs(
    decoded: Decoded, chosen: ResolvedMethod, scheme: Scheme, weights: Mapping[str, float], threads: int
) -> Array:
    if len(weights) > 1 or min(weights.values()) < 0:
        raise SchemeError(
            f"{chosen} knows the expected sign of one kind of event, not of {', '.join(weights)} together; "
            "use scheme 'click', or one kind"
        )
    clicks = decoded.clicks.clicks[0]
    preferences: Array = batch.preferences(chosen, scheme, decoded.impressions, decoded.counts, clicks, threads)
    return preferences[:, *pairs(preferences.shape[1])]


def shares_by_click(
    impressions: Impression, counts: Array, clicked: Array, chosen: ResolvedMethod, scheme: Scheme
) -> tuple[Array, Array]:
    """What each click adds to each ranker's credit, `[click, ranker]`, row by row; and the credited clicks of rows.

    In balanced interleaving, the credit of a click depends on the lowest click. So the lowest click gets the credit
    that it has alone, and every other click what it adds to that. A method whose credit is not this sum is an error.
    """
    rows, positions = np.nonzero(clicked)
    totals, number = batch.credit(chosen, scheme, impressions, counts, clicked, 1)
    if not len(rows):
        return np.zeros((0, totals.shape[1])), number
    lowest = (clicked.shape[1] - 1 - clicked[:, ::-1].argmax(axis=1))[rows]
    patterns, places = np.zeros((len(rows), clicked.shape[1]), np.bool_), np.arange(len(rows))
    patterns[places, positions] = patterns[places, lowest] = True
    each = Impression(*(values[rows] for values in impressions))
    shares, _ = batch.credit(chosen, scheme, each, counts[rows], patterns, 1)
    alone = np.zeros_like(totals)
    is_lowest = positions == lowest
    alone[rows[is_lowest]] = shares[is_lowest]
    shares[~is_lowest] -= alone[rows[~is_lowest]]
    sums = np.zeros_like(totals)
    np.add.at(sums, rows, shares)
    if np.abs(sums - totals).max() > _AGREE * max(1.0, np.abs(totals).max()):
        raise MethodError(
            f"{chosen} cannot be credited click by click: its credit for several clicks is not the sum of its credit "
            "for each click; score its lists by another method"
        )
    return shares, number
