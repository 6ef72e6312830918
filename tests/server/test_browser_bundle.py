"""The script of result pages is small, and made from its sources in clients/typescript."""

import gzip
import shutil
import subprocess

import pytest

from tests.support.paths import ROOT
from tests.support.result_pages import SCRIPT

CLIENT = ROOT / "clients" / "typescript"
NODE = shutil.which("node")


def test_the_script_has_less_than_six_kilobytes_compressed() -> None:
    assert len(gzip.compress(SCRIPT.read_bytes(), 6)) < 6000


@pytest.mark.skipif(NODE is None, reason="no Node on this machine")
@pytest.mark.skipif(not (CLIENT / "node_modules").is_dir(), reason="no node_modules; make typescript installs them")
def test_the_script_is_made_from_its_sources() -> None:
    command = [str(NODE), "scripts/bundle.mjs", "--check"]
    done = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
