"""The command line. Each command parses its options, makes one call of the library, and prints the result.

Exit status: 0 success; 1 the data says no, such as a failed health check; 2 wrong use, with a message that says what is
wrong and what would be right.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

from interleaf import __version__
from interleaf.cli import import_commands, list_commands, log_commands, parser, service_commands, study_commands
from interleaf.cli.output import output_files
from interleaf.cli.parser import Parser
from interleaf.errors import InterleafError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = build_parser().parse_args(arguments)
    try:
        if "formats" in options:
            output_files(options)  # reject a wrong --out before the work, not after it
        return options.run(options) or 0
    except InterleafError as error:
        print(f"interleaf {options.verb}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130


@dataclass(frozen=True)
class Verb:
    """One command. The docstring of `run` says what it does, and ends with an example that runs.

    `run` returns an exit status, or None for success.
    """

    name: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]

    @property
    def description(self) -> str:
        """What it does, as a sentence."""
        return (self.run.__doc__ or "").partition("\n\n")[0]

    @property
    def example(self) -> str:
        """A command line that shows it."""
        return " ".join((self.run.__doc__ or "").partition("\n\n")[2].split())


def build_parser() -> Parser:
    """The parser of all verbs."""
    parser = Parser(prog="interleaf", description="Compare rankers online by interleaving.", epilog=_overview())
    parser.usage = "interleaf [-h] [--version] VERB ..."
    parser.add_argument("--version", action="version", version=f"interleaf {__version__}", help="print the version")
    verbs = parser.add_subparsers(prog="interleaf", dest="verb", required=True, metavar="VERB", help=argparse.SUPPRESS)
    for verb in VERBS:
        command = verbs.add_parser(verb.name, description=verb.description, epilog=f"Example:\n  {verb.example}")
        verb.add_options(command)
        command.set_defaults(run=verb.run, parser=parser)
    return parser


def _overview() -> str:
    """The verbs in groups, one line each."""
    width = max(len(verb.name) for verb in VERBS) + 2
    lines = []
    for title, verbs in GROUPS.items():
        lines.append(f"{title}:")
        lines += [f"    {verb.name:{width}}{verb.description[0].lower()}{verb.description[1:-1]}" for verb in verbs]
        lines.append("")
    return "\n".join([*lines, "Run 'interleaf VERB --help' for the options of a verb."])


def _verbs(module: ModuleType, *names: str) -> tuple[Verb, ...]:
    return tuple(Verb(name, getattr(module, f"{name}_options"), getattr(module, f"run_{name}")) for name in names)


GROUPS = {
    "Lists and methods": _verbs(list_commands, "methods", "interleave", "credit", "audit"),
    "Simulations and studies": _verbs(study_commands, "simulate", "reproduce"),
    "Logs": (
        *_verbs(log_commands, "analyze", "plan", "learn", "caption", "reuse"),
        *_verbs(import_commands, "import", "export"),
    ),
    "Live service": _verbs(service_commands, "serve", "proxy", "keys", "store", "demo"),
    "Shell": _verbs(parser, "completion"),
}
VERBS = tuple(verb for verbs in GROUPS.values() for verb in verbs)
