"""Notebooks run in a real kernel, in a folder of their own.

`python -m tests.support.notebooks` runs them and stores their outputs again.

What is stored is the outputs, and nothing of the machine or the moment: no times, no ids, no versions of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.support.kernel_folders import kernel_folder
from tests.support.paths import ROOT

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LONGEST = 300  # seconds of a cell: on a new machine, kernels are compiled first


def stored(path: Path) -> Any:
    """A notebook as it is."""
    import nbformat

    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def executed(path: Path) -> Any:
    """A notebook with the outputs of now; an error in a cell is raised."""
    import nbclient

    notebook = stored(path)
    with kernel_folder(path.stem) as folder:
        resources = {"metadata": {"path": str(folder)}}
        client = nbclient.NotebookClient(notebook, timeout=LONGEST, resources=resources, kernel_name="python3")
        client.startup_timeout = LONGEST
        client.execute()
    return normalised(notebook)


def normalised(notebook: Any) -> Any:
    """Without what differs from run to run, or from machine to machine."""
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
        if cell.cell_type == "code":
            cell.outputs = list(_joined(cell.outputs))
    return notebook


def _joined(outputs: list[Any]) -> Iterator[Any]:
    """What was printed in one piece, however the kernel cut it."""
    for is_stream, some in groupby(outputs, lambda output: output.output_type == "stream"):
        if not is_stream:
            yield from some
            continue
        first, *others = some
        first.text += "".join(other.text for other in others)
        yield first


def texts(notebook: Any) -> list[list[str]]:
    """What each cell printed or answered."""
    return [
        [
            output.text if output.output_type == "stream" else output.data.get("text/plain", "")
            for output in cell.outputs
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def pictures(notebook: Any) -> list[int]:
    """How many pictures each cell shows."""
    return [
        sum(output.output_type == "display_data" and "image/png" in output.data for output in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


if __name__ == "__main__":
    import nbformat

    for path in NOTEBOOKS:
        nbformat.write(executed(path), path)  # type: ignore[no-untyped-call]
        print(path.name)
