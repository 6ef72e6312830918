"""Notebooks as pages: their text as it is, code and what it printed in blocks, pictures beside the page."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

FOLDER = "notebooks"
PICTURE = "image/png"


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Called by mkdocs with all files; the notebook itself stays among them, to be fetched."""
    for path in sorted(Path(config.docs_dir, FOLDER).glob("*.ipynb")):
        pictures: dict[str, bytes] = {}
        text = "\n\n".join(_page(path, pictures))
        files.append(File.generated(config, f"{FOLDER}/{path.stem}.md", content=text))
        for name, data in pictures.items():
            files.append(File.generated(config, f"{FOLDER}/{name}", content=data))
    return files


def _page(path: Path, pictures: dict[str, bytes]) -> Iterator[str]:
    """The pieces of a page; its pictures are put into `pictures`, by name."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source
            continue
        yield f"```python\n{source}\n```"
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text", "")})
            if PICTURE in data:
                name = f"{path.stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode("".join(data[PICTURE]))
                yield f"![What the cell draws]({name})"
            else:
                printed = "".join(data["text/plain"]).rstrip("\n")
                yield f"```text\n{printed}\n```"
    yield f"[This page as a notebook]({path.name})"
