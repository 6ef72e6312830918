"""The pages of studies: the tables they print, and the table of findings at their end, which follows from those.

`python -m tests.support.study_pages` writes that table into every page.
"""

import re
from importlib import import_module
from itertools import pairwise

from interleaf.studies import STUDIES
from interleaf.studies.study import findings_table
from interleaf.tables import Table
from tests.support.paths import ROOT

PAGES = ROOT / "docs" / "studies"
HEADING = "## What came back"
RULE = re.compile(r"-+(  -+)+")


def printed_tables(text: str) -> list[Table]:
    """The tables of text in a page, in their order, each with its title."""
    lines, tables = text.splitlines(), []
    for at, (header, rule) in enumerate(pairwise(lines)):
        if at and RULE.fullmatch(rule) and lines[at - 1]:
            starts = [found.start() for found in re.finditer("-+", rule)]
            rows = []
            for line in lines[at + 2 :]:
                if not line or line.startswith(("```", "...")):
                    break
                rows.append(_cells(line, starts))
            tables.append(Table("", lines[at - 1], _cells(header, starts), tuple(rows)))
    return tables


def _cells(line: str, starts: list[int]) -> tuple[str, ...]:
    return tuple(line[start:end].strip() for start, end in pairwise([*starts, len(line) + 1]))


def with_findings(name: str, page: str) -> str:
    """The page, its last section written anew from the tables above it."""
    body = page.partition(f"\n{HEADING}\n")[0].rstrip("\n")
    module = import_module(f"interleaf.studies.{name.replace('-', '_')}")
    found = findings_table(module.FINDINGS, printed_tables(body))
    table = Table(found.name, "", found.columns, found.rows).to_markdown()
    intro = (
        "Each verdict is computed from the first table above that has the number (`interleaf.studies.study`);\n"
        "`interleaf reproduce` prints the same table of any other run."
    )
    return f"{body}\n\n{HEADING}\n\n{intro}\n\n{table}\n"


def main() -> None:
    for name in STUDIES:
        path = PAGES / f"{name}.md"
        path.write_text(with_findings(name, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
