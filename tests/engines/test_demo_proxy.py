"""`make demo-proxy` as a user runs it: it prints its addresses, people click, and Ctrl-C ends everything."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable

import pytest

from tests.support.engines import why_missing
from tests.support.paths import ROOT

PATIENCE = 240.0  # seconds, on a busy machine


def read_until(lines: Iterable[str], pattern: str) -> str:
    """What is printed up to a line with the pattern."""
    seen = ""
    for line in lines:
        seen += line
        if re.search(pattern, line):
            return seen
    raise AssertionError(f"the demo ended before it printed {pattern!r}:\n{seen}")


@pytest.mark.skipif(why_missing("opensearch") is not None, reason=str(why_missing("opensearch")))
def test_people_search_through_the_proxy_until_ctrl_c() -> None:
    command = [sys.executable, "-m", "tests.engines.demo_proxy"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        try:
            printed = read_until(demo.stdout, "Ctrl-C ends")
            engine, proxy, health, dashboard, _ = re.findall(r"http://[\w.:/?=]+", printed)
            read_until(demo.stdout, r"[1-9]\d* people, [1-9]\d* lists")
            for address in (engine, proxy):
                assert len(json.load(urllib.request.urlopen(address))["hits"]["hits"]) == 10
            state = json.load(urllib.request.urlopen(health))
            assert state["lists"]["interleaved"] > 0
            assert state["events"]["browser:taken"] > 0
            assert state["failures"].keys() <= {"ranker_slow"}  # on a busy machine
            assert "equal" in urllib.request.urlopen(dashboard).read().decode()
        finally:
            demo.send_signal(signal.SIGINT)
        rest, errors = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, rest.splitlines()[-1], errors) == (0, "Ended.", "")
    for address in (engine, proxy, dashboard):
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(address)
