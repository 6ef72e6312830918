"""What a reproduced study hands back: tables with our figures beside the published ones, charts, and what it ran on."""

from __future__ import annotations

import csv
import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

import interleaf
from interleaf.cache_folder import cache_folder
from interleaf.errors import DataError
from interleaf.simulate.data import Judged, concatenate, letor_folds, synthetic
from interleaf.simulate.letor import read_letor
from interleaf.simulate.rankers import generator_of
from interleaf.tables import Cell, Table

__all__ = ["Cell", "Progress", "Study", "Table"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Study:
    """A published study, run again: on which data, at which scale, with what result."""

    name: str
    title: str
    data: str
    scale: str
    tables: tuple[Table, ...]
    charts: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        head = f"{self.title}\ndata: {self.data}; scale: {self.scale}"
        return "\n\n".join([head, *map(str, self.tables), *self.notes])

    def to_markdown(self) -> str:
        """The whole study as one Markdown page."""
        parts = [f"# {self.title}", f"Data: {self.data}. Scale: {self.scale}.", *[t.to_markdown() for t in self.tables]]
        return "\n\n".join([*parts, *self.notes]) + "\n"

    def write(self, folder: Path) -> list[Path]:
        """Tables as CSV and Markdown, charts as PNG and SVG; each file is renamed into place when it is whole."""
        folder.mkdir(parents=True, exist_ok=True)
        written = [_put(folder / f"{self.name}.md", self.to_markdown().encode())]
        written += [_put(folder / f"{self.name}-{table.name}.csv", _csv(table)) for table in self.tables]
        for name, chart in self.charts.items():
            from interleaf import plots

            written.append(_put(folder / f"{self.name}-{name}.svg", plots.to_svg(chart).encode()))
            written.append(_put(folder / f"{self.name}-{name}.png", plots.to_png(chart)))
            written.append(_put(folder / f"{self.name}-{name}.json", json.dumps(chart).encode()))
        return written


def _put(path: Path, content: bytes) -> Path:
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_bytes(content)
    return unfinished.replace(path)


def _csv(table: Table) -> bytes:
    from io import StringIO

    text = StringIO()
    writer = csv.writer(text)
    writer.writerows([table.columns, *table.rows])
    return text.getvalue().encode()


Result = TypeVar("Result")
PIECE, UNFINISHED = 1 << 20, "part-"
# Code that no cell depends on: what serves, stores, sends, prints and draws.
OTHER_CODE = ("cli", "client", "demo", "experiment", "render", "report", "serve", "store")


class Cells:
    """The finished cells of one study with its settings; without a folder nothing is kept."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @classmethod
    def of(cls, study: str, data: Path | None, scale: str, seed: int) -> Cells:
        """The cells of this study on this data, in the cache folder of interleaf."""
        name = _digest(study, scale, str(seed), _digest_of_data(data), _digest_of_code())
        return cls(cache_folder("studies") / f"{study}-{name}")

    def keep(self, cell: tuple[Any, ...], make: Callable[[], Result]) -> Result:
        """The cell's result: from an earlier, interrupted run where there is one, else made and kept.

        >>> Cells().keep(("accuracy", 1), lambda: 0.5)
        0.5
        """
        if self._folder is None:
            return make()
        path = self._folder / _digest(repr(cell))
        try:
            return cast(Result, pickle.loads(path.read_bytes()))
        except (OSError, EOFError, ValueError, pickle.UnpicklingError, AttributeError, ImportError):
            result = make()
        _save(path, result)
        return result

    def count(self) -> int:
        """How many finished cells there are."""
        if self._folder is None or not self._folder.is_dir():
            return 0
        return sum(not path.name.startswith(UNFINISHED) for path in self._folder.iterdir())

    def remove(self) -> None:
        """Forget all cells: the study is complete, or starts anew."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


NO_CELLS = Cells()  # keeps nothing


def _save(path: Path, result: Any) -> None:
    """Keep a result; where the disk does not take it, the study goes on without."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=UNFINISHED)
        with os.fdopen(descriptor, "wb") as file:
            pickle.dump(result, file, pickle.HIGHEST_PROTOCOL)
        os.replace(unfinished, path)
    except OSError:
        return


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _digest_of_data(folder: Path | None) -> str:
    """By the folder's name, which a study may print, and the bytes of all its files."""
    if folder is None:
        return ""
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    return _digest(folder.name, *[f"{file.relative_to(folder)} {_digest_of_file(file)}" for file in files])


def _digest_of_file(path: Path) -> str:
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


@cache
def _digest_of_code() -> str:
    """Of every source file of interleaf but those that no cell depends on."""
    top = Path(interleaf.__file__).parent
    files = [path for path in sorted(top.rglob("*.py")) if path.relative_to(top).parts[0] not in OTHER_CODE]
    return _digest(*[f"{path.relative_to(top)} {_digest_of_file(path)}" for path in files])


# Names that a folder or file may carry, and what the papers call the set.
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
