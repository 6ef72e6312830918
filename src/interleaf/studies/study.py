"""The arguments (`StudyRun`) and result (`Study`) of all studies, their stored parts (`FinishedCells`), and findings.

The table of findings that were reproduced has verdicts that are computed from the printed tables of the study. So the
last table of a study cannot contradict the tables above it, and a page that prints both can be checked without running
the study again.
"""

from __future__ import annotations

import csv
import json
import os
import pickle
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b, file_digest
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, cast

import interleaf
from interleaf.environment import cache_folder
from interleaf.tables import Cell, Table

CAME_BACK, DID_NOT, CANNOT = "came back", "did not", "cannot be tried here"
NEVER = float("inf")
LEFT_OUT = "this run leaves it out"
PREFIX = "part-"  # of a file that is being written
# Packages that no result depends on: they serve, store, send, print and draw.
OTHER_CODE = ("cli", "client", "demo", "experiment", "report", "server", "store")


class MissingNumberError(LookupError):
    """A run does not have the number that a finding needs."""


class PrintedTables:
    """The tables of a study as text, looked up by the beginning of their titles."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables

    def rows(self, title: str) -> list[Mapping[str, str]]:
        """The rows, by column, of the first table whose title begins with `title`."""
        for table in self._tables:
            if table.title.startswith(title):
                columns, *lines = table.lines()
                return [dict(zip(columns, line, strict=True)) for line in lines]
        raise MissingNumberError(LEFT_OUT)

    def cell(self, title: str, column: str, **values: str) -> str:
        """The cell of the row with these values; a space in a column's name is an underscore here."""
        for row in self.rows(title):
            if all(row[name.replace("_", " ")] == value for name, value in values.items()):
                return row[column]
        raise MissingNumberError(LEFT_OUT)

    def number(self, title: str, column: str, **values: str) -> float:
        """The first number in the cell of the row with these values."""
        return number_in(self.cell(title, column, **values))


def number_in(text: str) -> float:
    """The first number in a text; infinite if it says that a level was never reached."""
    return NEVER if text.startswith("never") else float(digits_in(text).replace(",", ""))


def digits_in(text: str) -> str:
    """The first number in a text, as it is printed."""
    match = re.search(r"[-+]?\d[\d,]*\.?\d*", text)
    if match is None:
        raise MissingNumberError("the run gave no number")
    return match[0]


Answer = tuple[str, bool]  # the result of the run, and whether it agrees with the paper


@dataclass(frozen=True)
class Finding:
    """A claim of a paper, its published numbers, and a function that answers it from the tables of a run.

    The function gets the tables, then the `arguments`. Without a function the claim cannot be tried, and `why` says
    why; with one, `why` says what may explain a difference, and `needs` says which run has the numbers.
    """

    claim: str
    published: str
    answer: Callable[..., Answer] | None
    arguments: tuple[Any, ...] = ()
    why: str = ""
    needs: str = ""

    def row(self, tables: PrintedTables) -> tuple[Cell, ...]:
        """The row of the table of findings."""
        if self.answer is None:
            return self.claim, self.published, None, CANNOT, self.why
        try:
            ours, holds = self.answer(tables, *self.arguments)
        except MissingNumberError as error:
            return self.claim, self.published, None, CANNOT, "; ".join(filter(None, (str(error), self.needs)))
        return self.claim, self.published, ours, CAME_BACK if holds else DID_NOT, self.why or None


def findings_table(findings: Sequence[Finding], tables: Sequence[Table]) -> Table:
    """Each claim with its verdict."""
    columns = ("finding", "published", "here", "verdict", "why")
    rows = tuple(finding.row(PrintedTables(tables)) for finding in findings)
    return Table("findings", "What came back of the paper's findings", columns, rows)


def falling(tables: PrintedTables, title: str, column: str, by: str, names: Sequence[str]) -> Answer:
    """Whether the numbers of these rows decrease from one row to the next."""
    numbers = [digits_in(tables.cell(title, column, **{by: name})) for name in names]
    return ", ".join(numbers), all(number_in(one) > number_in(other) for one, other in pairwise(numbers))


def near(
    tables: PrintedTables, title: str, column: str, by: str, published: Mapping[str, float], within: float
) -> Answer:
    """Whether the numbers of these rows are within a tolerance of the published ones."""
    numbers = [digits_in(tables.cell(title, column, **{by: name})) for name in published]
    pairs = zip(numbers, published.values(), strict=True)
    return ", ".join(numbers), all(abs(number_in(ours) - theirs) <= within for ours, theirs in pairs)


__all__ = ["Cell", "Progress", "Study", "StudyRun", "Table"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Study:
    """The reproduction of a published study: its data, scale and results."""

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
        """Write tables as CSV and Markdown, charts as PNG, SVG and JSON; each file is written whole or not at all."""
        files = {f"{self.name}.md": self.to_markdown().encode()}
        for table in self.tables:
            text = StringIO()
            csv.writer(text).writerows([table.columns, *table.rows])
            files[f"{self.name}-{table.name}.csv"] = text.getvalue().encode()
        for name, chart in self.charts.items():
            from interleaf import plots

            files[f"{self.name}-{name}.svg"] = plots.to_svg(chart).encode()
            files[f"{self.name}-{name}.png"] = plots.to_png(chart)
            files[f"{self.name}-{name}.json"] = json.dumps(chart).encode()
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            unfinished = folder / f"{name}.part"
            unfinished.write_bytes(content)
            unfinished.replace(folder / name)
        return [folder / name for name in files]


class FinishedCells:
    """The finished cells of a study, stored in a folder, so that an interrupted study can continue.

    A cell is the smallest part that is computed on its own, such as one method under one click model. Without a folder
    nothing is stored.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @classmethod
    def of(cls, study: str, data: Path | None, scale: str, seed: int) -> FinishedCells:
        """The cells of this study on this data, in the cache folder of interleaf."""
        content = ""
        if data is not None:  # a study may print the name of the folder
            files = [data] if data.is_file() else [path for path in data.rglob("*") if path.is_file()]
            content = _digest(data.name, _digest_of_files(data, files))
        name = _digest(study, scale, str(seed), content, _digest_of_code())
        return cls(cache_folder("studies") / f"{study}-{name}")

    def get(self, cell: tuple[Any, ...], compute: Callable[[], Result]) -> Result:
        """The result of a cell: read if an earlier run stored it, else computed and stored.

        >>> FinishedCells().get(("accuracy", 1), lambda: 0.5)
        0.5
        """
        if self._folder is None:
            return compute()
        path = self._folder / _digest(repr(cell))
        try:
            return cast(Result, pickle.loads(path.read_bytes()))
        except (OSError, EOFError, ValueError, pickle.UnpicklingError, AttributeError, ImportError):
            result = compute()
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=PREFIX)
            with os.fdopen(descriptor, "wb") as file:
                pickle.dump(result, file, pickle.HIGHEST_PROTOCOL)
            os.replace(unfinished, path)
        except OSError:
            pass  # the study goes on, but cannot be resumed after an interrupt
        return result

    def count(self) -> int:
        """How many finished cells there are."""
        if self._folder is None or not self._folder.is_dir():
            return 0
        return sum(not path.name.startswith(PREFIX) for path in self._folder.iterdir())

    def remove(self) -> None:
        """Delete all cells, because the study is complete or starts again."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@dataclass
class StudyRun:
    """The arguments of a study: a learning-to-rank set (None: synthetic queries), scale and seed.

    `total` is the number of cells of the study, which progress reports are relative to.
    """

    folder: Path | None = None
    scale: str = "quick"
    seed: int = 1
    progress: Progress | None = None
    cells: FinishedCells = field(default_factory=FinishedCells)
    done: int = 0
    total: int = 0

    def compute(
        self, cells: Sequence[tuple[Any, ...]], work: Callable[..., Result], parallel: bool = False
    ) -> list[Result]:
        """The result of `work(*cell)` for each cell, in order; cells that an interrupted run finished are read."""

        def result_of(cell: tuple[Any, ...]) -> Result:
            return self.cells.get(cell, lambda: work(*cell))

        results = []
        for result in (map_in_threads if parallel else map)(result_of, cells):
            results.append(result)
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, self.total)
        return results


def map_in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """`map` on all cores; an interrupt cancels the items that have not started."""
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _digest_of_files(folder: Path, files: Iterable[Path]) -> str:
    """A digest of the names of files in a folder, and of their bytes."""
    digests = []
    for path in sorted(files):
        with path.open("rb") as file:
            digests.append(f"{path.relative_to(folder)} {file_digest(file, 'blake2b').hexdigest()}")
    return _digest(*digests)


@cache
def _digest_of_code() -> str:
    """A digest of all source files of interleaf that a result may depend on."""
    top = Path(interleaf.__file__).parent
    files = [path for path in top.rglob("*.py") if path.relative_to(top).parts[0] not in OTHER_CODE]
    return _digest_of_files(top, files)
