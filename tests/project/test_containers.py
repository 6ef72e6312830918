"""Dockerfile and compose file: no container engine runs here, so what they say is held against the project."""

from __future__ import annotations

import ipaddress
import json
import re
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # mkdocs brings it

from interleaf import cli
from tests.support.paths import ROOT

DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def lines(instruction: str) -> list[str]:
    return re.findall(rf"^{instruction} (.+)$", DOCKERFILE, re.MULTILINE)


def test_every_line_of_the_dockerfile_is_an_instruction() -> None:
    known = ("FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "ENV", "EXPOSE", "HEALTHCHECK", "CMD")
    written = [line for line in DOCKERFILE.splitlines() if line and not line.startswith("#")]
    assert [line for line in written if not line.startswith(tuple(f"{word} " for word in known))] == []
    assert len(lines("CMD")) == len(lines("HEALTHCHECK")) == 1


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    for line in lines("COPY"):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists()
            assert f"!{name}" in ignored


def test_the_extras_are_those_of_the_project_and_its_python_is_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"whl\)\[([\w,]+)\]", DOCKERFILE)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert project["requires-python"] == ">=3.11"
    assert {line.split()[0] for line in lines("FROM")} == {"python:3.12-slim"}


def test_it_does_not_run_as_root_and_writes_to_its_volume_only() -> None:
    assert lines("USER") == ["10001"]
    assert DOCKERFILE.index("\nUSER ") < DOCKERFILE.index("\nCMD ")
    written = re.findall(r"=(/\S+)", lines("ENV")[0])
    assert all(path.startswith("/data/") for path in written)
    service = COMPOSE["services"]["interleaf"]
    assert service["read_only"]
    assert "interleaf:/data" in service["volumes"]


@pytest.mark.parametrize("command", [json.loads(lines("CMD")[0]), COMPOSE["services"]["interleaf"]["command"]])
def test_the_commands_are_ones_that_the_command_line_understands(command: list[str]) -> None:
    assert command[0] == "interleaf"
    options = cli.build_parser().parse_args(command[1:])
    assert (options.verb, options.host, options.port) == ("serve", "0.0.0.0", 8080)


def test_compose_wires_the_service_to_its_database() -> None:
    service, database = COMPOSE["services"]["interleaf"], COMPOSE["services"]["database"]
    settings = database["environment"]
    user, name = settings["POSTGRES_USER"], settings["POSTGRES_DB"]
    assert service["environment"]["INTERLEAF_STORE"] == f"postgresql://{user}:${{POSTGRES_PASSWORD}}@database/{name}"
    assert settings["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    assert service["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert service["ports"] == ["127.0.0.1:8080:8080"]
    mounted = {volume.split(":")[0] for one in (service, database) for volume in one["volumes"]}
    assert mounted == set(COMPOSE["volumes"])


def test_compose_trusts_a_proxy_on_the_host() -> None:
    options = cli.build_parser().parse_args(COMPOSE["services"]["interleaf"]["command"][1:])
    networks = [network["subnet"] for network in COMPOSE["networks"]["default"]["ipam"]["config"]]
    assert options.trusted_proxies == networks
    assert all(ipaddress.ip_network(network).is_private for network in networks)


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_says_whether_the_service_answers(status: int, code: int) -> None:
    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/livez" else 404)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    command = json.loads(lines("HEALTHCHECK")[0].partition("CMD ")[2])
    with HTTPServer(("127.0.0.1", 0), Health) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        check = command[-1].replace("8080", str(server.server_port)).replace("timeout=4", "timeout=60")
        done = subprocess.run([sys.executable, *command[1:-1], check], capture_output=True)
        server.shutdown()
        thread.join()
    assert done.returncode == code
