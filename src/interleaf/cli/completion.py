"""The command that prints a completion script for a shell, generated from the parser."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
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


class Command(NamedTuple):
    """One verb: its possible first words, and its options."""

    name: str
    does: str
    first: tuple[str, ...]
    options: tuple[argparse.Action, ...]


def completion_options(parser: argparse.ArgumentParser) -> None:
    """Which shell."""
    parser.add_argument("shell", choices=SHELLS, help="shell that reads the script")


def run_completion(options: argparse.Namespace) -> None:
    """Print a completion script for bash, zsh or fish.

    interleaf completion bash > interleaf.bash
    """
    verbs = list(commands(options.parser))
    print(fish(verbs) if options.shell == "fish" else (_ZSH if options.shell == "zsh" else "") + bash(verbs), end="")


def commands(parser: argparse.ArgumentParser) -> Iterator[Command]:
    """Every verb of the parser, with the options of its actions."""
    for name, verb in _verbs(parser).items():
        parsers = [verb, *_verbs(verb).values()]
        options = {one.option_strings[0]: one for part in parsers for one in part._actions if one.option_strings}
        choices = [action.choices for action in verb._actions if not action.option_strings and action.choices]
        first = tuple(map(str, choices[0] or ())) if choices else ()
        yield Command(name, (verb.description or "").rstrip("."), first, tuple(options.values()))


def _verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(actions[0].choices) if actions else {}


def bash(verbs: list[Command]) -> str:
    """The script for bash; zsh reads it, too."""
    values = [
        f"            {shlex.quote(f'{command.name} {name}')}) words={shlex.quote(_values(option))} ;;"
        for command in verbs
        for option in command.options
        for name in option.option_strings
        if option.choices
    ]
    values += [
        f"            {shlex.quote(f'{command.name} {command.name}')}) words={shlex.quote(' '.join(command.first))} ;;"
        for command in verbs
        if command.first
    ]
    names = {
        command.name: " ".join(name for option in command.options for name in option.option_strings)
        for command in verbs
    }
    options = [f"            {name}' -'*) words={shlex.quote(words)} ;;" for name, words in names.items()]
    all_names = shlex.quote(" ".join(names))
    return _BASH.format(verbs=all_names, values="\n".join(values), options="\n".join(options))


def fish(verbs: list[Command]) -> str:
    """The script for fish."""
    lines = []
    for command in verbs:
        lines.append(f"complete -c interleaf -n __fish_use_subcommand -f -a {command.name} -d {_quote(command.does)}")
        inside = f"complete -c interleaf -n '__fish_seen_subcommand_from {command.name}'"
        if command.first:
            lines.append(f"{inside} -a {_quote(' '.join(command.first))}")
        for option in command.options:
            flags = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.option_strings]
            takes = f" -x -a {_quote(_values(option))}" if option.choices else "" if option.nargs == 0 else " -r"
            text = (option.help or "").replace("%%", "%").partition(";")[0]
            lines.append(f"{inside} {' '.join(flags)}{takes} -d {_quote(text)}")
    return "\n".join(lines) + "\n"


def _values(option: argparse.Action) -> str:
    return " ".join(map(str, option.choices or ()))


def _quote(text: str) -> str:
    """Text in single quotes, as fish reads them."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
