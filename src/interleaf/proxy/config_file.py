"""Reads and checks the configuration file of `interleaf proxy`, and reports all problems at once."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from interleaf.errors import ExperimentError, InterleafError, raise_errors
from interleaf.experiment import Experiment
from interleaf.experiment.settings import CHOOSE, SETTINGS
from interleaf.plain_data import fields_of
from interleaf.proxy import opensearch, solr
from interleaf.proxy.config import (
    OPENSEARCH,
    SECTIONS,
    SOLR,
    ClicksSection,
    ExperimentSection,
    ProxyConfig,
    RankerSection,
    RequestsSection,
    UpstreamSection,
)
from interleaf.proxy.recorders import read_key
from interleaf.proxy.tokens import read_signer
from interleaf.proxy.toml_sections import ConfigError, ConfigProblems, KeyLines
from interleaf.proxy.upstream import make_context

# The settings of an experiment that the proxy carries out without a service.
LOG_SETTINGS = (
    *("mode", "method", "share", "lane", "offset", "holdout", "events", "browser_events"),
    *("bot_agents", "bot_units", "bot_rate"),
)
# Fields and parameters that the proxy sets itself, or with which no search is interleaved: no ranker may set them.
_RESERVED = {*opensearch.BYPASS_FIELDS, *opensearch.BYPASS_FLAGS, *opensearch.CONTROL_ONLY, "from", "size"}
_RESERVED |= {"sort", "format", "track_total_hits"}
_RESERVED_BY_SOLR = {*solr.BYPASS_FLAGS, *solr.CONTROL_ONLY, "start", "rows", "wt", "sort", "fl"}
_SETTINGS = [name for name in SETTINGS if name not in ("name", "rankers", "control")]
_RANKERS = "rankers"
# The files that the proxy reads when it starts.
_READERS: dict[tuple[str, str], Callable[[Path], object]] = {
    ("proxy", "secret_file"): read_signer,
    ("upstream", "ca_file"): lambda path: make_context(str(path)),
    ("experiment", "key_file"): read_key,
}


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
    read: dict[str, Any] = {
        name: problems.read(kind, name, data.get(name, {}), _SETTINGS if name == "experiment" else ())
        for name, kind in SECTIONS.items()
    }
    read[_RANKERS] = _read_rankers(problems, data.get(_RANKERS, []))
    read["local"] = _read_experiment(problems, data.get("experiment"), read["experiment"], read[_RANKERS])
    if read["upstream"]:
        _check_engine(problems, read["upstream"], read["requests"], read["clicks"], read[_RANKERS])
    folder = Path(file).parent
    _check_files(problems, data, folder)
    raise_errors(problems.errors)
    return _with_folder(ProxyConfig(**read), folder)


def _read_rankers(problems: ConfigProblems, data: Any) -> tuple[RankerSection | None, ...]:
    """The rankers; None where one has a problem."""
    if not isinstance(data, list) or len(data) < 2:
        problems.add(_RANKERS, "", ": give at least two, each as a table [[rankers]]; the first one is the control")
        return ()
    rankers = tuple(problems.read(RankerSection, _place(number), one) for number, one in enumerate(data))
    names = [one and one.name for one in rankers]
    for number, name in enumerate(names):
        if name is not None and name in names[:number]:
            problems.add(_place(number), "name", f" is {name!r}, as of another ranker: rename one")
    for name in data[0] if isinstance(data[0], Mapping) else ():
        if name != "name" and name in fields_of(RankerSection):
            remedy = "the first ranker is the control, the search as it comes; give the key to another ranker"
            problems.add(_place(0), name, f": {remedy}")
    return rankers


def _place(number: int) -> str:
    return f"{_RANKERS}[{number}]"


def _read_experiment(
    problems: ConfigProblems, data: Any, section: ExperimentSection | None, rankers: tuple[RankerSection | None, ...]
) -> Experiment | None:
    """The experiment's settings if the file has them; they are checked as the service checks them."""
    if not isinstance(data, Mapping):
        return None
    if ("service" in data) == ("log" in data):
        problems.add("experiment", "", ": give the address of a service, or the folder of a log, and not both")
        return None
    settings = {name: value for name, value in data.items() if name in _SETTINGS}
    if "service" in data:
        for name in settings:
            problems.add("experiment", name, ": the service has this setting; leave it out, or give a log")
        return None
    if {"key_file", "spool"} & data.keys():
        problems.add("experiment", "log", ": key_file and spool are for a service; leave them out")
    used = {name: value for name, value in settings.items() if name in LOG_SETTINGS}
    for name in settings:
        if name not in used:
            remedy = "without a service, the proxy does not carry out this setting; leave it out"
            problems.add("experiment", name, f": {remedy} (`interleaf analyze` has options for reports)")
    before = len(problems.errors)
    problems.check_values("experiment", used, {name: SETTINGS[name] for name in LOG_SETTINGS})
    if used.get("mode") == CHOOSE:
        problems.add("experiment", "mode", f" is {CHOOSE!r}: the proxy always asks all rankers; give another")
    if len(problems.errors) > before:
        return None
    names = list(dict.fromkeys(one.name for one in rankers if one))
    if len(names) < max(2, len(rankers)):
        names = ["control", "candidate"]  # the problems of the rankers are reported already
    try:
        return Experiment.of(used | {"name": section.name if section else "shop", "rankers": names})
    except ExperimentError as error:
        problems.add("experiment", error.field, str(error).removeprefix(error.field))
    except InterleafError as error:
        problems.add("experiment", "", f": {error}")
    return None


def _check_engine(
    problems: ConfigProblems,
    upstream: UpstreamSection,
    requests: RequestsSection | None,
    clicks: ClicksSection | None,
    rankers: tuple[RankerSection | None, ...],
) -> None:
    """Check keys that only some engines have."""
    if upstream.ca_file and not upstream.url.startswith("https"):
        problems.add("upstream", "ca_file", ": the address begins with http; leave it out, or give one with https")
    if requests:
        _check_requests(problems, upstream.engine, requests)
    if upstream.engine == SOLR and clicks and clicks.ubi_index not in ("", ClicksSection().ubi_index):
        problems.add("clicks", "ubi_index", ": UBI events on their way to Solr are not read; leave it out")
    for number, ranker in enumerate(rankers):
        if ranker:
            _check_ranker(problems, upstream.engine, _place(number), ranker)


def _check_requests(problems: ConfigProblems, engine: str, requests: RequestsSection) -> None:
    if engine != SOLR:
        for path in requests.paths:
            if not path.endswith("/_search"):
                problems.add("requests", "paths", f" has {path!r}: {engine} searches at paths that end with '/_search'")
        if requests.id_field != RequestsSection(paths=()).id_field:
            problems.add("requests", "id_field", f": the id of a document of {engine} is its _id; leave it out")
        return
    if requests.query:
        problems.add("requests", "query", ": Solr has the text in the parameter q; leave it out")
    if any(condition.pointer for condition in requests.where):
        problems.add("requests", "where", ": Solr's searches have no JSON body; give a parameter or a header")


def _check_ranker(problems: ConfigProblems, engine: str, place: str, ranker: RankerSection) -> None:
    if engine != OPENSEARCH and ranker.search_pipeline:
        problems.add(place, "search_pipeline", f": {engine} has no search pipelines; leave it out")
    if engine == SOLR and ranker.template:
        problems.add(place, "template", ": Solr has no search templates; set parameters")
    if engine == SOLR and ranker.patch:
        problems.add(place, "patch", ": Solr's searches have no JSON body; set parameters")
    if ranker.template_parameters and not ranker.template:
        problems.add(place, "template_parameters", ": give the id of a template, too")
    if ranker.template and ranker.patch:
        problems.add(place, "patch", ": a template has no body to patch; give one of the two")
    reserved = _RESERVED_BY_SOLR if engine == SOLR else _RESERVED
    _refuse(problems, place, "parameters", reserved & ranker.parameters.keys())
    _refuse(problems, place, "patch", reserved & ranker.patch.keys() if engine != SOLR else ())
    _refuse(problems, place, "template_parameters", {"from", "size"} & ranker.template_parameters.keys())


def _refuse(problems: ConfigProblems, place: str, key: str, names: Iterable[str]) -> None:
    if names:
        remedy = "the proxy sets this itself, or cannot interleave such searches; leave it out"
        problems.add(place, key, f" has {', '.join(map(repr, sorted(names)))}: {remedy}")


def _check_files(problems: ConfigProblems, data: Mapping[str, Any], folder: Path) -> None:
    """Read the files that the proxy reads when it starts."""
    for (section, key), read in _READERS.items():
        table = data.get(section)
        value = table.get(key) if isinstance(table, Mapping) else None
        if isinstance(value, str):
            try:
                read(folder / value)
            except InterleafError as error:
                problems.add(section, key, f": {error}")


def _with_folder(config: ProxyConfig, folder: Path) -> ProxyConfig:
    """Resolve relative paths."""
    for section in (config.proxy, config.upstream, config.experiment):
        for name, value in list(vars(section).items()):
            if isinstance(value, Path):
                object.__setattr__(section, name, folder / value)
    return config
