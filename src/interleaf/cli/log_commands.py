"""Commands that read logs: analyze, plan, learn, caption, reuse."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from interleaf.cli.output import add_output_options, write_output
from interleaf.cli.parser import (
    add_confidence,
    add_log_options,
    add_map_options,
    add_ordinals,
    as_map,
    collect_log_options,
    keywords,
    pair,
    parse_kinds,
)
from interleaf.errors import DataError, join_names, make_both
from interleaf.execution.options import LogOptions
from interleaf.plots import to_svg

if TYPE_CHECKING:
    from interleaf.analysis.method_plans import MethodPlans

LOGS = "files, globs or folders: Parquet, JSON lines or CSV"


def analyze_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf analyze`."""
    add = parser.add_argument
    add("log", nargs="*", metavar="LOG", help=f"{LOGS}; or saved tallies (.tally)")
    add_log_options(parser, "analyze")
    add_table_options(parser)
    add("--control", help="ranker that the others are compared with")
    add_confidence(parser)
    planned = "planned number of users, at which the anytime interval is narrowest"
    add("--planned-units", type=int, metavar="N", help=planned)
    margin = "smallest preference that matters (default: 0.01): rankers are alike if the interval is between -X and X"
    add("--margin", type=float, default=argparse.SUPPRESS, metavar="X", help=margin)
    cap = "with --values: largest total value of a user that counts (default: the 99th percentile)"
    add("--cap", type=float, metavar="VALUE", help=cap)
    others = "if this is a secondary metric: how many there are; intervals are corrected for all (Bonferroni)"
    add("--secondary", type=int, default=0, metavar="N", help=others)
    add("--look", type=_look, metavar="K/N", help="if looks are planned: this is look K of N (1/1: the only look)")
    add("--correction", default="holm", help="correction for many pairs of rankers: holm or max_t")
    add(
        "--cluster",
        default="unit",
        help="cluster errors by unit (user); unit_and_query: if the result should also hold for other, similar queries",
    )
    add("--aa", action="store_true", help="treat as an A/A test (no difference is expected)")
    add("--holdout", type=float, metavar="SHARE", help="planned share of users in the holdout, which a check tests")
    add(
        "--split",
        nargs="+",
        type=pair("ARM=SHARE, such as A=0.6", float, at_last=True),
        metavar="ARM=SHARE",
        help="planned shares of users in A/B arms, such as A=0.6 B=0.4 (default: equal shares)",
    )
    start = "for an experiment in the mode choose: all its rankers, also those never shown (default: those in the log)"
    add("--start-rankers", nargs="+", default=(), metavar="NAME", help=start)
    add_output_options(parser, "text", "json", "markdown", "html", "tally")
    add("--strict", action="store_true", help="exit with status 1 if a health check failed or a guardrail is broken")


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for a table of impressions and a table of events, in place of a log."""
    add = parser.add_argument
    table = (
        "table of impressions, in place of a log: a file, a glob, a folder, or duckdb:// or postgresql:// with ?query="
    )
    add("--impressions", metavar="TABLE", help=f"{table}; give --events TABLE, too")
    add(
        "--kinds",
        nargs="+",
        type=parse_kinds,
        metavar="KIND[=WEIGHT]",
        help="kinds of events that count (default: click)",
    )
    add_map_options(parser, "with --impressions: ")
    add_ordinals(parser, "with --impressions: ")


def parse_event_table(options: argparse.Namespace) -> str | None:
    """The table of events, if there is one; otherwise --events are kinds, and are parsed."""
    from interleaf.analysis.analyze import is_table

    words, options.events = options.events, list(as_map("--kinds", options.kinds).items())
    if options.impressions is None and not any(map(is_table, words or ())):
        if words and options.kinds:
            raise DataError("--events and --kinds both name kinds of events; give one of them")
        try:
            options.events = [parse_kinds(word) for word in words] if words else options.events
        except argparse.ArgumentTypeError as problem:
            raise DataError(f"argument --events: {problem}") from None
        return None
    if words and len(words) > 1:
        raise DataError(f"--events is one table, not {len(words)}; quote globs, and name kinds by --kinds")
    return words[0] if words else None


def _look(text: str) -> tuple[int, int]:
    which, _, of = text.partition("/")
    if not (which.isdecimal() and of.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a look; give which look of how many, such as 2/5")
    return int(which), int(of)


def run_analyze(options: argparse.Namespace) -> int:
    """Analyze a log: which ranker people prefer, with intervals and health checks.

    interleaf simulate --impressions 5000 --out world.parquet && interleaf analyze world.parquet --by device
    """
    from interleaf.analysis.analyze import TwoTables, open_log, query_finder, read_tally
    from interleaf.report.build import report as make_report
    from interleaf.report.rule import ReportSettings

    values = {one.name: getattr(options, one.name) for one in fields(ReportSettings) if one.name in options}
    pairs = {name: as_map(f"--{name}", getattr(options, name)) or None for name in ("split", "guardrails")}
    table = parse_event_table(options)
    settings, log_options = make_both(
        lambda: ReportSettings(**values | pairs), lambda: LogOptions(**collect_log_options(options))
    )
    tables = TwoTables(options.impressions, table, as_map("--map", options.map), options.rankers, options.ordinals)
    with open_log(options.log, tables, log_options) as log:
        tally = read_tally(log, log_options)
        report = make_report(tally, settings, query_finder(log))
    write_output(options, report, tally=tally.save)
    is_wrong = not report.verdict.trusted or report.verdict.broken_guardrails
    return 1 if options.strict and is_wrong else 0


def plan_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf plan`."""
    add = parser.add_argument
    add("log", nargs="*", metavar="LOG", help="pilot log or saved tallies, to measure how much users differ")
    add_log_options(parser, "plan")
    add("--effect", type=float, help="smallest score that matters to you, such as 0.02")
    add("--units", type=int, help="number of users: compute the effect that they detect, or with --effect the power")
    add("--power", type=float, default=0.8, help="probability to detect the effect")
    add_confidence(parser)
    add("--variance", type=float, default=0.5, help="without a log: variance of the score of one impression")
    add("--correlation", type=float, default=0.0, help="without a log: correlation between the scores of one user")
    each = "without a log: mean number of impressions with an event, over users who have an event"
    add("--impressions-per-unit", type=float, default=1.0, help=each)
    add("--share-with-event", type=float, default=1.0, help="without a log: share of users who have an event")
    even = "without a log: all users come equally often; otherwise a few come far more often (Pareto law)"
    add("--even-activity", action="store_true", help=even)
    lift = "plan for every method and scheme: true difference to detect; the second ranker gets this share more clicks"
    add("--lift", type=float, metavar="SHARE", help=f"{lift}, such as 0.05 (default with --rankings: 0.05)")
    files = "rankings of two rankers to plan every method and scheme by, instead of a log, as TREC runs"
    add("--rankings", nargs=2, type=pair("NAME=FILE, such as new=new.run"), metavar="NAME=FILE", help=files)
    add("-k", type=int, default=10, help="with --rankings: number of documents to show")
    rates = "with --rankings: click rates of ranks 1, 2, ...; below the last one they fall as 1 / rank (default: 0.3)"
    add("--click-rates", nargs="+", type=float, metavar="SHARE", help=rates)
    spread = "standard deviation of personal preference in the logarithm of the click rate (default: from the log file)"
    add("--taste-spread", type=float, metavar="SPREAD", help=f"with --lift or --rankings: {spread}")
    add_output_options(parser, "text", "json")


def run_plan(options: argparse.Namespace) -> None:
    """Compute how many users an experiment needs, from a pilot log or from numbers; with --lift, compare all methods.

    interleaf plan --effect 0.02 --impressions-per-unit 3 --correlation 0.1
    """
    from interleaf.analysis.analyze import read_tally
    from interleaf.analysis.plan import plan

    if options.lift is not None or options.rankings:
        write_output(options, _plan_methods(options))
        return
    log_options = LogOptions(**collect_log_options(options))
    if log_options.changed and not options.log:
        raise DataError(
            f"a log is needed by {join_names(log_options.changed)}; put the log before the options, as in: plan "
            "pilot.parquet --events click purchase"
        )
    tally = read_tally(options.log, log_options) if options.log else None
    people = "variance", "correlation", "impressions_per_unit", "share_with_event", "even_activity"
    result = plan(options.effect, tally, **keywords(options, "units", "power", "confidence", *people))
    write_output(options, result)


def _plan_methods(options: argparse.Namespace) -> MethodPlans:
    """The plan of every method and scheme, from a log or from two files of rankings."""
    from interleaf.analysis.method_plans import plan_methods
    from interleaf.log.trec_runs import read_run

    if wrong := [name for name in ("effect", "units", "sessions", "values") if getattr(options, name)]:
        refused = " and ".join(f"--{name}" for name in wrong)
        raise DataError(f"--lift and --rankings plan for every method and scheme; leave out {refused}")
    paths = as_map("--rankings", options.rankings)
    rankings = {name: read_run(path) for name, path in paths.items()} or None
    names = "taste_spread", "impressions_per_unit", "even_activity", "power", "confidence", "k"
    settings = keywords(options, *names) | collect_log_options(options)
    settings |= {name: value for name in ("lift", "click_rates") if (value := getattr(options, name)) is not None}
    return plan_methods(options.log or None, rankings=rankings, **settings)


def learn_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf learn`."""
    add = parser.add_argument
    add("log", nargs="+", metavar="LOG", help="logs of experiments with two rankers, or saved sums (.sums)")
    add_log_options(parser, "learn")
    add(
        "--better",
        nargs="+",
        default=[],
        type=pair("EXPERIMENT=RANKER, such as shop=new", at_last=True),
        metavar="EXPERIMENT=RANKER",
        help="ranker known to be better (default: the winner if all clicks count the same; if there is none, skip it)",
    )
    add("--features", nargs="+", metavar="NAME", help="features of clicks (default: those of Chapelle et al. 2012)")
    add("--caption-model", metavar="FILE", help="file of a caption model, whose click weight becomes a feature")
    add("--ridge", type=float, help="ridge penalty (default: by cross-validation over experiments)")
    add("--ridge-on", nargs="+", metavar="NAME", help="features with a ridge penalty (default: all but click)")
    add("--examples", default="pooled", help="pooled: all experiments as one; each: every experiment counts the same")
    add(
        "--groups",
        metavar="TEXT",
        help="experiments whose names have the same beginning, up to TEXT such as /, are left out together in "
        "cross-validation",
    )
    add("--folds", type=int, default=16, help="folds of users, to score these experiments without overfitting; 0: none")
    add_confidence(parser)
    add_output_options(parser, "text", "json", "markdown", "svg", "sums")


def run_learn(options: argparse.Namespace) -> None:
    """Learn what a click is worth, from experiments with a known winner; save it with --out FILE.json.

    interleaf simulate --clicks informational --rankers 1 9 --impressions 5000 --out world.parquet && interleaf
    learn world.parquet --out credit.json
    """
    from interleaf.caption_bias import CaptionModel
    from interleaf.click_value.learn import fit, training_of

    captions = CaptionModel.load(options.caption_model) if options.caption_model else None
    training = training_of(options.log, options.features, captions, LogOptions(**collect_log_options(options)))
    groups = (lambda name: name.partition(options.groups)[0]) if options.groups else None
    settings = keywords(options, "ridge", "ridge_on", "examples", "folds", "confidence")
    lesson = fit(training, as_map("--better", options.better), groups=groups, **settings)
    write_output(options, lesson, sums=training.save, svg=lambda: to_svg(lesson.charts()["worth"]))


def caption_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf caption`."""
    add = parser.add_argument
    add("log", nargs="+", metavar="LOG", help=f"{LOGS}; with captions")
    add_log_options(parser, "caption")
    add("--tune", default="best", help="how thresholds of features are chosen: best (best fit), quartiles or none")
    add("--held-out", type=float, default=0.3, metavar="SHARE", help="share of users that the models are tested on")
    add("--weights", default="probability", help="how clicks are weighted: by probability, or by odds as in the paper")
    add(
        "--navigational",
        type=pair("ATTRIBUTE=VALUE, such as layout=enhanced"),
        metavar="ATTRIBUTE=VALUE",
        help="attribute that marks lists whose top result is shown larger",
    )
    add("--impression", metavar="IMPRESSION", help="explain one impression: what each caption adds")
    add("--model", metavar="FILE", help="file of a model (an earlier --out) to use instead of learning one")
    add_confidence(parser)
    add_output_options(parser, "text", "json", "markdown", "svg")


def run_caption(options: argparse.Namespace) -> None:
    """Test whether captions (titles, snippets, URLs) explain a preference.

    interleaf simulate --rankers 10 9 --clicks realistic --caption-strength 1.5 --caption-lean 1 --impressions 5000
    --out world.parquet && interleaf caption world.parquet
    """
    from interleaf.caption_bias import CaptionModel, caption

    model = CaptionModel.load(options.model) if options.model else None
    names = "tune", "held_out", "weights", "navigational", "impression", "confidence"
    settings = keywords(options, *names) | collect_log_options(options)
    write_output(options, caption(options.log, model, **settings))


def reuse_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf reuse`."""
    add = parser.add_argument
    add("log", nargs="+", metavar="LOG", help="logs of randomised lists, with queries and documents")
    add(
        "--rankings",
        nargs="+",
        required=True,
        type=_source,
        metavar="NAME=FILE",
        help="new rankers, as TREC runs or lines of query, document, score; a NAME alone is a ranker in the log",
    )
    add_log_options(parser, "reuse")
    by = "method to compare the new rankers by (default: the method that made most lists)"
    add("--compare-by", metavar="SPEC", help=by)
    add("--clip", type=float, default=10.0, metavar="W", help="maximum weight of an impression in the clipped estimate")
    add_confidence(parser)
    add("--seed", type=int, default=0, help="random seed of the new rankers' lists")
    add_output_options(parser, "text", "json", "markdown", "svg")


def _source(text: str) -> tuple[str, str | None]:
    """Parse NAME=FILE, or a name alone. A file without a name is an error."""
    if "=" in text:
        return pair("NAME=FILE, or the NAME of a ranker in the log")(text)
    if Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is a file without a name; give {Path(text).stem}={text}")
    return text, None


def run_reuse(options: argparse.Namespace) -> None:
    """Estimate from an old log how new rankers would compare.

    interleaf simulate --rankers 1 5 9 --method probabilistic --impressions 5000 --with-rankings --out old.parquet &&
    interleaf reuse old.parquet --rankings A C
    """
    from interleaf.counterfactual import reuse

    rankings = as_map("--rankings", options.rankings)
    settings = keywords(options, "compare_by", "clip", "confidence", "seed") | collect_log_options(options)
    write_output(options, reuse(options.log, rankings, **settings))
