"""Pages say what the code says: commands in them become what they print, and tables come from the code's own data.

A line `<!-- $ interleaf methods --format markdown -->` becomes that output, and `<!-- table: columns -->` one of
`TABLES`.
"""

import ast
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

from interleaf.cli import main
from interleaf.experiment.settings import SETTINGS
from interleaf.importers.two_tables.column_names import EVENTS, IMPRESSIONS, NAMES
from interleaf.importers.two_tables.convert import REMEDIES
from interleaf.log import schema
from interleaf.log.drop_reasons import DropReason, EventFate
from interleaf.metrics.guardrail_metrics import MEANINGS
from interleaf.plain_data import fields_of
from interleaf.proxy.codes import BypassCode, FailureCode, UpstreamCode
from interleaf.proxy.config import SECTIONS, RankerSection
from interleaf.proxy.config_file import LOG_SETTINGS
from interleaf.report.build import CHECKS
from interleaf.report.codes import CheckCode
from interleaf.report.model import GuardrailCode, UndecidedCode, VerdictCode
from interleaf.stable_codes import Code
from interleaf.stats.lift import NoLift

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


def _meanings(what: str, meanings: Mapping[str, str], title: str = "meaning") -> str:
    lines = [f"| {what} | {title} |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| `{name}` | {meaning} |" for name, meaning in meanings.items())])


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


def _names(table: str) -> str:
    lines = ["| field | is recognised as |", "| --- | --- |"]
    for field, names in NAMES[table].items():
        if names:
            lines.append(f"| `{field}` | {', '.join(f'`{name}`' for name in (field, *names))} |")
    return "\n".join(lines)


def _codes(codes: Iterable[Code]) -> str:
    return "\n".join(
        ["| code | meaning |", "| --- | --- |", *(f"| `{code}` | {code.text.format('…')} |" for code in codes)]
    )


def _proxy_keys() -> str:
    lines = ["| section | key | default | meaning |", "| --- | --- | --- | --- |"]
    for name, kind in {**SECTIONS, "[rankers]": RankerSection}.items():
        for key in fields_of(kind).values():
            shown = "required" if key.make_default is None else _as_toml(key.make_default())
            lines.append(f"| `[{name}]` | `{key.name}` | {shown} | {key.meaning} |")
    return "\n".join(lines)


def _as_toml(value: Any) -> str:
    return "" if value in (None, (), {}) else f"`{json.dumps(value)}`"


TABLES: dict[str, Callable[[], str]] = {
    "columns": lambda: _columns(schema.COLUMNS),
    "fields of an event": lambda: _columns(schema.EVENT),
    "fields of a caption": lambda: _columns(schema.CAPTION),
    "benchmarks": _benchmarks,
    "checks": _checks,
    "verdicts": lambda: _codes(VerdictCode),
    "undecided codes": lambda: _codes(UndecidedCode),
    "guardrails": lambda: _meanings("metric", MEANINGS),
    "lift codes": lambda: _codes(NoLift),
    "guardrail codes": lambda: _codes(GuardrailCode),
    "bypass codes": lambda: _codes(BypassCode),
    "failure codes": lambda: _codes(FailureCode),
    "upstream codes": lambda: _codes(UpstreamCode),
    "proxy keys": _proxy_keys,
    "settings of a proxy with a log": lambda: _meanings(
        "setting", {name: SETTINGS[name].meaning for name in LOG_SETTINGS}
    ),
    "names of impressions": lambda: _names(IMPRESSIONS),
    "names of events": lambda: _names(EVENTS),
    "remedies of two tables": lambda: _meanings("code", REMEDIES, "what to do"),
    "event fates": lambda: "\n".join(f"- `{fate}`: {fate.text}" for fate in EventFate),
    "reasons": lambda: "\n".join(f"- `{reason}`: {reason.text.format('…')}" for reason in DropReason),
}
