"""Whether caption bias explains a preference: the patterns of H12c's experiments E4 and E6, in words.

A verdict needs the change itself to be more than chance: p-values on two sides of a threshold are none. What remains of
a preference may be small and yet significant in a large log, because no weight is exact: on simulated worlds where
captions are all there is, about a fifth of the preference or less remained. So a quarter or less counts as explained.

Without judgments, captions of better documents get weights that their relevance earned. But they are a weak sign of
relevance, and take only a part of a true preference away: up to four tenths in simulated worlds where nobody heeds
captions. So without judgments a cause is named only if half of the preference or more goes, and not for small changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from interleaf.refine.caption.model import PROBABILITY
from interleaf.refine.caption.scores import Rescored, centred
from interleaf.stats.sums import significance

NONE, STANDS, PARTLY, EXPLAINED, REVERSED, HIDDEN, UNKNOWN = VERDICTS = (
    "no preference", "stands", "partly explained", "explained", "reversed", "hidden", "cannot be told",
)  # fmt: skip
CAUSES = (PARTLY, EXPLAINED, REVERSED, HIDDEN)
SMALL, LARGE = 0.25, 0.75  # shares of a preference that remain
MIN_UNJUDGED_CHANGE, MAX_UNJUDGED_SHARE = 0.05, 0.5  # of a score from -1 to 1; the share of it that remains


@dataclass(frozen=True)
class Verdict:
    """What captions have to do with the preference between two rankers."""

    kind: str
    sentence: str

    @property
    def is_clean(self) -> bool:
        """Whether captions are no reason to doubt the comparison."""
        return self.kind in (NONE, STANDS)


def verdict(found: Rescored, weights: str = PROBABILITY, confidence: float = 0.95, is_judged: bool = True) -> Verdict:
    """The verdict on a pair, by weights of this kind; `is_judged`: they come from results that were judged."""
    before, after, change = found.plain, found.weighted[weights], found.change[weights]
    if before.value is None or before.p_value is None or after.value is None or after.p_value is None:
        return Verdict(UNKNOWN, f"Whether captions matter cannot be told: {before.reason or after.reason}.")
    level = significance(confidence)
    was, remains = before.p_value <= level, after.p_value <= level
    moved = change.p_value is not None and change.p_value <= level
    kind, words = _kind(before.value, after.value, was, remains, moved), _words(found, before.value, after.value)
    if kind in CAUSES and not is_judged and _may_be_relevance(kind, before.value, after.value):
        return Verdict(UNKNOWN, _NEEDS_JUDGMENTS.format(**words))
    sentence = _SENTENCES[kind].format(**words)
    if kind == EXPLAINED:
        sentence += _REMAINS if remains else _NOTHING_REMAINS.format(**words)
    return Verdict(kind, sentence)


def _may_be_relevance(kind: str, before: float, after: float) -> bool:
    """Whether a change is one that relevance makes where nobody heeds captions."""
    return abs(after - before) < MIN_UNJUDGED_CHANGE or (kind == PARTLY and after / before > MAX_UNJUDGED_SHARE)


def _kind(before: float, after: float, was: bool, remains: bool, moved: bool) -> str:
    if not was:
        return HIDDEN if remains and moved else NONE
    share = after / before
    if moved and share >= 2:
        return HIDDEN
    if not moved or share > LARGE:
        return STANDS
    if share < -SMALL and remains:
        return REVERSED
    return EXPLAINED if share <= SMALL or (share <= 0.5 and not remains) else PARTLY


def _words(found: Rescored, was: float, now: float) -> dict[str, str]:
    return {
        "first": found.first,
        "second": found.second,
        "winner": found.first if was > 0 else found.second,
        "loser": found.second if was > 0 else found.first,
        "later": found.first if now > 0 else found.second,
        "before": f"{centred(was):.4f}",
        "after": f"{centred(now):.4f}",
        "share": f"{1 - now / was:.0%}" if was else "nothing",
    }


_SENTENCES = {
    NONE: "No preference between {first} and {second} is shown: the score is {before}, and {after} with clicks "
    "weighted by their captions.",
    STANDS: "Captions do not explain the preference for {winner} over {loser}: the score is {before}, and {after} with "
    "clicks weighted by their captions.",
    PARTLY: "Captions explain {share} of the preference for {winner} over {loser}: the score is {before}, and {after} "
    "with clicks weighted by their captions.",
    EXPLAINED: "Captions explain the preference for {winner} over {loser}: the score is {before}, but {after} with "
    "clicks weighted by their captions.",
    REVERSED: "Captions turned the comparison around: the score is {before}, for {winner}, but {after}, for {later}, "
    "with clicks weighted by their captions.",
    HIDDEN: "Captions hid a preference for {later}, or most of it: the score is {before}, but {after} with clicks "
    "weighted by their captions.",
}
_NEEDS_JUDGMENTS = (
    "Whether captions matter to {first} and {second} cannot be told without judgments: the score is {before}, and "
    "{after} with clicks weighted by their captions, but better documents that also look better would do the same. Log "
    "grades to tell."
)
_NOTHING_REMAINS = " That {winner} is better is not shown."
_REMAINS = " What remains is more than chance, but not more than weights may leave over."
