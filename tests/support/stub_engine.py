"""A small HTTP server that speaks the protocols of searches of OpenSearch and Solr, with faults."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COUNT = 120  # documents that every search finds
OLD = [f"d{number}" for number in range(COUNT)]
NEW = [f"d{(number * 7 + 3) % COUNT}" for number in range(COUNT)]


@dataclass
class Asked:
    """A request that the engine got."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def parameters(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)

    @property
    def is_for_defaults(self) -> bool:
        """Whether the proxy asks which parameters Solr adds."""
        return self.parameters.keys() >= {"echoParams", "omitHeader"} and "q" not in self.parameters

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


Send = Callable[[bytes], Awaitable[None]]
Fault = Callable[[Asked, Send], Awaitable[bool]]  # True: it has answered, or the connection shall be closed


async def no_fault(asked: Asked, send: Send) -> bool:
    return False


@dataclass
class StubEngine:
    """What the engine got, and how it fails."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    fault: Fault = no_fault
    delay: Callable[[dict[str, Any]], float] = lambda body: 0.0
    found: Callable[[bool], list[str]] = lambda is_new: NEW if is_new else OLD
    coding: str = ""  # of answers
    is_chunked: bool = False
    takes_msearch: bool = True
    defaults: dict[str, Any] = field(default_factory=dict)  # parameters that Solr adds
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def searches(self) -> list[dict[str, Any]]:
        """The bodies of all searches, those of _msearch too."""
        bodies = list[dict[str, Any]]()
        for one in self.asked:
            if one.path.endswith("/_search"):
                bodies.append(json.loads(one.body or b"{}"))
            elif one.path.endswith("/_msearch"):
                bodies += [json.loads(line) for line in one.body.splitlines()[1::2]]
        return bodies

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while (asked := await read_request(reader)) is not None:
                self.asked.append(asked)

                async def send(data: bytes) -> None:
                    writer.write(data)
                    await writer.drain()

                if await self.fault(asked, send):
                    break
                await self._answer(asked, send)
        writer.close()

    async def _answer(self, asked: Asked, send: Send) -> None:
        status, body, kind = 200, b"", "application/json"
        if asked.path.endswith("/_msearch") and self.takes_msearch:
            lines = asked.body.splitlines()
            pairs = [(json.loads(a), json.loads(b)) for a, b in zip(lines[::2], lines[1::2], strict=True)]
            results = [self.search(",".join(line.get("index", [])), one, {}) for line, one in pairs]
            await asyncio.sleep(max(self.delay(one) for _, one in pairs))
            answers = [answer | {"status": code} for code, answer in results]
            body = json.dumps({"took": 3, "responses": answers}).encode()
        elif asked.path.endswith("/_search"):
            asked_body = json.loads(asked.body or b"{}")
            await asyncio.sleep(self.delay(asked_body))
            status, answer = self.search(asked.path.split("/")[1], asked_body, asked.parameters)
            body = json.dumps(answer).encode()
        elif asked.path.endswith("/_bulk"):
            body = json.dumps(self.store(asked.body)).encode()
        elif asked.path.rstrip("/").endswith("/select"):
            form = asked.header("content-type") == "application/x-www-form-urlencoded"
            parameters = asked.parameters | (parse_qs(asked.body.decode(), keep_blank_values=True) if form else {})
            await asyncio.sleep(self.delay({"parameters": parameters}))
            if asked.is_for_defaults:
                header = {"status": 0, "params": {"echoParams": "all"} | self.defaults}
                body = json.dumps({"responseHeader": header}).encode()
            else:
                body = json.dumps(self.select(asked.path, parameters)).encode()
        else:
            status, body = 200, b'{"echo":' + json.dumps([asked.method, asked.target]).encode() + b"}"
        await send(self.response(asked, status, body, kind))

    def response(self, asked: Asked, status: int, body: bytes, kind: str) -> bytes:
        headers = [f"Content-Type: {kind}", "X-Elastic-Product: Elasticsearch", "Set-Cookie: a=1", "Set-Cookie: b=2"]
        if self.coding == "gzip":
            body = gzip.compress(body)
            headers.append("Content-Encoding: gzip")
        if self.is_chunked:
            headers.append("Transfer-Encoding: chunked")
            pieces = [body[start : start + 100] for start in range(0, len(body), 100)]
            content = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        else:
            headers.append(f"Content-Length: {len(body)}")
            content = body
        head = "\r\n".join([f"HTTP/1.1 {status} OK", *headers]).encode() + b"\r\n\r\n"
        return head if asked.method == "HEAD" else head + content

    def search(self, index: str, body: dict[str, Any], parameters: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """The answer of OpenSearch."""
        if index == "missing" or "boom" in json.dumps(body):
            return 404, {"error": {"type": "index_not_found_exception"}, "status": 404}
        fields = body.get("query", {}).get("multi_match", {}).get("fields", [])
        is_new = "title^3" in fields or index == "products-v2" or "search_pipeline" in parameters
        found = self.found(is_new)
        first, size = body.get("from", 0), body.get("size", 10)
        hits = list[dict[str, Any]]()
        for place, name in enumerate(found[first : first + size], first):
            hit: dict[str, Any] = {"_index": index, "_id": name, "_score": 20.0 - 0.1 * place}
            hit["_source"] = {"title": f"Title of {name}", "url": f"https://shop.example/{name}"}
            if "highlight" in body:
                hit["highlight"] = {"title": [f"<em>{name}</em> of {'new' if is_new else 'old'}"]}
            if "sort" in body:
                hit["sort"] = [hit["_score"]]
            hits.append(hit)
        outer: dict[str, Any] = {"max_score": 20.0, "hits": hits}
        if body.get("track_total_hits") is not False:
            outer = {"total": {"value": len(found), "relation": "eq"}, **outer}
        answer: dict[str, Any] = {"took": 5, "timed_out": False, "_shards": {"total": 1, "failed": 0}, "hits": outer}
        if "aggs" in body:
            answer["aggregations"] = {"colours": {"buckets": [{"key": "red", "doc_count": len(found)}]}}
        if "suggest" in body:
            answer["suggest"] = {"words": [{"text": "shoo", "options": [{"text": "shoe"}]}]}
        return 200, answer

    def store(self, body: bytes) -> dict[str, Any]:
        """The answer to a bulk request; documents with the word "refused" are refused."""
        items = list[dict[str, Any]]()
        lines = iter(body.splitlines())
        for line in lines:
            ((action, about),) = json.loads(line).items()
            status = 400 if action != "delete" and b"refused" in next(lines) else 201
            items.append({action: {"_index": about.get("_index"), "status": status}})
        return {"took": 1, "errors": b"refused" in body, "items": items}

    def select(self, path: str, parameters: dict[str, list[str]]) -> dict[str, Any]:
        """The answer of Solr."""

        def last(name: str, default: str) -> str:
            return parameters.get(name, [default])[-1]

        is_new = "title^3" in last("qf", "") or "/products-v2/" in path
        found = self.found(is_new)
        first, rows = int(last("start", "0")), int(last("rows", "10"))
        wanted = last("fl", "*").split(",")
        documents = list[dict[str, Any]]()
        for place, name in enumerate(found[first : first + rows], first):
            whole = {"id": name, "title": f"Title of {name}", "url": f"https://shop.example/{name}"}
            document: dict[str, Any] = {key: value for key, value in whole.items() if "*" in wanted or key in wanted}
            if "score" in wanted:
                document["score"] = 20.0 - 0.1 * place
            documents.append(document)
        response = {"numFound": len(found), "start": first, "numFoundExact": True, "docs": documents}
        answer: dict[str, Any] = {"responseHeader": {"status": 0, "QTime": 4, "params": parameters}}
        answer["response"] = response
        if last("facet", "false") == "true":
            answer["facet_counts"] = {"facet_fields": {"colour": ["red", len(found)]}}
        if last("hl", "false") == "true":
            names = found[first : first + rows]
            answer["highlighting"] = {name: {"title": [f"<em>{name}</em>"]} for name in names}
        return answer


async def read_request(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    names = {name.lower(): value for name, value in headers}
    body = b""
    if names.get("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readexactly(2)
    elif "content-length" in names:
        body = await reader.readexactly(int(names["content-length"]))
    return Asked(method, target, headers, body)


@contextmanager
def stub_engine() -> Iterator[StubEngine]:
    """An engine on a free port, in a thread."""
    engine, loop, ready = StubEngine(), asyncio.new_event_loop(), threading.Event()
    tasks, servers = set[asyncio.Task[Any]](), list[asyncio.Server]()

    async def start() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            with suppress(asyncio.CancelledError):
                await engine.serve(reader, writer)
            tasks.discard(task)
            writer.transport.abort()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        servers.append(server)
        engine.port = server.sockets[0].getsockname()[1]
        ready.set()

    async def stop() -> None:
        servers[0].close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        loop.stop()

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(start(), loop)
    assert ready.wait(5)
    try:
        yield engine
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop)
        thread.join(5)
        loop.close()
