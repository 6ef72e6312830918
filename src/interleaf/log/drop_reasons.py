"""Codes for why a row of a log is dropped and for what became of each event, and the texts of all codes of a log.

Counts have a code as their key, or `code:detail` if the text has a placeholder for a detail: `wrong_value:teams`.
"""

from __future__ import annotations

from interleaf.log import schema
from interleaf.stable_codes import Code

MAX_EVENTS = 1000  # per impression


class DropReason(Code):
    """Why a row, or a line of a file, is dropped. Kernels mark rows with the `mark` of the reason."""

    NO_ID = "no_id", "no impression id"
    NO_TIME = "no_time", f"no time, or a text that is not in ISO 8601, such as {schema.TIME_EXAMPLE}"
    FAR_TIME = "far_time", "a time before 1990 or after 2199"
    NO_DESIGN = "no_design", "no experiment, version, arm, method or rankers, or two rankers of one name"
    RANKER_COUNT = "ranker_count", "ranks, lengths or rankings of more or fewer rankers than the row names"
    LIST_LENGTH = "list_length", "ranks, teams, choices or documents of different length"
    WRONG_RANK = "wrong_rank", "a rank below 0, above a million, or null"
    DUPLICATE_RANK = "duplicate_rank", "two documents at one rank of a ranker"
    WRONG_SIZES = (
        "wrong_sizes",
        "a rank beyond the length of its ranking, or lengths and union that do not fit each other or the list",
    )
    WRONG_TEAM = "wrong_team", "a position owned by a ranker that the row does not name"
    WRONG_CHOICES = "wrong_choices", "choices that no rankings of this union can have"
    EVENT_NOT_SHOWN = "event_not_shown", "an event at a rank that was not shown"
    TOO_MANY_EVENTS = "too_many_events", f"more than {MAX_EVENTS:,} events"
    TOO_MANY_DOCUMENTS = "too_many_documents", f"more than {schema.MAX_SHOWN:,} documents shown"
    NO_RANKS = "no_ranks", "neither ranks nor rankings"
    NO_TEAMS = "no_teams", "no teams"
    NO_SIZES = "no_sizes", "no lengths or union, and no rankings"
    NO_CHOICES = "no_choices", "no choices, and no rankings"
    NO_UNSHOWN_RANKS = "no_unshown_ranks", "no ranks of unshown documents, and no rankings"
    NO_AVERAGE = "no_average", "owners that cannot be averaged: no draft gives this list, or it has too many drafts"
    UNRANKED_DOCUMENT = "unranked_document", "a document that no ranker has"
    REPEATED_IMPRESSION = "repeated_impression", "an impression id that an earlier row has"
    CREDIT_TOO_LARGE = "credit_too_large", "credit too large to add up"
    EXCLUDED = "excluded", "excluded: {}"
    WRONG_PAGE = "wrong_page", "a page that does not continue the page before"
    UNKNOWN_METHOD = "unknown_method", "a method that cannot be used: {}"
    NOT_INTERLEAVED = "not_interleaved", f"arm {schema.INTERLEAVED!r} with method {{}}, which compares nothing"
    ONE_RANKER = "one_ranker", "only one ranker, so there is nothing to compare"
    LINE_TOO_LONG = "line_too_long", "line is too long", "give one record per line"
    NOT_UNICODE = "not_unicode", "text is not Unicode", "escape or remove lone surrogates"
    NOT_JSON = "not_json", "line is not JSON", "give JSON lines, one record per line"
    CUT_OFF = "cut_off", "line is cut off", "fetch the end of the file again"
    NOT_AN_OBJECT = "not_an_object", "line is not an object", "give JSON lines, one record per line"
    NOT_CSV = "not_csv", "row is not CSV"
    CELL_COUNT = "cell_count", "row has more or fewer cells than the first row"
    NO_VALUE = "no_value", "no '{}'"
    WRONG_VALUE = "wrong_value", "wrong '{}'"
    NO_EVENT_VALUE = "no_event_value", "event without '{}'"
    WRONG_EVENT_VALUE = "wrong_event_value", "event with wrong '{}'"
    GAPS_IN_LIST = (
        "gaps_in_list",
        "results of a list with gaps in their positions",
        "log every shown document, with its position",
    )
    TWO_AT_POSITION = "two_at_position", "two documents at one position of a list"
    UNKNOWN_OWNER = "unknown_owner", "a document whose owner is not a ranker of the experiment"
    NOT_REPRODUCED = "not_reproduced", "rankings and key that do not give the shown list"


class EventFate(Code):
    """What became of an event, in a log or in the store. Kernels count events by the position of the fate here.

    The store accepts an event, or keeps it apart for one of the reasons that follow `ACCEPTED`, or one of those above.
    """

    COUNTED = "counted", "counted"
    REPEATED = "repeated", "repeated"
    EARLY = "early", "before its impression"
    LATE = "late", "past the window"
    SHORT_DWELL = "short_dwell", "dwell too short"
    OTHER_KIND = "other_kind", "of another kind"
    NOT_FIRST = "not_first", "after the first"
    NO_TIME = "no_event_time", "without a time in ISO 8601"
    NO_VALUE = "without_value", "without a value"
    GUARDED = "guarded", "of a kind that only a guardrail counts"
    UNMATCHED = "unmatched", "unmatched"
    UNPLACED = "unplaced", "without an impression in any experiment"
    FIXED_SLOT = "fixed_slot", "on a fixed document, such as an ad"
    NOT_ON_LIST = "event_not_on_list", "on a document that the list does not show"
    ACCEPTED = "accepted", "accepted"
    UNKNOWN_IMPRESSION = "unknown_impression", "unknown impression"
    RANK_NOT_SHOWN = "rank_not_shown", "rank not shown"
    DOCUMENT_NOT_SHOWN = "document_not_shown", "document not shown"
    FUTURE = "future", "from the future"
    NOT_SHOWN_TO_UNIT = "not_shown_to_unit", "no impression that takes events by unit showed it"
    FOLDED = "folded", "arrived after folding"


_TEXTS = {str(code): code.text for codes in (DropReason, EventFate, schema.Assumption) for code in codes}


def text_of(key: str) -> str:
    """The text of a count's key; a key with an unknown code is returned unchanged."""
    code, _, detail = key.partition(":")
    return _TEXTS[code].format(detail) if code in _TEXTS else key
