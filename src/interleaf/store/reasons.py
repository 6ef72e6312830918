"""Why an event is kept apart and counts for nobody, in the words that people read."""

UNKNOWN = "unknown impression"
NO_RANK = "rank not shown"
NO_DOCUMENT = "document not shown"
FIXED = "a fixed slot"
LATE = "after the window"
EARLY = "before its impression"
FUTURE = "from the future"
NOT_SHOWN = "no impression that takes events by unit showed it"
FOLDED = "arrived after folding"

MOST_EARLY = 60 * 1_000_000  # clocks differ: an event may seem to come so long before its impression, in microseconds
MOST_AHEAD = 300 * 1_000_000  # and so long after it was received
