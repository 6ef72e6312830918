"""Commands that simulate: simulate, reproduce."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from interleaf.cli.lists import method_options
from interleaf.cli.terminal import print_json, progress
from interleaf.errors import DataError
from interleaf.studies import STUDIES


def simulate_options(made: argparse.ArgumentParser) -> None:
    """Data, rankers, method, clicks, size."""
    made.add_argument("data", nargs="*", metavar="FILE", help="LETOR or SVMlight text; synthetic queries if left out")
    made.add_argument(
        "--rankers",
        nargs="+",
        type=int,
        default=[1, 2],
        metavar="FEATURE",
        help="a ranker for each feature: the number of the feature to rank by",
    )
    method_options(made)
    made.add_argument(
        "--clicks", default="navigational", metavar="MODEL", help="the click model, such as informational"
    )
    made.add_argument("--scheme", help="how clicks become a score; the method's default if left out")
    made.add_argument(
        "--impressions", type=int, default=10_000, help="number of impressions of each run, or of the log"
    )
    made.add_argument("--runs", type=int, default=25, help="number of simulated runs")
    made.add_argument("--seed", type=int, default=1, help="the random seed")
    made.add_argument("--log", metavar="FILE", help="write a log of simulated people (.parquet, .jsonl) instead")
    made.add_argument("--rankings", action="store_true", help="with --log: log the input rankings, too")
    made.add_argument("--taste", type=float, default=0.0, help="with --log: how much people prefer the first ranker")
    made.add_argument(
        "--captions", type=float, help="with --log: write captions, and how much they attract people; 0: not at all"
    )
    made.add_argument(
        "--captions-lean",
        type=float,
        default=0.0,
        help="with --captions: 1 if the attractive captions are the first ranker's",
    )
    made.add_argument("--json", action="store_true", help="print JSON")


def run_simulate(options: argparse.Namespace) -> int:
    """Run a study, or write a log of people."""
    from interleaf.simulate import People, World, read_letor, run
    from interleaf.simulate.data import with_features

    data = (
        read_letor(options.data, progress=progress)
        if options.data
        else with_features(max(options.rankers), seed=options.seed)
    )
    if options.log and (options.scheme or options.json):
        raise DataError(
            "--log writes what people did, which has no scheme and no result; leave out --scheme and --json"
        )
    if options.log:
        people = People(
            clicks=options.clicks,
            taste=options.taste,
            captions=options.captions or 0.0,
            captions_lean=options.captions_lean,
        )
        world = World(data, options.rankers, people, options.method, options.k, options.seed)
        columns = {"captions": options.captions is not None, "rankings": options.rankings}
        rows = world.write(options.log, impressions=options.impressions, **columns)
        print(f"{options.log}: {rows:,} impressions; the truth: {world.truth.reason}")
        return 0
    result = run(
        data, options.rankers, options.method, options.clicks, options.impressions, options.runs, options.seed,
        k=options.k, scheme=options.scheme, progress=progress,
    )  # fmt: skip
    if options.json:
        print_json(result.to_dict())
    else:
        print(result)
    return 130 if result.interrupted else 0


def reproduce_options(made: argparse.ArgumentParser) -> None:
    """Which study, on what, how large."""
    made.add_argument("study", metavar="STUDY", help=f"the study: {', '.join(STUDIES)}")
    made.add_argument("--data", metavar="DIR", help="a learning-to-rank set; synthetic queries if left out")
    made.add_argument("--scale", default="quick", help="quick, or paper for the published size")
    made.add_argument("--seed", type=int, default=1, help="the random seed")
    made.add_argument("--out", metavar="DIR", help="write tables (CSV, Markdown) and charts (PNG, SVG) there")
    made.add_argument("--fresh", action="store_true", help="do not continue an interrupted run; start anew")


def run_reproduce(options: argparse.Namespace) -> int:
    """Run a published study again."""
    from interleaf.studies import check_study, reproduce
    from interleaf.studies.study import Cells

    check_study(options.study, options.scale)
    folder = Path(options.data) if options.data else None
    if options.out:
        _check_writable(Path(options.out))
    cells = Cells.of(options.study, folder, options.scale, options.seed)
    if options.fresh:
        cells.remove()
    elif cells.count():
        print(
            f"continuing with {cells.count()} finished cells of an interrupted run; --fresh starts anew",
            file=sys.stderr,
        )
    study = reproduce(options.study, folder, options.scale, options.seed, progress, cells)
    print(study)
    for path in study.write(Path(options.out)) if options.out else []:
        print(path, file=sys.stderr)
    cells.remove()
    return 0


def _check_writable(folder: Path) -> None:
    """Find out before the study runs, not after, that its files have no place to go, or charts cannot be drawn."""
    from interleaf import plots

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".interleaf").touch()
        (folder / ".interleaf").unlink()
    except OSError as error:
        raise DataError(
            f"cannot write to {folder}: {error.strerror}; give --out a folder that can be written"
        ) from None
    plots.check_drawing()
