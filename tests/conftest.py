"""Settings of the test run: where compiled kernels are kept, and how Hypothesis searches."""

import ast
import os
import tempfile
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from hypothesis import HealthCheck, settings

PACKAGE = Path(__file__).parent.parent / "src" / "interleaf"


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """The modules that a source file imports names from or imports whole."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def without_docstrings(tree: ast.Module) -> str:
    """The code of a file as text, without comments, docstrings and line numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
    return ast.dump(tree)


def digest_of_kernel_sources() -> str:
    """A digest of every file with a kernel and of the files it imports from.

    Numba recompiles a kernel when its own file changes. It does not notice a change in another file.
    """
    sources = {
        ".".join(("interleaf", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    with_kernels = {
        name: path
        for name, path in sources.items()
        if b"numba" in (text := path.read_bytes()) or b"interleaf.compiled" in text
    }
    trees = {name: ast.parse(path.read_bytes()) for name, path in with_kernels.items()}
    used = {module for tree in trees.values() for module in imported_modules(tree)} & sources.keys()
    trees |= {name: ast.parse(sources[name].read_bytes()) for name in used - trees.keys()}
    digest = blake2b(digest_size=8)
    for name, tree in sorted(trees.items()):
        digest.update(f"{name}\0{without_docstrings(tree)}\0".encode())
    return digest.hexdigest()


# Set before any test module imports numba, which reads it once.
os.environ["NUMBA_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / f"interleaf-numba-{digest_of_kernel_sources()}")

# Tests compare what commands write to standard error, and the first run compiles; test_compile_notice switches it on.
os.environ["INTERLEAF_COMPILE_NOTICE"] = "0"

settings.register_profile(
    "interleaf",
    deadline=None,  # the first call of a kernel compiles it
    derandomize="CI" in os.environ,
    max_examples=60,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("interleaf")
