"""Commands of the live service: serve, proxy, keys, store, demo."""

from __future__ import annotations

import argparse
import os
import signal
import stat
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from interleaf.demo.engine import RANKERS
from interleaf.errors import InterleafError

if TYPE_CHECKING:
    from interleaf.server.webhooks import WebhookSettings
    from interleaf.store.records import AccessKey
    from interleaf.store.sql import SqlStore

STORE = "interleaf.sqlite"
ROTATION = """\
Rotating the unit secret gives every unit a new hash in the store:
- In a running experiment, a returning user counts as a new user. The report then has more units than there are users,
  and its intervals are a little too narrow. Stop the experiment, and start another one.
- DELETE /v1/units finds only rows that are stored from now on. Delete older rows with
  interleaf store forget UNIT --unit-secret-file OLD, as long as you have the old secret, or let --retention-days delete
  them by age.
- Stop the service before, and start it with the new secret. A service that still runs with the old
  secret refuses all writes.\
"""


def store_option(parser: argparse.ArgumentParser) -> None:
    """The option that names a store."""
    default = os.environ.get("INTERLEAF_STORE", STORE)
    parser.add_argument(
        "--store",
        default=default,
        metavar="STORE",
        help=f"store of the service: SQLite path or postgresql:// URL (default: $INTERLEAF_STORE, else {STORE})",
    )


def serve_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf serve`."""
    add = parser.add_argument
    store_option(parser)
    add("--host", default="127.0.0.1", help="address to listen on; other addresses than loopback require an API key")
    add("--port", type=int, default=8080, help="port to listen on")
    add("--workers", type=int, default=1, help="number of worker processes; more than one needs PostgreSQL")
    add("--unit-secret-file", type=Path, help="store user ids as hashes, keyed with the secret in this file")
    queries = "whether query texts are stored as they are, hashed or not at all"
    add("--queries", choices=("keep", "hash", "drop"), default="keep", help=queries)
    add("--retention-days", type=float, help="delete impressions and their events after this number of days")
    add("--max-requests", type=float, default=10_000, help="rate limit, in requests per second and key")
    add("--max-connections", type=int, default=2000, help="maximum number of connections per worker")
    add(
        "--trusted-proxies",
        nargs="+",
        metavar="ADDRESS",
        default=["127.0.0.1", "::1"],
        help="addresses or networks of proxies whose X-Forwarded-For names the client",
    )
    browsers = "rate limit without a key, in requests per second and address"
    add("--max-browser-requests", type=float, default=50, help=browsers)
    events = "URLs that receive a webhook: new verdicts, failed health checks, broken guardrails, stopped experiments"
    add("--webhook-url", nargs="+", metavar="URL", default=[], help=events)
    add("--webhook-secret-file", type=Path, help="file with one signing secret per line, newest first")
    add("--webhook-allow-private", action="store_true", help="webhooks may go to private and local addresses")
    add("--public-url", metavar="URL", help="address of the dashboard in links (default: http://HOST:PORT)")


def run_serve(options: argparse.Namespace) -> None:
    """Run the live service: lists and events over HTTP, and the dashboard.

    interleaf serve --store interleaf.sqlite --port 8080
    """
    from interleaf.server.launch import Place, serve
    from interleaf.server.service import ServiceSettings

    settings = ServiceSettings(
        requests_per_second=options.max_requests,
        browser_requests_per_second=options.max_browser_requests,
        max_connections=options.max_connections,
        unit_secret=_secret(options),
        queries=options.queries,
        retention_days=options.retention_days,
        webhooks=_webhooks(options),
    )
    proxies = tuple(options.trusted_proxies)
    serve(Place(options.store, options.host, options.port, options.workers, proxies), settings)


def proxy_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf proxy`."""
    parser.add_argument("config", type=Path, metavar="CONFIG.toml", help="the configuration")
    what = "check the configuration, print what happens with an example request, and exit"
    parser.add_argument("--check", action="store_true", help=what)


def run_proxy(options: argparse.Namespace) -> None:
    """Run a proxy in front of OpenSearch, Elasticsearch or Solr that interleaves the answers to searches.

    interleaf proxy proxy.toml --check
    """
    from interleaf.proxy.config_file import read_config

    config = read_config(options.config)
    if options.check:
        from interleaf.proxy.launch import describe

        for line in describe(config):
            print(line)
        return
    from interleaf.proxy.launch import run_proxy as run

    run(config)


def _webhooks(options: argparse.Namespace) -> WebhookSettings:
    from interleaf.server.webhooks import WebhookSettings

    file: Path | None = options.webhook_secret_file
    secrets = () if file is None else tuple(read_private(file).decode(errors="replace").split())
    host = f"[{options.host}]" if ":" in options.host else options.host
    public_url = options.public_url or f"http://{host}:{options.port}"
    return WebhookSettings(tuple(options.webhook_url), secrets, options.webhook_allow_private, public_url)


def read_private(path: Path) -> bytes:
    """Read a file with a secret, and warn if other users can open it."""
    from interleaf.store.sqlite import exposure

    try:
        content = path.read_bytes()
        warn(exposure(path))
    except OSError as error:
        raise InterleafError(f"cannot read {path}: {error.strerror}") from None
    return content


def read_secret(path: Path) -> bytes:
    """Read the secret that hashes user ids from a file."""
    secret = read_private(path).strip()[:64]
    if len(secret) < 16:
        raise InterleafError(f"{path} holds {len(secret)} bytes; a secret has at least 16")
    return secret


def warn(warning: str | None) -> None:
    """Print a warning, if there is one."""
    if warning is not None:
        print(f"interleaf: warning: {warning}", file=sys.stderr)


def open_store(address: str, create: bool = False) -> SqlStore:
    """Open the store at an address, and print its warnings; it must exist unless `create` is set."""
    from interleaf.store import sql

    if not create and "://" not in address and not Path(address).exists():
        raise InterleafError(f"there is no store {address}; give the store of the service, as --store PATH")
    store = sql.open_store(address)
    for warning in store.warnings():
        warn(warning)
    return store


def keys_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf keys`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="add a key and print its secret, which is not shown again")
    add.add_argument(
        "role",
        choices=("ingest", "read", "admin"),
        help="ingest: request lists and send events; read: read reports; admin: everything",
    )
    add.add_argument("--label", default="", help="what the key is for")
    add.add_argument("--out", type=Path, metavar="FILE", help="write the secret to a new file that only you can read")
    add.add_argument("--experiment", help="the only experiment that the key may use (default: all)")
    add.add_argument("--days", type=float, help="number of days that the key is valid (default: until it is revoked)")
    every = actions.add_parser("list", help="list all keys, without their secrets")
    revoke = actions.add_parser("revoke", help="revoke a key")
    revoke.add_argument("id", help="id of the key, as `interleaf keys list` shows it")
    sign_out = actions.add_parser("sign-out", help="end sessions of the dashboard; their keys stay valid")
    sign_out.add_argument("id", nargs="?", help="id of the key whose sessions end (default: all keys)")
    rotate = actions.add_parser("rotate-secret", help="sign the tokens for events of browsers with a new secret")
    rotate.add_argument(
        "--grace-hours", type=float, default=24, help="number of hours that tokens of the old secret are still accepted"
    )
    for action in (add, every, revoke, sign_out, rotate):
        store_option(action)


def _key_row(key: AccessKey, now: int) -> tuple[str, ...]:
    state = "revoked" if key.revoked else "expired" if key.is_expired(now) else "valid"
    return key.id, key.role, key.label, key.experiment or "all", _minute(key.expires), _minute(key.used), state


def _minute(time: int | None) -> str:
    """A time of the store, to the minute."""
    return "never" if time is None else f"{datetime.fromtimestamp(time / 1e6, UTC):%Y-%m-%d %H:%M}"


def run_keys(options: argparse.Namespace) -> None:
    """Add, list or revoke API keys of the live service.

    interleaf keys add ingest --label 'search page'
    """
    from interleaf.tables import Table

    now = time.time_ns() // 1000
    with closing(open_store(options.store, create=options.action == "add")) as store:
        keys = store.keys()
        if options.action == "add":
            _add_key(store, options, now)
        elif options.action == "revoke":
            if not store.revoke(options.id, now):
                raise InterleafError(f"there is no valid key {options.id!r}; interleaf keys list shows all")
            print(f"revoked {options.id}")
        elif options.action == "sign-out":
            if options.id not in (None, *(key.id for key in keys)):
                raise InterleafError(f"there is no key {options.id!r}; interleaf keys list shows all")
            print(f"ended {store.end_sessions(options.id):,} sessions")
        elif options.action == "rotate-secret":
            if not 0 <= options.grace_hours <= 8760:
                raise InterleafError(f"--grace-hours is {options.grace_hours:g}; give 0 to 8,760")
            store.rotate_token_secret(now, now + round(options.grace_hours * 3600e6))
            print(f"new tokens have a new secret; older ones are accepted for {options.grace_hours:g} hours")
        else:
            columns = ("id", "role", "label", "experiment", "expires", "last use", "state")
            print(Table("keys", "", columns, tuple(_key_row(key, now) for key in keys)))


def _add_key(store: SqlStore, options: argparse.Namespace, now: int) -> None:
    from interleaf.store.sqlite import create_private

    if options.days is not None and not 0 < options.days <= 3650:
        raise InterleafError(f"--days is {options.days:g}; give a number above 0, up to 3,650")
    expires = None if options.days is None else now + round(options.days * 86_400e6)
    if options.out is not None:
        try:
            create_private(options.out)  # before the key exists, because its secret is shown only once
        except FileExistsError:
            raise InterleafError(f"{options.out} already exists; choose another --out") from None
    try:
        key, secret = store.add_key(
            *(options.role, options.label or options.role, now), experiment=options.experiment, expires=expires
        )
    except InterleafError:
        if options.out is not None:
            options.out.unlink()
        raise
    if options.out is not None:
        options.out.write_text(f"{secret}\n", encoding="ascii")
        print(f"key {key.id}, role {key.role}; its secret is in {options.out}, which only you can read")
        return
    print(secret, flush=True)
    if sys.stdout.isatty():  # a pipe or a file gets the secret alone
        print(f"key {key.id}, role {key.role}; the line above is shown only once")
    elif _is_exposed_file(sys.stdout):
        warn("other users of this machine can open the file with the key; run chmod 600 on it, or use --out FILE")


def _is_exposed_file(stream: TextIO) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except OSError:  # no real file, as in a test
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o077)


def store_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf store`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    backup = actions.add_parser("backup", help="copy a SQLite store to a new file, while the service runs")
    backup.add_argument("file", type=Path, help="file of the copy, which only you can read")
    backup.set_defaults(act=_back_up)
    rotate = actions.add_parser("rotate-unit-secret", help="hash user ids with another secret from now on")
    rotate.add_argument(
        "--unit-secret-file", type=Path, help="file with the new secret (default: store user ids without hashing)"
    )
    rotate.add_argument("--yes", action="store_true", help="change it; otherwise only print the consequences")
    rotate.set_defaults(act=_rotate)
    forget = actions.add_parser("forget", help="delete all rows of a user, also those hashed with an earlier secret")
    forget.add_argument("unit", help="id of the user (unit), as your program sends it")
    forget.add_argument("--unit-secret-file", type=Path, help="file with the secret that the rows were hashed with")
    forget.set_defaults(act=_forget)
    trust = actions.add_parser("trust-clock", help="confirm after a long pause that the clock of this machine is right")
    trust.set_defaults(act=_trust_clock)
    for action in (backup, rotate, forget, trust):
        store_option(action)


def run_store(options: argparse.Namespace) -> int | None:
    """Back up the store of the live service, change the secret that hashes user ids, or delete a user.

    interleaf keys add admin --store live.sqlite && interleaf store backup copy.sqlite --store live.sqlite
    """
    status: int | None = options.act(options)
    return status


def _back_up(options: argparse.Namespace) -> None:
    with closing(open_store(options.store)) as store:
        store.back_up(options.file)
    print(f"backed up to {options.file}")


def _secret(options: argparse.Namespace) -> bytes | None:
    return None if options.unit_secret_file is None else read_secret(options.unit_secret_file)


def _rotate(options: argparse.Namespace) -> int:
    secret = _secret(options)
    with closing(open_store(options.store)) as store:
        print(ROTATION)
        if not options.yes:
            print("Nothing was changed. Give --yes to do it.")
            return 1
        running = store.rotate_unit_secret(secret, time.time_ns() // 1000)
    how = "without hashing" if secret is None else f"as hashes with the secret in {options.unit_secret_file}"
    print(f"Done: units are stored {how} from now on. Running experiments: {', '.join(running) or 'none'}.")
    return 0


def _forget(options: argparse.Namespace) -> None:
    from interleaf.store.privacy import hash_unit

    secret = _secret(options)
    with closing(open_store(options.store)) as store:
        store.check_known_secret(secret)
        print(f"deleted {store.forget(hash_unit(options.unit, secret)):,} impressions")


def _trust_clock(options: argparse.Namespace) -> None:
    with closing(open_store(options.store)) as store:
        problem = store.trust_clock(time.time_ns() // 1000)
    print("the clock was already trusted" if problem is None else "from now on rows are deleted by the clock again")


def demo_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf demo`."""
    add = parser.add_argument
    add("--people", type=int, default=1000, help="number of simulated people; 0: only you search")
    add("--until-decided", action="store_true", help="stop and print the report as soon as there is a verdict")
    which = f"rankers to compare, the control first: {', '.join(RANKERS)}"
    add("--rankers", nargs="+", default=["equal", "exact"], help=which)
    add("--seed", type=int, default=1, help="random seed of the people")
    add("--port", type=int, default=0, help="port of the service; 0: any free port")
    add("--store", metavar="PATH", help="store of the service (default: a temporary file)")


def run_demo(options: argparse.Namespace) -> int:
    """Run a demo on this machine: a search engine, simulated people, the live dashboard.

    interleaf demo --until-decided
    """
    import interleaf.server  # noqa: F401, it raises the error if the extra of the service is not installed
    from interleaf.demo.live_demo import Demo, run

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that temporary files are removed
    return run(Demo(options.rankers, options.people, options.seed, options.port, options.store, options.until_decided))
