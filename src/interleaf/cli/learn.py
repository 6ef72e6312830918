"""The command that learns what a click is worth."""

from __future__ import annotations

import argparse

from interleaf.cli.logs import engine_options, log_options, log_settings, write_text
from interleaf.cli.show import print_json
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
    from interleaf.caption_bias.model import Model
    from interleaf.click_value import learn
    from interleaf.click_value.learning import training_of

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
