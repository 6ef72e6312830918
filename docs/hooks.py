"""Pages say what commands print: a line `<!-- $ interleaf methods --markdown -->` becomes that output in the site."""

import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from mkdocs.exceptions import PluginError

from interleaf.cli import main

COMMAND = re.compile(r"^<!-- \$ interleaf (.+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of each page."""
    return COMMAND.sub(_printed, markdown)


def _printed(command: re.Match[str]) -> str:
    printed = StringIO()
    with redirect_stdout(printed):
        status = main(shlex.split(command[1]))
    if status:
        raise PluginError(f"interleaf {command[1]} ended with status {status}")
    return printed.getvalue()
