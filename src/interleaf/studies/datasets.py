"""Learning-to-rank sets as the studies take them: five pairs of impression and test queries, found in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interleaf.errors import DataError
from interleaf.simulate.data import Judged, concatenate, letor_folds, synthetic
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
class Folds:
    """A set by the name its published numbers go by (or its own), and its (impressions, test) pairs of queries."""

    name: str
    described: str
    pairs: Sequence[tuple[Judged, Judged]]

    @property
    def whole(self) -> Judged:
        """All queries: the tests of all folds together."""
        return concatenate([test for _, test in self.pairs])


def find(folder: Path | None, seed: int, queries: int = 400) -> Folds:
    """The set in a folder (LETOR's S1 .. S5, or Fold1 .. Fold5 of train, vali and test) or file; synthetic without."""
    if folder is None:
        data = made_up(queries, seed)
        return Folds("synthetic", f"{data!r} (no --data given)", list(data.folds(FOLDS, seed)))
    if not folder.exists():
        raise DataError(f"there is no {folder}; give --data the folder of a learning-to-rank set, or leave it out")
    name = next((title for word, title in KNOWN.items() if word in folder.name.lower()), folder.name)
    parts = [_one(folder, f"S{number}") for number in range(1, FOLDS + 1)]
    if all(parts):
        return Folds(name, str(folder.name), list(letor_folds([read_letor(part) for part in parts if part])))
    if (folder / "Fold1").is_dir():
        return Folds(name, folder.name, [_official(folder / f"Fold{n}") for n in range(1, FOLDS + 1)])
    files = [folder] if folder.is_file() else sorted([*folder.glob("*.txt.gz"), *folder.glob("*.txt")])
    files = [file for file in files if "feature_names" not in file.name]
    if not files:
        raise DataError(f"{folder} holds no S1 .. S5, no Fold1 .. Fold5 and no .txt file; give a LETOR set")
    data = read_letor(files)
    if len(data) < FOLDS:
        raise DataError(f"{folder} has {len(data)} queries; a study makes {FOLDS} folds of them, give more")
    return Folds(name, f"{folder.name}, split in {FOLDS} by keyed chance", list(data.folds(FOLDS, seed)))


def made_up(queries: int, seed: int) -> Judged:
    """Queries like those of real sets: 40 features of middling quality, in four families whose members agree."""
    strengths = generator_of((seed, "strengths")).permutation(np.linspace(0.45, 0.2, 40))
    return synthetic(queries, features=40, seed=seed, strengths=strengths.tolist(), correlation=0.9, families=4)


def _one(folder: Path, stem: str) -> Path | None:
    return next((folder / (stem + end) for end in (".txt", ".txt.gz") if (folder / (stem + end)).exists()), None)


def _official(fold: Path) -> tuple[Judged, Judged]:
    """A fold of LETOR 4.0 and MSLR (train, vali, test), or of LETOR 3.0 (trainingset, validationset, testset)."""
    spelt = {"train": "trainingset", "vali": "validationset", "test": "testset"}
    found = {part: _one(fold, part) or _one(fold, older) for part, older in spelt.items()}
    for part, path in found.items():
        if path is None:
            raise DataError(
                f"{fold} holds no {part}.txt and no {spelt[part]}.txt; a fold has {', '.join(spelt)}, or "
                f"{', '.join(spelt.values())}"
            )
    return read_letor([found["train"], found["vali"]]), read_letor(found["test"])  # type: ignore[list-item, arg-type]
