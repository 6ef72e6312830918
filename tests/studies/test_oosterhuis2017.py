"""O17 run again: its published cells are those of the paper, and every set of its tables can be run."""

import re
from pathlib import Path

import pytest

from interleaf.simulate.data import synthetic
from interleaf.studies import oosterhuis2017 as study
from interleaf.studies.datasets import KNOWN, find
from interleaf.studies.study import StudyRun
from tests.support.paths import SHARED

PAPER = SHARED / "papers" / "O17_oosterhuis2017_pairwise_preference.txt"
TABLES = {5: "**Table 3:", 15: "**Table 4:"}


def letor_3(folder: Path) -> Path:
    """Five folds named and spelt as LETOR 3.0 does: binary grades, 64 features."""
    data = synthetic(queries=15, documents=12, features=64, grades=2, seed=1)
    for fold in range(5):
        (folder / f"Fold{fold + 1}").mkdir(parents=True)
        for part, name in enumerate(("trainingset", "validationset", "testset")):
            queries = [(5 * part + fold + step) % 15 for step in range(3)]
            lines = [
                f"{data.grades[row]} qid:{query} "
                + " ".join(f"{at + 1}:{value:.6f}" for at, value in enumerate(data.features[row]))
                for query in queries
                for row in range(*data.rows(query).indices(len(data.grades)))
            ]
            (folder / f"Fold{fold + 1}" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return folder


def test_a_set_of_letor_3_runs_beside_the_published_mean_of_the_six(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLEAF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(study.SCALES, "quick", study.OosterhuisScale(1, 40, (5,), 1))
    made = study.study(StudyRun(letor_3(tmp_path / "2004_np_dataset")))
    table = next(table for table in made.tables if table.name == "5")
    assert table.rows[1][1:] == (
        *("published, mean of six sets", "0.16 (0.13)", "0.14 (0.15)", "0.15 (0.15)", "0.16 (0.15)", "0.14 (0.13)"),
    )
    assert "29 features" not in str(made)


def test_the_sets_of_letor_3_are_known_by_their_folders() -> None:
    assert set(study.LETOR_3) <= set(KNOWN.values())
    for name in study.LETOR_3:
        assert KNOWN[name.lower()] == KNOWN[f"{name[2:]}_{name[:2].lower()}"] == name
        assert len(study.FEATURES[name]) == 29  # TF.IDF, BM25 and language models of five fields, sitemap, HITS


def test_a_fold_without_a_part_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Fold1").mkdir()
    with pytest.raises(Exception, match=r"holds no train\.txt and no trainingset\.txt"):
        find(tmp_path, 1)


@pytest.mark.skipif(not PAPER.exists(), reason="the text of the paper is not on this machine")
def test_the_published_cells_are_those_of_the_paper() -> None:
    text = PAPER.read_text(encoding="utf-8")
    for count, heading in TABLES.items():
        clicks, compared = "", 0
        for line in text[text.index(heading) :].splitlines()[1:]:
            if line.startswith("**Table") or line.startswith("We have shown"):
                break
            if kind := re.match(r"<i>(\w+)</i>", line):
                clicks = kind[1]
            elif cells := re.findall(r"(\d\.\d\d)(?:</b>)? \((\d\.\d\d)\)", line):
                name = line.split("\t")[0]
                printed = tuple((float(mean), float(deviation)) for mean, deviation in cells)
                assert study.PUBLISHED[name, count, clicks] == printed, (name, count, clicks)
                compared += 1
        assert compared == 15
