"""The command line. Each command parses its options, makes one call of the library, and prints the result.

Exit status: 0 success; 1 the data says no, such as a failed health check; 2 wrong use, with a message that says what is
wrong and what would be right.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from interleaf import __version__
from interleaf.cli import (
    completion,
    import_commands,
    list_commands,
    log_commands,
    service_commands,
    study_commands,
)
from interleaf.cli.output import output_files
from interleaf.cli.parser import Parser
from interleaf.errors import InterleafError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = build_parser().parse_args(arguments)
    try:
        if "formats" in options:
            output_files(options)  # reject a wrong --out before the work, not after it
        return int(options.run(options))
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
    """One command: what it does, an example that runs, and the module with its functions NAME_options and run_NAME."""

    name: str
    does: str
    example: str
    module: ModuleType


def build_parser() -> Parser:
    """The parser of all verbs."""
    parser = Parser(prog="interleaf", description="Compare rankers online by interleaving.", epilog=_overview())
    parser.usage = "interleaf [-h] [--version] VERB ..."
    parser.add_argument("--version", action="version", version=f"interleaf {__version__}", help="print the version")
    verbs = parser.add_subparsers(prog="interleaf", dest="verb", required=True, metavar="VERB", help=argparse.SUPPRESS)
    for verb in VERBS:
        description = verb.does[0].upper() + verb.does[1:] + "."
        command = verbs.add_parser(verb.name, description=description, epilog=f"Example:\n  {verb.example}")
        getattr(verb.module, f"{verb.name}_options")(command)
        command.set_defaults(run=getattr(verb.module, f"run_{verb.name}"), parser=parser)
    return parser


def _overview() -> str:
    """The verbs in groups, one line each."""
    width = max(len(verb.name) for verb in VERBS) + 2
    groups = [
        "\n".join([f"{title}:", *(f"    {verb.name:{width}}{verb.does}" for verb in verbs)])
        for title, verbs in GROUPS.items()
    ]
    return "\n\n".join([*groups, "Run 'interleaf VERB --help' for the options of a verb."])


GROUPS = {
    "Lists and methods": (
        Verb("methods", "list the comparison methods", "interleaf methods --format json", list_commands),
        Verb(
            "interleave",
            "mix rankings into one list; reads JSON from standard input",
            """echo '{"production": ["d4", "d1"], "candidate": ["d1", "d9"]}' | interleaf interleave --key user-7""",
            list_commands,
        ),
        Verb(
            "credit",
            "say which ranker the clicks on a list prefer; reads the list as JSON from standard input",
            """echo '{"rankings": {"A": ["a", "b"], "B": ["b", "a"]}, "documents": ["b", "a"], "teams": [1, 0]}'"""
            " | interleaf credit --clicks 1",
            list_commands,
        ),
        Verb(
            "audit",
            "prove the properties of a method, or show the smallest counterexample",
            "interleaf audit 'team_draft(fill=owned)'",
            list_commands,
        ),
    ),
    "Simulations and studies": (
        Verb(
            "simulate",
            "simulate a comparison on judged queries, or write a log of simulated people (--out FILE.parquet)",
            "interleaf simulate --rankers 1 5 9 --method pairwise_preference --impressions 2000 --runs 5",
            study_commands,
        ),
        Verb(
            "reproduce",
            "run a published study again, and print our numbers beside the published ones",
            "interleaf reproduce fidelity --scale quick",
            study_commands,
        ),
    ),
    "Logs": (
        Verb(
            "analyze",
            "analyze a log: which ranker people prefer, with intervals and health checks",
            "interleaf simulate --impressions 5000 --out world.parquet && interleaf analyze world.parquet --by device",
            log_commands,
        ),
        Verb(
            "plan",
            "compute how many units an experiment needs, from a pilot log or from numbers",
            "interleaf plan --effect 0.02 --impressions-per-unit 3 --correlation 0.1",
            log_commands,
        ),
        Verb(
            "learn",
            "learn what a click is worth, from experiments with a known winner (--out FILE.json for analyze --credit)",
            "interleaf simulate --clicks informational --rankers 1 9 --impressions 5000 --out world.parquet "
            "&& interleaf learn world.parquet --out credit.json",
            log_commands,
        ),
        Verb(
            "caption",
            "test whether captions explain a preference",
            "interleaf simulate --rankers 10 9 --clicks realistic --captions 1.5 --captions-lean 1 --impressions 5000 "
            "--out world.parquet && interleaf caption world.parquet",
            log_commands,
        ),
        Verb(
            "reuse",
            "estimate from an old log how new rankers would compare",
            "interleaf simulate --rankers 1 5 9 --method probabilistic --impressions 5000 --rankings --out old.parquet "
            "&& interleaf reuse old.parquet --rankings A C",
            log_commands,
        ),
        Verb(
            "import",
            "convert a log of another system, such as UBI, Solr or OpenSearch, to an interleaf log",
            "interleaf simulate --impressions 500 --out world.parquet "
            "&& interleaf export ubi world.parquet --out ubi.ndjson "
            "&& interleaf import ubi ubi.ndjson --out back.parquet",
            import_commands,
        ),
        Verb(
            "export",
            "convert an interleaf log to UBI, TREC runs, Parquet or JSON lines",
            "interleaf simulate --impressions 500 --out world.parquet "
            "&& interleaf export ubi world.parquet --out ubi.ndjson",
            import_commands,
        ),
    ),
    "Live service": (
        Verb(
            "serve",
            "run the live service: lists and events over HTTP, and the dashboard",
            "interleaf serve --store interleaf.sqlite --port 8080",
            service_commands,
        ),
        Verb(
            "keys",
            "create, list or revoke API keys of the live service",
            "interleaf keys add ingest --label 'search page'",
            service_commands,
        ),
        Verb(
            "store",
            "back up the store of the live service, rotate its unit secret, or delete a unit",
            "interleaf keys add admin --store live.sqlite && interleaf store backup copy.sqlite --store live.sqlite",
            service_commands,
        ),
        Verb(
            "demo",
            "run a demo on this machine: a search engine, simulated people, the live dashboard",
            "interleaf demo --until-decided",
            service_commands,
        ),
    ),
    "Shell": (
        Verb(
            "completion",
            "print a completion script for bash, zsh or fish",
            "interleaf completion bash > interleaf.bash",
            completion,
        ),
    ),
}
VERBS = tuple(verb for verbs in GROUPS.values() for verb in verbs)
