"""Searches of Solr: what can be interleaved, the rankers' requests, and the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct, field

from interleaf.proxy.codes import BypassCode, BypassError, FailureCode
from interleaf.proxy.config import RankerSection, RequestsSection
from interleaf.proxy.json_pointer import find_value
from interleaf.proxy.opensearch import NOT_OF_A_RANKER
from interleaf.proxy.search_requests import (
    EngineRequest,
    Incoming,
    Page,
    Pairs,
    RankerAnswer,
    ResultPage,
    as_query_id,
    decrease,
    digest_of,
    is_true,
    read_number,
    read_pairs,
    read_whole,
    set_pairs,
    write_pairs,
)

DEFAULT_ROWS = "10"
FORM = "application/x-www-form-urlencoded"
# Parameters that ask for something that cannot be interleaved, if they are set.
BYPASS_FLAGS = {
    "cursorMark": BypassCode.SCROLL,
    "group": BypassCode.COLLAPSE,
    "expand": BypassCode.COLLAPSE,
    "debug": BypassCode.EXPLAIN,
    "debugQuery": BypassCode.EXPLAIN,
    "explainOther": BypassCode.EXPLAIN,
    "json": BypassCode.NOT_UNDERSTOOD,
    "stream.body": BypassCode.NOT_UNDERSTOOD,
}
BY_SCORE = re.compile(r"(score\s+desc(\s*,.*)?)?", re.DOTALL).fullmatch  # other keys order documents of the same score
ASK_FOR_DEFAULTS = [("echoParams", "all"), ("omitHeader", "false")]
# What only the control's answer is used for, and what switches it off for the other rankers.
CONTROL_ONLY = {"facet": ["false"], "stats": ["false"], "spellcheck": ["false"], "ubi": ["false"], "json.facet": []}
# Parameters that do not change the order of documents, with all that begin with their names and a dot: pages of one
# search may differ in them. Some belong to a field, such as `f.brand.facet.limit`; `_` is a random number of browsers.
NOT_OF_THE_ORDER = re.compile(
    r"(f\..+\.)?(facet|hl|stats|spellcheck|mlt|terms|debug)(\..*)?|json\.(facet|nl)|"
    "start|rows|fl|wt|indent|version|omitHeader|echoParams|debugQuery|explainOther|query_id|ubi|_"
).fullmatch
_decode_raw = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_documents = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_encode = msgspec.json.Encoder().encode


class _EchoHeader(Struct):
    params: dict[str, Any]


class _Echo(Struct):
    """What an answer with `echoParams=all` says of the parameters."""

    header: _EchoHeader = field(name="responseHeader")


class SolrSearch:
    """One search: a request to a search handler such as `/select`, with its parameters in the URL or in a form."""

    body = None

    def __init__(self, incoming: Incoming, section: RequestsSection, link: tuple[str, ...] | None = None) -> None:
        self._incoming, self._id, self._link = incoming, section.id_field, link
        self._parameters = list(incoming.parameters)
        if incoming.plain:
            if incoming.header(b"content-type").partition(";")[0].strip().lower() != FORM:
                raise BypassError(BypassCode.NOT_UNDERSTOOD)  # Solr's JSON requests
            self._parameters += read_pairs(incoming.plain)
        self.digest = digest_of(incoming.path, [pair for pair in self._parameters if not NOT_OF_THE_ORDER(pair[0])])
        self.add_defaults([])

    @property
    def defaults_request(self) -> EngineRequest:
        """A request without a query, so it finds nothing; the answer has the parameters that the handler adds."""
        pairs = [pair for pair in self._parameters if pair[0] in ("useParams", "wt")]
        target = self._incoming.path.encode("latin-1") + b"?" + write_pairs([*pairs, *ASK_FOR_DEFAULTS])
        headers = [pair for pair in self._incoming.headers if pair[0] not in (*NOT_OF_A_RANKER, b"content-type")]
        return EngineRequest(b"GET", target, headers, b"")

    def read_defaults(self, body: bytes) -> Pairs:
        try:
            values = msgspec.json.decode(body, type=_Echo).header.params
        except (ValueError, RecursionError):  # also bytes that are not UTF-8
            raise BypassError(FailureCode.ANSWER_NOT_UNDERSTOOD) from None
        defaults = dict(ASK_FOR_DEFAULTS)
        if values.get("echoParams") != defaults["echoParams"]:  # Solr is set to say less
            raise BypassError(FailureCode.ANSWER_NOT_UNDERSTOOD)
        pairs = [
            (name, one) for name, value in values.items() for one in (value if isinstance(value, list) else [value])
        ]
        return [(name, str(one)) for name, one in pairs if name not in defaults]

    def add_defaults(self, defaults: Pairs) -> None:
        own = {name for name, _ in self._parameters}
        self._effective = self._parameters + [(name, one) for name, one in defaults if name not in own or name == "fq"]
        self._fields = [
            one for name, value in self._effective if name == "fl" for one in value.replace(",", " ").split()
        ]
        self._check_parameters()
        first, rows = self._first("start") or "0", self._first("rows") or DEFAULT_ROWS
        self.window = ResultPage(read_whole(first), read_whole(rows))
        if not self.window.size:
            raise BypassError(BypassCode.NO_HITS)
        self._adds_id = bool(self._fields) and not any(fnmatchcase(self._id, one) for one in self._fields)
        self.query = self._first("q") or self.digest.hex()

    def _first(self, name: str) -> str | None:
        """The first value of a parameter, as Solr reads it."""
        return next((value for key, value in self._effective if key == name), None)

    def _check_parameters(self) -> None:
        if (self._first("wt") or "json").lower() != "json":
            raise BypassError(BypassCode.NOT_JSON)
        for name, value in self._effective:
            code = BYPASS_FLAGS.get(name)
            if code is not None and is_true(value):
                raise BypassError(code)
            if name.startswith("json.") and name not in ("json.facet", "json.nl"):
                raise BypassError(BypassCode.NOT_UNDERSTOOD)
            if name == "fq" and "{!collapse" in value:
                raise BypassError(BypassCode.COLLAPSE)
            if name == "sort" and not BY_SCORE(value.strip().lower()):
                raise BypassError(BypassCode.SORT)
            if name == "fl" and "[explain" in value:
                raise BypassError(BypassCode.EXPLAIN)
        if any(one.startswith(f"{self._id}:") for one in self._fields):  # another field under the name of the id
            raise BypassError(BypassCode.NOT_UNDERSTOOD)

    def request_of(self, ranker: RankerSection, size: int, is_control: bool) -> EngineRequest:
        values: dict[str, Any] = {} if is_control else dict(CONTROL_ONLY)
        values |= {"start": ["0"], "rows": [str(size)], "wt": ["json"]}
        if self._adds_id:
            values["fl"] = [",".join([*self._fields, self._id])]
        parameters = set_pairs(set_pairs(self._parameters, ranker.parameters), values)
        path = self._incoming.path
        if ranker.index:
            outer, _, handler = path.rstrip("/").rpartition("/")
            path = f"{outer.rpartition('/')[0]}/{quote(ranker.index, safe='')}/{handler}"
        headers = [pair for pair in self._incoming.headers if pair[0] not in NOT_OF_A_RANKER]
        if self._incoming.method == b"GET":
            return EngineRequest(b"GET", path.encode("latin-1") + b"?" + write_pairs(parameters), headers, b"")
        headers = [*(pair for pair in headers if pair[0] != b"content-type"), (b"content-type", FORM.encode())]
        return EngineRequest(b"POST", path.encode("latin-1"), headers, write_pairs(parameters))

    def combine(self, requests: list[EngineRequest]) -> EngineRequest | None:
        return None

    def split(self, body: bytes) -> list[tuple[int, bytes]]:
        raise BypassError(FailureCode.ANSWER_NOT_UNDERSTOOD)

    def read_answer(self, body: bytes) -> RankerAnswer:
        try:
            data = _decode_raw(body)
            outer = _decode_raw(data["response"])
            documents = _decode_documents(outer["docs"])
            ids = [str(msgspec.json.decode(one[self._id], type=str | int)) for one in documents]
        except (ValueError, KeyError, RecursionError):  # also bytes that are not UTF-8
            raise BypassError(FailureCode.ANSWER_NOT_UNDERSTOOD) from None
        header = _decode_raw(data["responseHeader"]) if "responseHeader" in data else {}
        took = read_number(header.get("QTime"))
        return RankerAnswer(ids, list(zip(ids, documents, strict=True)), (data, outer), took)

    def find_query_id(self, answer: RankerAnswer) -> str | None:
        try:
            ubi = msgspec.json.decode(answer.data[0].get("ubi", b"null"))
        except msgspec.DecodeError:
            return None
        return self._first("query_id") or as_query_id(ubi)

    def build(self, control: str, answers: Mapping[str, RankerAnswer], page: Page) -> bytes:
        in_order = [answers[name] for name in sorted(answers, key=lambda name: name != control)]
        hits_by_document: dict[str, dict[str, Raw]] = {}
        for answer in in_order:  # people see a document as the control shows it
            for name, document in answer.hits:
                hits_by_document.setdefault(name, document)
        scores = decrease([_read_score(hits_by_document[name]) for name in [*page.before, *page.documents]])
        documents = list[dict[str, Any]]()
        for name, score in zip(page.documents, scores[len(page.before) :], strict=True):
            shown: dict[str, Any] = {**hits_by_document[name]}
            if score is not None:
                shown["score"] = score
            if self._adds_id:
                del shown[self._id]
            documents.append(shown)
        if self._link is not None:
            page.add_links([find_value(msgspec.json.decode(_encode(one)), self._link) for one in documents])
        data, outer = answers[control].data
        response: dict[str, Any] = {**outer, "start": page.window.first, "docs": documents}
        if "numFound" in outer:
            response["numFound"] = max(msgspec.json.decode(outer["numFound"], type=int), page.mixed)
        if "maxScore" in outer and scores and scores[0] is not None:
            response["maxScore"] = scores[0]
        built: dict[str, Any] = {**data, "response": response, "interleaf": page.note}
        if "responseHeader" in data:
            built["responseHeader"] = self._restore_header(data["responseHeader"], in_order)
        if "highlighting" in data:
            built["highlighting"] = _pick_highlights(in_order, page.documents)
        text = _encode(built)
        return msgspec.json.format(text) + b"\n" if is_true(self._first("indent")) else text

    def _restore_header(self, raw: Raw, answers: list[RankerAnswer]) -> dict[str, Any]:
        """The control's header with the longest time, and with the parameters that the caller sent."""
        header: dict[str, Any] = {**_decode_raw(raw)}
        header["QTime"] = max(one.took for one in answers)
        if "params" in header:
            echoed: dict[str, Any] = {**_decode_raw(header["params"])}
            echoes_all = msgspec.json.decode(echoed.get("echoParams", b"null")) == "all"
            for name in ("start", "rows", "wt", "fl"):
                echoed.pop(name, None)
                pairs = self._effective if echoes_all else self._parameters
                values = [value for key, value in pairs if key == name]
                if values:
                    echoed[name] = values[0] if len(values) == 1 else values
            header["params"] = echoed
        return header


def _read_score(document: Mapping[str, Raw]) -> float | None:
    score = msgspec.json.decode(document.get("score", b"null"))
    return float(score) if isinstance(score, int | float) else None


def _pick_highlights(answers: list[RankerAnswer], documents: list[str]) -> dict[str, Raw]:
    """The highlights of the shown documents, of the control where it has them."""
    highlights: dict[str, Raw] = {}
    for answer in answers:
        for name, value in _decode_raw(answer.data[0].get("highlighting", b"{}")).items():
            highlights.setdefault(name, value)
    return {name: highlights[name] for name in documents if name in highlights}
