"""Sections of a TOML file as records: each key has a type and a meaning, and all problems are found at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from interleaf.errors import InterleafError, suggest
from interleaf.plain_data import DataField, fields_of

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*["']?([A-Za-z0-9_-]+)["']?\s*[.=]""")
Section = TypeVar("Section")


class ConfigError(InterleafError):
    """A key of the configuration file is missing, unknown or has a wrong value; with file, line, key and remedy."""


class KeyLines:
    """The lines of the keys of a TOML file. `rankers[1]` is the second table of an array of tables.

    >>> KeyLines('[upstream]\\nurl = "http://127.0.0.1:9200"').line_of("upstream", "url")
    2
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, str], int] = {}
        section, tables = "", dict[str, int]()
        for number, line in enumerate(text.splitlines(), 1):
            if header := _HEADER.match(line):
                section = header[2]
                if header[1] == "[[":
                    tables[section] = tables.get(section, -1) + 1
                    section = f"{section}[{tables[section]}]"
                elif (outer := section.partition(".")[0]) in tables:
                    section = f"{outer}[{tables[outer]}]{section.removeprefix(outer)}"
                self._lines.setdefault((section, ""), number)
            elif key := _KEY.match(line):
                self._lines.setdefault((section, key[1]), number)

    def line_of(self, section: str, key: str = "") -> int | None:
        """The line of a key, else of its section; None if neither is in the file."""
        inner = (f"{section}.{key}", "")  # a key that is a table of its own
        return self._lines.get((section, key)) or self._lines.get(inner) or self._lines.get((section, ""))


class ConfigProblems:
    """Collects the problems of one file."""

    def __init__(self, file: str, lines: KeyLines) -> None:
        self._file, self._lines = file, lines
        self.errors: list[ConfigError] = []

    def add(self, section: str, key: str, problem: str) -> None:
        """Note a problem of a key; of the section if the key is empty."""
        line = self._lines.line_of(section, key)
        place = self._file if line is None else f"{self._file}, line {line}"
        self.errors.append(ConfigError(f"{place}: {section}{'.' * bool(key)}{key}{problem}"))

    def read(self, kind: type[Section], section: str, data: Any, others: Iterable[str] = ()) -> Section | None:
        """A section as a record; None if a value is missing or wrong. Keys in `others` are read elsewhere."""
        if not isinstance(data, Mapping):
            self.add(section, "", f" is {data!r:.100}: give a table, [{section}]")
            return None
        settings = fields_of(kind)
        names = [*settings, *others]
        for name in data:
            if name not in names:
                self.add(section, name, f": there is no such key; there are {suggest(name, names)}")
        before, values = len(self.errors), self.check_values(section, data, settings)
        return kind(**values) if len(self.errors) == before else None

    def check_values(self, section: str, data: Mapping[str, Any], settings: Mapping[str, DataField]) -> dict[str, Any]:
        """The checked values of the keys that the section has; what is wrong or missing is noted."""
        values = dict[str, Any]()
        for name, setting in settings.items():
            if name in data:
                try:
                    values[name] = setting.check(data[name])
                except (ValueError, RecursionError) as remedy:
                    self.add(section, name, f" is {data[name]!r:.100}: {remedy} ({setting.meaning})")
            elif setting.make_default is None:
                self.add(section, name, f" is missing: {setting.meaning}")
        return values
