"""The command line: parse, one public call, print.

Exit status: 0 done; 1 the data says no; 2 wrong use, with one line saying what is wrong and what would be right.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from interleaf import __version__
from interleaf.cli import completion, demo, lists, log_commands, refine_commands, serve, store, studies, transfer
from interleaf.cli.terminal import Parser
from interleaf.errors import InterleafError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
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
    """One command: what it does, an example that runs, its options, and the function that does it."""

    name: str
    does: str
    example: str
    options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _parser() -> Parser:
    parser = Parser(prog="interleaf", description="Compare rankers online by interleaving.", epilog=_overview())
    parser.usage = "interleaf [-h] [--version] VERB ..."
    parser.add_argument("--version", action="version", version=f"interleaf {__version__}", help="print the version")
    verbs = parser.add_subparsers(prog="interleaf", dest="verb", required=True, metavar="VERB", help=argparse.SUPPRESS)
    for verb in VERBS:
        made = verbs.add_parser(
            verb.name,
            description=verb.does[0].upper() + verb.does[1:] + ".",
            epilog=f"Example:\n  {verb.example}",
        )
        verb.options(made)
        made.set_defaults(run=verb.run)
    return parser


def _overview() -> str:
    """The verbs in groups, a line each."""
    width = max(len(verb.name) for verb in VERBS) + 2
    groups = [
        "\n".join([f"{title}:", *(f"    {verb.name:{width}}{verb.does}" for verb in verbs)])
        for title, verbs in GROUPS.items()
    ]
    return "\n\n".join([*groups, "Run 'interleaf VERB --help' for the options of a verb."])


def _complete(options: argparse.Namespace) -> int:
    return completion.run_completion(options, _parser)


_LISTS = (
    Verb(
        "methods",
        "list the comparison methods",
        "interleaf methods --json",
        lists.methods_options,
        lists.run_methods,
    ),
    Verb(
        "interleave",
        "mix rankings into one list; reads JSON from standard input",
        """echo '{"production": ["d4", "d1"], "candidate": ["d1", "d9"]}' | interleaf interleave --key user-7""",
        lists.interleave_options,
        lists.run_interleave,
    ),
    Verb(
        "credit",
        "say which ranker the clicks on a list prefer; reads the list as JSON from standard input",
        """echo '{"rankings": {"A": ["a", "b"], "B": ["b", "a"]}, "documents": ["b", "a"], "teams": [1, 0]}'"""
        " | interleaf credit --clicks 1",
        lists.credit_options,
        lists.run_credit,
    ),
    Verb(
        "audit",
        "prove the properties of a method, or show the smallest counterexample",
        "interleaf audit 'team_draft(fill=owned)'",
        lists.audit_options,
        lists.run_audit,
    ),
)

_STUDIES = (
    Verb(
        "simulate",
        "simulate a comparison on a learning-to-rank file or on synthetic data, or write a simulated log",
        "interleaf simulate --rankers 1 5 9 --method pairwise_preference --impressions 2000 --runs 5",
        studies.simulate_options,
        studies.run_simulate,
    ),
    Verb(
        "reproduce",
        "run a published study again, and print our numbers beside the published ones",
        "interleaf reproduce fidelity --scale quick",
        studies.reproduce_options,
        studies.run_reproduce,
    ),
)

_LOGS = (
    Verb(
        "analyze",
        "analyze a log: which ranker people prefer, with intervals and health checks",
        "interleaf simulate --impressions 5000 --log world.parquet && interleaf analyze world.parquet --by device",
        log_commands.analyze_options,
        log_commands.run_analyze,
    ),
    Verb(
        "plan",
        "compute how many units an experiment needs, from a pilot log or from numbers",
        "interleaf plan --effect 0.02 --impressions-per-unit 3 --correlation 0.1",
        log_commands.plan_options,
        log_commands.run_plan,
    ),
    Verb(
        "learn",
        "learn what a click is worth, from experiments whose better ranker is known",
        "interleaf simulate --clicks informational --rankers 1 9 --impressions 5000 --log world.parquet "
        "&& interleaf learn world.parquet --out credit.json",
        refine_commands.learn_options,
        refine_commands.run_learn,
    ),
    Verb(
        "caption",
        "test whether captions explain a preference",
        "interleaf simulate --rankers 10 9 --clicks realistic --captions 1.5 --captions-lean 1 --impressions 5000 "
        "--log world.parquet && interleaf caption world.parquet",
        refine_commands.caption_options,
        refine_commands.run_caption,
    ),
    Verb(
        "reuse",
        "estimate from an old log how new rankers would compare",
        "interleaf simulate --rankers 1 5 9 --method probabilistic --impressions 5000 --rankings --log old.parquet "
        "&& interleaf reuse old.parquet --rankings A C",
        refine_commands.reuse_options,
        refine_commands.run_reuse,
    ),
    Verb(
        "import",
        "convert a log of another system, such as UBI, Solr or OpenSearch, to an interleaf log",
        "interleaf simulate --impressions 500 --log world.parquet "
        "&& interleaf export ubi world.parquet --out ubi.ndjson "
        "&& interleaf import ubi ubi.ndjson --out back.parquet",
        transfer.import_options,
        transfer.run_import,
    ),
    Verb(
        "export",
        "convert an interleaf log to UBI, TREC runs, Parquet or JSON lines",
        "interleaf simulate --impressions 500 --log world.parquet "
        "&& interleaf export ubi world.parquet --out ubi.ndjson",
        transfer.export_options,
        transfer.run_export,
    ),
)

_LIVE = (
    Verb(
        "serve",
        "run the live service: lists and events over HTTP, and the dashboard",
        "interleaf serve --store interleaf.sqlite --port 8080",
        serve.serve_options,
        serve.run_serve,
    ),
    Verb(
        "keys",
        "create, list or revoke API keys of the live service",
        "interleaf keys add ingest --label 'search page'",
        serve.keys_options,
        serve.run_keys,
    ),
    Verb(
        "store",
        "back up the store of the live service, rotate its unit secret, or delete a unit",
        "interleaf keys add admin --store live.sqlite && interleaf store backup copy.sqlite --store live.sqlite",
        store.store_options,
        store.run_store,
    ),
    Verb(
        "demo",
        "run a demo on this machine: a search engine, simulated people, the live dashboard",
        "interleaf demo --until-decided",
        demo.demo_options,
        demo.run_demo,
    ),
)

_SHELL = (
    Verb(
        "completion",
        "print a completion script for bash, zsh or fish",
        "interleaf completion bash > interleaf.bash",
        completion.completion_options,
        _complete,
    ),
)

GROUPS = {
    "Lists and methods": _LISTS,
    "Simulations and studies": _STUDIES,
    "Logs": _LOGS,
    "Live service": _LIVE,
    "Shell": _SHELL,
}
VERBS = tuple(verb for verbs in GROUPS.values() for verb in verbs)
