"""The TOML file: what it means, and all its errors at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interleaf.cli import main
from interleaf.errors import InterleafError
from interleaf.proxy.config_file import parse_config, read_config
from interleaf.proxy.launch import describe
from tests.support.paths import ROOT
from tests.support.proxies import config_text

BROKEN = """\
[upstream]
engine = "sphinx"
url = "http://user:secret@127.0.0.1:9200"

[experiment]
name = "shop"
log = "log"
share = 2

[requests]
paths = ["products"]
dept = 5
time_budget_ms = "fast"

[unit]
header = "X User"

[extra]

[[rankers]]
name = "production"

[[rankers]]
name = "production"
patch = "{"
"""


SOLR = {"engine": "solr", "path": "/solr/*/select", "candidate": ""}


def problems(text: str, folder: Path = Path()) -> list[str]:
    with pytest.raises(InterleafError) as caught:
        parse_config(text, str(folder / "proxy.toml"))
    return [str(one) for one in caught.value.problems or (caught.value,)]


def test_all_errors_are_listed_with_line_key_and_remedy() -> None:
    listed = problems(BROKEN)
    starts = [
        "proxy.toml, line 18: extra: there is no such section",
        "proxy.toml, line 2: upstream.engine is 'sphinx': give 'opensearch', 'elasticsearch' or 'solr'",
        "proxy.toml, line 3: upstream.url is 'http://***127.0.0.1:9200': leave name and password out",
        "proxy.toml, line 8: experiment.share is 2: give a number from 0.0001 to 1",
        "proxy.toml, line 12: requests.dept: there is no such key",
        "proxy.toml, line 11: requests.paths is ['products']: 'products' is invalid; give a list of paths",
        "proxy.toml, line 13: requests.time_budget_ms is 'fast': give a number from 1 to 60,000",
        "proxy.toml, line 16: unit.header is 'X User': give a name of letters",
        "proxy.toml, line 25: rankers[1].patch is '{': this JSON cannot be read",
    ]
    assert len(listed) == len(starts), listed
    assert all(any(one.startswith(start) for one in listed) for start in starts), listed
    assert any("did you mean 'depth'?" in one for one in listed)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"experiment": ""}, "experiment: give the address of a service, or the folder of a log"),
        ({"experiment": 'log = "a"\nservice = "http://127.0.0.1:1"'}, "and not both"),
        ({"experiment": 'service = "http://127.0.0.1:1"\nshare = 0.5'}, "experiment.share: the service has this"),
        ({"experiment": 'log = "a"\nspool = "b"'}, "key_file and spool are for a service"),
        ({"experiment": 'log = "a"\nshare = 2'}, "experiment.share is 2: give a number from 0.0001 to 1"),
        ({"experiment": 'log = "a"\nmethod = "tema_draft"'}, "experiment.method is 'tema_draft'"),
        ({"path": "/products/_count"}, "opensearch searches at paths that end with '/_search'"),
        (SOLR | {"candidate": 'template = "x"'}, "rankers[1].template: Solr has no search templates"),
        ({"engine": "elasticsearch", "candidate": 'search_pipeline = "x"'}, "elasticsearch has no search pipelines"),
        ({"candidate": 'template_parameters = { q = "/a" }'}, "template_parameters: give the id of a template"),
        ({"candidate": 'template = "x"\npatch = { a = 1 }'}, "a template has no body to patch"),
        ({"candidate": "patch = { a = 2020-01-01 }"}, "it has a value that JSON does not have"),
        ({"candidate": "parameters = { a = true, b = [1, {}] }"}, "give a text, a number, or a list of them"),
        ({"requests": "where = [{ pointer = '/a', header = 'b' }]"}, "one of pointer, parameter and header"),
        ({"proxy": 'listen = "example.org:80"'}, "give an IP address and a port"),
        ({"proxy": "listen = 9201"}, "give an address and a port"),
        ({"proxy": 'listen = "127.0.0.1:70000"'}, "give a port from 1 to 65535"),
        ({"requests": "methods = [{ a = 1 }]"}, 'give "GET", "POST" or both'),
        ({"requests": "where = [{ header = 'X A' }]"}, "{{'header': 'X A'}} is invalid; give a name of letters"),
        ({"clicks": '[clicks]\nlink = "url"'}, "give a JSON pointer"),
        ({"unit": "own_cookie = 1"}, "unit.own_cookie is 1: give true or false"),
        ({"clicks": "[clicks]\nubi_index = true"}, "clicks.ubi_index is True: give a text"),
        ({"proxy": 'secret_file = "none"'}, "proxy.secret_file: cannot read the secret"),
        ({"proxy": 'secret_file = "short"'}, "proxy.secret_file: {folder}/short holds 5 bytes"),
        ({"experiment": 'service = "http://a"\nkey_file = "none"'}, "experiment.key_file: cannot read the key"),
        ({"experiment": 'log = "a"\nmode = "choose"'}, "experiment.mode is 'choose': the proxy always asks all"),
        ({"experiment": 'log = "a"\nstop_when = ["budget"]'}, "experiment.stop_when: without a service, the proxy"),
        ({"experiment": 'log = "a"\nmax_units = 10'}, "experiment.max_units: without a service, the proxy does not"),
        ({"experiment": 'log = "a"\nwindow_minutes = 5'}, "experiment.window_minutes: without a service, the proxy"),
        ({"experiment": 'log = "a"\nk = 20'}, "experiment.k: without a service, the proxy does not carry out"),
        ({"experiment": 'log = "a"\nrankers = ["a", "b"]'}, "experiment.rankers: there is no such key"),
        ({"requests": 'id_field = "sku"'}, "requests.id_field: the id of a document of opensearch is its _id"),
        ({"candidate": "patch = { sort = [{ price = 'asc' }] }"}, "rankers[1].patch has 'sort': the proxy sets"),
        ({"candidate": "patch = { search_after = [1], collapse = {} }"}, "patch has 'collapse', 'search_after'"),
        ({"candidate": "patch = { aggs = {}, size = 3 }"}, "rankers[1].patch has 'aggs', 'size'"),
        ({"candidate": "parameters = { from = '5', size = '3' }"}, "rankers[1].parameters has 'from', 'size'"),
        ({"candidate": 'template = "x"\ntemplate_parameters = { size = "/a" }'}, "template_parameters has 'size'"),
        (SOLR | {"query": "query = '/a'"}, "requests.query: Solr has the text in the parameter q; leave it out"),
        (SOLR | {"candidate": "patch = { a = 1 }"}, "rankers[1].patch: Solr's searches have no JSON body"),
        (SOLR | {"candidate": "parameters = { rows = 3 }"}, "rankers[1].parameters has 'rows': the proxy sets"),
        (SOLR | {"requests": "where = [{ pointer = '/a' }]"}, "requests.where: Solr's searches have no JSON body"),
        (SOLR | {"clicks": "[clicks]\nubi_index = 'mine'"}, "clicks.ubi_index: UBI events on their way to Solr"),
    ],
)
def test_errors_of_single_keys(changes: dict[str, str], expected: str, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("short")
    text = config_text("http://127.0.0.1:9200", tmp_path, **changes)
    (problem,) = problems(text, tmp_path)
    assert expected.format(folder=tmp_path) in problem


def test_keys_without_an_effect_are_found_at_once(tmp_path: Path) -> None:
    """A wrong key of a section hides no other problem of it."""
    experiment = 'log = "log"\nshar = 0.5\nholdout = 2\nmode = "other"\nspool = "spool"\nby = ["device"]'
    parts = {"experiment": experiment, "upstream": 'ca_file = "none"', "candidate": "patch = { a = 1 }"}
    text = config_text("http://127.0.0.1:9200", tmp_path, **SOLR | parts)
    text = text.replace('name = "production"', 'name = "production"\nindex = "other"')
    third = (
        '[[rankers]]\nname = "third"\nparameters = 7\n[[rankers]]\nname = "fourth"\nparameters = { rows = 3 }\nx = 1'
    )
    listed = problems(f"{text}\n{third}", tmp_path)
    starts = [
        "experiment.shar: there is no such key",
        "experiment.holdout is 2: give a number from 0 to 0.9",
        "experiment.mode is 'other': give",
        "experiment.log: key_file and spool are for a service",
        "experiment.by: without a service, the proxy does not carry out this setting",
        "upstream.ca_file: the address begins with http; leave it out",
        "upstream.ca_file: cannot read the certificates",
        "rankers[0].index: the first ranker is the control, the search as it comes",
        "rankers[1].patch: Solr's searches have no JSON body",
        "rankers[2].parameters is 7: give a table",
        "rankers[3].x: there is no such key",
        "rankers[3].parameters has 'rows': the proxy sets this itself",
    ]
    assert len(listed) == len(starts), listed
    assert all(any(f": {start}" in one for one in listed) for start in starts), listed


def test_the_index_of_ubi_events_can_be_switched_off() -> None:
    text = config_text("http://127.0.0.1:9200", Path("/tmp"), clicks="[clicks]\nubi_index = false")
    assert parse_config(text, "proxy.toml").clicks.ubi_index == ""


def test_a_file_that_is_not_toml_or_not_there(tmp_path: Path) -> None:
    assert "is not TOML" in problems("[upstream")[0]
    with pytest.raises(InterleafError, match="cannot read"):
        read_config(tmp_path / "none.toml")


def test_two_rankers_are_needed_with_names_of_their_own() -> None:
    text = config_text("http://127.0.0.1:9200", Path("/tmp")).replace('"candidate"', '"production"')
    (problem,) = problems(text)
    assert "rename one" in problem
    assert "give at least two" in problems(text.partition("[[rankers]]")[0])[0]


def test_the_settings_of_an_experiment_without_a_service() -> None:
    keys = 'log = "log"\nshare = 0.5\nmethod = "team_draft"\nbrowser_events = ["click", "add to cart"]'
    config = parse_config(config_text("http://127.0.0.1:9200/es/", Path("/tmp"), experiment=keys), "/etc/proxy.toml")
    assert config.local is not None
    assert (config.local.share, config.local.method, config.local.control) == (0.5, "team_draft", "production")
    assert config.experiment.log == Path("/etc/log")


def test_check_prints_what_each_ranker_gets() -> None:
    config = parse_config(config_text("http://127.0.0.1:9200", Path("/tmp")), "proxy.toml")
    lines = list(describe(config))
    assert '    {"query":{"multi_match":{"query":"running shoes"}},"from":0,"size":50}' in lines
    assert "  candidate: POST /products/_search" in lines
    text = config_text("http://127.0.0.1:9200", Path("/tmp"), **SOLR | {"candidate": 'parameters = { qf = "title^3" }'})
    lines = list(describe(parse_config(text, "proxy.toml")))
    assert any("qf=title%5E3" in line for line in lines)


def test_every_configuration_of_the_page_is_valid(tmp_path: Path) -> None:
    """The first block is complete; the others replace sections of it."""
    (tmp_path / "ingest.key").write_text("il_ingest_test")
    page = (ROOT / "docs" / "proxy.md").read_text(encoding="utf-8")
    whole, *parts = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(parts) == 3
    for part in ["", *parts]:
        text = whole
        for section in re.findall(r"^\[\w+\]$", part, re.MULTILINE):
            text = re.sub(rf"^{re.escape(section)}\n.*?(?=^\[|\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
        parse_config(part + "\n" + text, str(tmp_path / "proxy.toml"))


def test_the_command_reports_errors_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text(BROKEN)
    assert main(["proxy", str(file), "--check"]) == 2
    assert "9 problems" in capsys.readouterr().err
    file.write_text(config_text("http://127.0.0.1:9200", tmp_path))
    assert main(["proxy", str(file), "--check"]) == 0
    assert "all other requests pass through" in capsys.readouterr().out
