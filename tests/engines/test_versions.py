"""The versions on the page about engines are those that the tests run."""

import json
import re

from tests.support.engines import PROGRAMS
from tests.support.paths import ROOT

ROW = re.compile(r"^\| @?([\w/.-]+)[^|]*\| ([\d.]+) \|", re.MULTILINE)


def test_the_page_names_the_versions_that_run() -> None:
    page = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8").partition("## Tested with")[2]
    named = {name.lower(): version for name, version in ROW.findall(page)}
    engines = re.findall(r"<(\w+)\.version>([\d.]+)<", (PROGRAMS / "pom.xml").read_text(encoding="utf-8"))
    packages = json.loads((PROGRAMS / "clients" / "package.json").read_text(encoding="utf-8"))["dependencies"]
    known = dict(engines) | {name.removeprefix("@"): version for name, version in packages.items()}
    assert named == {name: known[name] for name in named}
    assert {"opensearch", "elasticsearch", "solr"} <= named.keys()
    assert len(named) == 6
