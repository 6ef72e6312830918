"""Why a search was not interleaved, and what went wrong: stable codes, counted in metrics and on the health page."""

from __future__ import annotations

from interleaf.stable_codes import Code


class BypassCode(Code):
    """Why a search that the configuration selects got the engine's own answer: the caller asked for something that
    cannot be interleaved.
    """

    SORT = "sort", "the caller sorts by something other than the score"
    SCROLL = "scroll", "the caller opens or reads a scroll, or a cursor of Solr"
    SEARCH_AFTER = "search_after", "the caller continues after a hit"
    PIT = "pit", "the caller searches a point in time"
    COLLAPSE = "collapse", "hits are collapsed or grouped"
    EXPLAIN = "explain", "the caller asks for explanations, a profile or debug output of the engine's scores"
    SLICE = "slice", "the caller reads one slice of the results"
    NO_HITS = "no_hits", "the caller asks for no hits, only for counts or facets"
    NO_RESULTS = "no_results", "the control found no document"
    PAGE_TOO_LARGE = "page_too_large", "the caller asks for more hits than an interleaved page can have"
    PAGE_TOO_FAR = "page_too_far", "the page is beyond `max_rank`"
    WHOLE_LISTS = "whole_lists", "a further page, but the method of the experiment draws its lists as a whole"
    FILTER_PATH = "filter_path", "the caller asks for parts of the answer only"
    NOT_JSON = "not_json", "the request or the wanted answer is not JSON, or is malformed"
    NOT_UNDERSTOOD = "not_understood", "a field of the request has a value that the proxy does not understand"
    UNKNOWN_DEFAULTS = "unknown_defaults", "Solr does not say which parameters its request handler adds"
    BODY_TOO_LARGE = "body_too_large", "the body of the request is larger than `max_body`"
    CONDITION = "condition", "a condition of the configuration does not hold"
    NO_UNIT = "no_unit", "the request has no user id"
    OUTSIDE = "outside", "this user does not take part in the experiment"
    NOT_RUNNING = "not_running", "the experiment is not running, or its settings are not known yet"
    REFUSED = (
        "refused",
        "the engine refuses the control's search, such as with status 400: usually the caller's search is wrong",
    )


class FailureCode(Code):
    """What went wrong with a search, an impression or an event; people get an answer of the engine."""

    CONTROL_FAILED = "control_failed", "the engine could not answer the control's search"
    RANKER_FAILED = "ranker_failed", "the engine answered another ranker's search with an error, or not at all"
    RANKER_SLOW = "ranker_slow", "a ranker's answer came after the time budget"
    ANSWER_NOT_UNDERSTOOD = (
        "answer_not_understood",
        "an answer of the engine is not JSON, or not the answer to a search",
    )
    ANSWER_TOO_LARGE = "answer_too_large", "an answer of the engine to a ranker's search is larger than `max_answer`"
    REPEATED_DOCUMENT = "repeated_document", "a ranking has a document twice, such as one id in two indexes"
    CONFIGURATION = "configuration", "the settings of the service and the proxy do not fit, such as unknown rankers"
    NOT_RECORDED = "not_recorded", "an impression or an event could not be recorded, because too many records wait"
    EVENTS_NOT_READ = (
        "events_not_read",
        "a request that may have events of UBI is larger than `max_body`, or the engine does not say what it stored: "
        "none of its events is counted",
    )
    INTERNAL = "internal", "an unexpected error of the proxy; its log has the details"


class UpstreamCode(Code):
    """Why the proxy answers a request with an error of its own."""

    REFUSED = "upstream_refused", "no connection to the engine"
    SILENT = "upstream_silent", "the engine did not answer in time"
    BROKEN = "upstream_broken", "the engine closed the connection, or its answer is not HTTP"
    BUSY = "upstream_busy", "all connections to the engine are in use"


class BypassError(Exception):
    """This search gets the engine's own answer."""

    def __init__(self, code: BypassCode | FailureCode, detail: str = "") -> None:
        super().__init__(f"{code.text}{': ' if detail else ''}{detail}")
        self.code, self.detail = code, detail


class EngineStatusError(BypassError):
    """The engine answered a ranker's search with an error; the detail is the status and the engine's reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(FailureCode.RANKER_FAILED, f"status {status}{', ' if reason else ''}{reason}")
        self.status = status


class UpstreamError(Exception):
    """The engine did not answer."""

    def __init__(self, code: UpstreamCode, detail: str = "") -> None:
        super().__init__(f"{code.text}{': ' if detail else ''}{detail}")
        self.code = code
