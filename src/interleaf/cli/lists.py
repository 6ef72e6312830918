"""Commands about methods and single lists: methods, interleave, credit, audit."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from interleaf.cli.terminal import print_json, progress, read_json
from interleaf.errors import ListError, RankingError
from interleaf.interleaving.api import Interleaving, credit, interleave
from interleaf.interleaving.rankings import check_k
from interleaf.methods.registry import Method, methods, resolve
from interleaf.spec import Parameter


def methods_options(made: argparse.ArgumentParser) -> None:
    """How the table is printed."""
    form = made.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print a Markdown table")


def run_methods(options: argparse.Namespace) -> int:
    """Print the table of methods."""
    rows = [_described(row) for row in methods()]
    if options.json:
        print_json([_as_data(row) for row in methods()])
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


def _as_data(row: Method) -> dict[str, Any]:
    parameters = [
        {"name": p.name, "default": p.default, "choices": list(p.choices), "meaning": p.meaning} for p in row.parameters
    ]
    schemes = {"two": list(row.schemes), "many": list(row.schemes_for(3)) if row.rankers[1] is None else []}
    facts = {"name": row.name, "title": row.title, "paper": row.paper, "rankers": list(row.rankers)}
    return {
        **facts,
        "parameters": parameters,
        "schemes": schemes,
        "claims": asdict(row.claims),
        "needs": list(row.needs),
    }


def _described(row: Method) -> dict[str, Any]:
    fewest, most = row.rankers
    return {
        "name": row.name,
        "title": row.title,
        "paper": row.paper,
        "rankers": f"{fewest}" if fewest == most else f"{fewest} to {most}" if most else f"{fewest} or more",
        "parameters": {parameter.name: _range(parameter) for parameter in row.parameters},
        "schemes": list(row.schemes),
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


def method_options(made: argparse.ArgumentParser) -> None:
    """A method and how many documents it shows."""
    made.add_argument(
        "--method", default="team_draft", metavar="SPEC", help="the method, such as 'probabilistic(tau=3)'"
    )
    made.add_argument("-k", type=int, default=10, help="how many documents to show")


def interleave_options(made: argparse.ArgumentParser) -> None:
    """A method, a key."""
    method_options(made)
    made.add_argument(
        "--key",
        nargs="+",
        metavar="PART",
        help="the same key gives the same list; a key that was printed ('k1:...') is used as it is",
    )
    made.add_argument(
        "--fixed",
        nargs="+",
        default=[],
        metavar="RANK=DOCUMENT",
        help="documents at given ranks that belong to no ranker, such as 1=ad-7; the list to show is then whole_list",
    )
    made.add_argument("--rankings", action="store_true", help="print the input rankings, too")


def run_interleave(options: argparse.Namespace) -> int:
    """Compose one list; a wrong option is named before standard input is read."""
    resolve(options.method)
    check_k(options.k)
    fixed = dict(map(_at_rank, options.fixed))
    if len(fixed) < len(options.fixed):
        raise RankingError(f"--fixed {' '.join(options.fixed)} names a rank twice; give each rank one document")
    rankings = read_json(RankingError)
    parts = options.key or [None]
    key = tuple(parts) if len(parts) > 1 else parts[0]
    shown = interleave(rankings, options.method, options.k, key, fixed=fixed or None)
    print_json(shown.to_dict(options.rankings) | ({"whole_list": list(shown.whole_list)} if fixed else {}))
    return 0


def _at_rank(text: str) -> tuple[int, str]:
    rank, _, document = text.partition("=")
    if not rank.isdecimal() or not document:
        raise RankingError(f"--fixed {text!r} is no RANK=DOCUMENT; give such as 1=ad-7")
    return int(rank), document


def credit_options(made: argparse.ArgumentParser) -> None:
    """Clicks and a scheme."""
    made.add_argument(
        "--clicks", nargs="*", type=int, default=[], metavar="RANK", help="the clicked ranks; 1 is the top"
    )
    made.add_argument("--scheme", help="how clicks become a score; the method's default if left out")


def run_credit(options: argparse.Namespace) -> int:
    """Credit clicks on one list."""
    data = read_json(ListError)
    if not isinstance(data, dict):
        raise ListError(
            f"standard input holds {type(data).__name__}; give the object that 'interleaf interleave' prints"
        )
    print_json(credit(Interleaving.from_dict(data), options.clicks, options.scheme).to_dict())
    return 0


def audit_options(made: argparse.ArgumentParser) -> None:
    """Which method, and how it is printed."""
    made.add_argument("method", nargs="?", metavar="METHOD", help="a spec; the table of all methods if left out")
    made.add_argument("--json", action="store_true", help="print JSON")


def run_audit(options: argparse.Namespace) -> int:
    """Prove or refute; status 1 where the table of methods claims otherwise."""
    from interleaf.audit import check
    from interleaf.audit.overview import Overview, overview

    found = Overview((check(options.method, progress),)) if options.method else overview(progress)
    if options.json:
        print_json(found.to_dict())
    else:
        print(found.checks[0] if options.method else found)
    for method in found.contradictions:
        print(f"interleaf audit: {method} does not keep what the table of methods claims", file=sys.stderr)
    return 1 if found.contradictions else 0
