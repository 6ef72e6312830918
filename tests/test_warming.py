"""Kernels of reports are compiled beside the service, and kept for its first report."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interleaf.serve import warming
from interleaf.store import opened
from tests.stores import HOUR, START, click, impression, running

_REPORT = """
import sys
from interleaf.serve.reports import Reports
from interleaf.store import opened
assert Reports(opened(sys.argv[1])).standing("shop").reports
"""


def test_it_ends_with_its_service() -> None:
    process = warming.begin()
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(120) == warming.UNFINISHED


@pytest.mark.slow
def test_after_it_the_first_report_of_a_store_compiles_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path / "store.sqlite")
    settings = running(store, holdout=0.3, by=["device"])
    made = [impression(settings, number, number) for number in range(100)]
    store.write(made, [click(one) for one in made])
    store.fold(START + HOUR + 50)
    store.close()
    cold = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    kept = []
    for words in (["-m", warming.__name__], ["-c", _REPORT, str(tmp_path / "store.sqlite")]):
        subprocess.run([sys.executable, *words], env=cold, check=True)
        kept.append(sorted(path.name for path in (tmp_path / "compiled").rglob("*.nbc")))
    assert kept[0]
    assert kept[0] == kept[1]
