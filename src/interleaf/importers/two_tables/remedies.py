"""What to do about rows and events of two tables that cannot be used, by the code of the reason."""

from __future__ import annotations

from interleaf.log.drop_reasons import DropReason, EventFate, text_of
from interleaf.log.event_join import ReadCounts

_TIMES = "write timestamps, ISO 8601, or numbers since 1970"
_OWNERS = "write a JSON list with an owner for each document; an owner is a name or a number"
REMEDIES = {
    DropReason.NO_ID: "log an id with each impression",
    DropReason.NO_TIME: _TIMES,
    DropReason.WRONG_VALUE.of("time"): _TIMES,
    DropReason.WRONG_EVENT_VALUE.of("time"): _TIMES,
    DropReason.NO_EVENT_VALUE.of("impression"): "log the id of the impression with each event",
    DropReason.NO_EVENT_VALUE.of("document"): "log the document or its position with each event",
    DropReason.NO_EVENT_VALUE.of("time"): _TIMES,
    DropReason.NO_VALUE.of("documents"): "log the shown list, which may be empty, with each impression",
    DropReason.WRONG_VALUE.of(
        "documents"
    ): 'write a JSON list of ids, such as ["d4", "d1"], or one row for each result',
    DropReason.WRONG_VALUE.of("owner"): _OWNERS,
    DropReason.WRONG_VALUE.of(
        "rankings"
    ): 'write a JSON object from each ranker to its ids, such as {"production": ["d4"]}',
    DropReason.LIST_LENGTH: "give as many owners as documents",
    DropReason.NO_DESIGN: "log the owner of each document, or name the rankers by --rankers production candidate",
    DropReason.UNKNOWN_OWNER: (
        "correct the owner or --rankers; numbers of rankers start at 0; the owner of a result of no ranker is empty"
    ),
    DropReason.GAPS_IN_LIST: "log every shown result once, with its position; positions count from 0 or 1",
    DropReason.TWO_AT_POSITION: "log one document for each position of a list",
    DropReason.REPEATED_IMPRESSION: "export each row once; copies do not count",
    DropReason.NOT_REPRODUCED: "log the rankings and the key of the same request",
    EventFate.UNMATCHED: "export both tables of the same days; log the id of the impression with each event",
    EventFate.NOT_ON_LIST: "fine for ads and other fixed results; else log the same ids in both tables",
    EventFate.EARLY: "correct the clocks; check that both tables use UTC",
    EventFate.REPEATED: (
        "export each event once; if equal rows are separate events, name the column of their ids by --map "
        "events.event=COLUMN"
    ),
}


def explain_drops(counts: ReadCounts) -> list[str]:
    """A line for each reason for which rows were dropped: its code, text and count, an example and the remedy."""
    lines = []
    for reason, number in (+counts.dropped).most_common():
        example = f", such as {counts.examples[reason]}" if reason in counts.examples else ""
        remedy = REMEDIES.get(reason) or DropReason(reason.partition(":")[0]).remedy
        lines.append(f"{reason} ({text_of(reason)}): {number:,}{example}" + (f"; {remedy}" if remedy else ""))
    return lines
