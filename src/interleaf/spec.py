"""Spec strings, such as `probabilistic(tau=3)`, which name a method and its parameters.

Parameters that are left out have their defaults, and the canonical form leaves defaults out. Values are numbers, True
or False, and bare or quoted words.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from interleaf.errors import MethodError, join_names

Value = bool | int | float | str | None

_SPEC = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*(?:\((?P<inside>.*)\))?\s*", re.DOTALL)
_ITEM = re.compile(
    r"""\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,'"()=]+)\s*(?:,|$)""",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Za-z_][\w.-]*")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method: its default, and its possible values.

    If there are `choices`, the value is one of these; those in `for_two` are for two rankers only. Otherwise, if the
    default is None, the value is a name; else it is a finite number above 0, and a whole number if `whole` is set.
    """

    name: str
    default: Value
    meaning: str
    choices: tuple[Value, ...] = ()
    for_two: tuple[Value, ...] = ()
    whole: bool = False
    max_value: float = sys.float_info.max

    def check(self, value: Value, method: str) -> Value:
        """Return the value if it is valid; otherwise raise an error that lists valid values."""
        if self.choices:
            for choice in self.choices:
                if type(choice) is type(value) and choice == value:
                    return value
            raise self._error(value, method, join_names(self.choices))
        if self.default is None:
            if isinstance(value, str):
                return value
            raise self._error(value, method, "a name")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
            raise self._error(value, method, "a finite number")
        if self.whole and (value != int(value) or value < 1):
            raise self._error(value, method, "a whole number from 1 up")
        if not 0 < value <= self.max_value:
            raise self._error(value, method, f"a number above 0, at most {self.max_value:g}")
        return int(value) if value == int(value) else value

    def _error(self, value: Value, method: str, remedy: str) -> MethodError:
        return MethodError(f"{method}: parameter {self.name!r} cannot be {value!r}; give {remedy}")


def parse(text: str) -> tuple[str, dict[str, Value]]:
    """Split a spec string into its name and the parameters it sets.

    >>> parse("team_draft(fill=owned, prefix=True)")
    ('team_draft', {'fill': 'owned', 'prefix': True})
    """
    match = _SPEC.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise MethodError(f"{text!r} is not a spec; write a name, or name(parameter=value, ...)")
    inside, values, at = match["inside"] or "", dict[str, Value](), 0
    while inside[at:].strip():
        item = _ITEM.match(inside, at)
        if item is None:
            raise MethodError(f"{text!r} is not a spec at {inside[at:]!r}; write name(parameter=value, ...)")
        if item["name"] in values:
            raise MethodError(f"{text!r} sets {item['name']!r} twice; leave one of them out")
        values[item["name"]] = _value(item["value"])
        at = item.end()
    return match["name"], values


def render(name: str, values: Mapping[str, Value], parameters: tuple[Parameter, ...]) -> str:
    """The canonical spec string: parameters in the order of the method, without defaults."""
    changed = [p for p in parameters if values[p.name] != p.default]
    inside = ", ".join(f"{p.name}={_print(values[p.name])}" for p in changed)
    return f"{name}({inside})" if inside else name


def _value(text: str) -> Value:
    if text[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
    if text in ("True", "False"):
        return text == "True"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _print(value: Value) -> str:
    if not isinstance(value, str):
        return repr(value)
    is_plain = _WORD.fullmatch(value) and isinstance(_value(value), str)
    return value if is_plain else "'" + re.sub(r"(['\\])", r"\\\1", value) + "'"
