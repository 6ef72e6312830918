"""Commands on logs: analyze, plan."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from interleaf.cli.terminal import print_json, progress
from interleaf.errors import DataError, listed


def analyze_options(made: argparse.ArgumentParser) -> None:
    """Which log, how to score it, how to show it."""
    made.add_argument(
        "log",
        nargs="+",
        metavar="LOG",
        help="logs as Parquet, JSON lines or CSV (files, globs, folders), or saved tallies",
    )
    log_options(made)
    tally_options(made)
    engine_options(made)
    made.add_argument("--control", help="the ranker that others are compared with")
    made.add_argument("--confidence", type=float, default=0.95, help="the confidence of intervals")
    made.add_argument(
        "--planned-units",
        type=int,
        metavar="N",
        help="the number of units planned before the start, if one was planned",
    )
    made.add_argument("--look", metavar="K/N", help="this is look K of N planned ones (O'Brien-Fleming); 1/1: one look")
    made.add_argument("--correction", default="holm", help="the correction for many pairs: holm or max_t")
    made.add_argument(
        "--cluster",
        default="unit",
        metavar="BY",
        help="what errors are clustered by: unit, or unit_and_query for a result about queries like these",
    )
    made.add_argument(
        "--aa", action="store_true", help="this is an A/A test, plain or relabelled: no difference is expected"
    )
    made.add_argument("--holdout", type=float, metavar="SHARE", help="the share of units planned for the holdout")
    made.add_argument(
        "--split",
        nargs="+",
        metavar="ARM=SHARE",
        help="planned shares of units in A/B buckets, such as A=0.6 B=0.4 (without: equal ones)",
    )
    made.add_argument("--json", action="store_true", help="print the report as JSON")
    made.add_argument("--markdown", metavar="FILE", help="write the report as Markdown")
    made.add_argument("--html", metavar="FILE", help="write the report as a page with charts, in one file")
    made.add_argument("--tally", metavar="FILE", help="save the sums (.tally); such files can be analyzed and added up")
    made.add_argument("--strict", action="store_true", help="exit with status 1 if a health check failed")


def log_options(
    made: argparse.ArgumentParser,
    method: str = "score by another method than the one that composed the lists",
    events: tuple[str, str] = ("KIND[=WEIGHT]", "events that count, such as click purchase=5; click if left out"),
    version: str = "the version of the experiment; the latest if left out",
) -> None:
    """How a log is read, and what counts; some words differ between commands."""
    made.add_argument("--scheme", help="how clicks become a score; the method's default if left out")
    made.add_argument("--method", help=method)
    made.add_argument("--events", nargs="+", default=[], metavar=events[0], help=events[1])
    made.add_argument("--dwell", type=float, metavar="SECONDS", help="count events with at least this dwell time")
    made.add_argument("--first", action="store_true", help="count the first event of an impression only")
    made.add_argument("--window", type=float, metavar="SECONDS", help="count events up to this long after the list")
    made.add_argument("--experiment", help="the experiment, if the log holds several")
    made.add_argument("--version", type=int, help=version)
    made.add_argument(
        "--exclude", nargs="+", default=[], metavar="ATTRIBUTE=VALUE", help="exclude rows, such as device=bot"
    )
    made.add_argument(
        "--exclude-units", metavar="FILE", help="exclude the units in this file, one per line, such as internal traffic"
    )
    made.add_argument(
        "--most-impressions", type=int, metavar="N", help="exclude units with more impressions, such as crawlers"
    )


def tally_options(made: argparse.ArgumentParser) -> None:
    """How a log is scored and split."""
    made.add_argument(
        "--by",
        nargs="+",
        default=[],
        metavar="ATTRIBUTE",
        help="split the report by attributes, such as device country",
    )
    made.add_argument(
        "--sessions",
        type=float,
        metavar="SECONDS",
        help="score queries of a unit as one session if they are less than this apart",
    )
    made.add_argument("--credit", metavar="FILE", help="credit per click, written by interleaf learn --out")


def engine_options(made: argparse.ArgumentParser) -> None:
    """Where the log is read."""
    made.add_argument(
        "--engine",
        choices=("local", "spark"),
        help="where the log is read; local if left out; spark reads Parquet on its executors",
    )


def _split(given: list[str] | None) -> dict[str, float] | None:
    """Planned shares by arm."""
    if given is None:
        return None
    shares = {}
    for text in given:
        arm, _, share = text.rpartition("=")
        try:
            shares[arm] = float(share)
        except ValueError:
            raise DataError(f"--split {text!r} is no arm with its share; write A=0.6") from None
    return shares


def run_analyze(options: argparse.Namespace) -> int:
    """A log to a verdict."""
    from interleaf.analysis.analyze import query_finder
    from interleaf.report.build import report as make_report
    from interleaf.report.rule import Settings

    tally = _tally(options)
    if options.tally:
        tally.save(checked_tally(options.tally))
    settings = Settings(
        control=options.control,
        confidence=options.confidence,
        planned_units=options.planned_units,
        correction=options.correction,
        look=_look(options.look),
        aa=options.aa,
        holdout=options.holdout,
        split=_split(options.split),
        cluster=options.cluster,
    )
    report = make_report(tally, settings, query_finder(options.log))
    if options.markdown:
        write_text(options.markdown, report.to_markdown())
    if options.html:
        report.to_html(options.html)
    if options.json:
        print_json(report.to_dict())
    else:
        report.show(sys.stdout)
    return 1 if options.strict and not report.verdict.trusted else 0


def _tally(options: argparse.Namespace) -> Any:
    """The sums of the log, or of kept tallies."""
    from interleaf.analysis.analyze import TALLY, analyzed_tally

    others = {"sessions": options.sessions, "credit": options.credit, "engine": options.engine}
    settings = log_settings(options) | others
    if any(path.endswith(TALLY) for path in options.log):
        del settings["progress"]
    return analyzed_tally(options.log, options.scheme, options.by, **settings)


def log_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The options of `log_options` that were given, but for the scheme, as `tally_log` takes them."""
    from interleaf.decode.attributes import Exclusion

    attributes: dict[str, list[str]] = {}
    for rule in options.exclude:
        name, separator, value = rule.partition("=")
        if not separator:
            raise DataError(f"cannot exclude {rule!r}; give ATTRIBUTE=VALUE, such as device=bot")
        attributes.setdefault(name, []).append(value)
    exclusion = Exclusion(attributes, _lines(options.exclude_units) or (), options.most_impressions)
    settings = {
        "method": options.method,
        "events": dict(map(_weighted, options.events)),
        "dwell": options.dwell,
        "first": options.first or None,
        "window": options.window,
        "experiment": options.experiment,
        "version": options.version,
        "exclude": exclusion if exclusion else None,
        "progress": lambda done, total: progress(done, total or 0),
    }
    return {name: value for name, value in settings.items() if value is not None and value != {}}


def _lines(path: str | None) -> list[str] | None:
    """The lines of a file, such as units of internal traffic."""
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return [line.strip() for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the units to exclude from {path}: {error}") from None


def _weighted(text: str) -> tuple[str, float]:
    kind, separator, weight = text.partition("=")
    try:
        return kind, float(weight) if separator else 1.0
    except ValueError:
        raise DataError(f"the weight of {kind!r} is {weight!r}; give a number, such as {kind}=5") from None


def checked_tally(path: str) -> str:
    """The name of a file for sums: by its ending it is known when it is given back."""
    if not path.endswith(".tally"):
        raise DataError(f"--tally is {path!r}; end the name in .tally")
    return path


def _look(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    which, _, of = text.partition("/")
    if not (which.isdecimal() and of.isdecimal()):
        raise DataError(f"--look is {text!r}; give which look of how many, such as 2/5")
    return int(which), int(of)


def write_text(path: str, text: str) -> None:
    """Write a file, or say why that cannot be done."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}") from None


def plan_options(made: argparse.ArgumentParser) -> None:
    """The effect to find, and what is known of people."""
    made.add_argument(
        "log", nargs="*", metavar="LOG", help="a pilot log or saved tallies, to measure how much people differ"
    )
    log_options(made)
    tally_options(made)
    engine_options(made)
    made.add_argument(
        "--effect", type=float, help="the score to detect, such as 0.02: the smallest that matters to you"
    )
    made.add_argument("--units", type=int, help="compute instead what this number of people who come can detect")
    made.add_argument("--power", type=float, default=0.8, help="the probability to detect the effect")
    made.add_argument("--confidence", type=float, default=0.95, help="the confidence of intervals")
    made.add_argument(
        "--variance", type=float, default=0.5, help="without a log: the variance of the score of an impression"
    )
    made.add_argument(
        "--correlation", type=float, default=0.0, help="without a log: the correlation between scores of a unit"
    )
    made.add_argument(
        "--impressions-per-unit",
        type=float,
        default=1.0,
        help="without a log: impressions with an event, per unit that has any",
    )
    made.add_argument(
        "--share-with-event", type=float, default=1.0, help="without a log: the share of people who have an event"
    )
    made.add_argument(
        "--even-activity",
        action="store_true",
        help="without a log: all people come equally often; otherwise a few come far more often (a Pareto law)",
    )
    made.add_argument("--json", action="store_true", help="print JSON")


def run_plan(options: argparse.Namespace) -> int:
    """How many units are needed."""
    from interleaf.analysis.plan import plan

    given = [name for name in log_settings(options) if name != "progress"]
    if given and not options.log:
        raise DataError(
            f"without a log, there is nothing to read by {listed(given)}; an option takes all words after it: put the "
            "names of logs first, as in: plan pilot.parquet --events click purchase"
        )
    pilot = _tally(options) if options.log else None
    made = plan(
        options.effect,
        pilot,
        units=options.units,
        power=options.power,
        confidence=options.confidence,
        variance=options.variance,
        correlation=options.correlation,
        impressions_per_unit=options.impressions_per_unit,
        share_with_event=options.share_with_event,
        even_activity=options.even_activity,
    )
    if options.json:
        print_json(made.to_dict())
    else:
        print(made)
    return 0
