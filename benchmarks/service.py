"""Requests a second of the service against a bare route of the same framework; `python -m benchmarks.service`.

Both servers run in a process of their own, with the same load generator beside them: so many connections that each send
the next request when the last one is answered. The servers take turns for many short rounds, since a machine is now
faster, now slower: a figure is a median over rounds, and a ratio one of ratios within a round. Both run on the parser
and the event loop in C that `interleaf serve` has.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

CONNECTIONS = 256
SECONDS = 1.5
ROUNDS = 11
RESULTS = 10


class Load(NamedTuple):
    """Requests a second, how long the slowest hundredth took (ms), and processor time of the server a request (us)."""

    rate: float
    p99: float
    cost: float


class Server(NamedTuple):
    """A server in a process of its own."""

    port: int
    process: int

    def memory(self) -> float:
        """Resident memory, in MiB."""
        pages = int(Path(f"/proc/{self.process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def processor(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bare() -> Any:
    """A route that decodes a request and encodes an answer of the same size, and does nothing else."""
    import msgspec
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from interleaf.server.schemas import InterleaveRequest, InterleaveResponse

    decode, encode = msgspec.json.Decoder(InterleaveRequest).decode, msgspec.json.Encoder().encode

    async def answer(request: Request) -> Response:
        asked = decode(await request.body())
        documents = (asked.rankings["production"] or [])[:RESULTS]
        shown = InterleaveResponse("0" * 32, documents, "interleaved", 1, "0" * 24)
        return Response(encode(shown), 201, media_type="application/json")

    return Starlette(routes=[Route("/v1/experiments/{name}/interleave", answer, methods=["POST"])])


def service() -> Any:
    """The service over the store that the environment names."""
    from interleaf.experiment import Experiment
    from interleaf.server.app import create_app
    from interleaf.server.service import ServiceSettings
    from interleaf.store import open_store

    store = open_store(os.environ["BENCHMARK_STORE"])
    if not store.experiments():
        settings = {"name": "bench", "rankers": ["production", "candidate"], "method": "team_draft"}  # as before
        store.create(Experiment.of(settings), 0, "benchmark")
        store.start("bench", 0, "benchmark")
    return create_app(store, settings=ServiceSettings(requests_per_second=1e9, own_process=True))


def serve(factory: str, port: int) -> None:
    """Answer requests in this process, as `interleaf serve` does where the server is its own."""
    import uvicorn

    from interleaf.server.connection import Connection

    protocol = Connection if factory == "service" else "httptools"
    app = {"bare": bare, "service": service}[factory]()
    uvicorn.run(
        app, port=port, http=protocol, loop="uvloop", log_level="warning", access_log=False, server_header=False
    )


def running(factory: str, store: str = "", checkout: Path | None = None) -> AbstractContextManager[Server]:
    """Such a server, until it is told to end; of another checkout of this repository, if one is given."""
    code = f"import sys; from benchmarks.service import serve; serve({factory!r}, int(sys.argv[1]))"
    return running_command(["-c", code], store, checkout)


@contextmanager
def running_command(command: Sequence[str], store: str = "", checkout: Path | None = None) -> Iterator[Server]:
    """A server that Python runs with these arguments and a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    environment = os.environ | {"BENCHMARK_STORE": store}
    if checkout is not None:
        environment["PYTHONPATH"] = str(checkout / "src")
    server = subprocess.Popen([sys.executable, *command, str(port)], env=environment, cwd=checkout)
    try:
        _wait(port)
        yield Server(port, server.pid)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def _wait(port: int) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("the server did not start")


def post(path: str, data: Any) -> bytes:
    """A request with JSON."""
    body = json.dumps(data).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def request_of(number: int) -> bytes:
    """A request with two rankings of twenty documents."""
    documents = [f"document-{(number * 7 + place) % 1000}" for place in range(20)]
    data = {
        "unit": f"user-{number % 5000}",
        "query": f"query {number % 300}",
        "rankings": {"production": documents, "candidate": [*documents[5:], *documents[:5]]},
        "attributes": {"device": "phone"},
    }
    return post("/v1/experiments/bench/interleave", data)


class Connection:
    """A connection that sends a request when the last one is answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, request: bytes) -> bytes:
        """The body of the answer, which has to be 2xx."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(f"the server answered {head[:60]!r} {body[:500]!r}")
        return body

    def close(self) -> None:
        self._writer.close()


async def connect(port: int) -> Connection:
    """Connect to a server on this machine."""
    return Connection(*await asyncio.open_connection("127.0.0.1", port))


async def _connection(port: int, number: int, until: float, times: list[float]) -> None:
    connection = await connect(port)
    while (began := time.perf_counter()) < until:
        await connection.ask(REQUESTS[number % len(REQUESTS)])
        number += 1
        times.append(time.perf_counter() - began)
    connection.close()


REQUESTS = [request_of(number) for number in range(2000)]


def loaded(server: Server, seconds: float, connections: int) -> Load:
    """Send requests for so long."""
    times: list[float] = []
    spent = server.processor()

    async def all_connections() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(_connection(server.port, 31 * one, until, times) for one in range(connections)))

    asyncio.run(all_connections())
    times.sort()
    cost = 1e6 * (server.processor() - spent) / len(times)
    return Load(len(times) / seconds, 1000 * times[int(0.99 * len(times))], cost)


def tables(
    seconds: float = SECONDS,
    rounds: int = ROUNDS,
    connections: int = CONNECTIONS,
    postgres: str | None = None,
    old: Path | None = None,
) -> Iterator[str]:
    """The bare route, and the service over each store; and the service of another checkout, over SQLite."""
    loads: dict[str, list[Load]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        servers = {
            "bare route": stack.enter_context(running("bare")),
            "SQLite": stack.enter_context(running("service", str(Path(folder) / "store.sqlite"))),
        }
        if old is not None:
            servers["SQLite, old"] = stack.enter_context(running("service", str(Path(folder) / "old.sqlite"), old))
        if postgres is not None:
            servers["PostgreSQL"] = stack.enter_context(running("service", postgres))
        for server in servers.values():
            loaded(server, 1, connections)
        for _ in range(rounds):
            for name, server in servers.items():
                loads.setdefault(name, []).append(loaded(server, seconds, connections))
    yield f"\nRequests to /interleave, {connections} connections, durable before they are answered"
    yield f"{'':24}{'requests/s':>12}{'of bare':>10}{'p99, ms':>10}{'processor, us':>16}{'times bare':>12}"
    for name, own in loads.items():
        rate, p99, cost = map(statistics.median, zip(*own, strict=True))
        pairs = list(zip(own, loads["bare route"], strict=True))
        rates = statistics.median(one.rate / bare.rate for one, bare in pairs)
        costs = statistics.median(one.cost / bare.cost for one, bare in pairs)
        yield f"{name:24}{rate:12,.0f}{rates:10.0%}{p99:10.1f}{cost:16.0f}{costs:12.2f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--postgres", metavar="ADDRESS", help="measure the service over this database as well")
    parser.add_argument("--old", type=Path, metavar="FOLDER", help="measure this checkout of the repository as well")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="measure how memory grows under load")
    options = parser.parse_args()
    if options.soak:
        from benchmarks.soak import soak

        lines = soak(options.soak)
    else:
        lines = tables(options.seconds, options.rounds, options.connections, options.postgres, options.old)
    for line in lines:
        print(line, flush=True)
