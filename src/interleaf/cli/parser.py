"""The argument parser of every verb: one-line errors with suggestions, and help that shows defaults."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from interleaf.errors import did_you_mean


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
