"""The learning-to-rank sets of the studies: five pairs of impression and test queries, read from a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from interleaf.errors import DataError
from interleaf.simulate.data import Judged, concatenate, letor_folds, shuffle, synthetic
from interleaf.simulate.letor import read_letor
from interleaf.simulate.rankers import generator_of

KNOWN = {"mq2007": "MQ2007", "mq2008": "MQ2008", "web10k": "MSLR-WEB10k", "mslr": "MSLR", "ohsumed": "OHSUMED"} | {
    spelt: f"{task}{year}".upper()
    for task in ("hp", "np", "td")
    for year in (2003, 2004)
    for spelt in (f"{task}{year}", f"{year}_{task}")  # LETOR 3.0 has folders such as 2004_np_dataset
}
FOLDS = 5


@dataclass(frozen=True)
class StudyData:
    """Judged queries as (impressions, test) pairs; `name` is the name in the papers, if they use this set."""

    name: str
    described: str
    pairs: Sequence[tuple[Judged, Judged]]
    is_synthetic: bool = False

    @property
    def whole(self) -> Judged:
        """All queries: the tests of all folds together."""
        return concatenate([test for _, test in self.pairs])

    def describe(self, data: Judged) -> str:
        """The set, and the counts of the part of it that a study uses."""
        return self.described if self.is_synthetic else f"{self.described}: {data!r}"

    def draw_queries(self, max_queries: int, seed: int) -> Judged:
        """At most `max_queries` queries, the same number from the test queries of each fold."""
        tests, each = [test for _, test in self.pairs], max(1, max_queries // len(self.pairs))
        if sum(map(len, tests)) > max_queries:
            tests = [test.select(sorted(shuffle(len(test), (seed, "queries"))[:each])) for test in tests]
        return concatenate(tests, self.name)


def find(folder: Path | None, seed: int, queries: int = 400) -> StudyData:
    """The set in a file or a folder (S1 to S5, or Fold1 to Fold5 of train, vali and test); without one, synthetic."""
    if folder is None:
        # Like real sets: 40 features of medium quality, in four families of correlated features.
        strengths = generator_of((seed, "strengths")).permutation(np.linspace(0.45, 0.2, 40)).tolist()
        data = synthetic(queries, features=40, seed=seed, strengths=strengths, correlation=0.9, families=4)
        return StudyData("synthetic", f"{data!r} (no --data given)", list(data.folds(FOLDS, seed)), is_synthetic=True)
    if not folder.exists():
        raise DataError(f"there is no {folder}; give --data the folder of a learning-to-rank set, or leave it out")
    name = next((title for word, title in KNOWN.items() if word in folder.name.lower()), folder.name)
    parts = [_one(folder, f"S{number}") for number in range(1, FOLDS + 1)]
    if all(parts):
        return StudyData(name, folder.name, list(letor_folds([read_letor(part) for part in parts if part])))
    if (folder / "Fold1").is_dir():
        return StudyData(name, folder.name, [_official(folder / f"Fold{n}") for n in range(1, FOLDS + 1)])
    files = [folder] if folder.is_file() else sorted([*folder.glob("*.txt.gz"), *folder.glob("*.txt")])
    files = [file for file in files if "feature_names" not in file.name]
    if not files:
        raise DataError(f"{folder} holds no S1 .. S5, no Fold1 .. Fold5 and no .txt file; give a LETOR set")
    data = read_letor(files)
    if len(data) < FOLDS:
        raise DataError(f"{folder} has {len(data)} queries; a study makes {FOLDS} folds of them, give more")
    return StudyData(name, f"{folder.name}, split in {FOLDS} by keyed chance", list(data.folds(FOLDS, seed)))


def draw_features(features: Sequence[int], count: int, *key: Any) -> Callable[[int], list[int]]:
    """The features of each run by its number: the same for every method, so that all compare the same rankers."""
    return lambda number: generator_of((*key, number, count)).permutation(features)[:count].tolist()


def _one(folder: Path, stem: str) -> Path | None:
    return next((folder / (stem + end) for end in (".txt", ".txt.gz") if (folder / (stem + end)).exists()), None)


def _official(fold: Path) -> tuple[Judged, Judged]:
    """A fold of LETOR 4.0 and MSLR (train, vali, test), or of LETOR 3.0 (trainingset, validationset, testset)."""
    spelt = {"train": "trainingset", "vali": "validationset", "test": "testset"}
    paths = {part: _one(fold, part) or _one(fold, older) for part, older in spelt.items()}
    for part, path in paths.items():
        if path is None:
            problem = f"{fold} holds no {part}.txt and no {spelt[part]}.txt"
            raise DataError(f"{problem}; a fold has {', '.join(spelt)}, or {', '.join(spelt.values())}")
    return read_letor([paths["train"], paths["vali"]]), read_letor(paths["test"])  # type: ignore[list-item, arg-type]
