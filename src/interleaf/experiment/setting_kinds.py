"""The kinds of values that a setting takes: each has a JSON schema, and a check."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

from interleaf.errors import join_names

MAX_TEXT = 200
_NAME = "[A-Za-z0-9][A-Za-z0-9._-]*"


class SettingKind(Protocol):
    """A kind of setting: its JSON schema, and a check that returns the value or raises ValueError with the remedy."""

    schema: dict[str, Any]

    def check(self, value: Any) -> Any: ...


class Text:
    """A name or a short text, without control characters; empty only if that is allowed."""

    def __init__(self, most: int = MAX_TEXT, least: int = 1) -> None:
        self.most, self.least = most, least
        self.schema: dict[str, Any] = {"type": "string", "minLength": least, "maxLength": most}

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or not self.least <= len(value) <= self.most:
            raise ValueError(f"give a text of {self.least} to {self.most} characters")
        if not value.isprintable():
            raise ValueError("remove control characters, line breaks and other invisible characters")
        return value


class Name(Text):
    """A name that can be part of URLs and file names."""

    def __init__(self) -> None:
        super().__init__(100)
        self.schema["pattern"] = f"^{_NAME}$"

    def check(self, value: Any) -> str:
        name = super().check(value)
        if not re.fullmatch(_NAME, name):
            raise ValueError("use letters, digits, '.', '-' and '_', beginning with a letter or digit")
        return name


class Prose:
    """Text of several lines, which may be empty."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.schema = {"type": "string", "maxLength": most}

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or len(value) > self.most:
            raise ValueError(f"give a text of at most {self.most:,} characters")
        lines = value.replace("\r\n", "\n").split("\n")
        if not all(line.replace("\t", " ").isprintable() for line in lines):
            raise ValueError("remove control characters and other invisible characters")
        return "\n".join(lines)


class Number:
    """A finite number within bounds; `whole` for counts."""

    def __init__(self, least: float, most: float, whole: bool = False) -> None:
        self.least, self.most, self.whole = least, most, whole
        self.schema = {"type": "integer" if whole else "number", "minimum": least, "maximum": most}

    def check(self, value: Any) -> float | int:
        kinds = (int,) if self.whole else (int, float)
        right = isinstance(value, kinds) and not isinstance(value, bool)
        if not right or not self.least <= value <= self.most:
            raise ValueError(f"give a {'whole ' * self.whole}number from {self.least:g} to {self.most:,g}")
        return value if self.whole else float(value)


class Choice:
    """One of some words."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.schema = {"type": "string", "enum": list(words)}

    def check(self, value: Any) -> str:
        if value not in self.words:
            raise ValueError(f"give {join_names(self.words)}")
        return str(value)


class Several:
    """A list of different texts."""

    def __init__(self, item: Text | Choice, least: int, most: int) -> None:
        self.item, self.least, self.most = item, least, most
        limits = {"minItems": least, "maxItems": most, "uniqueItems": True}
        self.schema = {"type": "array", "items": item.schema, **limits}

    def check(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not self.least <= len(value) <= self.most:
            raise ValueError(f"give a list of {self.least} to {self.most:,}")
        items = tuple(self.item.check(one) for one in value)
        if len(set(items)) < len(items):
            raise ValueError("give each of them once")
        return items


class EventWeights:
    """Kinds of events, each with its weight."""

    def __init__(self, most: int = 20) -> None:
        self.most, self.weight = most, Number(-1e6, 1e6)
        limits = {"minProperties": 1, "maxProperties": most}
        self.schema = {"type": "object", "additionalProperties": self.weight.schema, **limits}

    def check(self, value: Any) -> dict[str, float]:
        if not isinstance(value, Mapping) or not 1 <= len(value) <= self.most:
            raise ValueError(f'give 1 to {self.most} kinds of events with a weight each, such as {{"click": 1.0}}')
        weights = {Text(100).check(kind): float(self.weight.check(weight)) for kind, weight in value.items()}
        if any("=" in kind or "," in kind or kind[0] == "-" for kind in weights):
            raise ValueError("leave '=', ',' and a leading '-' out of kinds: they cannot be given on a command line")
        if not any(weights.values()):
            raise ValueError("give at least one of them a weight other than 0")
        return weights


class Optional:
    """A setting of another kind, or null."""

    def __init__(self, kind: SettingKind) -> None:
        self.kind = kind
        self.schema = {"anyOf": [kind.schema, {"type": "null"}]}

    def check(self, value: Any) -> Any:
        return None if value is None else self.kind.check(value)
