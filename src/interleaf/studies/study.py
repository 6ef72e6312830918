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

import interleaf
from interleaf.environment import cache_folder
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
