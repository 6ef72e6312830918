"""The sections of the configuration file of `interleaf proxy`, with their keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleaf.experiment import Experiment
from interleaf.experiment.limits import MAX_LABEL
from interleaf.experiment.setting_kinds import Choice, Name, Number, Text
from interleaf.proxy import key_kinds as kinds
from interleaf.proxy.toml_sections import toml_key

OPENSEARCH, ELASTICSEARCH, SOLR = "opensearch", "elasticsearch", "solr"
MAX_DEPTH = 1000  # documents of a ranking that the service takes


@dataclass(frozen=True)
class ListenSection:
    """Where the proxy listens, and what it accepts."""

    listen: tuple[str, int] = toml_key(kinds.Address(), "address and port to listen on", ("127.0.0.1", 9201))
    secret_file: Path | None = toml_key(
        kinds.FilePath(),
        "file with the secret that signs tokens and links; without it, tokens become invalid at a restart",
        None,
    )
    max_connections: int = toml_key(Number(1, 100_000, True), "open connections of callers", 2000)
    max_body: int = toml_key(Number(1000, 10**8, True), "largest body of a search that is interleaved, in bytes", 10**6)
    body_seconds: float = toml_key(Number(1, 86_400), "time that a caller has to send a body", 600.0)


@dataclass(frozen=True)
class UpstreamSection:
    """The search engine."""

    engine: str = toml_key(Choice((OPENSEARCH, ELASTICSEARCH, SOLR)), "the kind of search engine")
    url: str = toml_key(kinds.HttpUrl(), "the address of the search engine")
    connect_seconds: float = toml_key(Number(0.01, 300), "time to connect to the engine", 5.0)
    read_seconds: float = toml_key(Number(0.01, 86_400), "longest time without a byte from the engine", 300.0)
    max_connections: int = toml_key(Number(1, 10_000, True), "open connections to the engine", 256)
    max_answer: int = toml_key(Number(1000, 10**9, True), "largest answer to a ranker's search, in bytes", 10**7)
    ca_file: Path | None = toml_key(kinds.FilePath(), "certificates to trust, for https", None)


@dataclass(frozen=True)
class ExperimentSection:
    """The experiment, and where its impressions go: to a service, or to a log on this machine."""

    name: str = toml_key(Name(), "name of the experiment")
    service: str | None = toml_key(kinds.HttpUrl(), "address of the interleaf service", None)
    key_file: Path | None = toml_key(kinds.FilePath(), "file with a key of the role ingest", None)
    spool: Path | None = toml_key(kinds.FilePath(), "folder for impressions while the service is away", None)
    log: Path | None = toml_key(kinds.FilePath(), "folder of the log, if there is no service", None)


@dataclass(frozen=True)
class RequestsSection:
    """Which requests take part, and how they are answered."""

    paths: tuple[str, ...] = toml_key(kinds.PathPatterns(), "paths of the searches that take part")
    methods: tuple[str, ...] = toml_key(kinds.Methods(), "methods of these searches", ("GET", "POST"))
    where: tuple[kinds.Condition, ...] = toml_key(kinds.Conditions(), "conditions, which must all hold", ())
    query: tuple[str, ...] | None = toml_key(kinds.Pointer(), "where the body has the text that the user typed", None)
    id_field: str = toml_key(kinds.AnyText(), "field with the id of a document, for Solr", "id")
    depth: int = toml_key(Number(1, MAX_DEPTH, True), "documents of each ranker that are interleaved", 50)
    max_rank: int = toml_key(Number(1, 10_000, True), "deepest rank that is answered", 1000)
    time_budget_ms: float = toml_key(Number(1, 60_000), "time for rankers other than the control", 500.0)


@dataclass(frozen=True)
class UnitSection:
    """Where the user id comes from: the header, else the cookie, else a cookie of the proxy."""

    header: str | None = toml_key(kinds.HeaderName(), "header with the user id", None)
    cookie: str | None = toml_key(kinds.HeaderName(), "cookie with the user id; it is hashed", None)
    own_cookie: bool = toml_key(kinds.YesNo(), "give users without an id a cookie", True)
    secure_cookie: bool = toml_key(kinds.YesNo(), "browsers send that cookie over https only", True)


@dataclass(frozen=True)
class ClicksSection:
    """How clicks come back."""

    link: tuple[str, ...] | None = toml_key(
        kinds.Pointer(),
        "where a hit has its URL, such as '/_source/url': the answer gets a link that counts clicks",
        None,
    )
    ubi_index: str | None = toml_key(kinds.TextOrFalse(), "index of UBI events; false: they are not read", "ubi_events")


@dataclass(frozen=True)
class RankerSection:
    """How a ranker's request is made from the incoming one; the control has no key, so it gets the incoming one."""

    name: str = toml_key(Text(MAX_LABEL), "name of the ranker")
    index: str | None = toml_key(kinds.AnyText(), "index, or collection of Solr, in place of the one in the path", None)
    search_pipeline: str | None = toml_key(kinds.AnyText(), "search pipeline of OpenSearch", None)
    template: str | None = toml_key(kinds.AnyText(), "id of a stored search template", None)
    template_parameters: dict[str, tuple[str, ...]] = toml_key(
        kinds.Pointers(), "parameters of the template, and where the body has them", {}
    )
    parameters: dict[str, tuple[str, ...]] = toml_key(kinds.Parameters(), "URL parameters to set or remove", {})
    patch: dict[str, Any] = toml_key(kinds.MergePatch(), "JSON merge patch of the body", {})


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
