"""Commands about methods and single lists: methods, interleave, credit, audit."""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict
from typing import Any, NoReturn

from interleaf.cli.output import add_output_options, print_json, show_progress, write_output
from interleaf.cli.parser import add_method_options, as_map, pair
from interleaf.errors import InterleafError, ListError, RankingError
from interleaf.interleaving.api import Interleaving, credit, interleave
from interleaf.interleaving.rankings import check_k
from interleaf.methods.registry import Method, methods, resolve
from interleaf.spec import Parameter


def methods_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf methods`."""
    add_output_options(parser, "text", "json", "markdown")


def run_methods(options: argparse.Namespace) -> None:
    """List the comparison methods.

    interleaf methods --format json
    """
    write_output(
        options,
        None,
        text=lambda: "\n".join(map(_method_text, methods())),
        json=lambda: list(map(_method_data, methods())),
        markdown=_methods_markdown,
    )


def _method_data(row: Method) -> dict[str, Any]:
    parameters = [
        {"name": p.name, "default": p.default, "choices": list(p.choices), "meaning": p.meaning} for p in row.parameters
    ]
    return {
        "name": row.name,
        "title": row.title,
        "paper": row.paper,
        "rankers": list(row.rankers),
        "parameters": parameters,
        "schemes": {"two": list(row.schemes), "many": list(row.schemes_for(3)) if row.rankers[1] is None else []},
        "claims": asdict(row.claims),
        "needs": list(row.needs),
    }


def _method_cells(row: Method) -> dict[str, str]:
    low, high = row.rankers
    claims = [name for name, holds in asdict(row.claims).items() if holds]
    return {
        "name": row.name,
        "title": row.title,
        "rankers": f"{low}" if low == high else f"{low} to {high}" if high else f"{low} or more",
        "parameters": ", ".join(f"{one.name}={_range(one)}" for one in row.parameters) or "none",
        "schemes": ", ".join(row.schemes) or "none",
        "claims": ", ".join(claims) or "none",
        "paper": row.paper,
    }


def _method_text(row: Method) -> str:
    cells = _method_cells(row)
    lines = [f"{row.name}: {row.title} [{row.paper}]"]
    lines += [f"    {column:<11} {cells[column]}" for column in ("rankers", "schemes", "claims")]
    lines += [f"    of many     {', '.join(row.schemes_for_many)}"] if row.schemes_for_many else []
    lines += [f"    {one.name}={_range(one)}: {one.meaning}" for one in row.parameters]
    return "\n".join(lines)


def _methods_markdown() -> str:
    rows = [_method_cells(row) for row in methods()]
    cells = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


def _range(parameter: Parameter) -> str:
    others = [choice for choice in parameter.choices if choice != parameter.default]
    return "|".join(str(choice) for choice in (parameter.default, *others))


def interleave_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf interleave`."""
    add = parser.add_argument
    add_method_options(parser)
    add(
        "--key",
        nargs="+",
        metavar="PART",
        help="key of the random draw: the same key, or a printed one ('k1:...'), gives the same list (default: random)",
    )
    add(
        "--fixed",
        nargs="+",
        default=[],
        type=pair("RANK=DOCUMENT, such as 1=ad-7", name=int),
        metavar="RANK=DOCUMENT",
        help="documents of no ranker at fixed ranks, such as the ad 1=ad-7; then show the output's whole_list",
    )
    add("--with-rankings", action="store_true", help="print the input rankings, too")


def run_interleave(options: argparse.Namespace) -> None:
    """Mix rankings into one list; reads from standard input a JSON object with a list of documents for each ranker.

    echo '{"production": ["d4", "d1"], "candidate": ["d1", "d9"]}' | interleaf interleave --key user-7
    """
    resolve(options.method)
    check_k(options.k)
    fixed = as_map("--fixed", options.fixed)
    rankings = _check_shape(_read_json(RankingError))
    parts = options.key or [None]
    key = tuple(parts) if len(parts) > 1 else parts[0]
    shown = interleave(rankings, options.method, options.k, key, fixed=fixed or None)
    print_json(shown.to_dict(options.with_rankings) | ({"whole_list": list(shown.whole_list)} if fixed else {}))


def credit_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf credit`."""
    parser.add_argument("--clicks", nargs="*", type=int, default=[], metavar="RANK", help="clicked ranks; 1 is the top")
    parser.add_argument("--scheme", help="how clicks become a score (default: depends on the method)")


def _check_shape(rankings: Any) -> Any:
    """Refuse an object whose rankings are objects, or lists of anything but documents."""
    lists = rankings.values() if isinstance(rankings, dict) else ()
    inner = (one for ranking in lists for one in (ranking if isinstance(ranking, list) else [ranking]))
    if any(isinstance(one, list | dict) for one in inner):
        example = '{"production": ["d4", "d1"], "candidate": ["d1", "d9"]}'
        raise RankingError(f"standard input must be a JSON object with a list of documents for each ranker: {example}")
    return rankings


def run_credit(options: argparse.Namespace) -> None:
    """Say which ranker the clicks on a list prefer; reads the list as JSON from standard input.

    echo '{"rankings": {"A": ["a", "b"], "B": ["b", "a"]}, "documents": ["b", "a"], "teams": [1, 0]}' | interleaf
    credit --clicks 1
    """
    data = _read_json(ListError)
    if not isinstance(data, dict):
        kind = type(data).__name__
        raise ListError(f"standard input holds {kind}; give the object that 'interleaf interleave' prints")
    print_json(credit(Interleaving.from_dict(data), options.clicks, options.scheme).to_dict())


def _read_json(error: type[InterleafError]) -> Any:
    """Read JSON from standard input; raises this error if it is not JSON."""
    if sys.stdin is None:
        raise error("standard input is closed; give JSON there")
    try:
        return json.load(
            sys.stdin, parse_constant=_reject_constant, parse_float=_finite, object_pairs_hook=_without_repeats
        )
    except (ValueError, RecursionError) as broken:
        raise error(f"standard input is not JSON: {broken}") from None


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _reject_constant(text)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without repeated names, because the second ranking of a name would silently replace the first."""
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError(f"an object holds a name twice: {[name for name, _ in pairs]}")
    return data


def audit_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf audit`."""
    parser.add_argument("method", nargs="?", metavar="METHOD", help="method to audit (default: a table of all methods)")
    add_output_options(parser, "text", "json")


def run_audit(options: argparse.Namespace) -> int:
    """Prove the properties of a method, such as fairness, or show the smallest counterexample.

    interleaf audit 'team_draft(fill=owned)'
    """
    from interleaf.audit import check
    from interleaf.audit.overview import Overview, overview

    result = Overview((check(options.method, show_progress),)) if options.method else overview(show_progress)
    write_output(options, result, text=lambda: result.checks[0] if options.method else result)
    for method in result.contradictions:
        print(f"interleaf audit: {method} does not have all properties that are claimed", file=sys.stderr)
    return 1 if result.contradictions else 0
