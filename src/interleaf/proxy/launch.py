"""Runs the proxy until SIGTERM or SIGINT."""

from __future__ import annotations

import socket

from interleaf.errors import InterleafError
from interleaf.proxy.config import ProxyConfig, split_address


def run_proxy(config: ProxyConfig) -> None:
    """Answer requests in this process."""
    import uvicorn

    from interleaf.interleaving.api import warm_composing
    from interleaf.proxy.app import ProxyApp
    from interleaf.server.connection import Connection
    from interleaf.server.monitoring import set_up
    from interleaf.server.process_tuning import allow_files, tune_interpreter

    host, port = split_address(config.proxy.listen)
    _check_address(host, port)
    app = ProxyApp(config)  # it reports files that cannot be read
    allow_files(config.proxy.max_connections + config.upstream.max_connections)
    set_up()
    if config.local is not None:
        warm_composing(config.local.method, len(config.rankers))
    print(f"interleaf proxies http://{host}:{port}/ to {config.upstream.url}", flush=True)
    tune_interpreter()
    uvicorn.run(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=10,
        timeout_keep_alive=60,
        http=Connection,
    )


def _check_address(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:  # another program listens there
            where = f"{host}, port {port}"
            raise InterleafError(f"cannot listen on {where}: {error.strerror}; give another [proxy] listen") from None
