"""Commands about the store of the live service: store."""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from pathlib import Path

from interleaf.cli.serve import open_store, read_secret, store_option

ROTATION = """\
Rotating the unit secret gives every unit a new name in the store:
- In a running experiment, a person who returns counts as somebody new. Before and after are two people, so the report
  has more units than there were people, and its intervals are a little too narrow. Better stop it, and start another.
- DELETE /v1/units finds the rows of a unit from now on. Older rows keep their old name: delete them with
  interleaf store forget UNIT --unit-secret-file OLD, as long as you have the old secret, or let --retention-days delete
  them by age.
- The service has to be stopped before, and started with the new secret. One that still runs stops writing.\
"""


def store_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf store`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    backup = actions.add_parser("backup", help="copy a SQLite store to a new file, while the service runs")
    backup.add_argument("file", type=Path, help="the copy, which only you can read")
    backup.set_defaults(act=_back_up)
    rotate = actions.add_parser("rotate-unit-secret", help="hash units with another secret from now on")
    rotate.add_argument(
        "--unit-secret-file", type=Path, help="the new secret; without it, units are stored as they come"
    )
    rotate.add_argument("--yes", action="store_true", help="do it; else only say what it means")
    rotate.set_defaults(act=_rotate)
    forget = actions.add_parser("forget", help="delete all rows of a unit, also those under an earlier secret")
    forget.add_argument("unit", help="as your program knows it")
    forget.add_argument("--unit-secret-file", type=Path, help="the secret that the rows were stored under")
    forget.set_defaults(act=_forget)
    trust = actions.add_parser(
        "trust-clock", help="confirm that the clock of this machine is right, after a long pause"
    )
    trust.set_defaults(act=_trust_clock)
    for action in (backup, rotate, forget, trust):
        store_option(action)


def run_store(options: argparse.Namespace) -> int:
    """Do one thing with a store."""
    return int(options.act(options))


def _back_up(options: argparse.Namespace) -> int:
    with closing(open_store(options.store)) as store:
        store.back_up(options.file)
    print(f"backed up to {options.file}")
    return 0


def _secret(options: argparse.Namespace) -> bytes | None:
    return None if options.unit_secret_file is None else read_secret(options.unit_secret_file)


def _rotate(options: argparse.Namespace) -> int:
    secret = _secret(options)
    with closing(open_store(options.store)) as store:
        print(ROTATION)
        if not options.yes:
            print("Nothing was changed. Do it with --yes.")
            return 1
        running = store.rotate_unit_secret(secret, time.time_ns() // 1000)
    how = "as they come" if secret is None else f"as hashes with the secret in {options.unit_secret_file}"
    print(f"Done: units are stored {how} from now on. Running experiments: {', '.join(running) or 'none'}.")
    return 0


def _forget(options: argparse.Namespace) -> int:
    from interleaf.store.privacy import hash_unit

    secret = _secret(options)
    with closing(open_store(options.store)) as store:
        store.check_known_secret(secret)
        print(f"deleted {store.forget(hash_unit(options.unit, secret)):,} impressions")
    return 0


def _trust_clock(options: argparse.Namespace) -> int:
    with closing(open_store(options.store)) as store:
        problem = store.trust_clock(time.time_ns() // 1000)
    print("the clock was not in doubt" if problem is None else "from now on rows are deleted by the clock again")
    return 0
