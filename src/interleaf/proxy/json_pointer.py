"""JSON pointers (RFC 6901), such as `/query/match/title`, and the values that they name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


class Pointer(tuple[str, ...]):
    """The parts of a JSON pointer."""

    @classmethod
    def parse(cls, value: Any) -> Pointer:
        """The pointer of its text."""
        if not isinstance(value, str) or not re.fullmatch(r"(/([^~/]|~[01])*)+", value):
            raise ValueError("give a JSON pointer, such as '/query/match/title'")
        return cls(part.replace("~1", "/").replace("~0", "~") for part in value[1:].split("/"))


def find_value(data: Any, pointer: tuple[str, ...]) -> Any:
    """The value that a JSON pointer names; None if there is none.

    >>> find_value({"query": {"terms": ["a", "b"]}}, Pointer.parse("/query/terms/1"))
    'b'
    """
    for part in pointer:
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list) and part.isdecimal() and len(part) < 7 and int(part) < len(data):
            data = data[int(part)]
        else:
            return None
    return data
