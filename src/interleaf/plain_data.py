"""Checks plain data, such as JSON and TOML, against the annotated fields of a dataclass.

A field declares its type once, with the limits that msgspec checks:

    k: Annotated[int, Meta(ge=1, le=200)] = declare("how many results a page shows", 10)

`Annotated` may also hold a text, the remedy in errors, and functions that check the value further. Without a remedy,
errors state the limits. Without a function, texts are checked for control characters, and lists and texts for
`uniqueItems` and `enum`, which msgspec only writes into JSON schemas. A class that msgspec does not know makes a value
of itself by `parse`, which raises a ValueError with the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
from msgspec import Meta

from interleaf.errors import join_names

MAX_LINE = 200  # characters of a text of one line
_ITEM = re.compile(r"`\$\[(\d+)\]")
Label = Annotated[str, Meta(min_length=1, max_length=100)]
Line = Annotated[str, Meta(min_length=1, max_length=MAX_LINE)]
Name = Annotated[
    str,
    Meta(min_length=1, max_length=100, pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$"),
    "give a name of 1 to 100 characters: letters, digits, '.', '-' and '_', beginning with a letter or digit",
]


def one_of(words: tuple[str, ...]) -> Meta:
    """The limit of a text that is one of some words."""
    return Meta(extra_json_schema={"enum": list(words)})


def each_once(min_items: int, max_items: int) -> Meta:
    """The limits of a list of different items."""
    return Meta(min_length=min_items, max_length=max_items, extra_json_schema={"uniqueItems": True})


def declare(meaning: str, default: Any = MISSING, label: str = "") -> Any:
    """A field of a dataclass; without a default it is required. Forms show the label."""
    factory: Any = MISSING if default is MISSING else lambda: default
    return field(default_factory=factory, metadata={"meaning": meaning, "label": label})


@dataclass(frozen=True)
class DataField:
    """A declared field: its meaning, its type, and the function that makes its default, which is None if required."""

    name: str
    label: str
    meaning: str
    type: Any
    make_default: Callable[[], Any] | None

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the type."""
        return schema_of(self.type)

    def check(self, value: Any) -> Any:
        """The value as this type; a ValueError has the remedy."""
        return convert(value, self.type)


def fields_of(record: type) -> dict[str, DataField]:
    """The declared fields of a dataclass, by name."""
    types = get_type_hints(record, include_extras=True)
    return {
        one.name: DataField(
            **{"name": one.name, "type": types[one.name], **one.metadata},
            make_default=None if one.default_factory is MISSING else one.default_factory,
        )
        for one in fields(record)
    }


def without_none(kind: Any) -> Any:
    """The type of an optional value if there is one; other types as they are."""
    return next((one for one in get_args(kind) if NoneType in get_args(kind)), kind)


@lru_cache
def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type; of a class with `parse` only the name."""
    return msgspec.json.schema(kind, schema_hook=lambda unknown: {"title": unknown.__name__})


def convert(value: Any, kind: Any) -> Any:
    """The value as this type.

    >>> convert(3, Annotated[int, Meta(ge=1, le=2)] | None)
    Traceback (most recent call last):
    ValueError: give a whole number from 1 to 2
    """
    required = without_none(kind)
    try:
        converted = msgspec.convert(_as_builtin(value), kind, dec_hook=_parse)
    except (msgspec.ValidationError, UnicodeError, AttributeError) as error:  # an array is a mapping without `keys`
        item = _ITEM.search(str(error))
        wrong = f"{value[int(item[1])]!r:.100} is invalid; " if item else ""
        raise ValueError(f"{wrong}{error.__cause__ or _remedy(required)}") from None
    if converted is None:
        return None
    functions = [rule for rule in getattr(required, "__metadata__", ()) if callable(rule)]
    if not functions:
        _check_texts(converted, schema_of(required))
    for function in functions:
        converted = function(converted)
    return converted


def _as_builtin(value: Any) -> Any:
    """The value with floats of numpy as Python's, also if they are values of a mapping; sets are refused.

    msgspec would read a set as a list.
    """
    if isinstance(value, Set):
        raise msgspec.ValidationError("a set has no order")
    if isinstance(value, Mapping):
        return {name: float(one) if isinstance(one, float) else one for name, one in value.items()}
    return float(value) if isinstance(value, float) else value


def _parse(kind: Any, value: Any) -> Any:
    """A value of a class that msgspec does not know."""
    return Path(convert(value, Annotated[str, Meta(min_length=1)])) if kind is Path else kind.parse(value)


def _check_texts(value: Any, schema: Mapping[str, Any]) -> None:
    if isinstance(value, tuple):
        for one in value:
            _check_texts(one, schema.get("items", {}))
        if "uniqueItems" in schema and len(set(value)) < len(value):
            raise ValueError("give each of them once")
    elif isinstance(value, str):
        if value not in schema.get("enum", (value,)):
            raise ValueError(f"give {_words(schema)}")
        if not value.isprintable():
            raise ValueError("remove control characters, line breaks and other invisible characters")


def _remedy(kind: Any) -> str:
    remedies = (rule for rule in getattr(kind, "__metadata__", ()) if isinstance(rule, str))
    return next(remedies, None) or f"give {_words(schema_of(kind))}"


def _words(schema: Mapping[str, Any]) -> str:
    """What a JSON schema takes, in words."""
    match schema:
        case {"enum": words}:
            return join_names(words)
        case {"type": "integer" | "number" as kind, "minimum": least, "maximum": most}:
            return f"a {'whole ' * (kind == 'integer')}number from {least:g} to {most:,g}"
        case {"type": "string", "maxLength": most}:
            return f"a text of {schema.get('minLength', 0)} to {most:,} characters"
        case {"type": "array", "items": items, "maxItems": most}:
            return f"a list of {schema.get('minItems', 0)} to {most:,}, each {_words(items)}"
    return {"boolean": "true or false", "array": "a list", "object": "a table"}.get(schema["type"], "a text")
