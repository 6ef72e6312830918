"""The argument parser, options that several commands share, and completion scripts for shells."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, NoReturn

from interleaf.cli.output import show_progress
from interleaf.errors import DataError, did_you_mean
from interleaf.execution.options import LogOptions
from interleaf.methods.registry import DEFAULT

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


class Help(argparse.RawDescriptionHelpFormatter):
    """Help texts that end with the default of the option, unless they already have it."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text, default = action.help, action.default
        if not text or "default" in text or default is argparse.SUPPRESS or default is None or default is False:
            return text
        shown = " ".join(map(str, default)) if isinstance(default, list | tuple) else str(default)
        return f"{text} (default: {shown})".replace("(default: %", "(default: %%") if shown else text


class Parser(argparse.ArgumentParser):
    """A parser that reports all invalid arguments at once, in one line that names the verb."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**({"formatter_class": Help} | settings))
        self._problems: list[str] = []

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and one line, without the usage block."""
        self.exit(2, f"{self.prog}: {'; '.join([*self._problems, message])} (see {self.prog} --help)\n")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Note an invalid value, and continue with the other arguments; an option may add this one to a list."""
        try:
            return super()._get_values(action, arg_strings)
        except argparse.ArgumentError as error:
            if isinstance(action, argparse._SubParsersAction):
                raise
            self._problems.append(str(error))
            return []

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Reject unknown arguments here and not in the parser above, which does not know the options of this verb."""
        self._problems = []
        words = sys.argv[1:] if args is None else args
        option = words[0].partition("=")[0] if words else ""
        is_known = any(name.startswith(option) for name in self._option_string_actions)
        if self._subparsers is not None and option.startswith("--") and not is_known:
            self.error("; ".join(self._describe_unknown(words[:1])))  # argparse would only say that the verb is missing
        parsed, unknown = super().parse_known_args(args, namespace)
        problems = [*self._problems, *(self._describe_unknown(unknown) if unknown else ())]
        if problems:
            self._problems = []
            self.error("; ".join(problems))
        return parsed, unknown

    def _describe_unknown(self, words: Sequence[str]) -> Iterator[str]:
        options = [word.partition("=")[0] for word in words if word.startswith("-")]
        for option in options:
            yield f"there is no option {option}{did_you_mean(option, self._option_string_actions)}"
        if not options:
            yield f"unexpected arguments: {' '.join(words)}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            hint = did_you_mean(str(value), choices)
            raise argparse.ArgumentError(action, f"invalid choice {value!r}; choose from {', '.join(choices)}{hint}")


def pair(
    example: str, value: Callable[[str], Any] = str, name: Callable[[str], Any] = str, at_last: bool = False
) -> Callable[[str], tuple[Any, Any]]:
    """A type of arguments such as `device=bot`: name and value, split at the first or the last equals sign.

    >>> pair("A=0.6", float)("B=0.4")
    ('B', 0.4)
    """

    def parse(text: str) -> tuple[Any, Any]:
        left, separator, right = text.rpartition("=") if at_last else text.partition("=")
        try:
            if not (left and separator and right):
                raise ValueError
            return name(left), value(right)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} has another form than {example}") from None

    return parse


def as_map(option: str, pairs: Iterable[tuple[Any, Any]] | None) -> dict[Any, Any]:
    """The values of an option with pairs, by their names; the same name twice is an error.

    >>> as_map("--split", [("A", 0.6), ("B", 0.4)])
    {'A': 0.6, 'B': 0.4}
    >>> as_map("--split", [("A", 0.6), ("A", 0.4)])
    Traceback (most recent call last):
    interleaf.errors.DataError: --split names 'A' twice; name it once
    """
    values: dict[Any, Any] = {}
    for name, value in pairs or ():
        if name in values:
            raise DataError(f"{option} names {name!r} twice; name it once")
        values[name] = value
    return values


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return [line.strip() for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"cannot read {path}: {error}") from None


def parse_kinds(text: str) -> tuple[str, float]:
    """A kind of events and its weight, such as `purchase=5`.

    >>> parse_kinds("purchase=5"), parse_kinds("click")
    (('purchase', 5.0), ('click', 1.0))
    """
    return pair("KIND=WEIGHT, such as purchase=5", float)(text) if "=" in text else (text, 1.0)


def add_ordinals(parser: argparse.ArgumentParser, when: str = "") -> None:
    """Add the option for the number of the top position in events of another system."""
    text = f"{when}number of the top position in events (default: detected)"
    parser.add_argument("--ordinals", type=int, choices=[0, 1], help=text)


def add_map_options(parser: argparse.ArgumentParser, when: str) -> None:
    """Add the options that say what the columns of two tables are."""
    named = "columns by their meaning, such as unit=visitor events.time=clicked_at (default: recognised by their names)"
    form = pair("FIELD=COLUMN, such as unit=visitor")
    parser.add_argument("--map", nargs="+", type=form, default=[], metavar="FIELD=COLUMN", help=f"{when}{named}")
    names = "names of the rankers, if the owners of documents are their numbers"
    parser.add_argument("--rankers", nargs="+", default=[], metavar="NAME", help=f"{when}{names}")


def add_log_options(parser: argparse.ArgumentParser, verb: str) -> None:
    """Add the options with which a verb reads a log; options that are not given are None."""
    add = parser.add_argument
    types = {
        "events": str if verb == "analyze" else parse_kinds,
        "exclude": pair("ATTRIBUTE=VALUE, such as device=bot"),
        "guardrails": pair("METRIC=MARGIN, such as abandonment=0.02", float, at_last=True),
    }
    for option in fields(LogOptions):
        if argument := option.metadata.get("arguments", {}).get(verb):
            settings: dict[str, Any] = {"default": None, **argument}
            if option.name in types:
                settings["type"] = types[option.name]
            add(f"--{option.name}", **settings)
    add("--exclude-units", type=_lines, metavar="FILE", help="exclude the user ids in this file, one per line")
    add("--max-impressions", type=int, metavar="N", help="exclude users with more than N impressions, such as crawlers")


def collect_log_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of `add_log_options` that were given, as keyword arguments of the verb's function."""
    from interleaf.decode.columns import Exclusion

    values = {option.name: getattr(options, option.name, None) for option in fields(LogOptions)}
    attributes: dict[str, list[str]] = {}
    for name, value in values.pop("exclude") or []:
        attributes.setdefault(name, []).append(value)
    exclusion = Exclusion(attributes, options.exclude_units or (), options.max_impressions)
    for name in ("events", "guardrails"):
        values[name] = as_map(f"--{name}", values[name]) or None
    values |= {"exclude": exclusion or None, "progress": show_progress}
    return {name: value for name, value in values.items() if value is not None}


def keywords(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The values of these options, as keyword arguments of a function that has parameters of the same names."""
    return {name: getattr(options, name) for name in names}


def add_confidence(parser: argparse.ArgumentParser) -> None:
    """Add the option for the confidence of intervals."""
    parser.add_argument("--confidence", type=float, default=0.95, help="confidence level of intervals")


def add_method_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for a method and the number of documents."""
    parser.add_argument("--method", default=DEFAULT, metavar="SPEC", help="method, such as 'probabilistic(tau=3)'")
    parser.add_argument("-k", type=int, default=10, help="number of documents to show")


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
    script = fish_script(verbs) if options.shell == "fish" else bash_script(verbs)
    print((_ZSH if options.shell == "zsh" else "") + script, end="")


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


def bash_script(verbs: list[Command]) -> str:
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


def fish_script(verbs: list[Command]) -> str:
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
