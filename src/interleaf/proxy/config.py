"""The TOML file of `interleaf proxy`: reads it, checks it, and reports all problems at once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleaf.errors import ExperimentError, InterleafError, raise_errors
from interleaf.experiment import Experiment
from interleaf.experiment.limits import MAX_LABEL
from interleaf.experiment.setting_kinds import Choice, Name, Number, Text
from interleaf.experiment.settings import SETTINGS
from interleaf.proxy import key_kinds as kinds
from interleaf.proxy.toml_sections import ConfigError, ConfigProblems, KeyLines, toml_key

OPENSEARCH, ELASTICSEARCH, SOLR = "opensearch", "elasticsearch", "solr"
MAX_DEPTH = 1000  # documents of a ranking that the service takes


@dataclass(frozen=True)
class ListenSection:
    """Where the proxy listens, and what it accepts."""

    listen: tuple[str, int] = toml_key(kinds.Address(), "address and port to listen on", ("127.0.0.1", 9201))
    secret_file: Path | None = toml_key(
        kinds.FilePath(),
        "file with the secret that signs tokens and links; without it, they end with the process",
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
    ubi_index: str | None = toml_key(kinds.AnyText(), "index of UBI events; null: they are not read", "ubi_events")


@dataclass(frozen=True)
class RankerSection:
    """How a ranker's request is made from the incoming one; without any key, it is the incoming one."""

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
_RANKERS = "rankers"


def read_config(path: str | Path) -> ProxyConfig:
    """Read and check a file; one error lists all problems."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    return parse_config(text, str(path))


def parse_config(text: str, file: str) -> ProxyConfig:
    """Check the text of a file; relative paths begin at its folder."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from None
    problems = ConfigProblems(file, KeyLines(text))
    for name in data:
        if name not in (*SECTIONS, _RANKERS):
            sections = ", ".join([*(f"[{one}]" for one in SECTIONS), f"[[{_RANKERS}]]"])
            problems.add(name, "", f": there is no such section; there are {sections}")
    settings = [name for name in SETTINGS if name not in ("name", "rankers", "control")]
    read: dict[str, Any] = {
        name: problems.read(kind, name, data.get(name, {}), settings if name == "experiment" else ())
        for name, kind in SECTIONS.items()
    }
    read[_RANKERS] = _read_rankers(problems, data.get(_RANKERS, []))
    read["local"] = _read_experiment(problems, data.get("experiment"), read["experiment"], read[_RANKERS])
    if read["upstream"]:
        _check_engine(problems, read["upstream"].engine, read["requests"], read[_RANKERS])
    raise_errors(problems.errors)
    return _with_folder(ProxyConfig(**read), Path(file).parent)


def _read_rankers(problems: ConfigProblems, data: Any) -> tuple[RankerSection, ...]:
    if not isinstance(data, list) or len(data) < 2:
        problems.add(_RANKERS, "", ": give at least two, each as a table [[rankers]]; the first one is the control")
        return ()
    read = [problems.read(RankerSection, f"{_RANKERS}[{number}]", one) for number, one in enumerate(data)]
    rankers = tuple(one for one in read if one is not None)
    names = [one.name for one in rankers]
    for number, one in enumerate(rankers):
        if one.name in names[:number]:
            problems.add(f"{_RANKERS}[{number}]", "name", f" is {one.name!r}, as of another ranker: rename one")
    return rankers if len(rankers) == len(data) else ()


def _read_experiment(
    problems: ConfigProblems, data: Any, section: ExperimentSection | None, rankers: tuple[RankerSection, ...]
) -> Experiment | None:
    """The experiment's settings if the file has them; they are checked as the service checks them."""
    if section is None:
        return None
    if (section.service is None) == (section.log is None):
        problems.add("experiment", "", ": give the address of a service, or the folder of a log, and not both")
        return None
    own = set(ExperimentSection.__dataclass_fields__) - {"name"}
    settings = {name: value for name, value in data.items() if name not in own}
    if section.service is not None:
        for name in settings.keys() - {"name"}:
            problems.add("experiment", name, ": the service has this setting; leave it out, or give a log")
        return None
    if section.key_file or section.spool:
        problems.add("experiment", "log", ": key_file and spool are for a service; leave them out")
    names = [one.name for one in rankers] or ["control", "candidate"]  # their own problems are reported already
    try:
        return Experiment.of({**settings, "rankers": names, "control": names[0]})
    except ExperimentError as error:
        problems.add("experiment", error.field, str(error).removeprefix(error.field))
    except InterleafError as error:
        problems.add("experiment", "", f": {error}")
    return None


def _check_engine(
    problems: ConfigProblems, engine: str, requests: RequestsSection | None, rankers: tuple[RankerSection, ...]
) -> None:
    """Check keys that only some engines have."""
    for path in requests.paths if requests else ():
        end = "/select" if engine == SOLR else "/_search"
        if engine != SOLR and not path.endswith(end):
            problems.add("requests", "paths", f" has {path!r}: {engine} searches at paths that end with {end!r}")
    for number, ranker in enumerate(rankers):
        place = f"{_RANKERS}[{number}]"
        if engine != OPENSEARCH and ranker.search_pipeline:
            problems.add(place, "search_pipeline", f": {engine} has no search pipelines; leave it out")
        if engine == SOLR and ranker.template:
            problems.add(place, "template", ": Solr has no search templates; set parameters")
        if ranker.template_parameters and not ranker.template:
            problems.add(place, "template_parameters", ": give the id of a template, too")
        if ranker.template and ranker.patch:
            problems.add(place, "patch", ": a template has no body to patch; give one of the two")


def _with_folder(config: ProxyConfig, folder: Path) -> ProxyConfig:
    """Resolve relative paths."""
    for section in (config.proxy, config.upstream, config.experiment):
        for name, value in list(vars(section).items()):
            if isinstance(value, Path):
                object.__setattr__(section, name, folder / value)
    return config
