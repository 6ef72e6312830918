"""Events from outside: of the script in browsers, and of UBI records on their way to the engine."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

from interleaf.errors import join_names
from interleaf.proxy.metrics import ProxyMetrics
from interleaf.proxy.recorders import Recorder
from interleaf.proxy.search_requests import Incoming
from interleaf.proxy.served_lists import ServedLists
from interleaf.proxy.tokens import Signer
from interleaf.proxy.ubi_writes import read_records
from interleaf.server.rate_limits import Rates
from interleaf.server.schemas import RETRY, ApiError, EventBody, EventsRequest, decoder

MAX_EVENTS = 1000  # of an impression in an hour, from browsers
BROWSER, LINK, UBI = "browser", "link", "ubi"  # where an event comes from
TAKEN, IGNORED, UNMATCHED = "taken", "ignored", "unmatched"
_decode = decoder(EventsRequest)


@dataclass
class EventSources:
    """Checks events, and hands them to the recorder."""

    metrics: ProxyMetrics
    recorder: Recorder
    lists: ServedLists
    signer: Signer
    ubi_index: str

    def __post_init__(self) -> None:
        self._rates = Rates(MAX_EVENTS / 3600, MAX_EVENTS)
        index = re.escape(self.ubi_index)
        pattern = rf"/{index}/(_doc|_create|_bulk)(/[^/]*)?|/_bulk" if self.ubi_index else "(?!)"
        self.is_ubi = re.compile(pattern).fullmatch

    def take_browser_events(self, body: bytes) -> int:
        """Take the events of one impression with its token, as the service does; returns how many."""
        data = _decode(body)
        impression = data.events[0].impression
        token = data.token or ""
        if impression is None or not self.signer.is_valid(token, "token", impression):
            raise ApiError(403, "wrong_token", "this token belongs to another impression, or the proxy was restarted")
        running = self.recorder.running()
        allowed = running.settings.browser_events if running else ()
        for event in data.events:
            if event.impression != impression or event.rank is None:
                raise ApiError(403, "wrong_token", "give the rank of each event, and the impression of the token")
            if event.kind not in allowed:
                raise ApiError(403, "wrong_kind", f"browsers may send {join_names(allowed)}; allow it: browser_events")
        if not self._rates.take(impression, len(data.events)):
            problem = f"more than {MAX_EVENTS:,} events of this impression in an hour"
            raise ApiError(429, "too_many", problem, headers={RETRY: "3600"})
        for event in data.events:
            self._take(BROWSER, _plain(event))
        return len(data.events)

    def take_click(self, impression: str, rank: int) -> None:
        """Take a click on a link."""
        if self._rates.take(impression):
            self._take(LINK, {"impression": impression, "rank": rank, "kind": "click"})

    def take_ubi(self, path: str, body: bytes, answer: bytes) -> bool:
        """Take the events of UBI records that the engine has stored; False if it does not say which these are."""
        running = self.recorder.running()
        kinds = running.settings.events if running else {}
        records = read_records(path, body, answer, self.ubi_index)
        for record in records or ():
            if isinstance(record, dict) and "action_name" in record:
                self._take_record(record, kinds)
        return records is not None

    def _take_record(self, record: dict[str, Any], kinds: Container[str]) -> None:
        kind, query_id = record["action_name"], record.get("query_id")
        if not isinstance(query_id, str) or not isinstance(kind, str) or kind not in kinds:
            self.metrics.count_event(UBI, IGNORED)
            return
        served = self.lists.find(f"query {query_id}")
        rank = None if served is None else _find_rank(record.get("event_attributes"), served.documents)
        if served is None or rank is None:
            self.metrics.count_event(UBI, UNMATCHED)
            return
        name = blake2b(msgspec.json.encode(record), digest_size=16).hexdigest()  # a record sent twice counts once
        self._take(UBI, {"impression": served.impression, "rank": rank, "kind": kind, "event": name})

    def may_have_ubi(self, incoming: Incoming, start: bytes) -> bool:
        """Whether a request to write documents may have records of UBI, by its path and the start of its body."""
        index = self.ubi_index.encode()
        return bool(incoming.header(b"content-encoding")) or index in incoming.path.encode("latin-1") + start

    def _take(self, source: str, event: Mapping[str, Any]) -> None:
        """Hand over an event, unless its rank is beyond the list: there, results belong to no ranker."""
        served = self.lists.find(event["impression"])
        if served is not None and event["rank"] > len(served.documents):
            self.metrics.count_event(source, UNMATCHED)
            return
        self.metrics.count_event(source, TAKEN)
        self.recorder.record_event(event)


def _plain(event: EventBody) -> dict[str, Any]:
    fields = ("event", "impression", "rank", "kind", "dwell", "value")
    return {name: value for name in fields if (value := getattr(event, name)) is not None}


def _find_rank(attributes: Any, documents: list[str]) -> int | None:
    """The rank of the document of an event; of its position if it has no document of the list."""
    if not isinstance(attributes, dict):
        return None
    item, position = attributes.get("object"), attributes.get("position")
    name = item.get("object_id") if isinstance(item, dict) else None
    if name is not None and str(name) in documents:
        return documents.index(str(name)) + 1
    ordinal = position.get("ordinal") if isinstance(position, dict) else None
    is_rank = isinstance(ordinal, int) and not isinstance(ordinal, bool) and 1 <= ordinal <= len(documents)
    return ordinal if is_rank and name is None else None
