"""How likely lists were: the log of each list's probability under its method, for many impressions at once.

Where owners are drawn by position, as in probabilistic interleaving, it is compiled, and tells the drawn rankers' part
besides. Of all other methods the different lists are few, or a call a list is quick enough.
"""

from __future__ import annotations

import numpy as np

from interleaf.compiled import impression_at, kernel
from interleaf.methods import call
from interleaf.methods.arrays import Array, Impression
from interleaf.methods.probabilistic import Settings, settings, write_shares
from interleaf.methods.table import INDEPENDENT, Chosen


def log_chances(chosen: Chosen, impressions: Impression, counts: Array) -> tuple[Array, Array]:
    """log P(L), and log P(L, a) of the assignment a, `[row]`; nan where the method or the log cannot tell.

    >>> from interleaf.methods.table import resolve
    >>> one = Impression(*(np.array([value]) for value in ([[1, 2], [2, 1]], [0, 0], [2, 2], 2, [2, 2])))
    >>> np.exp(log_chances(resolve("probabilistic"), one, np.array([2]))[0])
    array([0.5])
    """
    of_list, of_owned = np.full((2, len(counts)), np.nan)
    if not len(counts):
        return of_list, of_owned
    if chosen.method.owners_given_list == INDEPENDENT:
        longest = int(impressions.lengths.max(initial=1))
        _log_shares(impressions, counts, of_list, of_owned, settings((longest,), chosen.parameters, False))
    elif chosen.method.kernels.probability is not None:
        of_list = _one_by_one(chosen, impressions, counts)
    return of_list, of_owned


@kernel
def _log_shares(impressions: Impression, counts: Array, of_list: Array, of_owned: Array, settings: Settings) -> None:
    """Products of mean shares, and of the drawn rankers' shares; positions owned by nobody leave the latter unknown."""
    rankers = impressions.ranks.shape[1]
    teams = impressions.teams
    shares = np.zeros((rankers, impressions.ranks.shape[2]))
    for row in range(len(counts)):
        count = counts[row]
        write_shares(impression_at(impressions, row, count), count - 1, settings, shares)
        listed = owned = 0.0
        for position in range(count):
            total = 0.0
            for ranker in range(rankers):
                total += shares[ranker, position]
            listed += np.log(total / rankers)
            owner = teams[row, position]
            owned += np.log(shares[owner, position] / rankers) if 0 <= owner < rankers else np.nan
        of_list[row], of_owned[row] = listed, owned


def _one_by_one(chosen: Chosen, impressions: Impression, counts: Array) -> Array:
    """Each different impression once; -inf for a list that the method never shows."""
    parts = (impressions.ranks, impressions.lengths, impressions.union, impressions.choices, counts)
    flat = np.concatenate([np.asarray(part, np.int64).reshape(len(counts), -1) for part in parts], axis=1)
    _, rows, kind_of = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    found = np.array([_log_chance(chosen, impressions, int(row), int(counts[row])) for row in rows])
    return np.asarray(found[kind_of.reshape(-1)])


def _log_chance(chosen: Chosen, impressions: Impression, row: int, count: int) -> float:
    ranks, teams, lengths, union, choices = impressions
    one = Impression(
        np.ascontiguousarray(ranks[row, :, :count], np.int32),
        np.ascontiguousarray(teams[row, :count], np.int32),
        lengths[row],
        int(union[row]),
        np.ascontiguousarray(choices[row, :count], np.int32),
    )
    factors = call.probability(chosen, one)
    if factors is None:
        return np.nan
    with np.errstate(divide="ignore"):
        return float(np.log(factors).sum())
