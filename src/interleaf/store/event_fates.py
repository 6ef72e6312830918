"""The outcomes of events: the code that is stored and sent as JSON, and the text for people."""

from __future__ import annotations

from interleaf.log.drop_reasons import Code

MAX_EARLY = 60 * 1_000_000  # microseconds that an event may seem to precede its impression: clocks differ
MAX_AHEAD = 300 * 1_000_000  # microseconds that it may seem to follow its arrival


class EventFate(Code):
    """Each member equals its code. All but the first two are reasons why an event is stored but not counted.

    >>> EventFate("late").text
    'after the window'
    """

    ACCEPTED = "accepted", "accepted"
    REPEATED = "repeated", "repeated"
    UNKNOWN_IMPRESSION = "unknown_impression", "unknown impression"
    RANK_NOT_SHOWN = "rank_not_shown", "rank not shown"
    DOCUMENT_NOT_SHOWN = "document_not_shown", "document not shown"
    FIXED_SLOT = "fixed_slot", "a fixed slot"
    LATE = "late", "after the window"
    EARLY = "early", "before its impression"
    FUTURE = "future", "from the future"
    NOT_SHOWN_TO_UNIT = "not_shown_to_unit", "no impression that takes events by unit showed it"
    FOLDED = "folded", "arrived after folding"
