"""The command line: parse, one public call, print.

Exit status: 0 done; 1 the data says no; 2 wrong use, with one line saying what is wrong and what would be right.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from interleaf import __version__
from interleaf.cli import caption, demo, learn, lists, logs, reuse, serve, store, studies, transfer
from interleaf.errors import InterleafError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line and status 2, without the usage block."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


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


def _parser() -> _Parser:
    parser = _Parser(prog="interleaf", description="Online evaluation of rankers by interleaving.")
    parser.add_argument("--version", action="version", version=f"interleaf {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=_Parser)
    for verb in VERBS:
        made = verbs.add_parser(
            verb.name,
            help=verb.does,
            description=verb.does[0].upper() + verb.does[1:] + ".",
            epilog=f"Example:\n  {verb.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        verb.options(made)
        made.set_defaults(run=verb.run)
    return parser


VERBS = (
    Verb(
        "methods",
        "the table of comparison methods",
        "interleaf methods --json",
        lists.methods_options,
        lists.run_methods,
    ),
    Verb(
        "interleave",
        "one list from rankings, as JSON on standard input",
        """echo '{"production": ["d4", "d1"], "candidate": ["d1", "d9"]}' | interleaf interleave --key user-7""",
        lists.interleave_options,
        lists.run_interleave,
    ),
    Verb(
        "credit",
        "whom clicks on a list prefer; the list as JSON on standard input",
        """echo '{"rankings": {"A": ["a", "b"], "B": ["b", "a"]}, "documents": ["b", "a"], "teams": [1, 0]}'"""
        " | interleaf credit --clicks 1",
        lists.credit_options,
        lists.run_credit,
    ),
    Verb(
        "audit",
        "properties of methods: proved, or the smallest counterexample",
        "interleaf audit 'team_draft(fill=owned)'",
        lists.audit_options,
        lists.run_audit,
    ),
    Verb(
        "simulate",
        "a simulated study on a learning-to-rank file, or on synthetic data; can write a log",
        "interleaf simulate --rankers 1 5 9 --method pairwise_preference --impressions 2000 --runs 5",
        studies.simulate_options,
        studies.run_simulate,
    ),
    Verb(
        "reproduce",
        "a published study, our numbers beside the published ones",
        "interleaf reproduce fidelity --scale quick",
        studies.reproduce_options,
        studies.run_reproduce,
    ),
    Verb(
        "analyze",
        "a log to a verdict",
        "interleaf simulate --impressions 5000 --log world.parquet && interleaf analyze world.parquet --by device",
        logs.analyze_options,
        logs.run_analyze,
    ),
    Verb(
        "plan",
        "how many units an experiment needs, from a pilot log or from numbers",
        "interleaf plan --effect 0.02 --impressions-per-unit 3 --correlation 0.1",
        logs.plan_options,
        logs.run_plan,
    ),
    Verb(
        "learn",
        "what a click is worth, from experiments whose better ranker is known",
        "interleaf simulate --clicks informational --rankers 1 9 --impressions 5000 --log world.parquet "
        "&& interleaf learn world.parquet --out credit.json",
        learn.learn_options,
        learn.run_learn,
    ),
    Verb(
        "caption",
        "whether captions explain what people prefer",
        "interleaf simulate --rankers 10 9 --clicks realistic --captions 1.5 --captions-lean 1 --impressions 5000 "
        "--log world.parquet && interleaf caption world.parquet",
        caption.caption_options,
        caption.run_caption,
    ),
    Verb(
        "reuse",
        "what an old log says of new rankers that it never showed",
        "interleaf simulate --rankers 1 5 9 --method probabilistic --impressions 5000 --rankings --log old.parquet "
        "&& interleaf reuse old.parquet --rankings A C",
        reuse.reuse_options,
        reuse.run_reuse,
    ),
    Verb(
        "import",
        "a log of another system, such as UBI, Solr or OpenSearch, as one of ours",
        "interleaf simulate --impressions 500 --log world.parquet "
        "&& interleaf export ubi world.parquet --out ubi.ndjson "
        "&& interleaf import ubi ubi.ndjson --out back.parquet",
        transfer.import_options,
        transfer.run_import,
    ),
    Verb(
        "export",
        "a log for other systems: UBI, TREC runs, Parquet, JSON lines",
        "interleaf simulate --impressions 500 --log world.parquet "
        "&& interleaf export ubi world.parquet --out ubi.ndjson",
        transfer.export_options,
        transfer.run_export,
    ),
    Verb(
        "serve",
        "the live service: lists and events over HTTP, and the dashboard",
        "interleaf serve --store interleaf.sqlite --port 8080",
        serve.serve_options,
        serve.run_serve,
    ),
    Verb(
        "keys",
        "keys of the live service: make, list, revoke",
        "interleaf keys add ingest --label 'search page'",
        serve.keys_options,
        serve.run_keys,
    ),
    Verb(
        "store",
        "the store of the live service: back it up, rotate its unit secret, delete a unit",
        "interleaf keys add admin --store live.sqlite && interleaf store backup copy.sqlite --store live.sqlite",
        store.store_options,
        store.run_store,
    ),
    Verb(
        "demo",
        "the whole thing on this machine: a search engine, people, the live dashboard",
        "interleaf demo --until-decided",
        demo.demo_options,
        demo.run_demo,
    ),
)
