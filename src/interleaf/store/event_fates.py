"""The outcomes of events: the code that is stored and sent as JSON, and the text for people."""

from __future__ import annotations

from enum import StrEnum

MAX_EARLY = 60 * 1_000_000  # microseconds that an event may seem to precede its impression: clocks differ
MAX_AHEAD = 300 * 1_000_000  # microseconds that it may seem to follow its arrival


class EventFate(StrEnum):
    """Each member equals its code. All but the first two are reasons why an event is stored but not counted.

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
        """The text for people."""
        return _TEXTS.get(self) or self.replace("_", " ")


_TEXTS = {
    EventFate.FIXED_SLOT: "a fixed slot",
    EventFate.LATE: "after the window",
    EventFate.EARLY: "before its impression",
    EventFate.FUTURE: "from the future",
    EventFate.NOT_SHOWN_TO_UNIT: "no impression that takes events by unit showed it",
    EventFate.FOLDED: "arrived after folding",
}
