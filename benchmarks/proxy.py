"""What `interleaf proxy` adds to a search, and its memory; `python -m benchmarks.proxy`.

A stub engine answers each search after a fixed delay, as long as the search of a ranker takes. Engine, proxy and load
generator are processes of their own. Searches are sent at a fixed rate, whether the last one is answered or not, first
to the engine, then through the proxy: the delay that the proxy adds is the difference from the slower of the two
rankers' searches. `--soak MINUTES` measures how memory grows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from benchmarks.service import Connection, Server, connect, post, running_command

RATE = 200  # searches a second
SECONDS = 20.0
DELAYS = (0.010, 0.020)  # of the control's search, and of the candidate's
MAX_MEDIAN, MAX_P99 = 0.003, 0.010  # seconds that the proxy may add
DEPTH, SIZE = 50, 10
STEP = 30.0  # seconds between two lines of the soak
MAX_GROWTH = 1.0  # MiB a minute over the last half of the soak
_CONFIG = """
[proxy]
listen = "127.0.0.1:{port}"
[upstream]
engine = "{engine}"
url = "http://127.0.0.1:{upstream}"
[experiment]
name = "bench"
log = "{log}"
[requests]
paths = ["{path}"]
query = "/query/match/title"
depth = {depth}
[unit]
header = "X-User"
[[rankers]]
name = "production"
[[rankers]]
name = "candidate"
index = "candidates"
"""


class Latencies(NamedTuple):
    """Median and 99th percentile, in seconds; the searches that were answered a second, and those that failed."""

    median: float
    p99: float
    rate: float
    failed: float


def serve_engine(port: int) -> None:
    """A stub engine: searches of OpenSearch and Solr with answers of fixed documents, after the delay of the ranker."""
    import uvloop

    uvloop.run(_serve_engine(port))


async def _serve_engine(port: int) -> None:
    answers = {name: _answer(name) for name in ("products", "candidates")}
    both = b'{"took":1,"responses":[' + b",".join(one[:-1] + b',"status":200}' for one in answers.values()) + b"]}"
    solr = {name: _solr_answer(name) for name in answers}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                target = head.partition(b" ")[2]
                name = "candidates" if b"candidates" in target[:40] else "products"
                if target.startswith(b"/_msearch"):
                    await asyncio.sleep(max(DELAYS))
                    body = both
                else:
                    await asyncio.sleep(DELAYS[name == "candidates"])
                    body = solr[name] if target.startswith(b"/solr") else answers[name]
                headers = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                writer.write(headers % len(body) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=1000)
    await server.serve_forever()


def _documents(name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Half of the documents are found by both rankers."""
    for place in range(DEPTH):
        number = place if name == "products" else (7 * place + DEPTH // 2) % (2 * DEPTH)
        yield f"document-{number}", {"title": f"Title of document {number}", "text": "word " * 60}


def _answer(name: str) -> bytes:
    hits = [
        {"_index": name, "_id": one, "_score": 20 - place / 10, "_source": source}
        for place, (one, source) in enumerate(_documents(name))
    ]
    total = {"value": 1234, "relation": "eq"}
    return json.dumps({"took": 5, "timed_out": False, "hits": {"total": total, "max_score": 20, "hits": hits}}).encode()


def _solr_answer(name: str) -> bytes:
    documents = [{"id": one, **source} for one, source in _documents(name)]
    header = {"QTime": 5, "params": {"echoParams": "all"}}  # the proxy asks for them once a minute
    return json.dumps({"responseHeader": header, "response": {"numFound": 1234, "docs": documents}}).encode()


def serve_proxy(engine: str, upstream: int, folder: str, port: int) -> None:
    """The proxy, as the command starts it."""
    from interleaf.cli import main

    file = Path(folder) / f"{engine}.toml"
    log = Path(folder) / f"log-{engine}"
    path = "/solr/products/select" if engine == "solr" else "/products/_search"
    file.write_text(_CONFIG.format(port=port, engine=engine, upstream=upstream, log=log, depth=DEPTH, path=path))
    sys.exit(main(["proxy", str(file)]))


def _start(stack: ExitStack, call: str) -> Server:
    return stack.enter_context(running_command(["-c", f"import sys; from benchmarks.proxy import *; {call}"]))


def _start_engine(stack: ExitStack) -> Server:
    return _start(stack, "serve_engine(int(sys.argv[1]))")


def _start_proxy(stack: ExitStack, engine: str, upstream: int, folder: str) -> Server:
    return _start(stack, f"serve_proxy({engine!r}, {upstream}, {folder!r}, int(sys.argv[1]))")


def _search(engine: str, number: int) -> bytes:
    """A search of one of many users."""
    if engine == "solr":
        target = f"/solr/products/select?q=query+{number % 300}&rows={SIZE}"
        return f"GET {target} HTTP/1.1\r\nHost: a\r\nX-User: user-{number % 5000}\r\n\r\n".encode()
    request = post("/products/_search", {"query": {"match": {"title": f"query {number % 300}"}}, "size": SIZE})
    return request.replace(b"\r\n\r\n", f"\r\nX-User: user-{number % 5000}\r\n\r\n".encode(), 1)


def _candidate_search(engine: str, number: int) -> bytes:
    return _search(engine, number).replace(b"/products/", b"/candidates/", 1)


async def _load(port: int, requests: Iterator[bytes], seconds: float, rate: float) -> Latencies:
    """Send requests at a fixed rate, each on an idle connection or a new one; latencies count from the planned time."""
    idle, times, tasks = list[Connection](), list[float](), set[asyncio.Task[None]]()
    began, failed = time.perf_counter(), 0

    async def ask(request: bytes, planned: float) -> None:
        nonlocal failed
        while True:
            is_fresh = not idle
            connection = await connect(port) if is_fresh else idle.pop()
            try:
                await connection.ask(request)
                break
            except (OSError, EOFError, RuntimeError) as problem:
                connection.close()
                if is_fresh or isinstance(problem, RuntimeError):  # else it was idle for too long
                    failed += 1
                    return
        times.append(time.perf_counter() - planned)
        idle.append(connection)

    for number in range(int(seconds * rate)):
        planned = began + number / rate
        await asyncio.sleep(max(0.0, planned - time.perf_counter()))
        task = asyncio.create_task(ask(next(requests), max(planned, time.perf_counter() - 0.001)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    elapsed = time.perf_counter() - began
    for connection in idle:
        connection.close()
    times.sort()
    return Latencies(statistics.median(times), times[int(0.99 * len(times))], len(times) / elapsed, failed)


def _measure(port: int, engine: str, kind: str, seconds: float, rate: float) -> Latencies:
    import uvloop

    make = _candidate_search if kind == "candidate" else _search
    requests = (make(engine, number) for number in range(10**9))
    return uvloop.run(_load(port, requests, seconds, rate))


def tables(seconds: float = SECONDS, rate: float = RATE, rounds: int = 3) -> Iterator[str]:
    """The time of the slower of the two searches, sent to the engine itself, and that of a search through the proxy."""
    delays = " and ".join(f"{1000 * delay:g}" for delay in DELAYS)
    yield f"\n{rate:g} searches a second, depth {DEPTH}; the engine takes {delays} ms"
    yield f"{'engine':14}{'':14}{'median, ms':>12}{'p99, ms':>10}{'answered/s':>12}{'failed':>8}"
    for engine in ("opensearch", "solr"):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            stub = _start_engine(stack)
            proxy = _start_proxy(stack, engine, stub.port, folder)
            _measure(proxy.port, engine, "search", 2, rate / 2)
            direct, through = list[Latencies](), list[Latencies]()
            spent = proxy.processor()
            for _ in range(rounds):
                direct.append(_measure(stub.port, engine, "candidate", seconds / 2, rate))
                through.append(_measure(proxy.port, engine, "search", seconds, rate))
            cost = (proxy.processor() - spent) / (rounds * seconds * rate)
        slower, own = (Latencies(*map(statistics.median, zip(*some, strict=True))) for some in (direct, through))
        for name, title, some in ((engine, "the slower", slower), ("", "the proxy", own)):
            times = f"{1000 * some.median:12.2f}{1000 * some.p99:10.2f}"
            yield f"{name:14}{title:14}{times}{some.rate:12.0f}{some.failed:8.0f}"
        added = own.median - slower.median, own.p99 - slower.p99
        yield f"{'':14}{'added':14}{1000 * added[0]:12.2f}{1000 * added[1]:10.2f}{'':20}  {_judge(*added)}"
        yield f"{'':14}{'processor time of the proxy for a search':42}{1e6 * cost:8.0f} us"


def _judge(median: float, p99: float) -> str:
    is_within = median <= MAX_MEDIAN and p99 <= MAX_P99
    return f"limit {1000 * MAX_MEDIAN:g} and {1000 * MAX_P99:g} ms: {'ok' if is_within else 'EXCEEDED'}"


def soak(minutes: float, rate: float = RATE) -> Iterator[str]:
    """Resident memory of the proxy every half minute, and its slope over the last half."""
    from concurrent.futures import ThreadPoolExecutor

    points = list[tuple[float, float]]()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack, ThreadPoolExecutor(1) as generator:
        stub = _start_engine(stack)
        proxy = _start_proxy(stack, "opensearch", stub.port, folder)
        began = time.monotonic()
        load = generator.submit(_measure, proxy.port, "opensearch", "search", 60 * minutes, rate)
        yield f"\n{'seconds':>8}{'resident, MiB':>16}"
        while not load.done():
            elapsed = time.monotonic() - began
            points.append((elapsed, proxy.memory()))
            yield f"{elapsed:8.0f}{points[-1][1]:16.1f}"
            time.sleep(STEP)
        found = load.result()
    yield f"{found.rate:.0f} searches a second, {found.failed:.0f} failed, 99th percentile {1000 * found.p99:.0f} ms"
    half = [point for point in points if point[0] >= 30 * minutes]
    if len(half) > 1:
        slope = 60 * statistics.linear_regression(*zip(*half, strict=True)).slope
        verdict = "ok" if slope <= MAX_GROWTH else "EXCEEDED"
        yield f"slope over the last half: {slope:+.2f} MiB a minute, limit {MAX_GROWTH:g}: {verdict}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="measure how memory grows under load")
    options = parser.parse_args()
    for line in (
        soak(options.soak, options.rate) if options.soak else tables(options.seconds, options.rate, options.rounds)
    ):
        print(line, flush=True)
