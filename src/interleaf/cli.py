"""The command line: parse, one public call, print.

Exit status: 0 done; 1 the data says no; 2 wrong use, with one line saying what is wrong and what would be right.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from interleaf import __version__
from interleaf.errors import InterleafError, ListError, RankingError
from interleaf.interleaving import Interleaving, credit, interleave
from interleaf.methods.table import Method, Parameter, methods
from interleaf.papers import STUDIES


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


def _methods_options(made: argparse.ArgumentParser) -> None:
    form = made.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print a Markdown table")


def _method_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("--method", default="team_draft", metavar="SPEC", help="such as 'probabilistic(tau=3)'")
    made.add_argument("-k", type=int, default=10, help="how many documents to show")


def _interleave_options(made: argparse.ArgumentParser) -> None:
    _method_options(made)
    made.add_argument("--key", nargs="+", metavar="PART", help="same key, same list; 'k1:...' is taken as it is")
    made.add_argument("--rankings", action="store_true", help="print the input rankings, too")


def _credit_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("--clicks", nargs="*", type=int, default=[], metavar="RANK", help="clicked ranks, 1 = top")
    made.add_argument("--scheme", help="how clicks become a score; the method's default if left out")


def _audit_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("method", nargs="?", metavar="METHOD", help="a spec; the table of all methods if left out")
    made.add_argument("--json", action="store_true", help="print JSON")


def _simulate_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("data", nargs="*", metavar="FILE", help="LETOR or SVMlight text; synthetic queries if left out")
    made.add_argument("--rankers", nargs="+", type=int, default=[1, 2], metavar="FEATURE", help="features to rank by")
    _method_options(made)
    made.add_argument("--clicks", default="navigational", metavar="MODEL", help="such as 'informational'")
    made.add_argument("--scheme", help="how clicks become a score; the method's default if left out")
    made.add_argument("--impressions", type=int, default=10_000, help="of each run, or of the log")
    made.add_argument("--runs", type=int, default=25)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--log", metavar="FILE", help="write a log of people (.parquet, .jsonl) instead of runs")
    made.add_argument("--taste", type=float, default=0.0, help="with --log: how far people lean to the first ranker")
    made.add_argument("--json", action="store_true", help="print JSON")


def _reproduce_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("study", metavar="STUDY", help=", ".join(STUDIES))
    made.add_argument("--data", metavar="DIR", help="a learning-to-rank set; synthetic queries if left out")
    made.add_argument("--scale", default="quick", help="quick, or paper: as much as was published")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--out", metavar="DIR", help="write tables (CSV, Markdown) and charts (PNG, SVG) there")


def _demo_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("--people", type=int, default=1000, help="how many people search")
    made.add_argument("--seed", type=int, default=1, help="another seed, other people")


def _methods(options: argparse.Namespace) -> int:
    rows = [_described(row) for row in methods()]
    if options.json:
        _print_json(rows)
        return 0
    columns = ["name", "title", "rankers", "parameters", "schemes", "claims", "paper"]
    cells = [columns, *([str(_cell(row[column])) for column in columns] for row in rows)]
    if options.markdown:
        cells.insert(1, ["---"] * len(columns))
        print("\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells))
        return 0
    for row, method in zip(rows, methods(), strict=True):
        print(f"{row['name']}: {row['title']} [{row['paper']}]")
        for column in ("rankers", "schemes", "claims"):
            print(f"    {column:<11} {_cell(row[column])}")
        if method.many_schemes:
            print(f"    of many     {', '.join(method.many_schemes)}")
        for parameter in method.parameters:
            print(f"    {parameter.name}={_range(parameter)}: {parameter.meaning}")
    return 0


def _described(row: Method) -> dict[str, Any]:
    fewest, most = row.rankers
    return {
        "name": row.name,
        "title": row.title,
        "paper": row.paper,
        "rankers": f"{fewest}" if fewest == most else f"{fewest} to {most}" if most else f"{fewest} or more",
        "parameters": {parameter.name: _range(parameter) for parameter in row.parameters},
        "schemes": list(row.schemes),
        "schemes_of_many": list(row.schemes_for(3)) if most is None else [],
        "claims": asdict(row.claims),
    }


def _range(parameter: Parameter) -> str:
    others = [choice for choice in parameter.choices if choice != parameter.default]
    return "|".join(str(choice) for choice in (parameter.default, *others))


def _cell(value: Any) -> str:
    if isinstance(value, dict) and all(isinstance(item, bool | None) for item in value.values()):
        return ", ".join(name for name, holds in value.items() if holds) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items()) or "none"
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)


def _interleave(options: argparse.Namespace) -> int:
    rankings = _read_json(RankingError)
    parts = options.key or [None]
    key = tuple(parts) if len(parts) > 1 else parts[0]
    _print_json(interleave(rankings, options.method, options.k, key).to_dict(options.rankings))
    return 0


def _credit(options: argparse.Namespace) -> int:
    data = _read_json(ListError)
    if not isinstance(data, dict):
        raise ListError(
            f"standard input holds {type(data).__name__}; give the object that 'interleaf interleave' prints"
        )
    _print_json(credit(Interleaving.from_dict(data), options.clicks, options.scheme).to_dict())
    return 0


def _audit(options: argparse.Namespace) -> int:
    from interleaf.audit import check
    from interleaf.audit.overview import Overview, overview

    found = Overview((check(options.method, _progress),)) if options.method else overview(_progress)
    if options.json:
        _print_json(found.to_dict())
    else:
        print(found.checks[0] if options.method else found)
    for method in found.contradictions:
        print(f"interleaf audit: {method} does not keep what the table of methods claims", file=sys.stderr)
    return 1 if found.contradictions else 0


def _simulate(options: argparse.Namespace) -> int:
    from interleaf.simulate import People, World, read_letor, run, synthetic

    features = max([20, *options.rankers])
    data = (
        read_letor(options.data, progress=_progress)
        if options.data
        else synthetic(features=features, seed=options.seed)
    )
    if options.log:
        people = People(clicks=options.clicks, taste=options.taste)
        world = World(data, options.rankers, people, options.method, options.k, options.seed)
        rows = world.write(options.log, impressions=options.impressions)
        print(f"{options.log}: {rows:,} impressions; the truth: {world.truth.reason}")
        return 0
    result = run(
        data, options.rankers, options.method, options.clicks, options.impressions, options.runs, options.seed,
        k=options.k, scheme=options.scheme, progress=_progress,
    )  # fmt: skip
    if options.json:
        _print_json(result.to_dict())
    else:
        print(result)
    return 130 if result.interrupted else 0


def _reproduce(options: argparse.Namespace) -> int:
    from pathlib import Path

    from interleaf.papers import reproduce

    folder = Path(options.data) if options.data else None
    study = reproduce(options.study, folder, options.scale, options.seed, _progress)
    print(study)
    for path in study.write(Path(options.out)) if options.out else []:
        print(path, file=sys.stderr)
    return 0


def _demo(options: argparse.Namespace) -> int:
    from interleaf.demo import terminal

    terminal.run(options.people, options.seed)
    return 0


def _progress(done: int, total: int) -> None:
    """A bar on a terminal, nothing in a pipe."""
    if sys.stderr.isatty():
        filled = 30 * done // total
        end = "\r" + " " * 50 + "\r" if done == total else ""
        print(f"\r[{'#' * filled}{'.' * (30 - filled)}] {done}/{total}{end}", end="", file=sys.stderr, flush=True)


def _read_json(error: type[InterleafError]) -> Any:
    if sys.stdin is None:
        raise error("standard input is closed; give JSON there")
    try:
        return json.load(sys.stdin, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as broken:
        raise error(f"standard input is not JSON: {broken}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _print_json(data: Any) -> None:
    text = json.dumps(data, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(data)
    print(text)


VERBS = (
    Verb("methods", "the table of comparison methods", "interleaf methods --json", _methods_options, _methods),
    Verb(
        "interleave",
        "one list from rankings, as JSON on standard input",
        """echo '{"production": ["d4", "d1"], "candidate": ["d1", "d9"]}' | interleaf interleave --key user-7""",
        _interleave_options,
        _interleave,
    ),
    Verb(
        "credit",
        "whom clicks on a list prefer; the list as JSON on standard input",
        """echo '{"rankings": {"A": ["a", "b"], "B": ["b", "a"]}, "documents": ["b", "a"], "teams": [1, 0]}'"""
        " | interleaf credit --clicks 1",
        _credit_options,
        _credit,
    ),
    Verb(
        "audit",
        "properties of methods: proved, or the smallest counterexample",
        "interleaf audit 'team_draft(fill=owned)'",
        _audit_options,
        _audit,
    ),
    Verb(
        "simulate",
        "a simulated study on a learning-to-rank file, or on synthetic data; can write a log",
        "interleaf simulate --rankers 1 5 9 --method pairwise_preference --impressions 2000 --runs 5",
        _simulate_options,
        _simulate,
    ),
    Verb(
        "reproduce",
        "a published study, our numbers beside the published ones",
        "interleaf reproduce fidelity --scale quick",
        _reproduce_options,
        _reproduce,
    ),
    Verb(
        "demo",
        "two rankers, simulated people, a verdict: the whole idea in a terminal",
        "interleaf demo --people 500",
        _demo_options,
        _demo,
    ),
)
