"""The command that looks for caption bias."""

from __future__ import annotations

import argparse

from interleaf.cli.logs import engine_options, log_options, log_settings, write_text
from interleaf.cli.show import print_json
from interleaf.errors import DataError


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
