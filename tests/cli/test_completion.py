"""Shell completion: the scripts in real shells, where they are installed."""

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interleaf import cli

LIMIT = 120.0  # seconds that a shell has to answer
# What is typed, and a word that follows from it.
TYPED = {
    "interleaf sim": "simulate",
    "interleaf serve --queries ha": "hash",
    "interleaf analyze --engi": "--engine",
    "interleaf keys rev": "revoke",
    "interleaf export ub": "ubi",
}


@pytest.fixture
def script(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The script of a shell, in a file."""
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert cli.main(["completion", shell]) == 0
    path = tmp_path / f"completion.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


def run(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    assert done.stderr == ""
    return done.stdout.split("\n")


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_completes_verbs_options_and_values(script: Path) -> None:
    for typed, meant in TYPED.items():
        words = typed.split()
        asked = f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _interleaf; echo ${{COMPREPLY[@]}}"
        assert run("bash", "-c", f"source {script}; {asked}")[0] == meant
    nothing = "COMP_WORDS=(interleaf analyze wor); COMP_CWORD=2; _interleaf; echo ${#COMPREPLY[@]}"
    assert run("bash", "-c", f"source {script}; {nothing}")[0] == "0"  # so that bash offers files


@pytest.mark.parametrize("script", ["fish"], indirect=True)
def test_fish_completes_verbs_options_and_values(script: Path) -> None:
    for typed, meant in TYPED.items():
        offered = run("fish", "--no-config", "-c", f"source {script}; complete -C '{typed}'")
        assert meant in [line.partition("\t")[0] for line in offered], typed


@contextmanager
def terminal(*command: str) -> Iterator[int]:
    """A program in a terminal of its own."""
    process, end = pty.fork()
    if process == 0:
        os.environ["TERM"] = "dumb"
        os.execvp(command[0], command)
    try:
        yield end
    finally:
        os.close(end)
        os.waitpid(process, 0)


def wait_for(end: int, text: str) -> None:
    seen, limit = "", time.monotonic() + LIMIT
    while text not in seen:
        assert time.monotonic() < limit, seen
        if select.select([end], [], [], 1.0)[0]:
            seen += os.read(end, 65536).decode(errors="replace")


@pytest.mark.parametrize("script", ["zsh"], indirect=True)
def test_zsh_completes_verbs_options_and_values(script: Path) -> None:
    with terminal("zsh", "-f", "-i") as end:
        os.write(end, f"source {script}; echo is-$((1 + 1))-read\n".encode())
        wait_for(end, "is-2-read")
        for typed, meant in TYPED.items():
            os.write(end, f"{typed}\t".encode())
            wait_for(end, f"{' '.join(typed.split()[:-1])} {meant}")
            os.write(end, b"\x15")  # clears the line
