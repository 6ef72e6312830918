"""Commands on logs beyond the verdict: learn, caption, reuse."""

from __future__ import annotations

import argparse
from pathlib import Path

from interleaf.cli.log_commands import engine_options, log_options, log_settings, write_text
from interleaf.cli.terminal import print_json
from interleaf.errors import DataError


def learn_options(made: argparse.ArgumentParser) -> None:
    """Which logs, who is better in them, how to learn, and where to put it."""
    made.add_argument(
        "log", nargs="+", metavar="LOG", help="logs of experiments with two rankers, or saved sums (.sums)"
    )
    log_options(made)
    engine_options(made)
    made.add_argument(
        "--better",
        nargs="+",
        default=[],
        metavar="EXPERIMENT=RANKER",
        help="the ranker known to be better; without it, equal credit decides or the experiment is skipped",
    )
    made.add_argument(
        "--features", nargs="+", metavar="NAME", help="features of clicks; those of the paper (C12) if left out"
    )
    made.add_argument("--captions", metavar="FILE", help="a caption model: its click weight becomes a feature")
    made.add_argument(
        "--ridge", type=float, help="the ridge penalty; chosen by cross-validation over experiments if left out"
    )
    made.add_argument(
        "--ridge-on", nargs="+", metavar="NAME", help="features with a ridge penalty; all but click if left out"
    )
    made.add_argument(
        "--examples", default="pooled", help="pooled: all experiments as one; each: every experiment counts the same"
    )
    made.add_argument(
        "--group", metavar="TEXT", help="leave out experiments together whose names agree up to TEXT, such as /"
    )
    made.add_argument(
        "--folds",
        type=int,
        default=16,
        help="number of folds of users, to score the same experiments without overfitting; 0: none",
    )
    made.add_argument("--confidence", type=float, default=0.95, help="the confidence of intervals")
    made.add_argument("--out", metavar="FILE", help="write the credit (JSON), for interleaf analyze --credit FILE")
    made.add_argument("--sums", metavar="FILE", help="save the sums (.sums); several such files can be given as logs")
    made.add_argument("--markdown", metavar="FILE", help="write the result as Markdown")
    made.add_argument("--chart", metavar="FILE", help="draw the worth of typical clicks (.svg)")
    made.add_argument("--json", action="store_true", help="print JSON")


def run_learn(options: argparse.Namespace) -> int:
    """Learn what a click is worth, and say whether it helps."""
    from interleaf.caption_bias.logistic_model import Model
    from interleaf.click_value import learn
    from interleaf.click_value.learn import training_of

    settings = log_settings(options) | {"scheme": options.scheme, "engine": options.engine}
    captions = Model.load(options.captions) if options.captions else None
    training = training_of(options.log, options.features, captions=captions, **settings)
    if options.sums:
        training.save(options.sums)
    lesson = learn(
        training,
        dict(map(_better, options.better)),
        ridge=options.ridge,
        ridge_on=options.ridge_on,
        examples=options.examples,
        groups=(lambda name: name.partition(options.group)[0]) if options.group else None,
        folds=options.folds,
        confidence=options.confidence,
    )
    if options.out:
        lesson.credit.save(options.out)
    if options.markdown:
        write_text(options.markdown, lesson.to_markdown())
    if options.chart:
        from interleaf import plots

        write_text(options.chart, plots.to_svg(lesson.charts()["worth"]))
    if options.json:
        print_json(lesson.to_dict())
    else:
        print(lesson)
    return 0


def _better(text: str) -> tuple[str, str]:
    experiment, separator, ranker = text.rpartition("=")
    if not separator:
        raise DataError(f"--better is {text!r}; give EXPERIMENT=RANKER, such as shop=new")
    return experiment, ranker


def caption_options(made: argparse.ArgumentParser) -> None:
    """Which log, how to learn from it, how to show it."""
    made.add_argument(
        "log", nargs="+", metavar="LOG", help="Parquet, JSON lines or CSV with captions: files, globs, folders"
    )
    log_options(made)
    engine_options(made)
    made.add_argument(
        "--tune", default="best", help="how thresholds of features are chosen: best (best fit), quartiles or none"
    )
    made.add_argument(
        "--held-out", type=float, default=0.3, metavar="SHARE", help="the share of units to test the models on"
    )
    made.add_argument(
        "--weights", default="probability", help="what clicks are weighted by: probability, or odds as in the paper"
    )
    made.add_argument(
        "--navigational", metavar="ATTRIBUTE=VALUE", help="the attribute that marks enhanced navigational pages"
    )
    made.add_argument("--page", metavar="IMPRESSION", help="explain one page: what each caption adds")
    made.add_argument("--model", metavar="FILE", help="use this model, written by --save, instead of learning one")
    made.add_argument("--save", metavar="FILE", help="save the model (JSON)")
    made.add_argument("--confidence", type=float, default=0.95, help="the confidence of intervals")
    made.add_argument("--markdown", metavar="FILE", help="write the findings as Markdown")
    made.add_argument("--chart", metavar="FILE", help="draw the weights (.svg)")
    made.add_argument("--json", action="store_true", help="print JSON")


def run_caption(options: argparse.Namespace) -> int:
    """Whether captions explain a preference."""
    from interleaf.caption_bias import Model, diagnose

    if options.scheme:
        raise DataError(f"--scheme is {options.scheme!r}, but clicks are weighted one by one; leave it out")
    report = diagnose(
        options.log,
        Model.load(options.model) if options.model else None,
        tune=options.tune,
        held_out=options.held_out,
        weights=options.weights,
        flag=_flag(options.navigational),
        page=options.page,
        confidence=options.confidence,
        engine=options.engine,
        **log_settings(options),
    )
    if options.save:
        report.model.save(options.save)
    if options.markdown:
        write_text(options.markdown, report.to_markdown())
    if options.chart:
        from interleaf import plots

        write_text(options.chart, plots.to_svg(report.chart()))
    if options.json:
        print_json(report.to_dict())
    else:
        print(report)
    return 0


def _flag(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    name, separator, value = text.partition("=")
    if not separator:
        raise DataError(f"--navigational is {text!r}; give ATTRIBUTE=VALUE, such as layout=enhanced")
    return name, value


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
