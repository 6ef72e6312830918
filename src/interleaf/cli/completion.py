"""The command that prints a completion script for a shell, generated from the parser."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from typing import NamedTuple

SHELLS = ("bash", "zsh", "fish")
_BASH = """\
_interleaf() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}} words=""
    if [ "$COMP_CWORD" = 1 ]; then
        words={verbs}
    else
        case "$verb $previous" in
{values}
        esac
        case "$verb $word" in
{options}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o bashdefault -o default -F _interleaf interleaf
"""
_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


class Option(NamedTuple):
    """One option of a verb, and the values that it may have."""

    names: tuple[str, ...]
    values: tuple[str, ...]
    takes_value: bool
    help: str


class Command(NamedTuple):
    """One verb: what may follow it, and its options."""

    name: str
    does: str
    first: tuple[str, ...]
    options: tuple[Option, ...]


def completion_options(parser: argparse.ArgumentParser) -> None:
    """Which shell."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script: bash, zsh or fish")


def run_completion(options: argparse.Namespace, parser: Callable[[], argparse.ArgumentParser]) -> int:
    """Print the script."""
    known = list(commands(parser()))
    print(fish(known) if options.shell == "fish" else (_ZSH if options.shell == "zsh" else "") + bash(known), end="")
    return 0


def commands(parser: argparse.ArgumentParser) -> Iterator[Command]:
    """Every verb of the parser; the options of its own verbs count as its own."""
    for name, made in _verbs(parser).items():
        inner = _verbs(made)
        parsers = [made, *inner.values()]
        options = {
            action.option_strings[0]: action for one in parsers for action in one._actions if action.option_strings
        }
        choices = [action.choices for action in made._actions if not action.option_strings and action.choices]
        first = tuple(map(str, choices[0] or ())) if choices else ()
        yield Command(name, (made.description or "").rstrip("."), first, tuple(map(_option, options.values())))


def _verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def _option(action: argparse.Action) -> Option:
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    return Option(
        tuple(action.option_strings), tuple(map(str, action.choices or ())), action.nargs != 0, text.partition(";")[0]
    )


def bash(known: list[Command]) -> str:
    """The script for bash; zsh reads it, too."""
    values = [
        f"            {shlex.quote(f'{command.name} {name}')}) words={shlex.quote(' '.join(option.values))} ;;"
        for command in known
        for option in command.options
        for name in option.names
        if option.values
    ]
    values += [
        f"            {shlex.quote(f'{command.name} {command.name}')}) words={shlex.quote(' '.join(command.first))} ;;"
        for command in known
        if command.first
    ]
    names = {command.name: " ".join(name for option in command.options for name in option.names) for command in known}
    options = [f"            {name}' -'*) words={shlex.quote(words)} ;;" for name, words in names.items()]
    verbs = shlex.quote(" ".join(command.name for command in known))
    return _BASH.format(verbs=verbs, values="\n".join(values), options="\n".join(options))


def fish(known: list[Command]) -> str:
    """The script for fish."""
    lines = []
    for command in known:
        lines.append(f"complete -c interleaf -n __fish_use_subcommand -f -a {command.name} -d {_quoted(command.does)}")
        inside = f"complete -c interleaf -n '__fish_seen_subcommand_from {command.name}'"
        if command.first:
            lines.append(f"{inside} -a {_quoted(' '.join(command.first))}")
        for option in command.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            takes = (
                f" -x -a {_quoted(' '.join(option.values))}" if option.values else " -r" if option.takes_value else ""
            )
            lines.append(f"{inside} {names}{takes} -d {_quoted(option.help)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Text in single quotes, as fish reads them."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
