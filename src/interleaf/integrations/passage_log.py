"""Where lists and citations are logged: in a log of this process, or by the service. Both also make the lists."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from interleaf.client import Answer, AsyncClient, Client
from interleaf.errors import DataError, InterleafError, collect_errors, raise_errors
from interleaf.experiment import limits
from interleaf.experiment.serving import chance_key
from interleaf.integrations.timed_calls import FallbackCode
from interleaf.interleaving.api import interleave, warm_composing
from interleaf.log import LogWriter
from interleaf.log.schema import FALLBACK, arm_of
from interleaf.methods.registry import DEFAULT, resolve, show_unchanged

Log = LogWriter | Client | AsyncClient
logger = logging.getLogger("interleaf.integrations")


class Question(NamedTuple):
    """The text of a question, and who asks it: the unit, such as a user or a conversation, and the session."""

    text: str
    unit: str | None = None
    session: str | None = None


class MixedList(NamedTuple):
    """The ids of the passages to show, and the impression that is logged; None, with a `problem`, if it is not."""

    documents: Sequence[str]
    impression: str | None
    problem: FallbackCode | None = None


class Found(NamedTuple):
    """What is mixed: a ranking of ids for each retriever that found something, the first to answer first; how many
    passages to show; why other retrievers have no ranking; milliseconds of each retriever; and the number of
    characters of each document that has a text.
    """

    rankings: Mapping[str, Sequence[str]]
    k: int
    problems: Mapping[str, FallbackCode]
    latency: Mapping[str, float]
    characters: Mapping[str, int]

    @property
    def fallback_reason(self) -> str | None:
        """The retrievers without a ranking, with the reasons."""
        return ", ".join(f"{code}: {name}" for name, code in self.problems.items()) or None


class PassageLog(Protocol):
    """Makes a list of rankings, and logs it."""

    def mix(self, question: Question, found: Found) -> MixedList:
        """The list for a question."""

    async def mix_async(self, question: Question, found: Found) -> MixedList:
        """The same for event loops."""


class LocalPassageLog:
    """Makes lists in this process, and appends them to a log."""

    def __init__(self, writer: LogWriter, names: Sequence[str], method: str | None) -> None:
        self._writer, self._names, self._chosen = writer, names, resolve(method or DEFAULT)
        for chosen in (self._chosen, show_unchanged(names[0])):
            warm_composing(chosen.text, len(names))
            interleave({name: ["a", "b"] for name in names}, chosen.text, 2, "check").to_dict()  # raises for odd names

    def mix(self, question: Question, found: Found) -> MixedList:
        """If a retriever did not answer, the list of the control, or of the first that answered."""
        impression, writer, chosen = secrets.token_hex(16), self._writer, self._chosen
        if found.fallback_reason:
            control = self._names[0]
            chosen = show_unchanged(control if control in found.rankings else next(iter(found.rankings)))
        rankings = {name: found.rankings.get(name, ()) for name in self._names}
        unit = question.unit or impression
        key = chance_key(chosen, writer.experiment, writer.version, unit, question.text)
        shown = interleave(rankings, chosen.text, found.k, key)
        documents = [str(document) for document in shown.documents]
        try:
            writer.impression(
                shown,
                impression=impression,
                unit=question.unit,
                session=question.session,
                query=question.text,
                arm=FALLBACK if found.fallback_reason else arm_of(shown.method, shown.rankers, shown.teams, shown.key),
                fallback_reason=found.fallback_reason,
                characters=[found.characters.get(name) for name in documents],
                latency=[found.latency.get(name) for name in self._names],
            )
        except (InterleafError, OSError):
            logger.warning("a list of passages could not be logged", exc_info=True)
            return MixedList(documents, None, FallbackCode.NOT_LOGGED)
        return MixedList(documents, impression)

    async def mix_async(self, question: Question, found: Found) -> MixedList:
        """The same: it takes less than a millisecond."""
        return self.mix(question, found)


class ServicePassageLog:
    """Asks the service for lists, which logs them."""

    def __init__(self, client: Client | AsyncClient, names: Sequence[str], experiment: str) -> None:
        self._client, self._names, self._experiment = client, names, experiment

    def mix(self, question: Question, found: Found) -> MixedList:
        """The list that the service makes."""
        if isinstance(self._client, AsyncClient):
            raise DataError("an AsyncClient works in event loops only; give a Client, or call the async methods")
        return _read_answer(self._client.interleave(self._experiment, **self._request(question, found)))

    async def mix_async(self, question: Question, found: Found) -> MixedList:
        """The list that the service makes."""
        request = self._request(question, found)
        if isinstance(self._client, AsyncClient):
            return _read_answer(await self._client.interleave(self._experiment, **request))
        return _read_answer(await asyncio.to_thread(partial(self._client.interleave, self._experiment, **request)))

    def _request(self, question: Question, found: Found) -> dict[str, Any]:
        return {
            "rankings": {name: found.rankings.get(name) for name in self._names},
            "unit": question.unit,
            "session": question.session,
            "query": question.text,
            "k": min(found.k, limits.MAX_K),
            "latency": found.latency,
            "characters": found.characters,
        }


def _read_answer(answer: Answer) -> MixedList:
    return MixedList(answer.documents, answer.impression)


def check_passage_log(log: object, experiment: str | None, method: str | None) -> None:
    """Raise one error that lists all problems with where passages are logged."""
    is_local = isinstance(log, LogWriter)
    problems: list[InterleafError] = []
    if not isinstance(log, LogWriter | Client | AsyncClient):
        problems.append(DataError(f"log is {log!r:.100}; give a LogWriter, a Client or an AsyncClient"))
    elif is_local and experiment is not None:
        problems.append(DataError(f"experiment is {experiment!r}; leave it out, the LogWriter has its name"))
    elif not is_local and not experiment:
        problems.append(DataError("experiment is missing; give the name of the experiment in the service"))
    if not is_local and method is not None:
        problems.append(DataError(f"method is {method!r}; leave it out, the experiment in the service has one"))
    if method is not None:
        problems += collect_errors(lambda: resolve(method))
    raise_errors(problems)


def open_passage_log(log: Log, names: Sequence[str], experiment: str | None, method: str | None) -> PassageLog:
    """Where passages are logged, after a check."""
    if isinstance(log, LogWriter):
        return LocalPassageLog(log, names, method)
    return ServicePassageLog(log, names, experiment or "")
