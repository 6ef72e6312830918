"""A kernel that was compiled once is compiled again when its code changes, or code that it calls, and only then."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import config

from interleaf.kernels.code_digest import code_digest
from interleaf.kernels.jit import _CacheFile

KERNEL = '''
from toy.parts import RATE, double
from interleaf.kernels.jit import kernel

@kernel
def total(values):
    """Add up."""
    total = 0.0
    for value in values:
        total += double(value) * RATE
    return total
'''
PARTS = '''
from interleaf.kernels.jit import inline_kernel

RATE = 1.0

@inline_kernel
def half(value):
    return value / 2

@inline_kernel
def double(value):
    """Twice the value."""
    return half(value) * 4
'''
# Prints the result, and the names of the kernels that this process compiled.
RUN = """
import numpy as np
from numba.core import event
from toy.total import total

recorder = event.RecordingListener()
event.register("numba:compile", recorder)
print(total(np.ones(3)), *sorted({event.data["dispatcher"].py_func.__name__ for _, event in recorder.buffer}))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "total.py").write_text(KERNEL)
    (folder / "parts.py").write_text(PARTS)
    return folder


def run(package: Path, script: str = RUN, kernels: Path | None = None) -> str:
    """In a new process, with compiled kernels in a folder beside the package or another, and no compiled Python."""
    paths = os.pathsep.join([str(package.parent), *sys.path])
    environment = os.environ | {
        "PYTHONPATH": paths,
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(kernels or package.parent / "kernels"),
    }
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    return done.stdout.strip()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_a_kernel_is_compiled_again_for_code_in_whatever_file_and_not_for_docstrings_comments_lines_and_folders(
    package: Path, tmp_path: Path
) -> None:
    assert run(package) == "6.0 double half total"
    edit(package / "total.py", "    total = 0.0", "    # from nothing\n\n    total = 0.0")
    edit(package / "total.py", "Add up.", "Add up all values.")
    edit(package / "parts.py", "Twice the value.", "2 * value.")
    assert run(package) == "6.0"
    copy = shutil.copytree(package, tmp_path / "elsewhere" / "toy")
    assert run(copy, kernels=tmp_path / "kernels") == "6.0"
    for name, old, new, result in (
        ("total.py", "total = 0.0", "total = 1.0", "7.0"),
        ("parts.py", "RATE = 1.0", "RATE = 10.0", "61.0"),
        ("parts.py", "half(value) * 4", "half(value) * 8", "121.0"),
        ("parts.py", "value / 2", "value / 4", "61.0"),  # called by what the kernel calls
    ):
        edit(package / name, old, new)
        assert run(package).split()[0] == result, (name, new)
    assert run(copy, kernels=tmp_path / "kernels") == "6.0"  # the first version is still there


def test_two_processes_that_compile_at_once_do_not_overwrite_each_other_s_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(value: int) -> int:
        return value + 1

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    first, second = (_CacheFile(add, str(tmp_path / "module")) for _ in range(2))
    first.save("int64", "code for int64")
    with monkeypatch.context() as before:
        second._load_index()
        before.setattr(second, "_load_index", dict)  # the second one looked before the first one had saved
        second.save("float64", "code for float64")
    assert len(list((tmp_path / "interleaf").glob("*.nbc"))) == 2


def test_where_no_folder_can_be_shared_kernels_stay_where_numba_puts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module").mkdir()
    (tmp_path / "interleaf").touch()  # a file: no folder can be made
    for shared in ("", str(tmp_path / "elsewhere"), str(tmp_path)):
        monkeypatch.setattr(config, "CACHE_DIR", shared)
        file = _CacheFile(len, str(tmp_path / "module"))
        file.save("int64", "code for int64")
        assert file.load("int64") == "code for int64"  # type: ignore[no-untyped-call]
    assert len(list((tmp_path / "module").glob("*.nbc"))) == 1


def test_a_compiled_kernel_whose_argument_type_has_moved_is_compiled_again(package: Path) -> None:
    (package / "records.py").write_text(
        "from typing import Any, NamedTuple\n\nclass Sums(NamedTuple):\n    values: Any\n"
    )
    (package / "total.py").write_text(KERNEL.replace("in values:", "in values.values:"))
    script = RUN.replace("np.ones(3)", "Sums(np.ones(3))")
    assert run(package, "from toy.records import Sums\n" + script) == "6.0 double half total"
    (package / "records.py").rename(package / "moved.py")
    assert run(package, "from toy.moved import Sums\n" + script) == "6.0 double half total"


def test_the_digest_has_closures_nested_functions_and_classes() -> None:
    def scaled(factor: float) -> object:
        def inner(value: float) -> list[float]:
            return [factor * one for one in (value, value)]

        return inner

    digests = {code_digest(scaled(1.0)), code_digest(scaled(2.0)), code_digest(scaled)}  # type: ignore[arg-type]
    assert len(digests) == 3
    assert code_digest(scaled(2.0)) in digests  # type: ignore[arg-type]
