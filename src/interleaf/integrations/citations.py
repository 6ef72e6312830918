"""Finds the citations in an answer, such as [1] or [doc:guide-7], and logs them as events of kind `citation`.

Answers are hostile until checked: a passage may tell the model what to write. The time to read an answer grows with its
length only, and a citation of something that was not shown is counted, not logged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from interleaf.client import AsyncClient, Client
from interleaf.errors import DataError, InterleafError
from interleaf.integrations.passage_log import Log, logger
from interleaf.integrations.passage_mixer import ShownPassage, place_of
from interleaf.log import LogWriter

CITATION = "citation"  # the kind of the events
MAX_ANSWER = 200_000  # characters; the rest of an answer is not read
MAX_RANGE = 20  # passages that [1-20] cites; a wider range is unknown
_PREFIX = "doc:"
_UNKNOWN = "0"  # no passage has this number
_BRACKETS = re.compile(r"[\[【]([^\[\]【】]{1,1000})[\]】]")
_NUMBER = re.compile(r"\^?([0-9]{1,9})(?:†.*)?", re.DOTALL)  # some models write 【2†source】, or the footnote [^2]
_RANGE = re.compile(r"([0-9]{1,9}) ?[-–] ?([0-9]{1,9})")


@dataclass(frozen=True)
class Citations:
    """The passages that an answer cites, as numbers from 1, each once, in the order of the answer.

    `unknown`: citations of numbers or ids that were not shown, such as those that a model made up. `logged`: how many
    events were logged; None if that failed, or if nothing was to be logged.
    """

    numbers: tuple[int, ...]
    unknown: int
    logged: int | None = None


def find_citations(answer: str, ids: Sequence[str], pattern: re.Pattern[str] | None = None) -> Citations:
    """The citations in an answer to which the passages with these ids were given, numbered from 1.

    Without a pattern, citations are [1], [2][3], [1, 3], [1; 3], [1-3], [^1], 【2】 and [doc:ID]. The first group of a
    pattern is what it cites: a number, or an id.

    >>> find_citations("Yes [2], as [doc:a] and 【1, 7】 say.", ["a", "b", "c"])
    Citations(numbers=(2, 1), unknown=1, logged=None)
    >>> find_citations("Yes (see 3).", ["a", "b", "c"], re.compile(r"\\(see (\\d{1,4})\\)")).numbers
    (3,)
    """
    if pattern is not None and pattern.groups < 1:
        raise DataError(f"the pattern {pattern.pattern!r} has no group; put what it cites in round brackets")
    places = {name: number for number, name in reversed(list(enumerate(ids, 1)))}
    numbers: dict[int, None] = {}
    unknown = 0
    text = str(answer)[:MAX_ANSWER]
    by_pattern = None if pattern is None else (match[1] or "" for match in pattern.finditer(text))
    for one in by_pattern or _find_cited(text, places, len(ids)):
        number = _number_of(one.strip(), places, len(ids))
        if number is None:
            unknown += 1
        else:
            numbers[number] = None
    return Citations(tuple(numbers), unknown)


def _find_cited(text: str, places: dict[str, int], count: int) -> Iterator[str]:
    """What brackets cite; brackets with anything else are not citations."""
    for match in _BRACKETS.finditer(text):
        inside = match[1].strip()
        whole = inside.removeprefix(_PREFIX).strip()
        if inside.startswith(_PREFIX) and whole in places:  # an id may hold a comma
            yield inside
            continue
        parts = [part.strip() for part in re.split("[,;]", inside)]
        if all(part.startswith(_PREFIX) or _NUMBER.fullmatch(part) or _RANGE.fullmatch(part) for part in parts):
            for part in parts:
                yield from _expand_range(part, count)


def _expand_range(part: str, count: int) -> Iterable[str]:
    """The numbers of a range such as 1-3; a range that is too wide or was not shown, such as [0-9], is one unknown."""
    if not (match := _RANGE.fullmatch(part)):
        return [part]
    first, last = int(match[1]), int(match[2])
    is_sound = 1 <= first <= last <= count and last - first < MAX_RANGE
    return map(str, range(first, last + 1)) if is_sound else [_UNKNOWN]


def _number_of(cited: str, places: dict[str, int], count: int) -> int | None:
    """The number of the passage that is cited; None if it was not shown."""
    if cited.startswith(_PREFIX):
        return places.get(cited.removeprefix(_PREFIX).strip())
    if match := _NUMBER.fullmatch(cited):
        number = int(match[1])
        return number if 1 <= number <= count else None
    return places.get(cited)


def log_citations(
    log: LogWriter | Client, answer: str, documents: Iterable[Any], pattern: re.Pattern[str] | None = None
) -> Citations:
    """Log the citations of an answer; `documents` are those that the model got, in the order of its numbers.

    Documents may be left out or sorted after retrieval: their metadata says where they were shown. Each passage counts
    once, also if an answer is logged twice. If the log cannot be written, the answer is still fine: `logged` is None.
    """
    citations, events = _read(answer, documents, pattern)
    if isinstance(log, AsyncClient):
        raise DataError("an AsyncClient works in event loops only; use log_citations_async")
    try:
        if isinstance(log, Client):
            log.events(events)
        else:
            for event in events:
                log.event(**event)
    except (InterleafError, OSError):
        return _fail(citations)
    return Citations(citations.numbers, citations.unknown, len(events))


async def log_citations_async(
    log: Log, answer: str, documents: Iterable[Any], pattern: re.Pattern[str] | None = None
) -> Citations:
    """`log_citations` for event loops."""
    if not isinstance(log, AsyncClient):
        return await asyncio.to_thread(log_citations, log, answer, list(documents), pattern)
    citations, events = _read(answer, documents, pattern)
    try:
        await log.events(events)
    except (InterleafError, OSError):
        return _fail(citations)
    return Citations(citations.numbers, citations.unknown, len(events))


def _fail(found: Citations) -> Citations:
    logger.warning("citations could not be logged", exc_info=True)
    return found


def _read(
    answer: str, documents: Iterable[Any], pattern: re.Pattern[str] | None
) -> tuple[Citations, list[dict[str, Any]]]:
    """The citations of an answer, and their events; documents that were not logged have none."""
    places = [place_of(document) or ShownPassage(None, number, "") for number, document in enumerate(documents, 1)]
    citations = find_citations(answer, [place.document for place in places], pattern)
    cited = [places[number - 1] for number in citations.numbers]
    return citations, [
        {
            "impression": place.impression,
            "kind": CITATION,
            "rank": place.rank,
            "event": f"{place.impression}-{place.rank}",
        }
        for place in cited
        if place.impression is not None
    ]
