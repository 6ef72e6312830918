"""Runs the proxy until SIGTERM or SIGINT, or describes what `interleaf proxy CONFIG --check` prints."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import msgspec

from interleaf.errors import InterleafError
from interleaf.proxy.config import SOLR, ProxyConfig, split_address
from interleaf.proxy.search import parser_of
from interleaf.proxy.search_requests import Incoming, merge_patch

EXAMPLE = "running shoes"


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


def describe(config: ProxyConfig) -> Iterator[str]:
    """What happens with an example request to the first path."""
    incoming = example_request(config)
    yield f"{config.experiment.name}: {len(config.rankers)} rankers, the control is {config.control}"
    yield f"a search such as {incoming.method.decode()} {incoming.target.decode()} {incoming.plain.decode()}".rstrip()
    yield f"is sent to {config.upstream.url} as"
    search = parser_of(config)(incoming)
    for ranker in config.rankers:
        size = config.requests.depth
        request = search.request_of(ranker, size, ranker.name == config.control)
        yield f"  {ranker.name}: {request.method.decode()} {request.target.decode()}"
        if request.body:
            yield f"    {request.body.decode()}"
    yield "all other requests pass through"


def example_request(config: ProxyConfig) -> Incoming:
    """A request to the first path, with the text where the configuration looks for it."""
    path = config.requests.paths[0].replace("*", "example")
    if config.upstream.engine == SOLR:
        return Incoming(b"GET", path, b"q=running+shoes&start=0&rows=10", ())
    pointer = config.requests.query or ("query", "match", "title", "query")
    body: object = EXAMPLE
    for part in reversed(pointer):
        body = {part: body}
    incoming = Incoming(b"POST", path, b"", ((b"content-type", b"application/json"),))
    incoming.plain = msgspec.json.encode(merge_patch(body, {"from": 0, "size": 10}))
    return incoming
