"""Searches of OpenSearch and Elasticsearch: what can be interleaved, the rankers' requests, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from msgspec import Raw, Struct, field

from interleaf.proxy.codes import BypassCode, BypassError, FailureCode
from interleaf.proxy.config import RankerSection, RequestsSection
from interleaf.proxy.json_pointer import find_value
from interleaf.proxy.search_requests import (
    EngineRequest,
    Incoming,
    Page,
    Pairs,
    RankerAnswer,
    ResultPage,
    as_query_id,
    decode_object,
    decrease,
    digest_of,
    is_true,
    merge_patch,
    read_number,
    read_pairs,
    read_whole,
    set_pairs,
    write_pairs,
)

DEFAULT_SIZE = 10
# Fields of the body and URL parameters that ask for something that cannot be interleaved.
BYPASS_FIELDS = {
    "search_after": BypassCode.SEARCH_AFTER,
    "pit": BypassCode.PIT,
    "collapse": BypassCode.COLLAPSE,
    "slice": BypassCode.SLICE,
    "scroll": BypassCode.SCROLL,
    "filter_path": BypassCode.FILTER_PATH,
    "source": BypassCode.NOT_UNDERSTOOD,
}
BYPASS_FLAGS = {"explain": BypassCode.EXPLAIN, "profile": BypassCode.EXPLAIN}
# Parameters that the header line of an _msearch takes, and those that its URL takes.
MSEARCH_LINE = {
    *("search_type", "preference", "routing", "allow_no_indices", "expand_wildcards", "ignore_unavailable"),
    *("allow_partial_search_results", "ccs_minimize_roundtrips", "request_cache", "ignore_throttled"),
}
MSEARCH_URL = {"typed_keys", "rest_total_hits_as_int", "pretty", "human", "error_trace"}
CONTROL_ONLY = ("aggs", "aggregations", "suggest")  # what only the control's answer is used for
# Fields of the body and URL parameters that do not change the order of hits: pages of one search may differ in them.
NOT_OF_THE_ORDER = {
    *("from", "size", "aggs", "aggregations", "suggest", "highlight", "ext", "sort", "explain", "profile", "stats"),
    *("fields", "stored_fields", "docvalue_fields", "script_fields", "version", "seq_no_primary_term"),
    *("_source", "_source_includes", "_source_excludes", "track_scores", "track_total_hits", "rest_total_hits_as_int"),
    *("typed_keys", "pretty", "human", "error_trace", "format", "request_cache"),
}
NOT_OF_A_RANKER = {b"content-length", b"content-encoding", b"accept-encoding", b"range", b"if-none-match"}


class HitId(Struct):
    """What the proxy reads of a hit."""

    id: str = field(name="_id")
    score: float | None = field(name="_score", default=None)


_decode_raw = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_hits = msgspec.json.Decoder(list[Raw]).decode
_decode_id = msgspec.json.Decoder(HitId).decode
_encode = msgspec.json.Encoder().encode


class OpenSearchSearch:
    """One search: a request to `_search`."""

    defaults_request = None

    def __init__(self, incoming: Incoming, section: RequestsSection, link: tuple[str, ...] | None = None) -> None:
        self._incoming, self._link = incoming, link
        content, accept = incoming.header(b"content-type").lower(), incoming.header(b"accept").lower()
        if (incoming.plain and "json" not in content) or (accept and "json" not in accept and "*/*" not in accept):
            raise BypassError(BypassCode.NOT_JSON)
        if incoming.parameter("format") not in (None, "json"):
            raise BypassError(BypassCode.NOT_JSON)
        self.body = decode_object(incoming.plain)
        self._parameters = incoming.parameters
        self._indices = incoming.path.rstrip("/").removesuffix("/_search").strip("/")
        self._check_fields()
        self._check_sort()
        self.window = self._read_window()
        fields = {name: value for name, value in self.body.items() if name not in NOT_OF_THE_ORDER}
        pairs = [pair for pair in self._parameters if pair[0] not in NOT_OF_THE_ORDER]
        self.digest = digest_of(incoming.path, pairs, fields)
        text = find_value(self.body, section.query) if section.query else None
        text = incoming.parameter("q") if text is None else text
        self.query = str(text) if isinstance(text, str | int | float) else self.digest.hex()

    def _check_fields(self) -> None:
        names = {**dict(self._parameters), **self.body}
        for name, code in BYPASS_FIELDS.items():
            if name in names:
                raise BypassError(code)
        for name, code in BYPASS_FLAGS.items():
            if is_true(names.get(name)):
                raise BypassError(code)

    def _check_sort(self) -> None:
        for sort in (self.body.get("sort"), self._incoming.parameter("sort")):
            if sort is not None and not all(map(_is_by_score, sort if isinstance(sort, list) else [sort])):
                raise BypassError(BypassCode.SORT)

    def _read_window(self) -> ResultPage:
        first = self._incoming.parameter("from")
        size = self._incoming.parameter("size")
        window = ResultPage(
            read_whole(self.body.get("from", 0) if first is None else first),
            read_whole(self.body.get("size", DEFAULT_SIZE) if size is None else size),
        )
        if not window.size:
            raise BypassError(BypassCode.NO_HITS)
        return window

    def read_defaults(self, body: bytes) -> Pairs:
        return []

    def add_defaults(self, defaults: Pairs) -> None:
        pass

    def request_of(self, ranker: RankerSection, size: int, is_control: bool) -> EngineRequest:
        indices = quote(ranker.index, safe=",*+-_.:@<>") if ranker.index else self._indices
        path = f"/{indices}/_search" if indices else "/_search"
        pairs = set_pairs(self._parameters, {"from": [], "size": [], **ranker.parameters})
        if ranker.search_pipeline:
            pairs = set_pairs(pairs, {"search_pipeline": [ranker.search_pipeline]})
        if ranker.template:
            path += "/template"
            values = {name: find_value(self.body, pointer) for name, pointer in ranker.template_parameters.items()}
            body: dict[str, Any] = {"id": ranker.template, "params": values | {"from": 0, "size": size}}
        else:
            body = merge_patch(self.body, ranker.patch) | {"from": 0, "size": size}
            if not is_control:
                body = {name: value for name, value in body.items() if name not in CONTROL_ONLY}
                if find_value(body, ("ext", "ubi")) is not None:  # the engine would write down one search several times
                    body = merge_patch(body, {"ext": {"ubi": None}})
                body["track_total_hits"] = False
        target = path.encode("latin-1") + (b"?" + write_pairs(pairs) if pairs else b"")
        return EngineRequest(b"POST", target, self._headers("json"), _encode(body))

    def _headers(self, kind: str) -> list[tuple[bytes, bytes]]:
        """The caller's headers, with the type of the body; `kind` is `json` or `x-ndjson`."""
        headers = [pair for pair in self._incoming.headers if pair[0] not in NOT_OF_A_RANKER]
        content = self._incoming.header(b"content-type")
        # Elasticsearch's clients name a version in the type.
        content = content.replace("+json", f"+{kind}") if "+json" in content else f"application/{kind}"
        return [(name, value) for name, value in headers if name != b"content-type"] + [
            (b"content-type", content.encode("latin-1"))
        ]

    def combine(self, requests: list[EngineRequest]) -> EngineRequest | None:
        lines, url = list[bytes](), dict[str, str]()
        for request in requests:
            path, _, query = request.target.partition(b"?")
            if not path.endswith(b"/_search"):
                return None
            pairs = read_pairs(query)
            if not {name for name, _ in pairs} <= MSEARCH_LINE | MSEARCH_URL:
                return None
            url |= {name: value for name, value in pairs if name in MSEARCH_URL}
            line: dict[str, Any] = {name: value for name, value in pairs if name in MSEARCH_LINE}
            if indices := path[1:].removesuffix(b"_search").rstrip(b"/"):
                line["index"] = unquote(indices.decode("latin-1")).split(",")
            lines += _encode(line), request.body
        target = b"/_msearch" + (b"?" + write_pairs(list(url.items())) if url else b"")
        return EngineRequest(b"POST", target, self._headers("x-ndjson"), b"\n".join(lines) + b"\n")

    def split(self, body: bytes) -> list[tuple[int, bytes]]:
        try:
            answers = _decode_hits(_decode_raw(body)["responses"])
            return [
                (msgspec.json.decode(_decode_raw(one).get("status", b"200"), type=int), bytes(one)) for one in answers
            ]
        except (ValueError, KeyError, RecursionError):  # also bytes that are not UTF-8
            raise BypassError(FailureCode.ANSWER_NOT_UNDERSTOOD) from None

    def read_answer(self, body: bytes) -> RankerAnswer:
        try:
            data = _decode_raw(body)
            outer = _decode_raw(data["hits"])
            hits = [(_decode_id(hit), hit) for hit in _decode_hits(outer["hits"])]
        except (ValueError, KeyError, RecursionError):  # also bytes that are not UTF-8
            raise BypassError(FailureCode.ANSWER_NOT_UNDERSTOOD) from None
        data.pop("status", None)  # only an answer of _msearch has it
        return RankerAnswer([one.id for one, _ in hits], hits, (data, outer), read_number(data.get("took")))

    def find_query_id(self, answer: RankerAnswer) -> str | None:
        return as_query_id(find_value(self.body, ("ext", "ubi"))) or as_query_id(
            _decode_any(answer.data[0].get("ext")).get("ubi")
        )

    def build(self, control: str, answers: Mapping[str, RankerAnswer], page: Page) -> bytes:
        hits_by_document: dict[str, tuple[HitId, Raw]] = {}
        for name in sorted(answers, key=lambda name: name != control):  # people see a document as the control shows it
            for one, hit in answers[name].hits:
                hits_by_document.setdefault(one.id, (one, hit))
        shown = [*page.before, *page.documents]
        scores = decrease([hits_by_document[document][0].score for document in shown])
        hits = list[dict[str, Any]]()
        for document, score in zip(page.documents, scores[len(page.before) :], strict=True):
            shown_hit: dict[str, Any] = {**_decode_raw(hits_by_document[document][1])}
            if score is not None:
                shown_hit["_score"] = score
                if "sort" in shown_hit:
                    shown_hit["sort"] = [score]
            hits.append(shown_hit)
        if self._link is not None:
            page.add_links([find_value(msgspec.json.decode(_encode(hit)), self._link) for hit in hits])
        data, outer = answers[control].data
        best = {"max_score": scores[0]} if scores and scores[0] is not None else {}
        total = {"total": _raise_total(outer["total"], page.mixed)} if "total" in outer else {}
        took = max(answer.took for answer in answers.values())
        extra = _decode_any(data.get("ext")) | {"interleaf": page.note}
        built = {**data, "took": took, "hits": {**outer, **total, **best, "hits": hits}, "ext": extra}
        text = _encode(built)
        return msgspec.json.format(text) + b"\n" if self._incoming.parameter("pretty") in ("", "true") else text


def _is_by_score(sort: Any) -> bool:
    """Whether a part of a sort is the order of scores, in one of the forms in which it can be asked for."""
    if isinstance(sort, dict):
        order = sort.get("_score") if len(sort) == 1 else None
        return (
            order.get("order", "desc") if isinstance(order, dict) and order.keys() <= {"order"} else order
        ) == "desc"
    return sort in ("_score", "_score:desc")


def _decode_any(value: Raw | None) -> dict[str, Any]:
    data = None if value is None else msgspec.json.decode(value)
    return data if isinstance(data, dict) else {}


def _raise_total(raw: Raw, least: int) -> Any:
    """The control's total, but not less than the documents that the caller can page to."""
    total = msgspec.json.decode(raw)
    if isinstance(total, dict) and isinstance(total.get("value"), int):
        return {**total, "value": max(total["value"], least)}
    return max(total, least) if isinstance(total, int) else total
