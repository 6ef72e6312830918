"""The script of result pages is small, and made from its sources in clients/typescript."""

import gzip
import subprocess

from tests.support.result_pages import CLIENT, SCRIPT, needs_node_modules


def test_the_script_has_less_than_six_kilobytes_compressed() -> None:
    assert len(gzip.compress(SCRIPT.read_bytes(), 6)) < 6000


@needs_node_modules
def test_the_script_is_made_from_its_sources() -> None:
    command = ["node", "scripts/bundle.mjs", "--check"]
    done = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
