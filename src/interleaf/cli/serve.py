"""Commands of the live service: serve, keys."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from interleaf.errors import InterleafError

STORE = "interleaf.sqlite"


def _store_option(parser: argparse.ArgumentParser) -> None:
    default = os.environ.get("INTERLEAF_STORE", STORE)
    parser.add_argument(
        "--store",
        default=default,
        metavar="PATH or postgresql://...",
        help=f"where everything is kept (default: $INTERLEAF_STORE, else {STORE})",
    )


def serve_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf serve`."""
    _store_option(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address; others than this machine's need keys")
    parser.add_argument("--port", type=int, default=8080, help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=1, help="processes; several share a PostgreSQL (%(default)s)")
    parser.add_argument("--unit-secret-file", type=Path, help="store units as hashes keyed with what this file holds")
    parser.add_argument(
        "--queries", choices=("keep", "hash", "drop"), default="keep", help="what is stored of query texts"
    )
    parser.add_argument("--retention-days", type=float, help="delete rows of closed impressions after so many days")
    parser.add_argument("--most-requests", type=float, default=10_000, help="a second, of one key (%(default)s)")


def run_serve(options: argparse.Namespace) -> int:
    """Run the service until it is told to stop."""
    from interleaf.serve.run import Place, serve
    from interleaf.serve.settings import Settings

    secret = None
    if options.unit_secret_file is not None:
        try:
            secret = options.unit_secret_file.read_bytes().strip()[:64]
        except OSError as error:
            raise InterleafError(f"cannot read {options.unit_secret_file}: {error.strerror}") from None
        if len(secret) < 16:
            raise InterleafError(f"{options.unit_secret_file} holds {len(secret)} bytes; a secret has at least 16")
    settings = Settings(
        requests_per_second=options.most_requests,
        unit_secret=secret,
        queries=options.queries,
        retention_days=options.retention_days,
    )
    serve(Place(options.store, options.host, options.port, options.workers), settings)
    return 0


def keys_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf keys`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="make a key and print its secret, this once")
    add.add_argument("role", choices=("ingest", "read", "admin"))
    add.add_argument("--label", default="", help="what it is for")
    every = actions.add_parser("list", help="all keys, without their secrets")
    revoke = actions.add_parser("revoke", help="let a key open nothing any more")
    revoke.add_argument("id", help="as `interleaf keys list` shows it")
    for action in (add, every, revoke):
        _store_option(action)


def run_keys(options: argparse.Namespace) -> int:
    """Make, list or revoke keys, in the store itself."""
    from interleaf.store import opened
    from interleaf.tables import Table

    if options.action != "add" and "://" not in options.store and not Path(options.store).exists():
        raise InterleafError(f"there is no store {options.store}; give the one that the service has, as --store PATH")
    store = opened(options.store)
    now = time.time_ns() // 1000
    try:
        if options.action == "add":
            key, secret = store.add_key(options.role, options.label or options.role, now)
            print(secret, flush=True)
            if sys.stdout.isatty():  # a pipe or a file gets the secret alone
                print(f"key {key.id}, role {key.role}; the line above is shown this once")
        elif options.action == "revoke":
            if not store.revoke(options.id, now):
                raise InterleafError(f"there is no key {options.id!r} that is not revoked; see interleaf keys list")
            print(f"revoked {options.id}")
        else:
            known = store.keys()
            rows = tuple((key.id, key.role, key.label, "revoked" if key.revoked else "valid") for key in known)
            print(Table("keys", "", ("id", "role", "label", "state"), rows))
    finally:
        store.close()
    return 0
