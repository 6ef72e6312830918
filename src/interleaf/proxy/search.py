"""One search that takes part: from the request of the caller to the interleaved answer.

Lists of the last minutes are kept, because further pages, repeated searches and events belong to one of them. The
engine's own defaults, such as the page size, are asked for once a minute.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from interleaf.client.visitors import clean_text
from interleaf.errors import InterleafError, join_names
from interleaf.experiment import Experiment, Request, Shown, assign, limits, show
from interleaf.experiment.assignment import OUTSIDE
from interleaf.experiment.serving import Noted
from interleaf.experiment.settings import CHOOSE
from interleaf.log.schema import INTERLEAVED
from interleaf.proxy.codes import BypassCode, BypassError, FailureCode
from interleaf.proxy.config import SOLR, ProxyConfig
from interleaf.proxy.fan_out import FanOut, FanOutResult
from interleaf.proxy.opensearch import OpenSearchSearch
from interleaf.proxy.recorders import RecordDetails, Recorder, Running
from interleaf.proxy.search_requests import Incoming, Page, Pairs, ParsedSearch, ResultPage, holds
from interleaf.proxy.solr import SolrSearch
from interleaf.proxy.tokens import Signer, make_link

MAX_LISTS = 20_000  # keys of lists
KEEP_LISTS = 1800.0  # a further page, or an event, belongs to a list that is not older
REPEAT_SECONDS = 60.0  # the same search of the same user within this time is the same impression
KEEP_DEFAULTS = 60.0  # a change of the engine's configuration is noticed within this time
MAX_KNOWN = 1000  # requests whose answers are kept


@dataclass
class ServedList:
    """A list that was shown; `documents` are those of all pages so far, each of `size` results."""

    impression: str
    documents: list[str]
    size: int
    at: float


class ServedLists:
    """Lists by user and search, by impression, and by the query id of UBI; the oldest are forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lists: OrderedDict[bytes | str, ServedList] = OrderedDict()

    def add(self, keys: list[bytes | str], served: ServedList) -> bool:
        """Store a list under these keys; returns True."""
        for key in keys:
            self._lists.pop(key, None)
            self._lists[key] = served
        while len(self._lists) > MAX_LISTS:
            self._lists.popitem(last=False)
        return True

    def extend(self, keys: list[bytes | str], served: ServedList, documents: list[str]) -> bool:
        """Remember a list by more keys, and with the documents of a further page; False if it has them already."""
        self.add(keys, served)
        is_longer = len(documents) > len(served.documents)
        if is_longer:
            served.documents = documents
        return is_longer

    def find(self, key: bytes | str) -> ServedList | None:
        """The list with this key, if it is not too old."""
        served = self._lists.get(key)
        return served if served is not None and self._clock() - served.at < KEEP_LISTS else None

    def new(self, impression: str, documents: list[str], size: int) -> ServedList:
        """A list that is shown now."""
        return ServedList(impression, documents, size, self._clock())

    def is_repeat(self, served: ServedList, first: int, documents: list[str]) -> bool:
        """Whether a page was shown a moment ago, with the same documents."""
        shown = served.documents[first : first + len(documents)]
        return shown == documents and self._clock() - served.at < REPEAT_SECONDS

    def is_continued(self, served: ServedList, first: int, documents: list[str]) -> bool:
        """Whether these documents are the list so far, and a page that begins in it or behind it."""
        size = len(served.documents)
        return first <= size < len(documents) and documents[:size] == served.documents


Parse = Callable[[Incoming], ParsedSearch]


class Accepted(NamedTuple):
    """A search that takes part, and the experiment as it is now."""

    search: ParsedSearch
    running: Running
    incoming: Incoming


class Built(NamedTuple):
    """The answer to a search, the headers of the engine's answer, and the impression, if the list is logged.

    Call `record` when the caller gets the answer: it writes down the list.
    """

    body: bytes
    headers: Any
    impression: str | None
    result: FanOutResult
    arm: str
    record: Callable[[], None]


@dataclass
class Mixed:
    """A list of a search: its page, and what is recorded."""

    documents: list[str]  # of this page
    before: list[str]  # of all pages before
    mixed: int  # documents that can be paged to before the control's remaining results
    shown: Shown
    request: Request


@dataclass
class Searches:
    """Answers the searches that take part in one experiment."""

    config: ProxyConfig
    parse: Parse
    fan_out: FanOut
    recorder: Recorder
    lists: ServedLists
    signer: Signer

    def __post_init__(self) -> None:
        self._defaults = EngineDefaults(self.fan_out)

    async def accept(self, incoming: Incoming) -> Accepted:
        """Read a search; raises BypassError if it does not take part, so that the caller gets the engine's answer."""
        running = self._find_experiment(incoming)
        search = self.parse(incoming)
        self._check(search, running, incoming)
        await self._defaults.add(search)
        self._check(search, running, incoming)
        return Accepted(search, running, incoming)

    async def answer(self, accepted: Accepted) -> Built:
        """The interleaved answer; raises BypassError if the caller gets the engine's own."""
        search, running, incoming = accepted
        requests = self._make_requests(search)
        result = await self.fan_out.ask(search, requests, self.config.control)
        mixed = self._mix(search, running, incoming, result)
        control = result.answers[self.config.control]
        impression, remember = self._identify(search, mixed, running, incoming, search.find_query_id(control))
        page = Page(search.window, mixed.documents, mixed.before, mixed.mixed, self._make_note(impression))
        if impression is not None and self.config.clicks.link is not None:
            page.link_of = partial(make_link, self.signer, impression)
        body = search.build(self.config.control, result.answers, page)

        def record() -> None:
            if remember():
                self._send(mixed, running, incoming, result)

        return Built(body, control.headers, impression, result, mixed.shown.arm, record)

    def _find_experiment(self, incoming: Incoming) -> Running:
        """The running experiment of this user."""
        running = self.recorder.running()
        if running is None:
            raise BypassError(BypassCode.NOT_RUNNING)
        self._check_rankers(running.settings)
        if incoming.unit is None:
            raise BypassError(BypassCode.NO_UNIT)
        if assign(running.settings, incoming.unit) == OUTSIDE:
            raise BypassError(BypassCode.OUTSIDE)
        return running

    def _check_rankers(self, settings: Experiment) -> None:
        """The service and the file must agree on the rankers, and on the control; a list mixes all rankers."""
        if settings.mode == CHOOSE:
            detail = f"the mode of the experiment is {CHOOSE!r}, but the proxy always asks all rankers; give another"
            raise BypassError(FailureCode.CONFIGURATION, detail)
        here, there = sorted(one.name for one in self.config.rankers), sorted(settings.rankers)
        if here != there or settings.control != self.config.control:
            service = f"the service compares {join_names(there)} with the control {settings.control!r}"
            detail = f"{service}, the file {join_names(here)} with the control {self.config.control!r}"
            raise BypassError(FailureCode.CONFIGURATION, detail)

    def _check(self, search: ParsedSearch, running: Running, incoming: Incoming) -> None:
        section, window = self.config.requests, search.window
        if not all(holds(condition, incoming, search.body) for condition in section.where):
            raise BypassError(BypassCode.CONDITION)
        if window.size > limits.MAX_K:
            raise BypassError(BypassCode.PAGE_TOO_LARGE)
        if window.first + window.size > section.max_rank:
            raise BypassError(BypassCode.PAGE_TOO_FAR)
        if window.first and running.settings.resolved_method.method.depends_on_k:
            raise BypassError(BypassCode.WHOLE_LISTS)

    def _make_requests(self, search: ParsedSearch) -> dict[str, Any]:
        """The rankers' requests. The control's goes as deep as the page, for what follows the mixed list."""
        depth, end = self.config.requests.depth, search.window.first + search.window.size
        sizes = {one.name: depth for one in self.config.rankers} | {self.config.control: max(depth, end)}
        return {
            one.name: search.request_of(one, sizes[one.name], one.name == self.config.control)
            for one in self.config.rankers
        }

    def _mix(self, search: ParsedSearch, running: Running, incoming: Incoming, result: FanOutResult) -> Mixed:
        """Compose the list as the clients and the service do: the same user and query get the same list."""
        depth, window, method = self.config.requests.depth, search.window, running.settings.resolved_method.method
        ids_by_ranker = {name: answer.ids for name, answer in result.answers.items()}
        for name, ids in list(ids_by_ranker.items()):
            if len(set(ids)) < len(ids):
                if name == self.config.control:
                    raise BypassError(FailureCode.REPEATED_DOCUMENT)
                result.failures[name] = BypassError(FailureCode.REPEATED_DOCUMENT)
                del ids_by_ranker[name], result.answers[name]
        if not ids_by_ranker[self.config.control]:  # its total and facets say that there is nothing: no other hits fit
            raise BypassError(BypassCode.NO_RESULTS)
        rankings = {
            name: ids_by_ranker[name][:depth] if name in ids_by_ranker else None for name in running.settings.rankers
        }
        served = self.lists.find(_key_of(search, incoming))
        k, page = _divide(window, None if served is None or method.depends_on_k else served.size)
        request = Request(secrets.token_hex(16), incoming.unit, _clean_query(search.query), rankings, k, page)
        try:
            shown = show(running.settings, running.version, request)
        except InterleafError as problem:
            raise BypassError(FailureCode.CONFIGURATION, str(problem)) from problem
        assert isinstance(shown.record, Noted)  # the control found something, and the mode is none that chooses
        whole = [str(document) for document in shown.record.drawn_list.documents]
        mixed = _count_mixed(shown.arm, rankings, self.config.control)
        end = window.first + window.size
        if len(whole) < end:  # the control's remaining results follow
            in_list = set(whole)
            whole += [document for document in ids_by_ranker[self.config.control] if document not in in_list]
        return Mixed(whole[window.first : end], whole[: window.first], mixed, shown, request)

    def _identify(
        self, search: ParsedSearch, mixed: Mixed, running: Running, incoming: Incoming, query_id: str | None
    ) -> tuple[str | None, Callable[[], bool]]:
        """The impression that the page belongs to (None: it is not logged), and a function that remembers the list.

        The function says whether there is something to record. A further page, or a longer one, belongs to the
        impression of the first one, if that was shown lately and with the same documents. Else the list so far is an
        impression of its own.
        """
        note, window, request = mixed.shown.record, search.window, mixed.request
        assert isinstance(note, Noted)
        documents = [str(document) for document in note.drawn_list.documents]
        if window.first >= len(documents):  # only results that belong to no ranker
            return None, lambda: False
        key = _key_of(search, incoming)
        query_keys: list[bytes | str] = [f"query {query_id}"] if query_id else []
        served = self.lists.find(key)
        if served is not None and served.size == request.k:
            is_repeat = self.lists.is_repeat(served, window.first, documents[window.first :])
            if is_repeat or self.lists.is_continued(served, window.first, documents):
                request.impression = note.about["impression"] = served.impression
                return served.impression, partial(self.lists.extend, query_keys, served, documents)
        if request.page > 1:
            request.k, request.page = window.first + window.size, 1
            mixed.shown = show(running.settings, running.version, request)
        if request.k is not None and request.k > limits.MAX_K:
            return None, lambda: False
        new = self.lists.new(request.impression, documents, window.size)
        return request.impression, partial(self.lists.add, [key, request.impression, *query_keys], new)

    def _send(self, mixed: Mixed, running: Running, incoming: Incoming, result: FanOutResult) -> None:
        latency = {name: answer.took for name, answer in result.answers.items()}
        agent = clean_text(incoming.header(b"user-agent"), limits.MAX_USER_AGENT) or None
        self.recorder.record(mixed.shown, mixed.request, running.version, RecordDetails(latency, agent))

    def _make_note(self, impression: str | None) -> dict[str, Any]:
        """What the answer says about the impression."""
        name = self.config.experiment.name
        if impression is None:
            return {"experiment": name, "impression": None, "token": None}
        return {"experiment": name, "impression": impression, "token": self.signer.sign("token", impression)}


def _key_of(search: ParsedSearch, incoming: Incoming) -> bytes:
    """What the lists of one search of one user have in common."""
    return search.digest + (incoming.unit or "").encode()


def _divide(window: ResultPage, served_size: int | None) -> tuple[int, int]:
    """The size and the number of the last page if a part of a list is whole pages; else all results up to its end.

    Pages have the size of the list that was served, because people who want more may ask for a longer page.

    >>> _divide(ResultPage(20, 10), None), _divide(ResultPage(0, 30), 10), _divide(ResultPage(5, 10), 10)
    ((10, 3), (10, 3), (15, 1))
    """
    end = window.first + window.size
    for size in (served_size, window.size):
        if size and not window.first % size and not end % size and end // size <= limits.MAX_PAGE:
            return size, end // size
    return end, 1


def _count_mixed(arm: str, rankings: Mapping[str, list[str] | None], control: str) -> int:
    """The documents of the whole list: those of all rankings, or of the one whose list is shown.

    >>> _count_mixed("interleaved", {"old": ["a"], "new": ["a", "b"]}, "old")
    2
    >>> _count_mixed("holdout", {"old": ["a"], "new": ["a", "b"]}, "old")
    1
    """
    if arm == INTERLEAVED:
        return len(set().union(*(ids for ids in rankings.values() if ids)))
    return len(rankings.get(arm) or rankings[control] or ())


def _clean_query(text: str) -> str:
    return clean_text(text, limits.MAX_QUERY)


class EngineDefaults:
    """Asks the engine for its defaults, once in a minute for each handler."""

    def __init__(self, fan_out: FanOut) -> None:
        self._fan_out = fan_out
        self._known: dict[bytes, tuple[float, Pairs]] = {}

    async def add(self, search: ParsedSearch) -> None:
        """Tell a search the defaults of its engine; raises BypassError if the engine does not say them."""
        request = search.defaults_request
        if request is None:
            return
        until, defaults = self._known.get(request.target, (0.0, []))
        if time.monotonic() >= until:
            try:
                body, _ = await self._fan_out.send(request, statuses=(200, 400))  # Solr's errors say them, too
                defaults = search.read_defaults(body)
            except BypassError:
                raise BypassError(BypassCode.UNKNOWN_DEFAULTS) from None
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[request.target] = time.monotonic() + KEEP_DEFAULTS, defaults
        search.add_defaults(defaults)


def parser_of(config: ProxyConfig) -> Callable[[Incoming], ParsedSearch]:
    """The function that reads a search of the configured engine."""
    section, link = config.requests, config.clicks.link
    if config.upstream.engine == SOLR:
        return lambda incoming: SolrSearch(incoming, section, link)
    return lambda incoming: OpenSearchSearch(incoming, section, link)
