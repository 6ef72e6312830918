"""What a setting may be: each kind checks a value, and says as JSON Schema what it takes.

A check gives the value back, or raises `ValueError` with the remedy; who calls it knows the field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from interleaf.errors import listed

MOST_TEXT = 200
_NAME = "[A-Za-z0-9][A-Za-z0-9._-]*"


class Kind(Protocol):
    """A kind of setting."""

    def check(self, value: Any) -> Any: ...

    @property
    def schema(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Text:
    """A name or a short text, without control characters; empty only where that is allowed."""

    most: int = MOST_TEXT
    least: int = 1

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or not self.least <= len(value) <= self.most:
            raise ValueError(f"give a text of {self.least} to {self.most} characters")
        if not value.isprintable():
            raise ValueError("leave out control characters, line ends and other characters that cannot be seen")
        return value

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": self.least, "maxLength": self.most}


@dataclass(frozen=True)
class Name(Text):
    """A name that can stand in addresses and file names."""

    most: int = 100

    def check(self, value: Any) -> str:
        name = super().check(value)
        if not re.fullmatch(_NAME, name):
            raise ValueError("use letters, digits, '.', '-' and '_', beginning with a letter or digit")
        return name

    @property
    def schema(self) -> dict[str, Any]:
        return super().schema | {"pattern": f"^{_NAME}$"}


@dataclass(frozen=True)
class Prose:
    """Text of several lines, which may be empty."""

    most: int

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or len(value) > self.most:
            raise ValueError(f"give a text of at most {self.most:,} characters")
        lines = value.replace("\r\n", "\n").split("\n")
        if not all(line.replace("\t", " ").isprintable() for line in lines):
            raise ValueError("leave out control characters and other characters that cannot be seen")
        return "\n".join(lines)

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": self.most}


@dataclass(frozen=True)
class Number:
    """A finite number within bounds; `whole` for counts."""

    least: float
    most: float
    whole: bool = False

    def check(self, value: Any) -> float | int:
        kinds = (int,) if self.whole else (int, float)
        right = isinstance(value, kinds) and not isinstance(value, bool)
        if not right or not self.least <= value <= self.most:
            raise ValueError(f"give a {'whole ' * self.whole}number from {self.least:g} to {self.most:,g}")
        return value if self.whole else float(value)

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "integer" if self.whole else "number", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    def check(self, value: Any) -> str:
        if value not in self.words:
            raise ValueError(f"give {listed(self.words)}")
        return str(value)

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}


@dataclass(frozen=True)
class Several:
    """A list of different texts."""

    item: Text = Text()
    least: int = 0
    most: int = 1000

    def check(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not self.least <= len(value) <= self.most:
            raise ValueError(f"give a list of {self.least} to {self.most:,}")
        found = tuple(self.item.check(one) for one in value)
        if len(set(found)) < len(found):
            raise ValueError("give each of them once")
        return found

    @property
    def schema(self) -> dict[str, Any]:
        return {
            "type": "array",
            "items": self.item.schema,
            "minItems": self.least,
            "maxItems": self.most,
            "uniqueItems": True,
        }


@dataclass(frozen=True)
class Weights:
    """Kinds of events, each with what one of them is worth."""

    most: int = 20
    weight = Number(-1e6, 1e6)

    def check(self, value: Any) -> dict[str, float]:
        if not isinstance(value, Mapping) or not 1 <= len(value) <= self.most:
            raise ValueError(f'give 1 to {self.most} kinds of events with a weight each, such as {{"click": 1.0}}')
        found = {Text(100).check(kind): float(self.weight.check(weight)) for kind, weight in value.items()}
        if any("=" in kind or "," in kind or kind[0] == "-" for kind in found):
            raise ValueError("leave '=', ',' and a leading '-' out of kinds: a command line could not name them")
        if not any(found.values()):
            raise ValueError("give at least one of them a weight other than 0")
        return found

    @property
    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "additionalProperties": self.weight.schema,
            "minProperties": 1,
            "maxProperties": self.most,
        }


@dataclass(frozen=True)
class Optional:
    """Such a setting, or null."""

    kind: Kind

    def check(self, value: Any) -> Any:
        return None if value is None else self.kind.check(value)

    @property
    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.kind.schema, {"type": "null"}]}
