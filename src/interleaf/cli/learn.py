"""The command that learns what a click is worth."""

from __future__ import annotations

import argparse

from interleaf.cli.logs import engine_options, log_options, log_settings, write_text
from interleaf.cli.show import print_json
from interleaf.errors import DataError


def learn_options(made: argparse.ArgumentParser) -> None:
    """Which logs, who is better in them, how to learn, and where to put it."""
    made.add_argument("log", nargs="+", metavar="LOG", help="logs of experiments of two rankers; or kept sums (.sums)")
    log_options(made)
    engine_options(made)
    made.add_argument(
        "--better",
        nargs="+",
        default=[],
        metavar="EXPERIMENT=RANKER",
        help="who is known to be better; where left out, equal credit decides, or the experiment is left out",
    )
    made.add_argument("--features", nargs="+", metavar="NAME", help="features of clicks; C12's if left out")
    made.add_argument("--captions", metavar="FILE", help="a caption model: its click weight becomes a feature")
    made.add_argument("--ridge", type=float, help="cross-validated over experiments if left out")
    made.add_argument("--ridge-on", nargs="+", metavar="NAME", help="features with a ridge; all but click if left out")
    made.add_argument("--examples", default="pooled", help="pooled: all experiments as one; each: every one alike")
    made.add_argument("--group", metavar="TEXT", help="leave out together what is named alike up to TEXT, such as /")
    made.add_argument("--folds", type=int, default=16, help="of users, to score its own experiments honestly; 0: none")
    made.add_argument("--confidence", type=float, default=0.95)
    made.add_argument("--out", metavar="FILE", help="write the credit (JSON), for interleaf analyze --credit FILE")
    made.add_argument("--sums", metavar="FILE", help="keep the sums (.sums): such files add up")
    made.add_argument("--markdown", metavar="FILE", help="write what was learned as Markdown")
    made.add_argument("--chart", metavar="FILE", help="draw what typical clicks are worth (.svg)")
    made.add_argument("--json", action="store_true", help="print JSON")


def run_learn(options: argparse.Namespace) -> int:
    """Learn what a click is worth, and say whether it helps."""
    from interleaf.refine.caption.model import Model
    from interleaf.refine.learn import learn
    from interleaf.refine.learn.learning import training_of

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
