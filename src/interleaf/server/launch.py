"""Run the service: one process, or several that share a PostgreSQL."""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import socket
import sys
import tempfile
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from interleaf.errors import InterleafError
from interleaf.server.process_tuning import allow_files
from interleaf.server.service import ServiceSettings
from interleaf.server.webhooks import WebhookSettings
from interleaf.store import open_store

_HANDED_DOWN = "INTERLEAF_SERVE"  # environment variable for workers, which call `worker_app`


@dataclass(frozen=True)
class Place:
    """Where the service runs: its store, address, number of processes, and trusted proxies.

    `trusted_proxies`: addresses or networks whose X-Forwarded-For and X-Forwarded-Proto say who the client is.
    """

    store: str
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")


def serve(place: Place, settings: ServiceSettings) -> None:
    """Answer requests until SIGTERM or SIGINT. Everything that was acknowledged by then is in the store."""
    import uvicorn

    from interleaf.server import warming
    from interleaf.server.app import create_app
    from interleaf.server.connection import Connection
    from interleaf.server.monitoring import set_up
    from interleaf.server.service import now

    settings = replace(settings, loopback_only=is_loopback(place.host), own_process=True)
    _check(place)
    # uvicorn raises the signal again after all writes; the store must still be closed then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with closing(open_store(place.store)) as store:  # fail first if the store cannot be opened
        keys = store.keys()
        if not settings.loopback_only and not any(key.is_valid(now()) for key in keys):
            raise InterleafError(
                f"{place.host} can be reached from other machines, and the store has no keys, so "
                "anyone could do everything. Create a key first: interleaf keys add admin"
            )
        store.use_unit_secret(settings.unit_secret, now())
        store.use_queries(settings.queries, now())
    allow_files(settings.max_connections)
    set_up()
    if not warming.is_done():
        settings = replace(settings, warming=str(warming.begin()[1]))
    print(f"interleaf serves http://{place.host}:{place.port}/ from {_describe_store(place.store)}", flush=True)
    options: dict[str, Any] = {
        "host": place.host,
        "port": place.port,
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": 10,
        "http": Connection,
        "forwarded_allow_ips": list(place.trusted_proxies),
        "timeout_worker_healthcheck": 20,  # seconds: machines may freeze; stopping a hung worker takes as long
    }
    if place.workers == 1:
        with closing(open_store(place.store)) as store:
            uvicorn.run(create_app(store, settings=settings), **options)
        return
    secret = settings.unit_secret
    plain_settings = asdict(settings) | {"unit_secret": secret and secret.hex()}
    os.environ[_HANDED_DOWN] = json.dumps({"store": place.store, "settings": plain_settings})
    with tempfile.TemporaryDirectory(prefix="interleaf-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # so that every worker reports the metrics of all
        uvicorn.run("interleaf.server.launch:worker_app", factory=True, workers=place.workers, **options)


def _describe_store(store: str) -> str:
    """The name of a store without its password."""
    if not is_shared(store):
        return store
    parts = urlsplit(store)
    return f"PostgreSQL at {parts.hostname or 'this machine'}{parts.path}"


def is_shared(store: str) -> bool:
    """Whether several processes may use a store."""
    return store.startswith(("postgresql:", "postgres:"))


def worker_app() -> Any:
    """The application of one of several worker processes."""
    from interleaf.server.app import create_app
    from interleaf.server.monitoring import set_up

    set_up()
    handed_down = json.loads(os.environ[_HANDED_DOWN])
    plain_settings = handed_down["settings"]
    secret, webhooks = plain_settings["unit_secret"], WebhookSettings(**plain_settings["webhooks"])
    restored = {"unit_secret": secret and bytes.fromhex(secret), "webhooks": webhooks}
    return create_app(open_store(handed_down["store"]), settings=ServiceSettings(**plain_settings | restored))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check(place: Place) -> None:
    if not 0 < place.port < 2**16 or place.workers < 1:
        problem = f"invalid port or number of workers: port {place.port}, {place.workers} workers"
        raise InterleafError(f"{problem}; give a port from 1 to 65,535, and at least 1 worker")
    for proxy in place.trusted_proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError as error:
            raise InterleafError(f"the trusted proxy {proxy!r} is not an address or network: {error}") from None
    with socket.socket(socket.AF_INET6 if ":" in place.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((place.host, place.port))
        except OSError as error:  # another program listens there
            where = f"{place.host}, port {place.port}"
            raise InterleafError(f"cannot listen on {where}: {error.strerror}; give another --port") from None
    if place.workers > 1 and not is_shared(place.store):
        raise InterleafError(f"{place.workers} workers need a PostgreSQL to share; give --store postgresql://...")
