"""Sections of a TOML file as records: each key has a kind and a meaning, and all problems are found at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, Protocol, TypeVar

from interleaf.errors import InterleafError, did_you_mean, join_names

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*["']?([A-Za-z0-9_-]+)["']?\s*[.=]""")
Section = TypeVar("Section")


class KeyKind(Protocol):
    """A kind of value: a check that returns the value, or raises ValueError with the remedy."""

    def check(self, value: Any) -> Any: ...


class ConfigError(InterleafError):
    """A key of the configuration file is missing, unknown or has a wrong value; with file, line, key and remedy."""


def toml_key(kind: KeyKind, meaning: str, default: Any = MISSING) -> Any:
    """A field of a section; without a default the key is required."""
    factory: Any = MISSING if default is MISSING else lambda: default
    return field(default_factory=factory, metadata={"kind": kind, "meaning": meaning})


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
        settings: dict[str, Field[Any]] = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
        known = [*settings, *others]
        for name in data:
            if name not in known:
                self.add(
                    section, name, f": there is no such key; there are {join_names(known)}{did_you_mean(name, known)}"
                )
        before, values = len(self.errors), self.check_values(section, data, settings)
        return kind(**values) if len(self.errors) == before else None

    def check_values(self, section: str, data: Mapping[str, Any], settings: Mapping[str, Field[Any]]) -> dict[str, Any]:
        """The checked values of the keys that the section has; what is wrong or missing is noted."""
        values = dict[str, Any]()
        for name, setting in settings.items():
            meaning = setting.metadata["meaning"]
            if name in data:
                try:
                    values[name] = setting.metadata["kind"].check(data[name])
                except (ValueError, RecursionError) as remedy:
                    self.add(section, name, f" is {data[name]!r:.100}: {remedy} ({meaning})")
            elif setting.default_factory is MISSING:
                self.add(section, name, f" is missing: {meaning}")
        return values
