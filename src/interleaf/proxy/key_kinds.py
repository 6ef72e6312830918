"""The kinds of values that the configuration file takes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


class AnyText:
    """A text that is not empty, without control characters."""

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or not value or not value.isprintable():
            raise ValueError("give a text")
        return value


class TextOrFalse:
    """A text, or false for none."""

    def check(self, value: Any) -> str | None:
        return None if value is False else AnyText().check(value)


class YesNo:
    """true or false."""

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError("give true or false")
        return value


class HttpUrl:
    """The address of a server: scheme, host, perhaps port and path."""

    def check(self, value: Any) -> str:
        remedy = "give an address such as 'http://127.0.0.1:9200'"
        try:
            parts = urlsplit(value) if isinstance(value, str) and value.isprintable() and " " not in value else None
            port = parts.port if parts else None
        except ValueError:
            raise ValueError(remedy) from None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise ValueError(remedy)
        if parts.username or parts.password:
            raise ValueError("leave name and password out: the credentials of the caller are sent, and no others")
        if parts.query or parts.fragment:
            raise ValueError(f"{remedy}, without '?' and '#'")
        return str(value)


class HeaderName:
    """The name of an HTTP header or of a cookie."""

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or not _HEADER_NAME.fullmatch(value):
            raise ValueError("give a name of letters, digits and '-'")
        return value


class Pointer:
    """A JSON pointer (RFC 6901), such as `/query/match/title`, as its parts."""

    def check(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, str) or not re.fullmatch(r"(/([^~/]|~[01])*)+", value):
            raise ValueError("give a JSON pointer, such as '/query/match/title'")
        return tuple(part.replace("~1", "/").replace("~0", "~") for part in value[1:].split("/"))


def find_value(data: Any, pointer: tuple[str, ...]) -> Any:
    """The value that a JSON pointer names; None if there is none.

    >>> find_value({"query": {"terms": ["a", "b"]}}, ("query", "terms", "1"))
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


class Condition(NamedTuple):
    """What must hold: a value of the JSON body, a URL parameter or a header; `equals` None means that it is there."""

    pointer: tuple[str, ...] | None
    parameter: str | None
    header: str | None
    equals: Any


class Conditions:
    """A list of conditions, which must all hold."""

    def check(self, value: Any) -> tuple[Condition, ...]:
        remedy = 'give a list such as [{ pointer = "/ext/page", equals = "results" }, { parameter = "channel" }]'
        if not isinstance(value, list):
            raise ValueError(remedy)
        return tuple(self._condition(one, remedy) for one in value)

    def _condition(self, value: Any, remedy: str) -> Condition:
        places = {"pointer", "parameter", "header"}
        if not isinstance(value, Mapping) or len(places & value.keys()) != 1 or value.keys() - places - {"equals"}:
            raise ValueError(f"{remedy}: one of pointer, parameter and header, and perhaps equals")
        pointer, parameter, header = (value.get(name) for name in ("pointer", "parameter", "header"))
        return Condition(
            None if pointer is None else Pointer().check(pointer),
            None if parameter is None else AnyText().check(parameter),
            None if header is None else HeaderName().check(header).lower(),
            value.get("equals"),
        )


class PathPatterns:
    """Patterns of paths; `*` stands for one part of a path."""

    def check(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError('give a list of paths, such as ["/products/_search"]')
        for one in value:
            if not isinstance(one, str) or not re.fullmatch(r"(/[A-Za-z0-9._~*,:@+-]+)+", one):
                raise ValueError(f"{one!r:.100} is not a path such as '/products/_search' or '/*/_search'")
        return tuple(value)


class Methods:
    """HTTP methods of searches."""

    def check(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not value or not set(value) <= {"GET", "POST"}:
            raise ValueError('give "GET", "POST" or both, in a list')
        return tuple(value)


class Parameters:
    """URL parameters with the values to set; `false` removes a parameter."""

    def check(self, value: Any) -> dict[str, tuple[str, ...]]:
        if not isinstance(value, Mapping):
            raise ValueError('give a table, such as { qf = "title^3 text", bq = false }')
        return {name: self._values(name, one) for name, one in value.items()}

    def _values(self, name: str, value: Any) -> tuple[str, ...]:
        if value is False:
            return ()
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(one, str | int | float | bool) for one in values):
            raise ValueError(f"{name} is {value!r:.100}; give a text, a number, or a list of them")
        return tuple(str(one).lower() if isinstance(one, bool) else str(one) for one in values)


class MergePatch:
    """A JSON merge patch (RFC 7396): a table, or its JSON text, where null removes a field."""

    def check(self, value: Any) -> dict[str, Any]:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError as error:
                raise ValueError(f"this JSON cannot be read: {error}") from None
        if not isinstance(value, dict):
            raise ValueError("give a table, or a JSON object as text, where null removes a field")
        try:
            json.dumps(value)
        except TypeError as error:
            raise ValueError(f"it has a value that JSON does not have: {error}") from None
        return value


class Pointers:
    """Names with JSON pointers."""

    def check(self, value: Any) -> dict[str, tuple[str, ...]]:
        if not isinstance(value, Mapping):
            raise ValueError('give a table, such as { query = "/query/match/title/query" }')
        return {name: Pointer().check(one) for name, one in value.items()}


class FilePath:
    """A path; a relative one begins at the folder of the configuration file."""

    def check(self, value: Any) -> Path:
        return Path(AnyText().check(value))


class Address:
    """Host and port to listen on."""

    def check(self, value: Any) -> tuple[str, int]:
        host, _, port = str(value).rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not isinstance(value, str) or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise ValueError("give an address and a port, such as '127.0.0.1:9201'")
        if host != "localhost":
            try:
                ip_address(host)
            except ValueError:
                raise ValueError("give an IP address and a port, such as '127.0.0.1:9201' or '0.0.0.0:9201'") from None
        return host, int(port)
