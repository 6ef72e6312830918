"""Whole studies at quick scale: slow, so `make study` runs them."""

from pathlib import Path

import pytest

from interleaf.studies import STUDIES, reproduce
from tests.support.paths import SHARED

MQ2008 = SHARED / "data" / "mq2008"


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_runs_without_data_and_writes_whole_files(name: str, tmp_path: Path) -> None:
    study = reproduce(name)
    written = study.write(tmp_path)
    assert study.name == name
    assert all(path.stat().st_size > 0 for path in written)
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.slow
def test_pairwise_preference_is_best_or_level_under_noisy_clicks() -> None:
    """O17's order, on MQ2008 where it is at hand, else on synthetic queries: 15 rankers, informational clicks."""
    study = reproduce("oosterhuis2017", MQ2008 if MQ2008.exists() else None)
    table = next(table for table in study.tables if table.name == "15")
    row = next(row for row in table.rows if row[:2] == ("informational", "ours"))
    errors = dict(zip(table.columns[2:], [float(str(cell).split()[0]) for cell in row[2:]], strict=True))
    assert errors["PPM"] <= min(errors.values()) + 0.02
    assert errors["SOSM"] > errors["PPM"]
    assert errors["OM"] > errors["PPM"]
