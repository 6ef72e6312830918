"""What every command shares: a parser with one-line errors, JSON in and out, a progress bar."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from interleaf.errors import InterleafError, did_you_mean


class Help(argparse.RawDescriptionHelpFormatter):
    """Help that ends each option with its default, unless the text already says what is used."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text, default = action.help, action.default
        if not text or "default" in text or default is argparse.SUPPRESS or default is None or default is False:
            return text
        shown = " ".join(map(str, default)) if isinstance(default, list | tuple) else str(default)
        return f"{text} (default: {shown})".replace("(default: %", "(default: %%") if shown else text


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, of the verb that is used wrongly."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**({"formatter_class": Help} | settings))

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and one line, without the usage block."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def _refuse_option(self, args: Sequence[str]) -> None:
        """Before the verb, name an unknown option with its suggestion: argparse only says that the verb is missing."""
        option = args[0].partition("=")[0] if args else ""
        is_known = any(known.startswith(option) for known in self._option_string_actions)
        if self._subparsers is not None and option.startswith("--") and not is_known:
            self.error("; ".join(self._refusals(args[:1])))

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse unknown arguments here and not in the parser above, which knows no option of this verb."""
        self._refuse_option(sys.argv[1:] if args is None else args)
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error("; ".join(self._refusals(unknown)))
        return parsed, unknown

    def _refusals(self, unknown: Sequence[str]) -> Iterator[str]:
        options = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        for option in options:
            yield f"there is no option {option}{did_you_mean(option, self._option_string_actions)}"
        if not options:
            yield f"unexpected arguments: {' '.join(unknown)}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            hint = did_you_mean(str(value), known)
            raise argparse.ArgumentError(action, f"invalid choice {value!r}; choose from {', '.join(known)}{hint}")


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
