"""The command line's own help as a page: `<!-- verbs -->` becomes a section for each verb."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interleaf import cli

MARK = "<!-- verbs -->"
WIDTH = "100"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of each page."""
    if MARK not in markdown:
        return markdown
    with _wide():
        parser = cli.build_parser()
        sections = [_section(parser, 2), *(_section(found, level) for found, level in _below(parser, 2))]
    return markdown.replace(MARK, "\n\n".join(sections))


@contextmanager
def _wide() -> Iterator[None]:
    """As wide as a page, not as the terminal that builds it."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def _below(parser: argparse.ArgumentParser, level: int) -> Iterator[tuple[argparse.ArgumentParser, int]]:
    """Every verb, and after it the verbs that it has of its own."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for found in dict.fromkeys(action.choices.values()):
                yield found, level
                yield from _below(found, level + 1)


def _section(parser: argparse.ArgumentParser, level: int) -> str:
    return f"{'#' * level} {parser.prog}\n\n```text\n{parser.format_help().rstrip()}\n```"
