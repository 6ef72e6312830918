"""The TOML file: what it means, and all its errors at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interleaf.cli import main
from interleaf.errors import InterleafError
from interleaf.proxy.check import describe
from interleaf.proxy.config import parse_config, read_config
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


def problems(text: str) -> list[str]:
    with pytest.raises(InterleafError) as caught:
        parse_config(text, "proxy.toml")
    return [str(one) for one in caught.value.problems or (caught.value,)]


def test_all_errors_are_listed_with_line_key_and_remedy() -> None:
    listed = problems(BROKEN)
    starts = [
        "proxy.toml, line 18: extra: there is no such section",
        "proxy.toml, line 2: upstream.engine is 'sphinx': give 'opensearch', 'elasticsearch' or 'solr'",
        "proxy.toml, line 3: upstream.url is 'http://***127.0.0.1:9200': leave name and password out",
        "proxy.toml, line 8: experiment.share is 2: give a number from 0.0001 to 1",
        "proxy.toml, line 12: requests.dept: there is no such key",
        "proxy.toml, line 11: requests.paths is ['products']: 'products' is not a path",
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
        ({"engine": "solr", "candidate": 'template = "x"'}, "rankers[1].template: Solr has no search templates"),
        ({"engine": "elasticsearch", "candidate": 'search_pipeline = "x"'}, "elasticsearch has no search pipelines"),
        ({"candidate": 'template_parameters = { q = "/a" }'}, "template_parameters: give the id of a template"),
        ({"candidate": 'template = "x"\npatch = { a = 1 }'}, "a template has no body to patch"),
        ({"candidate": "patch = { a = 2020-01-01 }"}, "it has a value that JSON does not have"),
        ({"candidate": "parameters = { a = true, b = [1, {}] }"}, "give a text, a number, or a list of them"),
        ({"requests": "where = [{ pointer = '/a', header = 'b' }]"}, "one of pointer, parameter and header"),
        ({"proxy": 'listen = "example.org:80"'}, "give an IP address and a port"),
        ({"proxy": "listen = 9201"}, "give an address and a port"),
        ({"clicks": '[clicks]\nlink = "url"'}, "give a JSON pointer"),
        ({"unit": "own_cookie = 1"}, "unit.own_cookie is 1: give true or false"),
    ],
)
def test_errors_of_single_keys(changes: dict[str, str], expected: str) -> None:
    (problem,) = problems(config_text("http://127.0.0.1:9200", Path("/tmp"), **changes))
    assert expected in problem


def test_a_file_that_is_not_toml_or_not_there(tmp_path: Path) -> None:
    assert "is not TOML" in problems("[upstream")[0]
    with pytest.raises(InterleafError, match="cannot read"):
        read_config(tmp_path / "none.toml")


def test_two_rankers_are_needed_with_names_of_their_own() -> None:
    text = config_text("http://127.0.0.1:9200", Path("/tmp")).replace('"candidate"', '"production"')
    assert "rename one" in problems(text)[0]
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
    solr = {"engine": "solr", "path": "/solr/*/select", "candidate": 'parameters = { qf = "title^3" }'}
    lines = list(describe(parse_config(config_text("http://127.0.0.1:9200", Path("/tmp"), **solr), "proxy.toml")))
    assert any("qf=title%5E3" in line for line in lines)


def test_every_configuration_of_the_page_is_valid() -> None:
    """The first block is complete; the others replace sections of it."""
    page = (ROOT / "docs" / "proxy.md").read_text(encoding="utf-8")
    whole, *parts = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(parts) == 3
    for part in ["", *parts]:
        text = whole
        for section in re.findall(r"^\[\w+\]$", part, re.MULTILINE):
            text = re.sub(rf"^{re.escape(section)}\n.*?(?=^\[|\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
        parse_config(part + "\n" + text, "proxy.toml")


def test_the_command_reports_errors_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text(BROKEN)
    assert main(["proxy", str(file), "--check"]) == 2
    assert "9 problems" in capsys.readouterr().err
    file.write_text(config_text("http://127.0.0.1:9200", tmp_path))
    assert main(["proxy", str(file), "--check"]) == 0
    assert "all other requests pass through" in capsys.readouterr().out
