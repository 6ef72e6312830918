"""What commands print and write: the options --out and --format, JSON, and the progress bar."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interleaf.errors import DataError
from interleaf.plots import to_svg

SUFFIXES = {
    **{"text": ".txt", "json": ".json", "markdown": ".md", "html": ".html", "svg": ".svg"},
    **{"tally": ".tally", "sums": ".sums", "parquet": ".parquet", "jsonl": ".jsonl"},
}
FILES = ("tally", "sums", "parquet", "jsonl")  # formats that are written to files only


def add_output_options(parser: argparse.ArgumentParser, *formats: str, note: str = "") -> None:
    """Add the options --out and --format of a command that offers these formats, `text` first."""
    suffixes = ", ".join(SUFFIXES[name] for name in formats)
    parser.add_argument(
        "--out",
        action="append",
        default=[],
        metavar="FILE",
        help=f"also write the result to FILE, in the format of its suffix ({suffixes}); can be repeated{note}",
    )
    parser.add_argument(
        "--format",
        choices=formats,
        help="format of the printed result, or of FILE with --out (default: text, or by suffix)",
    )
    parser.set_defaults(formats=formats)


def output_files(options: argparse.Namespace) -> dict[str, str]:
    """The format of each file of --out; an error if it is unknown."""
    if options.format in FILES and not options.out:
        raise DataError(f"--format {options.format} cannot be printed; give --out FILE")
    if options.format and len(options.out) > 1:
        raise DataError("--format is for one file; with several --out, the suffix of each file says its format")
    chosen = {}
    for path in options.out:
        names = [name for name in options.formats if path.removesuffix(".gz").endswith(SUFFIXES[name])]
        if not (names or options.format):
            suffixes = ", ".join(SUFFIXES[name] for name in options.formats)
            raise DataError(f"--out is {path!r}; end it in one of {suffixes}, or give --format")
        chosen[path] = options.format or names[0]
        if not Path(path).absolute().parent.is_dir():
            raise DataError(f"cannot write {path}: there is no folder {Path(path).parent}")
    return chosen


def write_output(options: argparse.Namespace, result: Any, **formats: Callable[..., Any]) -> None:
    """Write the files of --out, and print the result: as text if there are files, else in the format of --format.

    `formats` are functions for formats that the result has no method for; functions for file formats take the path.
    """
    contents: dict[str, Callable[..., Any]] = {
        "text": lambda: str(result),
        "json": lambda: result.to_dict(),
        "markdown": lambda: result.to_markdown(),
        "html": lambda: result.to_html(),
        "svg": lambda: to_svg(result.chart()),
        **formats,
    }
    for path, name in output_files(options).items():
        if name in FILES:
            contents[name](path)
        else:
            content = contents[name]()
            text = json.dumps(content, ensure_ascii=False, indent=1) if name == "json" else str(content)
            try:
                Path(path).write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
            except OSError as error:
                raise DataError(f"cannot write {path}: {error.strerror}") from None
    printed = "text" if options.out else options.format or "text"
    if printed == "json":
        print_json(contents["json"]())
    elif printed == "text" and hasattr(result, "show"):
        result.show()
    else:
        print(contents[printed]())


def print_json(data: Any) -> None:
    """Print one line of JSON; characters that the terminal cannot show are escaped."""
    text = json.dumps(data, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(data)
    print(text)


def show_progress(done: int, total: int | None) -> None:
    """Show a progress bar on a terminal, and nothing in a pipe."""
    if total and total > 0 and sys.stderr.isatty():
        filled = 30 * done // total
        end = "\r" + " " * 50 + "\r" if done == total else ""
        print(f"\r[{'#' * filled}{'.' * (30 - filled)}] {done}/{total}{end}", end="", file=sys.stderr, flush=True)
