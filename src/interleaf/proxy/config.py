"""The sections of the configuration file of `interleaf proxy`, with their keys."""

from __future__ import annotations

import json
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from interleaf.experiment import Experiment
from interleaf.plain_data import Label, Name, convert, declare, one_of
from interleaf.proxy.json_pointer import Pointer

OPENSEARCH, ELASTICSEARCH, SOLR = "opensearch", "elasticsearch", "solr"
MAX_DEPTH = 1000  # documents of a ranking that the service takes


def split_address(text: str) -> tuple[str, int]:
    """Host and port of an address to listen on."""
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _check_address(text: str) -> str:
    host, port = split_address(text)
    if not 0 < port < 2**16:
        raise ValueError("give a port from 1 to 65535")
    if host != "localhost":
        try:
            ip_address(host)
        except ValueError:
            raise ValueError("give an IP address and a port, such as '127.0.0.1:9201' or '0.0.0.0:9201'") from None
    return text


def _check_url(text: str) -> str:
    """Check the address of a server: scheme, host, perhaps port and path."""
    remedy = "give an address such as 'http://127.0.0.1:9200'"
    try:
        parts = urlsplit(text)
        is_valid = text.isprintable() and " " not in text and parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        raise ValueError(remedy) from None
    if not is_valid or not parts.hostname:
        raise ValueError(remedy)
    if parts.username or parts.password:
        raise ValueError("leave name and password out: the credentials of the caller are sent, and no others")
    if parts.query or parts.fragment:
        raise ValueError(f"{remedy}, without '?' and '#'")
    return text


class IndexName(str):
    """The name of an index; the empty name, which is written as `false`, stands for none."""

    @classmethod
    def parse(cls, value: Any) -> IndexName:
        return cls() if value is False else cls(convert(value, Text))


class ParameterValues(tuple[str, ...]):
    """The values of a URL parameter; `false` removes the parameter."""

    @classmethod
    def parse(cls, value: Any) -> ParameterValues:
        values = value if isinstance(value, list) else [] if value is False else [value]
        if not all(isinstance(one, str | int | float | bool) for one in values):
            raise ValueError(f"{value!r:.100} is invalid; give a text, a number, or a list of them")
        return cls(str(one).lower() if isinstance(one, bool) else str(one) for one in values)


class MergePatch(dict[str, Any]):
    """A JSON merge patch (RFC 7396): a table, or its JSON text, where null removes a field."""

    @classmethod
    def parse(cls, value: Any) -> MergePatch:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError as error:
                raise ValueError(f"this JSON cannot be read: {error}") from None
        if not isinstance(value, dict):
            raise ValueError("give a table, or a JSON object as text, where null removes a field")
        try:
            json.dumps(value)
        except TypeError as error:
            raise ValueError(f"it has a value that JSON does not have: {error}") from None
        return cls(value)


Text = Annotated[str, Meta(min_length=1)]
HttpUrl = Annotated[str, _check_url, "give an address such as 'http://127.0.0.1:9200'"]
HeaderName = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"), "give a name of letters, digits and '-'"
]
PathPattern = Annotated[str, Meta(pattern=r"^(/[A-Za-z0-9._~*,:@+-]+)+$")]  # `*` stands for one part of a path


class Condition(Struct, frozen=True, forbid_unknown_fields=True):
    """What must hold: a value of the JSON body, a URL parameter or a header; `equals` None means that it is there."""

    pointer: Pointer | None = None
    parameter: str | None = None
    header: str | None = None
    equals: Any = None

    def __post_init__(self) -> None:
        if [self.pointer, self.parameter, self.header].count(None) != 2:
            raise ValueError("give one of pointer, parameter and header, and perhaps equals")
        convert(self.parameter, Text | None)
        convert(self.header, HeaderName | None)


@dataclass(frozen=True)
class ListenSection:
    """Where the proxy listens, and what it accepts."""

    listen: Annotated[
        str, Meta(pattern=r"^.*:[0-9]{1,5}\Z"), "give an address and a port, such as '127.0.0.1:9201'", _check_address
    ] = declare("address and port to listen on", "127.0.0.1:9201")
    secret_file: Path | None = declare(
        "file with the secret that signs tokens and links; without it, tokens become invalid at a restart", None
    )
    max_connections: Annotated[int, Meta(ge=1, le=100_000)] = declare("open connections of callers", 2000)
    max_body: Annotated[int, Meta(ge=1000, le=10**8)] = declare(
        "largest body of a search that is interleaved, in bytes", 10**6
    )
    body_seconds: Annotated[float, Meta(ge=1, le=86_400)] = declare("time that a caller has to send a body", 600.0)


@dataclass(frozen=True)
class UpstreamSection:
    """The search engine."""

    engine: Annotated[str, one_of((OPENSEARCH, ELASTICSEARCH, SOLR))] = declare("the kind of search engine")
    url: HttpUrl = declare("the address of the search engine")
    connect_seconds: Annotated[float, Meta(ge=0.01, le=300)] = declare("time to connect to the engine", 5.0)
    read_seconds: Annotated[float, Meta(ge=0.01, le=86_400)] = declare(
        "longest time without a byte from the engine", 300.0
    )
    max_connections: Annotated[int, Meta(ge=1, le=10_000)] = declare("open connections to the engine", 256)
    max_answer: Annotated[int, Meta(ge=1000, le=10**9)] = declare(
        "largest answer to a ranker's search, in bytes", 10**7
    )
    ca_file: Path | None = declare("certificates to trust, for https", None)


@dataclass(frozen=True)
class ExperimentSection:
    """The experiment, and where its impressions go: to a service, or to a log on this machine."""

    name: Name = declare("name of the experiment")
    service: HttpUrl | None = declare("address of the interleaf service", None)
    key_file: Path | None = declare("file with a key of the role ingest", None)
    spool: Path | None = declare("folder for impressions while the service is away", None)
    log: Path | None = declare("folder of the log, if there is no service", None)


@dataclass(frozen=True)
class RequestsSection:
    """Which requests take part, and how they are answered."""

    paths: Annotated[
        tuple[PathPattern, ...], Meta(min_length=1), "give a list of paths, such as '/products/_search' or '/*/_search'"
    ] = declare("paths of the searches that take part")
    methods: Annotated[
        tuple[Literal["GET", "POST"], ...], Meta(min_length=1), 'give "GET", "POST" or both, in a list'
    ] = declare("methods of these searches", ("GET", "POST"))
    where: Annotated[
        tuple[Condition, ...],
        'give a list such as [{ pointer = "/ext/page", equals = "results" }, { parameter = "channel" }], each '
        "with one of pointer, parameter and header, and perhaps equals",
    ] = declare("conditions, which must all hold", ())
    query: Pointer | None = declare("where the body has the text that the user typed", None)
    id_field: Text = declare("field with the id of a document, for Solr", "id")
    depth: Annotated[int, Meta(ge=1, le=MAX_DEPTH)] = declare("documents of each ranker that are interleaved", 50)
    max_rank: Annotated[int, Meta(ge=1, le=10_000)] = declare("deepest rank that is answered", 1000)
    time_budget_ms: Annotated[float, Meta(ge=1, le=60_000)] = declare("time for rankers other than the control", 500.0)


@dataclass(frozen=True)
class UnitSection:
    """Where the user id comes from: the header, else the cookie, else a cookie of the proxy."""

    header: HeaderName | None = declare("header with the user id", None)
    cookie: HeaderName | None = declare("cookie with the user id; it is hashed", None)
    own_cookie: bool = declare("give users without an id a cookie", True)
    secure_cookie: bool = declare("browsers send that cookie over https only", True)


@dataclass(frozen=True)
class ClicksSection:
    """How clicks come back."""

    link: Pointer | None = declare(
        "where a hit has its URL, such as '/_source/url': the answer gets a link that counts clicks", None
    )
    ubi_index: IndexName = declare("index of UBI events; false: they are not read", "ubi_events")


@dataclass(frozen=True)
class RankerSection:
    """How a ranker's request is made from the incoming one; the control has no key, so it gets the incoming one."""

    name: Label = declare("name of the ranker")
    index: Text | None = declare("index, or collection of Solr, in place of the one in the path", None)
    search_pipeline: Text | None = declare("search pipeline of OpenSearch", None)
    template: Text | None = declare("id of a stored search template", None)
    template_parameters: Annotated[
        dict[str, Pointer], 'give a table, such as { query = "/query/match/title/query" }'
    ] = declare("parameters of the template, and where the body has them", {})
    parameters: Annotated[dict[str, ParameterValues], 'give a table, such as { qf = "title^3 text", bq = false }'] = (
        declare("URL parameters to set or remove", {})
    )
    patch: MergePatch = declare("JSON merge patch of the body", {})


@dataclass(frozen=True)
class ProxyConfig:
    """The whole file. `local` has the experiment's settings if there is no service; the first ranker is the control."""

    proxy: ListenSection
    upstream: UpstreamSection
    experiment: ExperimentSection
    requests: RequestsSection
    unit: UnitSection
    clicks: ClicksSection
    rankers: tuple[RankerSection, ...]
    local: Experiment | None

    @property
    def control(self) -> str:
        """The name of the control."""
        return self.rankers[0].name


SECTIONS: dict[str, type] = {
    "proxy": ListenSection,
    "upstream": UpstreamSection,
    "experiment": ExperimentSection,
    "requests": RequestsSection,
    "unit": UnitSection,
    "clicks": ClicksSection,
}
