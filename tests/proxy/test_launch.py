"""The command itself: it starts, answers, writes everything down when it is stopped, and refuses a port in use."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from interleaf import log
from interleaf.cli import main
from tests.support.proxies import BODY, config_text
from tests.support.stub_engine import StubEngine

COMMAND = [sys.executable, "-c", "import sys; from interleaf.cli import main; sys.exit(main(sys.argv[1:]))", "proxy"]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_the_proxy_starts_answers_and_stops(engine: StubEngine, tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "proxy.toml"
    file.write_text(config_text(engine.url, tmp_path, proxy=f'listen = "127.0.0.1:{port}"', experiment='log = "log"'))
    process = subprocess.Popen([*COMMAND, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until, status = time.monotonic() + 60, 0
        while status != 200 and time.monotonic() < until:
            try:
                connection = HTTPConnection("127.0.0.1", port, timeout=10)
                headers = {"Content-Type": "application/json", "X-User": "user-7"}
                connection.request("POST", "/products/_search", json.dumps(BODY), headers)
                response = connection.getresponse()
                status, data = response.status, json.loads(response.read())
                connection.close()
            except ConnectionError:
                time.sleep(0.05)
        busy = subprocess.run([*COMMAND, str(file)], capture_output=True, text=True, check=False)
    finally:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert out.startswith(f"interleaf proxies http://127.0.0.1:{port}/ to {engine.url}")
    (row,) = [row for batch in log.read(tmp_path / "log") for row in batch.to_pylist()]
    assert row["impression"] == data["ext"]["interleaf"]["impression"]
    assert busy.returncode == 2
    assert "cannot listen on 127.0.0.1" in busy.stderr
    assert os.listdir(tmp_path / "log")


def test_files_that_cannot_be_read_are_reported_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "short").write_text("short")
    (tmp_path / "log").write_text("a file")
    for part, text in [
        ({"proxy": 'secret_file = "none"'}, "cannot read the secret"),
        ({"proxy": 'secret_file = "short"'}, "a secret has at least 16"),
        ({"experiment": 'service = "http://127.0.0.1:1"\nkey_file = "none"'}, "cannot read the key"),
        ({"upstream": 'ca_file = "none"'}, "cannot read the certificates"),
        ({"experiment": 'log = "log"'}, "cannot be made"),
    ]:
        file = tmp_path / "proxy.toml"
        parts = {"proxy": f'listen = "127.0.0.1:{free_port()}"', "experiment": 'log = "good"'} | part
        if "proxy" in part:
            parts["proxy"] += f'\nlisten = "127.0.0.1:{free_port()}"'
        file.write_text(config_text("https://127.0.0.1:1", tmp_path, **parts))
        assert main(["proxy", str(file)]) == 2
        assert text in capsys.readouterr().err
