"""What becomes of an event: the code that is stored and sent as JSON, and the text that people read."""

from __future__ import annotations

from enum import StrEnum

MAX_EARLY = 60 * 1_000_000  # clocks differ: an event may seem to come so long before its impression, in microseconds
MAX_AHEAD = 300 * 1_000_000  # and so long after it was received


class EventFate(StrEnum):
    """A member is its code; all but the first two say why an event is stored without counting.

    >>> EventFate("late").text
    'after the window'
    """

    ACCEPTED = "accepted"
    REPEATED = "repeated"
    UNKNOWN_IMPRESSION = "unknown_impression"
    RANK_NOT_SHOWN = "rank_not_shown"
    DOCUMENT_NOT_SHOWN = "document_not_shown"
    FIXED_SLOT = "fixed_slot"
    LATE = "late"
    EARLY = "early"
    FUTURE = "future"
    NOT_SHOWN_TO_UNIT = "not_shown_to_unit"
    FOLDED = "folded"

    @property
    def text(self) -> str:
        """The words that people read."""
        return _TEXTS.get(self) or self.replace("_", " ")


_TEXTS = {
    EventFate.FIXED_SLOT: "a fixed slot",
    EventFate.LATE: "after the window",
    EventFate.EARLY: "before its impression",
    EventFate.FUTURE: "from the future",
    EventFate.NOT_SHOWN_TO_UNIT: "no impression that takes events by unit showed it",
    EventFate.FOLDED: "arrived after folding",
}
