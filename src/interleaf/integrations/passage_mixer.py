"""Mixes the passages of several retrievers into one list. Nothing that goes wrong here breaks retrieval.

Documents of LangChain, LlamaIndex and Haystack are read here: their id, their text, and what this package adds to them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple, TypedDict

from interleaf.client.visitors import Visitors, clean_text
from interleaf.errors import DataError, InterleafError, collect_errors, raise_errors
from interleaf.experiment import limits
from interleaf.experiment.limits import MAX_DOCUMENT
from interleaf.integrations.passage_log import (
    Found,
    Log,
    MixedList,
    Question,
    check_passage_log,
    logger,
    open_passage_log,
)
from interleaf.integrations.timed_calls import Answers, Call, FallbackCode, TimedCalls
from interleaf.interleaving.rankings import text_id

# What is added to the metadata of a document: the impression, the rank in the list, and the id of the document.
IMPRESSION, RANK, DOCUMENT = ADDED = ("interleaf_impression", "interleaf_rank", "interleaf_document")


class ShownPassage(NamedTuple):
    """Where a document was shown: its impression (None: not logged), rank and id."""

    impression: str | None
    rank: int
    document: str


def text_of(document: Any) -> str | None:
    """The text of a document; None if it has none, such as a picture."""
    holder = getattr(document, "node", document)  # LlamaIndex has a node and its score
    for name in ("page_content", "content", "text"):
        if isinstance(text := getattr(holder, name, None), str):
            return text
    return None


def identify_document(document: Any) -> str | int:
    """The id of a document, or a hash of its text if it has no id."""
    value = getattr(document, "node_id", None) or getattr(document, "id", None)
    return value if value is not None and value != "" else identify_by_content(document)


def identify_by_content(document: Any) -> str:
    """A hash of the text of a document, for retrievers that give the same passage different ids."""
    text = text_of(document)
    if text is None:
        raise DataError(f"a document of type {type(document).__name__} has neither id nor text; give `identify`")
    return _hash(text)


def check_id(value: object) -> str:
    """An id as text, as a log takes it; a hash of it if it is too long or holds characters that a log cannot hold."""
    name = text_id(value)
    if not name:
        raise DataError(f"the id of a document is {value!r:.100}; `identify` returns a text or a whole number")
    return name if name == clean_text(name, MAX_DOCUMENT) else _hash(name)


def place_of(document: Any) -> ShownPassage | None:
    """Where a document was shown, from its metadata; None if it does not come from a retriever of this package."""
    metadata = getattr(document, "metadata", None) or getattr(document, "meta", None)
    if not isinstance(metadata, dict) or not set(ADDED) <= metadata.keys():
        return None
    impression, rank, name = (metadata[key] for key in ADDED)
    is_sound = isinstance(impression, str | None) and isinstance(rank, int) and isinstance(name, str)
    return ShownPassage(impression, rank, name) if is_sound else None


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Passage(NamedTuple):
    """A document to show, its id and rank in the log, and the impression; None if the list is not logged."""

    document: Any
    id: str
    rank: int
    impression: str | None

    @property
    def metadata(self) -> dict[str, Any]:
        """What is added to the metadata of the document. The retriever is left out, so that no model can use it."""
        return {IMPRESSION: self.impression, RANK: self.rank, DOCUMENT: self.id}


class MixerOptions(TypedDict, total=False):
    """The options of every retriever of this package.

    `experiment`: name of the experiment, if the log is a client of the service. `method`: the interleaving method, if
    the log is a `LogWriter`. `k`: how many passages to show (default: as many as the control found). `timeout`:
    seconds that retrievers may take (default: 1). `identify`: returns the id of a document (default: its id, or a hash
    of its text if it has none).
    """

    experiment: str | None
    method: str | None
    k: int | None
    timeout: float
    identify: Callable[[Any], str | int] | None


class PassageMixer:
    """Asks retrievers, mixes what they found, and logs the list. The first retriever is the control."""

    def __init__(
        self,
        retrievers: Mapping[str, Any],
        log: Log,
        *,
        experiment: str | None = None,
        method: str | None = None,
        k: int | None = None,
        timeout: float = 1.0,
        identify: Callable[[Any], str | int] | None = None,
    ) -> None:
        raise_errors(
            [*_problems(retrievers, k, timeout), *collect_errors(lambda: check_passage_log(log, experiment, method))]
        )
        self._names, self._k, self._identify = tuple(retrievers), k, identify or identify_document
        self._log = open_passage_log(log, self._names, experiment, method)
        self._calls, self._visitors = TimedCalls(self._names, timeout), Visitors()
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    @property
    def counts(self) -> dict[str, int]:
        """How often each `FallbackCode` occurred: `retriever_late:sparse` counts by retriever."""
        with self._lock:
            return dict(self._counts)

    def retrieve(self, text: str, unit: object, session: object, calls: Mapping[str, Call]) -> list[Passage]:
        """The passages to show. An error is raised only if no retriever answers: that of the control."""
        answers = self._check(self._calls.ask(calls))
        if not answers.documents:
            return []
        try:
            rankings, documents = self._identify_all(answers)
            mixed = self._log.mix(self._question(text, unit, session), rankings)
            return self._passages(mixed, documents)
        except Exception:
            return self._show_control(answers)

    async def retrieve_async(
        self, text: str, unit: object, session: object, calls: Mapping[str, Call]
    ) -> list[Passage]:
        """The same for event loops; coroutine functions among the calls become tasks."""
        answers = self._check(await self._calls.ask_async(calls))
        if not answers.documents:
            return []
        try:
            rankings, documents = self._identify_all(answers)
            mixed = await self._log.mix_async(self._question(text, unit, session), rankings)
            return self._passages(mixed, documents)
        except Exception:
            return self._show_control(answers)

    def _check(self, answers: Answers) -> Answers:
        """Count what went wrong; raise the error of the control if nobody answered."""
        for name, code in answers.problems.items():
            self._count(code.of(name))
            if name in answers.errors:
                logger.warning("the retriever %r failed", name, exc_info=answers.errors[name])
        if answers.errors and not answers.is_some:
            raise answers.errors.get(self._names[0]) or next(iter(answers.errors.values()))
        return answers

    def _count(self, key: str) -> None:
        with self._lock:
            self._counts[key] += 1

    def _question(self, text: str, unit: object, session: object) -> Question:
        """A question that can be logged, whatever users typed."""
        visitors = self._visitors
        query = visitors.text("query", text, limits.MAX_QUERY) or ""
        return Question(query, visitors.id("unit", unit), visitors.id("session", session))

    def _identify_all(self, answers: Answers) -> tuple[Found, dict[str, Any]]:
        """The rankings as ids, without repeated documents; and the documents by id, those of the control if it can."""
        rankings, documents = dict[str, list[str]](), dict[str, Any]()
        for name, ranking in answers.documents.items():
            by_id: dict[str, Any] = {}
            for document in ranking:
                by_id.setdefault(check_id(self._identify(document)), document)
            rankings[name] = list(by_id)
            documents = documents | by_id if name == self._names[0] else by_id | documents
        size = self._k or len(rankings.get(self._names[0]) or next(iter(rankings.values())))
        texts = {name: text_of(document) for name, document in documents.items()}
        characters = {name: len(text) for name, text in texts.items() if text is not None}
        return Found(rankings, size, answers.problems, answers.latency, characters), documents

    def _passages(self, mixed: MixedList, documents: Mapping[str, Any]) -> list[Passage]:
        if mixed.problem:
            self._count(mixed.problem)
        shown = enumerate(mixed.documents, 1)
        return [Passage(documents[name], name, rank, mixed.impression) for rank, name in shown]

    def _show_control(self, answers: Answers) -> list[Passage]:
        """The documents of the control, or of the first that answered, as they are."""
        logger.error("passages could not be mixed", exc_info=True)
        self._count(FallbackCode.NOT_MIXED)
        documents = answers.documents.get(self._names[0]) or next(iter(answers.documents.values()))
        return [Passage(document, "", rank, None) for rank, document in enumerate(documents[: self._k], 1)]


def _problems(retrievers: object, k: int | None, timeout: float) -> Iterator[InterleafError]:
    if not isinstance(retrievers, Mapping) or not all(isinstance(name, str) for name in retrievers):
        yield DataError(
            f"the retrievers are {retrievers!r:.100}; give a dict from names to retrievers, the control first, "
            "such as {'production': a, 'candidate': b}"
        )
    elif len(retrievers) < 2:
        yield DataError(f"there are {len(retrievers)} retrievers; give at least 2, the control first")
    if k is not None and not (isinstance(k, int) and 1 <= k <= limits.MAX_K):
        yield DataError(f"k is {k!r}; give a whole number from 1 to {limits.MAX_K}")
    if not (isinstance(timeout, int | float) and 0 < timeout < math.inf):
        yield DataError(f"timeout is {timeout!r}; give seconds above 0")
