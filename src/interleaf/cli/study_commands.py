"""Commands that simulate: simulate, reproduce."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from interleaf.cli.output import add_output_options, output_files, show_progress, write_output
from interleaf.cli.parser import add_method_options, keywords
from interleaf.errors import DataError
from interleaf.studies import STUDIES

LOGS = ("parquet", "jsonl")


def simulate_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf simulate`."""
    add = parser.add_argument
    add(
        "data", nargs="*", metavar="FILE", help="judged queries, as LETOR or SVMlight text (default: synthetic queries)"
    )
    by = "number of a feature, for each ranker: it ranks documents by this feature"
    add("--rankers", nargs="+", type=int, default=[1, 2], metavar="FEATURE", help=by)
    add_method_options(parser)
    add("--clicks", default="navigational", metavar="MODEL", help="click model, such as informational")
    add("--scheme", help="how clicks become a score (default: depends on the method)")
    add("--impressions", type=int, default=10_000, help="number of impressions per run, or of the log")
    add("--runs", type=int, default=25, help="number of simulated runs")
    add("--seed", type=int, default=1, help="random seed")
    add("--with-rankings", action="store_true", help="for a log: write the input rankings, too")
    add("--taste", type=float, default=0.0, help="for a log: how much people like the first ranker's documents")
    add("--caption-strength", type=float, help="for a log: write captions that attract clicks this much; 0: not at all")
    lean = "with --caption-strength: how many more attractive captions the first ranker has, from -1 to 1"
    add("--caption-lean", type=float, default=0.0, help=lean)
    log = "; .parquet and .jsonl: write a log of simulated people, and no result"
    add_output_options(parser, "text", "json", *LOGS, note=log)


def run_simulate(options: argparse.Namespace) -> int:
    """Simulate a comparison on judged queries, or write a log of simulated people (--out FILE.parquet).

    interleaf simulate --rankers 1 5 9 --method pairwise_preference --impressions 2000 --runs 5
    """
    from interleaf.simulate import People, World, read_letor, run
    from interleaf.simulate.data import with_features

    writes_log = set(output_files(options).values()) & set(LOGS)
    if writes_log and (options.scheme or len(options.out) > 1):
        raise DataError("a log has no scheme and no result; leave out --scheme, and give one --out")
    data = (
        read_letor(options.data, progress=show_progress)
        if options.data
        else with_features(max(options.rankers), seed=options.seed)
    )
    if writes_log:
        strength = options.caption_strength
        people = People(caption_strength=strength or 0.0, **keywords(options, "clicks", "taste", "caption_lean"))
        world = World(data, options.rankers, people, options.method, options.k, options.seed)
        columns = {"captions": strength is not None, "rankings": options.with_rankings}
        rows = world.write(options.out[0], impressions=options.impressions, **columns)
        print(f"{options.out[0]}: {rows:,} impressions; the truth: {world.truth.reason}")
        return 0
    result = run(
        data, options.rankers, options.method, options.clicks, options.impressions, options.runs, options.seed,
        k=options.k, scheme=options.scheme, progress=show_progress,
    )  # fmt: skip
    write_output(options, result)
    return 130 if result.interrupted else 0


def reproduce_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf reproduce`."""
    add = parser.add_argument
    add("study", metavar="STUDY", help=f"one of {', '.join(STUDIES)}")
    add("--data", metavar="DIR", help="folder of a learning-to-rank set (default: synthetic queries)")
    add("--scale", default="quick", help="quick, or paper for the published size")
    add("--seed", type=int, default=1, help="random seed")
    add("--out", metavar="DIR", help="write tables (CSV, Markdown) and charts (PNG, SVG) to a folder")
    add("--fresh", action="store_true", help="start again instead of continuing an interrupted run")


def run_reproduce(options: argparse.Namespace) -> None:
    """Run a published study again, and print our numbers beside the published ones.

    interleaf reproduce fidelity --scale quick
    """
    from interleaf.studies import check_study, reproduce
    from interleaf.studies.study import FinishedCells

    check_study(options.study, options.scale)
    folder = Path(options.data) if options.data else None
    if options.out:
        _check_writable(Path(options.out))
    cells = FinishedCells.of(options.study, folder, options.scale, options.seed)
    if options.fresh:
        cells.remove()
    elif cells.count():
        print(
            f"continuing with {cells.count()} finished cells of an interrupted run; --fresh starts anew",
            file=sys.stderr,
        )
    study = reproduce(options.study, folder, options.scale, options.seed, show_progress, cells)
    print(study)
    for path in study.write(Path(options.out)) if options.out else []:
        print(path, file=sys.stderr)
    cells.remove()


def _check_writable(out: Path) -> None:
    """Check before the study runs that files can be written and charts can be drawn."""
    from interleaf import plots

    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / ".interleaf").touch()
        (out / ".interleaf").unlink()
    except OSError as error:
        raise DataError(f"cannot write to {out}: {error.strerror}; give --out a folder that can be written") from None
    plots.check_drawing()
