"""One ranker's list, drawn by a fair coin: each person sees the list of one ranker, and both rankings are logged.

Nothing is compared inside an impression: people who saw the list of one ranker are compared with people who saw that of
another, as in an A/B test. The key of the coin is the user, so that a person always sees the same ranker's list.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from interleaf.kernels.arrays import Array, EncodedRankings, Impression, Lengths, Parameters
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.kernels.randomness import Randomness, pick


class OneListSettings(NamedTuple):
    one: Any


def settings(lengths: Lengths, parameters: Parameters, exact: bool) -> OneListSettings:
    return OneListSettings(Fraction(1) if exact else 1.0)


@kernel
def compose(
    encoded: EncodedRankings, k: int, randomness: Randomness, shown: Array, teams: Array, settings: OneListSettings
) -> int:
    ranker = pick(randomness, len(encoded.depths))
    count = min(k, encoded.depths[ranker])
    for position in range(count):
        shown[position] = encoded.rankings[ranker, position]
        teams[position] = ranker
    return count


@kernel
def place(impression: Impression, chances: Array, settings: OneListSettings) -> bool:
    """Each ranker's list is equally likely; False if it is not known where the other lists would have ended."""
    rankers, count = impression.ranks.shape
    if not _is_known(impression.lengths, count):
        return False
    for ranker in range(rankers):
        for document in range(count + impression.unshown_ranks.shape[1]):
            if document < count:
                rank = impression.ranks[ranker, document]
            else:
                rank = impression.unshown_ranks[ranker, document - count]
            if 0 < rank <= count:
                chances[document, rank - 1] += settings.one / rankers
    return True


@inline_kernel
def _is_known(lengths: Array, count: int) -> bool:
    """Whether the lists of all rankers have the same length, which must not depend on whose list was shown.

    A list that is as long as a ranking may have ended with it, or at the page; then a longer ranking may go on.
    """
    shortest, longest = lengths[0], lengths[0]
    for ranker in range(len(lengths)):
        shortest, longest = min(shortest, lengths[ranker]), max(longest, lengths[ranker])
    return count < shortest or shortest == longest
