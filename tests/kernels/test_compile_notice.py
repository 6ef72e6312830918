"""The notice that kernels are being compiled: once, on standard error, and only where that is so."""

import os
import subprocess
import sys
from pathlib import Path

from interleaf.kernels import jit

ONE_LIST = """
import interleaf
print(interleaf.interleave([["a", "b"], ["b", "a"]], "single(ranker=A)", key="x").documents)
interleaf.warm("single(ranker=A)")
"""
EAGER = "from interleaf.kernels import jit\njit.MAX_SILENCE = 0.0\n"


def run(code: str, cache: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != jit.NOTICE_SWITCH}
    environment |= {"NUMBA_CACHE_DIR": str(cache)} | more
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=600, check=True
    )


def test_the_first_use_says_once_that_it_compiles_and_the_second_says_nothing(tmp_path: Path) -> None:
    first, second = (run(EAGER + ONE_LIST, tmp_path) for _ in range(2))
    assert first.stdout == second.stdout == "('a', 'b')\n"
    assert first.stderr == f"{jit._ONCE}\n"
    assert second.stderr == ""


def test_a_variable_switches_it_off(tmp_path: Path) -> None:
    assert run(EAGER + ONE_LIST, tmp_path, **{jit.NOTICE_SWITCH: "0"}).stderr == ""


def test_short_compiling_and_functions_of_others_are_not_announced(tmp_path: Path) -> None:
    patient = EAGER.replace("0.0", "1e9")
    assert run(patient + ONE_LIST, tmp_path / "patient").stderr == ""
    other = "import numba\nprint(numba.njit(lambda values: values.sum())(__import__('numpy').ones(3)))"
    assert run(EAGER + other, tmp_path / "other").stderr == ""


def test_it_goes_through_logging_so_that_a_service_writes_it_its_own_way(tmp_path: Path) -> None:
    set_up = "from interleaf.server.monitoring import set_up\nset_up()\n"
    done = run(EAGER + set_up + ONE_LIST, tmp_path)
    assert done.stdout == "('a', 'b')\n"
    assert done.stderr.count("\n") == 1
    assert '"level": "warning", "what": "interleaf compiles its kernels, once' in done.stderr


def test_where_compiled_kernels_cannot_be_kept_it_says_what_would_help(tmp_path: Path) -> None:
    """Numba keeps nothing of a function without a file."""
    code = "def add(n):\n    return n + 1\nadd.__module__ = 'interleaf.typed'\nprint(jit.kernel(add)(1))"
    assert run(EAGER + code, tmp_path).stderr == f"{jit._EVERY_TIME}\n"
