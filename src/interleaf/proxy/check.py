"""What `interleaf proxy CONFIG --check` prints: the requests that each ranker gets for an example request."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from interleaf.proxy.config import SOLR, ProxyConfig
from interleaf.proxy.parsers import parser_of
from interleaf.proxy.search_requests import Incoming, merge_patch

EXAMPLE = "running shoes"


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
