"""What every command shares: JSON in, JSON out, and a progress bar on a terminal."""

from __future__ import annotations

import json
import math
import sys
from typing import Any, NoReturn

from interleaf.errors import InterleafError


def progress(done: int, total: int) -> None:
    """A bar on a terminal, nothing in a pipe."""
    if total > 0 and sys.stderr.isatty():
        filled = 30 * done // total
        end = "\r" + " " * 50 + "\r" if done == total else ""
        print(f"\r[{'#' * filled}{'.' * (30 - filled)}] {done}/{total}{end}", end="", file=sys.stderr, flush=True)


def read_json(error: type[InterleafError]) -> Any:
    """What standard input holds; the error given where that is not JSON."""
    if sys.stdin is None:
        raise error("standard input is closed; give JSON there")
    try:
        return json.load(
            sys.stdin, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_without_repeats
        )
    except (ValueError, RecursionError) as broken:
        raise error(f"standard input is not JSON: {broken}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_constant(text)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names differ: the second of two rankings by one name would silently replace the first."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError(f"an object holds a name twice: {[name for name, _ in pairs]}")
    return made


def print_json(data: Any) -> None:
    """One line of JSON, in the letters of its strings where the terminal has them."""
    text = json.dumps(data, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(data)
    print(text)
