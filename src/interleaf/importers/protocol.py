"""What an importer is: a function that turns files of another system into a native log, and a row of `IMPORTERS`.

Every record that an importer converts or leaves out is counted, with an example and a remedy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from interleaf.errors import DataError, join_names
from interleaf.methods.registry import FOREIGN
from interleaf.stable_codes import Code, Note
from interleaf.tables import percent

if TYPE_CHECKING:
    from interleaf.log.files import Paths

# By format: its function, as a path so that only that module is loaded; and what it reads.
IMPORTERS = {
    "ubi": ("interleaf.importers.ubi:import_ubi", "User Behavior Insights 1.3, queries and events"),
    "solr": ("interleaf.importers.solr_opensearch:import_solr", "responses with [interleaving], and clicks"),
    "opensearch": (
        "interleaf.importers.solr_opensearch:import_opensearch",
        "responses with _search_configuration_id, and UBI events",
    ),
    "tables": (
        "interleaf.importers.two_tables.convert:import_pair",
        "a table of impressions and a table of events, as two arguments: files, or addresses with ?query=",
    ),
    "yandex": ("interleaf.importers.yandex:import_yandex", "text format of the Yandex challenge and of PyClick"),
}
UNITS = ("user", "client", "session")
ENGINE = "engine"  # the only ranker of a log without comparison
UNDATED = datetime(2000, 1, 1, tzinfo=UTC)  # start of times in formats without dates; not 1970, which an analysis drops
LOW_JOIN_RATE = 0.5  # below this share, warn


class ImportNote(Code):
    """What an importer converts, guesses or leaves out: its code, its text, and the remedy."""

    QUERY_WITHOUT_ID = "query_without_id", "query without a query_id", "log the id that the engine returns"
    QUERY_WITHOUT_TIME = "query_without_time", "query without a valid time", "write ISO 8601 or epoch milliseconds"
    NOTHING_SHOWN = "nothing_shown", "query without hits", "log query_response_hit_ids, or impression events"
    HIT_WITHOUT_ID = "hit_without_id", "query with a hit that is not an id", "give hits as texts"
    QUERY_REPEATED = "query_repeated", "query that came again", "it counts once"
    QUERY_COMPLETED = "query_completed", "query that came again with more fields", "it counts once, with all fields"
    QUERY_WITH_OTHER_HITS = "query_with_other_hits", "query that came again with other hits", "the first one counts"
    OTHER_SYSTEM = "other_system", "query of another system", "left out; import it from a separate file"
    NO_OWNERS = "no_owners", "answer without owners", "it was not interleaved, so it is left out"
    NO_DOCUMENTS = "no_documents", "answer without a list of documents", "give the engine's whole answer as `response`"
    DOCUMENT_WITHOUT_ID = "document_without_id", "answer with a document without id", "name the key with --id-field"
    UNREADABLE_COLUMNS = "unreadable_columns", "query with invalid columns", "keep query_attributes as exported"
    DOCUMENT_TWICE = "document_twice", "list that shows a document twice", "events count for its first position"
    LIST_REBUILT = (
        "list_rebuilt",
        "list made from impression events",
        "nothing to do, but logged hits are more reliable",
    )
    EVENT_WITHOUT_QUERY = "event_without_query", "event without a query_id", "log the query's id with each event"
    EVENT_WITHOUT_TIME = "event_without_time", "event without a valid time", "write ISO 8601 or epoch milliseconds"
    QUERY_NOT_FOUND = "query_not_found", "event of an unknown query", "export queries and events of the same days"
    QUERY_LEFT_OUT = "query_left_out", "event of a query that is left out", "see the queries"
    EARLIER_PAGE = "earlier_page", "click on an earlier page of its session", "it counts on that page"
    EVENT_NOT_ON_LIST = (
        "event_not_on_list",
        "event on nothing shown",
        "fine for ads; else log ids of hits as object_id",
    )
    EVENT_WITHOUT_DOCUMENT = "event_without_document", "event about no document", "fine for searches and filters"
    UNREADABLE_ORDINAL = "unreadable_ordinal", "event with an unclear ordinal", "give --ordinals 0 or 1"
    PLACED_BY_ORDINAL = "placed_by_ordinal", "event placed by its ordinal", "log object_id: an ordinal may include ads"
    PLACED_BY_INTERNAL_ID = "placed_by_internal_id", "event placed by internal_id", "log queries with object_id_field"
    EVENT_REPEATED = "event_repeated", "event that came again", "it counts once, with the largest dwell of its copies"
    DWELL_TIME = "dwell_time", "event with a dwell_time", "taken as seconds on the document; else leave --dwell out"
    IMPRESSION_EVENT = "impression_event", "impression event", "it says what was shown, not what the user did"
    UNKNOWN_RECORD = "unknown_record", "record that is neither query nor event", "give user_query or action_name"
    NO_TIME_ZONE = "no_time_zone", "time without a zone", "taken as UTC; write the zone"
    NUMERIC_TIME = "numeric_time", "time as a number", "taken as epoch milliseconds, below 10^11 as seconds"
    NUMERIC_ID = "numeric_id", "id as a number", "taken as its digits; the schema asks for text"
    ORDINAL_NOT_WHOLE = "ordinal_not_whole", "ordinal that is not an integer", "taken as the number that it says"
    ATTRIBUTE_NOT_TEXT = "attribute_not_text", "attribute that is not text", "left out; the plugin keeps texts only"
    OTHER_UNIT = "other_unit", "unit of another kind", "the chosen unit was not known, so the next one was used"
    UNKNOWN_UNIT = "unknown_unit", "unit that is not known", "the impression is its own unit; log client_id"
    OWNER_MISSING = (
        "owner_missing",
        "list with a document of no known owner",
        "log search_config; fairness is not checked",
    )
    ONE_CONFIGURATION = "one_configuration", "list of one configuration", "each is an arm, as in an A/B test"
    UNKNOWN_CONFIGURATION = "unknown_configuration", "list of an unknown configuration", "left out; log search_config"
    TWO_OWNERS = "two_owners", "hit with two owners", "the first one counts"
    JOIN_RATE = "join_rate", "{} of events with an object_id have it among their query's hits{}"
    ORDINALS = "ordinals", "ordinals{} {}"
    UNIT = "unit", "the unit is the {}"
    WITHOUT_RANKS = (
        "without_ranks",
        "lists with teams and without ranks: the schemes binary, click and normalized of team draft work on them",
    )
    MAY_BE_UNMIXED = (
        "may_be_unmixed",
        "no list is known to have documents of two configurations: if this was an A/B test, do not compare clicks "
        "inside lists; log search_config with impression events to make sure",
    )
    READ_AS = "read_as", "{}"


@dataclass
class ImportResult:
    """The result of an import; `notes` describes it in sentences, the join rate of object ids first."""

    impressions: int = 0
    events: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    join_rate: float | None = None
    ordinals: dict[str, int | None] = field(default_factory=dict)
    unit: str | None = None
    rankers: list[str] = field(default_factory=list)
    without_ranks: bool = False
    may_be_unmixed: bool = False
    remarks: list[str] = field(default_factory=list)

    def drop(self, reason: str, where: str, count: int = 1) -> None:
        """Count a dropped record by an `ImportNote`, or a text of your own, and keep the first example."""
        self.counts[reason] += count
        self.examples.setdefault(reason, where)

    def notes(self) -> list[Note]:
        """What was found, how often, and the remedy."""
        notes = [_join_note(self.join_rate)] if self.join_rate is not None else []
        for application, start in self.ordinals.items():
            of = f" of {application}" if application else ""
            guess = "cannot be determined: give --ordinals 0 or 1" if start is None else f"start at {start}"
            notes.append(ImportNote.ORDINALS.note(of, guess))
        if self.unit is not None:
            notes.append(ImportNote.UNIT.note(self.unit))
        if self.without_ranks:
            notes.append(ImportNote.WITHOUT_RANKS.note())
        if self.may_be_unmixed:
            notes.append(ImportNote.MAY_BE_UNMIXED.note())
        return [*notes, *map(_remark, self.remarks), *self.count_notes()]

    def count_notes(self) -> list[Note]:
        """Every reason that occurred: how often, the first example, and the remedy."""
        from interleaf.log.drop_reasons import text_of  # here, because the command line imports this module

        notes = []
        for reason, count in (+self.counts).most_common():
            example = f" (first: {self.examples[reason]})" if reason in self.examples else ""
            text, remedy = (reason.text, reason.remedy) if isinstance(reason, Code) else (text_of(reason), "")
            sentence = f"{count:,} × {text}{example}" + (f": {remedy}" if remedy else "")
            notes.append(Note(reason.partition(":")[0], sentence))
        return notes

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        names = ("impressions", "events", "join_rate", "ordinals", "unit", "rankers")
        values = {name: getattr(self, name) for name in names}
        return values | {"counts": dict(self.counts), "notes": [note.to_dict() for note in self.notes()]}

    def __str__(self) -> str:
        return "\n  ".join(
            [f"{self.impressions:,} impressions, {self.events:,} events", *(note.text for note in self.notes())]
        )


def _remark(key: str) -> Note:
    """The note of a code of `Assumption`, or of a sentence without a code of its own."""
    from interleaf.log.drop_reasons import text_of

    text = text_of(key)
    return ImportNote.READ_AS.note(text) if text == key else Note(key.partition(":")[0], text)


def _join_note(rate: float) -> Note:
    low = (
        ": LOW. Without object_id_field, the plugin logs Lucene's document numbers as hits; set it to the field whose "
        "values events carry as object_id"
    )
    return ImportNote.JOIN_RATE.note(percent(rate, 1), "" if rate >= LOW_JOIN_RATE else low)


@dataclass(frozen=True)
class ImportOptions:
    """Options for what files do not contain; an importer uses those that concern its format."""

    experiment: str = "imported"
    method: str = field(default=FOREIGN)  # method of lists whose hits have owners
    single: str = field(default="single")  # method of lists that one ranker made
    ordinals: int | None = None  # the number of the first position; None: guess from the log
    unit: str | None = None  # kind of id that identifies a unit; None: the first that nearly all queries have
    id_field: str = "id"  # the unique key of documents
    time_unit: float = 1e-3  # seconds
    only_interleaved: bool = False  # leave out lists without owners
    map: Mapping[str, str] = field(default_factory=dict)  # columns of tables, by the field that they are
    rankers: Sequence[str] = ()  # names of the rankers, in the order of their numbers

    def __post_init__(self) -> None:
        if self.ordinals not in (None, 0, 1):
            raise DataError(f"ordinals start at {self.ordinals!r}; give 0 or 1, or nothing, to guess from the log")
        if self.unit not in (None, *UNITS):
            raise DataError(f"the unit is {self.unit!r}; give {join_names(UNITS)}")


class Importer(Protocol):
    """Converts files to a log at `out`, in the format of its file extension, and counts the outcome of each record."""

    def __call__(self, source: Paths, out: str | Path, options: ImportOptions = ...) -> ImportResult: ...
