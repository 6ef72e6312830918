"""The service in a thread of this process, on this machine only."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from interleaf.errors import InterleafError

HOST, HIGHEST_PORT = "127.0.0.1", 65_535
LONGEST_START, LONGEST_END = 60.0, 5  # seconds


def listening(port: int = 0) -> socket.socket:
    """A place to be asked at; port 0 is any that is free."""
    try:
        if not 0 <= port <= HIGHEST_PORT:
            raise OSError(f"ports end at {HIGHEST_PORT}")
        return socket.create_server((HOST, port))
    except OSError as error:
        raise InterleafError(f"port {port} cannot be used ({error}); give another --port, or leave it out") from None


def address(place: socket.socket) -> str:
    """Where that is, as browsers want it."""
    return f"http://{HOST}:{place.getsockname()[1]}"


@contextmanager
def serving(app: Starlette, place: socket.socket) -> Iterator[None]:
    """Answer there while the block runs; what is on its way at the end is finished."""
    settings = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=LONGEST_END)
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, args=([place],), name="interleaf-demo-service", daemon=True)
    thread.start()
    try:
        _wait_for(server, thread)
        yield
    finally:
        server.should_exit = True
        thread.join(2 * LONGEST_END)


def _wait_for(server: uvicorn.Server, thread: threading.Thread) -> None:
    end = time.monotonic() + LONGEST_START
    while not server.started:
        if not thread.is_alive() or time.monotonic() > end:
            raise InterleafError("the service of the demo did not start; what it said above tells why")
        time.sleep(0.01)
