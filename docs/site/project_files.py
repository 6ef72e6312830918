"""Files of the project's root as pages: `<!-- project file: NAME -->` becomes it, `<!-- citation -->` how to cite."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
INCLUDED = re.compile(r"^<!-- project file: (.+) -->$", re.MULTILINE)
CITATION = "<!-- citation -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of each page."""
    included = INCLUDED.sub(lambda name: _included(name[1]), markdown)
    return included.replace(CITATION, _citation()) if CITATION in included else included


def _included(name: str) -> str:
    """The file, with its links as they are from a page of docs/."""
    return (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")


def _citation() -> str:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    authors = [author["name"] for author in cited["authors"]]
    plain = f"{', '.join(authors)}. *{cited['title']}*. Version {cited['version']}. Software, {cited['license']}."
    fields = {
        "title": f"{{{cited['title']}}}",
        "author": f"{{{' and '.join(f'{{{name}}}' for name in authors)}}}",
        "version": f"{{{cited['version']}}}",
        "note": f"{{{cited['license']}}}",
    }
    entry = ",\n".join(f"  {name} = {value}" for name, value in fields.items())
    message = cited["message"].replace("docs/bibliography.md", "[bibliography](bibliography.md)")
    return f"{message}\n\n{plain}\n\n```bibtex\n@software{{interleaf,\n{entry}\n}}\n```"
