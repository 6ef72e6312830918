"""The command that asks old logs about new rankers."""

from __future__ import annotations

import argparse
from pathlib import Path

from interleaf.cli.logs import engine_options, log_options, log_settings, write_text
from interleaf.cli.show import print_json
from interleaf.errors import DataError


def reuse_options(made: argparse.ArgumentParser) -> None:
    """Which log, which new rankings, how to show it."""
    made.add_argument(
        "log", nargs="+", metavar="LOG", help="logs whose lists were drawn at random, with queries and documents"
    )
    made.add_argument(
        "--rankings",
        nargs="+",
        required=True,
        metavar="NAME=FILE",
        help="new rankers, as TREC runs or lines of query, document, score; a NAME alone is a ranker in the log",
    )
    log_options(
        made,
        method="the method to compare the new rankers by; the method of most old lists if left out",
        events=("KIND", "kinds of events that count, all with the same weight; click if left out"),
        version="which one; all of them if left out",
    )
    engine_options(made)
    made.add_argument(
        "--clip", type=float, default=10.0, metavar="W", help="the largest weight of the clipped estimate"
    )
    made.add_argument("--confidence", type=float, default=0.95, help="the confidence of intervals")
    made.add_argument("--seed", type=int, default=0, help="the random seed of the new rankers' lists")
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--markdown", metavar="FILE", help="write the answer as Markdown")
    made.add_argument("--chart", metavar="FILE", help="draw the estimates (.svg)")


def run_reuse(options: argparse.Namespace) -> int:
    """What old impressions say of new rankers."""
    from interleaf.counterfactual import reuse

    rankings = dict(map(_source, options.rankings))
    if len(rankings) < len(options.rankings):
        raise DataError(f"--rankings names a ranker twice: {' '.join(options.rankings)}; give each a name of its own")
    found = reuse(
        options.log,
        rankings,
        scheme=options.scheme,
        clip=options.clip,
        confidence=options.confidence,
        seed=options.seed,
        engine=options.engine,
        **log_settings(options),
    )
    if options.markdown:
        write_text(options.markdown, found.to_markdown())
    if options.chart:
        from interleaf import plots

        write_text(options.chart, plots.to_svg(found.chart()))
    if options.json:
        print_json(found.to_dict())
    else:
        print(found)
    return 0


def _source(text: str) -> tuple[str, str | None]:
    """NAME=FILE, or a name alone; a file alone is most likely a name forgotten."""
    name, separator, path = text.partition("=")
    if separator and not (name and path):
        raise DataError(f"--rankings has {text!r}; give NAME=FILE, or the NAME of a ranker of the log")
    if not separator and Path(text).is_file():
        raise DataError(f"--rankings has {text!r}, a file without a name; give {Path(text).stem}={text}")
    return name, path if separator else None
