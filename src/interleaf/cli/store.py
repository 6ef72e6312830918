"""Commands about the store of the live service: store."""

from __future__ import annotations

import argparse
from pathlib import Path

from interleaf.cli.serve import open_store, store_option


def store_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf store`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    backup = actions.add_parser("backup", help="copy a SQLite store to a new file, while the service runs")
    backup.add_argument("file", type=Path, help="the copy, which only you can read")
    store_option(backup)


def run_store(options: argparse.Namespace) -> int:
    """Back up a store."""
    store = open_store(options.store)
    try:
        store.back_up(options.file)
        print(f"backed up to {options.file}")
    finally:
        store.close()
    return 0
