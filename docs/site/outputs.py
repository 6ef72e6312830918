"""Pages say what the code says: commands in them become what they print, and tables come from the code's own data.

A line `<!-- $ interleaf methods --format markdown -->` becomes that output, and `<!-- table: columns -->` one of
`TABLES`.
"""

import ast
import re
import shlex
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

from interleaf.cli import main
from interleaf.log import schema
from interleaf.log.drop_reasons import DropReason
from interleaf.report.codes import CheckCode
from interleaf.report.health import CHECKS
from interleaf.report.model import VerdictCode

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
COMMAND = re.compile(r"^<!-- \$ interleaf (.+) -->$", re.MULTILINE)
TABLE = re.compile(r"^<!-- table: (.+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of each page."""
    return TABLE.sub(_table, COMMAND.sub(_printed, markdown))


def _printed(command: re.Match[str]) -> str:
    printed = StringIO()
    with redirect_stdout(printed):
        status = main(shlex.split(command[1]))
    if status:
        raise PluginError(f"interleaf {command[1]} ended with status {status}")
    return printed.getvalue()


def _table(name: re.Match[str]) -> str:
    if name[1] not in TABLES:
        raise PluginError(f"there is no table {name[1]!r}; there are {', '.join(TABLES)}")
    return TABLES[name[1]]()


def _columns(columns: Iterable[schema.Column]) -> str:
    lines = ["| name | type | may be null | meaning |", "| --- | --- | --- | --- |"]
    for column in columns:
        kind = re.sub(r"struct<.*?>(?=>$)", "struct", str(column.type).replace("item: ", ""))
        lines.append(f"| `{column.name}` | {kind} | {'yes' if column.nullable else ''} | {column.meaning} |")
    return "\n".join(lines)


def _benchmarks() -> str:
    """Each file of benchmarks/ with the first line of its docstring, but for the command, which the page gives."""
    lines = ["| file | |", "| --- | --- |"]
    for file in sorted(BENCHMARKS.glob("[!_]*.py")):
        says = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").splitlines()[0]
        lines.append(f"| `{file.stem}` | {says.partition('; `python -m')[0].rstrip('.')} |")
    return "\n".join(lines)


def _checks() -> str:
    lines = ["| check | code | what it asks, and what to do |", "| --- | --- | --- |"]
    for code in CheckCode:
        title = CHECKS[code].title.format("...")
        lines.append(f"| {title} | `{code}` | {CHECKS[code].documentation} |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {
    "columns": lambda: _columns(schema.COLUMNS),
    "fields of an event": lambda: _columns(schema.EVENT),
    "fields of a caption": lambda: _columns(schema.CAPTION),
    "benchmarks": _benchmarks,
    "checks": _checks,
    "verdicts": lambda: "\n".join(
        ["| code | meaning |", "| --- | --- |", *(f"| `{code}` | {code.text} |" for code in VerdictCode)]
    ),
    "reasons": lambda: "\n".join(f"- `{reason}`: {reason.text.format('…')}" for reason in DropReason),
}
